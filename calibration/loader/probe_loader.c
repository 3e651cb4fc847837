#include "calibration/loader/probe_loader.h"

#include "calibration/fit/fit_laws.h"
#include "calibration/loader/dataset_text.h"
#include "calibration/loader/loader_framework.h"
#include "calibration/machine/framework_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PARTS_MAX = 64 };

/* How far a factor of one data set holds for the next: content, size, distance of key frames. */
static const double FACTOR_LEAST_LOG_SD = 0.1;

typedef struct part {
    char name[96], backend[16];
    int64_t frames_per_camera;
    double frame_s, frame_log_sd, python_s, python_log_sd, row_s, row_log_sd, collation, collation_log_sd;
} part;

/* Geometric means over the parts that speak of a parameter. */
typedef struct mean {
    double sum, square, doubt;
    size_t n;
} mean;

static sg_code read_statistic(const sg_tree *tree, const sg_node *map, const char *key, double *median, double *log_sd,
                              sg_status *status) {
    static const double LEAST_S = 1e-9, MOST_S = 1e4;
    const sg_node *statistic = NULL;
    double low = 0, high = 0;
    sg_code code = sg_node_child(tree, map, key, SG_NODE_MAP, &statistic, status);
    if (!code) code = sg_node_real(tree, statistic, "median_s", LEAST_S, MOST_S, median, status);
    if (!code) code = sg_node_real(tree, statistic, "low", 0, *median, &low, status);
    if (!code) code = sg_node_real(tree, statistic, "high", *median, MOST_S, &high, status);
    if (!code) *log_sd = fmax(0.05, (high - low) / *median / 3.92); /* a 95 % interval */
    return code;
}

static sg_code read_part(const sg_tree *tree, const sg_node *node, part *p, sg_status *status) {
    double bytes = 0, collate_s = 0;
    memset(p, 0, sizeof *p);
    if (node->kind != SG_NODE_MAP) return sg_node_fail(tree, node, status, "what one data set took is expected");
    sg_code code = sg_node_text(tree, node, "dataset", p->name, sizeof p->name, status);
    if (!code) code = sg_node_text(tree, node, "backend", p->backend, sizeof p->backend, status);
    if (!code && sg_loader_backend(p->backend) == SG_M_COUNT)
        code = sg_node_fail(tree, sg_node_get(node, "backend"), status, "torchcodec or pyav is expected");
    if (!code) code = sg_node_int(tree, node, "frames_per_camera", 1, 1000, &p->frames_per_camera, status);
    if (!code) code = sg_node_real(tree, node, "sample_bytes", 1, 1e12, &bytes, status);
    if (!code) code = read_statistic(tree, node, "frame_s", &p->frame_s, &p->frame_log_sd, status);
    if (!code) code = read_statistic(tree, node, "python_s", &p->python_s, &p->python_log_sd, status);
    if (!code) code = read_statistic(tree, node, "row_s", &p->row_s, &p->row_log_sd, status);
    if (!code) code = read_statistic(tree, node, "collate_s", &collate_s, &p->collation_log_sd, status);
    if (!code) p->collation = bytes / collate_s;
    return code;
}

static void add(mean *m, double value, double log_sd) {
    double l = log(value);
    m->sum += l;
    m->square += l * l;
    m->doubt = fmax(m->doubt, log_sd);
    m->n++;
}

static void set(sg_machine *machine, sg_machine_id id, const mean *m, double least_log_sd, const char *origin) {
    if (m->n == 0) return;
    double middle = m->sum / (double)m->n, spread = sqrt(fmax(0, m->square / (double)m->n - middle * middle));
    sg_machine_parameter *p = &machine->p[id];
    *p = (sg_machine_parameter){
        .value = exp(middle), .log_sd = hypot(fmax(least_log_sd, m->doubt), spread), .evidence = SG_EVIDENCE_OBSERVED};
    (void)snprintf(p->source, sizeof p->source, "%.119s", origin);
    if (!machine->covariance) return;
    for (size_t j = 0; j < SG_M_COUNT; j++)
        machine->covariance[(size_t)id * SG_M_COUNT + j] = machine->covariance[j * SG_M_COUNT + (size_t)id] = 0;
    machine->covariance[(size_t)id * (SG_M_COUNT + 1)] = p->log_sd * p->log_sd;
}

/* The law of the data set that has this name; cached, as the probe reads it. */
static const sg_loader_law *law_named(const sg_fit *fit, const char *name) {
    for (size_t i = 0; i < fit->n_loaders; i++) {
        const sg_loader_law *law = &fit->loaders[i];
        const char *own = strstr(law->dataset, ";name=");
        if (own && strcmp(own + strlen(";name="), name) == 0 && strcmp(law->layer, "cached") == 0) return law;
    }
    return NULL;
}

/* Which factor the data set's frames speak of: images are no backend's. SG_M_COUNT: none. */
static sg_machine_id factor_of(const sg_loader_law *law, const part *p, double *pixels) {
    sg_dataset_text text;
    if (!sg_dataset_text_read(law->dataset, &text)) return SG_M_COUNT;
    *pixels = (double)text.height * (double)text.width;
    bool image = strcmp(text.codec, "png") == 0 || strcmp(text.codec, "jpeg") == 0;
    return image ? SG_M_LOADER_IMAGE : sg_loader_backend(p->backend);
}

/* Frames by the framework here / as its profile has them beside our law: the factor, and what is on top, take it. */
static void add_frames(const sg_fit *fit, const sg_framework_numbers *numbers, const part *p, mean ratio[SG_M_COUNT],
                       bool *left_out) {
    const sg_loader_law *law = law_named(fit, p->name);
    double pixels = 0;
    sg_machine_id id = law ? factor_of(law, p, &pixels) : SG_M_COUNT;
    *left_out = id == SG_M_COUNT || !(law->frame_s > 0) ||
                fabs(law->frames_per_camera - (double)p->frames_per_camera) > 0.5 || !isfinite(numbers->p[id].value);
    if (*left_out) return;
    double stated_s = sg_loader_peer_frame_s(numbers->p, id, law->frame_s, pixels, law->frames_per_camera);
    if (stated_s > 0) add(&ratio[id], p->frame_s / stated_s, hypot(p->frame_log_sd, law->work_log_sd));
}

static void set_factors(const sg_framework_numbers *numbers, const mean ratio[SG_M_COUNT], const char *origin,
                        sg_machine *machine) {
    for (int i = 0; i < SG_M_COUNT; i++) {
        if (ratio[i].n == 0) continue;
        for (int k = i; k <= i + (i != SG_M_LOADER_IMAGE); k++) {
            mean of = ratio[i];
            double stated = log(numbers->p[k].value), n = (double)of.n;
            of.square += 2 * stated * of.sum + n * stated * stated;
            of.sum += n * stated;
            set(machine, (sg_machine_id)k, &of, FACTOR_LEAST_LOG_SD, origin);
        }
    }
}

sg_code sg_probe_loader(const sg_tree *tree, const char *origin, sg_fit *fit, sg_status *status) {
    static const sg_machine_id python[] = {SG_M_LOADER_PYTHON_S, SG_M_LOADER_ROW_S, SG_M_LOADER_COLLATION};
    mean ratio[SG_M_COUNT] = {0}, rest[3] = {0};
    sg_framework_numbers numbers;
    const sg_node *list = NULL;
    size_t n = 0;
    if (!sg_node_get(sg_tree_root(tree), "loader")) return SG_OK;
    sg_code code = sg_node_child(tree, sg_tree_root(tree), "loader", SG_NODE_LIST, &list, status);
    if (!code) code = sg_framework_load("pytorch-eager", fit->machine.device_class, NULL, &numbers, status);
    for (const sg_node *node = code ? NULL : list->child; node && !code; node = node->next) {
        part p;
        bool left_out;
        if (++n > PARTS_MAX) return sg_node_fail(tree, node, status, "more than %d data sets", PARTS_MAX);
        code = read_part(tree, node, &p, status);
        if (code) break;
        const double value[] = {p.python_s, p.row_s, p.collation};
        const double log_sd[] = {p.python_log_sd, p.row_log_sd, p.collation_log_sd};
        for (int i = 0; i < 3; i++) add(&rest[i], value[i], log_sd[i]);
        add_frames(fit, &numbers, &p, ratio, &left_out);
        if (left_out)
            sg_fit_note(fit,
                        "the probe's loader read '%.80s', which these runs did not load so: its frames are left out "
                        "(measure POLICY --dataset DIR --loader-only --workers 0,1,2)",
                        p.name);
    }
    if (code) return code;
    set_factors(&numbers, ratio, origin, &fit->machine);
    for (int i = 0; i < 3; i++) set(&fit->machine, python[i], &rest[i], FACTOR_LEAST_LOG_SD, origin);
    return SG_OK;
}
