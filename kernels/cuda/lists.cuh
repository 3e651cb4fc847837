/* lists.cuh: one kernel over many tensors, split as PyTorch's multi-tensor apply splits lists (ATen/native/cuda/
 * MultiTensorApply.cuh): a block takes a chunk of 65,536 elements of one tensor of each list; a launch holds 320 blocks and as
 * many tensors as its arguments have room for, both of which sg_op_cost counts. */
#ifndef SG_KERNELS_CUDA_LISTS_CUH
#define SG_KERNELS_CUDA_LISTS_CUH

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/values.cuh"

enum { SG_LIST_CHUNK = 65536, SG_LIST_BLOCKS = 320, SG_LIST_THREADS = 512 };

/* Tensors of LISTS parallel lists in one launch. */
constexpr int sg_list_room(int lists) {
    return lists == 1 ? 110 : lists == 2 ? 64 : lists == 3 ? 48 : lists == 4 ? 36 : 30;
}

/* The lists of one launch: by value to the kernel. number: of a tensor in the op's lists. */
template <int LISTS> struct sg_list_part {
    void *at[LISTS][sg_list_room(LISTS)];
    int64_t count[sg_list_room(LISTS)];
    int32_t chunk_of_block[SG_LIST_BLOCKS];
    int32_t number[sg_list_room(LISTS)];
    uint8_t tensor_of_block[SG_LIST_BLOCKS];
};

/* A block's chunk. */
template <int LISTS> struct sg_chunk {
    int tensor; /* in the launch */
    int64_t begin;
    int n;
    __device__ __forceinline__ explicit sg_chunk(const sg_list_part<LISTS> &part) {
        tensor = part.tensor_of_block[blockIdx.x];
        begin = (int64_t)part.chunk_of_block[blockIdx.x] * SG_LIST_CHUNK;
        int64_t rest = part.count[tensor] - begin;
        n = rest < SG_LIST_CHUNK ? (int)rest : (int)SG_LIST_CHUNK;
    }
    template <typename T> __device__ __forceinline__ T *of(const sg_list_part<LISTS> &part, int list) const {
        return static_cast<T *>(part.at[list][tensor]) + begin;
    }
};

/* Tensor number i of every list: addresses, and elements (0: left out, another kernel does it). */
template <int LISTS> struct sg_list_entry {
    void *at[LISTS];
    int64_t count;
};

/* entry(i) for 0 <= i < count; launch(part, blocks) queues one kernel. */
template <int LISTS, typename Entry, typename Launch>
static cudaError_t sg_for_lists(int64_t count, const Entry &entry, const Launch &launch) {
    enum { ROOM = sg_list_room(LISTS) };
    sg_list_part<LISTS> part = {};
    int held = 0, blocks = 0;
    cudaError_t error = cudaSuccess;
    for (int64_t i = 0; i < count && error == cudaSuccess; i++) {
        sg_list_entry<LISTS> e = entry(i);
        if (e.count == 0) continue;
        for (int list = 0; list < LISTS; list++) part.at[list][held] = e.at[list];
        part.count[held] = e.count;
        part.number[held++] = (int32_t)i;
        int64_t chunks = (e.count - 1) / SG_LIST_CHUNK + 1;
        for (int64_t chunk = 0; chunk < chunks && error == cudaSuccess; chunk++) {
            part.tensor_of_block[blocks] = (uint8_t)(held - 1);
            part.chunk_of_block[blocks++] = (int32_t)chunk;
            bool last = chunk == chunks - 1;
            if (blocks < SG_LIST_BLOCKS && !(held == ROOM && last)) continue;
            error = launch(part, (unsigned)blocks);
            blocks = 0;
            if (last) {
                held = 0;
            } else { /* goes on in the next launch, in the first place */
                for (int list = 0; list < LISTS; list++) part.at[list][0] = e.at[list];
                part.count[0] = e.count;
                part.number[0] = (int32_t)i;
                held = 1;
            }
        }
    }
    return blocks > 0 && error == cudaSuccess ? launch(part, (unsigned)blocks) : error;
}

/* n tensors of one shape lie alike, without gaps: their elements are one run in the same order. */
static inline bool sg_lie_alike(const sg_desc *const *desc, int n) {
    for (int k = 1; k < n; k++)
        for (int d = 0; d < desc[0]->ndim; d++)
            if (desc[0]->size[d] > 1 && desc[k]->stride[d] != desc[0]->stride[d]) return false;
    return sg_desc_is_dense(desc[0]);
}

#endif
