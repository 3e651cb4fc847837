/* clock.h: clocks of this process, for what is spent outside devices. */
#ifndef SG_KERNELS_CLOCK_H
#define SG_KERNELS_CLOCK_H

#include <time.h>

/* Seconds, monotonic. */
static inline double sg_clock_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor seconds of the calling thread: what its work costs, whoever else wants the core. */
static inline double sg_clock_thread_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
