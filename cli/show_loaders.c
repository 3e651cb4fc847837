/* show_loaders.c: what loaders of measured points did, as a table and as JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/measuring.h"

static bool is_real(const sg_point *p) {
    return p->loader.batches > 0;
}

static bool is_shown(const sg_point *p) {
    return is_real(p) || sg_point_pauses(&p->config);
}

static const char *layer_of(const sg_point *p) {
    return p->config.layer[0] ? p->config.layer : "synthetic";
}

/* What one worker makes; NAN where nobody timed its batches. */
static double samples_per_s_of_worker(const sg_point *p) {
    return p->loader.batch_s > 0 ? (double)p->config.batch / p->loader.batch_s : NAN;
}

json_t *sg_json_loader(const sg_point *p) {
    const sg_loader_record *r = &p->loader;
    json_t *object = json_pack("{s:s, s:s, s:I, s:I}", "layer", layer_of(p), "dataset", p->config.dataset, "workers",
                               (json_int_t)p->config.workers, "prefetch", (json_int_t)r->prefetch);
    const struct {
        const char *name;
        int64_t value;
    } counts[] = {{"batches", r->batches},       {"frames", r->frames}, {"frames_decoded", r->frames_decoded},
                  {"bytes_read", r->bytes_read}, {"epochs", r->epochs}, {"worker_bytes", r->worker_bytes},
                  {"processors", r->processors}};
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"frame_cpu_s", r->frame_cpu_s},     {"frame_s", r->frame_s},
                   {"sample_cpu_s", r->sample_cpu_s},   {"batch_s", r->batch_s},
                   {"batch_cpu_s", r->batch_cpu_s},     {"batch_log_sd", r->batch_log_sd},
                   {"first_batch_s", r->first_batch_s}, {"epoch_s", r->epoch_s},
                   {"stalled_share", r->stalled_share}, {"wait_p50_s", r->wait_p50_s},
                   {"wait_p90_s", r->wait_p90_s},       {"wait_p99_s", r->wait_p99_s},
                   {"wait_max_s", r->wait_max_s},       {"step_cpu_s", r->step_cpu_s}};
    for (size_t i = 0; is_real(p) && i < sizeof counts / sizeof counts[0]; i++)
        (void)json_object_set_new(object, counts[i].name, json_integer((json_int_t)counts[i].value));
    for (size_t i = 0; is_real(p) && i < sizeof numbers / sizeof numbers[0]; i++)
        (void)json_object_set_new(object, numbers[i].name, json_real(numbers[i].value));
    if (is_real(p)) (void)json_object_set_new(object, "worker_samples_per_s", json_real(samples_per_s_of_worker(p)));
    if (sg_point_pauses(&p->config)) (void)json_object_set_new(object, "update_s", json_real(r->update_s));
    return object;
}

static void show_row(sg_table *table, const sg_point *p) {
    const sg_loader_record *r = &p->loader;
    char rate[24], own[24] = "-", share[24] = "-";
    (void)snprintf(rate, sizeof rate, "%.3g", p->samples_per_s);
    bool real = is_real(p), waited = is_shown(p);
    if (real) (void)snprintf(own, sizeof own, "%.3g", samples_per_s_of_worker(p));
    if (waited) (void)snprintf(share, sizeof share, "%.0f %%", 100 * r->stalled_share);
    sg_text batch = sg_show_count(p->config.batch), workers = sg_show_count(p->config.workers);
    sg_text frame = sg_show_seconds(is_real(p) ? r->frame_cpu_s : p->frame_s), p50 = sg_show_seconds(r->wait_p50_s);
    sg_text p90 = sg_show_seconds(r->wait_p90_s), most = sg_show_seconds(r->wait_max_s);
    sg_text memory = sg_show_bytes((double)r->worker_bytes), first = sg_show_seconds(r->first_batch_s);
    const char *const row[] = {layer_of(p),
                               batch.s,
                               workers.s,
                               rate,
                               own,
                               frame.s,
                               waited ? p50.s : "-",
                               waited ? p90.s : "-",
                               waited ? most.s : "-",
                               share,
                               real ? first.s : "-",
                               real ? memory.s : "-"};
    sg_table_row(table, row);
}

/* The layers of one configuration side by side: synthetic points are of interest where real ones are. */
void sg_print_loaders(const sg_point *points, size_t n) {
    const char *const header[] = {"layer",    "batch", "workers", "samples/s", "per worker",  "frame",
                                  "wait p50", "p90",   "max",     "stalled",   "first batch", "memory/worker"};
    bool any = false;
    for (size_t i = 0; i < n; i++) any = any || is_shown(&points[i]);
    if (!any) return;
    sg_table *table = sg_table_new(sizeof header / sizeof header[0], header);
    for (size_t i = 0; i < n; i++)
        if (points[i].config.envs == 0 && points[i].config.cameras > 0) show_row(table, &points[i]);
    printf("\nLoaders\n");
    sg_table_print(table);
}
