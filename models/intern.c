/* intern.c: the table of unique ops: equal ops are prepared and priced once. */
#include "models/graph_state.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(sg_desc) % 8 == 0 && sizeof(sg_attrs) % 8 == 0, "hashed 8 bytes at a time");

static uint64_t hash_words(uint64_t hash, const void *data, size_t bytes) {
    const char *at = data;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word;
        memcpy(&word, at + i, 8);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* Of at most `most` operands. */
static uint64_t hash_op(const sg_op *op, size_t most) {
    size_t n = (size_t)op->n_in + (size_t)op->n_out;
    uint64_t hash = (uint64_t)(uint32_t)op->kind << 32 ^ (uint32_t)op->n_in ^ (uint64_t)(uint32_t)op->n_out << 16;
    hash = hash_words(hash, &op->attrs, sizeof op->attrs);
    return hash_words(hash, op->desc, (n < most ? n : most) * sizeof *op->desc);
}

uint64_t sg_training_ops_hash(const sg_training *training) {
    uint64_t hash = 0;
    for (size_t i = 0; i < training->n_ops; i++) {
        uint64_t one = hash_op(&training->ops[i], SIZE_MAX);
        hash = hash_words(hash, &one, sizeof one);
    }
    return hash;
}

/* Attributes and descriptors are zero where they are not used, so that their bytes can be compared (kernels/op.h). */
static bool same_bytes(const void *a, const void *b, size_t bytes) {
    return memcmp(a, b, bytes) == 0;
}

static bool equal_ops(const sg_op *a, const sg_op *b) {
    return a->kind == b->kind && a->n_in == b->n_in && a->n_out == b->n_out &&
           same_bytes(&a->attrs, &b->attrs, sizeof a->attrs) &&
           same_bytes(a->desc, b->desc, (size_t)(a->n_in + a->n_out) * sizeof *a->desc);
}

static bool grow_slots(sg_graph *g) {
    size_t count = g->op_slot_count ? g->op_slot_count * 2 : 1024;
    int32_t *slots = malloc(count * sizeof *slots);
    if (!slots) {
        sg_graph_fail(g, SG_MACHINE, "cannot allocate %zu bytes of host memory for the table of operations",
                      count * sizeof *slots);
        return false;
    }
    memset(slots, 0xff, count * sizeof *slots);
    for (size_t i = 0; i < g->ops.count; i++) {
        size_t at = g->op_hash.at[i] & (count - 1);
        while (slots[at] >= 0) at = (at + 1) & (count - 1);
        slots[at] = (int32_t)i;
    }
    free(g->op_slots);
    g->op_slots = slots;
    g->op_slot_count = count;
    return true;
}

static int32_t add_op(sg_graph *g, const sg_op *op, uint64_t hash, size_t slot) {
    const char *fault = sg_op_check(op);
    if (fault) {
        sg_graph_fail(g, SG_BAD_INPUT, "%s in %s: %s", sg_op_kind_name((sg_op_kind)op->kind), sg_graph_module_name(g),
                      fault);
        return -1;
    }
    size_t bytes = (size_t)(op->n_in + op->n_out) * sizeof *op->desc;
    sg_desc *desc = sg_arena_alloc(g->arena, bytes);
    if (!desc) {
        sg_graph_fail(g, SG_MACHINE, "cannot allocate %zu bytes of host memory for an operation", bytes);
        return -1;
    }
    if (!SG_ROOM(g, &g->ops, 1) || !SG_ROOM(g, &g->op_hash, 1)) return -1;
    memcpy(desc, op->desc, bytes);
    sg_op copy = *op;
    copy.desc = desc;
    g->op_hash.at[g->op_hash.count++] = hash;
    g->ops.at[g->ops.count] = copy;
    g->op_slots[slot] = (int32_t)g->ops.count;
    return (int32_t)g->ops.count++;
}

/* Lists of a whole model's tensors are told apart by their first ones, or else by comparing them. */
enum { FEW = 32 };

int32_t sg_graph_intern(sg_graph *g, const sg_op *op) {
    if (g->ops.count * 2 >= g->op_slot_count && !grow_slots(g)) return -1;
    uint64_t hash = hash_op(op, FEW);
    size_t at = hash & (g->op_slot_count - 1);
    for (; g->op_slots[at] >= 0; at = (at + 1) & (g->op_slot_count - 1)) {
        int32_t i = g->op_slots[at];
        if (g->op_hash.at[i] == hash && equal_ops(&g->ops.at[i], op)) return i;
    }
    return add_op(g, op, hash, at);
}
