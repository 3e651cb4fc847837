/* cuda_ranks.h: ranks of the device under test as threads of one process: each has a device of its own (GPU number = rank)
 * and a transport over TCP to the others. */
#ifndef SG_TESTS_SUPPORT_CUDA_RANKS_H
#define SG_TESTS_SUPPORT_CUDA_RANKS_H

#include "kernels/device.h"
#include "kernels/transport.h"

typedef struct sg_cuda_rank {
    int rank, ranks;
    const sg_device_api *api;
    sg_device *device; /* NULL: the body opens it */
    sg_comm *comm;
    sg_transport *transport;
    sg_code code; /* of joining, opening, the body */
    sg_status status;
} sg_cuda_rank;

enum { SG_CUDA_RANKS_MOST = 4 };

/* Every rank joins the others, then calls body, which opens what it needs with sg_cuda_rank_open; afterwards everything is
 * closed and the transports left. Returns the first code that is not SG_OK. */
sg_code sg_cuda_ranks_run(int ranks, const sg_device_api *api, sg_code (*body)(void *user, sg_cuda_rank *rank),
                          void *user, sg_status *status);
/* Device and communicator. */
sg_code sg_cuda_rank_open(sg_cuda_rank *rank, double timeout_s);

#endif
