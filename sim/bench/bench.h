/* bench.h: micro-benchmarks of one device through its table of functions: products, bandwidth-bound ops, copies, launches,
 * collectives, frames. What they time and how is told in docs/measurement.md; each becomes an sg_micro. */
#ifndef SG_SIM_BENCH_BENCH_H
#define SG_SIM_BENCH_BENCH_H

#include "kernels/device.h"
#include "kernels/transport.h"
#include "sim/bench/micro.h"
#include "sim/measure/gpu_state.h"

typedef struct sg_bench_precision {
    char name[8]; /* "fp32", "tf32", "bf16", "fp16" as on the command line */
    sg_dtype dtype;
    sg_compute compute;
} sg_bench_precision;

/* SG_BAD_INPUT: no such precision; the message lists them. */
sg_code sg_bench_precision_of(const char *name, sg_bench_precision *precision, sg_status *status);

enum { SG_BENCH_PRECISIONS = 8 };

typedef struct sg_bench_options {
    int index, threads;   /* as sg_device_options */
    const int64_t *sizes; /* n_sizes 0: the benchmark's own; gemm: n of n x n x n, else bytes */
    size_t n_sizes;
    sg_bench_precision precision[SG_BENCH_PRECISIONS]; /* n_precisions 0: the benchmark's own */
    size_t n_precisions;
    double time_budget_s; /* for the whole benchmark on this device */
    double tight;         /* a value is good when its median's 95 % interval is within +- this fraction (0.02) */
    int64_t min_iterations, max_iterations;
    int rank, ranks;         /* collective */
    sg_transport *bootstrap; /* ranks > 1 */
    const char *library_dir; /* as sg_device_options */
    volatile const int *stop;
    void (*progress)(void *user, double fraction, const char *what);
    void *user;
} sg_bench_options;

/* Something that was asked for and not measured. */
typedef struct sg_bench_omission {
    char what[64], why[512];
    bool answer; /* does not fit, or is refused by the device: the answer is no. Otherwise time was too short for it */
} sg_bench_omission;

typedef struct sg_bench {
    const sg_device_api *api;
    sg_device *device;
    sg_device_info info;
    sg_bench_options options;
    double start_s;
    sg_micro *micros;
    size_t n_micros;
    sg_bench_omission *omissions;
    size_t n_omissions;
    bool interrupted;  /* *stop was set: what was measured until then is kept */
    size_t planned;    /* records that will be made, for the share of the time each may take and for progress */
    sg_comm *comm;     /* collective */
    void *ballot;      /* device memory of one vote */
    sg_gpu_watch *gpu; /* NULL: no GPU, or its driver tells nothing */
    sg_event *edge[4]; /* begin and end on the compute stream, begin and end on the collective stream */
} sg_bench;

/* Opens the device. *bench is sg_bench_close'd by the caller, also on failure. options are copied, what they point to must
 * outlive the bench. */
sg_code sg_bench_open(const sg_device_api *api, const sg_bench_options *options, sg_bench *bench, sg_status *status);
/* A bench of the host's processors alone, `cpu` by name, without a device. */
void sg_bench_open_host(const char *cpu, const sg_bench_options *options, sg_bench *bench);
void sg_bench_close(sg_bench *bench);

typedef enum sg_bench_kind {
    /* Square products, alone and with operands and result copied between host and device around each; checked in places
     * spread over the result. Sizes that do not fit or would take too long become omissions, as do precisions that the device
     * refuses. */
    SG_BENCH_GEMM,
    /* Bandwidth-bound ops and the device's own copy on tensors of each size. bytes_per_s counts what sg_op_cost says is
     * moved. */
    SG_BENCH_MEMORY,
    /* Copies between host and device. */
    SG_BENCH_COPY,
    /* What it costs to launch the smallest op, to wait, to replay a recorded graph of it. */
    SG_BENCH_LAUNCH,
    /* Collectives of options.ranks >= 2 ranks, alone and beside products. Every rank runs it with equal options and gets the
     * same records. */
    SG_BENCH_COLLECTIVE,
    /* Frames of clips that it makes itself, by codec, resolution, group of pictures and order of access; one process, then
     * options.threads at once (0: one per processor). sizes: heights. Codecs whose libraries are missing become omissions.
     * On a bench of sg_bench_open_host. */
    SG_BENCH_DECODE,
    SG_BENCH_KINDS
} sg_bench_kind;
const char *sg_bench_name(sg_bench_kind kind); /* "gemm", ... */

/* Runs one benchmark: its records and omissions are then in *bench, also what was measured before an interrupt or a failure. */
sg_code sg_bench_run(sg_bench *bench, sg_bench_kind kind, sg_status *status);

/* The ops of sg_bench_memory, "device_copy" first. */
extern const char *const sg_bench_memory_names[];
extern const size_t sg_bench_memory_count;

#endif
