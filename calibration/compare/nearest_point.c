/* nearest_point.c: which measured point is of a log's configuration, or the nearest to it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calibration/compare/compare.h"

static double apart(int64_t a, int64_t b) {
    if (a == b) return 0;
    return fabs(log((double)(a > 0 ? a : 1) / (double)(b > 0 ? b : 1))) + 0.01;
}

/* 0: the same in all that decides a step. The weights only rank: another program (framework, precision, settings) is farther
 * than another size of it. */
static double distance(const sg_point_config *a, const sg_point_config *b) {
    double sum = apart(a->batch, b->batch) + apart(a->envs, b->envs) + apart(a->steps_per_env, b->steps_per_env) +
                 2 * apart(a->ranks, b->ranks) + 2 * apart(a->accumulation, b->accumulation) +
                 2 * apart(a->cameras, b->cameras) + apart(a->image_height, b->image_height) +
                 apart(a->image_width, b->image_width);
    sum += strcmp(a->framework, b->framework) == 0 ? 0 : 4;
    sum += strcmp(a->precision, b->precision) == 0 ? 0 : 4;
    sum += strcmp(a->settings, b->settings) == 0 ? 0 : 1;
    return sum + (strcmp(a->execution, b->execution) == 0 ? 0 : 2);
}

static void add_count(char *text, size_t bytes, const char *what, int64_t mine, int64_t logs) {
    size_t used = strlen(text);
    if (mine != logs)
        (void)snprintf(text + used, bytes - used, "%s%s %lld (log: %lld)", used ? ", " : "", what, (long long)mine,
                       (long long)logs);
}

static void add_text(char *text, size_t bytes, const char *what, const char *mine, const char *logs) {
    size_t used = strlen(text);
    if (strcmp(mine, logs) != 0)
        (void)snprintf(text + used, bytes - used, "%s%s %.40s (log: %.40s)", used ? ", " : "", what,
                       mine[0] ? mine : "none", logs[0] ? logs : "none");
}

static void tell(const sg_point_config *mine, const sg_point_config *logs, char *text, size_t bytes) {
    add_count(text, bytes, "batch", mine->batch, logs->batch);
    add_count(text, bytes, "environments", mine->envs, logs->envs);
    add_count(text, bytes, "steps per environment", mine->steps_per_env, logs->steps_per_env);
    add_count(text, bytes, "ranks", mine->ranks, logs->ranks);
    add_count(text, bytes, "accumulation", mine->accumulation, logs->accumulation);
    add_count(text, bytes, "cameras", mine->cameras, logs->cameras);
    add_count(text, bytes, "image height", mine->image_height, logs->image_height);
    add_count(text, bytes, "image width", mine->image_width, logs->image_width);
    add_text(text, bytes, "framework", mine->framework, logs->framework);
    add_text(text, bytes, "precision", mine->precision, logs->precision);
    add_text(text, bytes, "execution", mine->execution, logs->execution);
    if (!text[0] && strcmp(mine->settings, logs->settings) != 0)
        (void)snprintf(text, bytes, "other settings of the policy");
}

const sg_point *sg_compare_nearest(const sg_point *points, size_t n, const sg_point_config *config, bool *exact,
                                   char *differs, size_t bytes) {
    const sg_point *best = NULL;
    double least = INFINITY;
    differs[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (strcmp(points[i].config.policy, config->policy) != 0) continue;
        double d = distance(&points[i].config, config);
        if (d >= least) continue;
        least = d;
        best = &points[i];
    }
    *exact = best && least == 0;
    if (best && !*exact) tell(&best->config, config, differs, bytes);
    return best;
}
