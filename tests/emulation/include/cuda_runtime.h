/* cuda_runtime.h of the emulation: device code for a host compiler. A kernel is a plain function; its threads run one after
 * another, or, where they work together, as fibers that take turns at every barrier and shuffle. */
#ifndef SG_EMULATION_CUDA_RUNTIME_H
#define SG_EMULATION_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

#ifdef __cplusplus

#include <math.h>
#include <new>
#include <string.h>
#include <tuple>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __restrict__ __restrict

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct sg_emu_index {
    unsigned x, y, z;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
static inline float4 make_float4(float x, float y, float z, float w) {
    return float4{x, y, z, w};
}
static inline float2 make_float2(float x, float y) {
    return float2{x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return uint4{x, y, z, w};
}
static inline uint2 make_uint2(unsigned x, unsigned y) {
    return uint2{x, y};
}

/* Where the running thread is. */
struct sg_emu_place {
    sg_emu_index thread, block, block_dim, grid_dim;
};
extern "C" {
extern SG_EMU_API thread_local sg_emu_place sg_emu_now;
/* Memory of the running block; the same key gives the same memory to every thread of it. */
SG_EMU_API void *sg_emu_shared(const void *key, size_t bytes);
SG_EMU_API void sg_emu_sync_block(void);
SG_EMU_API void sg_emu_sync_warp(void);
/* Gives every lane of the warp `bytes` <= 16 bytes of lane `from`. */
SG_EMU_API void sg_emu_shuffle(void *value, size_t bytes, unsigned from);
SG_EMU_API unsigned sg_emu_ballot(int predicate);
/* Queues a kernel; takes `closure` over and frees it with `destroy`, also on failure. */
SG_EMU_API cudaError_t sg_emu_launch(const char *name, int together, dim3 grid, dim3 block, cudaStream_t stream,
                                     void (*run)(void *closure), void (*destroy)(void *closure), void *closure);
}

#define threadIdx (sg_emu_now.thread)
#define blockIdx  (sg_emu_now.block)
#define blockDim  (sg_emu_now.block_dim)
#define gridDim   (sg_emu_now.grid_dim)
#define warpSize  32

static inline void __syncthreads() {
    sg_emu_sync_block();
}
static inline void __syncwarp(unsigned = 0xffffffffu) {
    sg_emu_sync_warp();
}
static inline unsigned sg_emu_thread_number() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
template <typename T> static inline T __shfl_sync(unsigned, T value, int lane, int width = 32) {
    unsigned me = sg_emu_thread_number() % 32;
    sg_emu_shuffle(&value, sizeof value, me / (unsigned)width * (unsigned)width + (unsigned)lane % (unsigned)width);
    return value;
}
template <typename T> static inline T __shfl_xor_sync(unsigned, T value, int mask, int = 32) {
    sg_emu_shuffle(&value, sizeof value, (sg_emu_thread_number() % 32) ^ (unsigned)mask);
    return value;
}
template <typename T> static inline T __shfl_down_sync(unsigned, T value, unsigned delta, int width = 32) {
    unsigned me = sg_emu_thread_number() % 32, to = me + delta;
    sg_emu_shuffle(&value, sizeof value, to / (unsigned)width == me / (unsigned)width ? to : me);
    return value;
}
template <typename T> static inline T __shfl_up_sync(unsigned, T value, unsigned delta, int width = 32) {
    unsigned me = sg_emu_thread_number() % 32, place = me % (unsigned)width;
    sg_emu_shuffle(&value, sizeof value, place >= delta ? me - delta : me);
    return value;
}
static inline unsigned __ballot_sync(unsigned, int predicate) {
    return sg_emu_ballot(predicate);
}
static inline int __any_sync(unsigned, int predicate) {
    return sg_emu_ballot(predicate) != 0;
}

template <typename T> static inline T __ldg(const T *p) {
    return *p;
}
template <typename T> static inline T atomicAdd(T *p, T v) {
    T old = *p; /* one thread at a time */
    *p = (T)(old + v);
    return old;
}
template <typename T> static inline T atomicMax(T *p, T v) {
    T old = *p;
    if (v > old) *p = v;
    return old;
}
static inline float __int_as_float(int v) {
    float f;
    memcpy(&f, &v, 4);
    return f;
}
static inline int __float_as_int(float v) {
    int i;
    memcpy(&i, &v, 4);
    return i;
}
static inline unsigned __float_as_uint(float v) {
    unsigned i;
    memcpy(&i, &v, 4);
    return i;
}
static inline float __uint_as_float(unsigned v) {
    float f;
    memcpy(&f, &v, 4);
    return f;
}
static inline float rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}
static inline double rsqrt(double x) {
    return 1.0 / sqrt(x);
}
#define __expf(x) expf(x) /* glibc declares functions of these names */
#define __logf(x) logf(x)
static inline float __fdividef(float x, float y) {
    return x / y;
}
static inline void sincospif(float x, float *s, float *c) {
    *s = (float)sin(3.14159265358979323846 * (double)x);
    *c = (float)cos(3.14159265358979323846 * (double)x);
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline long long clock64() {
    return 0;
}

/* A kernel with its arguments, copied now, run later, as often as a graph replays it. */
template <typename Kernel, typename... Args> struct sg_emu_closure {
    Kernel kernel;
    std::tuple<Args...> args;
    static void run(void *closure) {
        sg_emu_closure *c = static_cast<sg_emu_closure *>(closure);
        std::apply(c->kernel, c->args);
    }
    static void destroy(void *closure) { delete static_cast<sg_emu_closure *>(closure); }
};
template <typename... Params, typename... Args>
static inline cudaError_t sg_emu_launch_kernel(const char *name, int together, dim3 grid, dim3 block,
                                               cudaStream_t stream, void (*kernel)(Params...), Args &&...args) {
    using closure = sg_emu_closure<void (*)(Params...), Params...>;
    closure *c = new (std::nothrow) closure{kernel, std::tuple<Params...>(static_cast<Params>(args)...)};
    if (!c) return cudaErrorMemoryAllocation;
    return sg_emu_launch(name, together, grid, block, stream, closure::run, closure::destroy, c);
}

#endif
#endif
