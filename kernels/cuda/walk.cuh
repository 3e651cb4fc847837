/* walk.cuh: the elements of several tensors of one shape in the order in which the output lies in memory.
 *
 * sg_space is the shape as the host sees it: dims sorted by the output's strides, dims of size 1 dropped, dims that lie
 * behind one another in every tensor merged. sg_walk is what a kernel gets: at most 2^31 elements, positions split without
 * integer division. */
#ifndef SG_KERNELS_CUDA_WALK_CUH
#define SG_KERNELS_CUDA_WALK_CUH

#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/platform.h"
#include "kernels/op.h"

/* Division of numbers below 2^31 by one number (Granlund and Montgomery 1994): multiply, add, shift. */
struct sg_divisor {
    uint32_t by, multiplier, shift;

    __device__ __host__ __forceinline__ uint32_t quotient(uint32_t i) const {
#if defined(__CUDA_ARCH__)
        return (__umulhi(i, multiplier) + i) >> shift;
#else
        return ((uint32_t)((uint64_t)i * multiplier >> 32) + i) >> shift;
#endif
    }
};

/* 1 <= by < 2^31. */
static inline sg_divisor sg_divisor_of(int64_t by) {
    uint32_t shift = 0;
    while (((int64_t)1 << shift) < by) shift++;
    uint64_t rest = ((uint64_t)1 << shift) - (uint64_t)by;
    return sg_divisor{(uint32_t)by, (uint32_t)((rest << 32) / (uint64_t)by + 1), shift};
}

/* N tensors, the output first; innermost dim first; strides in elements. */
template <int N> struct sg_space {
    int ndim;
    int64_t count;
    int64_t size[SG_MAX_DIMS];
    int64_t stride[SG_MAX_DIMS][N];

    /* Every tensor is one run of elements in the same order. */
    bool is_flat() const {
        if (ndim > 1) return false;
        for (int k = 0; k < N && ndim == 1; k++)
            if (stride[0][k] != 1) return false;
        return true;
    }
};

template <int N> struct sg_walk {
    int ndim;
    uint32_t count;
    sg_divisor size[SG_MAX_DIMS];
    int64_t stride[SG_MAX_DIMS][N];

    __device__ __host__ __forceinline__ sg_offsets<N> offsets(uint32_t i) const {
        sg_offsets<N> o;
        for (int k = 0; k < N; k++) o.at[k] = 0;
        for (int d = 0; d < ndim; d++) {
            uint32_t r = i;
            if (d + 1 < ndim) {
                i = size[d].quotient(i);
                r -= i * size[d].by;
            }
            for (int k = 0; k < N; k++) o.at[k] += (int64_t)r * stride[d][k];
        }
        return o;
    }
};

/* All descs have the shape of the first (broadcast: stride 0). */
template <int N> static sg_space<N> sg_space_of(const sg_desc *const *desc) {
    int order[SG_MAX_DIMS] = {0}, n = 0;
    for (int d = desc[0]->ndim - 1; d >= 0; d--) {
        if (desc[0]->size[d] == 1) continue;
        int at = n++;
        for (; at > 0 && desc[0]->stride[order[at - 1]] > desc[0]->stride[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    sg_space<N> s = {};
    s.count = sg_desc_count(desc[0]);
    for (int i = 0; i < n; i++) {
        int d = order[i], last = s.ndim - 1;
        bool joins = s.ndim > 0;
        for (int k = 0; k < N && joins; k++) joins = desc[k]->stride[d] == s.stride[last][k] * s.size[last];
        if (joins) {
            s.size[last] *= desc[0]->size[d];
            continue;
        }
        s.size[s.ndim] = desc[0]->size[d];
        for (int k = 0; k < N; k++) s.stride[s.ndim][k] = desc[k]->stride[d];
        s.ndim++;
    }
    return s;
}

/* A space of at most 2^31 - 1 elements, in runs of `width` along the innermost dim, whose size is a multiple of it (a dim
 * that is the only one may have a rest). */
template <int N> static sg_walk<N> sg_walk_of(const sg_space<N> &space, int width) {
    sg_walk<N> w = {};
    w.ndim = space.ndim;
    w.count = (uint32_t)(space.count / width);
    for (int d = 0; d < space.ndim; d++) {
        int64_t size = d == 0 ? space.size[0] / width : space.size[d];
        w.size[d] = sg_divisor_of(size > 0 ? size : 1);
        for (int k = 0; k < N; k++) w.stride[d][k] = space.stride[d][k] * (d == 0 ? width : 1);
    }
    return w;
}

/* Calls launch(space, at) for parts of at most 2^30 elements that make the whole: positions then fit in 31 bits with room.
 * bytes: of an element, by tensor. */
template <int N, typename Launch>
static cudaError_t sg_in_parts(const sg_space<N> &space, char *const *at, const size_t *bytes, const Launch &launch) {
    const int64_t MOST = (int64_t)1 << 30, ALIGNED = 64;
    if (space.count <= MOST) return launch(space, at);
    int longest = 0;
    for (int d = 1; d < space.ndim; d++)
        if (space.size[d] > space.size[longest]) longest = d;
    int64_t half = space.size[longest] / 2;
    if (half > ALIGNED) half -= half % ALIGNED;
    sg_space<N> part = space;
    char *moved[N];
    part.size[longest] = half;
    part.count = space.count / space.size[longest] * half;
    cudaError_t error = sg_in_parts<N>(part, at, bytes, launch);
    if (error != cudaSuccess) return error;
    for (int k = 0; k < N; k++) moved[k] = at[k] + half * space.stride[longest][k] * (int64_t)bytes[k];
    part.size[longest] = space.size[longest] - half;
    part.count = space.count - part.count;
    return sg_in_parts<N>(part, moved, bytes, launch);
}

#endif
