/* bench_exchange.h: one collective on buffers of known values, and what all ranks decide together. For bench_collective.c. */
#ifndef SG_SIM_BENCH_BENCH_EXCHANGE_H
#define SG_SIM_BENCH_BENCH_EXCHANGE_H

#include "sim/bench/bench_internal.h"

typedef enum sg_collective { SG_ALL_REDUCE, SG_ALL_GATHER, SG_REDUCE_SCATTER, SG_COLLECTIVES } sg_collective;
const char *sg_collective_name(sg_collective collective); /* "all_reduce", ... */

typedef struct sg_exchange {
    sg_bench *bench;
    sg_collective collective;
    const sg_bench_precision *precision;
    int64_t whole, part;      /* elements; whole = part x ranks */
    void *whole_at, *part_at; /* device memory; all_reduce needs no part */
    uint64_t whole_bytes, part_bytes;
} sg_exchange;

/* Buffers of at most `bytes`, cut to a whole number of elements for every rank. SG_NO on every rank when it does not fit on one
 * of them; closed by the caller, also on failure. */
sg_code sg_exchange_open(sg_bench *bench, sg_collective collective, const sg_bench_precision *precision, int64_t bytes,
                         sg_exchange *exchange, sg_status *status);
void sg_exchange_close(sg_exchange *exchange);
/* Enqueues it on the collective stream. */
sg_code sg_exchange_start(sg_exchange *exchange, sg_status *status);
/* Writes this rank's known values. */
sg_code sg_exchange_fill(sg_exchange *exchange, sg_status *status);
/* Compares every element of this rank's result, after one exchange of filled buffers, with what it must be. SG_MACHINE on every
 * rank when it is wrong on one. */
sg_code sg_exchange_check(sg_exchange *exchange, double *error, sg_status *status);

/* The sum of all ranks' numbers; all ranks have arrived when it comes back. Whole numbers below 2^20 are exact. */
sg_code sg_bench_vote(sg_bench *bench, double mine, double *sum, sg_status *status);
/* Rank 0's number on every rank. */
sg_code sg_bench_agree(sg_bench *bench, double *number, sg_status *status);
/* Every value becomes that of the slowest rank. All ranks have the same number of values. */
sg_code sg_bench_slowest(sg_bench *bench, sg_bench_samples *samples, sg_status *status);

#endif
