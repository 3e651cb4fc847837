/* tiny_training.c: see tiny_training.h. */
#include "tests/support/tiny_training.h"

#include <stdlib.h>
#include <string.h>

enum { MAX = 64 };

typedef struct build {
    sg_tiny tiny; /* first: freed as this */
    sg_op ops[MAX];
    sg_desc desc[MAX][8];
    sg_tensor tensors[MAX];
    sg_storage storages[MAX];
    int32_t args[256];
    sg_entry entries[2][MAX];
    sg_program programs[2];
    sg_parameter parameters[1];
    sg_input inputs[2];
    sg_module modules[2];
    sg_schedule_step steps[3];
    sg_block blocks[1];
} build;

static int32_t storage(build *b, uint64_t bytes, sg_role role, bool persistent) {
    sg_training *t = &b->tiny.training;
    b->storages[t->n_storages] = (sg_storage){.bytes = bytes, .role = (uint8_t)role, .persistent = persistent};
    return (int32_t)t->n_storages++;
}

static int32_t view(build *b, int32_t in_storage, sg_desc desc) {
    sg_training *t = &b->tiny.training;
    b->tensors[t->n_tensors] = (sg_tensor){.storage = in_storage, .desc = desc};
    return (int32_t)t->n_tensors++;
}

static int32_t tensor(build *b, sg_dtype dtype, int64_t rows, int64_t columns, sg_role role, bool persistent) {
    const int64_t size[2] = {rows, columns};
    sg_desc d = sg_desc_make(dtype, 2, size);
    return view(b, storage(b, sg_desc_span_bytes(&d), role, persistent), d);
}

static void entry(build *b, int program, sg_entry_kind kind, int32_t index, sg_pass pass) {
    sg_program *p = &b->programs[program];
    b->entries[program][p->n_entries++] =
        (sg_entry){.kind = (uint8_t)kind, .pass = (uint8_t)pass, .index = index, .module = pass == SG_PASS_FORWARD};
}

static void alloc(build *b, int32_t of, sg_pass pass) {
    entry(b, 1, SG_ENTRY_ALLOC, b->tensors[of].storage, pass);
}

static void release(build *b, int32_t of, sg_pass pass) {
    entry(b, 1, SG_ENTRY_FREE, b->tensors[of].storage, pass);
}

static void op(build *b, sg_op_kind kind, sg_attrs attrs, int n_in, int n_out, const int32_t *tensors, sg_pass pass) {
    sg_training *t = &b->tiny.training;
    sg_desc *desc = b->desc[t->n_ops];
    for (int i = 0; i < n_in + n_out; i++) desc[i] = b->tensors[tensors[i]].desc;
    b->ops[t->n_ops] =
        (sg_op){.kind = (int32_t)kind, .n_in = n_in, .n_out = n_out, .attrs = attrs, .desc = b->desc[t->n_ops]};
    if (sg_op_check(&b->ops[t->n_ops])) abort();
    entry(b, 1, SG_ENTRY_OP, (int32_t)t->n_ops++, pass);
    b->entries[1][b->programs[1].n_entries - 1].args = (uint32_t)t->n_args;
    memcpy(&b->args[t->n_args], tensors, (size_t)(n_in + n_out) * sizeof *tensors);
    t->n_args += (size_t)(n_in + n_out);
}

static void preprocess(build *b) {
    entry(b, 0, SG_ENTRY_MARK, SG_MARK_PREPROCESS, SG_PASS_PREPROCESS);
    entry(b, 0, SG_ENTRY_COPY, 0, SG_PASS_PREPROCESS);
    entry(b, 0, SG_ENTRY_COPY, 1, SG_PASS_PREPROCESS);
}

static void update(build *b, const sg_tiny_options *o) {
    sg_tiny *t = &b->tiny;
    int32_t x = t->x, dropped = -1;
    int32_t difference = tensor(b, SG_F32, o->batch, o->outputs, SG_ROLE_SAVED, false);
    int32_t square = tensor(b, SG_F32, o->batch, o->outputs, SG_ROLE_TEMPORARY, false);
    int32_t out_gradient = tensor(b, SG_F32, o->batch, o->outputs, SG_ROLE_TEMPORARY, false);
    double n = (double)(o->batch * o->outputs);

    entry(b, 1, SG_ENTRY_MARK, SG_MARK_FORWARD, SG_PASS_FORWARD);
    if (o->dropout) {
        dropped = tensor(b, SG_F32, o->batch, o->features, SG_ROLE_SAVED, false);
        t->mask = tensor(b, SG_BOOL, o->batch, o->features, SG_ROLE_SAVED, false);
        alloc(b, dropped, SG_PASS_FORWARD);
        alloc(b, t->mask, SG_PASS_FORWARD);
        op(b, SG_OP_DROPOUT, (sg_attrs){.alpha = 0.25, .flags = SG_PER_SAMPLE, .dim = 0, .sample_group = 1}, 1, 2,
           (int32_t[]){x, dropped, t->mask}, SG_PASS_FORWARD);
        release(b, t->mask, SG_PASS_FORWARD);
        x = dropped;
    }
    alloc(b, t->prediction, SG_PASS_FORWARD);
    op(b, SG_OP_MATMUL, (sg_attrs){.alpha = 1}, 2, 1, (int32_t[]){x, t->w, t->prediction}, SG_PASS_FORWARD);
    entry(b, 1, SG_ENTRY_VIEW, 0, SG_PASS_FORWARD);
    entry(b, 1, SG_ENTRY_VIEW, 0, SG_PASS_FORWARD);
    alloc(b, difference, SG_PASS_FORWARD);
    op(b, SG_OP_BINARY, (sg_attrs){.fn = SG_FN_SUB, .alpha = 1}, 2, 1, (int32_t[]){t->prediction, t->y, difference},
       SG_PASS_FORWARD);
    release(b, t->prediction, SG_PASS_FORWARD);
    alloc(b, square, SG_PASS_FORWARD);
    op(b, SG_OP_UNARY, (sg_attrs){.fn = SG_FN_SQUARE}, 1, 1, (int32_t[]){difference, square}, SG_PASS_FORWARD);
    alloc(b, t->loss, SG_PASS_FORWARD);
    op(b, SG_OP_REDUCE, (sg_attrs){.fn = SG_FN_MEAN, .dims_mask = 3}, 1, 1, (int32_t[]){square, t->loss},
       SG_PASS_FORWARD);
    release(b, square, SG_PASS_FORWARD);

    entry(b, 1, SG_ENTRY_MARK, SG_MARK_BACKWARD, SG_PASS_BACKWARD);
    alloc(b, out_gradient, SG_PASS_BACKWARD);
    op(b, SG_OP_UNARY, (sg_attrs){.fn = SG_FN_AFFINE, .alpha = 2 / n}, 1, 1, (int32_t[]){difference, out_gradient},
       SG_PASS_BACKWARD);
    release(b, difference, SG_PASS_BACKWARD);
    sg_desc transposed = b->tensors[x].desc;
    transposed.size[0] = o->features;
    transposed.size[1] = o->batch;
    transposed.stride[0] = 1;
    transposed.stride[1] = o->features;
    int32_t xt = view(b, b->tensors[x].storage, transposed);
    alloc(b, t->gradient, SG_PASS_BACKWARD);
    op(b, SG_OP_MATMUL, (sg_attrs){.alpha = 1}, 2, 1, (int32_t[]){xt, out_gradient, t->gradient}, SG_PASS_BACKWARD);
    if (dropped >= 0) release(b, dropped, SG_PASS_BACKWARD);
    release(b, out_gradient, SG_PASS_BACKWARD);
    if (o->sync) entry(b, 1, SG_ENTRY_GRAD_READY, 0, SG_PASS_BACKWARD);
    if (o->sync) entry(b, 1, SG_ENTRY_SYNC_GRADS, 0, SG_PASS_BACKWARD);

    entry(b, 1, SG_ENTRY_MARK, SG_MARK_OPTIMIZER, SG_PASS_OPTIMIZER);
    int32_t variance = tensor(b, SG_F32, o->features, o->outputs, SG_ROLE_OPTIMIZER, true);
    op(b, SG_OP_ADAMW,
       (sg_attrs){.count = 1, .flags = SG_IN_PLACE, .lr = o->lr, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}, 4, 3,
       (int32_t[]){t->w, t->gradient, t->exp_avg, variance, t->w, t->exp_avg, variance}, SG_PASS_OPTIMIZER);
    entry(b, 1, SG_ENTRY_MARK, SG_MARK_ZERO_GRAD, SG_PASS_OPTIMIZER);
    release(b, t->gradient, SG_PASS_OPTIMIZER);
    entry(b, 1, SG_ENTRY_WAIT, t->loss, SG_PASS_OPTIMIZER);
    release(b, t->loss, SG_PASS_OPTIMIZER);
    entry(b, 1, SG_ENTRY_MARK, SG_MARK_END, SG_PASS_OPTIMIZER);
}

sg_tiny *sg_tiny_new(const sg_tiny_options *o) {
    build *b = calloc(1, sizeof *b);
    if (!b) abort();
    sg_tiny *t = &b->tiny;
    t->mask = -1;
    t->x = tensor(b, SG_F32, o->batch, o->features, SG_ROLE_BATCH, true);
    t->y = tensor(b, SG_F32, o->batch, o->outputs, SG_ROLE_BATCH, true);
    t->w = tensor(b, SG_F32, o->features, o->outputs, SG_ROLE_WEIGHT, true);
    t->prediction = tensor(b, SG_F32, o->batch, o->outputs, SG_ROLE_TEMPORARY, false);
    t->loss = tensor(b, SG_F32, 1, 1, SG_ROLE_TEMPORARY, false);
    t->gradient = tensor(b, SG_F32, o->features, o->outputs, SG_ROLE_GRADIENT, false);
    t->exp_avg = tensor(b, SG_F32, o->features, o->outputs, SG_ROLE_OPTIMIZER, true);
    t->update = 1;
    preprocess(b);
    update(b, o);
    b->programs[0].name = "preprocess";
    b->programs[1].name = "update";
    b->programs[1].ends_optimizer_step = true;
    for (int i = 0; i < 2; i++) b->programs[i].entries = b->entries[i];
    b->parameters[0] = (sg_parameter){.name = "w",
                                      .tensor = t->w,
                                      .gradient = t->gradient,
                                      .state = {t->exp_avg, -1},
                                      .trainable = 1,
                                      .init_kind = SG_INIT_UNIFORM,
                                      .init_scale = 0.5};
    b->inputs[0] = (sg_input){.name = "x", .tensor = t->x, .source = SG_INPUT_UNIFORM, .low = -1, .high = 1};
    b->inputs[1] = (sg_input){.name = "y", .tensor = t->y, .source = SG_INPUT_UNIFORM, .low = 0, .high = 2};
    b->modules[0] = (sg_module){.name = "", .parent = -1};
    b->modules[1] = (sg_module){.name = "linear", .parent = 0};
    b->steps[0] = (sg_schedule_step){.kind = SG_STEP_LOADER};
    b->steps[1] = (sg_schedule_step){.kind = SG_STEP_PROGRAM, .index = 0};
    b->steps[2] = (sg_schedule_step){.kind = SG_STEP_PROGRAM, .index = 1};
    b->blocks[0] = (sg_block){.name = "step", .repeat = 1, .steps = b->steps, .n_steps = 3};
    sg_training *r = &t->training;
    r->policy = "tiny";
    r->framework = "pytorch-eager";
    r->batch = o->batch;
    r->accumulation = r->optimizer_steps = 1;
    r->loss = t->loss;
    r->ops = b->ops;
    r->tensors = b->tensors;
    r->storages = b->storages;
    r->args = b->args;
    r->parameters = b->parameters;
    r->n_parameters = 1;
    r->inputs = b->inputs;
    r->n_inputs = 2;
    r->modules = b->modules;
    r->n_modules = 2;
    r->programs = b->programs;
    r->n_programs = 2;
    r->blocks = b->blocks;
    r->n_blocks = 1;
    return t;
}

void sg_tiny_free(sg_tiny *tiny) {
    free(tiny);
}
