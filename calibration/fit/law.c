#include "calibration/fit/law.h"

#include "calibration/statistics/least_squares.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { POINTS_MAX = 64 };
static const double KNEE = 6; /* sharpness of the smooth maximum; 4-8 describe host-device overlap equally well */

static const struct {
    const char *formula;
    size_t terms, fitted;
    const char *term[SG_LAW_TERMS];
} kinds_table[SG_LAW_KIND_COUNT] = {
    [SG_LAW_WALK] = {"c (w0 + w1 x), w0 and w1 from the walk of the step program", 3, 1, {"c", "w0", "w1"}},
    [SG_LAW_AFFINE] = {"a + b x", 2, 2, {"a", "b"}},
    [SG_LAW_KNEE] = {"(h^6 + (a + b x)^6)^(1/6)", 3, 3, {"h", "a", "b"}},
    [SG_LAW_LINEAR] = {"b x", 1, 1, {"b"}},
};

const char *sg_law_formula(sg_law_kind kind) {
    return kinds_table[kind].formula;
}
const char *sg_law_term(sg_law_kind kind, size_t i) {
    return i < kinds_table[kind].terms ? kinds_table[kind].term[i] : "";
}

/* Value and d value / d term. Terms are physical and positive, so the fit works on their logarithms: d / d log term. */
static double law_value(sg_law_kind kind, const double *v, double x, double *slope) {
    double s[SG_LAW_TERMS] = {0}, y = 0;
    switch (kind) {
    case SG_LAW_WALK:
        y = v[0] * (v[1] + v[2] * x);
        s[0] = y;
        break;
    case SG_LAW_AFFINE:
        y = v[0] + v[1] * x;
        s[0] = v[0];
        s[1] = v[1] * x;
        break;
    case SG_LAW_KNEE: {
        double device = v[1] + v[2] * x, high = fmax(v[0], device);
        double h = pow(v[0] / high, KNEE), d = pow(device / high, KNEE);
        y = high * pow(h + d, 1 / KNEE);
        s[0] = y * h / (h + d);
        s[1] = y * d / (h + d) * v[1] / device;
        s[2] = y * d / (h + d) * v[2] * x / device;
        break;
    }
    case SG_LAW_LINEAR:
        y = v[0] * x;
        s[0] = y;
        break;
    case SG_LAW_KIND_COUNT: break;
    }
    if (slope) memcpy(slope, s, sizeof s);
    return y;
}

typedef struct law_fit {
    const sg_law_point *points;
    size_t n;
    sg_law_kind kind;
    double fixed[SG_LAW_TERMS]; /* walk: w0, w1 */
} law_fit;

static void terms_of(const law_fit *f, const double *log_term, double *v) {
    size_t fitted = kinds_table[f->kind].fitted;
    for (size_t j = 0; j < SG_LAW_TERMS; j++) v[j] = j < fitted ? exp(log_term[j]) : f->fixed[j];
}

static sg_code evaluate(const double *x, double *residual, double *jacobian, void *user, sg_status *status) {
    (void)status;
    const law_fit *f = user;
    size_t fitted = kinds_table[f->kind].fitted;
    double v[SG_LAW_TERMS], slope[SG_LAW_TERMS];
    terms_of(f, x, v);
    for (size_t i = 0; i < f->n; i++) {
        const sg_law_point *p = &f->points[i];
        double y = law_value(f->kind, v, p->x, slope);
        residual[i] = (log(y) - log(p->y)) / p->log_sd;
        for (size_t j = 0; j < fitted; j++) jacobian[i * fitted + j] = slope[j] / y / p->log_sd;
    }
    return SG_OK;
}

/* Start: the line through the first and last point, with a little of everything, so that no term starts at nothing. */
static void start_of(const law_fit *f, double *log_term) {
    const sg_law_point *low = &f->points[0], *high = &f->points[0];
    for (size_t i = 1; i < f->n; i++) {
        if (f->points[i].x < low->x) low = &f->points[i];
        if (f->points[i].x > high->x) high = &f->points[i];
    }
    double b = high->x > low->x ? (high->y - low->y) / (high->x - low->x) : low->y / fmax(low->x, 1);
    if (!(b > 0.01 * low->y / fmax(low->x, 1))) b = 0.01 * low->y / fmax(low->x, 1);
    double a = fmax(low->y - b * low->x, 0.02 * low->y);
    switch (f->kind) {
    case SG_LAW_WALK: log_term[0] = log(low->y / fmax(f->fixed[1] + f->fixed[2] * low->x, 1e-300)); break;
    case SG_LAW_AFFINE:
        log_term[0] = log(a);
        log_term[1] = log(b);
        break;
    case SG_LAW_KNEE:
        log_term[0] = log(0.8 * low->y);
        log_term[1] = log(a);
        log_term[2] = log(b);
        break;
    case SG_LAW_LINEAR: log_term[0] = log(high->y / fmax(high->x, 1e-300)); break;
    case SG_LAW_KIND_COUNT: break;
    }
}

/* Log covariance of the fitted terms into `covariance` (fitted x fitted) when not NULL. */
static bool fit_kind(law_fit *f, double *log_term, double *covariance, double *cost) {
    sg_status ignored;
    sg_least_squares problem = {
        .rows = f->n, .robust_rows = f->n, .terms = kinds_table[f->kind].fitted, .evaluate = evaluate, .user = f};
    start_of(f, log_term);
    return sg_least_squares_solve(&problem, log_term, covariance, cost, &ignored) == SG_OK;
}

/* Root mean square of the log error at each point when it, and all others at the same x, are left out. */
static double left_out_log_sd(const law_fit *all) {
    double sum = 0;
    size_t scored = 0;
    for (size_t i = 0; i < all->n; i++) {
        sg_law_point rest[POINTS_MAX];
        size_t n = 0;
        for (size_t k = 0; k < all->n; k++)
            if (all->points[k].x != all->points[i].x) rest[n++] = all->points[k];
        law_fit part = *all;
        part.points = rest;
        part.n = n;
        double log_term[SG_LAW_TERMS], v[SG_LAW_TERMS];
        if (n < kinds_table[all->kind].fitted || !fit_kind(&part, log_term, NULL, NULL)) continue;
        terms_of(&part, log_term, v);
        double error = log(law_value(all->kind, v, all->points[i].x, NULL) / all->points[i].y);
        sum += error * error;
        scored++;
    }
    return scored ? sqrt(sum / (double)scored) : INFINITY;
}

/* A term that the data press to nothing, or that they leave open, is none: another formula says the same without it. */
static bool is_determined(const sg_law *law) {
    for (size_t i = 0; i < law->n_fitted; i++)
        if (!isnormal(law->value[i]) || law->value[i] < 0) return false;
    for (size_t i = 0; i < SG_LAW_TERMS * SG_LAW_TERMS; i++)
        if (!isfinite(law->covariance[i])) return false;
    return isfinite(law->residual_log_sd);
}

static bool fit_law(law_fit *f, sg_law *law) {
    double log_term[SG_LAW_TERMS], covariance[SG_LAW_TERMS * SG_LAW_TERMS], cost;
    if (!fit_kind(f, log_term, covariance, &cost)) return false;
    size_t fitted = kinds_table[f->kind].fitted;
    law->kind = (int32_t)f->kind;
    law->n_terms = kinds_table[f->kind].terms;
    law->n_fitted = fitted;
    law->n_points = f->n;
    terms_of(f, log_term, law->value);
    double freedom = (double)(f->n > fitted ? f->n - fitted : 1), scale = fmax(cost / freedom, 1), squares = 0;
    memset(law->covariance, 0, sizeof law->covariance);
    for (size_t i = 0; i < fitted; i++) {
        for (size_t j = 0; j < fitted; j++)
            law->covariance[i * SG_LAW_TERMS + j] = scale * covariance[i * fitted + j] * law->value[i] * law->value[j];
        law->error[i] = sqrt(law->covariance[i * SG_LAW_TERMS + i]);
    }
    law->low_x = law->high_x = f->points[0].x;
    for (size_t i = 0; i < f->n; i++) {
        double error = log(law_value(f->kind, law->value, f->points[i].x, NULL) / f->points[i].y);
        squares += error * error;
        law->low_x = fmin(law->low_x, f->points[i].x);
        law->high_x = fmax(law->high_x, f->points[i].x);
    }
    law->residual_log_sd = sqrt(squares / freedom);
    law->left_out_log_sd = left_out_log_sd(f);
    return is_determined(law);
}

/* Different x: points at one x, of several worker counts, tell no slope. */
static size_t distinct(const sg_law_point *points, size_t n) {
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < i && points[k].x != points[i].x) k++;
        found += k == i;
    }
    return found;
}

bool sg_law_choose(const sg_law_point *points, size_t n, unsigned kinds, const double *shape, sg_law *law,
                   size_t *needed) {
    bool found = false;
    *needed = POINTS_MAX;
    if (n > POINTS_MAX) n = POINTS_MAX;
    for (int k = 0; k < SG_LAW_KIND_COUNT; k++) {
        if (!(kinds & 1u << k) || (k == SG_LAW_WALK && !shape)) continue;
        size_t least = kinds_table[k].fitted + 2;
        if (least < *needed) *needed = least;
        if (n < least || distinct(points, n) < kinds_table[k].fitted) continue;
        law_fit f = {.points = points, .n = n, .kind = (sg_law_kind)k};
        if (k == SG_LAW_WALK) {
            f.fixed[1] = shape[0];
            f.fixed[2] = shape[1];
        }
        sg_law candidate = *law;
        if (!fit_law(&f, &candidate)) continue;
        /* A richer formula must earn its terms: a tenth better on what it has not seen. */
        if (!found || candidate.left_out_log_sd < 0.9 * law->left_out_log_sd) *law = candidate;
        found = true;
    }
    return found;
}

void sg_law_at(const sg_law *law, double x, double *value, double *log_sd) {
    double slope[SG_LAW_TERMS], variance = 0;
    *value = law_value((sg_law_kind)law->kind, law->value, x, slope);
    for (size_t i = 0; i < law->n_fitted; i++)
        for (size_t j = 0; j < law->n_fitted; j++)
            variance += slope[i] / law->value[i] * slope[j] / law->value[j] * law->covariance[i * SG_LAW_TERMS + j];
    double relative = *value > 0 ? sqrt(fmax(variance, 0)) / *value : 0;
    double seen =
        isfinite(law->left_out_log_sd) ? fmax(law->residual_log_sd, law->left_out_log_sd) : law->residual_log_sd;
    /* Beyond the measured range nothing has been seen: 5 % more for each doubling. */
    double beyond = x > law->high_x && law->high_x > 0 ? log2(x / law->high_x)
                    : x < law->low_x && x > 0          ? log2(law->low_x / x)
                                                       : 0;
    *log_sd = sqrt(relative * relative + seen * seen + 0.05 * 0.05 * beyond * beyond);
}

static bool same_configuration(const sg_point_config *a, const sg_point_config *b) {
    return strcmp(a->policy, b->policy) == 0 && strcmp(a->framework, b->framework) == 0 &&
           strcmp(a->device, b->device) == 0 && strcmp(a->precision, b->precision) == 0 &&
           strcmp(a->settings, b->settings) == 0 && a->ranks == b->ranks && a->accumulation == b->accumulation &&
           (a->threads == b->threads || b->threads == 0) && a->cameras == b->cameras &&
           a->image_height == b->image_height && a->image_width == b->image_width;
}

const sg_law *sg_law_find(const sg_fit *fit, const char *quantity, const sg_point_config *config) {
    for (size_t i = 0; i < fit->n_laws; i++)
        if (strcmp(fit->laws[i].quantity, quantity) == 0 && same_configuration(&fit->laws[i].config, config))
            return &fit->laws[i];
    return NULL;
}
