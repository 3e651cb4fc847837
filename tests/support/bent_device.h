/* bent_device.h: a device whose functions can be made to fail or to compute wrongly, and that has what a GPU has beside a CPU:
 * pinned memory, recorded graphs. One at a time. */
#ifndef SG_TESTS_SUPPORT_BENT_DEVICE_H
#define SG_TESTS_SUPPORT_BENT_DEVICE_H

#include "kernels/device.h"

typedef struct sg_bent {
    const sg_device_api *inner;
    int fail_at;         /* the n-th call that may fail does, from 1; 0: none */
    int calls;           /* calls so far that may fail */
    bool wrong_results;  /* launches leave the last output's first and last bytes changed */
    bool wrong_copies;   /* copies to the host change their last byte */
    sg_compute refused;  /* prepare refuses ops of this compute mode; SG_COMPUTE_F32: none */
    uint64_t free_bytes; /* what info tells; 0: as the inner device */
    int64_t allocated;   /* segments and host blocks alive */
    int64_t alive;       /* plans, events, graphs alive */
    int64_t launches, replays;
} sg_bent;

/* The device; *bent must outlive its use. pinned, graphs: whether it has them. */
const sg_device_api *sg_bent_device(sg_bent *bent, bool pinned, bool graphs);

#endif
