/* im2col.cu: images to the columns of a matrix, and the sum back; a thread per element that is written. */
#include "kernels/cuda/conv.h"
#include "kernels/cuda/platform.h"
#include "kernels/cuda/values.cuh"

enum { THREADS = 256, DIMS = 6 };

/* The element written by a thread, by its place in memory: digits of the index, innermost first, each moving the window's
 * row, column and plane. */
struct unfolding {
    int64_t count, size[DIMS], plane[DIMS]; /* plane: x elements per digit of n and c */
    int row[DIMS], col[DIMS];
    int64_t row_stride, col_stride;
    int top, left, height, width;
};

template <typename T> static __global__ void unfold(unfolding u, const T *x, T *matrix) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < u.count; i += step) {
        int64_t rest = i, plane = 0;
        int row = -u.top, col = -u.left;
        for (int d = 0; d < DIMS; d++) {
            int64_t q = rest / u.size[d];
            int digit = (int)(rest - q * u.size[d]);
            plane += digit * u.plane[d];
            row += digit * u.row[d];
            col += digit * u.col[d];
            rest = q;
        }
        bool inside = row >= 0 && row < u.height && col >= 0 && col < u.width;
        matrix[i] = inside ? x[plane + row * u.row_stride + col * u.col_stride] : sg_from_float<T>(0.0f);
    }
}

struct folding {
    int64_t count, size[4], x_stride[4], column[DIMS]; /* size: of x in memory order, innermost first */
    int role[4];                                       /* of them: 0 n, 1 c, 2 h, 3 w */
    int kernel[2], stride[2], pad[2], out[2];
};

template <typename S, typename T> static __global__ void fold(folding f, const S *matrix, T *x) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < f.count; i += step) {
        int64_t rest = i, base = 0, to = 0;
        int h = 0, w = 0;
        for (int d = 0; d < 4; d++) {
            int64_t q = rest / f.size[d];
            int digit = (int)(rest - q * f.size[d]);
            to += digit * f.x_stride[d];
            if (f.role[d] < 2) base += digit * f.column[f.role[d]];
            h = f.role[d] == 2 ? digit : h;
            w = f.role[d] == 3 ? digit : w;
            rest = q;
        }
        S sum = 0;
        for (int r = 0; r < f.kernel[0]; r++) {
            int down = h + f.pad[0] - r;
            if (down < 0 || down % f.stride[0] != 0 || down / f.stride[0] >= f.out[0]) continue;
            for (int s = 0; s < f.kernel[1]; s++) {
                int right = w + f.pad[1] - s;
                if (right < 0 || right % f.stride[1] != 0 || right / f.stride[1] >= f.out[1]) continue;
                sum += matrix[base + r * f.column[2] + s * f.column[3] + down / f.stride[0] * f.column[4] +
                              right / f.stride[1] * f.column[5]];
            }
        }
        x[to] = (T)sum;
    }
}

/* Narrow results: rounded once. */
template <typename T> struct narrow {
    T value;
    narrow &operator=(const narrow &) = default;
    __device__ __host__ explicit narrow(float v) : value(sg_from_float<T>(v)) {}
};

/* Dims of a tensor from the one that lies densest on; dims of size 1 last. */
static void order_of(const sg_desc *desc, int *order) {
    for (int i = 0; i < desc->ndim; i++) {
        int at = i;
        int64_t key = desc->size[i] == 1 ? INT64_MAX : desc->stride[i];
        for (; at > 0; at--) {
            int before = order[at - 1];
            int64_t other = desc->size[before] == 1 ? INT64_MAX : desc->stride[before];
            if (other <= key) break;
            order[at] = before;
        }
        order[at] = i;
    }
}

static unfolding unfolding_of(const sg_columns *c) {
    const int64_t plane[DIMS] = {c->x.stride[0], c->x.stride[1], 0, 0, 0, 0};
    const int row[DIMS] = {0, 0, 1, 0, c->stride[0], 0}, col[DIMS] = {0, 0, 0, 1, 0, c->stride[1]};
    unfolding u = {};
    int order[DIMS];
    order_of(&c->column, order);
    u.count = sg_desc_count(&c->column);
    for (int d = 0; d < DIMS; d++) {
        u.size[d] = c->column.size[order[d]];
        u.plane[d] = plane[order[d]];
        u.row[d] = row[order[d]];
        u.col[d] = col[order[d]];
    }
    u.row_stride = c->x.stride[2];
    u.col_stride = c->x.stride[3];
    u.top = c->pad[0];
    u.left = c->pad[1];
    u.height = (int)c->x.size[2];
    u.width = (int)c->x.size[3];
    return u;
}

template <typename T>
static cudaError_t launch_unfold(const sg_call *call, const sg_columns *c, const void *x, void *m) {
    unfolding u = unfolding_of(c);
    return SG_LAUNCH(unfold<T>, dim3(sg_cuda_blocks(call->device, u.count, THREADS)), dim3(THREADS), call->stream, u,
                     static_cast<const T *>(x), static_cast<T *>(m));
}

extern "C" sg_code sg_cuda_im2col(const sg_call *call, const sg_columns *c, const void *x, void *matrix) {
    cudaError_t error;
    switch (c->x.dtype) {
    case SG_F64: error = launch_unfold<double>(call, c, x, matrix); break;
    case SG_BF16: error = launch_unfold<__nv_bfloat16>(call, c, x, matrix); break;
    case SG_F16: error = launch_unfold<__half>(call, c, x, matrix); break;
    default: error = launch_unfold<float>(call, c, x, matrix); break;
    }
    return sg_cuda_launched(call, error);
}

static folding folding_of(const sg_columns *c) {
    folding f = {};
    int order[4] = {0, 0, 0, 0};
    order_of(&c->x, order);
    f.count = sg_desc_count(&c->x);
    for (int d = 0; d < 4; d++) {
        f.size[d] = c->x.size[order[d]];
        f.x_stride[d] = c->x.stride[order[d]];
        f.role[d] = order[d];
    }
    for (int d = 0; d < DIMS; d++) f.column[d] = c->column.stride[d];
    for (int d = 0; d < 2; d++) {
        f.kernel[d] = (int)c->column.size[2 + d];
        f.out[d] = (int)c->column.size[4 + d];
        f.stride[d] = c->stride[d];
        f.pad[d] = c->pad[d];
    }
    return f;
}

template <typename S, typename T>
static cudaError_t launch_fold(const sg_call *call, const sg_columns *c, const void *matrix, void *x) {
    folding f = folding_of(c);
    return SG_LAUNCH((fold<S, T>), dim3(sg_cuda_blocks(call->device, f.count, THREADS)), dim3(THREADS), call->stream, f,
                     static_cast<const S *>(matrix), static_cast<T *>(x));
}

extern "C" sg_code sg_cuda_col2im(const sg_call *call, const sg_columns *c, const void *matrix, void *x) {
    cudaError_t error;
    switch (c->x.dtype) {
    case SG_F64: error = launch_fold<double, double>(call, c, matrix, x); break;
    case SG_BF16: error = launch_fold<float, narrow<__nv_bfloat16>>(call, c, matrix, x); break;
    case SG_F16: error = launch_fold<float, narrow<__half>>(call, c, matrix, x); break;
    default: error = launch_fold<float, float>(call, c, matrix, x); break;
    }
    return sg_cuda_launched(call, error);
}
