#include "calibration/kernels/product_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const columns[] = {"device", "op", "batch", "m", "n", "k", "latency_ms"};

bool sg_product_rows_are(const sg_csv_table *table) {
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (!sg_csv_table_has(table, columns[i])) return false;
    return true;
}

/* ---- kernels' names ------------------------------------------------------------------------------------------------ */

static bool two_numbers(const char *text, long *first, long *second) {
    char *end = NULL;
    *first = strtol(text, &end, 10);
    if (end == text || *end != 'x') return false;
    const char *after = end + 1;
    *second = strtol(after, &end, 10);
    return end != after && *first >= 8 && *first <= 512 && *second >= 8 && *second <= 512;
}

bool sg_tile_of_kernel(const char *kernel, int16_t *rows, int16_t *columns_of) {
    static const char row_major[] = "tilesize", column_major[] = "sgemm_";
    long first = 0, second = 0;
    const char *at = strstr(kernel, row_major);
    if (at && two_numbers(at + sizeof row_major - 1, &first, &second)) {
        *rows = (int16_t)first;
        *columns_of = (int16_t)second;
        return true;
    }
    at = strstr(kernel, column_major);
    if (!at || !two_numbers(at + sizeof column_major - 1, &first, &second)) return false;
    *rows = (int16_t)second;
    *columns_of = (int16_t)first;
    return true;
}

typedef struct tile_count {
    int16_t rows, columns;
    size_t n;
} tile_count;

static int by_count(const void *a, const void *b) {
    const tile_count *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n ? 1 : -1) : x->rows != y->rows ? y->rows - x->rows : y->columns - x->columns;
}

void sg_product_rows_tiles(const sg_product_row *const *rows, size_t n, sg_tile_kind kind, sg_tiles *tiles) {
    enum { KINDS = 64 };
    static const double least_share = 0.004;
    tile_count found[KINDS];
    size_t n_found = 0, total = 0;
    for (size_t i = 0; i < n; i++) {
        if (rows[i]->product.kind != kind) continue;
        total++;
        if (!rows[i]->rows) continue;
        size_t j = 0;
        while (j < n_found && (found[j].rows != rows[i]->rows || found[j].columns != rows[i]->columns)) j++;
        if (j == KINDS) continue;
        if (j == n_found) found[n_found++] = (tile_count){rows[i]->rows, rows[i]->columns, 0};
        found[j].n++;
    }
    qsort(found, n_found, sizeof *found, by_count);
    sg_tiles used = {0};
    for (size_t j = 0; j < n_found && used.n < SG_MACHINE_TILES; j++) {
        if ((double)found[j].n < least_share * (double)total) break;
        used.tile[used.n].rows = found[j].rows;
        used.tile[used.n++].columns = found[j].columns;
    }
    if (used.n) *tiles = used;
}

void sg_tiles_add(sg_tiles *tiles, int16_t rows, int16_t columns_of) {
    for (int i = 0; i < tiles->n; i++)
        if (tiles->tile[i].rows == rows && tiles->tile[i].columns == columns_of) return;
    if (tiles->n >= SG_MACHINE_TILES) return;
    tiles->tile[tiles->n].rows = rows;
    tiles->tile[tiles->n++].columns = columns_of;
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

static bool whole(double v) {
    return v >= 1 && v <= 0x1p31 && v == floor(v);
}

bool sg_product_row_read(const sg_csv_table *table, size_t row, sg_product_row *out, char *why, size_t bytes) {
    *out = (sg_product_row){.line = row + 2, .device = sg_csv_table_text(table, row, "device")};
    const char *op = sg_csv_table_text(table, row, "op");
    bool linear = strcmp(op, "linear") == 0;
    if (!linear && strcmp(op, "bmm") != 0) {
        (void)snprintf(why, bytes, "op \"%.32s\" is neither linear nor bmm", op);
        return false;
    }
    static const char *const sizes[] = {"batch", "m", "n", "k"};
    double size[4], ms = 0;
    for (int i = 0; i < 4; i++)
        if (!sg_csv_table_number(table, row, sizes[i], &size[i]) || !whole(size[i])) {
            (void)snprintf(why, bytes, "%s \"%.32s\" is no size", sizes[i], sg_csv_table_text(table, row, sizes[i]));
            return false;
        }
    if (!sg_csv_table_number(table, row, "latency_ms", &ms) || !(ms > 0 && ms < 1e9)) {
        (void)snprintf(why, bytes, "latency_ms \"%.32s\" is no time", sg_csv_table_text(table, row, "latency_ms"));
        return false;
    }
    sg_tile_kind kind = linear ? SG_TILES_LINEAR : SG_TILES_BATCHED;
    out->product = sg_product_f32(kind, size[0], size[1], size[3], size[2]);
    out->seconds = ms * 1e-3;
    (void)sg_tile_of_kernel(sg_csv_table_text(table, row, "kernel"), &out->rows, &out->columns);
    return true;
}

sg_neighbour sg_product_point(const sg_product *p) {
    return (sg_neighbour){
        .kind = (int)p->kind,
        .n = 4,
        .log_size = {(float)log(p->batch), (float)log(p->m), (float)log(p->n), (float)log(p->k)},
    };
}

void sg_product_row_name(const sg_product_row *row, char *name, size_t bytes) {
    const sg_product *p = &row->product;
    if (p->kind == SG_TILES_LINEAR)
        (void)snprintf(name, bytes, "linear %.0fx%.0fx%.0f", p->m, p->k, p->n);
    else
        (void)snprintf(name, bytes, "bmm %.0fx%.0fx%.0fx%.0f", p->batch, p->m, p->k, p->n);
}
