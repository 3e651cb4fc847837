#include "datasets/tables/tables.h"

#include "datasets/tables/tables_carquet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS_MAX = 10000000 };
#define GROUP_BYTES_MAX ((int64_t)1 << 50) /* none on a disk has so many */
/* A data file of LeRobot has 100 MB (its data_files_size_in_mb), those of others on the Hugging Face Hub up to 500 MB. */
#define KEPT_BYTES_MAX ((int64_t)1 << 30)

typedef struct group {
    int64_t first, rows, bytes;
    bool kept;
    uint64_t used; /* when, counted in changes of group */
    sg_arrow_array array;
} group;

typedef struct column {
    char *name;
    int64_t field, part; /* part: of a struct, else -1 */
} column;

struct sg_table {
    sg_carquet carquet;
    void *reader;
    char *path;
    sg_arrow_schema schema;
    column *columns;
    size_t n_columns;
    group *groups;
    size_t n_groups, last; /* last: the group that was asked for last */
    int64_t rows, kept_bytes, kept_bytes_max;
    uint64_t changes;
};

bool sg_tables_possible(char *why, size_t bytes) {
    sg_carquet carquet;
    sg_status status;
    if (sg_carquet_open(&carquet, &status) == SG_OK) return true;
    (void)snprintf(why, bytes, "%s", status.text);
    return false;
}

/* ---- opening ------------------------------------------------------------------------------------------------------- */

/* carquet_status_t of 0.7: what need not be damage of the file. INTERNAL is what 0.7.2 says, too, where memory runs out in the
 * middle of a row group. */
enum {
    OUT_OF_MEMORY = 2,
    NOT_IMPLEMENTED = 3,
    INTERNAL = 4,
    NOT_FOUND = 10,
    SEEK_FAILED = 14,
    UNKNOWN_ENCODING = 25,
    UNKNOWN_CODEC = 52
};

static sg_code fail_carquet(const char *path, const char *doing, const sg_carquet_error *error, sg_status *status) {
    const char *why = error->message[0] ? error->message : "no reason given";
    int code = error->code;
    if (code == OUT_OF_MEMORY || code == INTERNAL)
        return sg_fail(
            status, code == INTERNAL ? SG_BAD_INPUT : SG_MACHINE,
            "cannot %s %.400s: %.256s: memory may have run out (take fewer workers, --workers), or the file is "
            "damaged",
            doing, path, why);
    if (code >= NOT_FOUND && code <= SEEK_FAILED)
        return sg_fail(status, SG_BAD_INPUT,
                       "cannot %s %.400s: %.256s: the file or the disk that it lies on cannot be read", doing, path,
                       why);
    if (code == NOT_IMPLEMENTED || code == UNKNOWN_ENCODING || code == UNKNOWN_CODEC)
        return sg_fail(
            status, SG_BAD_INPUT,
            "cannot %s %.400s: %.256s: carquet does not know this way of writing Parquet, write the table anew "
            "(snappy or zstd)",
            doing, path, why);
    return sg_fail(status, SG_BAD_INPUT, "cannot %s %.400s: %.256s: it is no Parquet file, or it is damaged", doing,
                   path, why);
}

/* "field" or "field.part". */
static char *dotted_name(const char *field, const char *part) {
    size_t bytes = strlen(field) + (part ? strlen(part) + 1 : 0) + 1;
    char *name = malloc(bytes);
    if (name) (void)snprintf(name, bytes, "%s%s%s", field, part ? "." : "", part ? part : "");
    return name;
}

static bool add_column(sg_table *table, int64_t field, int64_t part) {
    const sg_arrow_schema *own = table->schema.children[field];
    const sg_arrow_schema *inner = part < 0 ? NULL : own->children[part];
    char *name = dotted_name(own->name ? own->name : "", inner ? (inner->name ? inner->name : "") : NULL);
    table->columns[table->n_columns] = (column){name, field, part};
    table->n_columns++;
    return name != NULL;
}

static sg_code list_columns(sg_table *table, sg_status *status) {
    size_t n = 0;
    for (int64_t i = 0; i < table->schema.n_children; i++) n += 1 + (size_t)table->schema.children[i]->n_children;
    if (n) table->columns = calloc(n, sizeof *table->columns);
    if (n && !table->columns) return sg_fail_memory(status, n * sizeof *table->columns, "a table's columns");
    for (int64_t i = 0; i < table->schema.n_children; i++) {
        const sg_arrow_schema *field = table->schema.children[i];
        bool done = add_column(table, i, -1);
        for (int64_t j = 0; done && strcmp(field->format, "+s") == 0 && j < field->n_children; j++)
            done = add_column(table, i, j);
        if (!done) return sg_fail_memory(status, 256, "a column's name");
    }
    return SG_OK;
}

static sg_code list_groups(sg_table *table, sg_status *status) {
    int32_t n = table->carquet.reader_groups(table->reader);
    if (n < 0 || n > GROUPS_MAX)
        return sg_fail(status, SG_BAD_INPUT, "%.400s claims %d row groups: it is damaged", table->path, (int)n);
    table->groups = calloc((size_t)n + 1, sizeof *table->groups);
    if (!table->groups) return sg_fail_memory(status, (size_t)n * sizeof *table->groups, "a table's row groups");
    table->n_groups = (size_t)n;
    for (int32_t i = 0; i < n; i++) {
        sg_carquet_group claimed;
        memset(&claimed, 0, sizeof claimed);
        if (table->carquet.reader_group(table->reader, i, &claimed) != 0 || claimed.rows < 0 || claimed.bytes < 0 ||
            claimed.bytes > GROUP_BYTES_MAX || claimed.rows > INT64_MAX - table->rows)
            return sg_fail(status, SG_BAD_INPUT, "row group %d of %.400s has no sound size: the file is damaged",
                           (int)i, table->path);
        table->groups[i].first = table->rows;
        table->groups[i].rows = claimed.rows;
        table->groups[i].bytes = claimed.bytes;
        table->rows += claimed.rows;
    }
    int64_t stated = table->carquet.reader_rows(table->reader);
    if (stated == table->rows) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "%.400s states %lld rows, its row groups have %lld: it is damaged",
                   table->path, (long long)stated, (long long)table->rows);
}

static sg_code open_reader(sg_table *table, sg_status *status) {
    sg_carquet_reader_options options;
    sg_carquet_error error;
    memset(&options, 0, sizeof options);
    memset(&error, 0, sizeof error);
    table->carquet.reader_options_init(&options);
    options.use_mmap = false; /* a file that shrinks is then an error and no signal */
    options.threads = 1;
    table->reader = table->carquet.reader_open(table->path, &options, &error);
    if (!table->reader) return fail_carquet(table->path, "open table", &error, status);
    memset(&error, 0, sizeof error);
    if (table->carquet.export_schema(table->carquet.reader_schema(table->reader), &table->schema, &error) != 0) {
        table->schema.release = NULL;
        return fail_carquet(table->path, "read the columns of table", &error, status);
    }
    if (!sg_arrow_schema_sound(&table->schema))
        return sg_fail(status, SG_BAD_INPUT, "the columns of %.400s are not described soundly: it is damaged",
                       table->path);
    sg_code code = list_columns(table, status);
    return code == SG_OK ? list_groups(table, status) : code;
}

sg_code sg_table_open(const char *path, sg_table **table, sg_status *status) {
    *table = NULL;
    sg_table *opened = calloc(1, sizeof *opened);
    if (opened) {
        opened->kept_bytes_max = KEPT_BYTES_MAX;
        opened->path = strdup(path);
    }
    if (!opened || !opened->path) {
        sg_table_close(opened);
        return sg_fail_memory(status, sizeof *opened, "a table");
    }
    sg_code code = sg_carquet_open(&opened->carquet, status);
    if (code == SG_OK) code = open_reader(opened, status);
    if (code != SG_OK) {
        sg_table_close(opened);
        return code;
    }
    *table = opened;
    return SG_OK;
}

void sg_table_close(sg_table *table) {
    if (!table) return;
    for (size_t i = 0; i < table->n_groups; i++)
        if (table->groups[i].kept) sg_arrow_release(NULL, &table->groups[i].array);
    for (size_t i = 0; i < table->n_columns; i++) free(table->columns[i].name);
    sg_arrow_release(&table->schema, NULL);
    if (table->reader) table->carquet.reader_close(table->reader);
    free(table->groups);
    free(table->columns);
    free(table->path);
    free(table);
}

int64_t sg_table_rows(const sg_table *table) {
    return table->rows;
}

int64_t sg_table_kept_bytes(const sg_table *table) {
    return table->kept_bytes;
}

void sg_table_keep(sg_table *table, int64_t bytes) {
    table->kept_bytes_max = bytes;
}

int sg_table_column(const sg_table *table, const char *name) {
    for (size_t i = 0; i < table->n_columns; i++)
        if (strcmp(table->columns[i].name, name) == 0) return (int)i;
    return -1;
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

static size_t group_of(const sg_table *table, int64_t row) {
    size_t low = 0, high = table->n_groups;
    const group *last = &table->groups[table->last];
    if (row >= last->first && row - last->first < last->rows) return table->last;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (table->groups[middle].first <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void drop_group(sg_table *table, group *own) {
    sg_arrow_release(NULL, &own->array);
    own->kept = false;
    table->kept_bytes -= own->bytes;
}

static void make_room(sg_table *table, int64_t bytes) {
    while (bytes > table->kept_bytes_max - table->kept_bytes) {
        group *oldest = NULL;
        for (size_t i = 0; i < table->n_groups; i++)
            if (table->groups[i].kept && (!oldest || table->groups[i].used < oldest->used)) oldest = &table->groups[i];
        if (!oldest) return;
        drop_group(table, oldest);
    }
}

static sg_code read_group(sg_table *table, size_t index, sg_status *status) {
    group *own = &table->groups[index];
    sg_arrow_schema schema;
    sg_carquet_error error;
    memset(&schema, 0, sizeof schema);
    memset(&error, 0, sizeof error);
    memset(&own->array, 0, sizeof own->array);
    make_room(table, own->bytes);
    int result = table->carquet.reader_read(table->reader, (int32_t)index, &schema, &own->array, &error);
    if (error.code == 0) error.code = result; /* it does not always tell more */
    if (result != 0) return fail_carquet(table->path, "read table", &error, status);
    bool sound = sg_arrow_schema_sound(&schema) && sg_arrow_schema_same(&schema, &table->schema) &&
                 sg_arrow_check(&table->schema, &own->array, own->rows);
    sg_arrow_release(&schema, sound ? NULL : &own->array);
    if (!sound)
        return sg_fail(status, SG_BAD_INPUT,
                       "row group %zu of %.400s holds something else than the file states: it is damaged", index,
                       table->path);
    own->kept = true;
    table->kept_bytes += own->bytes;
    return SG_OK;
}

/* The row of one column: its schema and array, and the row within it. */
static sg_code find_row(sg_table *table, int column_index, int64_t *row, const sg_arrow_schema **schema,
                        const sg_arrow_array **array, sg_status *status) {
    if (column_index < 0 || (size_t)column_index >= table->n_columns || *row < 0 || *row >= table->rows)
        return sg_fail(status, SG_BAD_INPUT, "%.400s has %lld rows and %zu columns: there is no row %lld of column %d",
                       table->path, (long long)table->rows, table->n_columns, (long long)*row, column_index);
    size_t index = group_of(table, *row);
    if (!table->groups[index].kept) {
        sg_code code = read_group(table, index, status);
        if (code != SG_OK) return code;
    }
    if (table->last != index || table->changes == 0) table->changes++;
    table->groups[index].used = table->changes;
    table->last = index;
    const column *own = &table->columns[column_index];
    *row -= table->groups[index].first;
    *row += table->groups[index].array.offset;
    *schema = table->schema.children[own->field];
    *array = table->groups[index].array.children[own->field];
    if (own->part < 0) return SG_OK;
    *row += (*array)->offset;
    *schema = (*schema)->children[own->part];
    *array = (*array)->children[own->part];
    return SG_OK;
}

sg_code sg_table_numbers(sg_table *table, int column_index, int64_t row, double *values, size_t room, size_t *n,
                         sg_status *status) {
    const sg_arrow_schema *schema = NULL;
    const sg_arrow_array *array = NULL;
    int64_t at = row;
    *n = 0;
    sg_code code = find_row(table, column_index, &at, &schema, &array, status);
    if (code != SG_OK) return code;
    return sg_arrow_numbers(schema, array, at, values, room, n, table->columns[column_index].name, status) == SG_OK
               ? SG_OK
               : sg_fail_in(status, "%.400s, row %lld", table->path, (long long)row);
}

sg_code sg_table_bytes(sg_table *table, int column_index, int64_t row, const uint8_t **bytes, size_t *n,
                       sg_status *status) {
    const sg_arrow_schema *schema = NULL;
    const sg_arrow_array *array = NULL;
    int64_t at = row;
    *bytes = NULL;
    *n = 0;
    sg_code code = find_row(table, column_index, &at, &schema, &array, status);
    if (code != SG_OK) return code;
    return sg_arrow_bytes(schema, array, at, bytes, n, table->columns[column_index].name, status) == SG_OK
               ? SG_OK
               : sg_fail_in(status, "%.400s, row %lld", table->path, (long long)row);
}

sg_code sg_table_image_path(sg_table *table, int column_index, int64_t row, char *path, size_t room,
                            sg_status *status) {
    const sg_arrow_schema *schema = NULL;
    const sg_arrow_array *array = NULL;
    path[0] = 0;
    sg_code code = find_row(table, column_index, &row, &schema, &array, status);
    if (code == SG_OK) sg_arrow_image_path(schema, array, row, path, room);
    return code;
}
