/* walk_compile.c: from the entries of a training to instructions, and from its unique ops to plans.
 *
 * Everything that a wrong table could break later is checked here once: indices, and that every argument of an op lies
 * inside its storage. */
#include <stdlib.h>
#include <string.h>

#include "sim/walk/walk_internal.h"

static const uint64_t FNV_PRIME = 0x100000001b3u, FNV_START = 0xcbf29ce484222325u;

static uint64_t visit_of(size_t program, size_t entry, const sg_entry *e) {
    const uint64_t part[4] = {program, entry, e->kind, (uint64_t)(uint32_t)e->index};
    uint64_t h = FNV_START;
    for (int i = 0; i < 4; i++) h = (h ^ part[i]) * FNV_PRIME;
    return h;
}

static bool index_in_range(const sg_training *t, const sg_entry *e) {
    size_t limit;
    switch (e->kind) {
    case SG_ENTRY_OP: limit = t->n_ops; break;
    case SG_ENTRY_ALLOC:
    case SG_ENTRY_FREE: limit = t->n_storages; break;
    case SG_ENTRY_COPY: limit = t->n_inputs; break;
    case SG_ENTRY_GRAD_READY: limit = t->n_parameters; break;
    case SG_ENTRY_MARK: limit = SG_MARK_COUNT; break;
    case SG_ENTRY_GATHER:
    case SG_ENTRY_SCATTER:
    case SG_ENTRY_REDUCE:
    case SG_ENTRY_JOIN: limit = t->n_collectives > 0 ? (size_t)t->n_collectives : 0; break;
    default: return true;
    }
    return e->index >= 0 && (size_t)e->index < limit;
}

static sg_code check_tensor(const sg_training *t, int32_t tensor, sg_status *status) {
    if (tensor < 0 || (size_t)tensor >= t->n_tensors)
        return sg_fail(status, SG_BAD_INPUT, "tensor %d of %zu", tensor, t->n_tensors);
    const sg_tensor *x = &t->tensors[tensor];
    if (x->storage < 0 || (size_t)x->storage >= t->n_storages)
        return sg_fail(status, SG_BAD_INPUT, "tensor %d lies in storage %d of %zu", tensor, x->storage, t->n_storages);
    uint64_t end;
    if (x->offset_bytes < 0 || __builtin_add_overflow((uint64_t)x->offset_bytes, sg_desc_span_bytes(&x->desc), &end) ||
        end > t->storages[x->storage].bytes)
        return sg_fail(status, SG_BAD_INPUT, "tensor %d reaches past the end of storage %d", tensor, x->storage);
    return SG_OK;
}

static sg_code check_tables(const sg_training *t, sg_status *status) {
    for (size_t i = 0; i < t->n_tensors; i++) {
        sg_code code = check_tensor(t, (int32_t)i, status);
        if (code) return code;
    }
    for (size_t i = 0; i < t->n_args; i++)
        if (t->args[i] < 0 || (size_t)t->args[i] >= t->n_tensors)
            return sg_fail(status, SG_BAD_INPUT, "argument %zu is tensor %d of %zu", i, t->args[i], t->n_tensors);
    for (size_t i = 0; i < t->n_storages; i++)
        if (t->storages[i].role >= SG_ROLE_COUNT)
            return sg_fail(status, SG_BAD_INPUT, "storage %zu has role %d of %d", i, t->storages[i].role,
                           SG_ROLE_COUNT);
    for (size_t i = 0; i < t->n_inputs; i++)
        if (t->inputs[i].tensor < 0 || (size_t)t->inputs[i].tensor >= t->n_tensors)
            return sg_fail(status, SG_BAD_INPUT, "input %s is tensor %d of %zu", t->inputs[i].name, t->inputs[i].tensor,
                           t->n_tensors);
    for (size_t i = 0; i < t->n_parameters; i++)
        if (t->parameters[i].tensor < 0 || (size_t)t->parameters[i].tensor >= t->n_tensors)
            return sg_fail(status, SG_BAD_INPUT, "parameter %s is tensor %d of %zu", t->parameters[i].name,
                           t->parameters[i].tensor, t->n_tensors);
    for (size_t i = 0; i < t->n_blocks; i++)
        for (size_t k = 0; k < t->blocks[i].n_steps; k++) {
            const sg_schedule_step *s = &t->blocks[i].steps[k];
            if (s->kind == SG_STEP_PROGRAM && (s->index < 0 || (size_t)s->index >= t->n_programs))
                return sg_fail(status, SG_BAD_INPUT, "block %s runs program %d of %zu", t->blocks[i].name, s->index,
                               t->n_programs);
        }
    return SG_OK;
}

static sg_host_class host_class_of(const sg_entry *e) {
    bool view = e->kind == SG_ENTRY_VIEW;
    if (e->pass == SG_PASS_BACKWARD) return view ? SG_HOST_VIEW_BACKWARD : SG_HOST_OP_BACKWARD;
    return view ? SG_HOST_VIEW_FORWARD : SG_HOST_OP_FORWARD;
}

/* Samples of this rank in a per-sample op: the size of its batch dim over the elements that belong to one sample. */
static int64_t samples_of(const sg_op *op) {
    if (!(op->attrs.flags & SG_PER_SAMPLE)) return 0;
    const sg_desc *d = &op->desc[op->n_in]; /* the first output */
    if (op->attrs.dim < 0 || op->attrs.dim >= d->ndim) return 0;
    int64_t group = op->attrs.sample_group > 0 ? op->attrs.sample_group : 1;
    return d->size[op->attrs.dim] / group;
}

static bool counts_steps(const sg_op *op) {
    return op->kind == SG_OP_ADAMW || (op->attrs.flags & (SG_STEP_SIZE | SG_STEP_SQRT)) != 0;
}

static bool uses_state(const sg_walker *w, const sg_entry *e) {
    if (e->kind == SG_ENTRY_MARK) return e->index == SG_MARK_OPTIMIZER;
    if (e->kind != SG_ENTRY_OP) return false;
    const sg_training *t = w->training;
    const sg_op *op = &t->ops[e->index];
    for (int k = 0; k < op->n_in + op->n_out; k++) {
        const sg_storage *s = &t->storages[w->arguments[e->args + (uint32_t)k].storage];
        if (s->persistent && s->role == SG_ROLE_OPTIMIZER) return true;
    }
    return false;
}

static sg_code compile_op(sg_walker *w, const sg_entry *e, sg_instruction *in, sg_status *status) {
    const sg_training *t = w->training;
    const sg_op *op = &t->ops[e->index];
    if (op->n_in < 0 || op->n_out < 0 || e->args > t->n_args ||
        (size_t)op->n_in + (size_t)op->n_out > t->n_args - e->args)
        return sg_fail(status, SG_BAD_INPUT, "its arguments reach past the table's end");
    for (int k = 0; k < op->n_in + op->n_out; k++) {
        const sg_tensor *x = &t->tensors[t->args[e->args + (uint32_t)k]];
        if (memcmp(&op->desc[k], &x->desc, sizeof x->desc) == 0) continue; /* as it mostly is */
        if (sg_desc_span_bytes(&op->desc[k]) > sg_desc_span_bytes(&x->desc))
            return sg_fail(status, SG_BAD_INPUT, "argument %d is smaller than the op says", k);
    }
    in->first = e->args;
    in->n_args = (uint32_t)(op->n_in + op->n_out);
    in->samples = samples_of(op);
    in->optimizer_step = counts_steps(op);
    return SG_OK;
}

/* Random ops are told apart by their order in the program, not by their place in it: two lowerings of one policy, which
 * differ in everything between, draw the same noise. */
static bool draws(const sg_training *t, const sg_entry *e) {
    return e->kind == SG_ENTRY_OP && (t->ops[e->index].kind == SG_OP_RANDOM || t->ops[e->index].kind == SG_OP_DROPOUT);
}

static sg_code compile_entry(sg_walker *w, size_t program, size_t entry, sg_instruction *in, sg_status *status) {
    static const uint8_t kind_of[] = {
        [SG_ENTRY_OP] = SG_RUN_OP,         [SG_ENTRY_VIEW] = SG_RUN_HOST,        [SG_ENTRY_ALLOC] = SG_RUN_ALLOC,
        [SG_ENTRY_FREE] = SG_RUN_FREE,     [SG_ENTRY_WAIT] = SG_RUN_WAIT,        [SG_ENTRY_COPY] = SG_RUN_COPY,
        [SG_ENTRY_MARK] = SG_RUN_MARK,     [SG_ENTRY_GRAD_READY] = SG_RUN_READY, [SG_ENTRY_SYNC_GRADS] = SG_RUN_SYNC,
        [SG_ENTRY_GATHER] = SG_RUN_GATHER, [SG_ENTRY_SCATTER] = SG_RUN_SCATTER,  [SG_ENTRY_REDUCE] = SG_RUN_REDUCE,
        [SG_ENTRY_JOIN] = SG_RUN_JOIN};
    const sg_entry *e = &w->training->programs[program].entries[entry];
    if (e->kind > SG_ENTRY_JOIN || !index_in_range(w->training, e))
        return sg_fail(status, SG_BAD_INPUT, "kind %d with index %d", e->kind, e->index);
    *in = (sg_instruction){
        .kind = kind_of[e->kind], .index = e->index, .entry = (int32_t)entry, .visit = visit_of(program, entry, e)};
    if ((e->kind == SG_ENTRY_ALLOC || e->kind == SG_ENTRY_FREE) && w->training->storages[e->index].persistent)
        return sg_fail(status, SG_BAD_INPUT, "storage %d persists, so it has no lifetime", e->index);
    if (e->kind == SG_ENTRY_COPY) w->travels[e->index] = true;
    if (e->kind == SG_ENTRY_OP || e->kind == SG_ENTRY_VIEW) {
        in->host_class = (uint8_t)host_class_of(e);
        in->host_count = e->flags & SG_ENTRY_SAME_DISPATCH ? 0 : 1;
    }
    if (e->kind >= SG_ENTRY_GATHER) {
        if (w->training->n_args < 2 || e->args > w->training->n_args - 2)
            return sg_fail(status, SG_BAD_INPUT, "its arguments reach past the table's end");
        in->first = e->args;
        in->n_args = 2;
        in->host_class = (uint8_t)host_class_of(e);
        in->host_count = e->kind != SG_ENTRY_JOIN;
    }
    return e->kind == SG_ENTRY_OP ? compile_op(w, e, in, status) : SG_OK;
}

static sg_code compile_program(sg_walker *w, size_t program, sg_status *status) {
    const sg_program *p = &w->training->programs[program];
    sg_compiled *c = &w->programs[program];
    c->code = calloc(p->n_entries + 2, sizeof *c->code);
    if (!c->code) {
        (void)sg_fail_memory(status, (p->n_entries + 2) * sizeof *c->code, "a compiled program");
        return SG_MACHINE;
    }
    bool state = false;
    uint64_t drawn = 0;
    for (size_t i = 0; i < p->n_entries; i++) {
        sg_instruction in = {0};
        sg_code code = compile_entry(w, program, i, &in, status);
        if (code) return sg_fail_in(status, "program %s, entry %zu", p->name, i);
        if (draws(w->training, &p->entries[i])) {
            bool again = (p->entries[i].flags & SG_ENTRY_DRAWS_AGAIN) != 0;
            in.salt = (uint64_t)program << 48 | (again ? p->entries[i].draw : drawn++) << 20;
        }
        if (!state && uses_state(w, &p->entries[i])) {
            state = true;
            c->code[c->n++] = (sg_instruction){.kind = SG_RUN_BIRTH, .entry = (int32_t)i};
        }
        sg_instruction *last = c->n ? &c->code[c->n - 1] : NULL;
        if (in.kind == SG_RUN_HOST && last && last->kind == SG_RUN_HOST && last->host_class == in.host_class) {
            last->host_count += in.host_count;
            last->visit = (last->visit ^ in.visit) * FNV_PRIME;
        } else {
            c->code[c->n++] = in;
        }
    }
    return SG_OK;
}

sg_code sg_walk_compile(sg_walker *w, sg_status *status) {
    const sg_training *t = w->training;
    sg_code code = check_tables(t, status);
    if (code) return code;
    size_t arity = 2;
    for (size_t i = 0; i < t->n_ops; i++) {
        size_t n =
            (size_t)(t->ops[i].n_in < 0 ? 0 : t->ops[i].n_in) + (size_t)(t->ops[i].n_out < 0 ? 0 : t->ops[i].n_out);
        if (n > arity) arity = n;
    }
    w->programs = calloc(t->n_programs + 1, sizeof *w->programs);
    w->arguments = calloc(t->n_args + 1, sizeof *w->arguments);
    w->live = calloc(t->n_storages + 1, sizeof *w->live);
    w->travels = calloc(t->n_inputs + 1, sizeof *w->travels);
    w->pointers = calloc(arity, sizeof *w->pointers);
    if (!w->programs || !w->arguments || !w->live || !w->travels || !w->pointers)
        return sg_fail_memory(status, t->n_args * sizeof *w->arguments + t->n_storages * sizeof *w->live,
                              "the walker's tables");
    for (size_t i = 0; i < t->n_args; i++) {
        const sg_tensor *x = &t->tensors[t->args[i]];
        w->arguments[i] = (sg_argument){.offset_bytes = x->offset_bytes, .storage = x->storage};
    }
    for (size_t i = 0; i < t->n_parameters && !t->n_shards; i++) w->updated += t->parameters[i].gradient >= 0;
    for (size_t i = 0; i < t->n_shards; i++) w->updated += t->shards[i].gradient >= 0;
    for (size_t i = 0; i < t->n_programs; i++)
        if ((code = compile_program(w, i, status))) return code;
    return SG_OK;
}

/* A test's learning rate goes wherever a rate stands: in fused ops, and in factors 1 - lr x weight_decay. */
static void override_rate(sg_op *op, double lr) {
    if (!(op->attrs.lr > 0)) return;
    bool sgd = (op->kind == SG_OP_FOREACH || op->kind == SG_OP_BINARY) && op->attrs.fn == SG_FN_ADD;
    if (sgd) op->attrs.alpha = -lr;
    if (op->kind != SG_OP_ADAMW && !(op->attrs.flags & (SG_STEP_SIZE | SG_STEP_SQRT)) && op->attrs.weight_decay > 0)
        op->attrs.alpha = 1 - lr * op->attrs.weight_decay;
    op->attrs.lr = lr;
}

sg_code sg_walk_prepare(sg_walker *w, sg_status *status) {
    const sg_training *t = w->training;
    w->n_ops = t->n_ops + (size_t)w->buckets.n_ops;
    w->ops = calloc(w->n_ops + 1, sizeof *w->ops);
    w->plans = calloc(w->n_ops + 1, sizeof(sg_plan *));
    if (!w->ops || !w->plans) return sg_fail_memory(status, w->n_ops * sizeof *w->ops, "the ops to prepare");
    if (t->n_ops) memcpy(w->ops, t->ops, t->n_ops * sizeof *w->ops);
    if (w->buckets.n_ops) memcpy(w->ops + t->n_ops, w->buckets.ops, (size_t)w->buckets.n_ops * sizeof *w->ops);
    if (w->options.learning_rate > 0)
        for (size_t i = 0; i < t->n_ops; i++) override_rate(&w->ops[i], w->options.learning_rate);
    sg_code code = w->api->prepare(w->device, w->ops, w->n_ops, w->plans, status);
    if (code) return sg_fail_in(status, "preparing %zu ops of %s", w->n_ops, t->policy);
    w->prepared = true;
    for (size_t i = 0; i < w->n_ops; i++) {
        uint64_t bytes = w->api->plan_workspace_bytes(w->plans[i]);
        if (bytes > w->workspace_bytes) w->workspace_bytes = bytes;
    }
    if (!w->workspace_bytes) return SG_OK;
    code = w->api->segment_alloc(w->device, w->workspace_bytes, &w->workspace, status);
    if (code) w->workspace = NULL;
    return code ? sg_fail_in(status, "workspace of %.1f MiB", (double)w->workspace_bytes / 0x1p20) : SG_OK;
}
