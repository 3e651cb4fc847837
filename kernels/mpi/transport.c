#include "kernels/mpi/collective.h"

__attribute__((visibility("default"))) const sg_transport_api *sg_transport_module(void);

const sg_transport_api *sg_mpi_transport(void) {
    static const sg_transport_api api = {
        .abi = SG_TRANSPORT_ABI,
        .struct_bytes = sizeof(sg_transport_api),
        .join = sg_mpi_join,
        .all_reduce_mean = sg_mpi_all_reduce_mean,
        .all_gather = sg_mpi_all_gather,
        .reduce_scatter_mean = sg_mpi_reduce_scatter_mean,
        .barrier = sg_mpi_barrier,
        .broadcast = sg_mpi_broadcast,
        .gather_doubles = sg_mpi_gather_doubles,
        .lost = sg_mpi_lost,
        .abort = sg_mpi_abort,
        .leave = sg_mpi_leave,
    };
    return &api;
}

const sg_transport_api *sg_transport_module(void) {
    return sg_mpi_transport();
}
