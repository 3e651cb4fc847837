/* layout.cuh: where the elements of several tensors of one shape lie.
 *
 * Dims that lie behind one another in all tensors are merged, dims of size 1 vanish, so that most ops see one dim. */
#ifndef SG_KERNELS_CUDA_LAYOUT_CUH
#define SG_KERNELS_CUDA_LAYOUT_CUH

#include "kernels/cuda/platform.h"
#include "kernels/op.h"

template <int N> struct sg_offsets { int64_t at[N]; /* elements from each tensor's first */ };

/* N tensors; element i of the row-major order of their shape. Innermost dim first. */
template <int N> struct sg_layout {
    int ndim;
    int64_t count;
    int64_t size[SG_MAX_DIMS];
    int64_t stride[SG_MAX_DIMS][N];

    __device__ __host__ __forceinline__ sg_offsets<N> offsets(int64_t i) const {
        sg_offsets<N> o;
        for (int k = 0; k < N; k++) o.at[k] = 0;
        if (count <= 0xffffffffLL) { /* 32-bit division is several times as fast */
            uint32_t rest = (uint32_t)i;
            for (int d = 0; d < ndim; d++) {
                uint32_t n = (uint32_t)size[d], q = rest / n, r = rest - q * n;
                for (int k = 0; k < N; k++) o.at[k] += (int64_t)r * stride[d][k];
                rest = q;
            }
            return o;
        }
        for (int d = 0; d < ndim; d++) {
            int64_t q = i / size[d], r = i - q * size[d];
            for (int k = 0; k < N; k++) o.at[k] += r * stride[d][k];
            i = q;
        }
        return o;
    }
};

template <int N> static bool sg_layout_joins(const sg_layout<N> &l, const sg_desc *const *desc, int d) {
    int last = l.ndim - 1;
    for (int k = 0; k < N; k++)
        if (desc[k]->stride[d] != l.stride[last][k] * l.size[last]) return false;
    return true;
}

/* Host side. All descs have the shape of the first (broadcast: stride 0). */
template <int N> static sg_layout<N> sg_layout_of(const sg_desc *const *desc) {
    sg_layout<N> l = {};
    l.count = sg_desc_count(desc[0]);
    for (int d = desc[0]->ndim - 1; d >= 0; d--) {
        if (desc[0]->size[d] == 1) continue;
        if (l.ndim > 0 && sg_layout_joins<N>(l, desc, d)) {
            l.size[l.ndim - 1] *= desc[0]->size[d];
            continue;
        }
        l.size[l.ndim] = desc[0]->size[d];
        for (int k = 0; k < N; k++) l.stride[l.ndim][k] = desc[k]->stride[d];
        l.ndim++;
    }
    return l;
}

#endif
