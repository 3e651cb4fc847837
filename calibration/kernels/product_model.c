#include "calibration/kernels/product_model.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Log sd of one row around the model while fitting, at which the robust loss begins: kernel tables scatter by 3 to 6 %, and
 * few rows of a new device should move the prior as far as they can. */
static const double NOISE = 0.05, NOISE_OF_FEW = 0.035;
enum { FEW_ROWS = 100 };
/* What a model is taken to err by where nothing else is known, and how many rows that weighs over a device and at one shape.
 * Cards of 80 W and less change their clock with what ran before (kernel tables of L4 and T4: 0.16 and 0.12, P4: 0.05). */
static const double USUAL_SCATTER = 0.06, SMALL_BOARD_W = 80, SMALL_SCATTER = 0.2, DEVICE_WEIGHT = 3, USUAL_WEIGHT = 4;
/* Degrees of freedom of intervals from a prior or few rows (docs/design.md, "Evidence and intervals"). */
static const double FREEDOM = 4;
/* Parameters trade off against one another within a device, their variances over devices add up to too much: intervals from
 * the prior alone held 97 % of rows of devices left out, and are taken narrower by this. */
static const double PRIOR_WIDTH = 0.8;

static double usual_scatter(const sg_machine *m) {
    return m->board_w > 0 && m->board_w <= SMALL_BOARD_W ? SMALL_SCATTER : USUAL_SCATTER;
}

void sg_product_model_unmeasured(const sg_machine *sheet, const sg_product_prior *prior, sg_product_model *model) {
    memset(model, 0, sizeof *model);
    model->machine = *sheet;
    model->machine.covariance = NULL;
    model->prior = *prior;
    model->scatter = usual_scatter(sheet);
    for (size_t i = 0; i < SG_PRODUCT_TERMS; i++) {
        sg_machine_id id = sg_product_term(i);
        model->machine.p[id].value = isfinite(prior->mean[i]) ? sg_product_value(id, prior->mean[i]) : NAN;
    }
}

void sg_product_model_clear(sg_product_model *model) {
    sg_neighbours_free(model->measured);
    free(model->residual);
    model->measured = NULL;
    model->residual = NULL;
}

/* ---- fitting ------------------------------------------------------------------------------------------------------- */

static double noise_of(size_t n) {
    return n < FEW_ROWS ? NOISE_OF_FEW : NOISE;
}

/* With and without divided contractions: which of them a library's heuristics use is no smooth choice. */
static sg_code fit_both(const sg_product_row *const *rows, size_t n, const sg_product_prior *prior, sg_machine *machine,
                        sg_product_fit *fit, sg_status *status) {
    sg_product_prior whole = *prior;
    double noise = noise_of(n);
    sg_machine undivided = *machine;
    sg_product_fit of_undivided;
    sg_code code = sg_product_fit_rows(rows, n, prior, noise, machine, fit, status);
    for (size_t i = 0; i < SG_PRODUCT_TERMS; i++)
        if (sg_product_term(i) == SG_M_SPLIT_K_S) whole.mean[i] = NAN;
    undivided.p[SG_M_SPLIT_K_S].value = NAN;
    if (!code) code = sg_product_fit_rows(rows, n, &whole, noise, &undivided, &of_undivided, status);
    if (!code && of_undivided.cost <= fit->cost) {
        *fit = of_undivided;
        *machine = undivided;
    }
    return code;
}

static bool names_tell(const sg_product_row *const *rows, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (rows[i]->rows) return true;
    return false;
}

static sg_code fit_lists(const sg_product_row *const *rows, size_t n, const sg_machine *lists, size_t n_lists,
                         sg_product_model *model, sg_status *status) {
    sg_machine *m = &model->machine;
    if (names_tell(rows, n)) {
        for (int k = 0; k < SG_TILE_KIND_COUNT; k++) sg_product_rows_tiles(rows, n, (sg_tile_kind)k, &m->tiles[k]);
        return fit_both(rows, n, &model->prior, m, &model->fit, status);
    }
    const sg_machine start = *m;
    sg_code code = fit_both(rows, n, &model->prior, m, &model->fit, status);
    for (size_t l = 0; l < n_lists && !code; l++) {
        sg_machine trial = start;
        sg_product_fit fit;
        memcpy(trial.tiles, lists[l].tiles, sizeof trial.tiles);
        code = fit_both(rows, n, &model->prior, &trial, &fit, status);
        if (code || fit.cost >= model->fit.cost) continue;
        model->fit = fit;
        *m = trial;
    }
    return code;
}

static sg_code price_s(const sg_machine *m, const sg_product *p, sg_priced *price, sg_status *status) {
    return sg_price_tiles(m, p, SG_PRODUCT_BETWEEN_EVENTS, price, status);
}

static sg_code keep_shapes(const sg_product_row *const *rows, size_t n, sg_product_model *model, sg_status *status) {
    model->measured = sg_neighbours_new(status);
    sg_code code = model->measured ? SG_OK : SG_MACHINE;
    for (size_t i = 0; i < n && !code; i++) {
        sg_priced price;
        sg_neighbour point = sg_product_point(&rows[i]->product);
        code = price_s(&model->machine, &rows[i]->product, &price, status);
        if (code) break;
        point.log_ratio = (float)log(rows[i]->seconds / price.seconds);
        code = sg_neighbours_add(model->measured, &point, status);
    }
    return code;
}

/* Parameters that the rows, not the prior, have decided: residuals about a fit of so many are too small. */
static double decided_terms(const sg_product_model *model) {
    const sg_product_fit *f = &model->fit;
    double sum = 0;
    for (size_t j = 0; j < f->n_terms; j++)
        for (size_t i = 0; i < SG_PRODUCT_TERMS; i++) {
            if (sg_product_term(i) != f->term[j]) continue;
            double slope = sg_product_slope(f->term[j], model->machine.p[f->term[j]].value);
            double after = f->covariance[j * f->n_terms + j] / (slope * slope);
            sum += fmax(0, 1 - after / model->prior.covariance[i * SG_PRODUCT_TERMS + i]);
        }
    return sum;
}

/* Widens what few rows tell: residuals by the parameters that were fitted to them, parameters by what residuals exceed
 * the usual. */
static void widen(sg_product_model *model) {
    size_t n = model->fit.n_rows, terms = model->fit.n_terms;
    if (!n) return;
    double factor = sqrt((double)n / fmax(1, (double)n - decided_terms(model)));
    model->scatter *= factor;
    model->width *= factor;
    double excess = fmax(1, pow(model->scatter / USUAL_SCATTER, 2));
    for (size_t i = 0; i < terms * terms; i++) model->fit.covariance[i] *= excess;
}

/* Residuals of each row without itself, how they scatter near each, and the width that holds nine of ten. */
static sg_code judge(sg_product_model *model, sg_status *status) {
    size_t n = model->measured->n;
    double *size = malloc(n * sizeof *size);
    model->residual = malloc(n * sizeof *model->residual);
    if (!size || !model->residual) {
        free(size);
        return sg_fail_memory(status, n * sizeof *size, "the residuals of a fit");
    }
    for (size_t i = 0; i < n; i++) {
        const sg_neighbour *p = &model->measured->point[i];
        model->residual[i] = (double)p->log_ratio - sg_neighbours_log_ratio(model->measured, p, i + 1, NULL);
        size[i] = fabs(model->residual[i]);
    }
    gsl_sort(size, 1, n);
    double seen = 1.4826 * gsl_stats_median_from_sorted_data(size, 1, n), usual = usual_scatter(&model->machine);
    model->scatter = sqrt(((double)n * seen * seen + DEVICE_WEIGHT * usual * usual) / ((double)n + DEVICE_WEIGHT));
    for (size_t i = 0; i < n; i++) {
        double own = model->residual[i];
        model->residual[i] = 0; /* a row does not tell of its own neighbourhood */
        double local = sg_neighbours_scatter(model->measured, model->residual, &model->measured->point[i],
                                             model->scatter, USUAL_WEIGHT);
        model->residual[i] = own;
        size[i] = local > 0 ? fabs(own) / local : 0;
    }
    gsl_sort(size, 1, n);
    model->width = gsl_stats_quantile_from_sorted_data(size, 1, n, 0.9);
    free(size);
    widen(model);
    return SG_OK;
}

sg_code sg_product_model_fit(const sg_machine *sheet, const sg_product_row *const *rows, size_t n,
                             const sg_product_prior *prior, const sg_machine *lists, size_t n_lists,
                             sg_product_model *model, sg_status *status) {
    sg_product_model_unmeasured(sheet, prior, model);
    if (!n) return SG_OK;
    sg_code code = fit_lists(rows, n, lists, n_lists, model, status);
    if (!code) code = keep_shapes(rows, n, model, status);
    if (!code) code = judge(model, status);
    return code;
}

/* ---- a machine's own shapes ----------------------------------------------------------------------------------------- */

uint32_t sg_product_family(sg_tile_kind kind) {
    sg_desc desc[4];
    sg_op op = {.kind = SG_OP_MATMUL, .n_in = 2, .n_out = 1, .desc = desc};
    op.attrs.alpha = 1;
    if (kind == SG_TILES_BATCHED) {
        for (int i = 0; i < 3; i++) desc[i] = sg_desc_make(SG_F32, 3, (const int64_t[]){2, 8, 8});
    } else {
        for (int i = 0; i < 4; i++) desc[i] = sg_desc_make(SG_F32, 2, (const int64_t[]){8, 8});
        desc[1].stride[0] = 1; /* a layer's weight lies the other way */
        desc[1].stride[1] = 8;
        desc[2] = sg_desc_make(SG_F32, 1, (const int64_t[]){8});
        op.n_in = 3;
        op.attrs.flags = SG_HAS_BIAS;
    }
    return sg_shape_of_op(&op).family;
}

sg_code sg_product_model_shapes(const sg_product_model *model, sg_measured **measured, sg_status *status) {
    size_t n = model->measured ? model->measured->n : 0;
    sg_measured_shape *shapes = calloc(n ? n : 1, sizeof *shapes);
    uint32_t family[SG_TILE_KIND_COUNT];
    if (!shapes) return sg_fail_memory(status, n * sizeof *shapes, "measured shapes");
    for (int k = 0; k < SG_TILE_KIND_COUNT; k++) family[k] = sg_product_family((sg_tile_kind)k);
    for (size_t i = 0; i < n; i++) {
        const sg_neighbour *p = &model->measured->point[i];
        shapes[i].shape.family = family[p->kind];
        for (int j = 0; j < p->n; j++) shapes[i].shape.at[j] = (double)p->log_size[j];
        shapes[i].log_ratio = (double)p->log_ratio;
    }
    sg_code code = sg_measured_make(shapes, n, measured, status);
    free(shapes);
    return code;
}

static sg_code take_shapes(const sg_machine *machine, sg_product_model *model, sg_status *status) {
    size_t n = 0;
    const sg_measured_shape *shapes = sg_measured_shapes(machine->measured, &n);
    sg_code code = SG_OK;
    for (int k = 0; k < SG_TILE_KIND_COUNT; k++) {
        uint32_t family = sg_product_family((sg_tile_kind)k);
        for (size_t i = 0; i < n && !code; i++) {
            if (shapes[i].shape.family != family) continue;
            sg_neighbour p = {.kind = k, .n = 4, .log_ratio = (float)shapes[i].log_ratio};
            for (int j = 0; j < p.n; j++) p.log_size[j] = (float)shapes[i].shape.at[j];
            code = sg_neighbours_add(model->measured, &p, status);
        }
    }
    return code;
}

sg_code sg_product_model_shipped(const sg_machine *machine, const sg_product_prior *own, sg_product_model *model,
                                 sg_status *status) {
    sg_product_model_unmeasured(machine, own, model);
    model->measured = sg_neighbours_new(status);
    if (!model->measured) return SG_MACHINE;
    sg_code code = take_shapes(machine, model, status);
    if (!code && model->measured->n) code = judge(model, status);
    return code;
}

/* ---- predicting ---------------------------------------------------------------------------------------------------- */

/* Variance of the log time by the parameters' covariance: the fit's, or the prior's. */
static double parameter_variance(const sg_product_model *model, const sg_priced *price) {
    double variance = 0;
    const sg_product_fit *f = &model->fit;
    if (f->n_rows) {
        for (size_t i = 0; i < f->n_terms; i++)
            for (size_t j = 0; j < f->n_terms; j++)
                variance += price->by_log[f->term[i]] * price->by_log[f->term[j]] * f->covariance[i * f->n_terms + j];
    } else {
        for (size_t i = 0; i < SG_PRODUCT_TERMS; i++) {
            sg_machine_id id = sg_product_term(i);
            if (!isfinite(model->prior.mean[i])) continue;
            double by = price->by_log[id] * sg_product_slope(id, model->machine.p[id].value);
            variance += by * by * model->prior.covariance[i * SG_PRODUCT_TERMS + i];
        }
    }
    return fmax(variance, 0) / (price->seconds * price->seconds);
}

sg_code sg_product_model_predict(const sg_product_model *model, const sg_product *product, double interval,
                                 sg_product_prediction *prediction, sg_status *status) {
    sg_priced price;
    sg_code code = price_s(&model->machine, product, &price, status);
    if (code) return code;
    sg_neighbour shape = sg_product_point(product);
    double log_ratio = sg_neighbours_log_ratio(model->measured, &shape, 0, NULL);
    double variance = parameter_variance(model, &price), half;
    double quantile = gsl_cdf_tdist_Pinv(0.5 + 0.5 * interval, FREEDOM);
    if (model->residual) {
        double local = sg_neighbours_scatter(model->measured, model->residual, &shape, model->scatter, USUAL_WEIGHT);
        /* the width is that of 90 % intervals; others in proportion */
        double of_rows = local * model->width * quantile / gsl_cdf_tdist_Pinv(0.95, FREEDOM);
        half = hypot(of_rows, quantile * sqrt(variance));
    } else {
        half = PRIOR_WIDTH * quantile * sqrt(variance + model->scatter * model->scatter);
    }
    prediction->seconds = price.seconds * exp(log_ratio);
    prediction->low = prediction->seconds * exp(-half);
    prediction->high = prediction->seconds * exp(half);
    return SG_OK;
}

/* ---- what to measure ----------------------------------------------------------------------------------------------- */

static double distance2(const sg_product *a, const sg_product *b) {
    double d[] = {log(a->batch / b->batch), log(a->m / b->m), log(a->n / b->n), log(a->k / b->k),
                  a->kind == b->kind ? 0 : 8};
    double sum = 0;
    for (size_t i = 0; i < sizeof d / sizeof *d; i++) sum += d[i] * d[i];
    return sum;
}

size_t sg_product_calibration_rows(const sg_product_row *const *rows, size_t n_rows, size_t n, bool *chosen) {
    memset(chosen, 0, n_rows * sizeof *chosen);
    size_t candidates = n_rows < 4 * n ? n_rows : 4 * n, count = 0;
    while (count < n && count < candidates) {
        size_t best = n_rows;
        double farthest = -1;
        for (size_t i = 0; i < candidates; i++) {
            if (chosen[i]) continue;
            double nearest = INFINITY;
            for (size_t j = 0; j < candidates; j++)
                if (chosen[j]) nearest = fmin(nearest, distance2(&rows[i]->product, &rows[j]->product));
            if (nearest > farthest) {
                farthest = nearest;
                best = i;
            }
        }
        chosen[best] = true;
        count++;
    }
    return count;
}
