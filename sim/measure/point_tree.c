#include "sim/measure/point_tree.h"
#include "sim/files/field_tree.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sg_point_group_name(uint64_t key, char name[SG_POINT_NAME_BYTES]) {
    (void)snprintf(name, SG_POINT_NAME_BYTES, "%016" PRIx64, key);
}

/* The four parts of a statistic: attributes update_s_median, update_s_mean, update_s_low, update_s_high. */
enum { PARTS = 4 };
static const char *const part_names[PARTS] = {"median", "mean", "low", "high"};

static double *part_of(sg_statistic *s, int part) {
    double *const parts[PARTS] = {&s->median, &s->mean, &s->low, &s->high};
    return parts[part];
}

static void part_name(sg_quantity q, int part, char name[64]) {
    (void)snprintf(name, 64, "%s_%s", sg_quantity_name(q), part_names[part]);
}

static sg_code put_list(sg_h5tree *group, const char *name, const double *values, size_t n, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t i = 0; code == SG_OK && i < n; i++) code = sg_field_check_real(name, values[i], status);
    return code == SG_OK ? sg_h5tree_set_doubles(group, name, values, n, status) : code;
}

/* A copy of the dataset of that name, which must have n finite values; NULL when there is none. */
static sg_code get_list(const sg_h5tree *group, const char *name, uint64_t n, double **values, sg_status *status) {
    const sg_h5tree_value *list = sg_h5tree_value_of(group, name, SG_H5TREE_DOUBLES);
    if (!list) return SG_OK;
    if (list->n != n)
        return sg_fail(status, SG_BAD_INPUT, "'%s' has %zu values where %" PRIu64 " are expected", name, list->n, n);
    sg_code code = SG_OK;
    for (size_t i = 0; code == SG_OK && i < list->n; i++) code = sg_field_check_real(name, list->doubles[i], status);
    if (code != SG_OK) return code;
    *values = reallocarray(NULL, list->n ? list->n : 1, sizeof **values);
    if (!*values) return sg_fail_memory(status, list->n * sizeof **values, name);
    if (list->n) memcpy(*values, list->doubles, list->n * sizeof **values);
    return SG_OK;
}

/* Values of rank_update_s; SG_BAD_INPUT when there cannot be so many. */
static sg_code rank_values(const sg_point *point, uint64_t *n, sg_status *status) {
    if (point->iterations >= 0 && point->config.ranks >= 0 &&
        !__builtin_mul_overflow((uint64_t)point->iterations, (uint64_t)point->config.ranks, n) &&
        *n < SIZE_MAX / sizeof(double))
        return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "%" PRId64 " ranks with %" PRId64 " iterations are too many values",
                   point->config.ranks, point->iterations);
}

static sg_code put_quantity(const sg_point *point, sg_quantity q, sg_h5tree *group, sg_status *status) {
    sg_statistic s = point->q[q];
    char name[64];
    sg_code code = SG_OK;
    for (int part = 0; code == SG_OK && part < PARTS; part++) {
        part_name(q, part, name);
        code = sg_field_put_real(group, name, *part_of(&s, part), status);
    }
    if (code != SG_OK || !point->raw[q]) return code;
    return put_list(group, sg_quantity_name(q), point->raw[q], (size_t)point->iterations, status);
}

static sg_code get_quantity(const sg_h5tree *group, sg_quantity q, sg_point *point, sg_status *status) {
    char name[64];
    sg_code code = SG_OK;
    for (int part = 0; code == SG_OK && part < PARTS; part++) {
        part_name(q, part, name);
        code = sg_field_get_real(group, name, part_of(&point->q[q], part), status);
    }
    if (code != SG_OK) return code;
    return get_list(group, sg_quantity_name(q), (uint64_t)point->iterations, &point->raw[q], status);
}

static void class_name(int c, char name[64]) {
    (void)snprintf(name, 64, "class_%s_s", sg_op_class_name((sg_op_class)c));
}

bool sg_point_tree_has_class_times(const sg_h5tree *group) {
    for (int c = 0; c < SG_CLASS_COUNT; c++) {
        char name[64];
        class_name(c, name);
        if (sg_h5tree_value_of(group, name, SG_H5TREE_F64)) return true;
    }
    return false;
}

sg_code sg_point_to_tree(const sg_point *point, int64_t sequence, sg_h5tree *group, sg_status *status) {
    sg_h5tree *config;
    sg_code code = sg_h5tree_set_i64(group, "sequence", sequence, status);
    if (code == SG_OK) code = sg_fields_to_tree(group, sg_point_fields(), point, false, status);
    for (int q = 0; code == SG_OK && q < SG_Q_COUNT; q++) code = put_quantity(point, (sg_quantity)q, group, status);
    for (int c = 0; code == SG_OK && c < SG_CLASS_COUNT; c++) {
        char name[64];
        class_name(c, name);
        code = sg_field_put_real(group, name, point->class_s[c], status);
    }
    uint64_t n = 0;
    if (code == SG_OK) code = rank_values(point, &n, status);
    if (code == SG_OK && point->rank_update_s)
        code = put_list(group, "rank_update_s", point->rank_update_s, (size_t)n, status);
    if (code == SG_OK && point->op_s && point->n_ops > 0)
        code = put_list(group, "op_s", point->op_s, (size_t)point->n_ops, status);
    if (code == SG_OK) code = sg_h5tree_group(group, "config", &config, status);
    if (code == SG_OK) code = sg_fields_to_tree(config, sg_config_fields(), &point->config, true, status);
    return code;
}

sg_code sg_point_from_tree(const sg_h5tree *group, sg_point *point, int64_t *sequence, sg_status *status) {
    const sg_h5tree *config = sg_h5tree_find(group, "config");
    if (!config) return sg_fail(status, SG_BAD_INPUT, "point '%s' lacks the group 'config'", group->name);
    sg_code code = sg_h5tree_get_i64(group, "sequence", sequence, status);
    if (code == SG_OK) code = sg_fields_from_tree(config, sg_config_fields(), &point->config, status);
    if (code == SG_OK) code = sg_fields_from_tree(group, sg_point_fields(), point, status);
    for (int q = 0; code == SG_OK && q < SG_Q_COUNT; q++) code = get_quantity(group, (sg_quantity)q, point, status);
    for (int c = 0; code == SG_OK && c < SG_CLASS_COUNT; c++) {
        char name[64];
        class_name(c, name);
        code = sg_field_get_real(group, name, &point->class_s[c], status);
    }
    uint64_t n = 0;
    if (code == SG_OK) code = rank_values(point, &n, status);
    if (code == SG_OK) code = get_list(group, "rank_update_s", n, &point->rank_update_s, status);
    if (code == SG_OK) code = get_list(group, "op_s", (uint64_t)point->n_ops, &point->op_s, status);
    if (code != SG_OK) return code;
    char name[SG_POINT_NAME_BYTES];
    point->key = sg_point_key(&point->config);
    sg_point_group_name(point->key, name);
    if (strcmp(name, group->name) != 0)
        return sg_fail(status, SG_BAD_INPUT, "point '%.40s' has another configuration than its name says", group->name);
    return SG_OK;
}

sg_code sg_machine_record_to_tree(const sg_machine_record *record, sg_h5tree *group, sg_status *status) {
    return sg_fields_to_tree(group, sg_machine_fields(), record, false, status);
}

sg_code sg_machine_record_from_tree(const sg_h5tree *group, sg_machine_record *record, sg_status *status) {
    return sg_fields_from_tree(group, sg_machine_fields(), record, status);
}
