/* tables_arrow.h: arrays of the Arrow C data interface (its published ABI), checked before they are used.
 *
 * The interface does not say how long a buffer is: what can be checked is that lengths, offsets and children agree with each
 * other, and that is what sg_arrow_check does. For tables*.c alone. */
#ifndef SG_DATASETS_TABLES_TABLES_ARROW_H
#define SG_DATASETS_TABLES_TABLES_ARROW_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* struct ArrowSchema and struct ArrowArray: https://arrow.apache.org/docs/format/CDataInterface.html */
typedef struct sg_arrow_schema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct sg_arrow_schema **children, *dictionary;
    void (*release)(struct sg_arrow_schema *);
    void *private_data;
} sg_arrow_schema;

typedef struct sg_arrow_array {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct sg_arrow_array **children, *dictionary;
    void (*release)(struct sg_arrow_array *);
    void *private_data;
} sg_arrow_array;

enum { SG_ARROW_NULLABLE = 2 }; /* a flag of a schema */

/* Whether the schema is a struct whose nodes all have a format and the children they announce. */
bool sg_arrow_schema_sound(const sg_arrow_schema *schema);
/* Whether two sound schemas have the same formats throughout. */
bool sg_arrow_schema_same(const sg_arrow_schema *a, const sg_arrow_schema *b);
/* Whether `array` can be read as `rows` rows of a sound schema. */
bool sg_arrow_check(const sg_arrow_schema *schema, const sg_arrow_array *array, int64_t rows);

/* Of a checked array, row < its length. what: the column, for messages. */
sg_code sg_arrow_numbers(const sg_arrow_schema *schema, const sg_arrow_array *array, int64_t row, double *values,
                         size_t room, size_t *n, const char *what, sg_status *status);
sg_code sg_arrow_bytes(const sg_arrow_schema *schema, const sg_arrow_array *array, int64_t row, const uint8_t **bytes,
                       size_t *n, const char *what, sg_status *status);

/* Where a row of {bytes, path} has no bytes: its path as a text of less than `room` bytes; otherwise "". */
void sg_arrow_image_path(const sg_arrow_schema *schema, const sg_arrow_array *array, int64_t row, char *path,
                         size_t room);

void sg_arrow_release(sg_arrow_schema *schema, sg_arrow_array *array); /* either may be NULL, or released */

#endif
