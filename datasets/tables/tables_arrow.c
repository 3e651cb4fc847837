#include "datasets/tables/tables_arrow.h"

#include <math.h>
#include <string.h>

enum { DEPTH_MAX = 16, CHILDREN_MAX = 100000 };

/* ---- kinds of arrays --------------------------------------------------------------------------------------------- */

typedef enum kind { KIND_NUMBER, KIND_BYTES, KIND_LIST, KIND_FIXED_LIST, KIND_STRUCT, KIND_OTHER } kind;

/* Values per row of "+w:N"; -1: no such format. */
static int64_t fixed_width(const char *format) {
    if (strncmp(format, "+w:", 3) != 0 || !format[3]) return -1;
    int64_t width = 0;
    for (const char *c = format + 3; *c; c++) {
        if (*c < '0' || *c > '9' || width > INT32_MAX / 10) return -1;
        width = 10 * width + (*c - '0');
    }
    return width <= INT32_MAX ? width : -1;
}

static kind kind_of(const sg_arrow_schema *schema) {
    const char *format = schema->format;
    if (schema->dictionary) return KIND_OTHER;
    if (format[0] && !format[1]) {
        if (strchr("bcCsSiIlLefg", format[0])) return KIND_NUMBER;
        if (strchr("uUzZ", format[0])) return KIND_BYTES;
    }
    if (strcmp(format, "+l") == 0 || strcmp(format, "+L") == 0 || strcmp(format, "+m") == 0)
        return schema->n_children == 1 ? KIND_LIST : KIND_OTHER;
    if (fixed_width(format) >= 0) return schema->n_children == 1 ? KIND_FIXED_LIST : KIND_OTHER;
    return strcmp(format, "+s") == 0 ? KIND_STRUCT : KIND_OTHER;
}

/* Offsets of 8 bytes rather than 4. */
static bool large(const sg_arrow_schema *schema) {
    const char *format = schema->format;
    return strcmp(format, "+L") == 0 || strcmp(format, "U") == 0 || strcmp(format, "Z") == 0;
}

static int64_t offset_at(const sg_arrow_schema *schema, const sg_arrow_array *array, int64_t i) {
    if (large(schema)) return ((const int64_t *)array->buffers[1])[array->offset + i];
    return ((const int32_t *)array->buffers[1])[array->offset + i];
}

static bool null_at(const sg_arrow_array *array, int64_t row) {
    const uint8_t *valid = array->n_buffers > 0 ? array->buffers[0] : NULL;
    if (!valid || array->null_count == 0) return false;
    int64_t bit = array->offset + row;
    return !(valid[bit / 8] >> (bit % 8) & 1);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static bool schema_sound(const sg_arrow_schema *schema, int depth) {
    if (!schema || !schema->format || depth > DEPTH_MAX) return false;
    if (schema->n_children < 0 || schema->n_children > CHILDREN_MAX || (schema->n_children && !schema->children))
        return false;
    for (int64_t i = 0; i < schema->n_children; i++)
        if (!schema_sound(schema->children[i], depth + 1)) return false;
    return true;
}

bool sg_arrow_schema_sound(const sg_arrow_schema *schema) {
    return schema_sound(schema, 0) && strcmp(schema->format, "+s") == 0;
}

bool sg_arrow_schema_same(const sg_arrow_schema *a, const sg_arrow_schema *b) {
    if (strcmp(a->format, b->format) != 0 || a->n_children != b->n_children || !a->dictionary != !b->dictionary)
        return false;
    for (int64_t i = 0; i < a->n_children; i++)
        if (!sg_arrow_schema_same(a->children[i], b->children[i])) return false;
    return true;
}

static bool offsets_sound(const sg_arrow_schema *schema, const sg_arrow_array *array, int64_t *last) {
    *last = 0;
    if (array->length == 0) return true;
    if (!array->buffers[1]) return false;
    int64_t before = offset_at(schema, array, 0);
    if (before < 0) return false;
    for (int64_t i = 1; i <= array->length; i++) {
        int64_t here = offset_at(schema, array, i);
        if (here < before) return false;
        before = here;
    }
    *last = before;
    return true;
}

static bool array_sound(const sg_arrow_schema *schema, const sg_arrow_array *array, int64_t rows);

static bool values_sound(const sg_arrow_schema *schema, const sg_arrow_array *array) {
    int64_t last = 0, n = 0;
    switch (kind_of(schema)) {
    case KIND_NUMBER: return array->n_buffers == 2 && (array->length == 0 || array->buffers[1]);
    case KIND_BYTES:
        return array->n_buffers == 3 && offsets_sound(schema, array, &last) && (last == 0 || array->buffers[2]);
    case KIND_LIST:
        return array->n_buffers == 2 && offsets_sound(schema, array, &last) &&
               array_sound(schema->children[0], array->children[0], last);
    case KIND_FIXED_LIST:
        return array->n_buffers == 1 &&
               !__builtin_mul_overflow(array->offset + array->length, fixed_width(schema->format), &n) &&
               array_sound(schema->children[0], array->children[0], n);
    case KIND_STRUCT:
        if (array->n_buffers != 1) return false;
        for (int64_t i = 0; i < array->n_children; i++)
            if (!array_sound(schema->children[i], array->children[i], array->offset + array->length)) return false;
        return true;
    default: return true; /* never looked into */
    }
}

/* rows: at least so many must be there. */
static bool array_sound(const sg_arrow_schema *schema, const sg_arrow_array *array, int64_t rows) {
    if (!array || array->length < rows || array->offset < 0 || array->length > INT64_MAX - 1 - array->offset)
        return false;
    if (array->n_children != schema->n_children || (array->n_children && !array->children)) return false;
    if (array->n_buffers < 0 || (array->n_buffers && !array->buffers)) return false;
    if (array->null_count > 0 && array->n_buffers > 0 && !array->buffers[0]) return false;
    return values_sound(schema, array);
}

bool sg_arrow_check(const sg_arrow_schema *schema, const sg_arrow_array *array, int64_t rows) {
    return array->release && array->length == rows && rows >= 0 && array_sound(schema, array, rows);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* IEEE 754 binary16. */
static double half_value(uint16_t bits) {
    int exponent = bits >> 10 & 31;
    double fraction = bits & 1023, sign = bits >> 15 ? -1 : 1;
    if (exponent == 31) return fraction > 0 ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

#define COPY(type)                                                                                                     \
    for (size_t i = 0; i < n; i++) values[i] = (double)((const type *)from)[first + (int64_t)i];                       \
    return

static void copy_numbers(char format, const void *from, int64_t first, double *values, size_t n) {
    switch (format) {
    case 'b':
        for (size_t i = 0; i < n; i++) {
            int64_t bit = first + (int64_t)i;
            values[i] = ((const uint8_t *)from)[bit / 8] >> (bit % 8) & 1;
        }
        return;
    case 'c': COPY(int8_t);
    case 'C': COPY(uint8_t);
    case 's': COPY(int16_t);
    case 'S': COPY(uint16_t);
    case 'i': COPY(int32_t);
    case 'I': COPY(uint32_t);
    case 'l': COPY(int64_t);
    case 'L': COPY(uint64_t);
    case 'f': COPY(float);
    case 'g': COPY(double);
    default:
        for (size_t i = 0; i < n; i++) values[i] = half_value(((const uint16_t *)from)[first + (int64_t)i]);
    }
}

static sg_code fail_null(const char *what, sg_status *status) {
    return sg_fail(status, SG_BAD_INPUT, "%.200s is null, where a value was expected", what);
}

static sg_code fail_kind(const char *what, const char *expected, const sg_arrow_schema *schema, sg_status *status) {
    return sg_fail(status, SG_BAD_INPUT, "%.200s holds values of Arrow format '%.40s', where %s were expected", what,
                   schema->format, expected);
}

sg_code sg_arrow_numbers(const sg_arrow_schema *schema, const sg_arrow_array *array, int64_t row, double *values,
                         size_t room, size_t *n, const char *what, sg_status *status) {
    static const char expected[] = "numbers, or lists of numbers,";
    int64_t first = row, count = 1;
    *n = 0;
    if (null_at(array, row)) return fail_null(what, status);
    kind own = kind_of(schema);
    if (own == KIND_LIST || own == KIND_FIXED_LIST) {
        int64_t width = own == KIND_LIST ? 0 : fixed_width(schema->format);
        first = own == KIND_LIST ? offset_at(schema, array, row) : (array->offset + row) * width;
        count = own == KIND_LIST ? offset_at(schema, array, row + 1) - first : width;
        schema = schema->children[0];
        array = array->children[0];
        own = kind_of(schema);
    }
    if (own != KIND_NUMBER) return fail_kind(what, expected, schema, status);
    for (int64_t i = 0; array->null_count != 0 && i < count; i++)
        if (null_at(array, first + i)) return fail_null(what, status);
    *n = (size_t)count;
    size_t taken = *n < room ? *n : room;
    if (taken) copy_numbers(schema->format[0], array->buffers[1], array->offset + first, values, taken);
    return SG_OK;
}

/* The child of a struct with this name, or -1: "bytes" of an encoded image, "path" of the file it was read from. */
static int64_t child_named(const sg_arrow_schema *schema, const char *name) {
    for (int64_t i = 0; i < schema->n_children; i++)
        if (schema->children[i]->name && strcmp(schema->children[i]->name, name) == 0) return i;
    return -1;
}

void sg_arrow_image_path(const sg_arrow_schema *schema, const sg_arrow_array *array, int64_t row, char *path,
                         size_t room) {
    path[0] = 0;
    if (kind_of(schema) != KIND_STRUCT || null_at(array, row)) return;
    int64_t bytes = child_named(schema, "bytes"), text = child_named(schema, "path"), at = row + array->offset;
    if (text < 0 || kind_of(schema->children[text]) != KIND_BYTES || null_at(array->children[text], at)) return;
    if (bytes >= 0 && (kind_of(schema->children[bytes]) != KIND_BYTES || !null_at(array->children[bytes], at))) return;
    const sg_arrow_array *texts = array->children[text];
    int64_t first = offset_at(schema->children[text], texts, at),
            end = offset_at(schema->children[text], texts, at + 1);
    const char *start = (const char *)texts->buffers[2] + first;
    size_t n = (size_t)(end - first);
    if (n == 0 || n >= room || memchr(start, 0, n)) return;
    memcpy(path, start, n);
    path[n] = 0;
}

sg_code sg_arrow_bytes(const sg_arrow_schema *schema, const sg_arrow_array *array, int64_t row, const uint8_t **bytes,
                       size_t *n, const char *what, sg_status *status) {
    *bytes = NULL;
    *n = 0;
    if (null_at(array, row)) return fail_null(what, status);
    int64_t at = row;
    if (kind_of(schema) == KIND_STRUCT) {
        int64_t child = child_named(schema, "bytes");
        if (child < 0) return fail_kind(what, "texts, bytes, or a struct with \"bytes\",", schema, status);
        at += array->offset;
        schema = schema->children[child];
        array = array->children[child];
        if (null_at(array, at)) return fail_null(what, status);
    }
    if (kind_of(schema) != KIND_BYTES) return fail_kind(what, "texts or bytes", schema, status);
    int64_t first = offset_at(schema, array, at), end = offset_at(schema, array, at + 1);
    *bytes = end > first ? (const uint8_t *)array->buffers[2] + first : (const uint8_t *)"";
    *n = (size_t)(end - first);
    return SG_OK;
}

void sg_arrow_release(sg_arrow_schema *schema, sg_arrow_array *array) {
    if (array && array->release) array->release(array);
    if (schema && schema->release) schema->release(schema);
}
