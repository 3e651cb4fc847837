#include "tests/support/widen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *duplicate(const void *from, size_t count, size_t bytes) {
    void *to = calloc(count ? count : 1, bytes);
    if (!to) abort();
    if (count) memcpy(to, from, count * bytes);
    return to;
}

static sg_desc widened(const sg_desc *desc) {
    sg_desc wide = *desc;
    if (sg_dtype_is_float((sg_dtype)desc->dtype)) wide.dtype = SG_F64;
    return wide;
}

/* Bytes of an element afterwards over before. */
static uint64_t growth(const sg_desc *desc) {
    sg_desc wide = widened(desc);
    return sg_dtype_bytes((sg_dtype)wide.dtype) / sg_dtype_bytes((sg_dtype)desc->dtype);
}

static void widen_storages(const sg_training *from, sg_training *to) {
    sg_storage *storages = duplicate(from->storages, from->n_storages, sizeof *storages);
    sg_tensor *tensors = duplicate(from->tensors, from->n_tensors, sizeof *tensors);
    uint64_t *factor = calloc(from->n_storages + 1, sizeof *factor);
    if (!factor) abort();
    for (size_t i = 0; i < from->n_tensors; i++) {
        sg_tensor *t = &tensors[i];
        uint64_t grows = growth(&t->desc);
        if (factor[t->storage] != 0 && factor[t->storage] != grows) {
            (void)fprintf(stderr, "storage %d is read as elements of different sizes\n", t->storage);
            abort();
        }
        factor[t->storage] = grows;
        t->offset_bytes *= (int64_t)grows;
        t->desc = widened(&t->desc);
    }
    for (size_t i = 0; i < from->n_storages; i++)
        if (factor[i]) storages[i].bytes *= factor[i];
    free(factor);
    to->storages = storages;
    to->tensors = tensors;
}

static void widen_ops(const sg_training *from, sg_training *to) {
    sg_op *ops = duplicate(from->ops, from->n_ops, sizeof *ops);
    for (size_t i = 0; i < from->n_ops; i++) {
        size_t n = (size_t)ops[i].n_in + (size_t)ops[i].n_out;
        sg_desc *desc = duplicate(ops[i].desc, n, sizeof *desc);
        for (size_t k = 0; k < n; k++) desc[k] = widened(&desc[k]);
        ops[i].desc = desc;
    }
    to->ops = ops;
}

sg_training *sg_widen(const sg_training *training) {
    sg_training *wide = duplicate(training, 1, sizeof *wide);
    wide->arena = NULL;
    widen_storages(training, wide);
    widen_ops(training, wide);
    return wide;
}

void sg_widen_free(sg_training *wide) {
    if (!wide) return;
    for (size_t i = 0; i < wide->n_ops; i++) free((void *)wide->ops[i].desc);
    free((void *)wide->ops);
    free((void *)wide->tensors);
    free((void *)wide->storages);
    free(wide);
}
