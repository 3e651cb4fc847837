/* inspect: what a training step is, without any hardware: counts, modules, memory plan, operations. */
#include "calibration/plan/memory_plan.h"
#include "cli/commands.h"
#include "cli/request.h"
#include "cli/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const pass_name[] = {"preprocess", "forward", "backward", "optimizer"};
static const char *const role_name[] = {"weights", "optimizer state",    "gradients",
                                        "batch",   "saved for backward", "temporaries"};

typedef struct inspection {
    const sg_training *training;
    size_t main;
    sg_counts counts;
    sg_module_counts *modules;
    sg_memory_peak peak;
    char peak_at[160];
} inspection;

static void describe_peak(inspection *in) {
    const sg_training *t = in->training;
    const sg_memory_peak *p = &in->peak;
    if (p->program < 0 || (size_t)p->program >= t->n_programs || p->entry < 0) {
        (void)snprintf(in->peak_at, sizeof in->peak_at, "before the first program");
        return;
    }
    const char *module = p->module >= 0 && (size_t)p->module < t->n_modules ? t->modules[p->module].name : "";
    (void)snprintf(in->peak_at, sizeof in->peak_at, "%s of program %s, entry %lld%s%s",
                   p->pass < SG_PASS_COUNT ? pass_name[p->pass] : "?", t->programs[p->program].name,
                   (long long)p->entry, module[0] ? ", " : "", module);
}

static sg_code inspect(const sg_training *training, bool caching, inspection *in, sg_status *status) {
    in->training = training;
    in->main = sg_main_program(training);
    in->counts = sg_count_program(training, in->main);
    for (size_t p = 0; p < training->n_programs; p++) {
        sg_pass_counts *into = &in->counts.pass[SG_PASS_PREPROCESS];
        if (p == in->main) continue;
        sg_pass_counts more = sg_count_program(training, p).pass[SG_PASS_PREPROCESS];
        into->ops += more.ops;
        into->launches += more.launches;
        into->views += more.views;
        into->flops += more.flops;
        into->bytes += more.bytes;
    }
    in->modules = calloc(training->n_modules ? training->n_modules : 1, sizeof *in->modules);
    if (!in->modules) return sg_fail_memory(status, training->n_modules * sizeof *in->modules, "module counts");
    sg_count_modules(training, in->main, in->modules);
    sg_code code = sg_memory_plan(training, caching, &in->peak, status);
    if (code == SG_OK) describe_peak(in);
    return code;
}

/* Which modes form the products of a family of classes: "tf32", "bf16 + tf32"; "none". */
static void describe_products(const sg_training *t, sg_op_class first, sg_op_class last, char *text, size_t bytes) {
    static const char *const mode[SG_COMPUTE_COUNT] = {"fp32", "tf32", "bf16", "fp16", "fp64"};
    bool seen[SG_COMPUTE_COUNT] = {false}, any = false;
    for (size_t i = 0; i < t->n_ops; i++) {
        sg_op_class cls = sg_op_class_of(&t->ops[i]);
        if (cls >= first && cls <= last) seen[t->ops[i].attrs.compute] = true;
    }
    text[0] = '\0';
    for (int i = 0; i < SG_COMPUTE_COUNT; i++) {
        size_t length = strlen(text);
        if (seen[i]) (void)snprintf(text + length, bytes - length, "%s%s", any ? " + " : "", mode[i]);
        any = any || seen[i];
    }
    if (!any) (void)snprintf(text, bytes, "none");
}

static json_t *json_modules(const inspection *in) {
    json_t *list = json_array();
    double batch = (double)in->training->batch;
    for (size_t i = 0; i < in->training->n_modules; i++) {
        const sg_module_counts *m = &in->modules[i];
        double flops = m->forward_flops + m->backward_flops, bytes = m->forward_bytes + m->backward_bytes;
        (void)json_array_append_new(
            list, json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:I}", "name", in->training->modules[i].name,
                            "parameters", (json_int_t)m->parameters, "trainable", (json_int_t)m->trainable,
                            "forward_flops_per_sample", m->forward_flops / batch, "backward_flops_per_sample",
                            m->backward_flops / batch, "forward_bytes_per_sample", m->forward_bytes / batch,
                            "backward_bytes_per_sample", m->backward_bytes / batch, "arithmetic_intensity",
                            bytes > 0 ? flops / bytes : 0.0, "forward_ops", (json_int_t)m->forward_ops, "backward_ops",
                            (json_int_t)m->backward_ops));
    }
    return list;
}

static json_t *json_ops(const inspection *in);

static int print_json(const inspection *in, bool ops) {
    const sg_training *t = in->training;
    const sg_counts *c = &in->counts;
    const sg_pass_counts *f = &c->pass[SG_PASS_FORWARD], *b = &c->pass[SG_PASS_BACKWARD],
                         *o = &c->pass[SG_PASS_OPTIMIZER];
    double batch = (double)t->batch;
    json_t *by_role = json_object();
    for (int i = 0; i < SG_ROLE_COUNT; i++)
        (void)json_object_set_new(by_role, role_name[i], json_integer((json_int_t)in->peak.by_role[i]));
    json_t *object = json_pack(
        "{s:s, s:s, s:I, s:{s:I, s:I, s:I, s:I, s:I}, s:{s:f, s:f}, s:{s:f, s:f}, s:f}", "policy", t->policy,
        "framework", t->framework, "batch", (json_int_t)t->batch, "parameters", "total", (json_int_t)c->parameters,
        "trainable", (json_int_t)c->trainable, "frozen", (json_int_t)(c->parameters - c->trainable), "tensors",
        (json_int_t)c->tensors, "trainable_tensors", (json_int_t)c->trainable_tensors, "flops_per_sample", "forward",
        f->flops / batch, "backward", b->flops / batch, "bytes_per_sample", "forward", f->bytes / batch, "backward",
        b->bytes / batch, "saved_bytes_per_sample", (double)c->saved_bytes / batch);
    json_t *counts =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "forward", (json_int_t)f->ops, "backward",
                  (json_int_t)b->ops, "views_forward", (json_int_t)f->views, "views_backward", (json_int_t)b->views,
                  "optimizer", (json_int_t)o->ops, "launches_forward", (json_int_t)f->launches, "launches_backward",
                  (json_int_t)b->launches, "blocking_reads", (json_int_t)c->waits);
    json_t *memory =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:s, s:o}", "weights_bytes", (json_int_t)c->weights_bytes,
                  "gradients_bytes", (json_int_t)c->gradients_bytes, "optimizer_bytes", (json_int_t)c->optimizer_bytes,
                  "peak_allocated_bytes", (json_int_t)in->peak.allocated_bytes, "peak_reserved_bytes",
                  (json_int_t)in->peak.reserved_bytes, "peak_at", in->peak_at, "peak_by_role", by_role);
    char products[2][48];
    describe_products(t, SG_CLASS_GEMM, SG_CLASS_BMM, products[0], sizeof products[0]);
    describe_products(t, SG_CLASS_CONV, SG_CLASS_CONV_BWD_WEIGHTS, products[1], sizeof products[1]);
    (void)json_object_set_new(object, "products",
                              json_pack("{s:s, s:s}", "matmul", products[0], "convolution", products[1]));
    (void)json_object_set_new(object, "ops", counts);
    (void)json_object_set_new(object, "memory", memory);
    (void)json_object_set_new(object, "modules", json_modules(in));
    if (ops) (void)json_object_set_new(object, "program", json_ops(in));
    return sg_json_print(object, SG_OK);
}

static void print_counts(const inspection *in) {
    const sg_training *t = in->training;
    const sg_counts *c = &in->counts;
    double batch = (double)t->batch;
    printf("%s as %s, batch %lld", t->policy, t->framework, (long long)t->batch);
    if (t->cameras > 0)
        printf(", %lld camera%s %lldx%lld", (long long)t->cameras, t->cameras == 1 ? "" : "s",
               (long long)t->image_height, (long long)t->image_width);
    printf("\n\nParameters: %s total, %s trainable, %s frozen, in %s tensors\n\n", sg_show_count(c->parameters).s,
           sg_show_count(c->trainable).s, sg_show_count(c->parameters - c->trainable).s, sg_show_count(c->tensors).s);
    const char *const header[] = {"pass", "ops", "views", "kernels", "per sample", "bytes per sample", "FLOP/byte"};
    sg_table *table = sg_table_new(7, header);
    for (int p = 0; p < SG_PASS_COUNT; p++) {
        const sg_pass_counts *q = &c->pass[p];
        char intensity[32];
        (void)snprintf(intensity, sizeof intensity, "%.3g", q->bytes > 0 ? q->flops / q->bytes : 0.0);
        sg_text ops = sg_show_count(q->ops), views = sg_show_count(q->views), launches = sg_show_count(q->launches);
        sg_text flops = sg_show_si(q->flops / batch, "FLOP"), bytes = sg_show_bytes(q->bytes / batch);
        const char *const row[] = {pass_name[p], ops.s, views.s, launches.s, flops.s, bytes.s, intensity};
        sg_table_row(table, row);
    }
    sg_table_print(table);
    char products[2][48];
    describe_products(t, SG_CLASS_GEMM, SG_CLASS_BMM, products[0], sizeof products[0]);
    describe_products(t, SG_CLASS_CONV, SG_CLASS_CONV_BWD_WEIGHTS, products[1], sizeof products[1]);
    printf("\n  Matrix products in %s, convolutions in %s.", products[0], products[1]);
    printf("\n  Saved for backward: %s per sample. Blocking reads per step: %lld.\n",
           sg_show_bytes((double)c->saved_bytes / batch).s, (long long)c->waits);
}

static void print_memory(const inspection *in) {
    printf("\nMemory plan\n");
    for (int i = 0; i < SG_ROLE_COUNT; i++)
        printf("  %-20s %12s at the peak\n", role_name[i], sg_show_bytes((double)in->peak.by_role[i]).s);
    printf("  %-20s %12s allocated, %s reserved\n", "peak", sg_show_bytes((double)in->peak.allocated_bytes).s,
           sg_show_bytes((double)in->peak.reserved_bytes).s);
    printf("  %-20s in the %s\n", "", in->peak_at);
}

static int depth_of(const sg_training *t, size_t module) {
    int depth = 0;
    for (int32_t m = t->modules[module].parent; m >= 0 && depth < 64; m = t->modules[m].parent) depth++;
    return depth;
}

/* Two levels tell where the work is; --json has all. */
static void print_modules(const inspection *in) {
    const sg_training *t = in->training;
    printf("\nModules\n");
    const char *const header[] = {"module", "parameters", "forward", "backward", "bytes f+b", "FLOP/byte"};
    sg_table *table = sg_table_new(6, header);
    for (size_t i = 0; i < t->n_modules; i++) {
        const sg_module_counts *m = &in->modules[i];
        if (depth_of(t, i) > 2) continue;
        double batch = (double)t->batch, bytes = m->forward_bytes + m->backward_bytes;
        char intensity[32];
        (void)snprintf(intensity, sizeof intensity, "%.3g",
                       bytes > 0 ? (m->forward_flops + m->backward_flops) / bytes : 0.0);
        sg_text parameters = sg_show_count(m->parameters), forward = sg_show_si(m->forward_flops / batch, "FLOP");
        sg_text backward = sg_show_si(m->backward_flops / batch, "FLOP"), moved = sg_show_bytes(bytes / batch);
        const char *const row[] = {t->modules[i].name[0] ? t->modules[i].name : "(all)",
                                   parameters.s,
                                   forward.s,
                                   backward.s,
                                   moved.s,
                                   intensity};
        sg_table_row(table, row);
    }
    sg_table_print(table);
}

static const char *entry_word(const sg_training *t, const sg_entry *e) {
    static const char *const word[] = {"op",   "view",       "alloc",      "free", "wait",
                                       "copy", "grad-ready", "sync-grads", "mark"};
    if (e->kind == SG_ENTRY_OP) return sg_op_kind_name((sg_op_kind)t->ops[e->index].kind);
    return word[e->kind];
}

/* "f32[8,512]" of a tensor. */
static void shape_text(const sg_training *t, int32_t tensor, char *out, size_t room) {
    const sg_desc *d = &t->tensors[tensor].desc;
    int n = snprintf(out, room, "%s[", sg_dtype_name((sg_dtype)d->dtype));
    for (int i = 0; i < d->ndim && n > 0 && (size_t)n < room; i++)
        n += snprintf(out + n, room - (size_t)n, "%s%lld", i ? "," : "", (long long)d->size[i]);
    if (n > 0 && (size_t)n < room) (void)snprintf(out + n, room - (size_t)n, "]");
}

static void entry_shapes(const sg_training *t, const sg_entry *e, char *out, size_t room) {
    out[0] = '\0';
    if (e->kind != SG_ENTRY_OP) return;
    const sg_op *op = &t->ops[e->index];
    int shown = op->n_in + op->n_out > 8 ? 4 : op->n_in + op->n_out;
    size_t n = 0;
    for (int i = 0; i < shown && n + 1 < room; i++) {
        char shape[80];
        shape_text(t, t->args[e->args + (uint32_t)i], shape, sizeof shape);
        int k = snprintf(out + n, room - n, "%s%s", i == op->n_in ? " -> " : i ? " " : "", shape);
        if (k > 0) n += (size_t)k;
    }
    if (shown < op->n_in + op->n_out && n + 1 < room)
        (void)snprintf(out + n, room - n, " ... (%d inputs, %d outputs)", op->n_in, op->n_out);
}

static const char *module_name(const sg_training *t, const sg_entry *e) {
    return e->module >= 0 && (size_t)e->module < t->n_modules ? t->modules[e->module].name : "";
}

static json_t *json_ops(const inspection *in) {
    json_t *list = json_array();
    const sg_training *t = in->training;
    for (size_t p = 0; p < t->n_programs; p++)
        for (size_t i = 0; i < t->programs[p].n_entries; i++) {
            const sg_entry *e = &t->programs[p].entries[i];
            char shapes[512];
            entry_shapes(t, e, shapes, sizeof shapes);
            const sg_op *op = e->kind == SG_ENTRY_OP ? &t->ops[e->index] : NULL;
            sg_cost cost = op ? sg_op_cost(op) : (sg_cost){0};
            (void)json_array_append_new(
                list, json_pack("{s:s, s:I, s:s, s:s, s:s, s:s, s:s, s:f, s:f}", "program", t->programs[p].name,
                                "entry", (json_int_t)i, "pass", pass_name[e->pass], "kind", entry_word(t, e),
                                "function", op ? sg_fn_name((sg_fn)op->attrs.fn) : "", "module", module_name(t, e),
                                "shapes", shapes, "flops", cost.flops, "bytes", cost.bytes_read + cost.bytes_written));
        }
    return list;
}

static void print_ops(const inspection *in) {
    const sg_training *t = in->training;
    for (size_t p = 0; p < t->n_programs; p++) {
        printf("\nProgram %s\n", t->programs[p].name);
        for (size_t i = 0; i < t->programs[p].n_entries; i++) {
            const sg_entry *e = &t->programs[p].entries[i];
            char shapes[512];
            entry_shapes(t, e, shapes, sizeof shapes);
            const char *fn = e->kind == SG_ENTRY_OP && t->ops[e->index].attrs.fn != SG_FN_NONE
                                 ? sg_fn_name((sg_fn)t->ops[e->index].attrs.fn)
                                 : "";
            printf("  %6zu  %-10s %-17s %-13s %-44s %s\n", i, pass_name[e->pass], entry_word(t, e), fn,
                   module_name(t, e), shapes);
        }
    }
}

int sg_cmd_inspect(const sg_args *args) {
    sg_status status;
    sg_request request;
    /* A GPU is what people train on: its allocator and its dispatch decide what is shown unless asked otherwise. */
    sg_device_class device_class =
        args->device && strcmp(args->device, "cpu") == 0 ? SG_DEVICE_CLASS_CPU : SG_DEVICE_CLASS_CUDA;
    if (args->batch.n > 1) {
        (void)sg_fail(&status, SG_BAD_INPUT, "inspect takes one batch at a time: --batch %lld",
                      (long long)args->batch.value[0]);
        return sg_show_error(args, &status);
    }
    if (sg_request_make(args, device_class, &request, &status) != SG_OK) return sg_show_error(args, &status);
    sg_training *training = NULL;
    inspection in = {0};
    sg_code code = sg_policy_build(&request.policy, &training, &status);
    if (code == SG_OK) code = inspect(training, device_class == SG_DEVICE_CLASS_CUDA, &in, &status);
    int result;
    if (code != SG_OK)
        result = sg_show_error(args, &status);
    else if (args->json)
        result = print_json(&in, args->ops);
    else {
        print_counts(&in);
        print_memory(&in);
        print_modules(&in);
        if (args->ops) print_ops(&in);
        result = SG_OK;
    }
    free(in.modules);
    sg_training_free(training);
    sg_request_clear(&request);
    return result;
}
