#include "calibration/fit/fit_shapes.h"

#include "calibration/predict/work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct gathered {
    sg_measured_shape *items;
    size_t n, room;
} gathered;

static sg_code add(gathered *g, const sg_shape *shape, double log_ratio, sg_status *status) {
    if (g->n == g->room) {
        size_t room = g->room ? 2 * g->room : 256;
        sg_measured_shape *grown = reallocarray(g->items, room, sizeof *grown);
        if (!grown) return sg_fail_memory(status, room * sizeof *grown, "measured shapes");
        g->items = grown;
        g->room = room;
    }
    g->items[g->n++] = (sg_measured_shape){*shape, log_ratio};
    return SG_OK;
}

/* Our engine's seconds: framework factors are another thing than shapes. */
static void forget_factors(sg_machine *m) {
    for (int c = 0; c < SG_CLASS_COUNT; c++) m->p[sg_machine_factor_of((sg_op_class)c)].value = 1;
    m->p[SG_M_FACTOR_LOW_PRECISION].value = 1;
    m->measured = NULL;
}

/* Where the host computes itself, an iteration takes at least what its ops take: where the iteration that was timed op by op
 * says more than the counted ones, something disturbed it, and its times are shares of theirs. */
static double share_of_profile(const sg_point *p, const double *count) {
    if (strcmp(p->config.device, "cpu") != 0) return 1;
    bool ppo = p->config.envs > 0;
    double counted_s = ppo ? p->q[SG_Q_INFERENCE].median + p->q[SG_Q_LEARNING].median
                           : p->q[SG_Q_PREPROCESSING].median + p->q[SG_Q_UPDATE].median;
    double profiled_s = 0;
    for (int64_t i = 0; i < p->n_ops; i++)
        if (p->op_s[i] > 0) profiled_s += count[i] * p->op_s[i];
    return counted_s > 0 && profiled_s > counted_s ? counted_s / profiled_s : 1;
}

static sg_code gather_ops(const sg_point *p, const sg_training *t, const sg_machine *plain, gathered *g,
                          sg_status *status) {
    double *count = calloc(t->n_ops ? t->n_ops : 1, sizeof *count);
    if (!count) return sg_fail_memory(status, t->n_ops * sizeof *count, "measured shapes");
    sg_work_counts(t, count);
    double share = share_of_profile(p, count);
    sg_code code = SG_OK;
    for (size_t i = 0; !code && i < t->n_ops; i++) {
        double seconds;
        if (!(p->op_s[i] > 0)) continue;
        code = sg_machine_price(plain, &t->ops[i], &seconds, NULL, status);
        if (code || !(seconds > 0)) continue;
        const sg_shape shape = sg_shape_of_op(&t->ops[i]);
        code = add(g, &shape, log(share * p->op_s[i] / seconds), status);
    }
    free(count);
    return code;
}

static sg_code gather_point(const sg_point *p, const sg_machine *plain, gathered *g, sg_status *status) {
    sg_training *t = NULL;
    sg_code code = sg_work_rebuild(&p->config, &t, status);
    bool same = !code && p->n_ops == (int64_t)t->n_ops && p->ops_hash == sg_training_ops_hash(t);
    if (same) code = gather_ops(p, t, plain, g, status);
    sg_training_free(t);
    return code;
}

static int compare_shapes(const sg_shape *x, const sg_shape *y) {
    int order = (x->family > y->family) - (x->family < y->family);
    for (int k = 0; !order && k < SG_SHAPE_PLACES; k++) order = (x->at[k] > y->at[k]) - (x->at[k] < y->at[k]);
    return order;
}

static int by_shape(const void *a, const void *b) {
    const sg_measured_shape *x = a, *y = b;
    int order = compare_shapes(&x->shape, &y->shape);
    return order ? order : (x->log_ratio > y->log_ratio) - (x->log_ratio < y->log_ratio);
}

/* Equal shapes stand together, their ratios in order: the middle one stays. */
static void keep_medians(gathered *g) {
    qsort(g->items, g->n, sizeof *g->items, by_shape);
    size_t kept = 0;
    for (size_t i = 0, end; i < g->n; i = end) {
        for (end = i + 1; end < g->n && compare_shapes(&g->items[i].shape, &g->items[end].shape) == 0;) end++;
        g->items[kept++] = g->items[i + (end - i) / 2];
    }
    g->n = kept;
}

sg_code sg_fit_shapes(const sg_point *const *points, size_t n, sg_machine *machine, sg_status *status) {
    gathered g = {0};
    sg_machine plain = *machine;
    forget_factors(&plain);
    sg_code code = SG_OK;
    for (size_t i = 0; i < n && !code; i++)
        if (points[i]->op_s && points[i]->fits_rates) code = gather_point(points[i], &plain, &g, status);
    if (!code && g.n) {
        sg_measured *measured;
        keep_medians(&g);
        code = sg_measured_make(g.items, g.n, &measured, status);
        if (!code) {
            sg_measured_release(machine->measured);
            machine->measured = measured;
        }
    }
    free(g.items);
    return code;
}
