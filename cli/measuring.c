#include "cli/measuring.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void show_progress(void *user, double fraction, const char *what) {
    sg_progress_show(user, fraction, what);
}

sg_measure_options sg_measuring_options(const sg_args *args, const sg_device_choice *choice, const volatile int *stop,
                                        sg_progress *progress) {
    return (sg_measure_options){
        .device = choice->device,
        .host_s = choice->emulates_host ? choice->host_s : NULL,
        .heuristic_conv = args->conv && strcmp(args->conv, "heuristic") == 0,
        .graph = args->cuda_graph,
        .trace = args->trace,
        .library_dir = args->cuda_libs,
        .threads = args->threads > 0 ? (int)args->threads : 0,
        .workers = args->workers.n ? (int)args->workers.value[0] : 1,
        .prefetch = args->prefetch > 0 ? (int)args->prefetch : SG_PREFETCH,
        .pause = args->update_s >= 0,
        .update_s = args->update_s,
        .min_iterations = args->min_iterations > 0 ? args->min_iterations : 5,
        .max_iterations = 200,
        .warmup = 2, /* the first makes the optimizer state, the second finds its place in memory */
        .tight = 0.02,
        .time_budget_s = args->time_budget_s > 0 ? args->time_budget_s : 60,
        .seed = args->seed >= 0 ? (uint64_t)args->seed : 1,
        .rank = 0,
        .ranks = 1,
        .stop = stop,
        .progress = progress ? show_progress : NULL,
        .user = progress,
    };
}

json_t *sg_json_machine(const sg_machine_record *m) {
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:f}", "hostname", m->hostname, "cpu",
                               m->cpu, "device", m->device, "os", m->os, "library", m->library, "program_version",
                               m->program_version, "cores", (json_int_t)m->cores, "threads", (json_int_t)m->threads,
                               "memory_bytes", (json_int_t)m->memory_bytes, "clock_mhz", m->clock_mhz);
    if (m->gpus > 0)
        (void)json_object_set_new(object, "gpus",
                                  json_pack("{s:I, s:s, s:s, s:s, s:I}", "count", (json_int_t)m->gpus, "name", m->gpu,
                                            "driver", m->gpu_driver, "topology", m->gpu_topology, "memory_bytes",
                                            (json_int_t)m->gpu_memory_bytes));
    return object;
}

/* What was not told is absent. */
static json_t *json_gpu(const sg_gpu_conditions *g) {
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "name", g->name, "driver", g->driver, "bus",
                               g->bus, "libraries", g->libraries, "throttle", g->throttle, "samples",
                               (json_int_t)g->samples, "other_processes", (json_int_t)g->other_processes);
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"sm_clock_mhz", g->sm_clock_mhz},    {"memory_clock_mhz", g->memory_clock_mhz},
                   {"temperature_c", g->temperature_c},  {"power_w", g->power_w},
                   {"power_limit_w", g->power_limit_w},  {"pcie_generation", (double)g->pcie_generation},
                   {"pcie_width", (double)g->pcie_width}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].value > 0) (void)json_object_set_new(object, numbers[i].name, json_real(numbers[i].value));
    return object;
}

static bool is_ppo(const sg_point *p) {
    return p->config.envs > 0;
}

json_t *sg_json_point(const sg_point *p) {
    const sg_point_config *c = &p->config;
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "policy", c->policy,
                               "framework", c->framework, "device", c->device, "precision", c->precision, "host",
                               c->host, "execution", c->execution, "settings", c->settings, "threads",
                               (json_int_t)c->threads, "batch", (json_int_t)c->batch, "ranks", (json_int_t)c->ranks,
                               "workers", (json_int_t)c->workers, "iterations", (json_int_t)p->iterations);
    if (c->host_op_ns > 0) (void)json_object_set_new(object, "host_op_s", json_real(1e-9 * (double)c->host_op_ns));
    for (int q = 0; q < SG_Q_COUNT; q++) {
        bool ppo_only = q >= SG_Q_COLLECTION;
        if (!ppo_only || is_ppo(p)) sg_json_statistic(object, sg_quantity_name((sg_quantity)q), &p->q[q]);
    }
    (void)json_object_set_new(object, "samples_per_s", json_real(isfinite(p->samples_per_s) ? p->samples_per_s : 0));
    if (is_ppo(p)) (void)json_object_set_new(object, "env_steps_per_s", json_real(p->env_steps_per_s));
    (void)json_object_set_new(object, "peak_allocated_bytes", json_integer((json_int_t)p->peak_allocated_bytes));
    (void)json_object_set_new(object, "peak_reserved_bytes", json_integer((json_int_t)p->peak_reserved_bytes));
    (void)json_object_set_new(object, "resident_bytes", json_integer((json_int_t)p->resident_bytes));
    (void)json_object_set_new(object, "rank_spread", json_real(isfinite(p->rank_spread) ? p->rank_spread : 0));
    (void)json_object_set_new(object, "disturbed", json_boolean(p->disturbed));
    (void)json_object_set_new(object, "disturbed_why", json_string(p->disturbed_why));
    (void)json_object_set_new(object, "source", json_string(p->source));
    if (p->loader.batches > 0 || sg_point_pauses(&p->config))
        (void)json_object_set_new(object, "loader", sg_json_loader(p));
    if (p->gpu.bus[0]) (void)json_object_set_new(object, "gpu", json_gpu(&p->gpu));
    return object;
}

/* Points that differ in their loaders alone look alike without these columns. */
typedef struct varies {
    bool layer, workers;
} varies;

static varies varies_of(const sg_point *points, size_t n) {
    varies v = {false, false};
    for (size_t i = 1; i < n; i++) {
        v.layer = v.layer || strcmp(points[i].config.layer, points[0].config.layer) != 0;
        v.workers = v.workers || points[i].config.workers != points[0].config.workers;
    }
    return v;
}

static const char *layer_of(const sg_point *p) {
    return p->config.layer[0] ? p->config.layer : "synthetic";
}

static size_t supervised_header(varies v, const char *header[14]) {
    const char *const before[] = {"policy", "batch", "ranks"};
    const char *const after[] = {"n",    "dataloading", "preprocessing", "update", "+- 95 %",
                                 "step", "samples/s",   "peak memory",   "note"};
    size_t k = 0;
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) header[k++] = before[i];
    if (v.layer) header[k++] = "layer";
    if (v.workers) header[k++] = "workers";
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) header[k++] = after[i];
    return k;
}

static void supervised_row(sg_table *table, varies v, const sg_point *p) {
    const sg_statistic *u = &p->q[SG_Q_UPDATE];
    char spread[24], rate[24];
    (void)snprintf(spread, sizeof spread, "%.1f %%", u->median > 0 ? 50 * (u->high - u->low) / u->median : 0);
    (void)snprintf(rate, sizeof rate, "%.3g", p->samples_per_s);
    sg_text batch = sg_show_count(p->config.batch), ranks = sg_show_count(p->config.ranks);
    sg_text workers = sg_show_count(p->config.workers), count = sg_show_count(p->iterations);
    sg_text data = sg_show_seconds(p->q[SG_Q_DATALOADING].median);
    sg_text prep = sg_show_seconds(p->q[SG_Q_PREPROCESSING].median), update = sg_show_seconds(u->median);
    sg_text step = sg_show_seconds(p->q[SG_Q_STEP].median);
    /* a pause in place of the step allocates nothing */
    sg_text peak = sg_show_bytes(p->peak_allocated_bytes ? (double)p->peak_allocated_bytes : NAN);
    const char *const after[] = {
        count.s, data.s, prep.s, update.s, spread, step.s, rate, peak.s, p->disturbed ? "disturbed" : ""};
    const char *row[14] = {p->config.policy, batch.s, ranks.s};
    size_t k = 3;
    if (v.layer) row[k++] = layer_of(p);
    if (v.workers) row[k++] = workers.s;
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) row[k++] = after[i];
    sg_table_row(table, row);
}

static void print_supervised(const sg_point *points, size_t n) {
    const char *header[14];
    varies v = varies_of(points, n);
    size_t columns = supervised_header(v, header);
    sg_table *table = sg_table_new(columns, header);
    for (size_t i = 0; i < n; i++)
        if (!is_ppo(&points[i])) supervised_row(table, v, &points[i]);
    sg_table_print(table);
}

static void print_ppo(const sg_point *points, size_t n) {
    const char *const header[] = {"policy",     "envs",     "ranks",     "n",           "inference",   "environment",
                                  "collection", "learning", "iteration", "env steps/s", "peak memory", "note"};
    sg_table *table = sg_table_new(12, header);
    for (size_t i = 0; i < n; i++) {
        const sg_point *p = &points[i];
        if (!is_ppo(p)) continue;
        char rate[24];
        (void)snprintf(rate, sizeof rate, "%.4g", p->env_steps_per_s);
        sg_text envs = sg_show_count(p->config.envs), ranks = sg_show_count(p->config.ranks);
        sg_text count = sg_show_count(p->iterations), inference = sg_show_seconds(p->q[SG_Q_INFERENCE].median);
        sg_text environment = sg_show_seconds(p->q[SG_Q_ENVIRONMENT].median);
        sg_text collection = sg_show_seconds(p->q[SG_Q_COLLECTION].median);
        sg_text learning = sg_show_seconds(p->q[SG_Q_LEARNING].median);
        sg_text iteration = sg_show_seconds(p->q[SG_Q_ITERATION].median);
        sg_text peak = sg_show_bytes((double)p->peak_allocated_bytes);
        const char *const row[] = {p->config.policy, envs.s,        ranks.s,      count.s,
                                   inference.s,      environment.s, collection.s, learning.s,
                                   iteration.s,      rate,          peak.s,       p->disturbed ? "disturbed" : ""};
        sg_table_row(table, row);
    }
    sg_table_print(table);
}

void sg_print_points(const sg_point *points, size_t n) {
    size_t ppo = 0;
    for (size_t i = 0; i < n; i++) ppo += is_ppo(&points[i]);
    if (ppo < n) print_supervised(points, n);
    if (ppo) print_ppo(points, n);
    sg_print_loaders(points, n);
    varies v = varies_of(points, n);
    for (size_t i = 0; i < n; i++) {
        const sg_point *p = &points[i];
        if (!p->disturbed) continue;
        printf("  note: %s %lld, ranks %lld", is_ppo(p) ? "envs" : "batch",
               (long long)(is_ppo(p) ? p->config.envs : p->config.batch), (long long)p->config.ranks);
        if (v.layer) printf(", %s", layer_of(p));
        if (v.workers) printf(", workers %lld", (long long)p->config.workers);
        printf(" was disturbed: %s\n", p->disturbed_why);
    }
}
