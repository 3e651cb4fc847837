#include "cli/predicting.h"

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
    };
}

sg_code sg_predict_for(const sg_args *args, const sg_request *request, const sg_target *target,
                       sg_prediction *prediction, sg_status *status) {
    sg_predict_options options = sg_predict_options_of(args, request);
    options.fit = target->has_fit ? &target->fit : NULL;
    options.host_known = target->has_fit; /* a fitted machine is a whole machine, host included */
    return sg_predict(&request->policy, &target->machine, &options, prediction, status);
}
