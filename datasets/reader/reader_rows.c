/* reader_rows.c: rows of state and action, from tables and from HDF5 files. */
#include "datasets/reader/reader_own.h"

#include <string.h>

/* Row groups that tables keep, all together: what is not used for longest goes. A trainer's memory-mapped Arrow file lies in
 * the page cache, whose size is bounded in the same way. */
#define TABLES_BYTES_MAX ((int64_t)1 << 30)

static int64_t kept_bytes(const sg_reader *reader) {
    int64_t sum = 0;
    for (size_t i = 0; i < reader->tables.n; i++) sum += sg_table_kept_bytes(reader->tables.kept[i].value);
    return sum;
}

sg_code sg_reader_table(sg_reader *reader, const char *path, sg_table **table, sg_status *status) {
    *table = sg_keep_get(&reader->tables, path);
    if (*table) return SG_OK;
    while (kept_bytes(reader) > TABLES_BYTES_MAX)
        if (!sg_keep_drop_oldest(&reader->tables)) break;
    sg_code code = sg_table_open(path, table, status);
    if (code != SG_OK) return code;
    reader->opened++;
    return sg_keep_put(&reader->tables, path, *table, status);
}

sg_code sg_reader_file(sg_reader *reader, const char *path, sg_hdf5_rows **file, sg_status *status) {
    *file = sg_keep_get(&reader->files, path);
    if (*file) return SG_OK;
    sg_code code = sg_hdf5_rows_open(path, file, status);
    if (code != SG_OK) return code;
    reader->opened++;
    return sg_keep_put(&reader->files, path, *file, status);
}

/* ---- one source ---------------------------------------------------------------------------------------------------- */

/* `rows` rows of `dim` numbers from one table. */
static sg_code table_rows(sg_reader *reader, const sg_row_place *place, const char *name, int64_t rows, size_t dim,
                          float *values, sg_status *status) {
    sg_table *table = NULL;
    sg_code code = sg_reader_table(reader, place->path, &table, status);
    if (code != SG_OK) return code;
    int column = sg_table_column(table, name);
    if (column < 0) return sg_fail(status, SG_BAD_INPUT, "it has no column '%.200s'", name);
    for (int64_t i = 0; i < rows; i++) {
        size_t n = 0;
        code = sg_table_numbers(table, column, place->row + i, reader->numbers, dim, &n, status);
        if (code != SG_OK) return code;
        if (n != dim)
            return sg_fail(status, SG_BAD_INPUT, "row %lld of '%.200s' has %zu numbers, the data set says %zu",
                           (long long)place->row + i, name, n, dim);
        for (size_t j = 0; j < dim; j++) values[(size_t)i * dim + j] = (float)reader->numbers[j];
    }
    return SG_OK;
}

/* The same from an HDF5 file, whose data sets (names: joined by '\n') lie side by side in a row. */
static sg_code file_rows(sg_reader *reader, const sg_row_place *place, const char *names, int64_t rows, size_t dim,
                         float *values, sg_status *status) {
    sg_hdf5_rows *file = NULL;
    size_t filled = 0;
    sg_code code = sg_reader_file(reader, place->path, &file, status);
    for (const char *at = names; code == SG_OK && *at;) {
        char name[1024];
        size_t length = strcspn(at, "\n"), n = 0;
        if (length >= sizeof name) length = sizeof name - 1;
        memcpy(name, at, length);
        name[length] = '\0';
        at += length;
        at += *at == '\n';
        code = sg_hdf5_rows_numbers(file, name, place->row, rows, values + filled, dim, dim - filled, &n, status);
        filled += n;
    }
    if (code != SG_OK || filled == dim) return code;
    return sg_fail(status, SG_BAD_INPUT, "its rows have %zu numbers, the data set says %zu", filled, dim);
}

/* ---- rows of an episode -------------------------------------------------------------------------------------------- */

typedef struct wanted {
    bool action; /* else state */
    size_t dim;
    int64_t episode;
} wanted;

/* Rows of frames first .. first + rows - 1 of the episode. They lie one behind the other wherever its first and last do. */
static sg_code read_run(sg_reader *reader, const wanted *w, int64_t first, int64_t rows, float *values,
                        sg_status *status) {
    sg_row_place place, last;
    sg_code code = sg_catalogue_row(reader->catalogue, w->episode, first, &place, status);
    if (code == SG_OK && rows > 1)
        code = sg_catalogue_row(reader->catalogue, w->episode, first + rows - 1, &last, status);
    if (code != SG_OK) return code;
    if (rows > 1 && (strcmp(place.path, last.path) != 0 || last.row - place.row != rows - 1)) {
        int64_t half = rows / 2;
        code = read_run(reader, w, first, half, values, status);
        if (code != SG_OK) return code;
        return read_run(reader, w, first + half, rows - half, values + (size_t)half * w->dim, status);
    }
    const char *name = w->action ? place.action : place.state;
    if (place.hdf5)
        code = file_rows(reader, &place, name, rows, w->dim, values, status);
    else
        code = table_rows(reader, &place, name, rows, w->dim, values, status);
    return code == SG_OK
               ? SG_OK
               : sg_fail_in(status, "%s of frame %lld of episode %lld (%.400s)", w->action ? "action" : "state",
                            (long long)first, (long long)w->episode, place.path);
}

sg_code sg_reader_rows(sg_reader *reader, int64_t episode, int64_t frame, sg_status *status) {
    const sg_catalogue *catalogue = reader->catalogue;
    int64_t length = catalogue->first_frame[episode + 1] - catalogue->first_frame[episode];
    size_t state_dim = (size_t)catalogue->info.state_dim, action_dim = (size_t)catalogue->info.action_dim;
    sg_code code = SG_OK;
    if (!catalogue->has_tables) return SG_OK;
    if (state_dim) {
        int64_t steps = reader->options.frames_per_sample, before = frame + 1 < steps ? frame + 1 : steps;
        float *own = reader->state + (size_t)(steps - before) * state_dim;
        wanted state = {false, state_dim, episode};
        code = read_run(reader, &state, frame + 1 - before, before, own, status);
        for (int64_t i = 0; i < steps - before; i++)
            memcpy(reader->state + (size_t)i * state_dim, own, state_dim * sizeof *own);
    }
    if (action_dim && code == SG_OK) {
        int64_t rows = reader->options.action_rows, there = length - frame < rows ? length - frame : rows;
        const float *last = reader->action + (size_t)(there - 1) * action_dim;
        wanted action = {true, action_dim, episode};
        code = read_run(reader, &action, frame, there, reader->action, status);
        for (int64_t i = there; i < rows; i++)
            memcpy(reader->action + (size_t)i * action_dim, last, action_dim * sizeof *last);
    }
    return code;
}
