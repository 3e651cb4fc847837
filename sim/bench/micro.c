#include "sim/bench/micro.h"
#include "sim/bench/micro_tree.h"
#include "sim/measure/point_tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/files/field_tree.h"

#define TABLE(table) ((sg_fields){table, sizeof(table) / sizeof *(table)})

sg_fields sg_micro_config_fields(void) {
#define X(member, kind)                                                                                                \
    { #member, kind, offsetof(sg_micro_config, member), sizeof(((sg_micro_config *)0)->member), false }
    static const sg_field table[] = {
        {"access", SG_FIELD_TEXT, offsetof(sg_micro_config, access), sizeof(((sg_micro_config *)0)->access), true},
        X(batch, SG_FIELD_I64),
        X(bench, SG_FIELD_TEXT),
        X(beside, SG_FIELD_TEXT),
        X(bytes, SG_FIELD_I64),
        X(compute, SG_FIELD_TEXT),
        X(device, SG_FIELD_TEXT),
        X(device_name, SG_FIELD_TEXT),
        X(dtype, SG_FIELD_TEXT),
        X(host, SG_FIELD_TEXT),
        X(host_memory, SG_FIELD_TEXT),
        X(k, SG_FIELD_I64),
        X(m, SG_FIELD_I64),
        X(n, SG_FIELD_I64),
        X(ranks, SG_FIELD_I64),
        X(threads, SG_FIELD_I64),
        X(what, SG_FIELD_TEXT),
    };
#undef X
    return TABLE(table);
}

sg_fields sg_micro_fields(void) {
#define FIELD(name, member, kind, optional)                                                                            \
    { name, kind, offsetof(sg_micro, member), sizeof(((sg_micro *)0)->member), optional }
#define NAMED(name, member, kind) FIELD(name, member, kind, false)
#define X(member, kind)           FIELD(#member, member, kind, false)
#define GPU(member, kind)         FIELD("gpu_" #member, gpu.member, kind, true)
    static const sg_field table[] = {
        X(iterations, SG_FIELD_I64),
        X(warmup, SG_FIELD_I64),
        X(calls, SG_FIELD_I64),
        NAMED("seconds_median", s.median, SG_FIELD_F64),
        NAMED("seconds_mean", s.mean, SG_FIELD_F64),
        NAMED("seconds_low", s.low, SG_FIELD_F64),
        NAMED("seconds_high", s.high, SG_FIELD_F64),
        NAMED("seconds_p99", p99_s, SG_FIELD_F64),
        X(flops, SG_FIELD_F64),
        X(bytes_moved, SG_FIELD_F64),
        X(flop_per_s, SG_FIELD_F64),
        X(bytes_per_s, SG_FIELD_F64),
        X(algbw, SG_FIELD_F64),
        X(busbw, SG_FIELD_F64),
        X(alone_s, SG_FIELD_F64),
        X(checked, SG_FIELD_BOOL),
        X(error, SG_FIELD_F64),
        X(fits_rates, SG_FIELD_BOOL),
        X(disturbed, SG_FIELD_BOOL),
        X(disturbed_why, SG_FIELD_TEXT),
        X(load_average, SG_FIELD_F64),
        X(clock_mhz, SG_FIELD_F64),
        X(library, SG_FIELD_TEXT),
        X(driver, SG_FIELD_TEXT),
        X(program_version, SG_FIELD_TEXT),
        X(date, SG_FIELD_TEXT),
        FIELD("decoded_per_frame", decoded_per_frame, SG_FIELD_F64, true),
        GPU(samples, SG_FIELD_I64),
        GPU(sm_clock_mhz, SG_FIELD_F64),
        GPU(memory_clock_mhz, SG_FIELD_F64),
        GPU(temperature_c, SG_FIELD_F64),
        GPU(power_w, SG_FIELD_F64),
        GPU(power_limit_w, SG_FIELD_F64),
        GPU(other_processes, SG_FIELD_I64),
        GPU(pcie_generation, SG_FIELD_I64),
        GPU(pcie_width, SG_FIELD_I64),
        GPU(bus, SG_FIELD_TEXT),
        GPU(throttle, SG_FIELD_TEXT),
    };
#undef X
#undef GPU
#undef NAMED
#undef FIELD
    return TABLE(table);
}

uint64_t sg_micro_key(const sg_micro_config *config) {
    return sg_fields_key(sg_micro_config_fields(), config);
}

sg_code sg_micro_to_tree(const sg_micro *micro, int64_t sequence, sg_h5tree *group, sg_status *status) {
    sg_h5tree *config;
    sg_code code = sg_h5tree_set_i64(group, "sequence", sequence, status);
    if (code == SG_OK) code = sg_fields_to_tree(group, sg_micro_fields(), micro, false, status);
    if (code == SG_OK) code = sg_h5tree_group(group, "config", &config, status);
    if (code == SG_OK) code = sg_fields_to_tree(config, sg_micro_config_fields(), &micro->config, true, status);
    return code;
}

sg_code sg_micro_from_tree(const sg_h5tree *group, sg_micro *micro, int64_t *sequence, sg_status *status) {
    const sg_h5tree *config = sg_h5tree_find(group, "config");
    if (!config) return sg_fail(status, SG_BAD_INPUT, "micro-benchmark '%s' lacks the group 'config'", group->name);
    *micro = (sg_micro){0};
    sg_code code = sg_h5tree_get_i64(group, "sequence", sequence, status);
    if (code == SG_OK) code = sg_fields_from_tree(config, sg_micro_config_fields(), &micro->config, status);
    if (code == SG_OK) code = sg_fields_from_tree(group, sg_micro_fields(), micro, status);
    if (code != SG_OK) return code;
    char name[SG_POINT_NAME_BYTES];
    micro->key = sg_micro_key(&micro->config);
    sg_point_group_name(micro->key, name);
    if (strcmp(name, group->name) == 0) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "micro-benchmark '%.40s' has another configuration than its name says",
                   group->name);
}

double sg_busbw(const char *collective, int64_t ranks, double algbw) {
    if (ranks < 2) return 0;
    double moved = (double)(ranks - 1) / (double)ranks;
    return (strcmp(collective, "all_reduce") == 0 ? 2 : 1) * moved * algbw;
}

static int ascending(const void *a, const void *b) {
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

double sg_quantile(const double *values, size_t n, double p) {
    double *sorted = n ? reallocarray(NULL, n, sizeof *sorted) : NULL;
    if (!sorted) return NAN;
    memcpy(sorted, values, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ascending);
    double rank = ceil(p * (double)n - 1e-9); /* 0.99 x 100 must be 99 */
    size_t at = rank > 1 ? (size_t)rank - 1 : 0;
    double value = sorted[at < n ? at : n - 1];
    free(sorted);
    return value;
}
