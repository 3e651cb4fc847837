#include "sim/measure/measure_profile.h"

#include <math.h>
#include <stdlib.h>

/* Median seconds by op class and by unique op of n profiled iterations: seconds and runs are [n][training->n_ops]. */
static void sum_up_profiles(const sg_training *t, int n, const double *seconds, const double *runs, sg_point *p) {
    double by_class[SG_PROFILES_MOST][SG_CLASS_COUNT] = {{0}}, one[SG_PROFILES_MOST];
    for (size_t k = 0; k < t->n_ops; k++) {
        for (int i = 0; i < n; i++) {
            one[i] = seconds[(size_t)i * t->n_ops + k];
            by_class[i][sg_op_class_of(&t->ops[k])] += one[i];
        }
        p->op_s[k] = runs[k] > 0 ? sg_statistic_of(one, (size_t)n).median / runs[k] : NAN;
    }
    for (int c = 0; c < SG_CLASS_COUNT; c++) {
        for (int i = 0; i < n; i++) one[i] = by_class[i][c];
        p->class_s[c] = sg_statistic_of(one, (size_t)n).median;
    }
}

sg_code sg_measure_profile(sg_walker *walker, const sg_training *t, int n, sg_point *p, sg_status *status) {
    size_t values = (size_t)n * t->n_ops;
    double *seconds = calloc(values ? values : 1, sizeof *seconds), *runs = calloc(values ? values : 1, sizeof *runs);
    p->op_s = calloc(t->n_ops ? t->n_ops : 1, sizeof *p->op_s);
    sg_code code =
        seconds && runs && p->op_s ? SG_OK : sg_fail_memory(status, 2 * values * sizeof *seconds, "op times");
    for (int i = 0; i < n && !code; i++) {
        const sg_op_profile one = {seconds + (size_t)i * t->n_ops, runs + (size_t)i * t->n_ops};
        code = sg_walker_profile(walker, &one, status);
    }
    if (!code) {
        sum_up_profiles(t, n, seconds, runs, p);
        p->n_ops = (int64_t)t->n_ops;
        p->ops_hash = sg_training_ops_hash(t);
    }
    free(seconds);
    free(runs);
    return code;
}
