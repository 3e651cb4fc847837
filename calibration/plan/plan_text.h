/* plan_text.h: what a plan says in words: how to start an offer, and which one to take. For plan.c alone. */
#ifndef SG_CALIBRATION_PLAN_PLAN_TEXT_H
#define SG_CALIBRATION_PLAN_PLAN_TEXT_H

#include "calibration/plan/plan.h"

/* answer->command, when the provider's way to start a training is known and the policy is one that LeRobot trains. */
void sg_plan_command(const sg_plan_request *request, const sg_training *training, sg_offer_answer *answer);

/* answer->recommendation, once offers are ranked and `recommended` is set. */
void sg_plan_recommend(const sg_plan_request *request, sg_plan_answer *answer);

/* "38 s", "12 min", "3 h 20 min", "2 d 4 h" */
void sg_plan_duration(double seconds, char *out, size_t bytes);

#endif
