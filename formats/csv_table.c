#include "formats/csv_table.h"

#include <csv.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MAX_TEXT_BYTES = 256 << 20, MAX_COLUMNS = 4096 };

/* Fields one after another, ended by NUL; rows are known by the number of fields before them. */
typedef struct reader {
    sg_csv_table *table;
    sg_status *status;
    sg_code code;
    char *text;
    size_t used, room;
    size_t *field; /* offset of each field, missing ones included */
    size_t n_fields, field_room;
    size_t in_row, rows;
} reader;

static bool grow(reader *r, void **array, size_t *room, size_t needed, size_t size) {
    if (needed <= *room) return true;
    size_t more = *room ? *room * 2 : 4096;
    if (more < needed) more = needed;
    void *grown = realloc(*array, more * size);
    if (!grown) {
        r->code = sg_fail_memory(r->status, more * size, "a table");
        return false;
    }
    *array = grown;
    *room = more;
    return true;
}

static void add_field(reader *r, const void *text, size_t n) {
    if (r->code || !grow(r, (void **)&r->text, &r->room, r->used + n + 1, 1) ||
        !grow(r, (void **)&r->field, &r->field_room, r->n_fields + 1, sizeof *r->field))
        return;
    r->field[r->n_fields++] = r->used;
    if (n) memcpy(r->text + r->used, text, n);
    r->text[r->used + n] = 0;
    r->used += n + 1;
    r->in_row++;
}

static void field_read(void *text, size_t n, void *user) {
    reader *r = user;
    if (r->code) return;
    size_t limit = r->rows ? r->table->n_columns : MAX_COLUMNS;
    if (r->in_row == limit) {
        r->code = sg_fail(r->status, SG_BAD_INPUT, "%s: row %zu has more than %zu fields", r->table->path, r->rows + 1,
                          limit);
        return;
    }
    add_field(r, text, text ? n : 0);
}

static void row_read(int end, void *user) {
    (void)end;
    reader *r = user;
    if (!r->rows) r->table->n_columns = r->in_row;
    while (!r->code && r->in_row < r->table->n_columns) add_field(r, "", 0);
    r->in_row = 0;
    r->rows++;
}

/* Bytes before the text that spreadsheets write: the byte order mark of UTF-8. */
static size_t mark_bytes(const char *buffer, size_t n) {
    return n >= 3 && memcmp(buffer, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

/* A file cut short reads as if it ended there; only the state of the stream tells. */
static void check_end(reader *r, gzFile file, int last_read) {
    int failed = Z_OK;
    const char *why = gzerror(file, &failed);
    if (r->code || (last_read == 0 && failed == Z_OK)) return;
    if (failed == Z_BUF_ERROR)
        r->code =
            sg_fail(r->status, SG_BAD_INPUT, "%s: the compressed file is cut short: fetch it again", r->table->path);
    else
        r->code = sg_fail(r->status, SG_BAD_INPUT, "%s: cannot be read: %s", r->table->path, why);
}

static sg_code parse_file(reader *r, struct csv_parser *parser, gzFile file) {
    static const size_t part = 1 << 16;
    char *buffer = malloc(part);
    if (!buffer) return sg_fail_memory(r->status, part, "reading a table");
    size_t total = 0;
    int n = 0;
    while (!r->code && (n = gzread(file, buffer, (unsigned)part)) > 0) {
        size_t mark = total ? 0 : mark_bytes(buffer, (size_t)n), bytes = (size_t)n - mark;
        total += (size_t)n;
        if (total > MAX_TEXT_BYTES)
            r->code = sg_fail(r->status, SG_BAD_INPUT, "%s: longer than %d MiB of text", r->table->path,
                              MAX_TEXT_BYTES >> 20);
        else if (memchr(buffer, 0, (size_t)n))
            r->code = sg_fail(r->status, SG_BAD_INPUT, "%s: no text: it holds bytes of value 0 after row %zu",
                              r->table->path, r->rows);
        else if (csv_parse(parser, buffer + mark, bytes, field_read, row_read, r) != bytes && !r->code)
            r->code = sg_fail(r->status, SG_BAD_INPUT, "%s: row %zu is no CSV: %s", r->table->path, r->rows + 1,
                              csv_strerror(csv_error(parser)));
    }
    free(buffer);
    check_end(r, file, n);
    if (!r->code && csv_fini(parser, field_read, row_read, r) != 0)
        r->code = sg_fail(r->status, SG_BAD_INPUT, "%s: ends within a quoted field", r->table->path);
    return r->code;
}

/* Offsets become pointers once the text does not move any more. */
static sg_code take_cells(reader *r) {
    sg_csv_table *t = r->table;
    if (!r->rows) return sg_fail(r->status, SG_BAD_INPUT, "%s: empty; the first row names the columns", t->path);
    t->cells = malloc((r->n_fields ? r->n_fields : 1) * sizeof *t->cells);
    if (!t->cells) return sg_fail_memory(r->status, r->n_fields * sizeof *t->cells, "a table");
    for (size_t i = 0; i < r->n_fields; i++) t->cells[i] = r->text + r->field[i];
    t->n_rows = r->rows - 1;
    return SG_OK;
}

sg_code sg_csv_table_read(const char *path, sg_csv_table *table, sg_status *status) {
    memset(table, 0, sizeof *table);
    (void)snprintf(table->path, sizeof table->path, "%s", path);
    gzFile file = gzopen(path, "rb");
    if (!file) return sg_fail(status, SG_BAD_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
    struct csv_parser parser;
    reader r = {.table = table, .status = status};
    if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI | CSV_APPEND_NULL) != 0)
        r.code = sg_fail_memory(status, sizeof parser, "reading a table");
    else {
        (void)parse_file(&r, &parser, file);
        csv_free(&parser);
    }
    (void)gzclose(file);
    table->text = r.text;
    if (!r.code) r.code = take_cells(&r);
    free(r.field);
    if (r.code) sg_csv_table_clear(table);
    return r.code;
}

void sg_csv_table_clear(sg_csv_table *table) {
    free(table->cells);
    free(table->text);
    table->cells = NULL;
    table->text = NULL;
    table->n_rows = table->n_columns = 0;
}

static size_t column_of(const sg_csv_table *t, const char *column) {
    size_t c = 0;
    while (c < t->n_columns && strcmp(t->cells[c], column) != 0) c++;
    return c;
}

bool sg_csv_table_has(const sg_csv_table *table, const char *column) {
    return column_of(table, column) < table->n_columns;
}

const char *sg_csv_table_text(const sg_csv_table *table, size_t row, const char *column) {
    size_t c = column_of(table, column);
    return c < table->n_columns && row < table->n_rows ? table->cells[(row + 1) * table->n_columns + c] : "";
}

bool sg_csv_table_number(const sg_csv_table *table, size_t row, const char *column, double *value) {
    const char *text = sg_csv_table_text(table, row, column);
    char *end = NULL;
    double v = strtod(text, &end);
    if (end == text || *end || !isfinite(v)) return false;
    *value = v;
    return true;
}

sg_code sg_csv_table_need(const sg_csv_table *table, const char *const *columns, size_t n, sg_status *status) {
    char missing[400] = "";
    size_t used = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        if (sg_csv_table_has(table, columns[i])) continue;
        count++;
        if (used < sizeof missing)
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s\"%s\"", used ? ", " : "", columns[i]);
    }
    if (!count) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "%s: the column%s %s %s missing", table->path, count > 1 ? "s" : "", missing,
                   count > 1 ? "are" : "is");
}
