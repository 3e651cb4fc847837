/* tables_write.c: columns as arrays of the Arrow C data interface, written by row groups. */
#include "datasets/tables/tables.h"

#include "datasets/tables/tables_carquet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Rows of a group: pandas' (pyarrow's) default, and Hugging Face's where there are images (datasets 3,
 * PARQUET_ROW_GROUP_SIZE_FOR_IMAGE_DATASETS). */
enum { GROUP_ROWS = 1048576, GROUP_ROWS_IMAGES = 100 };

/* ---- nodes that free themselves ------------------------------------------------------------------------------------ */

static void release_schema(sg_arrow_schema *schema) {
    for (int64_t i = 0; i < schema->n_children; i++)
        if (schema->children[i]) {
            if (schema->children[i]->release) schema->children[i]->release(schema->children[i]);
            free(schema->children[i]);
        }
    free(schema->children);
    free(schema->private_data); /* its name */
    schema->release = NULL;
}

static void release_array(sg_arrow_array *array) {
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]) {
            if (array->children[i]->release) array->children[i]->release(array->children[i]);
            free(array->children[i]);
        }
    for (int64_t i = 0; i < array->n_buffers; i++) free((void *)array->buffers[i]);
    free(array->children);
    free(array->buffers);
    array->release = NULL;
}

static bool start_schema(sg_arrow_schema *schema, const char *format, const char *name, int64_t n_children) {
    memset(schema, 0, sizeof *schema);
    schema->format = format;
    schema->flags = SG_ARROW_NULLABLE;
    schema->release = release_schema;
    schema->private_data = strdup(name);
    schema->name = schema->private_data;
    if (!schema->name) return false;
    if (n_children == 0) return true;
    schema->children = calloc((size_t)n_children, sizeof(sg_arrow_schema *));
    if (!schema->children) return false;
    schema->n_children = n_children;
    for (int64_t i = 0; i < n_children; i++)
        if (!(schema->children[i] = calloc(1, sizeof(sg_arrow_schema)))) return false;
    return true;
}

static bool start_array(sg_arrow_array *array, int64_t length, int64_t n_buffers, int64_t n_children) {
    memset(array, 0, sizeof *array);
    array->length = length;
    array->release = release_array;
    array->buffers = calloc((size_t)n_buffers, sizeof(void *));
    if (!array->buffers) return false;
    array->n_buffers = n_buffers;
    if (n_children == 0) return true;
    array->children = calloc((size_t)n_children, sizeof(sg_arrow_array *));
    if (!array->children) return false;
    array->n_children = n_children;
    for (int64_t i = 0; i < n_children; i++)
        if (!(array->children[i] = calloc(1, sizeof(sg_arrow_array)))) return false;
    return true;
}

/* ---- columns ------------------------------------------------------------------------------------------------------- */

static const char *number_format(const sg_table_column_data *column) {
    return column->kind == SG_COLUMN_FLOAT ? "f" : column->kind == SG_COLUMN_DOUBLE ? "g" : "l";
}

static bool column_schema(sg_arrow_schema *schema, const sg_table_column_data *column) {
    if (column->kind == SG_COLUMN_TEXT) return start_schema(schema, "u", column->name, 0);
    if (column->kind == SG_COLUMN_TEXT_LIST)
        return start_schema(schema, "+l", column->name, 1) && start_schema(schema->children[0], "u", "element", 0);
    if (column->kind == SG_COLUMN_IMAGE)
        return start_schema(schema, "+s", column->name, 2) && start_schema(schema->children[0], "z", "bytes", 0) &&
               start_schema(schema->children[1], "u", "path", 0);
    if (column->width == 1) return start_schema(schema, number_format(column), column->name, 0);
    return start_schema(schema, "+l", column->name, 1) &&
           start_schema(schema->children[0], number_format(column), "element", 0);
}

static bool number_values(sg_arrow_array *array, const sg_table_column_data *column, int64_t first, int64_t rows) {
    int64_t n = rows * column->width;
    const double *from = column->numbers + first * column->width;
    size_t each = column->kind == SG_COLUMN_FLOAT ? sizeof(float) : sizeof(double);
    if (!start_array(array, n, 2, 0)) return false;
    void *values = calloc((size_t)n + 1, each);
    array->buffers[1] = values;
    for (int64_t i = 0; values && i < n; i++) switch (column->kind) {
        case SG_COLUMN_FLOAT: ((float *)values)[i] = (float)from[i]; break;
        case SG_COLUMN_DOUBLE: ((double *)values)[i] = from[i]; break;
        default: ((int64_t *)values)[i] = (int64_t)from[i]; break;
        }
    return values != NULL;
}

/* Lists of `width` values each; the child is still to fill. */
static bool start_lists(sg_arrow_array *array, int64_t rows, int64_t width) {
    if (!start_array(array, rows, 2, 1)) return false;
    int32_t *offsets = calloc((size_t)rows + 1, sizeof *offsets);
    array->buffers[1] = offsets;
    for (int64_t i = 0; offsets && i <= rows; i++) offsets[i] = (int32_t)(i * width);
    return offsets != NULL;
}

/* Texts (n_bytes NULL: up to their NUL, NULL is null) or bytes. */
static bool byte_values(sg_arrow_array *array, const void *const *values, const size_t *n_bytes, int64_t rows) {
    if (!start_array(array, rows, 3, 0)) return false;
    size_t total = 0;
    for (int64_t i = 0; i < rows; i++) total += n_bytes ? n_bytes[i] : values && values[i] ? strlen(values[i]) : 0;
    int32_t *offsets = calloc((size_t)rows + 1, sizeof *offsets);
    uint8_t *valid = calloc((size_t)rows / 8 + 1, 1), *bytes = malloc(total + 1);
    array->buffers[0] = valid;
    array->buffers[1] = offsets;
    array->buffers[2] = bytes;
    if (!offsets || !valid || !bytes) return false;
    for (int64_t i = 0; i < rows; i++) {
        bool there = values && values[i];
        size_t n = !there ? 0 : n_bytes ? n_bytes[i] : strlen(values[i]);
        if (n) memcpy(bytes + offsets[i], values[i], n);
        offsets[i + 1] = offsets[i] + (int32_t)n;
        if (there) valid[i / 8] = (uint8_t)(valid[i / 8] | 1U << (i % 8));
        array->null_count += !there;
    }
    return true;
}

static bool column_array(sg_arrow_array *array, const sg_table_column_data *column, int64_t first, int64_t rows) {
    const void *const *texts = column->texts ? (const void *const *)(column->texts + first) : NULL;
    if (column->kind == SG_COLUMN_TEXT) return byte_values(array, texts, NULL, rows);
    if (column->kind == SG_COLUMN_TEXT_LIST)
        return start_lists(array, rows, 1) && byte_values(array->children[0], texts, NULL, rows);
    if (column->kind == SG_COLUMN_IMAGE)
        return start_array(array, rows, 1, 2) &&
               byte_values(array->children[0], (const void *const *)(column->bytes + first), column->n_bytes + first,
                           rows) &&
               byte_values(array->children[1], texts, NULL, rows);
    if (column->width == 1) return number_values(array, column, first, rows);
    return start_lists(array, rows, column->width) && number_values(array->children[0], column, first, rows);
}

static bool table_schema(sg_arrow_schema *schema, const sg_table_column_data *columns, size_t n_columns) {
    bool done = start_schema(schema, "+s", "", (int64_t)n_columns);
    schema->flags = 0;
    for (size_t i = 0; done && i < n_columns; i++) done = column_schema(schema->children[i], &columns[i]);
    return done;
}

static bool table_array(sg_arrow_array *array, const sg_table_column_data *columns, size_t n_columns, int64_t first,
                        int64_t rows) {
    bool done = start_array(array, rows, 1, (int64_t)n_columns);
    for (size_t i = 0; done && i < n_columns; i++) done = column_array(array->children[i], &columns[i], first, rows);
    return done;
}

/* ---- what can be written ------------------------------------------------------------------------------------------- */

/* Bytes of a column's values of one group fit offsets of 32 bits. */
static bool column_fits(const sg_table_column_data *column, int64_t first, int64_t rows) {
    if (column->kind != SG_COLUMN_TEXT && column->kind != SG_COLUMN_TEXT_LIST && column->kind != SG_COLUMN_IMAGE)
        return column->width >= 1 && rows <= INT32_MAX / column->width;
    size_t texts = 0, bytes = 0;
    for (int64_t i = first; i < first + rows; i++) {
        size_t text = column->texts && column->texts[i] ? strlen(column->texts[i]) : 0;
        size_t image = column->kind == SG_COLUMN_IMAGE ? column->n_bytes[i] : 0;
        if (text > INT32_MAX - texts || image > INT32_MAX - bytes) return false;
        texts += text;
        bytes += image;
    }
    return true;
}

static sg_code check_columns(const char *path, const sg_table_column_data *columns, size_t n_columns, int64_t first,
                             int64_t rows, sg_status *status) {
    for (size_t i = 0; i < n_columns; i++)
        if (!column_fits(&columns[i], first, rows))
            return sg_fail(
                status, SG_BAD_INPUT,
                "cannot write %.400s: rows %lld to %lld of column '%.64s' have no values, or more than 2 GiB "
                "of them",
                path, (long long)first, (long long)(first + rows - 1), columns[i].name);
    return SG_OK;
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

static sg_code fail_write(const char *path, const sg_carquet_error *error, sg_status *status) {
    return sg_fail(status, SG_MACHINE, "cannot write table %.400s: %.256s", path,
                   error->message[0] ? error->message : "the disk may be full");
}

static sg_code create(const sg_carquet *carquet, const char *path, const sg_table_column_data *columns,
                      size_t n_columns, void **writer, sg_status *status) {
    sg_carquet_writer_options options;
    sg_carquet_error error;
    sg_arrow_schema schema;
    void *imported = NULL;
    memset(&options, 0, sizeof options);
    memset(&error, 0, sizeof error);
    if (!table_schema(&schema, columns, n_columns)) {
        sg_arrow_release(&schema, NULL);
        return sg_fail_memory(status, n_columns * sizeof schema, "a table's columns");
    }
    if (carquet->import_schema(&schema, &imported, &error) != 0) return fail_write(path, &error, status);
    carquet->writer_options_init(&options);
    options.compression = SG_CARQUET_SNAPPY;
    options.compression_level = 0;
    *writer = carquet->writer_create(path, imported, &options, &error);
    carquet->schema_free(imported);
    return *writer ? SG_OK : fail_write(path, &error, status);
}

static sg_code write_group(const sg_carquet *carquet, void *writer, const char *path,
                           const sg_table_column_data *columns, size_t n_columns, int64_t first, int64_t rows,
                           sg_status *status) {
    sg_arrow_schema schema;
    sg_arrow_array array;
    sg_carquet_error error;
    memset(&error, 0, sizeof error);
    memset(&array, 0, sizeof array);
    sg_code code = check_columns(path, columns, n_columns, first, rows, status);
    if (code != SG_OK) return code;
    if (!table_schema(&schema, columns, n_columns) || !table_array(&array, columns, n_columns, first, rows)) {
        sg_arrow_release(&schema, &array);
        return sg_fail_memory(status, (unsigned long long)rows * n_columns * sizeof(double), "a table's rows");
    }
    if (carquet->writer_write(writer, &array, &schema, &error) != 0 || carquet->writer_new_group(writer) != 0)
        return fail_write(path, &error, status);
    return SG_OK;
}

sg_code sg_table_write_noted(const char *path, const sg_table_column_data *columns, size_t n_columns, int64_t rows,
                             const sg_table_note *notes, size_t n_notes, sg_status *status) {
    sg_carquet carquet;
    sg_carquet_error error;
    void *writer = NULL;
    int64_t each = GROUP_ROWS;
    for (size_t i = 0; i < n_columns; i++)
        if (columns[i].kind == SG_COLUMN_IMAGE) each = GROUP_ROWS_IMAGES;
    sg_code code = sg_carquet_open(&carquet, status);
    if (code == SG_OK) code = create(&carquet, path, columns, n_columns, &writer, status);
    if (code != SG_OK) return code;
    for (int64_t first = 0; code == SG_OK && first < rows; first += each)
        code = write_group(&carquet, writer, path, columns, n_columns, first, rows - first < each ? rows - first : each,
                           status);
    memset(&error, 0, sizeof error);
    for (size_t i = 0; code == SG_OK && i < n_notes; i++)
        if (carquet.writer_add_metadata(writer, notes[i].key, notes[i].value) != 0)
            code = fail_write(path, &error, status);
    if (code != SG_OK)
        carquet.writer_abort(writer);
    else if (carquet.writer_close(writer) != 0)
        code = fail_write(path, &error, status);
    if (code != SG_OK) (void)unlink(path);
    return code;
}

sg_code sg_table_write(const char *path, const sg_table_column_data *columns, size_t n_columns, int64_t rows,
                       sg_status *status) {
    return sg_table_write_noted(path, columns, n_columns, rows, NULL, 0, status);
}
