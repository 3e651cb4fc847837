#include "calibration/predict.h"

#include <stdlib.h>
#include <string.h>

#include "calibration/framework_file.h"
#include "calibration/predict_work.h"

/* A training as one device class runs it. One program serves any number of ranks: what exchanges gradients costs nothing
 * on one. Walks are kept by one rank or several. */
typedef struct lowered {
    sg_training *training;
    sg_pricer *pricer[2];
    double env_step_s[2];
    bool caching[2];
} lowered;

struct sg_predictor {
    const sg_policy_request *request;
    const char *config_dir;
    lowered lowered[2]; /* by sg_device_class */
};

sg_device_class sg_machine_device_class(const sg_machine *machine) {
    return strcmp(machine->device_class, "cpu") == 0 ? SG_DEVICE_CLASS_CPU : SG_DEVICE_CLASS_CUDA;
}

/* The machine with the framework's numbers, in memory of its own. */
static sg_code own_machine(sg_predict_work *w, const sg_machine *machine, const char *config_dir, sg_status *status) {
    sg_framework_numbers numbers;
    w->machine = *machine;
    w->machine.covariance = NULL;
    sg_code code = sg_framework_load(sg_framework_name(w->request->framework), machine->device_class, config_dir,
                                     &numbers, status);
    if (code) return code;
    if (machine->covariance) {
        size_t bytes = sizeof(double) * SG_M_COUNT * SG_M_COUNT;
        w->machine.covariance = malloc(bytes);
        if (!w->machine.covariance) return sg_fail_memory(status, bytes, "a machine's covariance");
        memcpy(w->machine.covariance, machine->covariance, bytes);
    }
    /* host costs that were measured are the framework's; the engine itself is known */
    if (numbers.factors)
        sg_framework_apply(&numbers, &w->machine);
    else
        sg_framework_impose(&numbers, &w->machine);
    w->buckets = numbers.buckets;
    return SG_OK;
}

sg_code sg_predictor_open(const sg_policy_request *request, const char *config_dir, sg_predictor **predictor,
                          sg_status *status) {
    *predictor = calloc(1, sizeof **predictor);
    if (!*predictor) return sg_fail_memory(status, sizeof **predictor, "a predictor");
    (*predictor)->request = request;
    (*predictor)->config_dir = config_dir;
    return SG_OK;
}

void sg_predictor_close(sg_predictor *predictor) {
    if (!predictor) return;
    for (int c = 0; c < 2; c++) {
        lowered *l = &predictor->lowered[c];
        sg_pricer_close(l->pricer[0]);
        sg_pricer_close(l->pricer[1]);
        if (l->training) sg_training_free(l->training);
    }
    free(predictor);
}

static sg_code lower(sg_predictor *p, const sg_machine *machine, lowered **out, sg_status *status) {
    sg_policy_request asked = *p->request;
    asked.device_class = sg_machine_device_class(machine);
    asked.ranks = 2;
    *out = &p->lowered[asked.device_class == SG_DEVICE_CLASS_CPU];
    return (*out)->training ? SG_OK : sg_policy_build(&asked, &(*out)->training, status);
}

sg_code sg_predictor_training(sg_predictor *predictor, const sg_machine *machine, const sg_training **training,
                              sg_status *status) {
    lowered *l = NULL;
    sg_code code = lower(predictor, machine, &l, status);
    *training = code ? NULL : l->training;
    return code;
}

static sg_code walk(sg_predict_work *w, lowered *l, sg_status *status) {
    int several = w->ranks > 1;
    double env_step_s;
    bool caching = w->machine.caching_allocator;
    w->training = l->training;
    env_step_s = sg_predict_env_step_s(w);
    if (l->pricer[several] && (l->env_step_s[several] != env_step_s || l->caching[several] != caching)) {
        sg_pricer_close(l->pricer[several]);
        l->pricer[several] = NULL;
    }
    sg_code code = SG_OK;
    if (!l->pricer[several])
        code = sg_pricer_open(w->training, &w->machine, several, w->buckets, env_step_s, &l->pricer[several], status);
    if (code) return code;
    l->env_step_s[several] = env_step_s;
    l->caching[several] = caching;
    return sg_pricer_run(l->pricer[several], &w->machine, w->ranks, &w->walked, status);
}

/* Walks once more with our engine's numbers, to know what the framework adds to a law of our engine. */
static sg_code ask_law(sg_predict_work *w, lowered *l, const char *config_dir, sg_status *status) {
    sg_framework_numbers engine;
    sg_code code =
        sg_framework_load(sg_framework_name(SG_FRAMEWORK_NATIVE), w->machine.device_class, config_dir, &engine, status);
    if (code) return code;
    sg_machine plain = w->machine;
    plain.covariance = NULL; /* it is the other machine's */
    sg_framework_impose(&engine, &plain);
    sg_walked walked;
    code = sg_pricer_run(l->pricer[w->ranks > 1], &plain, w->ranks, &walked, status);
    if (code) return code;
    return sg_predict_law(w->options->fit, w->request, w->training, &w->machine, w->ranks, &w->walked.times,
                          &walked.times, &w->law, status);
}

sg_code sg_predictor_run(sg_predictor *predictor, const sg_machine *machine, const sg_predict_options *options,
                         sg_prediction *prediction, sg_status *status) {
    const sg_policy_request *request = predictor->request;
    memset(prediction, 0, sizeof *prediction);
    if (options->ranks < 0 || options->workers < 0)
        return sg_fail(status, SG_BAD_INPUT, "predicting %s: %d ranks with %d loader workers", request->policy,
                       options->ranks, options->workers);
    sg_predict_work w = {.request = request,
                         .options = options,
                         .ranks = options->ranks > 1 ? options->ranks : 1,
                         .interval = options->interval > 0 && options->interval < 1 ? options->interval : 0.9,
                         .out = prediction};
    lowered *l = NULL;
    sg_code code = own_machine(&w, machine, predictor->config_dir, status);
    if (!code) code = lower(predictor, machine, &l, status);
    if (!code) code = walk(&w, l, status);
    if (!code && options->fit) code = ask_law(&w, l, predictor->config_dir, status);
    if (!code) sg_predict_figures(&w);
    if (!code) prediction->batch = w.training->batch;
    sg_machine_clear(&w.machine);
    return code ? sg_fail_in(status, "predicting %s on %s", request->policy, machine->name) : SG_OK;
}

sg_code sg_predict(const sg_policy_request *request, const sg_machine *machine, const sg_predict_options *options,
                   sg_prediction *prediction, sg_status *status) {
    sg_predictor *predictor = NULL;
    sg_code code = sg_predictor_open(request, options->config_dir, &predictor, status);
    if (!code) code = sg_predictor_run(predictor, machine, options, prediction, status);
    sg_predictor_close(predictor);
    return code;
}
