/* optimizer.c: what ends an optimizer step: gradient exchange, clipping, Adam or AdamW, zero-grad.
 *
 * The passes are PyTorch's (torch/optim/adam.py, _multi_tensor_adam and _single_tensor_adam without capturable;
 * torch/optim/sgd.py, _multi_tensor_sgd and _single_tensor_sgd without momentum; torch/nn/utils/clip_grad.py): on CUDA one foreach call per pass, parameter group and dtype; on a CPU one tensor after
 * another. The native profile has one fused pass per group and dtype. */
#include "models/graph_state.h"
#include "models/ops.h"

#include <math.h>
#include <string.h>

enum { MAX_GROUPS = 5 }; /* four prefixes and the rest */

/* Parameters that one foreach call works on: ids of each, its gradient and its two moments. */
typedef struct bundle {
    int32_t n;
    const sg_tid *p, *g, *m, *v;
} bundle;

/* ---- lists ------------------------------------------------------------------------------------------------------ */

static bool has_prefix(const char *name, const char *prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

int sg_group_of(const char *name, const char *const *prefix) {
    for (int i = 0; i < MAX_GROUPS - 1 && prefix[i]; i++)
        if (has_prefix(name, prefix[i])) return i + 1;
    return 0;
}

static sg_tid *tids(sg_graph *g, size_t n) {
    sg_tid *list = sg_arena_alloc(g->arena, (n ? n : 1) * sizeof *list);
    if (!list) sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for %zu parameters", n);
    return list;
}

static void take(bundle *b, size_t room, sg_tid p, sg_tid gradient, const int32_t *state) {
    sg_tid *list[4] = {(sg_tid *)b->p, (sg_tid *)b->g, (sg_tid *)b->m, (sg_tid *)b->v};
    const sg_tid value[4] = {p, gradient, state[0], state[1]};
    for (int i = 0; i < 4 && (size_t)b->n < room; i++) list[i][b->n] = value[i];
    b->n++;
}

/* The parameters (or shards) with a gradient in one group and dtype, in order of registration. */
static bool collect(sg_graph *g, const char *const *prefix, int group, sg_dtype dtype, bundle *out) {
    bool sharded = g->shards.count > 0;
    size_t n = sharded ? g->shards.count : g->parameters.count;
    *out = (bundle){0, tids(g, n), tids(g, n), tids(g, n), tids(g, n)};
    if (!out->p || !out->g || !out->m || !out->v) return false;
    for (size_t i = 0; i < n; i++) {
        const sg_parameter *p = sharded ? NULL : &g->parameters.at[i];
        const sg_shard_state *s = sharded ? &g->shards.at[i] : NULL;
        sg_tid tensor = s ? s->shard.part : p->tensor, gradient = s ? s->shard.gradient : p->gradient;
        if (gradient < 0 || sg_graph_dtype(g, tensor) != dtype || sg_group_of(s ? s->name : p->name, prefix) != group)
            continue;
        take(out, n, tensor, gradient, s ? s->shard.state : p->state);
    }
    return out->n > 0;
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* fn over lists of n tensors, in place on the first list, as one FOREACH. scalar: a tensor in place of alpha. */
static void foreach_in_place(sg_graph *g, const sg_attrs *attrs, int32_t n, int lists, const sg_tid *const *list,
                             sg_tid scalar) {
    size_t count = (size_t)n;
    sg_tid *in = tids(g, count * (size_t)lists + 1), *out = tids(g, count);
    if (!in || !out) return;
    for (int i = 0; i < lists; i++) memcpy(in + (size_t)i * count, list[i], count * sizeof *in);
    sg_attrs a = *attrs;
    a.flags |= SG_IN_PLACE;
    a.count = n;
    int n_in = n * lists;
    if (scalar != SG_NO_TENSOR) {
        a.flags |= SG_SCALAR_TENSOR;
        in[n_in++] = scalar;
    }
    sg_record record = {.kind = SG_OP_FOREACH, .attrs = &a, .n_in = n_in, .n_out = n, .in = in, .into = list[0]};
    (void)sg_graph_record(g, &record, out);
}

/* A FOREACH into new tensors like those of the first list. */
static const sg_tid *foreach_new(sg_graph *g, const sg_attrs *attrs, int32_t n, int lists, const sg_tid *const *list) {
    size_t count = (size_t)n;
    sg_tid *in = tids(g, count * (size_t)lists), *out = tids(g, (size_t)n);
    sg_desc *desc = sg_arena_alloc(g->arena, (size_t)n * sizeof *desc);
    if (!desc) sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for %d parameters", (int)n);
    if (!desc || !in || !out || g->failed) return NULL;
    for (int i = 0; i < lists; i++) memcpy(in + (size_t)i * count, list[i], count * sizeof *in);
    for (int32_t i = 0; i < n; i++) desc[i] = *sg_graph_desc(g, in[i]);
    sg_attrs a = *attrs;
    a.count = n;
    sg_record record = {.kind = SG_OP_FOREACH, .attrs = &a, .n_in = n * lists, .n_out = n, .in = in, .out_desc = desc};
    (void)sg_graph_record(g, &record, out);
    return out;
}

/* Attributes of one pass; lr and the betas are there for the passes whose alpha follows from the step. */
static sg_attrs pass(const sg_optimizer_spec *spec, sg_fn fn, double alpha, double beta, uint32_t flags) {
    return (sg_attrs){.fn = fn,
                      .flags = flags,
                      .alpha = alpha,
                      .beta = beta,
                      .lr = spec->lr,
                      .beta1 = spec->beta1,
                      .beta2 = spec->beta2};
}

/* Adam adds weight decay x parameter to the gradient; AdamW shrinks the parameter. */
static bool couples_decay(const sg_optimizer_spec *spec) {
    return spec->weight_decay > 0 && !spec->decoupled_weight_decay;
}

static void adam_foreach(sg_graph *g, const sg_optimizer_spec *spec, const bundle *b) {
    sg_attrs a;
    const sg_tid *gradient = b->g;
    if (couples_decay(spec)) { /* the sums live until the second moment has them (torch 2.1 deletes its local then) */
        a = pass(spec, SG_FN_ADD, spec->weight_decay, 0, 0);
        gradient = foreach_new(g, &a, b->n, 2, (const sg_tid *const[]){b->g, b->p});
        if (!gradient) return;
    } else if (spec->weight_decay > 0) {
        a = pass(spec, SG_FN_AFFINE, 1 - spec->lr * spec->weight_decay, 0, 0);
        foreach_in_place(g, &a, b->n, 1, &b->p, SG_NO_TENSOR);
    }
    a = pass(spec, SG_FN_LERP, 1 - spec->beta1, 0, 0);
    foreach_in_place(g, &a, b->n, 2, (const sg_tid *const[]){b->m, gradient}, SG_NO_TENSOR);
    a = pass(spec, SG_FN_AFFINE, spec->beta2, 0, 0);
    foreach_in_place(g, &a, b->n, 1, &b->v, SG_NO_TENSOR);
    a = pass(spec, SG_FN_ADDCMUL, 1 - spec->beta2, 0, 0);
    foreach_in_place(g, &a, b->n, 3, (const sg_tid *const[]){b->v, gradient, gradient}, SG_NO_TENSOR);
    a = (sg_attrs){.fn = SG_FN_SQRT};
    const sg_tid *root = foreach_new(g, &a, b->n, 1, &b->v);
    if (!root) return;
    a = pass(spec, SG_FN_DIV_SCALAR, 1, 0, SG_STEP_SQRT);
    foreach_in_place(g, &a, b->n, 1, &root, SG_NO_TENSOR);
    a = pass(spec, SG_FN_AFFINE, 1, spec->eps, 0);
    foreach_in_place(g, &a, b->n, 1, &root, SG_NO_TENSOR);
    a = pass(spec, SG_FN_ADDCDIV, 0, 0, SG_STEP_SIZE);
    foreach_in_place(g, &a, b->n, 3, (const sg_tid *const[]){b->p, b->m, root}, SG_NO_TENSOR);
}

static void in_place(sg_graph *g, sg_op_kind kind, sg_attrs attrs, const sg_tid *in, int n_in) {
    attrs.flags |= SG_IN_PLACE;
    sg_emit_into(g, kind, &attrs, in, n_in, in, 1);
}

/* fn of one or two operands into a new tensor like the first. */
static sg_tid new_of(sg_graph *g, sg_op_kind kind, sg_attrs attrs, const sg_tid *in, int n_in) {
    sg_tid y = SG_NO_TENSOR;
    if (!sg_graph_has(g, in[0])) return y;
    const sg_desc out = *sg_graph_desc(g, in[0]);
    sg_record record = {.kind = kind, .attrs = &attrs, .n_in = n_in, .n_out = 1, .in = in, .out_desc = &out};
    (void)sg_graph_record(g, &record, &y);
    return y;
}

static void adam_single(sg_graph *g, const sg_optimizer_spec *spec, sg_tid p, sg_tid grad, sg_tid m, sg_tid v) {
    if (couples_decay(spec))
        grad = new_of(g, SG_OP_BINARY, pass(spec, SG_FN_ADD, spec->weight_decay, 0, 0), (const sg_tid[]){grad, p}, 2);
    else if (spec->weight_decay > 0)
        in_place(g, SG_OP_UNARY, pass(spec, SG_FN_AFFINE, 1 - spec->lr * spec->weight_decay, 0, 0), &p, 1);
    in_place(g, SG_OP_BINARY, pass(spec, SG_FN_LERP, 1 - spec->beta1, 0, 0), (const sg_tid[]){m, grad}, 2);
    in_place(g, SG_OP_UNARY, pass(spec, SG_FN_AFFINE, spec->beta2, 0, 0), &v, 1);
    in_place(g, SG_OP_TERNARY, pass(spec, SG_FN_ADDCMUL, 1 - spec->beta2, 0, 0), (const sg_tid[]){v, grad, grad}, 3);
    sg_tid root = new_of(g, SG_OP_UNARY, pass(spec, SG_FN_SQRT, 0, 0, 0), &v, 1);
    sg_tid scaled = new_of(g, SG_OP_UNARY, pass(spec, SG_FN_DIV_SCALAR, 1, 0, SG_STEP_SQRT), &root, 1);
    in_place(g, SG_OP_UNARY, pass(spec, SG_FN_AFFINE, 1, spec->eps, 0), &scaled, 1);
    in_place(g, SG_OP_TERNARY, pass(spec, SG_FN_ADDCDIV, 0, 0, SG_STEP_SIZE), (const sg_tid[]){p, m, scaled}, 3);
}

static void adam_fused(sg_graph *g, const sg_optimizer_spec *spec, const bundle *b) {
    size_t n = (size_t)b->n;
    sg_tid *in = tids(g, 4 * n), *into = tids(g, 3 * n), *out = tids(g, 3 * n);
    if (!in || !into || !out) return;
    const sg_tid *const lists[4] = {b->p, b->g, b->m, b->v}, *const written[3] = {b->p, b->m, b->v};
    for (size_t i = 0; i < 4; i++) memcpy(in + i * n, lists[i], n * sizeof *in);
    for (size_t i = 0; i < 3; i++) memcpy(into + i * n, written[i], n * sizeof *into);
    sg_attrs attrs = {.flags = SG_IN_PLACE | (couples_decay(spec) ? SG_COUPLED_DECAY : 0),
                      .count = b->n,
                      .eps = spec->eps,
                      .lr = spec->lr,
                      .beta1 = spec->beta1,
                      .beta2 = spec->beta2,
                      .weight_decay = spec->weight_decay};
    sg_record record = {
        .kind = SG_OP_ADAMW, .attrs = &attrs, .n_in = 4 * b->n, .n_out = 3 * b->n, .in = in, .into = into};
    (void)sg_graph_record(g, &record, out);
}

/* p -= lr g */
static void sgd_step(sg_graph *g, const sg_optimizer_spec *spec, const bundle *b) {
    sg_attrs a = {.fn = SG_FN_ADD, .alpha = -spec->lr, .lr = spec->lr};
    if (g->profile.foreach_optimizer || g->profile.fused_optimizer)
        foreach_in_place(g, &a, b->n, 2, (const sg_tid *const[]){b->p, b->g}, SG_NO_TENSOR);
    else
        for (int32_t i = 0; i < b->n && !g->failed; i++)
            in_place(g, SG_OP_BINARY, a, (const sg_tid[]){b->p[i], b->g[i]}, 2);
}

static void step_bundle(sg_graph *g, const sg_optimizer_spec *spec, const bundle *b) {
    if (spec->sgd)
        sgd_step(g, spec, b);
    else if (g->profile.fused_optimizer)
        adam_fused(g, spec, b);
    else if (g->profile.foreach_optimizer)
        adam_foreach(g, spec, b);
    else
        for (int32_t i = 0; i < b->n && !g->failed; i++) adam_single(g, spec, b->p[i], b->g[i], b->m[i], b->v[i]);
}

/* ---- state ------------------------------------------------------------------------------------------------------- */

static sg_tid moment(sg_graph *g, sg_tid parameter) {
    const sg_desc desc = *sg_graph_desc(g, parameter);
    uint64_t bytes;
    if (!sg_graph_bytes(g, &desc, &bytes)) return SG_NO_TENSOR;
    return sg_graph_tensor(g, sg_graph_storage(g, bytes, SG_ROLE_OPTIMIZER, true), 0, &desc);
}

static void make_state(sg_graph *g) {
    for (size_t i = 0; i < g->shards.count && !g->failed; i++) {
        sg_shard *shard = &g->shards.at[i].shard;
        for (int k = 0; k < 2 && shard->gradient >= 0 && shard->state[k] < 0; k++)
            shard->state[k] = moment(g, shard->part);
    }
    for (size_t i = 0; i < g->parameters.count && g->shards.count == 0 && !g->failed; i++) {
        sg_parameter *parameter = &g->parameters.at[i];
        if (parameter->gradient < 0 || parameter->state[0] >= 0) continue;
        parameter->state[0] = moment(g, parameter->tensor);
        parameter->state[1] = moment(g, parameter->tensor);
    }
}

/* ---- clipping ----------------------------------------------------------------------------------------------------- */

static sg_tid norm_of(sg_graph *g, int32_t n, const sg_tid *x) {
    if (!sg_graph_has(g, x[0])) return SG_NO_TENSOR;
    sg_desc out = sg_desc_make(sg_graph_dtype(g, x[0]) == SG_F64 ? SG_F64 : SG_F32, 1, (const int64_t[]){n});
    sg_attrs attrs = {.count = n};
    sg_tid y;
    sg_emit(g, SG_OP_NORM_ALL, &attrs, x, n, &out, &y, 1);
    return y;
}

/* Scales a clip group's gradients by min(1, max / (norm + 1e-6)), always; returns the norm. */
static sg_tid clip_group(sg_graph *g, double max_norm, const char *const *prefix, int group) {
    bundle part[SG_DTYPE_COUNT];
    sg_tid norms[SG_DTYPE_COUNT];
    int n = 0;
    for (int dtype = 0; dtype < SG_DTYPE_COUNT && !g->failed; dtype++)
        if (collect(g, prefix, group, (sg_dtype)dtype, &part[n])) n++;
    if (n == 0 || g->failed) return SG_NO_TENSOR;
    for (int i = 0; i < n; i++) norms[i] = norm_of(g, part[i].n, part[i].g);
    sg_tid all = n > 1 || sg_graph_eager(g) ? sg_cat(g, n, norms, 0) : norms[0];
    sg_tid norm = sg_shard_total_norm(g, norm_of(g, 1, &all), group);
    sg_tid inverse = sg_unary(g, SG_FN_RECIPROCAL, sg_add_scalar(g, norm, 1e-6), 0, 0);
    sg_tid factor = sg_unary(g, SG_FN_CLAMP, sg_scale(g, inverse, max_norm), -INFINITY, 1);
    sg_attrs attrs = {.fn = SG_FN_AFFINE};
    for (int i = 0; i < n && !g->failed; i++) foreach_in_place(g, &attrs, part[i].n, 1, &part[i].g, factor);
    return norm;
}

/* ---- the step ------------------------------------------------------------------------------------------------------ */

static bool check_spec(sg_graph *g, const sg_optimizer_spec *spec) {
    if (!spec->sgd || spec->decoupled_weight_decay || spec->weight_decay == 0) return true;
    sg_graph_fail(g, SG_BAD_INPUT, "SGD with weight decay is not modelled: use AdamW or a weight decay of 0");
    return false;
}

static bool any_gradient(sg_graph *g) {
    for (size_t i = 0; i < g->parameters.count; i++)
        if (g->parameters.at[i].gradient >= 0) return true;
    sg_graph_fail(g, SG_BAD_INPUT, "an optimizer step needs a backward before it");
    return false;
}

static void free_here(sg_graph *g, sg_draft *draft, sg_tid gradient) {
    if (gradient < 0 || !SG_ROOM(g, &draft->frees, 1)) return;
    draft->frees.at[draft->frees.count++] = (sg_hold){g->tensors.at[gradient].storage, (uint32_t)draft->entries.count};
}

static void zero_grad(sg_graph *g, sg_draft *draft) {
    for (size_t i = 0; i < g->shards.count; i++) free_here(g, draft, g->shards.at[i].shard.gradient);
    for (size_t i = 0; i < g->parameters.count && g->shards.count == 0; i++)
        free_here(g, draft, g->parameters.at[i].gradient);
}

void sg_optimizer_step(sg_graph *g, const sg_optimizer_spec *spec) {
    sg_draft *draft = sg_graph_draft(g);
    if (!draft || !check_spec(g, spec) || !any_gradient(g)) return;
    sg_pass_set(g, SG_PASS_OPTIMIZER);
    g->no_grad++;
    if (g->shards.count > 0)
        sg_shard_join(g);
    else if (g->ranks > 1)
        (void)sg_graph_entry(g, SG_ENTRY_SYNC_GRADS, -1, 0);
    sg_tid norm = SG_NO_TENSOR;
    sg_mark_here(g, SG_MARK_CLIP);
    sg_tid found = sg_scaler_unscale(g);
    for (int group = 0; group < MAX_GROUPS && spec->clip_norm > 0 && !g->failed; group++) {
        sg_tid of_group = clip_group(g, spec->clip_norm, spec->clip_prefix, group);
        if (group == 0) norm = of_group;
    }
    sg_mark_here(g, SG_MARK_OPTIMIZER);
    if (found >= 0) sg_wait(g, found); /* decides whether the step runs: here it always does */
    if (!spec->sgd) make_state(g);
    for (int group = 0; group < MAX_GROUPS && !g->failed; group++) {
        for (int dtype = 0; dtype < SG_DTYPE_COUNT && !g->failed; dtype++) {
            bundle b;
            if (collect(g, spec->group_prefix, group, (sg_dtype)dtype, &b)) step_bundle(g, spec, &b);
        }
    }
    if (found >= 0) sg_scaler_update(g, found);
    sg_mark_here(g, SG_MARK_ZERO_GRAD);
    zero_grad(g, draft);
    /* LeRobot logs the norm of its one group; rsl_rl, which clips actor and critic apart, reads none. */
    if (norm >= 0 && sg_graph_eager(g) && !spec->clip_prefix[0]) sg_wait(g, norm);
    draft->ends_optimizer_step = true;
    g->training->clip_norm = spec->clip_norm;
    g->no_grad--;
}
