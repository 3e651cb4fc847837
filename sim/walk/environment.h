/* environment.h: the simulator of a reinforcement-learning training: what stands between two inferences.
 *
 * It really occupies a core: it integrates small rigid pendulums until the cost of the environment steps has been spent.
 * Simulated, the cost is returned for the caller's clock. */
#ifndef SG_SIM_WALK_ENVIRONMENT_H
#define SG_SIM_WALK_ENVIRONMENT_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct sg_environment sg_environment;

typedef struct sg_environment_options {
    double env_step_s; /* processor seconds of one step of one environment; 0: what the integrator itself takes */
    int64_t envs;      /* >= 1 */
    bool simulated;
} sg_environment_options;

sg_code sg_environment_open(const sg_environment_options *options, sg_environment **environment, sg_status *status);
void sg_environment_close(sg_environment *environment);
/* Advances `env_steps` environment steps (of all environments together). *wait_s: seconds that the caller still has to let
 * pass (simulated), else 0. */
sg_code sg_environment_step(sg_environment *environment, int64_t env_steps, double *wait_s, sg_status *status);
/* Seconds per environment step: given, or as measured so far. */
double sg_environment_step_s(const sg_environment *environment);

#endif
