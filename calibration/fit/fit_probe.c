/* The probe's file (bench/README.md describes it): what the framework itself showed on this machine. */
#include "calibration/fit/fit_probe.h"

#include "calibration/fit/fit_laws.h"
#include "calibration/loader/probe_loader.h"
#include "calibration/predict/predict.h"
#include "calibration/predict/work.h"
#include "formats/tree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROBE_VERSION = 1, SETTINGS_MAX = 32, STEPS_MAX = 32 };

/* How far one factor per class holds from one policy to the next, beyond what the steps of one probe show. */
static const double FACTOR_LEAST_LOG_SD = 0.05;

typedef struct probe {
    const sg_tree *tree;
    sg_fit *fit;
    char origin[120];
    /* per step of the probe and class: log(framework / fitted machine) and the share of the step's time */
    double log_ratio[STEPS_MAX][SG_CLASS_COUNT], share[STEPS_MAX][SG_CLASS_COUNT];
    bool low[STEPS_MAX]; /* most of its products are in bf16 or fp16 */
    size_t n_steps;
} probe;

static void set(const probe *p, sg_machine_id id, double value, double log_sd) {
    sg_machine *m = &p->fit->machine;
    if (!(value > 0) || !isfinite(value)) return;
    sg_machine_parameter *q = &m->p[id];
    q->value = value;
    q->log_sd = log_sd;
    q->evidence = SG_EVIDENCE_OBSERVED;
    q->group = 0;
    (void)snprintf(q->source, sizeof q->source, "%s", p->origin);
    for (int j = 0; m->covariance && j < SG_M_COUNT; j++)
        m->covariance[(size_t)id * SG_M_COUNT + (size_t)j] = m->covariance[(size_t)j * SG_M_COUNT + (size_t)id] = 0;
    if (m->covariance) m->covariance[(size_t)id * (SG_M_COUNT + 1)] = log_sd * log_sd;
}

/* `key` of `map` is a statistic {median_s, low, high ...}. */
static sg_code read_statistic(const probe *p, const sg_node *map, const char *key, double *median, double *log_sd,
                              sg_status *status) {
    const sg_node *statistic;
    double low = 0, high = 0;
    sg_code code = sg_node_child(p->tree, map, key, SG_NODE_MAP, &statistic, status);
    if (code == SG_OK) code = sg_node_real(p->tree, statistic, "median_s", 0, 1e6, median, status);
    if (code == SG_OK) code = sg_node_real(p->tree, statistic, "low", 0, 1e6, &low, status);
    if (code == SG_OK) code = sg_node_real(p->tree, statistic, "high", 0, 1e6, &high, status);
    *log_sd = *median > 0 ? fmax(0.05, (high - low) / *median / 3.92) : 1;
    return code;
}

static sg_code host_costs(const probe *p, sg_status *status) {
    const sg_node *host;
    double op_s, view_s, backward_s, item_s, fixed_s, sd[5];
    sg_code code = sg_node_child(p->tree, sg_tree_root(p->tree), "host", SG_NODE_MAP, &host, status);
    if (code == SG_OK) code = read_statistic(p, host, "op_s", &op_s, &sd[0], status);
    if (code == SG_OK) code = read_statistic(p, host, "view_s", &view_s, &sd[1], status);
    if (code == SG_OK) code = read_statistic(p, host, "backward_op_s", &backward_s, &sd[2], status);
    if (code == SG_OK) code = read_statistic(p, host, "item_s", &item_s, &sd[3], status);
    if (code == SG_OK) code = read_statistic(p, host, "optimizer_fixed_s", &fixed_s, &sd[4], status);
    if (code != SG_OK) return code;
    set(p, SG_M_HOST_OP_S, op_s, fmax(0.15, sd[0]));
    set(p, SG_M_HOST_VIEW, view_s / op_s, 0.1);
    set(p, SG_M_HOST_BACKWARD, backward_s / op_s, 0.1);
    set(p, SG_M_HOST_SYNC_S, item_s, fmax(0.2, sd[3]));
    /* the optimizer's calls are ops of the program and priced as such; what is left is its fixed part */
    set(p, SG_M_HOST_OPTIMIZER_OPS, 1, 0.1);
    set(p, SG_M_HOST_OPTIMIZER_S, fmax(fixed_s, 1e-6), 0.3);
    return SG_OK;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* "image_size": "240x320" is an option of the command line; policies have two keys. text[] keeps the values. */
static sg_code step_settings(const probe *p, const sg_node *step, sg_setting *settings, size_t *n, char text[2][16],
                             sg_status *status) {
    const sg_node *map;
    *n = 0;
    sg_code code = sg_node_child(p->tree, step, "settings", SG_NODE_MAP, &map, status);
    for (const sg_node *s = code == SG_OK ? map->child : NULL; s; s = s->next) {
        if (s->kind != SG_NODE_SCALAR || *n + 2 > SETTINGS_MAX)
            return sg_node_fail(p->tree, s, status, "up to %d plain values are expected", SETTINGS_MAX);
        int height, width;
        char rest;
        if (strcmp(s->key, "image_size") != 0) {
            settings[(*n)++] = (sg_setting){s->key, s->text, "probe"};
        } else if (sscanf(s->text, "%6dx%6d%c", &height, &width, &rest) == 2) {
            (void)snprintf(text[0], sizeof text[0], "%d", height);
            (void)snprintf(text[1], sizeof text[1], "%d", width);
            settings[(*n)++] = (sg_setting){"image_height", text[0], "probe"};
            settings[(*n)++] = (sg_setting){"image_width", text[1], "probe"};
        } else {
            return sg_node_fail(p->tree, s, status, "HEIGHTxWIDTH is expected");
        }
    }
    return code;
}

static sg_code build_step(const probe *p, const sg_node *step, sg_training **training, sg_status *status) {
    sg_setting settings[SETTINGS_MAX + 1];
    char text[2][16], policy[64], precision[16], envs[24];
    size_t n = 0;
    int64_t size = 0;
    sg_code code = sg_node_text(p->tree, step, "policy", policy, sizeof policy, status);
    if (code == SG_OK) code = sg_node_text(p->tree, step, "precision", precision, sizeof precision, status);
    if (code == SG_OK) code = step_settings(p, step, settings, &n, text, status);
    bool ppo = sg_node_get(step, "envs") != NULL;
    if (code == SG_OK) code = sg_node_int(p->tree, step, ppo ? "envs" : "batch", 1, 1000000, &size, status);
    if (code != SG_OK) return code;
    if (ppo) {
        (void)snprintf(envs, sizeof envs, "%lld", (long long)size);
        settings[n++] = (sg_setting){"envs", envs, "probe"};
    }
    const sg_family *family = sg_family_find(policy);
    bool own = family && family->default_precision && strcmp(family->default_precision, precision) == 0;
    sg_policy_request request = {.policy = policy,
                                 .framework = SG_FRAMEWORK_PYTORCH_EAGER,
                                 .device_class = sg_machine_device_class(&p->fit->machine),
                                 .batch = ppo ? 0 : size,
                                 .precision = own ? NULL : precision,
                                 .settings = settings,
                                 .n_settings = n};
    return sg_policy_build(&request, training, status);
}

/* Priced seconds by class of one iteration without preprocessing: the probe feeds ready batches. */
static sg_code priced_step(const probe *p, const sg_training *training, double *seconds, sg_status *status) {
    double *count = calloc(training->n_ops ? training->n_ops : 1, sizeof *count);
    if (!count) return sg_fail_memory(status, training->n_ops * sizeof *count, "a fit");
    sg_work_counts(training, count);
    for (size_t i = 0; i < training->n_programs && training->envs == 0; i++) {
        if (strcmp(training->programs[i].name, "preprocess") != 0) continue;
        for (size_t k = 0; k < training->programs[i].n_entries; k++)
            if (training->programs[i].entries[k].kind == SG_ENTRY_OP) count[training->programs[i].entries[k].index] = 0;
    }
    sg_code code = sg_work_class_seconds(training, count, &p->fit->machine, seconds, NULL, status);
    free(count);
    return code;
}

static bool mostly_low_precision(const sg_training *training) {
    double low = 0, all = 0;
    for (size_t i = 0; i < training->n_ops; i++) {
        double flops = sg_op_cost(&training->ops[i]).flops;
        all += flops;
        if (sg_machine_low_precision(&training->ops[i])) low += flops;
    }
    return low > 0.5 * all;
}

static sg_code read_step(probe *p, const sg_node *step, sg_status *status) {
    const sg_node *class_s;
    sg_training *training = NULL;
    double priced[SG_CLASS_COUNT], total = 0, seen[SG_CLASS_COUNT] = {0};
    sg_code code = sg_node_child(p->tree, step, "class_s", SG_NODE_MAP, &class_s, status);
    if (code == SG_OK) code = build_step(p, step, &training, status);
    if (code == SG_OK) code = priced_step(p, training, priced, status);
    if (code == SG_OK) p->low[p->n_steps] = mostly_low_precision(training);
    sg_training_free(training);
    for (int c = 0; code == SG_OK && c < SG_CLASS_COUNT; c++) {
        const char *name = sg_op_class_name((sg_op_class)c);
        if (sg_node_get(class_s, name)) code = sg_node_real(p->tree, class_s, name, 0, 1e6, &seen[c], status);
        total += seen[c];
    }
    if (code != SG_OK) return code;
    for (int c = 0; c < SG_CLASS_COUNT; c++) {
        bool both = seen[c] > 0 && priced[c] > 0;
        p->share[p->n_steps][c] = both ? seen[c] / total : 0;
        p->log_ratio[p->n_steps][c] = both ? log(seen[c] / priced[c]) : 0;
    }
    p->n_steps++;
    return SG_OK;
}

/* Mean log ratio of a class over the steps of one kind, each weighted by what the class weighs in it; its log sd. */
static bool mean_ratio(const probe *p, int c, bool low, double *mean, double *log_sd) {
    double weight = 0, square = 0;
    *mean = 0;
    for (size_t i = 0; i < p->n_steps; i++) {
        if (p->low[i] != low) continue;
        weight += p->share[i][c];
        *mean += p->share[i][c] * p->log_ratio[i][c];
    }
    if (!(weight > 0)) return false;
    *mean /= weight;
    for (size_t i = 0; i < p->n_steps; i++)
        if (p->low[i] == low) square += p->share[i][c] * (p->log_ratio[i][c] - *mean) * (p->log_ratio[i][c] - *mean);
    *log_sd = hypot(FACTOR_LEAST_LOG_SD, sqrt(square / weight));
    return true;
}

/* One factor per class, and one for products in low precision, which other kernels compute: it is read off the matrix
 * products. Classes that only such steps have (fused attention) take theirs whole. */
static void factors(const probe *p) {
    double full, low, full_sd, low_sd;
    for (int c = 0; c < SG_CLASS_COUNT; c++) {
        sg_machine_id id = sg_machine_factor_of((sg_op_class)c);
        bool has_full = mean_ratio(p, c, false, &full, &full_sd), has_low = mean_ratio(p, c, true, &low, &low_sd);
        if (c == SG_CLASS_GEMM && has_full && has_low) set(p, SG_M_FACTOR_LOW_PRECISION, exp(low - full), low_sd);
        if (has_full) set(p, id, exp(full), full_sd);
    }
    for (int c = 0; c < SG_CLASS_COUNT; c++) {
        bool product = c <= SG_CLASS_ATTENTION;
        if (mean_ratio(p, c, false, &full, &full_sd) || !mean_ratio(p, c, true, &low, &low_sd)) continue;
        double beside = product ? log(p->fit->machine.p[SG_M_FACTOR_LOW_PRECISION].value) : 0;
        set(p, sg_machine_factor_of((sg_op_class)c), exp(low - beside), low_sd);
    }
}

static sg_code check_head(probe *p, sg_status *status) {
    const sg_node *root = sg_tree_root(p->tree);
    char format[64], torch[48], device[16], date[32];
    int64_t version = 0;
    sg_code code = sg_node_text(p->tree, root, "format", format, sizeof format, status);
    if (code == SG_OK && strcmp(format, "stepgauge-torch-probe") != 0)
        code = sg_node_fail(p->tree, root, status, "this is no probe file: bench/torch_probe.py writes one");
    if (code == SG_OK) code = sg_node_int(p->tree, root, "version", 1, PROBE_VERSION, &version, status);
    if (code == SG_OK) code = sg_node_text(p->tree, root, "torch", torch, sizeof torch, status);
    if (code == SG_OK) code = sg_node_text(p->tree, root, "device", device, sizeof device, status);
    if (code == SG_OK) code = sg_node_text(p->tree, root, "date", date, sizeof date, status);
    if (code != SG_OK) return code;
    if (strcmp(device, p->fit->machine.device_class) != 0)
        return sg_node_fail(p->tree, sg_node_get(root, "device"), status,
                            "the probe ran on '%s', the measurements on '%s'", device, p->fit->machine.device_class);
    (void)snprintf(p->origin, sizeof p->origin, "probe of PyTorch %.40s, %.10s", torch, date);
    return SG_OK;
}

static void note_disturbances(const probe *p) {
    const sg_node *list = sg_node_get(sg_tree_root(p->tree), "disturbed");
    for (const sg_node *n = list && list->kind == SG_NODE_LIST ? list->child : NULL; n; n = n->next)
        if (n->kind == SG_NODE_SCALAR) sg_fit_note(p->fit, "the probe was disturbed: %.200s", n->text);
}

static sg_code read_probe(probe *p, sg_status *status) {
    const sg_node *steps;
    sg_code code = check_head(p, status);
    if (code == SG_OK) code = sg_node_child(p->tree, sg_tree_root(p->tree), "steps", SG_NODE_LIST, &steps, status);
    for (const sg_node *s = code == SG_OK ? steps->child : NULL; code == SG_OK && s && p->n_steps < STEPS_MAX;
         s = s->next)
        code = read_step(p, s, status);
    if (code == SG_OK) factors(p);
    if (code == SG_OK) code = host_costs(p, status);
    if (code == SG_OK) code = sg_probe_loader(p->tree, p->origin, p->fit, status);
    if (code == SG_OK) note_disturbances(p);
    return code;
}

sg_code sg_fit_probe(const char *path, sg_fit *fit, sg_status *status) {
    sg_tree *tree;
    sg_code code = sg_tree_read(path, &tree, status);
    if (code != SG_OK) return code;
    probe *p = calloc(1, sizeof *p);
    if (!p) code = sg_fail_memory(status, sizeof *p, "a probe");
    if (code == SG_OK) {
        p->tree = tree;
        p->fit = fit;
        code = read_probe(p, status);
    }
    free(p);
    sg_tree_free(tree);
    return code;
}
