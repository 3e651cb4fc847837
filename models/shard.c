/* shard.c: parameters, gradients and optimizer state spread over the ranks, as FullyShardedDataParallel spreads them
 * (PyTorch, torch/distributed/fsdp: FULL_SHARD, one flat parameter per wrapped module).
 *
 * A unit is what auto-wrapping would wrap: the repeated blocks (a module whose name has a number: "layers.3", "layer2" of a
 * ResNet); the rest is the root unit. When the last gradient of a shard has arrived, all of them are joined into one vector
 * (one cat, as the backward of the flat parameter's split), which is reduced and scattered beside the backward of the next
 * unit; the one before is waited for first, so that only one whole gradient is on its way (as fully_shard does it). */
#include "models/graph_state.h"
#include "models/ops.h"

#include <ctype.h>
#include <string.h>

/* ---- units ------------------------------------------------------------------------------------------------------ */

static bool is_repeated(const char *part, size_t length) {
    if (length > 5 && strncmp(part, "layer", 5) == 0 && isdigit((unsigned char)part[5])) return true;
    for (size_t i = 0; i < length; i++)
        if (!isdigit((unsigned char)part[i])) return false;
    return length > 0;
}

/* Length of the unit's name at the start of the module's; 0: the root unit. */
static size_t unit_length(const char *module) {
    for (const char *part = module; *part;) {
        size_t length = strcspn(part, ".");
        if (is_repeated(part, length)) return (size_t)(part - module) + length;
        part += length + (part[length] == '.');
    }
    return 0;
}

/* ---- shards ----------------------------------------------------------------------------------------------------- */

static bool same_unit(const sg_shard_state *s, const char *module, size_t length) {
    return strlen(s->shard.unit) == length && strncmp(s->shard.unit, module, length) == 0;
}

static int32_t shard_of(sg_graph *g, const sg_parameter *p, const sg_optimizer_spec *spec) {
    const char *module = g->modules.at[p->module].name;
    size_t length = unit_length(module);
    int group = sg_group_of(p->name, spec->group_prefix), clip = sg_group_of(p->name, spec->clip_prefix);
    int32_t dtype = g->tensors.at[p->tensor].desc.dtype, unit = -1;
    for (size_t i = 0; i < g->shards.count; i++) {
        const sg_shard_state *s = &g->shards.at[i];
        if (!same_unit(s, module, length)) continue;
        unit = s->unit;
        if (s->dtype == dtype && s->trainable == p->trainable && s->group == group && s->clip_group == clip)
            return (int32_t)i;
    }
    if (!SG_ROOM(g, &g->shards, 1)) return -1;
    sg_shard_state s = {.shard = {.unit = sg_graph_text(g, "%.*s", (int)length, module),
                                  .module = p->module,
                                  .gradient = SG_NO_TENSOR,
                                  .whole_gradient = SG_NO_TENSOR,
                                  .state = {SG_NO_TENSOR, SG_NO_TENSOR}},
                        .name = p->name,
                        .dtype = dtype,
                        .trainable = p->trainable,
                        .group = group,
                        .clip_group = clip,
                        .unit = unit < 0 ? (int32_t)g->shards.count : unit};
    g->shards.at[g->shards.count] = s;
    return (int32_t)g->shards.count++;
}

static bool can_travel(sg_graph *g, const sg_parameter *p) {
    const sg_desc *desc = sg_graph_desc(g, p->tensor);
    if ((desc->dtype == SG_F32 || desc->dtype == SG_BF16) && sg_desc_is_dense(desc)) return true;
    sg_graph_fail(g, SG_BAD_INPUT, "%s cannot be sharded: only dense fp32 and bf16 travel between ranks", p->name);
    return false;
}

static void make_vectors(sg_graph *g, sg_shard_state *s) {
    int64_t part = (s->count - 1) / g->ranks + 1, whole;
    if (__builtin_mul_overflow(part, g->ranks, &whole)) whole = -1; /* refused by its bytes */
    const sg_desc part_desc = sg_desc_make((sg_dtype)s->dtype, 1, &part),
                  whole_desc = sg_desc_make((sg_dtype)s->dtype, 1, &whole);
    uint64_t part_bytes, whole_bytes;
    if (!sg_graph_bytes(g, &part_desc, &part_bytes) || !sg_graph_bytes(g, &whole_desc, &whole_bytes)) return;
    s->shard.part = sg_graph_tensor(g, sg_graph_storage(g, part_bytes, SG_ROLE_WEIGHT, true), 0, &part_desc);
    s->shard.whole = sg_graph_tensor(g, sg_graph_storage(g, whole_bytes, SG_ROLE_WEIGHT, false), 0, &whole_desc);
}

void sg_shard_parameters(sg_graph *g, const sg_optimizer_spec *spec) {
    if (!g->profile.sharded || g->ranks < 2 || g->shards.count > 0 || g->failed) return;
    for (size_t i = 0; i < g->parameters.count && !g->failed; i++) {
        sg_parameter *p = &g->parameters.at[i];
        if (p->is_buffer || !can_travel(g, p)) continue;
        p->shard = shard_of(g, p, spec);
        if (p->shard < 0) return;
        sg_shard_state *s = &g->shards.at[p->shard];
        p->shard_offset = s->count;
        s->count += sg_desc_count(sg_graph_desc(g, p->tensor));
    }
    for (size_t i = 0; i < g->shards.count && !g->failed; i++) make_vectors(g, &g->shards.at[i]);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

typedef struct pieces {
    sg_tid *tensor;
    sg_desc *desc;
    int n;
} pieces;

static void add_piece(pieces *p, sg_tid tensor, int64_t count, sg_dtype dtype) {
    p->tensor[p->n] = tensor;
    p->desc[p->n++] = sg_desc_make(dtype, 1, &count);
}

static void add_zeros(sg_graph *g, pieces *p, int64_t count, sg_dtype dtype) {
    if (count > 0) add_piece(p, sg_full(g, dtype, 1, &count, 0), count, dtype);
}

/* What the whole gradient is made of: gradients in their places, zeros between and behind them. */
static bool gather_pieces(sg_graph *g, int32_t shard, pieces *p) {
    const sg_shard_state *s = &g->shards.at[shard];
    sg_dtype dtype = (sg_dtype)s->dtype;
    int64_t at = 0;
    size_t room = 2 * g->parameters.count + 2;
    p->tensor = sg_arena_alloc(g->arena, room * sizeof *p->tensor);
    p->desc = sg_arena_alloc(g->arena, room * sizeof *p->desc);
    p->n = 0;
    if (!p->tensor || !p->desc) {
        sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for %zu gradients", room);
        return false;
    }
    for (size_t i = 0; i < g->parameters.count; i++) {
        const sg_parameter *q = &g->parameters.at[i];
        if (q->shard != shard || q->gradient < 0) continue;
        int64_t count = sg_desc_count(sg_graph_desc(g, q->tensor));
        add_zeros(g, p, q->shard_offset - at, dtype);
        add_piece(p, q->gradient, count, dtype);
        g->storage_state.at[g->tensors.at[q->gradient].storage].passing = true;
        at = q->shard_offset + count;
    }
    add_zeros(g, p, sg_desc_count(sg_graph_desc(g, s->shard.whole)) - at, dtype);
    return !g->failed;
}

static bool gradient_role(sg_graph *g, sg_tid t, bool passing) {
    if (t < 0) return false;
    int32_t storage = g->tensors.at[t].storage;
    g->storages.at[storage].role = SG_ROLE_GRADIENT;
    g->storage_state.at[storage].passing = passing;
    return true;
}

static int32_t slot(int32_t shard, bool scatter) {
    return 2 * shard + scatter;
}

static void collective(sg_graph *g, sg_entry_kind kind, int32_t index, sg_tid from, sg_tid to) {
    uint32_t args;
    if (sg_graph_args(g, (const sg_tid[]){from, to}, 2, &args)) (void)sg_graph_entry(g, kind, index, args);
}

void sg_shard_join(sg_graph *g) {
    if (g->open_scatter < 0 || g->failed) return;
    const sg_shard *s = &g->shards.at[g->open_scatter].shard;
    collective(g, SG_ENTRY_JOIN, slot(g->open_scatter, true), s->whole_gradient, s->gradient);
    g->open_scatter = -1;
}

static void send_gradient(sg_graph *g, int32_t shard) {
    pieces p;
    if (!gather_pieces(g, shard, &p)) return;
    sg_shard *s = &g->shards.at[shard].shard;
    const sg_desc whole = *sg_graph_desc(g, s->whole), part = *sg_graph_desc(g, s->part);
    sg_attrs attrs = {0};
    sg_record record = {.kind = SG_OP_CAT,
                        .attrs = &attrs,
                        .n_in = p.n,
                        .n_out = 1,
                        .in = p.tensor,
                        .in_desc = p.desc,
                        .out_desc = &whole};
    (void)sg_graph_record(g, &record, &s->whole_gradient);
    sg_shard_join(g);
    uint64_t bytes;
    if (!sg_graph_bytes(g, &part, &bytes)) return;
    s->gradient = sg_graph_tensor(g, sg_graph_storage(g, bytes, SG_ROLE_GRADIENT, false), 0, &part);
    if (!gradient_role(g, s->whole_gradient, true) || !gradient_role(g, s->gradient, false)) return;
    collective(g, SG_ENTRY_SCATTER, slot(shard, true), s->whole_gradient, s->gradient);
    g->open_scatter = shard;
}

void sg_shard_ready(sg_graph *g, int32_t parameter) {
    int32_t shard = g->parameters.at[parameter].shard;
    if (shard < 0 || --g->shards.at[shard].pending > 0) return;
    const sg_node *node = g->node;
    int32_t module = g->module;
    g->node = NULL;
    g->module = g->shards.at[shard].shard.module;
    send_gradient(g, shard);
    g->module = module;
    g->node = node;
}

/* ---- norm -------------------------------------------------------------------------------------------------------- */

sg_tid sg_shard_total_norm(sg_graph *g, sg_tid norm, int group) {
    if (g->shards.count == 0 || g->failed) return norm;
    int32_t index = 2 * (int32_t)g->shards.count + group;
    sg_tid square = sg_unary(g, SG_FN_SQUARE, norm, 0, 0);
    if (g->failed) return SG_NO_TENSOR;
    collective(g, SG_ENTRY_REDUCE, index, square, square);
    collective(g, SG_ENTRY_JOIN, index, square, square);
    return sg_unary(g, SG_FN_SQRT, sg_scale(g, square, (double)g->ranks), 0, 0); /* ranks times the mean: the sum */
}
