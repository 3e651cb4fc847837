/* collective.c: collectives of the virtual device, by bus bandwidth and latency, one after another on their stream. */
#include <stdlib.h>

#include "kernels/virtual/device.h"

sg_code sg_virtual_set_ranks(sg_device *d, sg_comm *comm, int ranks, sg_status *status) {
    if (ranks < 1)
        return sg_fail(status, SG_BAD_INPUT, "a communicator on machine %s: %d ranks", d->machine.name, ranks);
    sg_code code = SG_OK;
    if (ranks > 1) code = sg_virtual_need(d, SG_M_COLLECTIVE_BUSBW, "collectives", status);
    if (ranks > 1 && !code) code = sg_virtual_need(d, SG_M_COLLECTIVE_LATENCY_S, "collectives", status);
    if (!code) comm->ranks = ranks;
    return code;
}

sg_code sg_virtual_comm_create(sg_device *d, const sg_comm_options *options, sg_comm **comm, sg_status *status) {
    *comm = calloc(1, sizeof **comm);
    if (!*comm) return sg_fail_memory(status, sizeof **comm, "a communicator of the virtual device");
    sg_code code = sg_virtual_set_ranks(d, *comm, options->ranks, status);
    if (code) {
        free(*comm);
        *comm = NULL;
    }
    return code;
}

void sg_virtual_comm_destroy(sg_device *d, sg_comm *comm) {
    (void)d;
    free(comm);
}

/* 2 passes for an all-reduce, 1 for its halves (nccl-tests, PERFORMANCE.md). */
sg_code sg_virtual_collective(sg_device *d, sg_comm *comm, double bytes, double passes, sg_status *status) {
    int n = comm->ranks;
    if (n <= 1) return SG_OK;
    if (d->recording) {
        const recorded call = {RECORDED_COLLECTIVE, .comm = comm, .bytes = bytes, .passes = passes};
        return sg_virtual_record(d, &call, status);
    }
    sg_vspan t = {0};
    double wire = passes * bytes * (n - 1) / n / d->machine.p[SG_M_COLLECTIVE_BUSBW].value;
    double start = d->machine.p[SG_M_COLLECTIVE_LATENCY_S].value;
    t.s = wire + start;
    sg_vspan_depends(&t, SG_M_COLLECTIVE_BUSBW, -wire);
    sg_vspan_depends(&t, SG_M_COLLECTIVE_LATENCY_S, start);
    if (d->n_active == d->room) {
        size_t room = d->room ? 2 * d->room : 32;
        interval *grown = realloc(d->active, room * sizeof *grown);
        if (!grown) return sg_fail_memory(status, room * sizeof *grown, "the collectives of the virtual device");
        d->active = grown;
        d->room = room;
    }
    sg_vclock *clock = &d->stream[SG_STREAM_COLLECTIVE];
    sg_vclock_join(clock, &d->host);
    interval *a = &d->active[d->n_active++];
    a->start = *clock;
    sg_vclock_add(clock, &t, 1);
    a->end = *clock;
    d->sums.collective_busy_s += t.s;
    return SG_OK;
}

sg_code sg_virtual_all_reduce_mean(sg_device *d, sg_comm *comm, void *buffer, int64_t count, sg_dtype dtype,
                                   sg_status *status) {
    (void)buffer;
    return sg_virtual_collective(d, comm, (double)count * (double)sg_dtype_bytes(dtype), 2, status);
}

sg_code sg_virtual_all_gather(sg_device *d, sg_comm *comm, const void *part, void *whole, int64_t part_count,
                              sg_dtype dtype, sg_status *status) {
    (void)part, (void)whole;
    return sg_virtual_collective(d, comm, (double)part_count * comm->ranks * (double)sg_dtype_bytes(dtype), 1, status);
}

sg_code sg_virtual_reduce_scatter_mean(sg_device *d, sg_comm *comm, const void *whole, void *part, int64_t part_count,
                                       sg_dtype dtype, sg_status *status) {
    (void)part, (void)whole;
    return sg_virtual_collective(d, comm, (double)part_count * comm->ranks * (double)sg_dtype_bytes(dtype), 1, status);
}

void sg_virtual_comm_abort(sg_device *d, sg_comm *comm) {
    (void)d, (void)comm;
}
