/* images.cuh: from a number to a place in a batch of images, in the order of memory, so that neighbouring threads touch
 * neighbouring elements whether images are NCHW or NHWC. */
#ifndef SG_KERNELS_CUDA_IMAGES_CUH
#define SG_KERNELS_CUDA_IMAGES_CUH

#include "kernels/cuda/platform.h"

#include <stdint.h>

struct sg_place {
    int64_t n, c, h, w;
};

template <typename U> __device__ __forceinline__ sg_place sg_place_by(const int64_t *size, bool channels_last, U i) {
    U inner = (U)(channels_last ? size[1] : size[3]), middle = (U)(channels_last ? size[3] : size[2]),
      outer = (U)(channels_last ? size[2] : size[1]);
    U q = i / inner, a = i - q * inner;
    i = q;
    q = i / middle;
    U b = i - q * middle;
    i = q;
    q = i / outer;
    U c = i - q * outer;
    sg_place at;
    at.n = (int64_t)q;
    at.c = (int64_t)(channels_last ? a : c);
    at.h = (int64_t)(channels_last ? c : b);
    at.w = (int64_t)(channels_last ? b : a);
    return at;
}

/* size: n, c, h, w of `count` elements. 32-bit division is several times as fast. */
__device__ __forceinline__ sg_place sg_place_of(const int64_t *size, int64_t count, bool channels_last, int64_t i) {
    if (count <= 0xffffffffLL) return sg_place_by<uint32_t>(size, channels_last, (uint32_t)i);
    return sg_place_by<uint64_t>(size, channels_last, (uint64_t)i);
}

__device__ __forceinline__ int64_t sg_place_offset(const int64_t *stride, sg_place at) {
    return at.n * stride[0] + at.c * stride[1] + at.h * stride[2] + at.w * stride[3];
}

#endif
