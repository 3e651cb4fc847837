/* field_tree.c: see field_tree.h. */
#include "sim/files/field_tree.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

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

sg_code sg_field_check_real(const char *name, double value, sg_status *status) {
    if (!isinf(value)) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "'%s' is %g, but must be a finite number", name, value);
}

sg_code sg_field_put_real(sg_h5tree *group, const char *name, double value, sg_status *status) {
    if (isnan(value)) return SG_OK;
    sg_code code = sg_field_check_real(name, value, status);
    return code == SG_OK ? sg_h5tree_set_f64(group, name, value, status) : code;
}

sg_code sg_field_get_real(const sg_h5tree *group, const char *name, double *value, sg_status *status) {
    const sg_h5tree_value *found = sg_h5tree_value_of(group, name, SG_H5TREE_F64);
    *value = found ? found->f64 : NAN;
    return sg_field_check_real(name, *value, status);
}

/* An optional number or text that says nothing. */
static bool says_nothing(const sg_field *field, const char *at) {
    if (!field->optional) return false;
    if (field->kind == SG_FIELD_TEXT) return at[0] == '\0';
    for (size_t i = 0; i < field->bytes; i++)
        if (at[i]) return false;
    return true;
}

static sg_code put_field(sg_h5tree *group, const sg_field *field, const char *at, bool exact, sg_status *status) {
    int64_t i64 = 0;
    uint64_t u64 = 0;
    double f64 = 0;
    bool flag = false;
    sg_code code = SG_OK;
    if (says_nothing(field, at)) return SG_OK;
    switch (field->kind) {
    case SG_FIELD_TEXT:
        return exact ? set_setting(group, field->name, at, field->bytes, status)
                     : set_description(group, field->name, at, field->bytes, status);
    case SG_FIELD_I64:
        memcpy(&i64, at, sizeof i64);
        code = check_i64(field->name, i64, status);
        return code != SG_OK ? code : sg_h5tree_set_i64(group, field->name, i64, status);
    case SG_FIELD_U64: memcpy(&u64, at, sizeof u64); return sg_h5tree_set_u64(group, field->name, u64, status);
    case SG_FIELD_F64: memcpy(&f64, at, sizeof f64); return sg_field_put_real(group, field->name, f64, status);
    default: memcpy(&flag, at, sizeof flag); return sg_h5tree_set_i64(group, field->name, flag, status);
    }
}

static bool has_value(const sg_h5tree *group, const char *name) {
    for (int kind = 0; kind < SG_H5TREE_KIND_COUNT; kind++)
        if (sg_h5tree_value_of(group, name, (sg_h5tree_kind)kind)) return true;
    return false;
}

static sg_code get_field(const sg_h5tree *group, const sg_field *field, char *at, sg_status *status) {
    int64_t i64 = 0;
    uint64_t u64 = 0;
    double f64 = 0;
    sg_code code;
    if (field->optional && !has_value(group, field->name)) {
        memset(at, 0, field->bytes);
        return SG_OK;
    }
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
        code = field->optional ? sg_h5tree_get_f64(group, field->name, &f64, status)
                               : sg_field_get_real(group, field->name, &f64, status);
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

sg_code sg_fields_to_tree(sg_h5tree *group, sg_fields fields, const void *from, bool exact, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t i = 0; code == SG_OK && i < fields.n; i++)
        code = put_field(group, &fields.field[i], (const char *)from + fields.field[i].offset, exact, status);
    return code;
}

sg_code sg_fields_from_tree(const sg_h5tree *group, sg_fields fields, void *to, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t i = 0; code == SG_OK && i < fields.n; i++)
        code = get_field(group, &fields.field[i], (char *)to + fields.field[i].offset, status);
    return code;
}
