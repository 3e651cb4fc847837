#include "sim/measure/measure_ranks.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- times --------------------------------------------------------------------------------------------------------- */

/* (slowest - fastest) / median of the ranks' median update; NAN without memory for it. */
static double spread_of(const double *update_s, int ranks, size_t n) {
    double low = INFINITY, high = -INFINITY, *median = calloc((size_t)ranks, sizeof *median);
    if (!median) return NAN;
    for (int i = 0; i < ranks; i++) {
        median[i] = sg_statistic_of(update_s + (size_t)i * n, n).median;
        low = fmin(low, median[i]);
        high = fmax(high, median[i]);
    }
    double spread = (high - low) / sg_statistic_of(median, (size_t)ranks).median;
    free(median);
    return spread;
}

static sg_code gather_times(sg_transport *t, sg_point *p, sg_status *status) {
    size_t n = (size_t)p->iterations, bytes;
    if (n > INT_MAX || __builtin_mul_overflow(n * sizeof(double), (size_t)t->ranks, &bytes))
        return sg_fail(status, SG_MACHINE, "%zu iterations of %d ranks are too many to keep", n, t->ranks);
    double *all = malloc(bytes);
    if (!all) return sg_fail_memory(status, bytes, "times of the ranks");
    sg_code code = t->api->gather_doubles(t, p->raw[SG_Q_UPDATE], (int)n, all, status);
    if (code || t->rank != 0) {
        free(all);
        return code;
    }
    p->rank_update_s = all;
    p->rank_spread = spread_of(all, t->ranks, n);
    return SG_OK;
}

/* ---- GPUs ------------------------------------------------------------------------------------------------------------ */

typedef struct model {
    char name[SG_NAME_BYTES];
    int ranks;
} model;

static void count_model(model *models, size_t *n, const char *name) {
    for (size_t i = 0; i < *n; i++)
        if (strcmp(models[i].name, name) == 0) {
            models[i].ranks++;
            return;
        }
    models[*n].ranks = 1;
    (void)snprintf(models[(*n)++].name, SG_NAME_BYTES, "%s", name);
}

static void write_models(const model *models, size_t n, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < n && used < bytes; i++)
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s%d x %s", i ? " + " : "", models[i].ranks, models[i].name);
}

/* Each rank's name in turn reaches all: ranks need not know each other's memory. */
sg_code sg_rank_models(sg_transport *t, const char *own, char *text, size_t bytes, size_t *count, sg_status *status) {
    model *models = calloc((size_t)t->ranks, sizeof *models);
    sg_code code = models ? SG_OK : sg_fail_memory(status, (uint64_t)t->ranks * sizeof *models, "names of GPUs");
    *count = 0;
    for (int r = 0; r < t->ranks && code == SG_OK; r++) {
        char name[SG_NAME_BYTES];
        (void)snprintf(name, sizeof name, "%s", own);
        code = t->api->broadcast(t, name, sizeof name, r, status);
        name[sizeof name - 1] = '\0';
        if (code == SG_OK) count_model(models, count, name);
    }
    if (code == SG_OK) write_models(models, *count, text, bytes);
    free(models);
    return code;
}

/* A step takes as long as the slowest GPU: such figures belong to no single model. */
static sg_code gather_gpus(sg_transport *t, sg_point *p, sg_status *status) {
    char text[sizeof p->gpu.name], why[160];
    size_t models;
    sg_code code = sg_rank_models(t, p->gpu.name, text, sizeof text, &models, status);
    if (code != SG_OK || models < 2) return code;
    (void)snprintf(p->gpu.name, sizeof p->gpu.name, "%s", text);
    p->fits_rates = false;
    p->disturbed = true;
    (void)snprintf(why, sizeof why, "%sGPUs of different models: %s", p->disturbed_why[0] ? "; " : "", text);
    strncat(p->disturbed_why, why, sizeof p->disturbed_why - strlen(p->disturbed_why) - 1);
    return SG_OK;
}

sg_code sg_measure_gather(sg_transport *t, sg_point *p, sg_status *status) {
    if (!t || !t->api->gather_doubles) return SG_OK;
    sg_code code = gather_times(t, p, status);
    if (code == SG_OK && t->api->broadcast && strcmp(p->config.device, "cuda") == 0) code = gather_gpus(t, p, status);
    return code;
}
