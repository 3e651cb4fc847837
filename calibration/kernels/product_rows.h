/* product_rows.h: measured matrix products from a kernel table (CSV).
 *
 * Columns device, op ("linear" or "bmm"), batch, m, n, k, latency_ms and, where known, kernel: the library's name of the
 * kernel. A row is a[batch, m, n] b[batch, n, k]: in the file n is the contraction and k the width of the output; here, as in
 * product.h, k is the contraction and n the width. Products are fp32 without tf32. */
#ifndef SG_CALIBRATION_PRODUCT_ROWS_H
#define SG_CALIBRATION_PRODUCT_ROWS_H

#include "calibration/kernels/neighbours.h"
#include "formats/csv_table.h"
#include "kernels/virtual/product.h"

typedef struct sg_product_row {
    sg_product product;
    double seconds;
    size_t line;           /* of the file, from 2 */
    int16_t rows, columns; /* tile of the kernel; 0: its name does not tell */
    const char *device;    /* as the file has it; owned by the table */
} sg_product_row;

/* Whether a table has the columns of such rows. */
bool sg_product_rows_are(const sg_csv_table *table);
/* Row of a table (from 0): true when it is a sound product; else `why` says what is wrong. */
bool sg_product_row_read(const sg_csv_table *table, size_t row, sg_product_row *out, char *why, size_t bytes);
/* Tile in a cuBLAS kernel's name: "ampere_sgemm_128x64_tn" is 128 columns by 64 rows (column-major order), "tilesize128x64x8"
 * 128 rows by 64 columns. False: the name does not tell. */
bool sg_tile_of_kernel(const char *kernel, int16_t *rows, int16_t *columns);
/* Tiles that at least 0.4 % of the rows of a kind use, the commonest first; where names tell nothing, *tiles is left as it is. */
void sg_product_rows_tiles(const sg_product_row *const *rows, size_t n, sg_tile_kind kind, sg_tiles *tiles);
/* Adds a tile that is not there yet, while there is room. */
void sg_tiles_add(sg_tiles *tiles, int16_t rows, int16_t columns);
/* The product as a shape among others, log_ratio 0. */
sg_neighbour sg_product_point(const sg_product *product);
/* "linear 4096x1024x1024": kind, batch where there is one, m x k x n. */
void sg_product_row_name(const sg_product_row *row, char *name, size_t bytes);

#endif
