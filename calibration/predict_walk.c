#include "calibration/predict_walk.h"

#include <stdlib.h>
#include <string.h>

#include "sim/environment.h"

struct sg_pricer {
    sg_device *device;
    sg_comm *comm;
    sg_environment *environment;
    sg_walker *walker;
    bool steady; /* the optimizer's state exists: peaks are those of every later iteration */
    /* what follows the walker's phases */
    sg_walked *walked; /* NULL: nothing is recorded */
    double last[SG_M_COUNT];
};

static void follow(void *user, int phase) {
    sg_pricer *p = user;
    if (!p->walked) return;
    sg_virtual_report r;
    sg_virtual_read(p->device, &r);
    for (int i = 0; i < SG_M_COUNT && phase >= 0; i++) p->walked->by_log[phase][i] += r.gradient[i] - p->last[i];
    memcpy(p->last, r.gradient, sizeof p->last);
}

void sg_pricer_close(sg_pricer *p) {
    if (!p) return;
    sg_walker_close(p->walker);
    sg_environment_close(p->environment);
    if (p->comm) sg_virtual_device()->comm_destroy(p->device, p->comm);
    if (p->device) sg_virtual_device()->close(p->device);
    free(p);
}

/* What does not fit is for the prediction to say, not for the walk to fail of. */
static sg_machine endless(const sg_machine *machine) {
    sg_machine m = *machine;
    m.memory_bytes = 0;
    return m;
}

static sg_code open_parts(sg_pricer *p, const sg_training *training, const sg_machine *machine, bool several,
                          sg_bucket_options buckets, double env_step_s, sg_status *status) {
    const sg_device_api *api = sg_virtual_device();
    sg_machine first = endless(machine);
    int ranks = training->n_shards ? (int)training->shard_ranks : several ? 2 : 1;
    several = ranks > 1;
    sg_device_options open = {.machine = &first};
    sg_code code = api->open(&open, &p->device, status);
    if (!code && several) code = api->comm_create(p->device, &(sg_comm_options){.ranks = ranks}, &p->comm, status);
    if (!code && training->envs > 0) {
        sg_environment_options eo = {.env_step_s = env_step_s, .envs = training->envs, .simulated = true};
        code = sg_environment_open(&eo, &p->environment, status);
    }
    if (code) return code;
    sg_walk_options options = {.api = api,
                               .device = p->device,
                               .seed = 1,
                               .ranks = ranks,
                               .comm = p->comm,
                               .buckets = buckets,
                               .environment = p->environment,
                               .phase_passed = follow,
                               .user = p};
    return sg_walker_open(training, &options, &p->walker, status);
}

sg_code sg_pricer_open(const sg_training *training, const sg_machine *machine, bool several, sg_bucket_options buckets,
                       double env_step_s, sg_pricer **pricer, sg_status *status) {
    *pricer = NULL;
    sg_pricer *p = calloc(1, sizeof *p);
    if (!p) return sg_fail_memory(status, sizeof *p, "a walk on the virtual device");
    sg_code code = open_parts(p, training, machine, several, buckets, env_step_s, status);
    if (code)
        sg_pricer_close(p);
    else
        *pricer = p;
    return code;
}

sg_code sg_pricer_run(sg_pricer *p, const sg_machine *machine, int ranks, sg_walked *walked, sg_status *status) {
    *walked = (sg_walked){0};
    sg_machine m = endless(machine);
    sg_code code = sg_virtual_set_machine(p->device, &m, status);
    if (!code && p->comm) code = sg_virtual_set_ranks(p->device, p->comm, ranks, status);
    if (!code && !p->steady) code = sg_walker_iteration(p->walker, NULL, status);
    if (code) return code;
    p->steady = true;
    sg_virtual_reset(p->device);
    memset(p->last, 0, sizeof p->last);
    p->walked = walked;
    code = sg_walker_iteration(p->walker, &walked->times, status);
    p->walked = NULL;
    if (code) return code;
    sg_virtual_read(p->device, &walked->report);
    sg_walker_peak(p->walker, &walked->peak);
    return SG_OK;
}
