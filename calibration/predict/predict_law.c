#include "calibration/predict/predict_law.h"

#include "sim/measure/measure.h"

static double updates_s(const sg_training *training, const sg_step_times *times) {
    return training->envs > 0 ? times->learning_s : times->update_s;
}

sg_code sg_predict_law(const sg_fit *fit, const sg_policy_request *asked, const sg_training *training,
                       const sg_machine *machine, int ranks, const sg_step_times *framework,
                       const sg_step_times *engine, sg_law_answer *answer, sg_status *status) {
    *answer = (sg_law_answer){.found = false};
    sg_policy_request request = *asked;
    request.device_class = sg_machine_device_class(machine);
    request.ranks = ranks;
    sg_measure_options options = {.device = "cpu", .ranks = ranks};
    sg_point_config config;
    sg_code code = sg_measure_config(&request, training, &options, &config, status);
    if (code != SG_OK) return code;
    config.threads = 0; /* whatever it was measured with: the fit is of one machine */
    const sg_law *law = sg_law_find(fit, training->envs > 0 ? "learning_s" : "update_s", &config);
    if (!law) return SG_OK;
    double ours = updates_s(training, engine), theirs = updates_s(training, framework);
    sg_law_at(law, (double)(training->envs > 0 ? training->envs : training->batch), &answer->seconds, &answer->log_sd);
    if (ours > 0) answer->seconds *= theirs / ours;
    answer->low_x = law->low_x;
    answer->high_x = law->high_x;
    answer->found = true;
    return SG_OK;
}
