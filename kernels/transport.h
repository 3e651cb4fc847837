/* transport.h: what ranks on CPUs need to talk to each other: the mpi module and kernels/tcp implement it.
 *
 * The cpu device's communicator runs its collectives on a thread of its own, so that they overlap compute; the cuda device's
 * only exchanges its NCCL id over it and asks it whether a peer was lost. */
#ifndef SG_KERNELS_TRANSPORT_H
#define SG_KERNELS_TRANSPORT_H

#include "kernels/op.h"
#include "kernels/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SG_TRANSPORT_ABI = 2 };

/* One rank's place among the others. Implementations embed it first in what they keep. */
typedef struct sg_transport sg_transport;
struct sg_transport {
    const struct sg_transport_api *api;
    int rank, ranks;
};

/* Two threads may be in a call at once: one in a reduction or gather of tensors (all_reduce_mean, all_gather,
 * reduce_scatter_mean), one in barrier, broadcast or gather_doubles. Every rank makes the calls of each of these two groups in
 * the same order. A call that fails leaves the ranks out of step: every later one fails too. */
typedef struct sg_transport_api {
    uint32_t abi, struct_bytes;
    /* Joins the world that a launcher made. `expected` ranks must be reachable within timeout_s: rank variables without
     * peers are an error, never a world of one. library: the name of what carries the data ("Open MPI v4.1.4"). */
    sg_code (*join)(int expected, double timeout_s, sg_transport **self, char *library, size_t library_bytes,
                    sg_status *status);
    /* In place, bit-identical on every rank. dtype fp32 or bf16 (reduced in fp32). */
    sg_code (*all_reduce_mean)(sg_transport *self, void *buffer, int64_t count, sg_dtype dtype, sg_status *status);
    sg_code (*all_gather)(sg_transport *self, const void *part, void *whole, int64_t part_count, sg_dtype dtype,
                          sg_status *status);
    sg_code (*reduce_scatter_mean)(sg_transport *self, const void *whole, void *part, int64_t part_count,
                                   sg_dtype dtype, sg_status *status);
    sg_code (*barrier)(sg_transport *self, sg_status *status);
    /* The bytes of rank `root` in everyone's `data`. */
    sg_code (*broadcast)(sg_transport *self, void *data, uint64_t bytes, int root, sg_status *status);
    /* Gathers `count` doubles of every rank to rank 0 (out: ranks * count there). */
    sg_code (*gather_doubles)(sg_transport *self, const double *values, int count, double *out, sg_status *status);
    /* True when a rank is gone, failed or aborted; `why` (NUL-terminated, cut to `bytes`) then says which one, where, and
     * what its reason was. Never blocks; any thread, any time between join and leave. May be NULL. */
    bool (*lost)(sg_transport *self, char *why, size_t bytes);
    /* Ends all ranks with exit status 3; does not return. */
    void (*abort)(sg_transport *self, const char *why);
    /* Waits for the others, then frees self. */
    void (*leave)(sg_transport *self);
} sg_transport_api;

/* Modules export: const sg_transport_api *sg_transport_module(void); */

#ifdef __cplusplus
}
#endif
#endif
