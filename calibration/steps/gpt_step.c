/* gpt_step.c: one optimizer step of a GPT trained data-parallel by Megatron-LM on A100s, as a closed form. */
#include "calibration/steps/gpt_step.h"

#include <math.h>

#include "calibration/statistics/least_squares.h"

const sg_gpt_numbers SG_GPT_FITTED = {{0.8523, 61.53, 2.90e-3, 3.799, 50.24, 7.10e-3, 0.2305}};

/* Megatron-LM pads GPT-2's 50,257 tokens to a multiple of 128 x tensor-parallel ranks: 51,200 in the tables. */
static const double VOCABULARY = 51200;

/* The tile that cuBLAS takes for most half-precision products on an A100. */
static const double TILE_ROWS = 256, TILE_COLUMNS = 128;

/* Bytes per parameter that are always there: weight and gradient in half precision, fp32 copy, gradient and two moments
 * (Rajbhandari et al. 2020, with an fp32 gradient beside). Activations of a layer: s b h (34 + 5 a s / h) bytes (Korthikanti
 * et al. 2022, formula 1). */
static const double STATE_BYTES = 18, ACTIVATION = 34, ACTIVATION_SCORES = 5;

/* A node: 8 GPUs, a 200 Gb/s link of its own for each (DGX A100). Gradients travel in half precision. */
static const double NODE_GPUS = 8, NODE_LINK_BYTES = 8 * 25e9, GRADIENT_BYTES = 2;

enum { E, ATTENTION_BYTES, HOST_S, POWER, STATE_PASSES, HEAD_HOST_S, HEAD_E };

static double parameters_of(const sg_gpt_training *t) {
    return 12 * t->layers * t->hidden * t->hidden + (VOCABULARY + t->tokens) * t->hidden;
}

bool sg_gpt_recomputes(const sg_gpt_training *t, const sg_gpt_machine *m) {
    double activations = t->layers * t->tokens * t->micro * t->hidden *
                         (ACTIVATION + ACTIVATION_SCORES * t->heads * t->tokens / t->hidden);
    return activations + STATE_BYTES * parameters_of(t) > m->memory_bytes;
}

/* Time of whole waves over that of the work alone. */
static double waves(double rows, double columns, int units) {
    double tiles = ceil(rows / TILE_ROWS) * ceil(columns / TILE_COLUMNS);
    double work = rows * columns / (TILE_ROWS * TILE_COLUMNS);
    return ceil(tiles / units) * units / work;
}

/* Mean over the products of a layer (query, key and value together; output; up; down) and their two backward products,
 * weighted by FLOPs. */
static double layer_waves(double tok, double h, int units) {
    const double in[4] = {h, h, h, 4 * h}, out[4] = {3 * h, h, 4 * h, h};
    double sum = 0, all = 0;
    for (int i = 0; i < 4; i++) {
        double flops = in[i] * out[i];
        sum += flops * (waves(tok, out[i], units) + waves(tok, in[i], units) + waves(out[i], in[i], units));
        all += 3 * flops;
    }
    return sum / all;
}

static double joined(double a, double b, double q) {
    double high = fmax(a, b), low = fmin(a, b);
    return high * pow(1 + pow(low / high, q), 1 / q);
}

static double exchange_s(const sg_gpt_training *t) {
    double nodes = ceil(t->ranks / NODE_GPUS);
    if (nodes <= 1) return 0;
    return 2 * (nodes - 1) / nodes * GRADIENT_BYTES * parameters_of(t) / NODE_LINK_BYTES;
}

double sg_gpt_step_s(const sg_gpt_training *t, const sg_gpt_machine *m, const sg_gpt_numbers *numbers) {
    const double *v = numbers->value, P = m->peak_flops, W = m->bandwidth;
    double h = t->hidden, s = t->tokens, tok = t->micro * s, again = sg_gpt_recomputes(t, m) ? 4.0 / 3 : 1;
    double products = 72 * tok * h * h * layer_waves(tok, h, m->units) / (P * v[E]);
    double attention = again * (12 * tok * s * h / (P * v[E]) + t->micro * t->heads * s * s * v[ATTENTION_BYTES] / W);
    double layer = joined(products + attention, v[HOST_S], v[POWER]);
    double logits = 6 * tok * h * VOCABULARY / (P * v[HEAD_E]) + 16 * tok * VOCABULARY / W;
    double head = joined(logits, v[HEAD_HOST_S], v[POWER]);
    return t->accumulation * (t->layers * layer + head) + parameters_of(t) * v[STATE_PASSES] / W + exchange_s(t);
}

/* ---- fitting ---- */

/* Rows are as good as this, and the prior as weak as that, in log units. */
static const double ROW_LOG_SD = 0.02, PRIOR_LOG_SD = 1.0, DIFFERENCE = 1e-6;

typedef struct problem {
    const sg_gpt_training *trainings;
    const double *measured_s;
    size_t n;
    const sg_gpt_machine *machine;
} problem;

static sg_gpt_numbers numbers_at(const double *x) {
    sg_gpt_numbers numbers;
    for (int i = 0; i < SG_GPT_TERMS; i++) numbers.value[i] = SG_GPT_FITTED.value[i] * exp(x[i]);
    return numbers;
}

static double residual_of(const problem *p, size_t row, const double *x) {
    sg_gpt_numbers numbers = numbers_at(x);
    return log(sg_gpt_step_s(&p->trainings[row], p->machine, &numbers) / p->measured_s[row]) / ROW_LOG_SD;
}

static sg_code evaluate(const double *x, double *residual, double *jacobian, void *user, sg_status *status) {
    const problem *p = user;
    (void)status;
    for (size_t i = 0; i < p->n; i++) {
        residual[i] = residual_of(p, i, x);
        for (int k = 0; k < SG_GPT_TERMS && jacobian; k++) {
            double moved[SG_GPT_TERMS];
            for (int j = 0; j < SG_GPT_TERMS; j++) moved[j] = x[j] + (j == k ? DIFFERENCE : 0);
            jacobian[i * SG_GPT_TERMS + (size_t)k] = (residual_of(p, i, moved) - residual[i]) / DIFFERENCE;
        }
    }
    for (size_t k = 0; k < SG_GPT_TERMS; k++) {
        residual[p->n + k] = x[k] / PRIOR_LOG_SD;
        for (size_t j = 0; j < SG_GPT_TERMS && jacobian; j++)
            jacobian[(p->n + k) * SG_GPT_TERMS + j] = j == k ? 1 / PRIOR_LOG_SD : 0;
    }
    return SG_OK;
}

sg_code sg_gpt_fit(const sg_gpt_training *trainings, const double *measured_s, size_t n, const sg_gpt_machine *machine,
                   sg_gpt_numbers *numbers, sg_status *status) {
    if (n < SG_GPT_TERMS)
        return sg_fail(status, SG_BAD_INPUT, "fitting the step of a GPT: %zu rows for %d numbers", n, SG_GPT_TERMS);
    problem p = {trainings, measured_s, n, machine};
    sg_least_squares squares = {
        .rows = n + SG_GPT_TERMS, .robust_rows = n, .terms = SG_GPT_TERMS, .evaluate = evaluate, .user = &p};
    double x[SG_GPT_TERMS] = {0};
    sg_code code = sg_least_squares_solve(&squares, x, NULL, NULL, status);
    if (code == SG_OK) *numbers = numbers_at(x);
    return code;
}
