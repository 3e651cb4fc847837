/* predicting.h: the machine a command speaks of, and a prediction on it. */
#ifndef SG_CLI_PREDICTING_H
#define SG_CLI_PREDICTING_H

#include "calibration/fit/fit.h"
#include "calibration/predict/predict.h"
#include "cli/request.h"

typedef struct sg_target {
    sg_machine machine;
    sg_device_class device_class;
    bool has_fit;
    sg_fit fit; /* of a machine file that carries laws */
} sg_target;

/* --machine by name, data sheet or fitted file. */
sg_code sg_target_load(const sg_args *args, sg_target *target, sg_status *status);
void sg_target_clear(sg_target *target);
/* What loading --dataset depends on, as sg_catalogue_describe tells it, from its files or, where they hold sizes alone, from
 * those; "": no data set. */
void sg_dataset_description(const sg_args *args, const sg_request *request, char *text, size_t bytes);
/* What was not said on the command line, nor by a data set or train_config.json, widens the interval. */
sg_predict_options sg_predict_options_of(const sg_args *args, const sg_request *request);
/* PPO: what is known of the simulator of --task: the fit's law (NULL: no fit), of the only one without --task; else the prior of a
 * simulator that the name begins with, put into *room. *law NULL: the machine's env_step_s or --env-step-us stands. SG_BAD_INPUT:
 * nothing is known of that name, or several could be meant. */
sg_code sg_environment_choose(const sg_args *args, const sg_request *request, const sg_fit *fit, sg_law *room,
                              const sg_law **law, sg_status *status);
sg_code sg_predict_for(const sg_args *args, const sg_request *request, const sg_target *target,
                       sg_prediction *prediction, sg_status *status);

#endif
