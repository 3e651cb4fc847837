/* world.h: the one MPI world of this process, inside the mpi module. MPI itself knows only one, so it is kept here once. */
#ifndef SG_KERNELS_MPI_WORLD_H
#define SG_KERNELS_MPI_WORLD_H

#include "kernels/transport.h"

#include <mpi.h>

typedef struct sg_mpi_world {
    sg_transport base;
    /* Two communicators, so that the thread that reduces gradients and the thread that gathers figures cannot take each
     * other's messages. */
    MPI_Comm data, control;
    double patience_s;   /* how long a collective waits for a slower rank */
    _Atomic bool broken; /* a collective failed: messages may be under way, no other collective can be right */
    unsigned char *scratch;
    size_t scratch_bytes; /* of the data communicator's thread */
} sg_mpi_world;

/* The world that sg_mpi_join made, or NULL with the reason. */
sg_mpi_world *sg_mpi_world_of(sg_transport *self, sg_status *status);
/* From now on the world is broken, and sg_mpi_lost says why: the first reason stays. */
void sg_mpi_break(sg_mpi_world *world, const char *why);

/* Whether a launcher that Open MPI can join is really there. MPI_Init itself would make a world of one without a word or end
 * the process with exit status 1, which reads as an answer. */
sg_code sg_mpi_check_launcher(int expected, sg_status *status);

/* See sg_transport_api. */
const sg_transport_api *sg_mpi_transport(void);
sg_code sg_mpi_join(int expected, double timeout_s, sg_transport **self, char *library, size_t library_bytes,
                    sg_status *status);
bool sg_mpi_lost(sg_transport *self, char *why, size_t bytes);
void sg_mpi_abort(sg_transport *self, const char *why);
void sg_mpi_leave(sg_transport *self);

/* Waits for all requests. `eager`: everyone has arrived, data is moving: poll without sleeping; else sleep between
 * polls, because the cores belong to the compute threads. On failure receives are cancelled and the world is broken. */
sg_code sg_mpi_wait(sg_mpi_world *world, MPI_Request *requests, int n, bool eager, const char *what, sg_status *status);
/* SG_MACHINE with MPI's own words unless result is MPI_SUCCESS; marks the world broken. */
sg_code sg_mpi_check(sg_mpi_world *world, int result, const char *what, sg_status *status);

double sg_mpi_now_s(void);

#endif
