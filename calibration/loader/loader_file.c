#include "calibration/loader/loader_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOADERS_MAX = 1024 };

static sg_code to_group(const sg_loader_law *law, sg_h5tree *g, sg_status *status) {
    sg_code code = sg_h5tree_set_text(g, "dataset", law->dataset, status);
    if (!code) code = sg_h5tree_set_text(g, "layer", law->layer, status);
#define X(name)                                                                                                        \
    if (!code) code = sg_h5tree_set_f64(g, #name, law->name, status);
    SG_LOADER_NUMBERS(X)
#undef X
    return code ? code : sg_h5tree_set_i64(g, "evidence", law->evidence, status);
}

sg_code sg_loaders_to_tree(const sg_loader_law *laws, size_t n, sg_h5tree *root, sg_status *status) {
    sg_h5tree *loaders = NULL, *g = NULL;
    if (!n) return SG_OK;
    sg_code code = sg_h5tree_group(root, "loaders", &loaders, status);
    for (size_t i = 0; i < n && !code; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%04zu", i);
        code = sg_h5tree_group(loaders, name, &g, status);
        if (!code) code = to_group(&laws[i], g, status);
    }
    return code;
}

static sg_code check(const sg_loader_law *law, int64_t evidence, sg_status *status) {
    static const double MOST_S = 1e6, MOST_LOG_SD = 100; /* a batch takes no days; bounds of an interval stay finite */
    bool sound = evidence >= 0 && evidence < SG_EVIDENCE_COUNT;
#define X(name) sound = sound && law->name >= 0 && law->name <= 1e15;
    SG_LOADER_NUMBERS(X)
#undef X
    sound = sound && law->frame_s > 0 && law->sample_s > 0 && law->handover_bandwidth >= 1 && law->batch_log_sd <= 5 &&
            law->sigma <= 1e4 && law->kappa <= 1e4 && law->step_weight <= 1e4;
    sound = sound && law->frame_s <= MOST_S && law->sample_s <= MOST_S && law->wait_s <= MOST_S &&
            law->handover_s <= MOST_S && law->work_log_sd <= MOST_LOG_SD && law->contention_log_sd <= MOST_LOG_SD &&
            law->residual_log_sd <= MOST_LOG_SD && law->left_out_log_sd <= MOST_LOG_SD;
    return sound ? SG_OK
                 : sg_fail(status, SG_BAD_INPUT, "the loader of '%.64s' holds what no fit can give", law->dataset);
}

static sg_code from_group(const sg_h5tree *g, sg_loader_law *law, sg_status *status) {
    int64_t evidence = 0;
    sg_code code = sg_h5tree_get_text(g, "dataset", law->dataset, sizeof law->dataset, status);
    if (!code) code = sg_h5tree_get_text(g, "layer", law->layer, sizeof law->layer, status);
#define X(name)                                                                                                        \
    if (!code) code = sg_h5tree_get_f64(g, #name, &law->name, status);
    SG_LOADER_NUMBERS(X)
#undef X
    if (!code) code = sg_h5tree_get_i64(g, "evidence", &evidence, status);
    if (!code) code = check(law, evidence, status);
    if (!code) law->evidence = (uint8_t)evidence;
    return code;
}

sg_code sg_loaders_from_tree(const sg_h5tree *root, sg_loader_law **laws, size_t *n, sg_status *status) {
    const sg_h5tree *loaders = sg_h5tree_find(root, "loaders");
    size_t count = loaders ? loaders->n_groups : 0;
    *laws = NULL;
    *n = 0;
    if (count == 0) return SG_OK;
    if (count > LOADERS_MAX)
        return sg_fail(status, SG_BAD_INPUT, "it holds %zu loaders, more than %d", count, LOADERS_MAX);
    *laws = calloc(count, sizeof **laws);
    if (!*laws) return sg_fail_memory(status, count * sizeof **laws, "loaders");
    sg_code code = SG_OK;
    for (size_t i = 0; i < count && !code; i++) code = from_group(loaders->groups[i], &(*laws)[(*n)++], status);
    return code;
}
