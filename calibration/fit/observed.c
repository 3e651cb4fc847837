#include "calibration/fit/observed.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <gsl/gsl_matrix.h>
#include <gsl/gsl_vector.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The walk is piecewise smooth in its parameters: a few linearisations settle which of its clocks decides, and steps that make
 * the misfit worse (the other clock took over) are halved. */
enum { ROUNDS = 12, BACKTRACKS = 5, STATE = SG_M_COUNT + 1, FACTOR = SG_M_COUNT };
static const double SETTLED = 1e-5; /* of log seconds */
/* Huber's k, as in least_squares.h: observations that stand apart from the others count less. */
static const double HUBER = 1.5;
/* Parameters that make less of every observation keep their own evidence. */
static const double SPEAKS_SHARE = 0.02;
/* The model's error of one policy, of which others share this part. */
static const double SHARED_VARIANCE = 0.5;

typedef struct update {
    sg_machine *machine; /* trial */
    sg_observation *seen;
    size_t n;
    sg_observed_walk walk;
    void *user;
    double *prior;  /* STATE x STATE */
    double *slope;  /* n x STATE: d log seconds / d state */
    double *fitted; /* n: log seconds */
    double *speaks; /* STATE: largest share of an observation */
    double start[STATE], state[STATE];
    uint8_t evidence[SG_M_COUNT]; /* of the prior */
    double own_variance;          /* of the model's error, the part that is not shared by all policies */
} update;

static bool is_factor(int id) {
    return id >= SG_M_FACTOR_GEMM && id < SG_M_FACTOR_LOW_PRECISION;
}

static bool is_host_cost(int id) {
    return id == SG_M_HOST_OP_S || id == SG_M_HOST_OPTIMIZER_S || id == SG_M_HOST_SYNC_S;
}

/* What scales the whole walk scales all of these. */
static bool scales(int id) {
    return is_factor(id) || is_host_cost(id);
}

/* What a compiler leaves is put in by the framework's profile whatever a machine says. */
static bool is_given(int id) {
    return id == SG_M_HOST_KEPT || id == SG_M_FUSED_BYTES;
}

/* A host whose costs were seen needs no speed beside them: its doubt becomes theirs. */
static void fold_host_speed(sg_machine *m) {
    sg_machine_parameter *speed = &m->p[SG_M_HOST_SPEED];
    if (!(speed->value > 0) || (speed->value == 1 && speed->log_sd == 0)) return;
    double variance = speed->log_sd * speed->log_sd;
    for (int i = 0; i < SG_M_COUNT; i++) {
        if (!is_host_cost(i) || !(m->p[i].value > 0)) continue;
        m->p[i].value /= speed->value;
        m->p[i].log_sd = hypot(m->p[i].log_sd, speed->log_sd);
        for (int j = 0; j < SG_M_COUNT; j++)
            if (is_host_cost(j)) m->covariance[i * SG_M_COUNT + j] += variance;
    }
    speed->value = 1;
    speed->log_sd = 0;
    for (int j = 0; j < SG_M_COUNT; j++)
        m->covariance[SG_M_HOST_SPEED * SG_M_COUNT + j] = m->covariance[j * SG_M_COUNT + SG_M_HOST_SPEED] = 0;
}

static void put(update *u) {
    for (int i = 0; i < SG_M_COUNT; i++) {
        bool moved = u->state[i] != u->start[i] || (scales(i) && u->state[FACTOR] != 0);
        if (!(u->machine->p[i].value > 0) || !moved) continue;
        u->machine->p[i].value = exp(u->state[i] + (scales(i) ? u->state[FACTOR] : 0));
    }
}

/* Walks every observation at the trial's parameters. */
static sg_code linearise(update *u, bool first, sg_status *status) {
    put(u);
    memset(u->speaks, 0, STATE * sizeof *u->speaks);
    for (size_t i = 0; i < u->n; i++) {
        double seconds = 0, by_log[SG_M_COUNT] = {0}, model = 0;
        sg_code code = u->walk(u->machine, i, &seconds, by_log, &model, u->user, status);
        if (code) return code;
        if (!(seconds > 0))
            return sg_fail(status, SG_BAD_INPUT, "a walk of no time: nothing to compare an observation with");
        if (first) {
            u->seen[i].predicted_s = seconds;
            u->seen[i].model_log_sd = fmax(model, 0.02);
            u->seen[i].weight = 1;
        }
        u->fitted[i] = log(seconds);
        double *row = &u->slope[i * STATE];
        row[FACTOR] = 1;
        for (int k = 0; k < SG_M_COUNT; k++) {
            row[k] = is_given(k) || !isfinite(by_log[k]) || !(u->machine->p[k].value > 0) ? 0 : by_log[k] / seconds;
            u->speaks[k] = fmax(u->speaks[k], fabs(row[k]));
        }
    }
    return SG_OK;
}

/* Whoever walks a data sheet puts the framework's numbers in: those of a trial are the trial's. */
static void start(update *u) {
    sg_machine *m = u->machine;
    for (int i = 0; i < SG_M_COUNT; i++) {
        u->evidence[i] = m->p[i].evidence;
        if (m->p[i].evidence == SG_EVIDENCE_DATA_SHEET) m->p[i].evidence = SG_EVIDENCE_CALIBRATED;
        u->start[i] = m->p[i].value > 0 ? log(m->p[i].value) : 0;
        for (int j = 0; j < SG_M_COUNT; j++) u->prior[i * STATE + j] = m->covariance[i * SG_M_COUNT + j];
    }
    memcpy(u->state, u->start, sizeof u->state);
}

static bool several_policies(const update *u) {
    for (size_t i = 1; i < u->n; i++)
        if (u->seen[i].policy != u->seen[0].policy) return true;
    return false;
}

/* The factor's prior is the model's error; of several policies a part of it is each policy's own. */
static void share_model_error(update *u) {
    double variance = 0;
    for (size_t i = 0; i < u->n; i++) variance = fmax(variance, u->seen[i].model_log_sd * u->seen[i].model_log_sd);
    double shared = several_policies(u) ? SHARED_VARIANCE : 1;
    u->prior[FACTOR * STATE + FACTOR] = shared * variance;
    u->own_variance = (1 - shared) * variance;
}

/* prior x slope of observation i: STATE numbers. */
static void spread(const update *u, size_t i, double *out) {
    for (int a = 0; a < STATE; a++) {
        double sum = 0;
        for (int b = 0; b < STATE; b++) sum += u->prior[a * STATE + b] * u->slope[i * STATE + b];
        out[a] = sum;
    }
}

typedef struct solution {
    gsl_matrix *seen; /* covariance of the observations, then its Cholesky factor */
    gsl_vector *misfit, *gain;
    double *spread; /* n x STATE */
} solution;

static void close_solution(solution *s) {
    gsl_matrix_free(s->seen);
    gsl_vector_free(s->misfit);
    gsl_vector_free(s->gain);
    free(s->spread);
}

static bool open_solution(const update *u, solution *s) {
    *s = (solution){gsl_matrix_alloc(u->n, u->n), gsl_vector_alloc(u->n), gsl_vector_alloc(u->n),
                    calloc(u->n * STATE, sizeof(double))};
    if (s->seen && s->misfit && s->gain && s->spread) return true;
    close_solution(s);
    return false;
}

/* Covariance of the observations under the prior, factored. */
static sg_code factor(const update *u, solution *s, sg_status *status) {
    for (size_t i = 0; i < u->n; i++) spread(u, i, &s->spread[i * STATE]);
    for (size_t i = 0; i < u->n; i++)
        for (size_t j = 0; j < u->n; j++) {
            double sum = 0;
            for (int a = 0; a < STATE; a++) sum += u->slope[i * STATE + a] * s->spread[j * STATE + a];
            if (u->seen[i].policy == u->seen[j].policy) sum += u->own_variance;
            if (i == j) sum += u->seen[i].log_sd * u->seen[i].log_sd / u->seen[i].weight;
            gsl_matrix_set(s->seen, i, j, sum);
        }
    if (gsl_linalg_cholesky_decomp1(s->seen))
        return sg_fail(status, SG_BAD_INPUT, "observed steps that contradict each other exactly");
    return SG_OK;
}

/* Log sd of observation i as the prior has it; s->spread is filled. */
static double deviation(const update *u, const solution *s, size_t i) {
    double sum = u->own_variance + u->seen[i].log_sd * u->seen[i].log_sd;
    for (int a = 0; a < STATE; a++) sum += u->slope[i * STATE + a] * s->spread[i * STATE + a];
    return sqrt(fmax(sum, 0));
}

/* Where Gauss and Newton go from the prior, with the slopes at the trial. */
static sg_code aim(update *u, double *target, sg_status *status) {
    solution s;
    if (!open_solution(u, &s)) return sg_fail_memory(status, u->n * STATE * sizeof(double), "observed steps");
    sg_code code = factor(u, &s, status);
    for (size_t i = 0; i < u->n && !code; i++) {
        double misfit = log(u->seen[i].seconds) - u->fitted[i];
        for (int a = 0; a < STATE; a++) misfit += u->slope[i * STATE + a] * (u->state[a] - u->start[a]);
        gsl_vector_set(s.misfit, i, misfit);
    }
    if (!code) (void)gsl_linalg_cholesky_solve(s.seen, s.misfit, s.gain);
    for (int a = 0; a < STATE && !code; a++) {
        target[a] = u->start[a];
        for (size_t i = 0; i < u->n; i++) target[a] += s.spread[i * STATE + a] * gsl_vector_get(s.gain, i);
    }
    for (size_t i = 0; i < u->n && !code && !(u->seen[i].doubt > 0); i++) u->seen[i].doubt = deviation(u, &s, i);
    close_solution(&s);
    return code;
}

static double misfit_of(const update *u) {
    double sum = 0;
    for (size_t i = 0; i < u->n; i++)
        sum += u->seen[i].weight * pow((log(u->seen[i].seconds) - u->fitted[i]) / u->seen[i].log_sd, 2);
    return sum;
}

/* Towards the target as far as it does not make things worse than they are, or than the observations' own errors.
 * *moved: how far the fitted times went. */
static sg_code step(update *u, double *moved, sg_status *status) {
    double target[STATE] = {0}, from[STATE], misfit = fmax(misfit_of(u), (double)u->n), before = u->fitted[0];
    sg_code code = aim(u, target, status);
    memcpy(from, u->state, sizeof from);
    for (int k = 0; k <= BACKTRACKS && !code; k++) {
        double share = ldexp(1, -k);
        for (int a = 0; a < STATE; a++) u->state[a] = from[a] + share * (target[a] - from[a]);
        code = linearise(u, false, status);
        if (!code && misfit_of(u) <= misfit) break;
    }
    *moved = code ? 0 : fabs(u->fitted[0] - before);
    return code;
}

/* Beside at least two others, what is far from the fit counts less. */
static void weigh(update *u) {
    if (u->n < 3) return;
    for (size_t i = 0; i < u->n; i++) {
        double off = fabs(log(u->seen[i].seconds) - u->fitted[i]) / u->seen[i].log_sd;
        u->seen[i].weight = off > HUBER ? HUBER / off : 1;
    }
}

/* Posterior covariance in place of the prior: P - P G' S^-1 G P. */
static sg_code shrink(update *u, sg_status *status) {
    solution s;
    if (!open_solution(u, &s)) return sg_fail_memory(status, u->n * STATE * sizeof(double), "observed steps");
    sg_code code = factor(u, &s, status);
    for (int b = 0; b < STATE && !code; b++) {
        for (size_t i = 0; i < u->n; i++) gsl_vector_set(s.misfit, i, s.spread[i * STATE + b]);
        (void)gsl_linalg_cholesky_solve(s.seen, s.misfit, s.gain);
        for (int a = 0; a < STATE; a++)
            for (size_t i = 0; i < u->n; i++)
                u->prior[a * STATE + b] -= s.spread[i * STATE + a] * gsl_vector_get(s.gain, i);
    }
    for (int a = 0; a < STATE; a++) /* rounding apart it is symmetric */
        for (int b = 0; b < a; b++) {
            double mean = 0.5 * (u->prior[a * STATE + b] + u->prior[b * STATE + a]);
            u->prior[a * STATE + b] = u->prior[b * STATE + a] = mean;
        }
    close_solution(&s);
    return code;
}

static void store(const update *u, const char *origin) {
    sg_machine *m = u->machine;
    for (int i = 0; i < SG_M_COUNT; i++)
        for (int j = 0; j < SG_M_COUNT; j++) {
            double value = u->prior[i * STATE + j];
            double by_factor = (scales(i) ? u->prior[FACTOR * STATE + j] : 0);
            by_factor += scales(j) ? u->prior[FACTOR * STATE + i] : 0;
            value += by_factor;
            if (scales(i) && scales(j)) value += u->prior[FACTOR * STATE + FACTOR];
            m->covariance[i * SG_M_COUNT + j] = i == j ? fmax(0, value) : value;
        }
    for (int i = 0; i < SG_M_COUNT; i++) {
        sg_machine_parameter *p = &m->p[i];
        p->evidence = u->evidence[i];
        if (!(p->value > 0) || is_given(i)) continue;
        p->log_sd = sqrt(fmax(0, m->covariance[i * SG_M_COUNT + i]));
        if (!scales(i) && u->speaks[i] < SPEAKS_SHARE) continue;
        /* what was measured here stays so where the logs hardly moved it */
        p->evidence = scales(i) || p->evidence == SG_EVIDENCE_OBSERVED ? SG_EVIDENCE_OBSERVED : SG_EVIDENCE_CALIBRATED;
        p->group = 0;
        (void)snprintf(p->source, sizeof p->source, "%.119s", origin);
    }
}

static void tell(const update *u, sg_observed_fit_result *r) {
    double shift = 0, squares = 0;
    for (size_t i = 0; i < u->n; i++) {
        shift += log(u->seen[i].seconds / u->seen[i].predicted_s);
        squares += pow(log(u->seen[i].seconds) - u->fitted[i], 2);
    }
    *r = (sg_observed_fit_result){.factor = exp(u->state[FACTOR]),
                                  .factor_log_sd = sqrt(fmax(0, u->prior[FACTOR * STATE + FACTOR])),
                                  .shift = exp(shift / (double)u->n),
                                  .left_log = sqrt(squares / (double)u->n)};
}

static sg_code run(update *u, const char *origin, sg_observed_fit_result *result, sg_status *status) {
    start(u);
    sg_code code = linearise(u, true, status);
    if (!code) share_model_error(u);
    double moved = 1;
    for (int round = 0; round < ROUNDS && !code && moved > SETTLED; round++) {
        code = step(u, &moved, status);
        if (!code && round + 1 < ROUNDS) weigh(u);
    }
    if (!code) code = shrink(u, status);
    if (!code) store(u, origin);
    if (!code) tell(u, result);
    return code;
}

sg_code sg_observed_fit(sg_machine *machine, sg_observation *observations, size_t n, sg_observed_walk walk, void *user,
                        const char *origin, sg_observed_fit_result *result, sg_status *status) {
    if (n == 0 || n > 1024)
        return sg_fail(status, SG_BAD_INPUT, "%zu observed steps: between 1 and 1024 are expected", n);
    sg_code code = sg_machine_covariance_make(machine, status);
    if (code) return code;
    fold_host_speed(machine);
    update *u = calloc(1, sizeof *u);
    double *prior = calloc((size_t)STATE * STATE, sizeof *prior), *slope = calloc(n * STATE, sizeof *slope);
    double *fitted = calloc(n, sizeof *fitted), *speaks = calloc(STATE, sizeof *speaks);
    if (u && prior && slope && fitted && speaks) {
        u->machine = machine;
        u->seen = observations;
        u->n = n;
        u->walk = walk;
        u->user = user;
        u->prior = prior;
        u->slope = slope;
        u->fitted = fitted;
        u->speaks = speaks;
        gsl_error_handler_t *before = gsl_set_error_handler_off(); /* errors are returned */
        code = run(u, origin, result, status);
        (void)gsl_set_error_handler(before);
    } else {
        code = sg_fail_memory(status, (size_t)STATE * STATE * sizeof *prior, "observed steps");
    }
    free(speaks);
    free(fitted);
    free(slope);
    free(prior);
    free(u);
    return code;
}
