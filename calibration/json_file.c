#include "calibration/json_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_MIB = 64 };

sg_code sg_json_file_read(const char *path, json_t **root, sg_status *status) {
    *root = NULL;
    struct stat info;
    if (stat(path, &info) != 0) return sg_fail(status, SG_BAD_INPUT, "cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return sg_fail(status, SG_BAD_INPUT, "cannot read %s: it is not a regular file", path);
    if (info.st_size > (off_t)MAX_MIB * 1024 * 1024)
        return sg_fail(status, SG_BAD_INPUT, "cannot read %s: over %d MiB, too large for a file of this kind", path,
                       MAX_MIB);
    FILE *file = fopen(path, "rb");
    if (!file) return sg_fail(status, SG_BAD_INPUT, "cannot read %s: %s", path, strerror(errno));
    json_error_t error;
    json_t *value = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    (void)fclose(file);
    if (!value)
        return sg_fail(status, SG_BAD_INPUT, "%s, line %d, column %d: not valid JSON: %s", path, error.line,
                       error.column, error.text);
    if (!json_is_object(value)) {
        json_decref(value);
        return sg_fail(status, SG_BAD_INPUT, "%s: a JSON object { ... } is expected at the top", path);
    }
    *root = value;
    return SG_OK;
}

static const json_t *present(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value) ? value : NULL;
}

sg_code sg_json_int(const char *path, const json_t *object, const char *key, int64_t low, int64_t high, int64_t *out,
                    sg_status *status) {
    const json_t *value = present(object, key);
    if (!value) return SG_OK;
    double real = json_is_number(value) ? json_number_value(value) : NAN;
    if (!json_is_integer(value) && !(json_is_real(value) && real == floor(real) && fabs(real) < 9e15))
        return sg_fail(status, SG_BAD_INPUT, "%s: '%s' must be a whole number", path, key);
    int64_t whole = json_is_integer(value) ? (int64_t)json_integer_value(value) : (int64_t)real;
    if (whole < low || whole > high)
        return sg_fail(status, SG_BAD_INPUT, "%s: '%s' is %lld, must be between %lld and %lld", path, key,
                       (long long)whole, (long long)low, (long long)high);
    *out = whole;
    return SG_OK;
}

sg_code sg_json_real(const char *path, const json_t *object, const char *key, double *out, sg_status *status) {
    const json_t *value = present(object, key);
    if (!value) return SG_OK;
    if (!json_is_number(value)) return sg_fail(status, SG_BAD_INPUT, "%s: '%s' must be a number", path, key);
    *out = json_number_value(value);
    return SG_OK;
}

sg_code sg_json_text(const char *path, const json_t *object, const char *key, char *out, size_t room,
                     sg_status *status) {
    const json_t *value = present(object, key);
    if (!value) return SG_OK;
    if (!json_is_string(value)) return sg_fail(status, SG_BAD_INPUT, "%s: '%s' must be text", path, key);
    if (json_string_length(value) >= room)
        return sg_fail(status, SG_BAD_INPUT, "%s: '%s' is longer than %zu bytes", path, key, room - 1);
    (void)snprintf(out, room, "%s", json_string_value(value));
    return SG_OK;
}
