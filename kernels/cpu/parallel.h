/* parallel.h: the one place where loops are spread over threads. */
#ifndef SG_KERNELS_CPU_PARALLEL_H
#define SG_KERNELS_CPU_PARALLEL_H

#include <stdint.h>

/* Works on items begin..end-1. `thread` is below the number given to sg_parallel. */
typedef void (*sg_body)(void *context, int64_t begin, int64_t end, int thread);

/* Splits 0..n-1 into at most `threads` contiguous parts of at least `grain` items and waits for all of them. Parts are
 * the same for equal arguments, whichever thread runs them. Without OpenMP there is one part. */
void sg_parallel(int threads, int64_t n, int64_t grain, sg_body body, void *context);
/* Parts that sg_parallel makes. */
int sg_parallel_parts(int threads, int64_t n, int64_t grain);
/* Threads that the calling thread's parallel regions (oneDNN's too) use from now on. */
void sg_parallel_set_threads(int threads);

#endif
