/* bench_internal.h: what the micro-benchmarks share: repeating until the median is known, ops with tensors of their own. */
#ifndef SG_SIM_BENCH_BENCH_INTERNAL_H
#define SG_SIM_BENCH_BENCH_INTERNAL_H

#include "sim/bench/bench.h"
#include "sim/measure/host_state.h"

/* The benchmarks; sg_bench_run chooses. */
sg_code sg_bench_gemm(sg_bench *bench, sg_status *status);
sg_code sg_bench_memory(sg_bench *bench, sg_status *status);
sg_code sg_bench_copy(sg_bench *bench, sg_status *status);
sg_code sg_bench_launch(sg_bench *bench, sg_status *status);
sg_code sg_bench_collective(sg_bench *bench, sg_status *status);
sg_code sg_bench_decode(sg_bench *bench, sg_status *status);

/* ---- repeating --------------------------------------------------------------------------------------------------- */

/* Times `calls` calls together; *seconds: of one of them. */
typedef sg_code (*sg_bench_timed)(void *user, int64_t calls, double *seconds, sg_status *status);

typedef struct sg_bench_samples {
    double *value;
    size_t n, room;
    int64_t warmup, calls;
    sg_host_state before, after;
} sg_bench_samples;

/* Warms up, chooses how many calls make one timed value (at least BATCH_S together, at most most_calls), and repeats until
 * min_iterations are made and the median is known or this record's share of the time is over. An interrupt after which nothing
 * is known sets bench->interrupted and leaves samples->n at 0. */
sg_code sg_bench_repeat(sg_bench *bench, sg_bench_timed timed, void *user, int64_t most_calls,
                        sg_bench_samples *samples, sg_status *status);
void sg_bench_samples_clear(sg_bench_samples *samples);
/* Enough values: at least min_iterations, and the median known, or `allowed_s` over since start_s, or max_iterations. */
bool sg_bench_enough(const sg_bench *bench, const sg_bench_samples *samples, double start_s, double allowed_s);
sg_code sg_bench_sample_add(sg_bench_samples *samples, double seconds, sg_status *status);
/* Seconds that the next record may take: what is left of the time, shared by the records that are left. */
double sg_bench_allowed_s(const sg_bench *bench);
bool sg_bench_stopped(sg_bench *bench);
/* The time is over and something was measured: what is left becomes an omission (*omitted), `records` of them planned. */
sg_code sg_bench_time_is_over(sg_bench *bench, const char *what, size_t records, bool *omitted, sg_status *status);

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* A record of this benchmark on this device, with nothing measured: device, precision (NULL: none), ranks and threads set. */
sg_micro sg_bench_micro(const sg_bench *bench, const char *name, const char *what, const sg_bench_precision *precision);
/* Fills in times, rates and conditions and keeps it; samples with n = 0 (interrupted) are dropped. */
sg_code sg_bench_keep(sg_bench *bench, sg_micro *micro, sg_bench_samples *samples, sg_status *status);
/* Notes that `what` was left out because of *why. */
sg_code sg_bench_omit(sg_bench *bench, const char *what, const char *why, bool answer, sg_status *status);
void sg_bench_tell(const sg_bench *bench, const char *what);
/* Products formed as asked for? Otherwise the record must not fit rates. */
bool sg_bench_is_native(const sg_bench *bench, const sg_bench_precision *precision);

/* ---- ops --------------------------------------------------------------------------------------------------------- */

enum { SG_BENCH_TENSORS = 8 };

typedef struct sg_bench_op {
    sg_bench *bench;
    sg_op op;
    sg_desc desc[SG_BENCH_TENSORS];
    void *pointer[SG_BENCH_TENSORS];
    uint64_t bytes[SG_BENCH_TENSORS]; /* 0: another tensor's memory */
    void *workspace;
    uint64_t workspace_bytes;
    sg_plan *plan;
    sg_cost cost;
} sg_bench_op;

/* Prepares one op and allocates its tensors. alias[i] (may be NULL): output i lies in that input's memory, -1: in its own.
 * SG_NO: the device refuses it or it does not fit; op->plan then tells which: NULL when refused. *op is closed by the caller,
 * also on failure. */
sg_code sg_bench_op_open(sg_bench *bench, sg_op_kind kind, const sg_attrs *attrs, int n_in, int n_out,
                         const sg_desc *desc, const int *alias, sg_bench_op *op, sg_status *status);
void sg_bench_op_close(sg_bench_op *op);
sg_code sg_bench_op_launch(sg_bench_op *op, sg_status *status);
/* sg_bench_timed for an sg_bench_op: calls launched back to back between two events on the compute stream. */
sg_code sg_bench_op_timed(void *op, int64_t calls, double *seconds, sg_status *status);

/* Element `index` of input `tensor` as sg_bench_op_fill writes it: uniform in [low, high), rounded to dtype. Repeats after a
 * prime number of elements. */
double sg_bench_element(int tensor, int64_t index, sg_dtype dtype, double low, double high);
sg_code sg_bench_op_fill(sg_bench_op *op, int tensor, double low, double high, sg_status *status);
/* The same on the host. */
void sg_bench_host_fill(void *memory, uint64_t bytes, int tensor, sg_dtype dtype, double low, double high);
/* `count` elements of tensor from `first` on, as doubles. count <= SG_BENCH_READ. */
enum { SG_BENCH_READ = 1024 };
sg_code sg_bench_op_read(sg_bench_op *op, int tensor, int64_t first, int64_t count, double *values, sg_status *status);

/* Compares results: the largest |got - expected| / bound so far stands in *error, NAN counts as infinite. */
void sg_bench_compare(double got, double expected, double bound, double *error);
/* Results that deviate by more than rounding allows are the device's fault: SG_MACHINE. */
sg_code sg_bench_judge(const char *what, double error, sg_status *status);

/* SG_NO unless so many bytes are to be had on the device / on the host. */
sg_code sg_bench_fits_device(sg_bench *bench, double bytes, sg_status *status);
sg_code sg_bench_fits_host(double bytes, sg_status *status);

/* Host memory for copies: pinned where asked for and the device has it. NULL status: SG_NO when there is none. */
sg_code sg_bench_host_alloc(sg_bench *bench, uint64_t bytes, bool pinned, void **memory, sg_status *status);
void sg_bench_host_free(sg_bench *bench, void *memory, bool pinned);

#endif
