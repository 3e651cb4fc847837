/* transport.h: what a communicator between processes on CPUs needs; the mpi module implements it.
 *
 * A device's communicator (kernels/cpu) runs it on a thread of its own, so that collectives overlap compute. */
#ifndef SG_KERNELS_TRANSPORT_H
#define SG_KERNELS_TRANSPORT_H

#include "kernels/op.h"
#include "kernels/status.h"

enum { SG_TRANSPORT_ABI = 1 };

typedef struct sg_transport_api {
    uint32_t abi, struct_bytes;
    /* Joins the world that mpirun or srun made. `expected` ranks must be reachable within timeout_s: rank variables
     * without peers are an error, never a world of one. Call once per process, from the main thread. */
    sg_code (*join)(int expected, double timeout_s, int *rank, int *ranks, char *library, size_t library_bytes,
                    sg_status *status);
    /* In place, bit-identical on every rank. dtype fp32 or bf16 (reduced in fp32). Callable from one other thread. */
    sg_code (*all_reduce_mean)(void *buffer, int64_t count, sg_dtype dtype, sg_status *status);
    sg_code (*all_gather)(const void *part, void *whole, int64_t part_count, sg_dtype dtype, sg_status *status);
    sg_code (*reduce_scatter_mean)(const void *whole, void *part, int64_t part_count, sg_dtype dtype,
                                   sg_status *status);
    sg_code (*barrier)(sg_status *status);
    /* Gathers `count` doubles of every rank to rank 0 (out: ranks * count there). */
    sg_code (*gather_doubles)(const double *values, int count, double *out, sg_status *status);
    /* Ends all ranks with exit status 3. */
    void (*abort)(const char *why);
    void (*leave)(void);
} sg_transport_api;

/* Modules export: const sg_transport_api *sg_transport_module(void); */

#endif
