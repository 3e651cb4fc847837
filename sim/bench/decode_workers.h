/* decode_workers.h: processes that decode a clip at the same time, and how long its frames took each of them. */
#ifndef SG_SIM_BENCH_DECODE_WORKERS_H
#define SG_SIM_BENCH_DECODE_WORKERS_H

#include "sim/bench/bench_internal.h"
#include "sim/bench/decode_clip.h"

/* In which order frames are asked for. */
typedef enum sg_decode_access {
    SG_DECODE_SHUFFLED,   /* any frame of the clip, as a shuffling sampler does */
    SG_DECODE_SEQUENTIAL, /* each frame after the one before it */
    SG_DECODE_HISTORY,    /* any frame, and before it the one 1 / fps earlier: two observation steps */
    SG_DECODE_ACCESSES
} sg_decode_access;
const char *sg_decode_access_name(sg_decode_access access); /* "shuffled", "sequential", "history" */

typedef struct sg_decode_job {
    const sg_decode_clip *clip;
    sg_decode_access access;
    int processes;
    double allowed_s; /* that they decode; one alone ends when its median is known (sg_bench_enough) */
    sg_bench *bench;  /* options of repeating, its interrupt */
} sg_decode_job;

/* samples: seconds per frame asked for, of every process; n = 0 after an interrupt. count: of all that was timed. library:
 * what decoded. Processes die with this one, and of a crash, without it. */
sg_code sg_decode_run(const sg_decode_job *job, sg_bench_samples *samples, sg_decode_count *count, char *library,
                      size_t library_bytes, sg_status *status);

#endif
