/* transpose.cuh: copies whose innermost dims differ, in tiles: a transposed matrix, NCHW to NHWC and back. Reads and writes are
 * both coalesced; the exchange happens in shared memory, whose rows are padded against bank conflicts. */
#ifndef SG_KERNELS_CUDA_TRANSPOSE_CUH
#define SG_KERNELS_CUDA_TRANSPOSE_CUH

#include "kernels/cuda/walk.cuh"

enum { SG_TILE = 32, SG_TILE_ROWS = 8 };

/* Dim a is contiguous in x, dim b in y. */
struct sg_transposition {
    uint32_t size_a, size_b;
    int64_t x_stride_b, y_stride_a;
    sg_divisor tiles_a, tiles_b; /* tile = (batch x tiles_b + tb) x tiles_a + ta */
    sg_walk<2> batch;            /* the other dims */
};

template <typename T>
static __global__ void __launch_bounds__(SG_TILE *SG_TILE_ROWS) sg_transpose(sg_transposition p, T *y, const T *x) {
    SG_SHARED(T, tile, SG_TILE * (SG_TILE + 1));
    uint32_t rest = p.tiles_a.quotient(blockIdx.x), ta = blockIdx.x - rest * p.tiles_a.by;
    uint32_t batch = p.tiles_b.quotient(rest), tb = rest - batch * p.tiles_b.by;
    sg_offsets<2> o = p.batch.offsets(batch);
    uint32_t a = ta * SG_TILE + threadIdx.x, b = tb * SG_TILE + threadIdx.y;
    SG_UNROLL
    for (uint32_t r = 0; r < SG_TILE; r += SG_TILE_ROWS)
        if (a < p.size_a && b + r < p.size_b)
            tile[(threadIdx.y + r) * (SG_TILE + 1) + threadIdx.x] = x[o.at[1] + a + (int64_t)(b + r) * p.x_stride_b];
    __syncthreads();
    a = ta * SG_TILE + threadIdx.y;
    b = tb * SG_TILE + threadIdx.x;
    SG_UNROLL
    for (uint32_t r = 0; r < SG_TILE; r += SG_TILE_ROWS)
        if (a + r < p.size_a && b < p.size_b)
            y[o.at[0] + b + (int64_t)(a + r) * p.y_stride_a] = tile[threadIdx.x * (SG_TILE + 1) + threadIdx.y + r];
}

/* Whether tiles pay: the innermost dims differ and both are long enough to fill half a tile. a: x's innermost dim. */
static inline bool sg_is_transposition(const sg_space<2> &space, int *a) {
    const int64_t LEAST = SG_TILE / 2;
    if (space.ndim < 2 || space.stride[0][0] != 1 || space.size[0] < LEAST) return false;
    for (*a = 1; *a < space.ndim; ++*a)
        if (space.stride[*a][1] == 1 && space.size[*a] >= LEAST) return true;
    return false;
}

/* At most 2^30 elements. */
template <typename T>
static cudaError_t sg_launch_transpose(const sg_space<2> &space, int a, char *const *at, cudaStream_t stream) {
    sg_space<2> batch = {};
    batch.count = 1;
    for (int d = 1; d < space.ndim; d++) {
        if (d == a) continue;
        batch.size[batch.ndim] = space.size[d];
        for (int k = 0; k < 2; k++) batch.stride[batch.ndim][k] = space.stride[d][k];
        batch.count *= space.size[d];
        batch.ndim++;
    }
    int64_t tiles_a = (space.size[a] + SG_TILE - 1) / SG_TILE, tiles_b = (space.size[0] + SG_TILE - 1) / SG_TILE;
    sg_transposition p = {(uint32_t)space.size[a], (uint32_t)space.size[0], space.stride[0][1],     space.stride[a][0],
                          sg_divisor_of(tiles_a),  sg_divisor_of(tiles_b),  sg_walk_of<2>(batch, 1)};
    return SG_LAUNCH_TOGETHER((sg_transpose<T>), dim3((unsigned)(tiles_a * tiles_b * batch.count)),
                              dim3(SG_TILE, SG_TILE_ROWS), stream, p, reinterpret_cast<T *>(at[0]),
                              reinterpret_cast<const T *>(at[1]));
}

#endif
