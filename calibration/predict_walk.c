#include "calibration/predict_walk.h"

#include <math.h>
#include <string.h>

#include "sim/environment.h"

/* Follows the walker's phases with the virtual device's derivatives. */
typedef struct follower {
    const sg_device *device;
    sg_walked *walked;
    double last[SG_M_COUNT];
} follower;

static void follow(void *user, int phase) {
    follower *f = user;
    sg_virtual_report r;
    sg_virtual_read(f->device, &r);
    for (int i = 0; i < SG_M_COUNT && phase >= 0; i++) f->walked->by_log[phase][i] += r.gradient[i] - f->last[i];
    memcpy(f->last, r.gradient, sizeof f->last);
}

static sg_code iterations(sg_walker *walker, bool peaks, sg_device *device, follower *f, sg_status *status) {
    sg_code code = SG_OK;
    if (peaks) code = sg_walker_iteration(walker, NULL, status);
    if (code) return code;
    sg_virtual_reset(device);
    memset(f->walked->by_log, 0, sizeof f->walked->by_log);
    memset(f->last, 0, sizeof f->last);
    code = sg_walker_iteration(walker, &f->walked->times, status);
    if (code) return code;
    sg_virtual_read(device, &f->walked->report);
    if (peaks) sg_walker_peak(walker, &f->walked->peak);
    return SG_OK;
}

sg_code sg_predict_walk(const sg_training *training, const sg_machine *machine, sg_bucket_options buckets, int ranks,
                        double env_step_s, bool peaks, sg_walked *walked, sg_status *status) {
    *walked = (sg_walked){0};
    const sg_device_api *api = sg_virtual_device();
    sg_machine endless = *machine;
    endless.memory_bytes = 0;
    sg_device *device = NULL;
    sg_comm *comm = NULL;
    sg_environment *environment = NULL;
    sg_walker *walker = NULL;
    follower f = {.walked = walked};
    sg_device_options open = {.machine = &endless};
    sg_code code = api->open(&open, &device, status);
    if (code) return code;
    f.device = device;
    if (ranks > 1) code = api->comm_create(device, &(sg_comm_options){.ranks = ranks}, &comm, status);
    if (!code && training->envs > 0) {
        sg_environment_options eo = {.env_step_s = env_step_s, .envs = training->envs, .simulated = true};
        code = sg_environment_open(&eo, &environment, status);
    }
    if (!code) {
        sg_walk_options options = {.api = api,
                                   .device = device,
                                   .seed = 1,
                                   .ranks = ranks,
                                   .comm = comm,
                                   .buckets = buckets,
                                   .environment = environment,
                                   .phase_passed = follow,
                                   .user = &f};
        code = sg_walker_open(training, &options, &walker, status);
    }
    if (!code) code = iterations(walker, peaks, device, &f, status);
    sg_walker_close(walker);
    sg_environment_close(environment);
    if (comm) api->comm_destroy(device, comm);
    api->close(device);
    return code;
}
