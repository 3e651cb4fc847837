/* verify.c: is a training sound? Tables first, then its programs are gone through in the order of the schedule. */
#include "models/training.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct walk {
    const sg_training *t;
    sg_status *status;
    uint8_t *live, *written; /* per storage */
    uint64_t *overwritten;   /* per storage: when an in-place op made its older tensors stale */
    uint64_t *made;          /* per tensor: when it was made */
    uint8_t *pending;        /* per slot of collectives: begun and not joined */
    uint32_t *busy;          /* per storage: collectives that use it */
    uint32_t *ready;         /* per parameter: times its gradient became ready since the last optimizer step */
    uint64_t *span;          /* bytes that each operand of each unique op spans */
    size_t *spans;           /* per unique op: first of its spans */
    uint64_t now;
    const char *program;
    size_t entry;
    const char *what; /* of the entry */
} walk;

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static bool in_range(int64_t index, size_t count) {
    return index >= 0 && (size_t)index < count;
}

static sg_code check_tensors(const sg_training *t, sg_status *status) {
    for (size_t i = 0; i < t->n_storages; i++)
        if (t->storages[i].role >= SG_ROLE_COUNT)
            return sg_fail(status, SG_BAD_INPUT, "storage %zu has no known role", i);
    for (size_t i = 0; i < t->n_tensors; i++) {
        const sg_tensor *x = &t->tensors[i];
        if (!in_range(x->storage, t->n_storages))
            return sg_fail(status, SG_BAD_INPUT, "tensor %zu names storage %d, which does not exist", i,
                           (int)x->storage);
        uint64_t bytes = t->storages[x->storage].bytes, span = sg_desc_span_bytes(&x->desc);
        if (x->offset_bytes < 0 || (uint64_t)x->offset_bytes > bytes || span > bytes - (uint64_t)x->offset_bytes)
            return sg_fail(status, SG_BAD_INPUT, "tensor %zu reaches past the end of storage %d", i, (int)x->storage);
    }
    return SG_OK;
}

/* Every sharded parameter lies where its shard says. */
static sg_code check_shards(const sg_training *t, sg_status *status) {
    if (t->n_shards > 0 && t->shard_ranks < 2)
        return sg_fail(status, SG_BAD_INPUT, "shards for %lld ranks", (long long)t->shard_ranks);
    for (size_t i = 0; i < t->n_shards; i++) {
        const sg_shard *s = &t->shards[i];
        const int32_t vector[6] = {s->part, s->whole, s->gradient, s->whole_gradient, s->state[0], s->state[1]};
        for (int k = 0; k < 6; k++)
            if (!in_range(vector[k], t->n_tensors) && (k < 2 || vector[k] != -1))
                return sg_fail(status, SG_BAD_INPUT, "shard %zu (%s) names a tensor that does not exist", i, s->unit);
    }
    for (size_t i = 0; i < t->n_parameters && t->n_shards > 0; i++) {
        const sg_parameter *p = &t->parameters[i];
        if (p->shard == -1) continue;
        if (!in_range(p->shard, t->n_shards))
            return sg_fail(status, SG_BAD_INPUT, "parameter %s lies in shard %d, which does not exist", p->name,
                           (int)p->shard);
        const sg_tensor *x = &t->tensors[p->tensor], *whole = &t->tensors[t->shards[p->shard].whole];
        int64_t at = x->offset_bytes - whole->offset_bytes, bytes = (int64_t)sg_dtype_bytes((sg_dtype)x->desc.dtype);
        if (x->storage != whole->storage || x->desc.dtype != whole->desc.dtype || p->shard_offset < 0 ||
            at != p->shard_offset * bytes)
            return sg_fail(status, SG_BAD_INPUT, "parameter %s does not lie in its shard", p->name);
    }
    return SG_OK;
}

static sg_code check_parameters(const sg_training *t, sg_status *status) {
    for (size_t i = 0; i < t->n_parameters; i++) {
        const sg_parameter *p = &t->parameters[i];
        const int32_t optional[3] = {p->gradient, p->state[0], p->state[1]};
        bool sound = in_range(p->tensor, t->n_tensors) && in_range(p->module, t->n_modules);
        for (int k = 0; k < 3; k++) sound = sound && (optional[k] == -1 || in_range(optional[k], t->n_tensors));
        if (!sound)
            return sg_fail(status, SG_BAD_INPUT, "parameter %s names a tensor or module that does not exist", p->name);
        for (int k = 0; k < 3; k++)
            if (optional[k] >= 0 && !sg_desc_same_shape(&t->tensors[optional[k]].desc, &t->tensors[p->tensor].desc))
                return sg_fail(status, SG_BAD_INPUT, "parameter %s: its gradient or state has another shape", p->name);
        if (p->gradient >= 0 && !p->trainable)
            return sg_fail(status, SG_BAD_INPUT, "parameter %s is frozen but has a gradient", p->name);
    }
    sg_code code = check_shards(t, status);
    if (code != SG_OK) return code;
    for (size_t i = 0; i < t->n_inputs; i++)
        if (!in_range(t->inputs[i].tensor, t->n_tensors))
            return sg_fail(status, SG_BAD_INPUT, "input %s names a tensor that does not exist", t->inputs[i].name);
    for (size_t i = 0; i < t->n_modules; i++)
        if (t->modules[i].parent >= (int64_t)i || (i > 0 && t->modules[i].parent < 0))
            return sg_fail(status, SG_BAD_INPUT, "module %s does not come after its parent", t->modules[i].name);
    return SG_OK;
}

static sg_code check_ops(const sg_training *t, sg_status *status) {
    for (size_t i = 0; i < t->n_ops; i++) {
        const char *fault = sg_op_check(&t->ops[i]);
        if (!fault) continue;
        return sg_fail(status, SG_BAD_INPUT, "operation %zu (%s): %s", i, sg_op_kind_name((sg_op_kind)t->ops[i].kind),
                       fault);
    }
    return SG_OK;
}

static sg_code check_schedule(const sg_training *t, sg_status *status) {
    if (t->loss != -1 && !in_range(t->loss, t->n_tensors))
        return sg_fail(status, SG_BAD_INPUT, "the loss names tensor %d, which does not exist", (int)t->loss);
    for (size_t i = 0; i < t->n_blocks; i++) {
        if (t->blocks[i].repeat < 0)
            return sg_fail(status, SG_BAD_INPUT, "block %s is repeated less than 0 times", t->blocks[i].name);
        for (size_t k = 0; k < t->blocks[i].n_steps; k++) {
            const sg_schedule_step *step = &t->blocks[i].steps[k];
            if (step->kind > SG_STEP_ENVIRONMENT ||
                (step->kind == SG_STEP_PROGRAM && !in_range(step->index, t->n_programs)))
                return sg_fail(status, SG_BAD_INPUT, "block %s, step %zu names a program that does not exist",
                               t->blocks[i].name, k);
        }
    }
    return SG_OK;
}

/* ---- entries ------------------------------------------------------------------------------------------------------ */

static sg_code violation(const walk *w, const char *format, ...) SG_PRINTF(2, 3);
static sg_code violation(const walk *w, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return sg_fail(w->status, SG_BAD_INPUT, "program %s, entry %zu (%s): %s", w->program, w->entry, w->what, text);
}

static uint64_t range_end(const sg_tensor *x) {
    return (uint64_t)x->offset_bytes + sg_desc_span_bytes(&x->desc);
}

static bool overlap(const sg_tensor *a, const sg_tensor *b) {
    return a->storage == b->storage && (uint64_t)a->offset_bytes < range_end(b) &&
           (uint64_t)b->offset_bytes < range_end(a);
}

static sg_code check_live(const walk *w, int32_t storage) {
    if (w->live[storage]) return SG_OK;
    return violation(w, "uses storage %d outside of its lifetime", (int)storage);
}

static sg_code read_tensor(const walk *w, int32_t tensor) {
    int32_t storage = w->t->tensors[tensor].storage;
    sg_code code = check_live(w, storage);
    if (code != SG_OK) return code;
    if (!w->written[storage]) return violation(w, "reads storage %d before anything wrote it", (int)storage);
    if (w->made[tensor] < w->overwritten[storage])
        return violation(w, "reads tensor %d, whose storage %d was overwritten in place since", (int)tensor,
                         (int)storage);
    return SG_OK;
}

/* The op's descriptor must stay inside the storage, wherever it differs from the tensor's (broadcast, flattened). */
static sg_code check_operand(const walk *w, const sg_desc *desc, uint64_t span, int32_t tensor) {
    const sg_tensor *x = &w->t->tensors[tensor];
    if (desc->dtype != x->desc.dtype) return violation(w, "reads or writes tensor %d as another dtype", (int)tensor);
    if (span > w->t->storages[x->storage].bytes - (uint64_t)x->offset_bytes)
        return violation(w, "reaches past the end of storage %d", (int)x->storage);
    return SG_OK;
}

/* Which input an in-place output overwrites; -1: none of them. */
static int32_t overwrites(const sg_op *op, int32_t output) {
    if (!(op->attrs.flags & SG_IN_PLACE)) return -1;
    if (op->kind == SG_OP_ADAMW) return output < op->attrs.count ? output : output + op->attrs.count;
    if (op->kind == SG_OP_FOREACH || op->kind == SG_OP_AMP_UNSCALE || op->kind == SG_OP_AMP_UPDATE) return output;
    return output == 0 ? 0 : -1;
}

static sg_code check_in_place(walk *w, const sg_op *op, const int32_t *in, int32_t output, int32_t tensor) {
    const sg_tensor *y = &w->t->tensors[tensor];
    int32_t over = overwrites(op, output);
    if (over >= 0) {
        const sg_tensor *x = &w->t->tensors[in[over]];
        if (x->storage != y->storage || x->offset_bytes != y->offset_bytes ||
            memcmp(&x->desc, &y->desc, sizeof x->desc) != 0)
            return violation(w, "is in place, but tensor %d is not the memory of tensor %d", (int)tensor,
                             (int)in[over]);
    }
    /* Of lists only the operands of the same tuple: all against all would be quadratic. */
    bool lists = op->kind == SG_OP_FOREACH || op->kind == SG_OP_ADAMW || op->kind == SG_OP_AMP_UNSCALE;
    int32_t step = lists ? op->attrs.count : 1;
    for (int32_t i = lists ? output % step : 0; i < op->n_in; i += step) {
        const sg_tensor *x = &w->t->tensors[in[i]];
        if (x->storage != y->storage || i == over || !overlap(x, y)) continue;
        bool same = x->offset_bytes == y->offset_bytes;
        if (same && (over < 0 || memcmp(&x->desc, &y->desc, sizeof x->desc) != 0))
            return violation(w, "writes over its own input, tensor %d", (int)in[i]);
    }
    if (over >= 0 && in[over] != tensor) w->overwritten[y->storage] = w->now;
    return SG_OK;
}

static sg_code check_op(walk *w, const sg_entry *entry) {
    const sg_training *t = w->t;
    if (!in_range(entry->index, t->n_ops))
        return violation(w, "names operation %d, which does not exist", (int)entry->index);
    const sg_op *op = &t->ops[entry->index];
    w->what = sg_op_kind_name((sg_op_kind)op->kind);
    size_t n = (size_t)op->n_in + (size_t)op->n_out;
    if (entry->args > t->n_args || n > t->n_args - entry->args) return violation(w, "its operands are out of range");
    const int32_t *args = &t->args[entry->args];
    const uint64_t *span = &w->span[w->spans[entry->index]];
    for (size_t i = 0; i < n; i++) {
        if (!in_range(args[i], t->n_tensors))
            return violation(w, "names tensor %d, which does not exist", (int)args[i]);
        sg_code code = check_operand(w, &op->desc[i], span[i], args[i]);
        if (code == SG_OK)
            code = i < (size_t)op->n_in ? read_tensor(w, args[i]) : check_live(w, t->tensors[args[i]].storage);
        if (code != SG_OK) return code;
    }
    for (int32_t i = 0; i < op->n_out; i++) {
        int32_t tensor = args[op->n_in + i];
        sg_code code = check_in_place(w, op, args, i, tensor);
        if (code != SG_OK) return code;
        w->written[t->tensors[tensor].storage] = 1;
        w->made[tensor] = w->now;
    }
    return SG_OK;
}

static sg_code check_alloc(const walk *w, const sg_entry *entry) {
    bool alloc = entry->kind == SG_ENTRY_ALLOC;
    if (!in_range(entry->index, w->t->n_storages))
        return violation(w, "names storage %d, which does not exist", (int)entry->index);
    if (w->t->storages[entry->index].persistent) return violation(w, "storage %d is persistent", (int)entry->index);
    if (alloc && w->live[entry->index]) return violation(w, "storage %d is allocated already", (int)entry->index);
    if (!alloc && !w->live[entry->index]) return violation(w, "storage %d is not allocated", (int)entry->index);
    if (w->busy[entry->index]) return violation(w, "a collective is using storage %d", (int)entry->index);
    w->live[entry->index] = alloc;
    w->written[entry->index] = 0;
    w->overwritten[entry->index] = 0;
    return SG_OK;
}

static sg_code check_ready(const walk *w, const sg_entry *entry) {
    const sg_training *t = w->t;
    if (!in_range(entry->index, t->n_parameters))
        return violation(w, "names parameter %d, which does not exist", (int)entry->index);
    const sg_parameter *p = &t->parameters[entry->index];
    if (p->gradient < 0) return violation(w, "parameter %s has no gradient", p->name);
    if (w->ready[entry->index]++)
        return violation(w, "the gradient of %s becomes ready twice in one optimizer step", p->name);
    return read_tensor(w, p->gradient);
}

static sg_code check_view(walk *w, const sg_entry *entry) {
    if (entry->args >= w->t->n_args || !in_range(w->t->args[entry->args], w->t->n_tensors))
        return violation(w, "its operand is out of range");
    int32_t tensor = w->t->args[entry->args];
    w->made[tensor] = w->now;
    return check_live(w, w->t->tensors[tensor].storage);
}

/* ---- collectives -------------------------------------------------------------------------------------------------- */

/* Vectors of one dtype that travels: a part and a whole of `ranks` parts, or twice the same. */
static sg_code check_vectors(const walk *w, const sg_entry *entry, int32_t from, int32_t to) {
    const sg_desc *a = &w->t->tensors[from].desc, *b = &w->t->tensors[to].desc;
    if (a->dtype != b->dtype || (a->dtype != SG_F32 && a->dtype != SG_BF16))
        return violation(w, "its operands are not both f32 or both bf16");
    if (!sg_desc_is_contiguous(a) || !sg_desc_is_contiguous(b)) return violation(w, "its operands are not contiguous");
    if (entry->kind == SG_ENTRY_REDUCE) return from == to ? SG_OK : violation(w, "is not in place");
    bool gathers = entry->kind == SG_ENTRY_GATHER;
    int64_t part = sg_desc_count(gathers ? a : b), whole = sg_desc_count(gathers ? b : a);
    if (whole % part == 0 && whole / part == w->t->shard_ranks) return SG_OK;
    return violation(w, "its operands are not a part and %lld parts", (long long)w->t->shard_ranks);
}

static sg_code check_collective(walk *w, const sg_entry *entry) {
    const sg_training *t = w->t;
    if (entry->index < 0 || entry->index >= t->n_collectives)
        return violation(w, "slot %d of %d", (int)entry->index, (int)t->n_collectives);
    if (t->n_args < 2 || entry->args > t->n_args - 2) return violation(w, "its operands are out of range");
    int32_t from = t->args[entry->args], to = t->args[entry->args + 1];
    if (!in_range(from, t->n_tensors) || !in_range(to, t->n_tensors))
        return violation(w, "its operands are out of range");
    int32_t read = t->tensors[from].storage, written = t->tensors[to].storage;
    bool joins = entry->kind == SG_ENTRY_JOIN;
    if (w->pending[entry->index] != joins)
        return violation(w, joins ? "slot %d was not begun" : "slot %d was not joined", (int)entry->index);
    sg_code code = joins ? check_live(w, read) : check_vectors(w, entry, from, to);
    if (code == SG_OK && !joins) code = read_tensor(w, from);
    if (code == SG_OK) code = check_live(w, written);
    if (code != SG_OK) return code;
    w->pending[entry->index] = !joins;
    w->busy[read] += joins ? (uint32_t)-1 : 1;
    w->busy[written] += joins ? (uint32_t)-1 : 1;
    if (!joins) return SG_OK;
    w->written[written] = 1;
    w->made[to] = w->now;
    return SG_OK;
}

static sg_code check_entry(walk *w, const sg_entry *entry) {
    static const char *const names[] = {"OP",         "VIEW", "ALLOC",  "FREE",    "WAIT",   "COPY", "GRAD_READY",
                                        "SYNC_GRADS", "MARK", "GATHER", "SCATTER", "REDUCE", "JOIN"};
    w->now++;
    w->what = entry->kind < sizeof names / sizeof *names ? names[entry->kind] : "unknown";
    if (entry->pass >= SG_PASS_COUNT) return violation(w, "belongs to no known pass");
    if (!in_range(entry->module, w->t->n_modules)) return violation(w, "belongs to no module");
    switch ((sg_entry_kind)entry->kind) {
    case SG_ENTRY_OP: return check_op(w, entry);
    case SG_ENTRY_VIEW: return check_view(w, entry);
    case SG_ENTRY_ALLOC:
    case SG_ENTRY_FREE: return check_alloc(w, entry);
    case SG_ENTRY_WAIT:
        if (entry->index == -1) return SG_OK;
        if (!in_range(entry->index, w->t->n_tensors))
            return violation(w, "names tensor %d, which does not exist", (int)entry->index);
        return read_tensor(w, entry->index);
    case SG_ENTRY_COPY:
        if (!in_range(entry->index, w->t->n_inputs))
            return violation(w, "names input %d, which does not exist", (int)entry->index);
        return SG_OK;
    case SG_ENTRY_GRAD_READY: return check_ready(w, entry);
    case SG_ENTRY_SYNC_GRADS: return SG_OK;
    case SG_ENTRY_GATHER:
    case SG_ENTRY_SCATTER:
    case SG_ENTRY_REDUCE:
    case SG_ENTRY_JOIN: return check_collective(w, entry);
    case SG_ENTRY_MARK:
        return in_range(entry->index, SG_MARK_COUNT) ? SG_OK : violation(w, "mark %d is not known", (int)entry->index);
    }
    return violation(w, "is of no known kind");
}

/* ---- programs ----------------------------------------------------------------------------------------------------- */

static sg_code check_all_ready(walk *w) {
    for (size_t i = 0; i < w->t->n_parameters; i++) {
        const sg_parameter *p = &w->t->parameters[i];
        if (p->gradient >= 0 && w->ready[i] != 1)
            return sg_fail(w->status, SG_BAD_INPUT,
                           "program %s: the optimizer step comes before the gradient of %s is ready", w->program,
                           p->name);
        w->ready[i] = 0;
    }
    return SG_OK;
}

static sg_code check_program(walk *w, const sg_program *program, bool steps_known) {
    w->program = program->name;
    for (size_t s = 0; s < w->t->n_storages; s++)
        if (w->t->storages[s].persistent)
            w->overwritten[s] = 0; /* what a program left there is what the next one means */
    for (size_t i = 0; i < program->n_entries; i++) {
        w->entry = i;
        sg_code code = check_entry(w, &program->entries[i]);
        if (code != SG_OK) return code;
    }
    for (int32_t i = 0; i < w->t->n_collectives; i++)
        if (w->pending[i]) return violation(w, "the program ends before slot %d is joined", (int)i);
    if (program->ends_optimizer_step) return check_all_ready(w);
    if (!steps_known) memset(w->ready, 0, w->t->n_parameters * sizeof *w->ready);
    return SG_OK;
}

static sg_code check_block(walk *w, const sg_block *block, bool steps_known) {
    for (int64_t round = 0; round < block->repeat && round < 2; round++) {
        for (size_t i = 0; i < block->n_steps; i++) {
            if (block->steps[i].kind != SG_STEP_PROGRAM) continue;
            sg_code code = check_program(w, &w->t->programs[block->steps[i].index], steps_known);
            if (code != SG_OK) return code;
        }
    }
    return SG_OK;
}

static sg_code check_nothing_left(const walk *w) {
    for (size_t s = 0; s < w->t->n_storages; s++)
        if (w->live[s] && !w->t->storages[s].persistent)
            return sg_fail(w->status, SG_BAD_INPUT, "storage %zu is still allocated when the iteration ends", s);
    return SG_OK;
}

static bool any_ready(const walk *w) {
    for (size_t i = 0; i < w->t->n_parameters; i++)
        if (w->ready[i]) return true;
    return false;
}

/* One iteration, each block at most twice: a third round would meet nothing new. Once more where gradients are left ready: nothing
 * else outlives an iteration but what is there from the start. Without a schedule, the programs in their order. */
static sg_code check_iterations(walk *w) {
    const sg_training *t = w->t;
    bool steps_known = false;
    for (size_t i = 0; i < t->n_programs; i++) steps_known = steps_known || t->programs[i].ends_optimizer_step;
    for (int round = 0; round < 2; round++) {
        sg_code code = SG_OK;
        for (size_t i = 0; i < t->n_blocks && code == SG_OK; i++) code = check_block(w, &t->blocks[i], steps_known);
        for (size_t i = 0; i < t->n_programs && code == SG_OK && t->n_blocks == 0; i++)
            code = check_program(w, &t->programs[i], steps_known);
        if (code == SG_OK) code = check_nothing_left(w);
        if (code != SG_OK || !any_ready(w)) return code;
    }
    return SG_OK;
}

/* False when memory ends. */
static bool span_operands(walk *w) {
    const sg_training *t = w->t;
    size_t n = 0;
    for (size_t i = 0; i < t->n_ops; i++) n += (size_t)t->ops[i].n_in + (size_t)t->ops[i].n_out;
    w->span = calloc(n + 1, sizeof *w->span);
    w->spans = calloc(t->n_ops + 1, sizeof *w->spans);
    if (!w->span || !w->spans) return false;
    n = 0;
    for (size_t i = 0; i < t->n_ops; i++) {
        w->spans[i] = n;
        size_t operands = (size_t)t->ops[i].n_in + (size_t)t->ops[i].n_out;
        for (size_t k = 0; k < operands; k++) w->span[n++] = sg_desc_span_bytes(&t->ops[i].desc[k]);
    }
    return true;
}

static void begin(walk *w) {
    for (size_t s = 0; s < w->t->n_storages; s++) w->live[s] = w->written[s] = w->t->storages[s].persistent;
}

sg_code sg_training_verify(const sg_training *t, sg_status *status) {
    sg_code code = check_tensors(t, status);
    if (code == SG_OK) code = check_parameters(t, status);
    if (code == SG_OK) code = check_ops(t, status);
    if (code == SG_OK) code = check_schedule(t, status);
    if (code != SG_OK) return code;
    walk w = {.t = t, .status = status, .program = "", .what = ""};
    w.live = calloc(t->n_storages + 1, sizeof *w.live);
    w.written = calloc(t->n_storages + 1, sizeof *w.written);
    w.overwritten = calloc(t->n_storages + 1, sizeof *w.overwritten);
    w.made = calloc(t->n_tensors + 1, sizeof *w.made);
    w.ready = calloc(t->n_parameters + 1, sizeof *w.ready);
    w.busy = calloc(t->n_storages + 1, sizeof *w.busy);
    w.pending = calloc(t->n_collectives > 0 ? (size_t)t->n_collectives : 1, sizeof *w.pending);
    bool spanned = span_operands(&w);
    if (spanned && w.busy && w.pending && w.live && w.written && w.overwritten && w.made && w.ready) {
        begin(&w);
        code = check_iterations(&w);
    } else {
        code =
            sg_fail_memory(status, (unsigned long long)(t->n_storages + t->n_tensors) * 16, "checking a step program");
    }
    free(w.span);
    free(w.spans);
    free(w.live);
    free(w.written);
    free(w.overwritten);
    free(w.made);
    free(w.ready);
    free(w.busy);
    free(w.pending);
    return code;
}
