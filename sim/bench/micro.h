/* micro.h: one micro-benchmark: what was timed, on what, under which conditions, and what came out (docs/measurement.md). */
#ifndef SG_SIM_BENCH_MICRO_H
#define SG_SIM_BENCH_MICRO_H

#include "kernels/device.h"
#include "sim/measure/point.h"

/* What was asked for, by name in files and JSON. Hashed (FNV-1a over the canonical JSON) to the record's key: a benchmark that
 * is run again replaces the one with the same configuration. Texts that do not apply are empty, numbers zero. */
typedef struct sg_micro_config {
    char bench[16]; /* "gemm", "memory", "copy", "launch", "collective", "decode" */
    /* gemm: "product", "with_transfer" (operands to the device, result back). memory: "device_copy" or the op. copy:
     * "to_device", "to_host". launch: "enqueue", "finish", "wait", "graph_replay", "graph_enqueue". collective: "all_reduce",
     * "all_gather", "reduce_scatter", and "gemm", the product that runs beside them. decode: "av1", "h264", "png", "jpeg",
     * "raw" (HDF5), frames of m x n pixels, a key frame every k (0: each stands alone), `ranks` processes at once. */
    char what[32];
    char device[16], device_name[SG_NAME_BYTES];
    char dtype[8], compute[8]; /* "f32"; how products are formed: "f32", "tf32", "bf16", "f16" */
    char host_memory[16];      /* copies: "pinned", "pageable", "any" where the device makes no difference */
    char beside[16];           /* what ran at the same time: "" or "gemm", "all_reduce", ... */
    char access[16];           /* decode: order of frames: "shuffled", "sequential", "history"; others: "" */
    char host[16];             /* "native": this program's own launches; "emulated": with a framework's host time */
    int64_t m, n, k, batch;    /* product [batch] m x k by k x n */
    int64_t bytes; /* memory: of one tensor; copy: of the copy; collective: of the whole buffer, as nccl-tests counts */
    int64_t ranks;
    int64_t threads; /* of a CPU; multiprocessors of a GPU */
} sg_micro_config;

typedef struct sg_micro {
    sg_micro_config config;
    uint64_t key;
    int64_t iterations, warmup; /* timed values; runs before them that are not counted */
    int64_t calls;              /* back to back in each timed value, which is their mean */
    sg_statistic s;             /* seconds per call */
    double p99_s;               /* 99th percentile of the timed values */
    double flops, bytes_moved;  /* of one call, from sg_op_cost where an op is timed */
    double flop_per_s, bytes_per_s;
    double algbw, busbw;      /* collectives, B/s, as nccl-tests defines them */
    double decoded_per_frame; /* decode: frames decoded for each one that was asked for; 0: no frames */
    double alone_s;           /* the same without what ran beside it: s.median / alone_s is the slow-down */
    bool checked;             /* results were compared with what they must be, and were right */
    double error;             /* largest deviation found, as a share of what rounding allows */
    bool fits_rates;          /* false: computed in another precision than asked for, never used to fit rates */
    bool disturbed;
    char disturbed_why[256];
    double load_average, clock_mhz;
    char library[160], driver[32], program_version[32], date[32];
    sg_gpu_conditions gpu; /* over the whole benchmark, of which this record is a part */
} sg_micro;

uint64_t sg_micro_key(const sg_micro_config *config);

/* Bus bandwidth from algorithm bandwidth (bytes of the whole buffer / seconds): what each link must carry. All-reduce 2 (n - 1)
 * / n, all-gather and reduce-scatter (n - 1) / n; one rank moves nothing: 0. NVIDIA nccl-tests, doc/PERFORMANCE.md. */
double sg_busbw(const char *collective, int64_t ranks, double algbw);

/* The p-quantile (0 < p <= 1) of n >= 1 values as an order statistic: the smallest value that at least p of them do not exceed.
 * NAN without memory to sort them. */
double sg_quantile(const double *values, size_t n, double p);

#endif
