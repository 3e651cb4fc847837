/* buckets.h: gradients travel in buckets, as in PyTorch's DistributedDataParallel.
 *
 * Parameters are taken in reverse registration order; a bucket is closed when it has reached its size: 1 MiB for the
 * first, 25 MiB for the others (torch/csrc/distributed/c10d/reducer.hpp), apart by dtype. When all gradients of a bucket
 * are ready they have been copied into its buffer and the buffer is averaged over the ranks on the collective stream,
 * beside the backward. SYNC_GRADS waits for all buckets and copies back. */
#ifndef SG_SIM_WALK_BUCKETS_H
#define SG_SIM_WALK_BUCKETS_H

#include "sim/walk/walk.h"

/* A parameter's gradient inside its bucket. */
typedef struct sg_bucket_part {
    int32_t bucket; /* -1: no gradient */
    int32_t op;     /* index into sg_buckets.ops: the copy of its elements */
    uint64_t offset_bytes;
    uint64_t gradient_offset_bytes;
    int32_t storage;
} sg_bucket_part;

typedef struct sg_bucket {
    sg_dtype dtype;
    int64_t count; /* elements */
    int32_t parts, waiting;
    sg_event *ready, *done;
} sg_bucket;

typedef struct sg_buckets {
    sg_bucket *bucket;
    int32_t n_buckets;
    sg_bucket_part *part; /* per parameter of the training */
    sg_op *ops;           /* unique copies, contiguous [count] -> [count] */
    sg_desc *desc;        /* two per op */
    int32_t n_ops;
} sg_buckets;

/* Assigns gradients to buckets. SG_BAD_INPUT: a gradient that cannot travel (dtype, gaps). */
sg_code sg_buckets_make(const sg_training *training, sg_bucket_options options, sg_buckets *buckets, sg_status *status);
sg_code sg_buckets_events(sg_buckets *buckets, const sg_device_api *api, sg_device *device, sg_status *status);
void sg_buckets_clear(sg_buckets *buckets, const sg_device_api *api, sg_device *device);
uint64_t sg_bucket_bytes(const sg_bucket *bucket);
/* All gradients are awaited again. */
void sg_buckets_reset(sg_buckets *buckets);

#endif
