#include "cli/batch_auto.h"

#include "sim/measure/host_state.h"
#include "sim/measure/measure.h"

enum { MOST = 1 << 16 };

/* Least free bytes of all ranks, known to all. */
static sg_code agree(sg_world *world, double *free_bytes, sg_status *status) {
    sg_transport *t = world->transport;
    if (world->ranks == 1 || !t) return SG_OK;
    double all[1024];
    if (world->ranks > (int)(sizeof all / sizeof *all))
        return sg_fail(status, SG_BAD_INPUT, "--batch auto with %d ranks: at most 1024", world->ranks);
    sg_code code = t->api->gather_doubles(t, free_bytes, 1, all, status);
    for (int i = 0; code == SG_OK && world->rank == 0 && i < world->ranks; i++)
        if (all[i] < *free_bytes) *free_bytes = all[i];
    return code == SG_OK ? t->api->broadcast(t, free_bytes, sizeof *free_bytes, 0, status) : code;
}

sg_code sg_batch_auto(const sg_device_choice *choice, const sg_args *args, sg_world *world,
                      const sg_policy_request *policy, int64_t *batch, sg_status *status) {
    double free_bytes = (double)sg_host_available_bytes() / world->ranks;
    sg_code code = SG_OK;
    if (choice->device_class == SG_DEVICE_CLASS_CUDA) {
        sg_device_info info;
        code = sg_device_look(args, world->local_rank, &info, status);
        free_bytes = (double)info.free_bytes;
    }
    if (code == SG_OK) code = agree(world, &free_bytes, status);
    if (code == SG_OK) code = sg_measure_largest_batch(policy, (uint64_t)free_bytes, MOST, batch, status);
    if (code == SG_OK && *batch == 0)
        code = sg_fail(status, SG_NO, "not even batch 1 fits: %.1f GiB are free", free_bytes / 0x1p30);
    return code;
}

int64_t sg_batch_below(int64_t batch) {
    int64_t less = batch / 16 > 0 ? batch / 16 : 1;
    return batch - less;
}
