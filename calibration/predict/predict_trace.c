/* predict_trace.c: the walk of a prediction as it passes on the virtual device, call by call. */
#include <stdio.h>

#include "calibration/predict/predict_work.h"
#include "sim/walk/environment.h"
#include "sim/walk/trace.h"

typedef struct parts {
    sg_device *device;
    sg_comm *comm;
    sg_environment *environment;
    sg_walker *walker;
} parts;

static void close_parts(parts *p) {
    sg_walker_close(p->walker);
    sg_environment_close(p->environment);
    if (p->comm) sg_virtual_device()->comm_destroy(p->device, p->comm);
    if (p->device) sg_virtual_device()->close(p->device);
}

/* What does not fit is for the prediction to say. */
static sg_code open_parts(const sg_predict_work *w, parts *p, sg_status *status) {
    const sg_device_api *api = sg_virtual_device();
    sg_machine endless = w->machine;
    endless.memory_bytes = 0;
    sg_code code = api->open(&(sg_device_options){.machine = &endless}, &p->device, status);
    if (!code) sg_virtual_free_segments(p->device, true); /* as predictions walk */
    if (!code && w->ranks > 1)
        code = api->comm_create(p->device, &(sg_comm_options){.ranks = w->ranks}, &p->comm, status);
    if (!code && w->training->envs > 0) {
        sg_environment_options eo = {
            .env_step_s = sg_predict_env_step_s(w), .envs = w->training->envs, .simulated = true};
        code = sg_environment_open(&eo, &p->environment, status);
    }
    if (code) return code;
    sg_walk_options options = {.api = api,
                               .device = p->device,
                               .seed = 1,
                               .ranks = w->ranks,
                               .comm = p->comm,
                               .buckets = w->buckets,
                               .environment = p->environment,
                               .graph = w->out->captured};
    return sg_walker_open(w->training, &options, &p->walker, status);
}

sg_code sg_predict_trace(const sg_predict_work *w, sg_status *status) {
    char title[256];
    const sg_machine *m = &w->machine;
    const sg_training *t = w->training;
    (void)snprintf(title, sizeof title, "%s as %s, batch %lld, predicted for %s", t->policy, t->framework,
                   (long long)t->batch, m->title[0] ? m->title : m->name);
    double micro_steps = (double)(t->accumulation > 0 ? t->accumulation : 1);
    const sg_trace_request request = {.path = w->options->trace,
                                      .title = title,
                                      .dataloading_s = t->envs > 0 ? 0 : w->out->dataloading_s.value * micro_steps};
    parts p = {0};
    sg_code code = open_parts(w, &p, status);
    if (!code) code = sg_walker_iteration(p.walker, NULL, status);
    if (!code) code = sg_walker_trace(p.walker, &request, status);
    close_parts(&p);
    return code;
}
