/* collective.c: communicators of the virtual device: one collective after another, on their stream. */
#include <stdlib.h>

#include "kernels/virtual/device.h"
#include "kernels/virtual/price.h"

/* A machine that states nothing of collectives is refused here, where several ranks first show. */
static sg_code check(const sg_device *d, int ranks, sg_status *status) {
    if (ranks < 1)
        return sg_fail(status, SG_BAD_INPUT, "a communicator on machine %s: %d ranks", d->machine.name, ranks);
    sg_priced price;
    return d->tape ? SG_OK : sg_price_collective(&d->machine, SG_ALL_REDUCE, 0, ranks, &price, status);
}

sg_code sg_virtual_comm_create(sg_device *d, const sg_comm_options *options, sg_comm **comm, sg_status *status) {
    *comm = NULL;
    sg_code code = check(d, options->ranks, status);
    if (code) return code;
    *comm = calloc(1, sizeof **comm);
    if (!*comm) return sg_fail_memory(status, sizeof **comm, "a communicator of the virtual device");
    (*comm)->ranks = options->ranks;
    return SG_OK;
}

void sg_virtual_comm_destroy(sg_device *d, sg_comm *comm) {
    (void)d;
    free(comm);
}

static sg_code exchange(sg_device *d, const sg_comm *comm, sg_collective_kind kind, int64_t count, sg_dtype dtype,
                        sg_status *status) {
    if (comm->ranks <= 1) return SG_OK;
    const sg_duration what = {
        .kind = SG_DURATION_COLLECTIVE, .which = (uint8_t)kind, .bytes = (double)count * (double)sg_dtype_bytes(dtype)};
    const sg_call call = {SG_MOVE_COLLECTIVE, .stream = SG_STREAM_COLLECTIVE, .duration = what, .comm = comm};
    return sg_virtual_call(d, &call, status);
}

sg_code sg_virtual_all_reduce_mean(sg_device *d, sg_comm *comm, void *buffer, int64_t count, sg_dtype dtype,
                                   sg_status *status) {
    (void)buffer;
    return exchange(d, comm, SG_ALL_REDUCE, count, dtype, status);
}

sg_code sg_virtual_all_gather(sg_device *d, sg_comm *comm, const void *part, void *whole, int64_t part_count,
                              sg_dtype dtype, sg_status *status) {
    (void)part, (void)whole;
    return exchange(d, comm, SG_ALL_GATHER, part_count * comm->ranks, dtype, status);
}

sg_code sg_virtual_reduce_scatter_mean(sg_device *d, sg_comm *comm, const void *whole, void *part, int64_t part_count,
                                       sg_dtype dtype, sg_status *status) {
    (void)part, (void)whole;
    return exchange(d, comm, SG_REDUCE_SCATTER, part_count * comm->ranks, dtype, status);
}

void sg_virtual_comm_abort(sg_device *d, sg_comm *comm) {
    (void)d, (void)comm;
}
