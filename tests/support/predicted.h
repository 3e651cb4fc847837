/* predicted.h: predictions of a small policy about which everything is known. */
#ifndef SG_TESTS_SUPPORT_PREDICTED_H
#define SG_TESTS_SUPPORT_PREDICTED_H

#include "calibration/predict/predict.h"

/* ACT of two small images and narrow layers: its graph is built in no time. */
sg_policy_request sg_small_act(int64_t batch);
/* Nothing unknown that would widen an interval: cameras, host, language. */
sg_predict_options sg_knowing(void);
/* A refusal ends the running test. */
sg_prediction sg_predicted(const sg_policy_request *r, const sg_machine *m, const sg_predict_options *o);

#endif
