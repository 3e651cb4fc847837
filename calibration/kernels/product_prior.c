#include "calibration/kernels/product_prior.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rounds of expectation maximisation: later ones change left-out errors by less than 0.1 points. */
enum { ROUNDS = 6 };
/* The starting variances count as many devices as this; a device scatters at least so much around its model. */
static const double START_WEIGHT = 2, LEAST_NOISE = 0.03;

/* What is taken of a GPU before any is measured: round numbers, with standard deviations of the coordinates. */
static const struct {
    sg_machine_id id;
    double value, sd;
} before[SG_PRODUCT_TERMS] = {
    {SG_M_EVENT_PRODUCT_S, 20e-6, 0.5},
    {SG_M_EFF_GEMM, 0.9, 1.0},
    {SG_M_EFF_BMM, 0.9, 1.0},
    {SG_M_FLOP_ENERGY_J, 15e-12, 0.3},
    {SG_M_NODE_GAIN, 2, 0.3},
    {SG_M_LANE_SHARE, 0.8, 0.7},
    {SG_M_TILE_POWER, 1, 0.5},
    {SG_M_TILE_FILL, 8, 1.0},
    {SG_M_WAVE_SHARE, 0.9, 1.2},
    {SG_M_PRODUCT_JOIN, 4, 1.0},
    {SG_M_PRODUCT_TRAFFIC_SHARE, 0.85, 1.0},
    {SG_M_DRIFT_LENGTH, 20e3, 1.5},
    {SG_M_DRIFT_SHARE, 0.35, 0.7},
    {SG_M_DRIFT_WAVES, 0.2, 0.8},
    {SG_M_CLOCK_FADE, 0.02, 1.2},
    {SG_M_CLOCK_FADE_BMM, 0.02, 1.5},
    {SG_M_CLOCK_FADE_S, 0.02, 0.15},
    {SG_M_UNALIGNED, 1.05, 0.1},
    {SG_M_SPLIT_K_S, 30e-6, 1.2},
};

void sg_product_prior_before(sg_product_prior *prior) {
    memset(prior, 0, sizeof *prior);
    for (size_t i = 0; i < SG_PRODUCT_TERMS; i++)
        for (size_t j = 0; j < SG_PRODUCT_TERMS; j++) {
            if (before[j].id != sg_product_term(i)) continue;
            prior->mean[i] = sg_product_coordinate(before[j].id, before[j].value);
            prior->covariance[i * SG_PRODUCT_TERMS + i] = before[j].sd * before[j].sd;
        }
}

typedef struct estimate {
    double x[SG_PRODUCT_TERMS], variance[SG_PRODUCT_TERMS];
    double noise;
} estimate;

static sg_code fit_group(sg_product_group *group, const sg_product_prior *prior, estimate *e, sg_status *status) {
    sg_product_fit fit;
    sg_code code = sg_product_fit_rows(group->rows, group->n, prior, e->noise, &group->machine, &fit, status);
    if (code) return sg_fail_in(status, "device %s", group->machine.name);
    for (size_t i = 0; i < SG_PRODUCT_TERMS; i++) e->x[i] = NAN;
    for (size_t j = 0; j < fit.n_terms; j++)
        for (size_t i = 0; i < SG_PRODUCT_TERMS; i++) {
            if (sg_product_term(i) != fit.term[j]) continue;
            double value = group->machine.p[fit.term[j]].value, slope = sg_product_slope(fit.term[j], value);
            e->x[i] = sg_product_coordinate(fit.term[j], value);
            e->variance[i] = fit.covariance[j * fit.n_terms + j] / (slope * slope);
        }
    e->noise = fmax(LEAST_NOISE, fit.residual_log_sd);
    return SG_OK;
}

static void maximise(const estimate *e, size_t n, const sg_product_prior *start, sg_product_prior *prior) {
    for (size_t i = 0; i < SG_PRODUCT_TERMS; i++) {
        double sum = 0, weight = 0, spread = 0;
        double at = start->covariance[i * SG_PRODUCT_TERMS + i];
        /* how soon a board reacts is its controller's, which few devices show: left as it is */
        if (!isfinite(start->mean[i]) || sg_product_term(i) == SG_M_CLOCK_FADE_S) continue;
        /* a device that says nothing of a parameter has the prior's own value and variance */
        for (size_t d = 0; d < n; d++) {
            sum += e[d].x[i];
            weight += 1;
        }
        sum += START_WEIGHT * 0.25 * start->mean[i];
        weight += START_WEIGHT * 0.25;
        prior->mean[i] = sum / weight;
        for (size_t d = 0; d < n; d++)
            spread += (e[d].x[i] - prior->mean[i]) * (e[d].x[i] - prior->mean[i]) + e[d].variance[i];
        prior->covariance[i * SG_PRODUCT_TERMS + i] = (spread + START_WEIGHT * at) / ((double)n + START_WEIGHT);
    }
}

sg_code sg_product_prior_fit(sg_product_group *groups, size_t n, const sg_product_prior *start, sg_product_prior *prior,
                             sg_status *status) {
    if (!n) return sg_fail(status, SG_BAD_INPUT, "a prior over devices needs the rows of at least one");
    estimate *e = calloc(n, sizeof *e);
    if (!e) return sg_fail_memory(status, n * sizeof *e, "a prior over devices");
    for (size_t d = 0; d < n; d++) e[d].noise = 0.05;
    *prior = *start;
    sg_code code = SG_OK;
    for (int round = 0; round < ROUNDS && !code; round++) {
        for (size_t d = 0; d < n && !code; d++) code = fit_group(&groups[d], prior, &e[d], status);
        if (!code) maximise(e, n, start, prior);
    }
    free(e);
    return code;
}
