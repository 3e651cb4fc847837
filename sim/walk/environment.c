/* environment.c: see environment.h. The integrator is a row of damped, driven double pendulums (Lagrange's equations,
 * fourth-order Runge-Kutta): arithmetic of the kind that physics engines spend their time on, small enough to stay in a
 * core's cache. */
#include "sim/walk/environment.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/clock.h"

enum { SUBSTEPS = 4 }; /* per environment step, as locomotion tasks have (decimation 4) */

static const double STEP_S = 0.005, GRAVITY = 9.81;

typedef struct pendulum {
    double angle[2], rate[2];
} pendulum;

struct sg_environment {
    sg_environment_options options;
    pendulum *state;
    int64_t next; /* environment that moves next */
    double spent_s;
    int64_t steps;
};

/* Two unit masses on unit rods, damped at the joints. */
static void accelerate(const double x[4], double torque, double dx[4]) {
    double d = x[0] - x[1], sine = sin(d), cosine = cos(d), determinant = 2 - cosine * cosine;
    double f0 = -x[3] * x[3] * sine - 2 * GRAVITY * sin(x[0]) - 0.1 * x[2] + torque;
    double f1 = x[2] * x[2] * sine - GRAVITY * sin(x[1]) - 0.1 * x[3];
    dx[0] = x[2];
    dx[1] = x[3];
    dx[2] = (f0 - cosine * f1) / determinant;
    dx[3] = (2 * f1 - cosine * f0) / determinant;
}

static void runge_kutta(pendulum *p, double torque) {
    double x[4] = {p->angle[0], p->angle[1], p->rate[0], p->rate[1]}, k[4][4], y[4];
    accelerate(x, torque, k[0]);
    for (int stage = 1; stage < 4; stage++) {
        double h = stage == 3 ? STEP_S : STEP_S / 2;
        for (int i = 0; i < 4; i++) y[i] = x[i] + h * k[stage - 1][i];
        accelerate(y, torque, k[stage]);
    }
    for (int i = 0; i < 4; i++) x[i] += STEP_S / 6 * (k[0][i] + 2 * k[1][i] + 2 * k[2][i] + k[3][i]);
    for (int i = 0; i < 2; i++) {
        p->angle[i] = remainder(x[i], 2 * 3.14159265358979323846);
        p->rate[i] = fmax(-50, fmin(50, x[2 + i]));
    }
}

static void advance_one(sg_environment *e) {
    pendulum *p = &e->state[e->next];
    if (++e->next == e->options.envs) e->next = 0;
    for (int i = 0; i < SUBSTEPS; i++) runge_kutta(p, -0.5 * p->rate[0]);
}

sg_code sg_environment_open(const sg_environment_options *options, sg_environment **environment, sg_status *status) {
    *environment = NULL;
    if (options->envs < 1 || options->envs > 1 << 24)
        return sg_fail(status, SG_BAD_INPUT, "opening an environment: %lld environments, must be 1 to 16777216",
                       (long long)options->envs);
    if (!(options->env_step_s >= 0) || !(options->env_step_s <= 3600))
        return sg_fail(status, SG_BAD_INPUT, "opening an environment: a step of %g s, must be 0 to 3600",
                       options->env_step_s);
    if (options->simulated && options->env_step_s == 0)
        return sg_fail(status, SG_BAD_INPUT, "simulating an environment: the cost of its step must be given");
    sg_environment *e = calloc(1, sizeof *e);
    if (e) e->state = calloc((size_t)options->envs, sizeof *e->state);
    if (!e || !e->state) {
        free(e);
        return sg_fail_memory(status, (unsigned long long)options->envs * sizeof(pendulum), "an environment");
    }
    e->options = *options;
    for (int64_t i = 0; i < options->envs; i++) e->state[i].angle[0] = 0.1 + 0.001 * (double)(i % 1000);
    *environment = e;
    return SG_OK;
}

void sg_environment_close(sg_environment *e) {
    if (!e) return;
    free(e->state);
    free(e);
}

sg_code sg_environment_step(sg_environment *e, int64_t env_steps, double *wait_s, sg_status *status) {
    *wait_s = 0;
    if (env_steps < 0) return sg_fail(status, SG_BAD_INPUT, "%lld environment steps", (long long)env_steps);
    double cost = e->options.env_step_s * (double)env_steps;
    if (e->options.simulated) {
        *wait_s = cost;
    } else if (e->options.env_step_s > 0) {
        double end = sg_clock_thread_s() + cost;
        while (sg_clock_thread_s() < end)
            for (int i = 0; i < 8; i++) advance_one(e);
    } else {
        double start = sg_clock_thread_s();
        for (int64_t i = 0; i < env_steps; i++) advance_one(e);
        e->spent_s += sg_clock_thread_s() - start;
    }
    e->steps += env_steps;
    return SG_OK;
}

double sg_environment_step_s(const sg_environment *e) {
    if (e->options.env_step_s > 0) return e->options.env_step_s;
    return e->steps ? e->spent_s / (double)e->steps : 0;
}
