/* collective.h: collectives from point-to-point messages, with fixed order, bounded patience and a polite wait.
 *
 * MPI_Allreduce fixes no order of summation, spins while it waits and cannot time out. Here every rank reduces one slice of
 * the buffer, in rank order, and sends the result to all: bit-identical by construction, and the least data that an
 * all-reduce can move, 2 (N-1)/N of the buffer per rank. See sg_transport_api for the contracts. */
#ifndef SG_KERNELS_MPI_COLLECTIVE_H
#define SG_KERNELS_MPI_COLLECTIVE_H

#include "kernels/mpi/world.h"

sg_code sg_mpi_all_reduce_mean(sg_transport *self, void *buffer, int64_t count, sg_dtype dtype, sg_status *status);
sg_code sg_mpi_all_gather(sg_transport *self, const void *part, void *whole, int64_t part_count, sg_dtype dtype,
                          sg_status *status);
sg_code sg_mpi_reduce_scatter_mean(sg_transport *self, const void *whole, void *part, int64_t part_count,
                                   sg_dtype dtype, sg_status *status);
sg_code sg_mpi_barrier(sg_transport *self, sg_status *status);
sg_code sg_mpi_gather_doubles(sg_transport *self, const double *values, int count, double *out, sg_status *status);
sg_code sg_mpi_broadcast(sg_transport *self, void *data, uint64_t bytes, int root, sg_status *status);

#endif
