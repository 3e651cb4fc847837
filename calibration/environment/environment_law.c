#include "calibration/environment/environment_law.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct prior {
    const char *simulator;
    double fixed_s, fixed_log_sd;
} prior;

/* Fixed part of a step. Isaac Lab 25 ms and mjlab 5 ms, log sd 0.5 (two numbers of environments each on an RTX 5090 and 7.6 ms
 * at one environment of mjlab); Isaac Gym 12.8 and 54 ms at 64 environments of two tasks. Others: all of these. */
static const prior priors[] = {{"isaac-lab", 25e-3, 0.5}, {"mjlab", 5e-3, 0.5}, {"isaac-gym", 26e-3, 0.7}};
static const prior unknown = {"", 15e-3, 1.0};

/* Seconds per environment and step beyond it: 2 us (cartpole), 2.6 (G1 rough, RTX 5090), 5.8 (mjlab G1, RTX 5090), 9 (G1 rough,
 * L40), 10 (Ant) in published logs of 4,096 environments. */
static const double PER_ENV_S = 4.5e-6, PER_ENV_LOG_SD = 0.8;

/* Medians of a log's iterations move by this between runs of one machine (clocks, resets of terrains). */
static const double POINT_LOG_SD = 0.05;

static bool begins_with(const char *name, const char *simulator) {
    size_t n = strlen(simulator);
    for (size_t i = 0; i < n; i++) {
        char a = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] + 32) : name[i];
        if (a != simulator[i] && !(simulator[i] == '-' && (a == '_' || a == ' '))) return false;
    }
    return name[n] == '\0' || strchr("-_/ :", name[n]) != NULL;
}

static const prior *prior_of(const char *task) {
    for (size_t i = 0; task && i < sizeof priors / sizeof *priors; i++)
        if (begins_with(task, priors[i].simulator)) return &priors[i];
    return &unknown;
}

const char *sg_environment_simulator(const char *task) {
    return prior_of(task)->simulator;
}

static const char mark[] = "environment=";

void sg_environment_mark(const char *task, char *dataset, size_t bytes) {
    if (task && task[0]) (void)snprintf(dataset, bytes, "%s%s", mark, task);
}

const char *sg_environment_task(const char *dataset) {
    size_t n = sizeof mark - 1;
    return strncmp(dataset, mark, n) == 0 ? dataset + n : "";
}

/* ---- two constants ------------------------------------------------------------------------------------------------- */

/* Normal equations in (log c0, log c1): h the curvature, g the gradient's negative. */
typedef struct normal {
    double h00, h01, h11, g0, g1;
} normal;

static normal normal_at(const prior *p, const sg_environment_point *points, size_t n, double c0, double c1) {
    double w0 = 1 / (p->fixed_log_sd * p->fixed_log_sd), w1 = 1 / (PER_ENV_LOG_SD * PER_ENV_LOG_SD);
    double w = 1 / (POINT_LOG_SD * POINT_LOG_SD);
    normal e = {.h00 = w0, .h11 = w1, .g0 = -w0 * log(c0 / p->fixed_s), .g1 = -w1 * log(c1 / PER_ENV_S)};
    for (size_t i = 0; i < n; i++) {
        double f = c0 + c1 * points[i].envs, s0 = c0 / f, s1 = c1 * points[i].envs / f;
        double residual = log(points[i].step_s / f);
        e.h00 += w * s0 * s0;
        e.h01 += w * s0 * s1;
        e.h11 += w * s1 * s1;
        e.g0 += w * s0 * residual;
        e.g1 += w * s1 * residual;
    }
    return e;
}

/* No step of a Newton iteration is longer than a factor of e. */
static double bounded(double step) {
    return fmax(-1, fmin(1, step));
}

static void solve(const prior *p, const sg_environment_point *points, size_t n, double *c0, double *c1) {
    *c0 = p->fixed_s;
    *c1 = PER_ENV_S;
    for (int i = 0; i < 200; i++) {
        normal e = normal_at(p, points, n, *c0, *c1);
        double det = e.h00 * e.h11 - e.h01 * e.h01; /* positive: the prior's part is */
        double d0 = bounded((e.h11 * e.g0 - e.h01 * e.g1) / det), d1 = bounded((e.h00 * e.g1 - e.h01 * e.g0) / det);
        /* Half steps: the model bends between its two asymptotes. */
        *c0 *= exp(0.5 * d0);
        *c1 *= exp(0.5 * d1);
        if (fabs(d0) + fabs(d1) < 1e-10) return;
    }
}

static double residual_log_sd(const sg_environment_point *points, size_t n, double c0, double c1) {
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        double r = log(points[i].step_s / (c0 + c1 * points[i].envs));
        squares += r * r;
    }
    return n > 2 ? fmax(POINT_LOG_SD, sqrt(squares / (double)(n - 2))) : POINT_LOG_SD;
}

/* A second point tells most where the other constant rules: few environments where the first one's step was mostly theirs,
 * many where it was mostly the fixed part. */
static double next_envs(const sg_law *law) {
    if (law->high_x > law->low_x) return 2 * law->high_x;
    bool mostly_fixed = law->value[1] * law->high_x < law->value[0] / 4;
    return mostly_fixed ? 8 * law->high_x : fmax(1, law->high_x / 8);
}

sg_code sg_environment_fit(const char *task, const sg_environment_point *points, size_t n, sg_law *law,
                           sg_status *status) {
    const prior *p = prior_of(task);
    double c0, c1;
    memset(law, 0, sizeof *law);
    for (size_t i = 0; i < n; i++) {
        if (points[i].envs >= 1 && points[i].envs < 1e12 && points[i].step_s > 1e-9 && points[i].step_s < 1e9) continue;
        return sg_fail(status, SG_BAD_INPUT, "environments of %.60s: %g of them with %g s a step are no measurement",
                       task && task[0] ? task : "an unnamed task", points[i].envs, points[i].step_s);
    }
    solve(p, points, n, &c0, &c1);
    normal e = normal_at(p, points, n, c0, c1);
    double det = e.h00 * e.h11 - e.h01 * e.h01;
    (void)snprintf(law->quantity, sizeof law->quantity, "collection_step_s");
    (void)snprintf(law->config.policy, sizeof law->config.policy, "ppo");
    sg_environment_mark(task, law->config.dataset, sizeof law->config.dataset);
    law->kind = SG_LAW_AFFINE;
    law->n_terms = law->n_fitted = 2;
    law->n_points = n;
    law->value[0] = c0;
    law->value[1] = c1;
    law->covariance[0] = e.h11 / det * c0 * c0;
    law->covariance[1] = law->covariance[SG_LAW_TERMS] = -e.h01 / det * c0 * c1;
    law->covariance[SG_LAW_TERMS + 1] = e.h00 / det * c1 * c1;
    for (size_t i = 0; i < 2; i++) law->error[i] = sqrt(law->covariance[i * (SG_LAW_TERMS + 1)]);
    for (size_t i = 0; i < n; i++) {
        law->low_x = i ? fmin(law->low_x, points[i].envs) : points[i].envs;
        law->high_x = fmax(law->high_x, points[i].envs);
    }
    law->residual_log_sd = n ? residual_log_sd(points, n, c0, c1) : 0;
    law->left_out_log_sd = NAN;
    (void)snprintf(law->next_point, sizeof law->next_point, "a log with %.0f environments", next_envs(law));
    return SG_OK;
}

double sg_environment_saturation(const sg_law *law) {
    return 9 * law->value[0] / law->value[1];
}

/* ---- of a fit ------------------------------------------------------------------------------------------------------ */

static bool tells(const sg_point *p) {
    return strcmp(p->source, "observed") == 0 && p->config.envs > 0 && p->config.steps_per_env > 0 &&
           p->q[SG_Q_COLLECTION].median > 0;
}

static sg_code append(const sg_law *law, sg_fit *fit, sg_status *status) {
    sg_law *grown = realloc(fit->laws, (fit->n_laws + 1) * sizeof *grown);
    if (!grown) return sg_fail_memory(status, (fit->n_laws + 1) * sizeof *grown, "laws");
    fit->laws = grown;
    fit->laws[fit->n_laws++] = *law;
    return SG_OK;
}

static sg_code fit_task(const sg_point *observed, size_t n, size_t first, sg_environment_point *room, sg_fit *fit,
                        sg_status *status) {
    const char *dataset = observed[first].config.dataset;
    size_t kept = 0;
    for (size_t i = first; i < n; i++)
        if (tells(&observed[i]) && strcmp(observed[i].config.dataset, dataset) == 0)
            room[kept++] =
                (sg_environment_point){(double)observed[i].config.envs, observed[i].q[SG_Q_COLLECTION].median /
                                                                            (double)observed[i].config.steps_per_env};
    sg_law law;
    sg_code code = sg_environment_fit(sg_environment_task(dataset), room, kept, &law, status);
    if (code != SG_OK) return code;
    law.config = observed[first].config;
    law.config.envs = (int64_t)law.high_x;
    return append(&law, fit, status);
}

sg_code sg_fit_environments(const sg_point *observed, size_t n, sg_fit *fit, sg_status *status) {
    sg_environment_point *room = calloc(n ? n : 1, sizeof *room);
    sg_code code = room ? SG_OK : sg_fail_memory(status, n * sizeof *room, "environments");
    for (size_t i = 0; code == SG_OK && i < n; i++) {
        bool first = tells(&observed[i]);
        for (size_t k = 0; first && k < i; k++)
            first = !tells(&observed[k]) || strcmp(observed[k].config.dataset, observed[i].config.dataset) != 0;
        if (first) code = fit_task(observed, n, i, room, fit, status);
    }
    free(room);
    return code;
}

const sg_law *sg_environment_find(const sg_fit *fit, const char *task) {
    const sg_law *found = NULL;
    for (size_t i = 0; i < fit->n_laws; i++) {
        const sg_law *law = &fit->laws[i];
        if (strcmp(law->quantity, "collection_step_s") != 0) continue;
        if (task && strcmp(sg_environment_task(law->config.dataset), task) != 0) continue;
        if (!task && found) return NULL; /* which of them? */
        found = law;
    }
    return found;
}
