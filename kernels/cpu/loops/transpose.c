/* transpose.c: matrices in tiles, so that both sides use whole cache lines. */
#include "kernels/cpu/loops/isa.h"

enum { TILE = 16 };

typedef uint8_t element_8;
typedef uint16_t element_16;
typedef uint32_t element_32;
typedef uint64_t element_64;

#define TRANSPOSE(bits)                                                                                                \
    static void transpose_##bits(element_##bits *to, const element_##bits *from, int64_t rows, int64_t columns,        \
                                 int64_t to_stride, int64_t from_stride) {                                             \
        for (int64_t i0 = 0; i0 < rows; i0 += TILE)                                                                    \
            for (int64_t j0 = 0; j0 < columns; j0 += TILE) {                                                           \
                int64_t i1 = i0 + TILE < rows ? i0 + TILE : rows, j1 = j0 + TILE < columns ? j0 + TILE : columns;      \
                for (int64_t i = i0; i < i1; i++)                                                                      \
                    SG_SIMD for (int64_t j = j0; j < j1; j++) to[i * to_stride + j] = from[j * from_stride + i];       \
            }                                                                                                          \
    }

TRANSPOSE(8)
TRANSPOSE(16)
TRANSPOSE(32)
TRANSPOSE(64)

void SG_NAME(sg_transpose)(void *to, const void *from, int64_t rows, int64_t columns, int64_t to_stride,
                           int64_t from_stride, size_t bytes) {
    switch (bytes) {
    case 1: transpose_8(to, from, rows, columns, to_stride, from_stride); break;
    case 2: transpose_16(to, from, rows, columns, to_stride, from_stride); break;
    case 4: transpose_32(to, from, rows, columns, to_stride, from_stride); break;
    default: transpose_64(to, from, rows, columns, to_stride, from_stride); break;
    }
}
