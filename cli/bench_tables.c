/* bench_tables.c: how `bench memory`, `copy`, `launch` and `collective` show what they measured. */
#include "cli/bench_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static sg_text gigabytes(double bytes_per_s) {
    sg_text t;
    if (isfinite(bytes_per_s))
        (void)snprintf(t.s, sizeof t.s, "%.4g", 1e-9 * bytes_per_s);
    else
        (void)snprintf(t.s, sizeof t.s, "-");
    return t;
}

static sg_text factor(double value) {
    sg_text t;
    if (isfinite(value))
        (void)snprintf(t.s, sizeof t.s, "%.3g x", value);
    else
        (void)snprintf(t.s, sizeof t.s, "-");
    return t;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Bandwidth over that of the device's own copy of tensors of this size in this run; NAN without one. */
static double over_copy(const sg_bench_report *r, const sg_micro *m) {
    const sg_micro *copy = sg_bench_find(r, m->config.device, "device_copy", "", 0, m->config.bytes);
    return copy ? m->bytes_per_s / copy->bytes_per_s : NAN;
}

void sg_print_bench_memory(const sg_bench_report *r) {
    const char *const header[] = {"op", "device", "tensor", "time", "+- 95 %", "p99", "GB/s", "of the copy", "note"};
    sg_table *table = sg_table_new(9, header);
    for (size_t k = 0; k < sg_bench_memory_count; k++)
        for (size_t i = 0; i < r->n_micros; i++) {
            const sg_micro *m = &r->micros[i];
            if (strcmp(m->config.what, sg_bench_memory_names[k]) != 0) continue;
            sg_text bytes = sg_show_bytes((double)m->config.bytes), s = sg_show_seconds(m->s.median);
            sg_text spread = sg_bench_spread(m), p99 = sg_show_seconds(m->p99_s), rate = gigabytes(m->bytes_per_s);
            sg_text share = sg_bench_percent(over_copy(r, m));
            const char *const row[] = {m->config.what, m->config.device, bytes.s,           s.s, spread.s, p99.s,
                                       rate.s,         share.s,          sg_bench_remark(m)};
            sg_table_row(table, row);
        }
    printf("\nBytes read and written per second, 10^9 bytes; 'of the copy': beside the device's own copy (device_copy) "
           "of a "
           "tensor of this size\n");
    sg_table_print(table);
}

json_t *sg_json_bench_memory(const sg_bench_report *r) {
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_micros; i++) {
        const sg_micro *m = &r->micros[i];
        double share = over_copy(r, m);
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:o}", "device", m->config.device, "op",
                                                    m->config.what, "bytes", (json_int_t)m->config.bytes, "over_copy",
                                                    isfinite(share) ? json_real(share) : json_null()));
    }
    return json_pack("{s:o}", "over_copy", list);
}

/* ---- copy -------------------------------------------------------------------------------------------------------- */

void sg_print_bench_copy(const sg_bench_report *r) {
    const char *const header[] = {"direction", "device", "host memory", "size", "time",
                                  "+- 95 %",   "p99",    "GB/s",        "note"};
    sg_table *table = sg_table_new(9, header);
    bool any = false;
    for (int direction = 0; direction < 2; direction++)
        for (size_t i = 0; i < r->n_micros; i++) {
            const sg_micro *m = &r->micros[i];
            bool to_device = strcmp(m->config.what, "to_device") == 0;
            if (to_device != (direction == 0)) continue;
            any = any || strcmp(m->config.host_memory, "any") == 0;
            sg_text bytes = sg_show_bytes((double)m->config.bytes), s = sg_show_seconds(m->s.median);
            sg_text spread = sg_bench_spread(m), p99 = sg_show_seconds(m->p99_s), rate = gigabytes(m->bytes_per_s);
            const char *const row[] = {to_device ? "to the device" : "to the host",
                                       m->config.device,
                                       m->config.host_memory,
                                       bytes.s,
                                       s.s,
                                       spread.s,
                                       p99.s,
                                       rate.s,
                                       sg_bench_remark(m)};
            sg_table_row(table, row);
        }
    printf("\nCopies between host and device, 10^9 bytes per second\n");
    sg_table_print(table);
    if (any) printf("  any: this device makes no difference between pinned and pageable memory\n");
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

void sg_print_bench_launch(const sg_bench_report *r) {
    static const char *const what[][2] = {
        {"enqueue", "one launch call, not waited for"},
        {"back_to_back", "one of many launches in a row"},
        {"finish", "launched and waited for"},
        {"wait", "waiting for an empty stream"},
        {"graph_enqueue", "one call that replays a graph of 64 ops"},
        {"graph_replay", "one op of a replayed graph"},
    };
    const char *const header[] = {"cost", "device", "time", "+- 95 %", "p99", "note"};
    sg_table *table = sg_table_new(6, header);
    for (size_t k = 0; k < sizeof what / sizeof *what; k++)
        for (size_t i = 0; i < r->n_micros; i++) {
            const sg_micro *m = &r->micros[i];
            if (strcmp(m->config.what, what[k][0]) != 0) continue;
            sg_text s = sg_show_seconds(m->s.median), spread = sg_bench_spread(m), p99 = sg_show_seconds(m->p99_s);
            const char *const row[] = {what[k][1], m->config.device, s.s, spread.s, p99.s, sg_bench_remark(m)};
            sg_table_row(table, row);
        }
    printf("\nThe smallest op (relu of one number), host seconds\n");
    sg_table_print(table);
}

/* ---- collective -------------------------------------------------------------------------------------------------- */

void sg_print_bench_collective(const sg_bench_report *r) {
    const char *const header[] = {"collective", "beside", "ranks", "dtype", "size",      "p50", "+- 95 %",
                                  "p99",        "algbw",  "busbw", "alone", "slow-down", "note"};
    sg_table *table = sg_table_new(13, header);
    for (size_t i = 0; i < r->n_micros; i++) {
        const sg_micro *m = &r->micros[i];
        sg_text ranks = sg_show_count(m->config.ranks), bytes = sg_show_bytes((double)m->config.bytes);
        sg_text s = sg_show_seconds(m->s.median), spread = sg_bench_spread(m), p99 = sg_show_seconds(m->p99_s);
        sg_text alg = gigabytes(m->algbw), bus = gigabytes(m->busbw), alone = sg_show_seconds(m->alone_s);
        sg_text slower = factor(m->s.median / m->alone_s);
        const char *const row[] = {
            m->config.what, m->config.beside, ranks.s,  m->config.dtype,   bytes.s, s.s, spread.s, p99.s, alg.s,
            bus.s,          alone.s,          slower.s, sg_bench_remark(m)};
        sg_table_row(table, row);
    }
    printf("\nTimes of the slowest rank; algbw = size / time, busbw = algbw x 2 (n - 1) / n for all_reduce, (n - 1) / "
           "n for the "
           "others (nccl-tests), 10^9 bytes per second.\nEvery element of every result was compared with what it must "
           "be.\n");
    sg_table_print(table);
}
