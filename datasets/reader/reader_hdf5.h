/* reader_hdf5.h: rows of data sets of an open HDF5 file. For processes that may die of a file. */
#ifndef SG_DATASETS_READER_READER_HDF5_H
#define SG_DATASETS_READER_READER_HDF5_H

#include "kernels/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sg_hdf5_rows sg_hdf5_rows;

sg_code sg_hdf5_rows_open(const char *path, sg_hdf5_rows **file, sg_status *status);
void sg_hdf5_rows_close(void *file); /* an sg_hdf5_rows; NULL is allowed */

/* One row of a uint8 data set [T, ...] of `bytes` bytes per row. SG_BAD_INPUT: it is none, has no such row, or is damaged. */
sg_code sg_hdf5_rows_bytes(sg_hdf5_rows *file, const char *name, int64_t row, uint8_t *bytes, size_t n_bytes,
                           sg_status *status);
/* Bytes per row of a uint8 data set. */
sg_code sg_hdf5_rows_width(sg_hdf5_rows *file, const char *name, size_t *n_bytes, sg_status *status);
/* `rows` rows of a data set [T, n] or [T] of numbers: *n numbers per row, row i at values + i x stride. At most `room` fit. */
sg_code sg_hdf5_rows_numbers(sg_hdf5_rows *file, const char *name, int64_t row, int64_t rows, float *values,
                             size_t stride, size_t room, size_t *n, sg_status *status);

#endif
