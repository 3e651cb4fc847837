#include "cli/predicting.h"

#include "calibration/environment/environment_law.h"
#include "cli/real_data.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

sg_code sg_target_load(const sg_args *args, sg_target *target, sg_status *status) {
    memset(target, 0, sizeof *target);
    if (!args->machine)
        return sg_fail(
            status, SG_BAD_INPUT,
            "on which machine? --machine NAME (such as rtx-4090), a data sheet or a file that 'stepgauge fit' wrote");
    sg_code code = sg_machine_load(args->machine, NULL, &target->machine, status);
    if (code != SG_OK) return code;
    size_t length = strlen(args->machine);
    if (length > 3 && strcmp(args->machine + length - 3, ".h5") == 0) {
        code = sg_fit_load(args->machine, &target->fit, status);
        target->has_fit = code == SG_OK;
        if (code != SG_OK) sg_machine_clear(&target->machine);
        if (code != SG_OK) return code;
    }
    target->device_class = sg_machine_device_class(&target->machine);
    if (args->host_speed > 0) {
        const sg_machine_parameter *own = &target->machine.p[SG_M_HOST_OP_S];
        if (isfinite(own->value) && own->evidence != SG_EVIDENCE_DATA_SHEET) {
            sg_target_clear(target);
            return sg_fail(status, SG_BAD_INPUT,
                           "--host-speed is for hosts that nobody measured: %s has host times of its own",
                           args->machine);
        }
        sg_machine_parameter *speed = &target->machine.p[SG_M_HOST_SPEED];
        *speed = (sg_machine_parameter){.value = args->host_speed, .evidence = SG_EVIDENCE_OBSERVED};
        (void)snprintf(speed->source, sizeof speed->source, "--host-speed");
    }
    if (args->gpus_per_node > 0) target->machine.link.gpus_per_node = (int)args->gpus_per_node;
    return SG_OK;
}

void sg_target_clear(sg_target *target) {
    sg_machine_clear(&target->machine);
    if (target->has_fit) sg_fit_clear(&target->fit);
    target->has_fit = false;
}

static bool sets(const sg_request *request, const char *key) {
    for (size_t i = 0; i < request->n_settings; i++)
        if (strcmp(request->settings[i].name, key) == 0) return true;
    return false;
}

void sg_dataset_description(const sg_args *args, const sg_request *request, char *text, size_t bytes) {
    const sg_dataset *d = &request->dataset;
    sg_real_data data = {0};
    sg_status status;
    text[0] = 0;
    if (!request->has_dataset || bytes == 0) return;
    sg_args plain = *args;
    plain.layers = NULL;
    /* a data set that cannot be opened is known by its sizes all the same */
    if (sg_real_data_open(&plain, &request->policy, false, &data, &status) == SG_OK && data.catalogue)
        sg_catalogue_describe(data.catalogue, text, bytes);
    else if (d->image_height > 0 && d->image_width > 0)
        (void)snprintf(text, bytes, "lerobot-%s;%s;%lldx%lld;cameras=%lld", d->version, d->codec,
                       (long long)d->image_height, (long long)d->image_width, (long long)d->cameras);
    sg_real_data_close(&data);
}

sg_predict_options sg_predict_options_of(const sg_args *args, const sg_request *request) {
    return (sg_predict_options){
        .interval = args->interval > 0 ? args->interval : 0.9,
        .ranks = args->ranks.n ? (int)args->ranks.value[0] : 1,
        .workers = args->workers.n                                                  ? (int)args->workers.value[0]
                   : request->has_train_config && request->train_config.workers > 0 ? (int)request->train_config.workers
                                                                                    : 4,
        .cameras_known = request->has_dataset || sets(request, "cameras"),
        .host_known = false,
        .graph = args->cuda_graph,
        .trace = args->trace,
        .language_known = sets(request, "language_tokens"),
        .layer = args->layers,
        .video_backend = args->video_backend,
        .prefetch = args->prefetch > 0 ? (int)args->prefetch : 0,
        .processors = args->vcpus > 0 ? args->vcpus : 0,
        .paused = args->update_s >= 0,
        .pause_s = args->update_s >= 0 ? args->update_s : 0,
    };
}

/* Names of the tasks that a fit has laws of. */
static size_t list_tasks(const sg_fit *fit, char *text, size_t bytes) {
    size_t n = 0, used = 0;
    text[0] = '\0';
    for (size_t i = 0; fit && i < fit->n_laws && used + 1 < bytes; i++) {
        if (strcmp(fit->laws[i].quantity, "collection_step_s") != 0) continue;
        const char *name = sg_environment_task(fit->laws[i].config.dataset);
        int added =
            snprintf(text + used, bytes - used, "%s%.60s", n ? ", " : "", name[0] ? name : "one without a name");
        used += added > 0 ? (size_t)added : 0;
        n++;
    }
    return n;
}

sg_code sg_environment_choose(const sg_args *args, const sg_request *request, const sg_fit *fit, sg_law *room,
                              const sg_law **law, sg_status *status) {
    char known[256];
    bool ppo = strcmp(request->name, "ppo") == 0, given = sets(request, "env_step_us");
    *law = NULL;
    if (args->task && !ppo)
        return sg_fail(status, SG_BAD_INPUT, "--task is the simulator of a PPO training; %s has none", request->name);
    if (args->task && given)
        return sg_fail(status, SG_BAD_INPUT, "--task and --env-step-us both say what a step costs: leave out one");
    if (!ppo || given) return SG_OK;
    size_t n = list_tasks(fit, known, sizeof known);
    if (n) *law = sg_environment_find(fit, args->task);
    if (*law || (!args->task && n == 0)) return SG_OK;
    if (!args->task)
        return sg_fail(status, SG_BAD_INPUT, "this machine has logs of several environments: --task, of %s", known);
    if (!sg_environment_simulator(args->task)[0])
        return sg_fail(
            status, SG_BAD_INPUT,
            "--task '%.60s': no log of it was fitted here%s%s, and it begins with no simulator that is known "
            "(isaac-lab, mjlab, isaac-gym)",
            args->task, n ? ", only of " : "", known);
    *law = room;
    return sg_environment_fit(args->task, NULL, 0, room, status);
}

sg_code sg_predict_for(const sg_args *args, const sg_request *request, const sg_target *target,
                       sg_prediction *prediction, sg_status *status) {
    char dataset[160];
    sg_predict_options options = sg_predict_options_of(args, request);
    sg_dataset_description(args, request, dataset, sizeof dataset);
    options.dataset = dataset[0] ? dataset : NULL;
    options.fit = target->has_fit ? &target->fit : NULL;
    options.host_known = target->has_fit; /* a fitted machine is a whole machine, host included */
    sg_law room;
    sg_code code = sg_environment_choose(args, request, options.fit, &room, &options.environment, status);
    return code == SG_OK ? sg_predict(&request->policy, &target->machine, &options, prediction, status) : code;
}
