/* planning.h: a plan from the command line, and how it is shown; for `plan` and `gauge`. */
#ifndef SG_CLI_PLANNING_H
#define SG_CLI_PLANNING_H

#include "calibration/plan/plan.h"
#include "cli/predicting.h"
#include "cli/show.h"

sg_plan_request sg_plan_request_of(const sg_args *args, const sg_request *request, const sg_machine *here);
json_t *sg_json_plan(const sg_plan_answer *plan);
void sg_print_plan(const sg_plan_answer *plan);
/* plan --log: what is left of a training under way, by its log. Returns the exit status. */
int sg_planning_rest(const sg_args *args);

#endif
