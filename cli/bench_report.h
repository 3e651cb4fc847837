/* bench_report.h: what `bench` says: tables by benchmark, and the same as JSON. */
#ifndef SG_CLI_BENCH_REPORT_H
#define SG_CLI_BENCH_REPORT_H

#include "cli/show.h"
#include "kernels/virtual/machine.h"
#include "sim/bench/bench.h"

enum { SG_BENCH_DEVICES = 2 };

typedef struct sg_bench_report {
    sg_bench_kind kind;
    const sg_args *args;
    sg_machine_record machine;
    sg_micro *micros; /* of all devices, in order */
    size_t n_micros;
    sg_bench_omission *omissions;
    size_t n_omissions;
    sg_device_info device[SG_BENCH_DEVICES]; /* those that were measured */
    size_t n_devices;
    char missing[1024]; /* a device that was looked for and is not here, and why; "": none */
    bool is_rank;       /* the command that started this one tells where the file is */
    bool no;            /* something that was asked for by name does not fit or is refused */
} sg_bench_report;

void sg_print_bench(const sg_bench_report *report);
/* {"machine", "bench", "devices", "results", "left_out", "summary"}; keys of results as in a run file. */
json_t *sg_json_bench(const sg_bench_report *report);

/* ---- for the tables of one benchmark each ---- */

/* The record of that device kind and configuration, or NULL: texts "" and numbers 0 match anything. */
const sg_micro *sg_bench_find(const sg_bench_report *report, const char *device, const char *what, const char *compute,
                              int64_t n, int64_t bytes);
/* "disturbed", "computed as fp32", ... or "". */
const char *sg_bench_remark(const sg_micro *micro);
sg_text sg_bench_spread(const sg_micro *micro); /* "1.2 %": half the interval over the median */
sg_text sg_bench_percent(double share);
/* "fp32" for "f32", as on the command line. */
const char *sg_bench_precision_name(const char *compute);

void sg_print_bench_gemm(const sg_bench_report *report);
json_t *sg_json_bench_gemm(const sg_bench_report *report);
void sg_print_bench_memory(const sg_bench_report *report);
json_t *sg_json_bench_memory(const sg_bench_report *report);
void sg_print_bench_copy(const sg_bench_report *report);
void sg_print_bench_launch(const sg_bench_report *report);
void sg_print_bench_collective(const sg_bench_report *report);
void sg_print_bench_decode(const sg_bench_report *report);
json_t *sg_json_bench_decode(const sg_bench_report *report);

#endif
