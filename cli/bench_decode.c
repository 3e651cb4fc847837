/* bench_decode.c: how `bench decode` shows what it measured. */
#include "cli/bench_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static sg_text number(const char *format, double value) {
    sg_text t;
    if (isfinite(value) && value > 0)
        (void)snprintf(t.s, sizeof t.s, strcmp(format, "rate") == 0 ? "%.4g" : "%.2f", value);
    else
        (void)snprintf(t.s, sizeof t.s, "-");
    return t;
}

void sg_print_bench_decode(const sg_bench_report *r) {
    const char *const header[] = {
        "codec",         "pixels",       "GOP", "order", "processes", "time", "p99", "+- 95 %", "frames/s per process",
        "decoded/asked", "of one alone", "note"};
    sg_table *table = sg_table_new(12, header);
    for (size_t i = 0; i < r->n_micros; i++) {
        const sg_micro *m = &r->micros[i];
        sg_text pixels, gop, s = sg_show_seconds(m->s.median), p99 = sg_show_seconds(m->p99_s);
        sg_text processes = sg_show_count(m->config.ranks), spread = sg_bench_spread(m);
        sg_text rate = number("rate", 1 / m->s.median), ratio = number("ratio", m->decoded_per_frame);
        sg_text share = sg_bench_percent(m->alone_s / m->s.median);
        (void)snprintf(pixels.s, sizeof pixels.s, "%lld x %lld", (long long)m->config.m, (long long)m->config.n);
        (void)snprintf(gop.s, sizeof gop.s, m->config.k ? "%lld" : "-", (long long)m->config.k);
        const char *const row[] = {m->config.what, pixels.s, gop.s,  m->config.access, processes.s, s.s,
                                   p99.s,          spread.s, rate.s, ratio.s,          share.s,     sg_bench_remark(m)};
        sg_table_row(table, row);
    }
    printf("\nFrames to planes of 8-bit RGB, one thread a process, files in the page cache; 'of one alone': frames per "
           "second of a\nprocess among as many as there are processors, over those of one by itself\n");
    sg_table_print(table);
}

json_t *sg_json_bench_decode(const sg_bench_report *r) {
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_micros; i++) {
        const sg_micro *m = &r->micros[i];
        json_t *row =
            json_pack("{s:s, s:I, s:I, s:I, s:s, s:I, s:f, s:f}", "codec", m->config.what, "height",
                      (json_int_t)m->config.m, "width", (json_int_t)m->config.n, "gop", (json_int_t)m->config.k,
                      "access", m->config.access, "processes", (json_int_t)m->config.ranks, "frames_per_s_per_process",
                      1 / m->s.median, "decoded_per_frame", m->decoded_per_frame);
        if (isfinite(m->alone_s)) (void)json_object_set_new(row, "of_one_alone", json_real(m->alone_s / m->s.median));
        (void)json_array_append_new(list, row);
    }
    return json_pack("{s:o}", "decode", list);
}
