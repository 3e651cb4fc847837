/* buckets.c: see buckets.h. */
#include "sim/walk/buckets.h"

#include <stdlib.h>

static const uint64_t FIRST_BYTES = 1u << 20, BYTES = 25u << 20;

uint64_t sg_bucket_bytes(const sg_bucket *bucket) {
    return (uint64_t)bucket->count * sg_dtype_bytes(bucket->dtype);
}

void sg_buckets_reset(sg_buckets *b) {
    for (int32_t i = 0; i < b->n_buckets; i++) b->bucket[i].waiting = b->bucket[i].parts;
}

static int32_t copy_op(sg_buckets *b, sg_dtype dtype, int64_t count) {
    for (int32_t i = 0; i < b->n_ops; i++)
        if (b->desc[2 * i].dtype == (int32_t)dtype && b->desc[2 * i].size[0] == count) return i;
    b->desc[2 * b->n_ops] = b->desc[2 * b->n_ops + 1] = sg_desc_make(dtype, 1, &count);
    b->ops[b->n_ops] = (sg_op){.kind = SG_OP_COPY, .n_in = 1, .n_out = 1, .desc = &b->desc[2 * b->n_ops]};
    return b->n_ops++;
}

static sg_code place(sg_buckets *b, const sg_training *t, size_t parameter, int32_t open[SG_DTYPE_COUNT],
                     const sg_bucket_options *options, sg_status *status) {
    const sg_parameter *p = &t->parameters[parameter];
    if (p->gradient < 0 || (size_t)p->gradient >= t->n_tensors)
        return sg_fail(status, SG_BAD_INPUT, "gradient of %s: tensor %d of %zu", p->name, p->gradient, t->n_tensors);
    const sg_tensor *g = &t->tensors[p->gradient];
    sg_dtype dtype = (sg_dtype)g->desc.dtype;
    if (dtype != SG_F32 && dtype != SG_BF16)
        return sg_fail(status, SG_BAD_INPUT, "gradient of %s is %s: only f32 and bf16 travel between ranks", p->name,
                       sg_dtype_name(dtype));
    if (!sg_desc_is_dense(&g->desc))
        return sg_fail(status, SG_BAD_INPUT, "gradient of %s has gaps in memory: it cannot travel in a bucket",
                       p->name);
    if (open[dtype] < 0) {
        open[dtype] = b->n_buckets;
        b->bucket[b->n_buckets++].dtype = dtype;
    }
    sg_bucket *bucket = &b->bucket[open[dtype]];
    int64_t count = sg_desc_count(&g->desc);
    b->part[parameter] = (sg_bucket_part){.bucket = open[dtype],
                                          .op = copy_op(b, dtype, count),
                                          .offset_bytes = sg_bucket_bytes(bucket),
                                          .gradient_offset_bytes = (uint64_t)g->offset_bytes,
                                          .storage = g->storage};
    bucket->count += count;
    bucket->parts++;
    uint64_t limit = open[dtype] == 0 ? options->first_bytes : options->bytes;
    if (sg_bucket_bytes(bucket) >= limit) open[dtype] = -1;
    return SG_OK;
}

sg_code sg_buckets_make(const sg_training *t, sg_bucket_options options, sg_buckets *b, sg_status *status) {
    *b = (sg_buckets){0};
    size_t n = t->n_parameters;
    if (!options.first_bytes) options.first_bytes = FIRST_BYTES;
    if (!options.bytes) options.bytes = BYTES;
    b->bucket = calloc(n + 1, sizeof *b->bucket);
    b->part = calloc(n + 1, sizeof *b->part);
    b->ops = calloc(n + 1, sizeof *b->ops);
    b->desc = calloc(2 * n + 2, sizeof *b->desc);
    if (!b->bucket || !b->part || !b->ops || !b->desc) {
        sg_buckets_clear(b, NULL, NULL);
        return sg_fail_memory(status, n * sizeof *b->bucket, "the gradient buckets");
    }
    int32_t open[SG_DTYPE_COUNT];
    for (int i = 0; i < SG_DTYPE_COUNT; i++) open[i] = -1;
    for (size_t i = n; i-- > 0;) {
        b->part[i].bucket = -1;
        if (!t->parameters[i].trainable || t->parameters[i].gradient < 0) continue;
        sg_code code = place(b, t, i, open, &options, status);
        if (code) {
            sg_buckets_clear(b, NULL, NULL);
            return code;
        }
    }
    sg_buckets_reset(b);
    return SG_OK;
}

sg_code sg_buckets_events(sg_buckets *b, const sg_device_api *api, sg_device *device, sg_status *status) {
    for (int32_t i = 0; i < b->n_buckets; i++) {
        sg_code code = api->event_create(device, &b->bucket[i].ready, status);
        if (!code) code = api->event_create(device, &b->bucket[i].done, status);
        if (code) return code;
    }
    return SG_OK;
}

void sg_buckets_clear(sg_buckets *b, const sg_device_api *api, sg_device *device) {
    for (int32_t i = 0; i < b->n_buckets && api; i++) {
        if (b->bucket[i].ready) api->event_destroy(device, b->bucket[i].ready);
        if (b->bucket[i].done) api->event_destroy(device, b->bucket[i].done);
    }
    free(b->bucket);
    free(b->part);
    free(b->ops);
    free(b->desc);
    *b = (sg_buckets){0};
}
