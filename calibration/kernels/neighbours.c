#include "calibration/kernels/neighbours.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static const double WIDTH = 0.35, EXACT = 0.03, SHRINK = 0.5;
/* Scatter is taken over a wider neighbourhood than the ratio. */
static const double SCATTER_WIDTH = 0.9;
/* Beyond so many widths a point's weight is below 1e-5. */
static const double REACH = 5;

sg_neighbours *sg_neighbours_new(sg_status *status) {
    sg_neighbours *table = calloc(1, sizeof *table);
    if (!table) (void)sg_fail_memory(status, sizeof *table, "a table of measured shapes");
    return table;
}

void sg_neighbours_free(sg_neighbours *table) {
    if (!table) return;
    free(table->point);
    free(table);
}

sg_code sg_neighbours_add(sg_neighbours *table, const sg_neighbour *point, sg_status *status) {
    bool finite = point->n <= SG_NEIGHBOUR_SIZES && isfinite(point->log_ratio);
    for (int i = 0; finite && i < point->n; i++) finite = isfinite(point->log_size[i]);
    if (!finite) return sg_fail(status, SG_BAD_INPUT, "a measured shape with a size or a ratio that is no number");
    if (table->n == SG_NEIGHBOURS_MAX)
        return sg_fail(status, SG_BAD_INPUT, "more than %d measured shapes", SG_NEIGHBOURS_MAX);
    if (table->n == table->room) {
        size_t room = table->room ? 2 * table->room : 256;
        sg_neighbour *grown = realloc(table->point, room * sizeof *grown);
        if (!grown) return sg_fail_memory(status, room * sizeof *grown, "measured shapes");
        table->point = grown;
        table->room = room;
    }
    table->point[table->n++] = *point;
    return SG_OK;
}

static bool same_kind(const sg_neighbour *a, const sg_neighbour *b) {
    return a->kind == b->kind && a->n == b->n;
}

static double squared_distance(const sg_neighbour *a, const sg_neighbour *b, double most) {
    double sum = 0;
    for (int i = 0; i < a->n && sum < most; i++) {
        double d = (double)a->log_size[i] - (double)b->log_size[i];
        sum += d * d;
    }
    return sum;
}

double sg_neighbours_log_ratio(const sg_neighbours *table, const sg_neighbour *shape, size_t without, double *support) {
    if (support) *support = 0;
    if (!table) return 0;
    const double far = REACH * REACH * WIDTH * WIDTH;
    /* a float's rounding of a log size is no distance */
    const double same = 1e-12;
    double sum = 0, weight = 0, nearest = INFINITY, exact = 0, n_exact = 0;
    for (size_t i = 0; i < table->n; i++) {
        const sg_neighbour *p = &table->point[i];
        if (i + 1 == without || !same_kind(p, shape)) continue;
        double d2 = squared_distance(p, shape, far);
        if (d2 >= far) continue;
        nearest = fmin(nearest, d2);
        if (d2 < same) {
            exact += (double)p->log_ratio;
            n_exact++;
            continue;
        }
        double w = exp(-d2 / (2 * WIDTH * WIDTH)) * (1 + EXACT * EXACT / d2);
        sum += w * (double)p->log_ratio;
        weight += w;
    }
    if (n_exact > 0) {
        if (support) *support = 1;
        return exact / n_exact;
    }
    if (!(weight > 0)) return 0;
    double shrink = -SHRINK * expm1(-nearest / (EXACT * EXACT));
    if (support) *support = weight / (weight + shrink);
    return sum / (weight + shrink);
}

double sg_neighbours_scatter(const sg_neighbours *table, const double *residual, const sg_neighbour *shape,
                             double prior, double weight) {
    double sum = weight * prior * prior, total = weight;
    const double far = REACH * REACH * SCATTER_WIDTH * SCATTER_WIDTH;
    for (size_t i = 0; table && i < table->n; i++) {
        if (!same_kind(&table->point[i], shape)) continue;
        double d2 = squared_distance(&table->point[i], shape, far);
        if (d2 >= far) continue;
        double w = exp(-d2 / (2 * SCATTER_WIDTH * SCATTER_WIDTH));
        sum += w * residual[i] * residual[i];
        total += w;
    }
    return total > 0 ? sqrt(sum / total) : 0;
}
