/* lifetimes.c: where each storage is allocated and freed.
 *
 * A storage is allocated right before the first entry that writes or views it and freed after its last use, or when its last
 * hold ends (a local of the forward, a node of the backward). Gradients live until zero-grad drops them, across programs
 * where they are accumulated. Persistent storages have no entries: they exist before the first program. */
#include "models/graph_state.h"

#include <stdlib.h>

/* Storages that begin (or end) at a position: the first, and from each one the next. */
typedef struct chain {
    int32_t *head, *next;
    size_t count;
} chain;

/* What one program does with each storage; positions count entries, a FREE at position p stands before entry p. */
typedef struct plan {
    sg_graph *g;
    int32_t program;
    size_t n_entries, n_storages;
    uint32_t *alloc_at, *free_at; /* per storage; NEVER: not in this program */
    chain alloc, free;
    bool *released;        /* per storage: some program drops it at its zero-grad */
    int32_t *last_program; /* per storage: that uses it */
} plan;

#define NEVER UINT32_MAX

static int32_t storage_of(const sg_graph *g, sg_tid t) {
    return g->tensors.at[t].storage;
}

/* `begins`: an entry that may come first (a write, a view of empty memory). */
static void use(plan *p, int32_t storage, size_t position, bool begins) {
    if (p->g->storages.at[storage].persistent) return;
    if (p->free_at[storage] == NEVER && begins && p->g->storage_state.at[storage].program == p->program)
        p->alloc_at[storage] = (uint32_t)position;
    if (p->free_at[storage] == NEVER || p->free_at[storage] < position + 1)
        p->free_at[storage] = (uint32_t)position + 1;
}

static void scan_op(plan *p, const sg_entry *entry, size_t position) {
    const sg_op *op = &p->g->ops.at[entry->index];
    const int32_t *args = &p->g->args.at[entry->args];
    for (int32_t i = 0; i < op->n_in; i++) use(p, storage_of(p->g, args[i]), position, false);
    for (int32_t i = 0; i < op->n_out; i++) use(p, storage_of(p->g, args[op->n_in + i]), position, true);
}

static void scan(plan *p, const sg_draft *draft) {
    sg_graph *g = p->g;
    for (size_t s = 0; s < p->n_storages; s++) p->alloc_at[s] = p->free_at[s] = NEVER;
    for (size_t i = 0; i < p->n_entries; i++) {
        const sg_entry *entry = &draft->entries.at[i];
        switch ((sg_entry_kind)entry->kind) {
        case SG_ENTRY_OP: scan_op(p, entry, i); break;
        case SG_ENTRY_VIEW: use(p, storage_of(g, g->args.at[entry->args]), i, true); break;
        case SG_ENTRY_WAIT:
            if (entry->index >= 0) use(p, storage_of(g, entry->index), i, false);
            break;
        case SG_ENTRY_SCATTER:
        case SG_ENTRY_REDUCE:
        case SG_ENTRY_JOIN:
            use(p, storage_of(g, g->args.at[entry->args]), i, false);
            use(p, storage_of(g, g->args.at[entry->args + 1]), i, true);
            break;
        case SG_ENTRY_GRAD_READY: use(p, storage_of(g, g->parameters.at[entry->index].gradient), i, false); break;
        default: break;
        }
    }
    for (size_t i = 0; i < draft->holds.count; i++) {
        const sg_hold *hold = &draft->holds.at[i];
        uint32_t until = hold->position < p->n_entries ? hold->position : (uint32_t)p->n_entries;
        if (p->free_at[hold->storage] != NEVER && p->free_at[hold->storage] < until) p->free_at[hold->storage] = until;
    }
}

/* Gradients go where zero-grad drops them; without any, at the end of the last program that uses them. */
static void place_gradient_frees(plan *p, const sg_draft *draft, int32_t program) {
    for (size_t s = 0; s < p->n_storages; s++) {
        if (p->g->storages.at[s].role != SG_ROLE_GRADIENT || p->free_at[s] == NEVER) continue;
        if (p->g->storage_state.at[s].passing) continue;
        bool ends = !p->released[s] && p->last_program[s] == program;
        p->free_at[s] = ends ? (uint32_t)p->n_entries : NEVER;
    }
    for (size_t i = 0; i < draft->frees.count; i++)
        p->free_at[draft->frees.at[i].storage] = draft->frees.at[i].position;
}

/* Chains storages by position, in the order of their ids. */
static void link_positions(const plan *p, const uint32_t *at, chain *c) {
    c->count = 0;
    for (size_t i = 0; i <= p->n_entries; i++) c->head[i] = -1;
    for (size_t s = p->n_storages; s-- > 0;) {
        if (at[s] == NEVER) continue;
        c->next[s] = c->head[at[s]];
        c->head[at[s]] = (int32_t)s;
        c->count++;
    }
}

static sg_entry *put_chain(sg_entry *out, const chain *c, size_t position, sg_entry_kind kind, const sg_entry *beside) {
    for (int32_t s = c->head[position]; s >= 0; s = c->next[s])
        *out++ = (sg_entry){.kind = (uint8_t)kind, .pass = beside->pass, .index = s, .module = beside->module};
    return out;
}

/* At each position frees come first: what ends makes room for what begins. */
static bool weave(const plan *p, sg_draft *draft) {
    static const sg_entry nothing = {.pass = SG_PASS_FORWARD};
    size_t n = p->n_entries, total = n + p->free.count + p->alloc.count;
    sg_entry *entries = malloc((total + 1) * sizeof *entries), *out = entries;
    if (!entries) return false;
    const sg_entry *from = draft->entries.at;
    for (size_t i = 0; i < n; i++) {
        out = put_chain(out, &p->free, i, SG_ENTRY_FREE, i > 0 ? &from[i - 1] : &nothing);
        out = put_chain(out, &p->alloc, i, SG_ENTRY_ALLOC, &from[i]);
        *out++ = from[i];
    }
    (void)put_chain(out, &p->free, n, SG_ENTRY_FREE, n > 0 ? &from[n - 1] : &nothing);
    free(draft->entries.at);
    draft->entries.at = entries;
    draft->entries.count = draft->entries.capacity = total;
    return true;
}

static bool place(plan *p, int32_t program) {
    sg_draft *draft = &p->g->programs.at[program];
    p->program = program;
    p->n_entries = draft->entries.count;
    p->alloc.head = malloc((p->n_entries + 1) * sizeof *p->alloc.head);
    p->free.head = malloc((p->n_entries + 1) * sizeof *p->free.head);
    bool done = p->alloc.head && p->free.head;
    if (done) {
        scan(p, draft);
        place_gradient_frees(p, draft, program);
        link_positions(p, p->alloc_at, &p->alloc);
        link_positions(p, p->free_at, &p->free);
        done = weave(p, draft);
    }
    free(p->alloc.head);
    free(p->free.head);
    return done;
}

/* Which gradients some program releases, and the last program that uses each storage. */
static void survey(plan *p) {
    sg_graph *g = p->g;
    for (size_t k = 0; k < g->programs.count; k++) {
        const sg_draft *draft = &g->programs.at[k];
        p->n_entries = draft->entries.count;
        scan(p, draft);
        for (size_t s = 0; s < p->n_storages; s++)
            if (p->free_at[s] != NEVER) p->last_program[s] = (int32_t)k;
        for (size_t i = 0; i < draft->frees.count; i++) p->released[draft->frees.at[i].storage] = true;
    }
}

bool sg_graph_place_lifetimes(sg_graph *g) {
    size_t n = g->storages.count + 1;
    plan p = {.g = g, .n_storages = g->storages.count};
    p.alloc_at = malloc(n * sizeof *p.alloc_at);
    p.free_at = malloc(n * sizeof *p.free_at);
    p.alloc.next = malloc(n * sizeof *p.alloc.next);
    p.free.next = malloc(n * sizeof *p.free.next);
    p.released = calloc(n, sizeof *p.released);
    p.last_program = calloc(n, sizeof *p.last_program);
    bool done = p.alloc_at && p.free_at && p.alloc.next && p.free.next && p.released && p.last_program;
    if (done) survey(&p);
    for (size_t i = 0; i < g->programs.count && done; i++) done = place(&p, (int32_t)i);
    if (!done) sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for the lifetimes of %zu tensors", n - 1);
    free(p.alloc_at);
    free(p.free_at);
    free(p.alloc.next);
    free(p.free.next);
    free(p.released);
    free(p.last_program);
    return done;
}
