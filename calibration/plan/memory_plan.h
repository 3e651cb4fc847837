/* memory_plan.h: the peaks of a training's step, found by walking it, without any machine in mind. */
#ifndef SG_CALIBRATION_PLAN_MEMORY_PLAN_H
#define SG_CALIBRATION_PLAN_MEMORY_PLAN_H

#include "sim/walk/walk.h"

/* Peaks of a steady iteration (the second: optimizer state exists) with PyTorch's caching allocator when `caching`,
 * else with plain allocation. Workspaces of libraries are not in it. */
sg_code sg_memory_plan(const sg_training *training, bool caching, sg_memory_peak *peak, sg_status *status);

#endif
