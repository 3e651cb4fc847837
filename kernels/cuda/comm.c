/* comm.c: collectives of several GPUs through NCCL, on the collective stream.
 *
 * The communicator does not block: whoever waits for NCCL asks in between whether a peer was lost (the transport knows within
 * a second) and whether the time is over. Then the communicator is aborted, its kernels end, and the wait returns with the
 * reason. After that every call fails. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/nccl_library.h"
#include "kernels/transport.h"

#include <stdlib.h>
#include <time.h>

struct sg_comm {
    sg_nccl nccl;
    ncclComm_t comm;
    sg_transport *transport;
    double timeout_s;
    bool aborted;
};

/* ---- failures ------------------------------------------------------------------------------------------------------------ */

static void abort_comm(sg_comm *c) {
    if (!c->aborted && c->comm) (void)c->nccl.ncclCommAbort(c->comm);
    c->aborted = true;
}

static sg_code fail_nccl(sg_comm *c, ncclResult_t result, const char *what, sg_status *status) {
    char why[384];
    const char *detail = c->comm && !c->aborted ? c->nccl.ncclGetLastError(c->comm) : NULL;
    sg_code code;
    if (c->transport->api->lost && c->transport->api->lost(c->transport, why, sizeof why))
        code = sg_fail(status, SG_MACHINE, "%s on rank %d: %s", what, c->transport->rank, why);
    else
        code = sg_fail(status, SG_MACHINE,
                       "%s on rank %d: NCCL says \"%s\"%s%.200s; NCCL_DEBUG=INFO tells more, 'stepgauge devices' shows "
                       "how the GPUs are connected",
                       what, c->transport->rank, c->nccl.ncclGetErrorString(result), detail && *detail ? ": " : "",
                       detail ? detail : "");
    abort_comm(c);
    return code;
}

static sg_code check_peers(sg_comm *c, const char *what, double waited_s, sg_status *status) {
    char why[384];
    if (c->transport->api->lost && c->transport->api->lost(c->transport, why, sizeof why)) {
        abort_comm(c);
        return sg_fail(status, SG_MACHINE, "%s on rank %d: %s", what, c->transport->rank, why);
    }
    if (c->timeout_s > 0 && waited_s > c->timeout_s) {
        abort_comm(c);
        return sg_fail(
            status, SG_MACHINE,
            "%s on rank %d took more than %.0f s: another rank hangs or the GPUs cannot reach each other; try "
            "NCCL_P2P_DISABLE=1, fewer GPUs, or NCCL_DEBUG=INFO for the reason",
            what, c->transport->rank, c->timeout_s);
    }
    return SG_OK;
}

/* Until NCCL has taken what it was asked for. */
static sg_code settle(sg_device *device, sg_comm *c, ncclResult_t result, const char *what, sg_status *status) {
    static const double EAGER_S = 1e-3;
    const struct timespec nap = {.tv_nsec = 50000};
    double start = sg_cuda_now(device);
    while (result == ncclInProgress) {
        double waited_s = sg_cuda_now(device) - start;
        sg_code code = check_peers(c, what, waited_s, status);
        if (code != SG_OK) return code;
        if (waited_s > EAGER_S) (void)nanosleep(&nap, NULL);
        ncclResult_t asked = c->nccl.ncclCommGetAsyncError(c->comm, &result);
        if (asked != ncclSuccess) result = asked;
    }
    return result == ncclSuccess ? SG_OK : fail_nccl(c, result, what, status);
}

sg_code sg_cuda_comm_check(sg_comm *c, double waited_s, sg_status *status) {
    if (!c) return SG_OK;
    if (c->aborted) return sg_fail(status, SG_MACHINE, "the communicator was given up after an earlier failure");
    ncclResult_t state = ncclSuccess, asked = c->nccl.ncclCommGetAsyncError(c->comm, &state);
    if (asked != ncclSuccess) state = asked;
    if (state != ncclSuccess && state != ncclInProgress) return fail_nccl(c, state, "a collective", status);
    return check_peers(c, "waiting for the GPU", waited_s, status);
}

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

/* Rank 0 makes the id; a failure there must reach the others, so it travels beside it. */
static sg_code share_id(sg_comm *c, ncclUniqueId *id, sg_status *status) {
    struct {
        ncclUniqueId id;
        int32_t fine;
    } message = {.fine = 0};
    sg_code code = SG_OK, shared;
    if (c->transport->rank == 0) {
        ncclResult_t result = c->nccl.ncclGetUniqueId(&message.id);
        message.fine = result == ncclSuccess;
        if (result != ncclSuccess) code = fail_nccl(c, result, "making a communicator", status);
    }
    shared = c->transport->api->broadcast(c->transport, &message, sizeof message, 0, code == SG_OK ? status : NULL);
    if (code == SG_OK) code = shared;
    if (code == SG_OK && !message.fine)
        code = sg_fail(status, SG_MACHINE, "making a communicator on rank %d: rank 0 could not make NCCL's id",
                       c->transport->rank);
    *id = message.id;
    return code;
}

static sg_code join(sg_device *device, sg_comm *c, sg_status *status) {
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    sg_code code = share_id(c, &id, status);
    if (code != SG_OK) return code;
    ncclResult_t result =
        c->nccl.ncclCommInitRankConfig(&c->comm, c->transport->ranks, id, c->transport->rank, &config);
    return settle(device, c, result, "joining the other GPUs", status);
}

sg_code sg_cuda_comm_create(sg_device *device, const sg_comm_options *options, sg_comm **out, sg_status *status) {
    sg_transport *transport = options->bootstrap;
    *out = NULL;
    if (!transport || !transport->api->broadcast)
        return sg_fail(status, SG_BAD_INPUT, "%d ranks need a transport to find each other", options->ranks);
    if (transport->api->abi != SG_TRANSPORT_ABI || transport->api->struct_bytes != sizeof *transport->api)
        return sg_fail(status, SG_MACHINE, "the transport has interface %u, this device needs %d: build both together",
                       transport->api->abi, SG_TRANSPORT_ABI);
    if (options->ranks != transport->ranks || options->rank != transport->rank)
        return sg_fail(status, SG_BAD_INPUT, "rank %d of %d was asked for, the transport has rank %d of %d",
                       options->rank, options->ranks, transport->rank, transport->ranks);
    sg_code code = sg_cuda_use(device, status);
    sg_comm *c = code == SG_OK ? calloc(1, sizeof *c) : NULL;
    if (!c) return code != SG_OK ? code : sg_fail_memory(status, sizeof *c, "a communicator");
    c->transport = transport;
    c->timeout_s = options->timeout_s;
    code = sg_nccl_open(device->library_dir[0] ? device->library_dir : NULL, &c->nccl, status);
    if (code == SG_OK) code = join(device, c, status);
    if (code != SG_OK) {
        sg_cuda_comm_destroy(device, c);
        return code;
    }
    device->comm = c;
    *out = c;
    return SG_OK;
}

/* Destroying waits for the other ranks; when one is lost, aborting does not. */
void sg_cuda_comm_destroy(sg_device *device, sg_comm *c) {
    if (!c) return;
    bool clean = !c->aborted && device->comm == c && sg_cuda_stream_wait(device, SG_STREAM_COLLECTIVE, NULL) == SG_OK;
    if (device->comm == c) device->comm = NULL;
    (void)sg_cuda_use(device, NULL);
    if (c->comm && !c->aborted) {
        if (clean)
            clean = settle(device, c, c->nccl.ncclCommFinalize(c->comm), "leaving the other GPUs", NULL) == SG_OK;
        if (clean && !c->aborted)
            (void)c->nccl.ncclCommDestroy(c->comm);
        else
            abort_comm(c);
    }
    free(c);
}

void sg_cuda_comm_abort(sg_device *device, sg_comm *c) {
    (void)sg_cuda_use(device, NULL);
    if (c) abort_comm(c);
}

/* ---- collectives ----------------------------------------------------------------------------------------------------------- */

static sg_code begin(sg_device *device, sg_comm *c, int64_t count, sg_dtype dtype, ncclDataType_t *type,
                     sg_status *status) {
    *type = dtype == SG_BF16 ? ncclBfloat16 : ncclFloat32;
    if (dtype != SG_F32 && dtype != SG_BF16)
        return sg_fail(status, SG_BAD_INPUT, "collectives take fp32 and bf16, not %s", sg_dtype_name(dtype));
    if (count < 0)
        return sg_fail(status, SG_BAD_INPUT, "a collective over %lld elements is impossible", (long long)count);
    if (c->aborted) return sg_fail(status, SG_MACHINE, "the communicator was given up after an earlier failure");
    return sg_cuda_use(device, status);
}

sg_code sg_cuda_all_reduce_mean(sg_device *device, sg_comm *c, void *buffer, int64_t count, sg_dtype dtype,
                                sg_status *status) {
    ncclDataType_t type;
    sg_code code = begin(device, c, count, dtype, &type, status);
    if (code != SG_OK || count == 0) return code;
    ncclResult_t result = c->nccl.ncclAllReduce(buffer, buffer, (size_t)count, type, ncclAvg, c->comm,
                                                device->stream[SG_STREAM_COLLECTIVE]);
    return settle(device, c, result, "all-reduce", status);
}

sg_code sg_cuda_all_gather(sg_device *device, sg_comm *c, const void *part, void *whole, int64_t part_count,
                           sg_dtype dtype, sg_status *status) {
    ncclDataType_t type;
    sg_code code = begin(device, c, part_count, dtype, &type, status);
    if (code != SG_OK || part_count == 0) return code;
    ncclResult_t result =
        c->nccl.ncclAllGather(part, whole, (size_t)part_count, type, c->comm, device->stream[SG_STREAM_COLLECTIVE]);
    return settle(device, c, result, "all-gather", status);
}

sg_code sg_cuda_reduce_scatter_mean(sg_device *device, sg_comm *c, const void *whole, void *part, int64_t part_count,
                                    sg_dtype dtype, sg_status *status) {
    ncclDataType_t type;
    sg_code code = begin(device, c, part_count, dtype, &type, status);
    if (code != SG_OK || part_count == 0) return code;
    ncclResult_t result = c->nccl.ncclReduceScatter(whole, part, (size_t)part_count, type, ncclAvg, c->comm,
                                                    device->stream[SG_STREAM_COLLECTIVE]);
    return settle(device, c, result, "reduce-scatter", status);
}
