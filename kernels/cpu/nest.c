#include "kernels/cpu/nest.h"

#include <string.h>

/* True when dim a should lie outside dim b. */
static bool is_outer(const sg_nest *nest, int a, int b) {
    for (int k = 0; k < nest->operands; k++) {
        int64_t sa = nest->stride[k][a], sb = nest->stride[k][b];
        if (sa != sb) return sa > sb;
    }
    return a < b;
}

static void swap_dims(sg_nest *nest, int a, int b) {
    int64_t kept = nest->size[a];
    nest->size[a] = nest->size[b];
    nest->size[b] = kept;
    for (int k = 0; k < nest->operands; k++) {
        kept = nest->stride[k][a];
        nest->stride[k][a] = nest->stride[k][b];
        nest->stride[k][b] = kept;
    }
}

/* True when dim d and the one inside it are one dim for every operand. */
static bool can_join(const sg_nest *nest, int d) {
    for (int k = 0; k < nest->operands; k++)
        if (nest->stride[k][d] != nest->stride[k][d + 1] * nest->size[d + 1]) return false;
    return true;
}

static void drop_dim(sg_nest *nest, int d) {
    nest->ndim--;
    size_t tail = (size_t)(nest->ndim - d) * sizeof(int64_t);
    memmove(&nest->size[d], &nest->size[d + 1], tail);
    for (int k = 0; k < nest->operands; k++) memmove(&nest->stride[k][d], &nest->stride[k][d + 1], tail);
}

void sg_nest_move_inside(sg_nest *nest, int d) {
    for (; d + 1 < nest->ndim; d++) swap_dims(nest, d, d + 1);
}

int64_t sg_nest_join_periodic(sg_nest *nest, int64_t most, int64_t stride[SG_NEST_OPERANDS]) {
    int inner = nest->ndim - 1, outer = inner - 1;
    int64_t period = nest->size[inner];
    if (outer < 0 || period > most) return 0;
    bool repeats[SG_NEST_OPERANDS] = {false};
    for (int k = 0; k < nest->operands; k++) {
        if (nest->stride[k][outer] == nest->stride[k][inner] * period) continue;
        if (k == 0 || nest->stride[k][outer] != 0) return 0;
        repeats[k] = true;
    }
    for (int k = 0; k < nest->operands; k++) {
        stride[k] = repeats[k] ? nest->stride[k][inner] : 0;
        if (repeats[k]) nest->stride[k][inner] = 0;
    }
    nest->size[inner] *= nest->size[outer];
    drop_dim(nest, outer);
    return period;
}

static sg_nest make(int operands, const sg_desc *const *descs, bool sorted) {
    sg_nest nest = {.operands = operands, .ndim = 0, .count = sg_desc_count(descs[0])};
    for (int k = 0; k < operands; k++) {
        nest.dtype[k] = descs[k]->dtype;
        nest.bytes[k] = (int64_t)sg_dtype_bytes((sg_dtype)descs[k]->dtype);
    }
    for (int d = 0; d < descs[0]->ndim; d++) {
        if (descs[0]->size[d] == 1) continue;
        nest.size[nest.ndim] = descs[0]->size[d];
        for (int k = 0; k < operands; k++) nest.stride[k][nest.ndim] = descs[k]->stride[d];
        nest.ndim++;
    }
    for (int i = 1; i < nest.ndim && sorted; i++)
        for (int j = i; j > 0 && is_outer(&nest, j, j - 1); j--) swap_dims(&nest, j, j - 1);
    for (int d = nest.ndim - 2; d >= 0; d--) {
        if (!can_join(&nest, d)) continue;
        nest.size[d + 1] *= nest.size[d];
        drop_dim(&nest, d);
    }
    if (nest.ndim == 0) {
        nest.ndim = 1;
        nest.size[0] = 1;
        for (int k = 0; k < operands; k++) nest.stride[k][0] = 1;
    }
    return nest;
}

sg_nest sg_nest_make(int operands, const sg_desc *const *descs) {
    return make(operands, descs, true);
}

sg_nest sg_nest_make_in_order(int operands, const sg_desc *const *descs) {
    return make(operands, descs, false);
}

void sg_nest_seek(const sg_nest *nest, int64_t position, sg_nest_place *place) {
    for (int k = 0; k < nest->operands; k++) place->offset[k] = 0;
    for (int d = nest->ndim - 1; d >= 0; d--) {
        int64_t index = position % nest->size[d];
        position /= nest->size[d];
        place->index[d] = index;
        for (int k = 0; k < nest->operands; k++) place->offset[k] += index * nest->stride[k][d] * nest->bytes[k];
    }
}

void sg_nest_advance(const sg_nest *nest, sg_nest_place *place, int64_t n) {
    int d = nest->ndim - 1;
    place->index[d] += n;
    for (int k = 0; k < nest->operands; k++) place->offset[k] += n * nest->stride[k][d] * nest->bytes[k];
    while (place->index[d] == nest->size[d] && d > 0) {
        place->index[d] = 0;
        for (int k = 0; k < nest->operands; k++) {
            place->offset[k] -= nest->size[d] * nest->stride[k][d] * nest->bytes[k];
            place->offset[k] += nest->stride[k][d - 1] * nest->bytes[k];
        }
        place->index[--d]++;
    }
}
