/* embedding.cu: EMBEDDING gathers rows of a table, EMBEDDING_BWD adds rows into a zeroed one.
 *
 * An index outside the table cannot be told to the host without waiting for the GPU: the row that it should have given is
 * filled with ones (NaN, -1), and its gradient goes nowhere. */
#include "kernels/cuda/any.cuh"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/layout.cuh"

enum { THREADS = 256 };

struct indices {
    const void *at;
    int dtype;
    int64_t rows; /* of the table */

    /* -1: outside the table. */
    __device__ __forceinline__ int64_t row(int64_t offset) const {
        int64_t r =
            dtype == SG_I64 ? static_cast<const int64_t *>(at)[offset] : static_cast<const int32_t *>(at)[offset];
        return r >= 0 && r < rows ? r : -1;
    }
};

/* ---- gather ---------------------------------------------------------------------------------------------------------------- */

struct alignas(16) bytes_16 {
    uint64_t at[2];
};
template <typename U> __device__ __forceinline__ U all_ones() {
    return (U) ~(U)0;
}
template <> __device__ __forceinline__ bytes_16 all_ones<bytes_16>() {
    return bytes_16{{~(uint64_t)0, ~(uint64_t)0}};
}

/* Where a row's units of size U lie, in units. */
struct rows_of {
    int64_t columns, table_row, table_step, y_step;
};

/* `where`: offsets in the index and in y (units) of each position. Thread x along the row, y over positions. */
template <typename U>
static __global__ void gather(const U *table, U *y, indices index, sg_layout<2> where, rows_of r) {
    int64_t step = (int64_t)gridDim.x * blockDim.y;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; i < where.count; i += step) {
        sg_offsets<2> o = where.offsets(i);
        int64_t row = index.row(o.at[0]);
        const U *from = table + (row < 0 ? 0 : row) * r.table_row;
        U *to = y + o.at[1];
        for (int64_t c = (int64_t)blockIdx.y * blockDim.x + threadIdx.x; c < r.columns;
             c += (int64_t)gridDim.y * blockDim.x)
            to[c * r.y_step] = row < 0 ? all_ones<U>() : from[c * r.table_step];
    }
}

/* The shape of a block for rows of `columns` units: as wide as a row, at most THREADS. */
static dim3 block_for(int64_t columns) {
    unsigned wide = 1;
    while (wide < THREADS && wide < columns) wide *= 2;
    return dim3(wide, THREADS / wide);
}

template <typename U> static sg_code launch_gather(const sg_call *call, sg_layout<2> where, rows_of r, indices index) {
    const U *table = static_cast<const U *>(sg_in_at(call, 0));
    U *y = static_cast<U *>(sg_out_at(call, 0));
    dim3 block = block_for(r.columns);
    int64_t across = (r.columns + block.x - 1) / block.x;
    dim3 grid(sg_cuda_blocks(call->device, where.count, (int)block.y), (unsigned)(across < 64 ? across : 64));
    return sg_cuda_launched(call, SG_LAUNCH(gather<U>, grid, block, call->stream, table, y, index, where, r));
}

/* The index's positions, and with them y's or dy's rows. */
static sg_layout<2> positions(const sg_desc *index, const sg_desc *y) {
    sg_desc rows = *y;
    rows.ndim = index->ndim;
    rows.size[index->ndim] = rows.stride[index->ndim] = 0;
    const sg_desc *descs[2] = {index, &rows};
    return sg_layout_of<2>(descs);
}

static void in_units(sg_layout<2> *where, rows_of *r, int64_t per_unit) {
    for (int d = 0; d < where->ndim; d++) where->stride[d][1] /= per_unit;
    r->columns /= per_unit;
    r->table_row /= per_unit;
}

static bool divides(const sg_layout<2> *where, const rows_of *r, int64_t per_unit) {
    for (int d = 0; d < where->ndim; d++)
        if (where->stride[d][1] % per_unit != 0) return false;
    return r->table_step == 1 && r->y_step == 1 && r->columns % per_unit == 0 && r->table_row % per_unit == 0;
}

static sg_code run_gather(const sg_call *call) {
    const sg_desc *table = sg_in(call->plan, 0), *idx = sg_in(call->plan, 1), *y = sg_out(call->plan, 0);
    int64_t bytes = (int64_t)sg_dtype_bytes((sg_dtype)table->dtype);
    sg_layout<2> where = positions(idx, y);
    rows_of r = {table->size[1], table->stride[0], table->stride[1], y->stride[y->ndim - 1]};
    indices index = {sg_in_at(call, 1), idx->dtype, table->size[0]};
    if (divides(&where, &r, 16 / bytes) && sg_is_aligned(sg_in_at(call, 0)) && sg_is_aligned(sg_out_at(call, 0))) {
        in_units(&where, &r, 16 / bytes);
        return launch_gather<bytes_16>(call, where, r, index);
    }
    switch (bytes) {
    case 1: return launch_gather<uint8_t>(call, where, r, index);
    case 2: return launch_gather<uint16_t>(call, where, r, index);
    case 4: return launch_gather<uint32_t>(call, where, r, index);
    default: return launch_gather<uint64_t>(call, where, r, index);
    }
}

extern "C" sg_code sg_cuda_embedding(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device, (void)status;
    plan->run = run_gather;
    return SG_OK;
}

/* ---- scatter ---------------------------------------------------------------------------------------------------------------- */

struct gradient {
    const void *dy;
    void *table;
    int dy_dtype, table_dtype;
    int64_t columns, dy_step, table_row, table_step;
};

static __global__ void zero(gradient g, int64_t rows) {
    int64_t count = rows * g.columns, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        sg_any_store(g.table, g.table_dtype, i / g.columns * g.table_row + i % g.columns * g.table_step, 0.0f);
}

/* Block x: a position of the index. The first position of each row adds the gradients of all positions of that row in their
 * order, in fp32, so that no two blocks write one element and the sum is the same every time; the others have nothing to
 * do. Block y: columns. */
static __global__ void __launch_bounds__(THREADS) scatter(gradient g, indices index, sg_layout<2> where) {
    SG_SHARED(int64_t, found, THREADS);
    SG_SHARED(int, earlier, 1);
    int64_t column = (int64_t)blockIdx.y * THREADS + threadIdx.x, me = blockIdx.x;
    int64_t row = index.row(where.offsets(me).at[0]);
    if (threadIdx.x == 0) *earlier = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < me && row >= 0; i += THREADS)
        if (index.row(where.offsets(i).at[0]) == row) *earlier = 1;
    __syncthreads();
    if (*earlier || row < 0) return;
    float sum = 0;
    for (int64_t first = me; first < where.count; first += THREADS) {
        int64_t i = first + threadIdx.x, offset = -1;
        if (i < where.count) {
            sg_offsets<2> o = where.offsets(i);
            if (index.row(o.at[0]) == row) offset = o.at[1];
        }
        found[threadIdx.x] = offset;
        __syncthreads();
        for (int k = 0; k < THREADS && column < g.columns; k++)
            if (found[k] >= 0) sum += sg_any_load(g.dy, g.dy_dtype, found[k] + column * g.dy_step);
        __syncthreads();
    }
    if (column < g.columns) sg_any_store(g.table, g.table_dtype, row * g.table_row + column * g.table_step, sum);
}

static sg_code run_scatter(const sg_call *call) {
    const sg_desc *dy = sg_in(call->plan, 0), *idx = sg_in(call->plan, 1), *table = sg_out(call->plan, 0);
    gradient g = {sg_in_at(call, 0), sg_out_at(call, 0),       dy->dtype,        table->dtype,
                  table->size[1],    dy->stride[dy->ndim - 1], table->stride[0], table->stride[1]};
    sg_layout<2> where = positions(idx, dy);
    indices index = {sg_in_at(call, 1), idx->dtype, table->size[0]};
    int64_t elements = sg_desc_count(table);
    cudaError_t error = sg_desc_is_dense(table)
                            ? cudaMemsetAsync(g.table, 0, (size_t)sg_desc_span_bytes(table), call->stream)
                            : SG_LAUNCH(zero, dim3(sg_cuda_blocks(call->device, elements, THREADS)), dim3(THREADS),
                                        call->stream, g, table->size[0]);
    if (error != cudaSuccess) return sg_cuda_launched(call, error);
    dim3 grid((unsigned)where.count, (unsigned)((g.columns + THREADS - 1) / THREADS));
    return sg_cuda_launched(call, SG_LAUNCH_TOGETHER(scatter, grid, dim3(THREADS), call->stream, g, index, where));
}

extern "C" sg_code sg_cuda_embedding_bwd(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    const sg_desc *dy = sg_in(plan, 0), *table = sg_out(plan, 0);
    if (dy->dtype == SG_F64 || table->dtype == SG_F64)
        return sg_cuda_refuse(&plan->op, "an embedding's backward is computed in fp32, not fp64", status);
    if (sg_desc_count(sg_in(plan, 1)) > INT32_MAX || table->size[1] > (int64_t)65535 * THREADS)
        return sg_cuda_refuse(&plan->op, "more indices or columns than a grid holds", status);
    plan->run = run_scatter;
    return SG_OK;
}
