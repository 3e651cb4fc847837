/* Machine files: the machine and its laws. */
#include "calibration/fit/fit.h"
#include "calibration/loader/loader_file.h"
#include "calibration/machine/machine_group.h"
#include "sim/files/field_tree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAWS_MAX = 4096 };

static sg_code law_to_group(const sg_law *law, sg_h5tree *g, sg_status *status) {
    sg_h5tree *config = NULL;
    sg_code code = sg_h5tree_group(g, "config", &config, status);
    if (code == SG_OK) code = sg_fields_to_tree(config, sg_config_fields(), &law->config, true, status);
    if (code == SG_OK) code = sg_h5tree_set_text(g, "quantity", law->quantity, status);
    if (code == SG_OK) code = sg_h5tree_set_text(g, "formula", sg_law_formula((sg_law_kind)law->kind), status);
    if (code == SG_OK) code = sg_h5tree_set_i64(g, "kind", law->kind, status);
    if (code == SG_OK) code = sg_h5tree_set_i64(g, "terms", (int64_t)law->n_terms, status);
    if (code == SG_OK) code = sg_h5tree_set_i64(g, "fitted", (int64_t)law->n_fitted, status);
    if (code == SG_OK) code = sg_h5tree_set_i64(g, "points", (int64_t)law->n_points, status);
    if (code == SG_OK) code = sg_h5tree_set_doubles(g, "value", law->value, SG_LAW_TERMS, status);
    if (code == SG_OK) code = sg_h5tree_set_doubles(g, "error", law->error, SG_LAW_TERMS, status);
    if (code == SG_OK)
        code = sg_h5tree_set_doubles(g, "covariance", law->covariance, SG_LAW_TERMS * SG_LAW_TERMS, status);
    if (code == SG_OK) code = sg_h5tree_set_f64(g, "low_x", law->low_x, status);
    if (code == SG_OK) code = sg_h5tree_set_f64(g, "high_x", law->high_x, status);
    if (code == SG_OK) code = sg_h5tree_set_f64(g, "residual_log_sd", law->residual_log_sd, status);
    if (code == SG_OK) code = sg_h5tree_set_f64(g, "left_out_log_sd", law->left_out_log_sd, status);
    if (code == SG_OK) code = sg_h5tree_set_text(g, "next_point", law->next_point, status);
    return code;
}

static sg_code get_numbers(const sg_h5tree *g, const char *name, double *out, size_t n, sg_status *status) {
    const double *values;
    size_t found;
    sg_code code = sg_h5tree_get_doubles(g, name, &values, &found, status);
    if (code != SG_OK) return code;
    if (found != n) return sg_fail(status, SG_BAD_INPUT, "%s has %zu numbers, %zu are expected", name, found, n);
    memcpy(out, values, n * sizeof *out);
    return SG_OK;
}

static sg_code check_law(const sg_law *law, int64_t terms, int64_t fitted, int64_t points, sg_status *status) {
    bool sound = law->kind >= 0 && law->kind < SG_LAW_KIND_COUNT && terms >= 1 && terms <= SG_LAW_TERMS &&
                 fitted >= 1 && fitted <= terms && points >= 1;
    for (int i = 0; sound && i < SG_LAW_TERMS; i++) sound = isfinite(law->value[i]) && law->value[i] >= 0;
    for (int i = 0; sound && i < fitted; i++) sound = law->value[i] > 0;
    for (int i = 0; sound && i < SG_LAW_TERMS * SG_LAW_TERMS; i++) sound = isfinite(law->covariance[i]);
    sound = sound && law->low_x > 0 && law->high_x >= law->low_x && isfinite(law->high_x) && law->residual_log_sd >= 0;
    return sound ? SG_OK : sg_fail(status, SG_BAD_INPUT, "a law of %s holds what no fit can give", law->quantity);
}

static sg_code law_from_group(const sg_h5tree *g, sg_law *law, sg_status *status) {
    const sg_h5tree *config = sg_h5tree_find(g, "config");
    if (!config) return sg_fail(status, SG_BAD_INPUT, "a law has no config");
    int64_t kind = 0, terms = 0, fitted = 0, points = 0;
    sg_code code = sg_fields_from_tree(config, sg_config_fields(), &law->config, status);
    if (code == SG_OK) code = sg_h5tree_get_text(g, "quantity", law->quantity, sizeof law->quantity, status);
    if (code == SG_OK) code = sg_h5tree_get_i64(g, "kind", &kind, status);
    if (code == SG_OK) code = sg_h5tree_get_i64(g, "terms", &terms, status);
    if (code == SG_OK) code = sg_h5tree_get_i64(g, "fitted", &fitted, status);
    if (code == SG_OK) code = sg_h5tree_get_i64(g, "points", &points, status);
    if (code == SG_OK) code = get_numbers(g, "value", law->value, SG_LAW_TERMS, status);
    if (code == SG_OK) code = get_numbers(g, "error", law->error, SG_LAW_TERMS, status);
    if (code == SG_OK) code = get_numbers(g, "covariance", law->covariance, SG_LAW_TERMS * SG_LAW_TERMS, status);
    if (code == SG_OK) code = sg_h5tree_get_f64(g, "low_x", &law->low_x, status);
    if (code == SG_OK) code = sg_h5tree_get_f64(g, "high_x", &law->high_x, status);
    if (code == SG_OK) code = sg_h5tree_get_f64(g, "residual_log_sd", &law->residual_log_sd, status);
    if (code == SG_OK) code = sg_h5tree_get_f64(g, "left_out_log_sd", &law->left_out_log_sd, status);
    if (code == SG_OK) code = sg_h5tree_get_text(g, "next_point", law->next_point, sizeof law->next_point, status);
    if (code != SG_OK) return code;
    law->kind = kind >= 0 && kind < SG_LAW_KIND_COUNT ? (int32_t)kind : -1;
    code = check_law(law, terms, fitted, points, status);
    law->n_terms = (size_t)terms;
    law->n_fitted = (size_t)fitted;
    law->n_points = (size_t)points;
    return code;
}

static sg_code laws_to_tree(const sg_fit *fit, sg_h5tree *root, sg_status *status) {
    sg_h5tree *laws = NULL;
    sg_code code = sg_h5tree_group(root, "laws", &laws, status);
    for (size_t i = 0; code == SG_OK && i < fit->n_laws; i++) {
        char name[32];
        sg_h5tree *g;
        (void)snprintf(name, sizeof name, "%04zu", i);
        code = sg_h5tree_group(laws, name, &g, status);
        if (code == SG_OK) code = law_to_group(&fit->laws[i], g, status);
    }
    return code;
}

sg_code sg_fit_save(const char *path, const sg_fit *fit, sg_status *status) {
    sg_h5tree *root = sg_h5tree_new(status);
    if (!root) return SG_MACHINE;
    sg_code code = sg_machine_to_group(&fit->machine, root, status);
    if (code == SG_OK) code = laws_to_tree(fit, root, status);
    if (code == SG_OK) code = sg_loaders_to_tree(fit->loaders, fit->n_loaders, root, status);
    if (code == SG_OK) code = sg_h5tree_save(path, &sg_machine_format, root, status);
    sg_h5tree_free(root);
    return code;
}

static sg_code read_tree(const sg_h5tree *root, sg_fit *fit, sg_status *status) {
    const sg_h5tree *laws = sg_h5tree_find(root, "laws");
    sg_code code = sg_machine_from_group(root, &fit->machine, status);
    size_t n = laws ? laws->n_groups : 0;
    if (code == SG_OK && n > LAWS_MAX)
        code = sg_fail(status, SG_BAD_INPUT, "it holds %zu laws, more than %d", n, LAWS_MAX);
    if (code == SG_OK) code = sg_loaders_from_tree(root, &fit->loaders, &fit->n_loaders, status);
    if (code != SG_OK || n == 0) return code;
    fit->laws = calloc(n, sizeof *fit->laws);
    if (!fit->laws) return sg_fail_memory(status, n * sizeof *fit->laws, "laws");
    for (size_t i = 0; i < n && code == SG_OK; i++)
        code = law_from_group(laws->groups[i], &fit->laws[fit->n_laws++], status);
    return code;
}

sg_code sg_fit_from_tree(const sg_h5tree *root, sg_fit *fit, sg_status *status) {
    memset(fit, 0, sizeof *fit);
    sg_code code = read_tree(root, fit, status);
    if (code != SG_OK) sg_fit_clear(fit);
    return code;
}

sg_code sg_fit_load(const char *path, sg_fit *fit, sg_status *status) {
    memset(fit, 0, sizeof *fit);
    sg_h5tree *root;
    sg_code code = sg_h5tree_load(path, &sg_machine_format, &root, status);
    if (code != SG_OK) return code;
    code = sg_fit_from_tree(root, fit, status);
    sg_h5tree_free(root);
    return code == SG_OK ? code : sg_fail_in(status, "%s", path);
}

void sg_fit_clear(sg_fit *fit) {
    sg_machine_clear(&fit->machine);
    free(fit->laws);
    free(fit->loaders);
    free(fit->residuals);
    free(fit->notes);
    memset(fit, 0, sizeof *fit);
}
