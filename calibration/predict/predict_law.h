/* predict_law.h: a measured law in place of the walk's update time. For predict.c alone. */
#ifndef SG_CALIBRATION_PREDICT_PREDICT_LAW_H
#define SG_CALIBRATION_PREDICT_PREDICT_LAW_H

#include "calibration/fit/fit.h"
#include "calibration/predict/predict.h"
#include "sim/walk/walk.h"

/* What a law says of the time that a policy's updates take (update_s; PPO: learning_s). */
typedef struct sg_law_answer {
    bool found;
    double seconds;       /* of the framework */
    double log_sd;        /* of the law */
    double low_x, high_x; /* measured range, batch or environments */
} sg_law_answer;

/* `framework` and `engine` are walks of the training on this machine with the numbers of the request's framework and with
 * those of our engine: a law is of our engine, and their ratio is what the framework adds. Not found is no failure. */
sg_code sg_predict_law(const sg_fit *fit, const sg_policy_request *request, const sg_training *training,
                       const sg_machine *machine, int ranks, const sg_step_times *framework,
                       const sg_step_times *engine, sg_law_answer *answer, sg_status *status);

#endif
