#include "calibration/fit_shapes.h"

#include "calibration/work.h"

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

static sg_code gather_point(const sg_point *p, const sg_machine *plain, gathered *g, sg_status *status) {
    sg_training *t = NULL;
    sg_code code = sg_work_rebuild(&p->config, &t, status);
    bool same = !code && p->n_ops == (int64_t)t->n_ops && p->ops_hash == sg_training_ops_hash(t);
    for (size_t i = 0; same && !code && i < t->n_ops; i++) {
        double seconds;
        if (!(p->op_s[i] > 0)) continue;
        code = sg_machine_price(plain, &t->ops[i], &seconds, NULL, status);
        if (code || !(seconds > 0)) continue;
        const sg_shape shape = sg_shape_of_op(&t->ops[i]);
        code = add(g, &shape, log(p->op_s[i] / seconds), status);
    }
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
