#include "sim/point_tree.h"
#include "sim/point_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sg_point_group_name(uint64_t key, char name[SG_POINT_NAME_BYTES]) {
    (void)snprintf(name, SG_POINT_NAME_BYTES, "%016" PRIx64, key);
}

/* Descriptions (a host's name, a file's path) may hold any byte: what no file can hold becomes '?'. */
static sg_code set_description(sg_h5tree *group, const char *name, const char *text, size_t bytes, sg_status *status) {
    char clean[4096];
    size_t n = strnlen(text, bytes < sizeof clean ? bytes : sizeof clean - 1);
    memcpy(clean, text, n);
    clean[n] = 0;
    if (!sg_text_is_clean(clean))
        for (size_t i = 0; i < n; i++)
            if (clean[i] < ' ' || clean[i] > '~') clean[i] = '?';
    return sg_h5tree_set_text(group, name, clean, status);
}

/* Configurations are keys: they are kept as they are or refused. */
static sg_code set_setting(sg_h5tree *group, const char *name, const char *text, size_t bytes, sg_status *status) {
    if (strnlen(text, bytes) == bytes) return sg_fail(status, SG_BAD_INPUT, "'%s' of a point has no end", name);
    return sg_h5tree_set_text(group, name, text, status);
}

static sg_code check_i64(const char *name, int64_t value, sg_status *status) {
    if (value >= 0) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "'%s' is %" PRId64 ", but cannot be negative", name, value);
}

/* NAN means "not recorded" and is left out of the file; infinity means a fault. */
static sg_code check_f64(const char *name, double value, sg_status *status) {
    if (!isinf(value)) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "'%s' is %g, but must be a finite number", name, value);
}

static sg_code put_f64(sg_h5tree *group, const char *name, double value, sg_status *status) {
    if (isnan(value)) return SG_OK;
    sg_code code = check_f64(name, value, status);
    return code == SG_OK ? sg_h5tree_set_f64(group, name, value, status) : code;
}

static sg_code get_f64(const sg_h5tree *group, const char *name, double *value, sg_status *status) {
    const sg_h5tree_value *found = sg_h5tree_value_of(group, name, SG_H5TREE_F64);
    *value = found ? found->f64 : NAN;
    return check_f64(name, *value, status);
}

static sg_code put_field(sg_h5tree *group, const sg_field *field, const char *at, bool exact, sg_status *status) {
    int64_t i64 = 0;
    uint64_t u64 = 0;
    double f64 = 0;
    bool flag = false;
    sg_code code = SG_OK;
    switch (field->kind) {
    case SG_FIELD_TEXT:
        return exact ? set_setting(group, field->name, at, field->bytes, status)
                     : set_description(group, field->name, at, field->bytes, status);
    case SG_FIELD_I64:
        memcpy(&i64, at, sizeof i64);
        code = check_i64(field->name, i64, status);
        return code != SG_OK ? code : sg_h5tree_set_i64(group, field->name, i64, status);
    case SG_FIELD_U64: memcpy(&u64, at, sizeof u64); return sg_h5tree_set_u64(group, field->name, u64, status);
    case SG_FIELD_F64: memcpy(&f64, at, sizeof f64); return put_f64(group, field->name, f64, status);
    default: memcpy(&flag, at, sizeof flag); return sg_h5tree_set_i64(group, field->name, flag, status);
    }
}

static sg_code get_field(const sg_h5tree *group, const sg_field *field, char *at, sg_status *status) {
    int64_t i64 = 0;
    uint64_t u64 = 0;
    double f64 = 0;
    sg_code code;
    switch (field->kind) {
    case SG_FIELD_TEXT: return sg_h5tree_get_text(group, field->name, at, field->bytes, status);
    case SG_FIELD_I64:
        code = sg_h5tree_get_i64(group, field->name, &i64, status);
        if (code == SG_OK) code = check_i64(field->name, i64, status);
        memcpy(at, &i64, sizeof i64);
        return code;
    case SG_FIELD_U64:
        code = sg_h5tree_get_u64(group, field->name, &u64, status);
        memcpy(at, &u64, sizeof u64);
        return code;
    case SG_FIELD_F64:
        code = get_f64(group, field->name, &f64, status);
        memcpy(at, &f64, sizeof f64);
        return code;
    default:
        code = sg_h5tree_get_i64(group, field->name, &i64, status);
        if (code == SG_OK && i64 != 0 && i64 != 1)
            code = sg_fail(status, SG_BAD_INPUT, "'%s' is neither 0 nor 1", field->name);
        bool flag = i64 == 1;
        memcpy(at, &flag, sizeof flag);
        return code;
    }
}

static sg_code put_fields(sg_h5tree *group, sg_fields fields, const void *from, bool exact, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t i = 0; code == SG_OK && i < fields.n; i++)
        code = put_field(group, &fields.field[i], (const char *)from + fields.field[i].offset, exact, status);
    return code;
}

static sg_code get_fields(const sg_h5tree *group, sg_fields fields, void *to, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t i = 0; code == SG_OK && i < fields.n; i++)
        code = get_field(group, &fields.field[i], (char *)to + fields.field[i].offset, status);
    return code;
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
    for (size_t i = 0; code == SG_OK && i < n; i++) code = check_f64(name, values[i], status);
    return code == SG_OK ? sg_h5tree_set_doubles(group, name, values, n, status) : code;
}

/* A copy of the dataset of that name, which must have n finite values; NULL when there is none. */
static sg_code get_list(const sg_h5tree *group, const char *name, uint64_t n, double **values, sg_status *status) {
    const sg_h5tree_value *list = sg_h5tree_value_of(group, name, SG_H5TREE_DOUBLES);
    if (!list) return SG_OK;
    if (list->n != n)
        return sg_fail(status, SG_BAD_INPUT, "'%s' has %zu values, but its iterations make %" PRIu64, name, list->n, n);
    sg_code code = SG_OK;
    for (size_t i = 0; code == SG_OK && i < list->n; i++) code = check_f64(name, list->doubles[i], status);
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
        code = put_f64(group, name, *part_of(&s, part), status);
    }
    if (code != SG_OK || !point->raw[q]) return code;
    return put_list(group, sg_quantity_name(q), point->raw[q], (size_t)point->iterations, status);
}

static sg_code get_quantity(const sg_h5tree *group, sg_quantity q, sg_point *point, sg_status *status) {
    char name[64];
    sg_code code = SG_OK;
    for (int part = 0; code == SG_OK && part < PARTS; part++) {
        part_name(q, part, name);
        code = get_f64(group, name, part_of(&point->q[q], part), status);
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
    if (code == SG_OK) code = put_fields(group, sg_point_fields(), point, false, status);
    for (int q = 0; code == SG_OK && q < SG_Q_COUNT; q++) code = put_quantity(point, (sg_quantity)q, group, status);
    for (int c = 0; code == SG_OK && c < SG_CLASS_COUNT; c++) {
        char name[64];
        class_name(c, name);
        code = put_f64(group, name, point->class_s[c], status);
    }
    uint64_t n = 0;
    if (code == SG_OK) code = rank_values(point, &n, status);
    if (code == SG_OK && point->rank_update_s)
        code = put_list(group, "rank_update_s", point->rank_update_s, (size_t)n, status);
    if (code == SG_OK) code = sg_h5tree_group(group, "config", &config, status);
    if (code == SG_OK) code = put_fields(config, sg_config_fields(), &point->config, true, status);
    return code;
}

sg_code sg_point_from_tree(const sg_h5tree *group, sg_point *point, int64_t *sequence, sg_status *status) {
    const sg_h5tree *config = sg_h5tree_find(group, "config");
    if (!config) return sg_fail(status, SG_BAD_INPUT, "point '%s' lacks the group 'config'", group->name);
    sg_code code = sg_h5tree_get_i64(group, "sequence", sequence, status);
    if (code == SG_OK) code = get_fields(config, sg_config_fields(), &point->config, status);
    if (code == SG_OK) code = get_fields(group, sg_point_fields(), point, status);
    for (int q = 0; code == SG_OK && q < SG_Q_COUNT; q++) code = get_quantity(group, (sg_quantity)q, point, status);
    for (int c = 0; code == SG_OK && c < SG_CLASS_COUNT; c++) {
        char name[64];
        class_name(c, name);
        code = get_f64(group, name, &point->class_s[c], status);
    }
    uint64_t n = 0;
    if (code == SG_OK) code = rank_values(point, &n, status);
    if (code == SG_OK) code = get_list(group, "rank_update_s", n, &point->rank_update_s, status);
    if (code != SG_OK) return code;
    char name[SG_POINT_NAME_BYTES];
    point->key = sg_point_key(&point->config);
    sg_point_group_name(point->key, name);
    if (strcmp(name, group->name) != 0)
        return sg_fail(status, SG_BAD_INPUT, "point '%.40s' has another configuration than its name says", group->name);
    return SG_OK;
}

sg_code sg_machine_record_to_tree(const sg_machine_record *record, sg_h5tree *group, sg_status *status) {
    return put_fields(group, sg_machine_fields(), record, false, status);
}

sg_code sg_machine_record_from_tree(const sg_h5tree *group, sg_machine_record *record, sg_status *status) {
    return get_fields(group, sg_machine_fields(), record, status);
}
