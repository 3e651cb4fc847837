/* allocator.h: device memory as a framework hands it out.
 *
 * CACHING follows PyTorch's CUDA caching allocator (c10/cuda/CUDACachingAllocator.cpp, defaults): sizes are rounded up to
 * 512 B; up to 1 MiB is cut from segments of 2 MiB, more than 1 MiB and less than 10 MiB from segments of 20 MiB, larger
 * requests get a segment of their own, rounded up to 2 MiB. The smallest free block that fits is taken, at equal size the
 * one in the oldest segment. It is split when the rest is at least 512 B (small pool) or more than 1 MiB (large pool).
 * Freed blocks merge with free neighbours and stay reserved; when the device has no more memory, segments that are wholly
 * free are given back and the request is tried once more.
 * PRIVATE is the same, but gives nothing back before it is closed: recorded work goes on using memory that was freed while it
 * was recorded (PyTorch's private pools of CUDA graphs).
 * PLAIN is a device class without such an allocator (CPU): every request goes to the device, reserved = allocated.
 *
 * Block addresses never decide anything, so that equal sequences of requests give equal peaks on every device. */
#ifndef SG_SIM_WALK_ALLOCATOR_H
#define SG_SIM_WALK_ALLOCATOR_H

#include "kernels/device.h"

typedef enum sg_allocator_policy { SG_ALLOCATOR_PLAIN, SG_ALLOCATOR_CACHING, SG_ALLOCATOR_PRIVATE } sg_allocator_policy;

typedef struct sg_allocator sg_allocator;
typedef struct sg_block sg_block;

typedef struct sg_allocator_state {
    uint64_t allocated_bytes, reserved_bytes;           /* now */
    uint64_t peak_allocated_bytes, peak_reserved_bytes; /* since the last reset */
    uint64_t largest_free_bytes;                        /* largest cached block that is free now */
    uint64_t segments;                                  /* held from the device now */
    uint64_t retries;                                   /* times the cache was given back for want of memory */
} sg_allocator_state;

sg_code sg_allocator_open(const sg_device_api *api, sg_device *device, sg_allocator_policy policy,
                          sg_allocator **allocator, sg_status *status);
/* Gives all segments back, blocks still taken included. NULL is allowed. */
void sg_allocator_close(sg_allocator *allocator);

/* A block of at least `bytes` bytes. SG_NO: out of memory; SG_MACHINE: the host has none for the bookkeeping. */
sg_code sg_allocator_take(sg_allocator *allocator, uint64_t bytes, sg_block **block, sg_status *status);
void sg_allocator_give(sg_allocator *allocator, sg_block *block);
/* Gives wholly free segments back to the device (torch.cuda.empty_cache). */
void sg_allocator_trim(sg_allocator *allocator);

void *sg_block_address(const sg_block *block);
uint64_t sg_block_bytes(const sg_block *block); /* as counted in allocated_bytes */

void sg_allocator_read(const sg_allocator *allocator, sg_allocator_state *state);
/* Peaks restart from what is allocated and reserved now. */
void sg_allocator_reset_peak(sg_allocator *allocator);
/* Where not NULL, seconds spent in the device's own functions are added to *device_s from now on. */
void sg_allocator_time_device(sg_allocator *allocator, double *device_s);

#endif
