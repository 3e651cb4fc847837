/* shard_gather.c: when the parameters of a unit are there. Around the unit's uses in a forward, and again in a backward, the
 * whole is gathered, waited for, and freed (reshard_after_forward); the root unit stays from its first use to its last. The
 * next unit's gathering is begun right before the work of the one before it, on the collective stream. */
#include "models/graph_state.h"

#include <stdlib.h>
#include <string.h>

enum { CLIP_GROUPS = 5 };

typedef struct interval {
    int32_t unit;
    size_t start, end; /* entries, both included */
} interval;

/* Actions at one position, in this order. */
typedef enum action_kind { FREE_WHOLE, GATHER_LATE, JOIN_WHOLE, GATHER_AHEAD } action_kind;

typedef struct action {
    size_t position;
    action_kind kind;
    int32_t unit;
    size_t turn;
} action;

typedef struct uses {
    bool any;
    size_t first, last;
} uses;

/* ---- which unit a storage belongs to ----------------------------------------------------------------------------- */

static int32_t *owners(sg_graph *g) {
    int32_t *owner = malloc((g->storages.count + 1) * sizeof *owner);
    if (!owner) return NULL;
    for (size_t i = 0; i < g->storages.count; i++) owner[i] = -1;
    for (size_t i = 0; i < g->parameters.count; i++)
        if (g->parameters.at[i].shard >= 0) owner[g->tensors.at[g->parameters.at[i].tensor].storage] = (int32_t)i;
    return owner;
}

static int32_t unit_of(const sg_graph *g, const int32_t *owner, sg_tid tensor) {
    int32_t parameter = owner[g->tensors.at[tensor].storage];
    return parameter < 0 ? -1 : g->shards.at[g->parameters.at[parameter].shard].unit;
}

static bool is_root(const sg_graph *g, int32_t unit) {
    return g->shards.at[unit].shard.unit[0] == '\0';
}

/* ---- intervals ---------------------------------------------------------------------------------------------------- */

static void note_use(const sg_graph *g, uses *u, int32_t unit, bool backward, size_t at) {
    if (unit < 0) return;
    uses *of = &u[2 * unit + (backward && !is_root(g, unit))];
    if (!of->any) of->first = at;
    of->any = true;
    of->last = at;
}

static void survey(const sg_graph *g, const sg_draft *draft, const int32_t *owner, uses *u) {
    memset(u, 0, 2 * g->shards.count * sizeof *u);
    for (size_t i = 0; i < draft->entries.count; i++) {
        const sg_entry *e = &draft->entries.at[i];
        int32_t n = e->kind == SG_ENTRY_OP     ? g->ops.at[e->index].n_in + g->ops.at[e->index].n_out
                    : e->kind == SG_ENTRY_VIEW ? 1
                                               : 0;
        for (int32_t k = 0; k < n; k++)
            note_use(g, u, unit_of(g, owner, g->args.at[e->args + (uint32_t)k]), e->pass == SG_PASS_BACKWARD, i);
    }
}

static int by_start(const void *a, const void *b) {
    const interval *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return (x->unit > y->unit) - (x->unit < y->unit);
}

static size_t list_intervals(const sg_graph *g, const uses *u, interval *list) {
    size_t n = 0;
    for (size_t i = 0; i < 2 * g->shards.count; i++)
        if (u[i].any) list[n++] = (interval){(int32_t)(i / 2), u[i].first, u[i].last};
    qsort(list, n, sizeof *list, by_start);
    return n;
}

/* A unit's gathering begins with the work of the unit before, but not while its own earlier whole is still there. */
static size_t begin_of(const interval *list, size_t i) {
    if (i == 0) return list[0].start;
    size_t begin = list[i - 1].start;
    for (size_t k = 0; k < i; k++)
        if (list[k].unit == list[i].unit && list[k].end + 1 > begin) begin = list[k].end + 1;
    return begin;
}

static int by_position(const void *a, const void *b) {
    const action *x = a, *y = b;
    if (x->position != y->position) return x->position < y->position ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return (x->turn > y->turn) - (x->turn < y->turn);
}

static size_t list_actions(const interval *list, size_t n, action *actions) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        size_t begin = begin_of(list, i);
        actions[count++] = (action){begin, begin == list[i].start ? GATHER_LATE : GATHER_AHEAD, list[i].unit, i};
        actions[count++] = (action){list[i].start, JOIN_WHOLE, list[i].unit, i};
        actions[count++] = (action){list[i].end + 1, FREE_WHOLE, list[i].unit, i};
    }
    qsort(actions, count, sizeof *actions, by_position);
    return count;
}

/* ---- entries ------------------------------------------------------------------------------------------------------ */

typedef struct writer {
    sg_graph *g;
    sg_entry_list out;
    uint8_t pass;
} writer;

static void put(writer *w, sg_entry_kind kind, int32_t index, uint32_t args, int32_t module) {
    if (!SG_ROOM(w->g, &w->out, 1)) return;
    w->out.at[w->out.count++] =
        (sg_entry){.kind = (uint8_t)kind, .pass = w->pass, .index = index, .args = args, .module = module};
}

static void put_views(writer *w, int32_t shard) {
    for (size_t i = 0; i < w->g->parameters.count; i++) {
        const sg_parameter *p = &w->g->parameters.at[i];
        uint32_t args;
        if (p->shard == shard && sg_graph_args(w->g, &p->tensor, 1, &args)) put(w, SG_ENTRY_VIEW, -1, args, p->module);
    }
}

static void act(writer *w, const action *a) {
    sg_graph *g = w->g;
    for (int32_t i = 0; (size_t)i < g->shards.count && !g->failed; i++) {
        const sg_shard_state *s = &g->shards.at[i];
        if (s->unit != a->unit) continue;
        int32_t storage = g->tensors.at[s->shard.whole].storage;
        uint32_t args;
        if (a->kind == FREE_WHOLE) {
            put(w, SG_ENTRY_FREE, storage, 0, s->shard.module);
            continue;
        }
        if (!sg_graph_args(g, (const sg_tid[]){s->shard.part, s->shard.whole}, 2, &args)) return;
        if (a->kind == JOIN_WHOLE) {
            put(w, SG_ENTRY_JOIN, 2 * i, args, s->shard.module);
            put_views(w, i);
        } else {
            put(w, SG_ENTRY_ALLOC, storage, 0, s->shard.module);
            put(w, SG_ENTRY_GATHER, 2 * i, args, s->shard.module);
        }
    }
}

static bool rewrite(sg_graph *g, sg_draft *draft, const action *actions, size_t n) {
    writer w = {.g = g};
    size_t next = 0;
    for (size_t i = 0; i <= draft->entries.count && !g->failed; i++) {
        const sg_entry *e = i < draft->entries.count ? &draft->entries.at[i] : NULL;
        if (e) w.pass = e->pass;
        for (; next < n && actions[next].position == i; next++) act(&w, &actions[next]);
        if (e && SG_ROOM(g, &w.out, 1)) w.out.at[w.out.count++] = *e;
    }
    if (g->failed) {
        free(w.out.at);
        return false;
    }
    free(draft->entries.at);
    memcpy(&draft->entries, &w.out, sizeof draft->entries);
    return true;
}

static bool place_program(sg_graph *g, sg_draft *draft, const int32_t *owner) {
    size_t n = 2 * g->shards.count;
    uses *u = malloc(n * sizeof *u);
    interval *list = malloc(n * sizeof *list);
    action *actions = malloc(3 * n * sizeof *actions);
    bool done = u && list && actions;
    if (done) {
        survey(g, draft, owner, u);
        size_t count = list_intervals(g, u, list);
        done = count == 0 || rewrite(g, draft, actions, list_actions(list, count, actions));
    }
    free(u);
    free(list);
    free(actions);
    return done;
}

/* ---- tables ------------------------------------------------------------------------------------------------------- */

/* Parameters and their views lie in the whole from here on; their own storages are used by nothing. */
static void move_tensors(sg_graph *g, const int32_t *owner, size_t n_tensors) {
    for (size_t i = 0; i < n_tensors; i++) {
        sg_tensor *x = &g->tensors.at[i];
        if (owner[x->storage] < 0) continue;
        const sg_parameter *p = &g->parameters.at[owner[x->storage]];
        const sg_shard *s = &g->shards.at[p->shard].shard;
        x->offset_bytes += p->shard_offset * (int64_t)sg_dtype_bytes((sg_dtype)g->shards.at[p->shard].dtype);
        x->storage = g->tensors.at[s->whole].storage;
    }
    for (size_t i = 0; i < g->storages.count; i++)
        if (owner[i] >= 0) g->storages.at[i].persistent = false;
}

static bool hand_over_shards(sg_graph *g) {
    size_t n = g->shards.count;
    sg_shard *shards = sg_arena_alloc(g->arena, n * sizeof *shards);
    if (!shards) return false;
    for (size_t i = 0; i < n; i++) shards[i] = g->shards.at[i].shard;
    g->training->shards = shards;
    g->training->n_shards = n;
    g->training->n_collectives = 2 * (int32_t)n + CLIP_GROUPS;
    g->training->shard_ranks = g->ranks;
    return true;
}

bool sg_shard_place_gathers(sg_graph *g) {
    if (g->shards.count == 0) return true;
    int32_t *owner = owners(g);
    bool done = owner != NULL;
    for (size_t i = 0; i < g->programs.count && done; i++) done = place_program(g, &g->programs.at[i], owner);
    if (done) move_tensors(g, owner, g->tensors.count);
    done = done && hand_over_shards(g);
    free(owner);
    if (!done) sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for %zu shards", g->shards.count);
    return done;
}
