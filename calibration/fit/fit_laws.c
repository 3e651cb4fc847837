/* One law per quantity and measured configuration. */
#include "calibration/fit/fit_laws.h"

#include "calibration/fit/law.h"
#include "calibration/loader/fit_loaders.h"
#include "calibration/predict/work.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_MAX = 64 };
/* Idle machines stay within a few percent. */
static const double NOISY_LOG_SD = 0.15;

void sg_fit_note(sg_fit *fit, const char *format, ...) {
    void *grown = realloc(fit->notes, (fit->n_notes + 1) * sizeof *fit->notes);
    if (!grown) return; /* a note less is no reason to lose a fit */
    fit->notes = grown;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(fit->notes[fit->n_notes], sizeof fit->notes[0], format, args);
    va_end(args);
    fit->n_notes++;
}

/* What a law is a function of. */
static double x_of(const sg_point *p) {
    return (double)(p->config.envs > 0 ? p->config.envs : p->config.batch);
}

static bool same_group(const sg_point_config *a, const sg_point_config *b) {
    return strcmp(a->policy, b->policy) == 0 && strcmp(a->framework, b->framework) == 0 &&
           strcmp(a->device, b->device) == 0 && strcmp(a->precision, b->precision) == 0 &&
           strcmp(a->settings, b->settings) == 0 && strcmp(a->host, b->host) == 0 && a->host_op_ns == b->host_op_ns &&
           strcmp(a->execution, b->execution) == 0 && a->ranks == b->ranks && a->accumulation == b->accumulation &&
           a->threads == b->threads && a->cameras == b->cameras && a->image_height == b->image_height &&
           a->image_width == b->image_width && a->steps_per_env == b->steps_per_env;
}

static double log_sd_of(const sg_statistic *s) {
    double half = s->median > 0 ? 0.5 * (s->high - s->low) / s->median : 0;
    return fmax(0.01, half / 1.96);
}

static sg_code walked_seconds(const sg_point *p, const sg_machine *machine, double *seconds, sg_status *status) {
    sg_training *training;
    sg_code code = sg_work_rebuild(&p->config, &training, status);
    if (code != SG_OK) return code;
    double by_class[SG_CLASS_COUNT], *count = calloc(training->n_ops ? training->n_ops : 1, sizeof *count);
    if (!count) code = sg_fail_memory(status, training->n_ops * sizeof *count, "a fit");
    if (code == SG_OK) {
        sg_work_counts(training, count);
        code = sg_work_class_seconds(training, count, machine, by_class, NULL, status);
    }
    *seconds = 0;
    for (int c = 0; code == SG_OK && c < SG_CLASS_COUNT; c++) *seconds += by_class[c];
    free(count);
    sg_training_free(training);
    return code;
}

/* w0 + w1 x through the walked times at the ends of the measured range. */
static sg_code shape_of(const sg_point *const *group, size_t n, const sg_machine *machine, double shape[2],
                        sg_status *status) {
    const sg_point *low = group[0], *high = group[0];
    for (size_t i = 1; i < n; i++) {
        if (x_of(group[i]) < x_of(low)) low = group[i];
        if (x_of(group[i]) > x_of(high)) high = group[i];
    }
    double at_low = 0, at_high = 0;
    sg_code code = walked_seconds(low, machine, &at_low, status);
    if (code == SG_OK) code = walked_seconds(high, machine, &at_high, status);
    if (code != SG_OK) return code;
    double width = x_of(high) - x_of(low);
    shape[1] = width > 0 ? fmax((at_high - at_low) / width, 0) : at_low / x_of(low);
    shape[0] = fmax(at_low - shape[1] * x_of(low), 0);
    return SG_OK;
}

/* Where the next measurement would narrow the law most: beyond its range when it has few points, else inside the widest
 * gap. */
static void advise(const sg_law_point *points, size_t n, const sg_law *law, char *out, size_t room) {
    double gap = 0, middle = 0;
    for (size_t i = 0; i < n; i++) {
        double next = INFINITY;
        for (size_t k = 0; k < n; k++)
            if (points[k].x > points[i].x) next = fmin(next, points[k].x);
        if (isfinite(next) && next / points[i].x > gap) {
            gap = next / points[i].x;
            middle = floor(sqrt(next * points[i].x) + 0.5);
        }
    }
    const char *what = law->config.envs > 0 ? "environments" : "batch";
    if (gap > 2.5)
        (void)snprintf(out, room, "%s %.0f", what, middle);
    else
        (void)snprintf(out, room, "%s %.0f", what, 2 * law->high_x);
}

static sg_code add_law(sg_fit *fit, const sg_law *law, sg_status *status) {
    sg_law *grown = realloc(fit->laws, (fit->n_laws + 1) * sizeof *grown);
    if (!grown) return sg_fail_memory(status, (fit->n_laws + 1) * sizeof *grown, "laws");
    fit->laws = grown;
    fit->laws[fit->n_laws++] = *law;
    return SG_OK;
}

/* kinds: bit k = sg_law_kind k. */
static sg_code fit_quantity(sg_fit *fit, const sg_point *const *group, size_t n, sg_quantity q, unsigned kinds,
                            const double *shape, sg_status *status) {
    sg_law_point points[GROUP_MAX];
    size_t kept = 0, needed;
    for (size_t i = 0; i < n && kept < GROUP_MAX; i++) {
        double stretch = 1; /* what loader workers did to an update is the loader's, and comes back with it */
        if (!(group[i]->q[q].median > 0)) continue;
        sg_code code = q == SG_Q_UPDATE ? sg_loader_stretch(fit, group[i], &stretch, status) : SG_OK;
        if (code) return code;
        points[kept++] = (sg_law_point){x_of(group[i]), group[i]->q[q].median / stretch, log_sd_of(&group[i]->q[q])};
    }
    if (kept == 0) return SG_OK;
    sg_law law = {.config = group[n - 1]->config};
    (void)snprintf(law.quantity, sizeof law.quantity, "%s", sg_quantity_name(q));
    if (!sg_law_choose(points, kept, kinds, shape, &law, &needed)) {
        if (kept >= needed)
            sg_fit_note(fit, "%s of %s (ranks %lld): its %zu points follow no law", sg_quantity_name(q),
                        law.config.policy, (long long)law.config.ranks, kept);
        else
            sg_fit_note(fit, "%s of %s (ranks %lld): %zu point(s), %zu are needed; no law", sg_quantity_name(q),
                        law.config.policy, (long long)law.config.ranks, kept, needed);
        return SG_OK;
    }
    advise(points, kept, &law, law.next_point, sizeof law.next_point);
    if (law.residual_log_sd > NOISY_LOG_SD && (q == SG_Q_UPDATE || q == SG_Q_LEARNING))
        sg_fit_note(fit,
                    "%s of %s: its points disagree by %.0f %%: the machine was busy; measure again when it is idle",
                    sg_quantity_name(q), law.config.policy, 100 * law.residual_log_sd);
    return add_law(fit, &law, status);
}

/* A loader that keeps up leaves a wait that says nothing of its rate: only a queue that runs empty does. */
static bool loader_keeps_up(const sg_point *const *group, size_t n) {
    const double least_share = 0.02;
    for (size_t i = 0; i < n; i++)
        if (group[i]->config.workers == 0 ||
            !(group[i]->q[SG_Q_DATALOADING].median < least_share * group[i]->q[SG_Q_STEP].median))
            return false;
    return true;
}

static sg_code fit_dataloading(sg_fit *fit, const sg_point *const *group, size_t n, sg_status *status) {
    const unsigned kinds = 1u << SG_LAW_LINEAR | 1u << SG_LAW_AFFINE;
    for (size_t i = 0; i < n; i++)
        if (group[i]->config.dataset[0]) return SG_OK; /* its loader's law tells more */
    if (!loader_keeps_up(group, n)) return fit_quantity(fit, group, n, SG_Q_DATALOADING, kinds, NULL, status);
    sg_fit_note(fit, "dataloading_s of %s: below 2 %% of the step everywhere, the loader kept up; no law is needed",
                group[0]->config.policy);
    return SG_OK;
}

static sg_code fit_group(sg_fit *fit, const sg_point *const *group, size_t n, sg_status *status) {
    double shape[2];
    sg_code code = shape_of(group, n, &fit->machine, shape, status);
    if (code != SG_OK) return code;
    const unsigned time_laws = 1u << SG_LAW_WALK | 1u << SG_LAW_AFFINE | 1u << SG_LAW_KNEE;
    const unsigned linear = 1u << SG_LAW_LINEAR;
    if (group[0]->config.envs > 0) {
        static const sg_quantity ppo[] = {SG_Q_LEARNING, SG_Q_INFERENCE, SG_Q_ENVIRONMENT, SG_Q_COLLECTION,
                                          SG_Q_ITERATION};
        for (size_t i = 0; code == SG_OK && i < sizeof ppo / sizeof ppo[0]; i++)
            code = fit_quantity(fit, group, n, ppo[i], time_laws, ppo[i] == SG_Q_ENVIRONMENT ? NULL : shape, status);
        return code;
    }
    code = fit_quantity(fit, group, n, SG_Q_UPDATE, time_laws, shape, status);
    if (code == SG_OK) code = fit_quantity(fit, group, n, SG_Q_PREPROCESSING, linear, NULL, status);
    if (code == SG_OK) code = fit_dataloading(fit, group, n, status);
    if (code == SG_OK && group[0]->config.ranks > 1)
        code = fit_quantity(fit, group, n, SG_Q_EXPOSED_SYNC, linear | 1u << SG_LAW_AFFINE, NULL, status);
    return code;
}

sg_code sg_fit_laws(sg_fit *fit, const sg_point *const *points, size_t n, sg_status *status) {
    bool *done = calloc(n ? n : 1, sizeof *done);
    const sg_point **group = calloc(n ? n : 1, sizeof(const sg_point *));
    sg_code code = done && group ? SG_OK : sg_fail_memory(status, n * sizeof *group, "a fit");
    for (size_t i = 0; code == SG_OK && i < n; i++) {
        size_t members = 0;
        for (size_t k = i; k < n && !done[i]; k++)
            if (!done[k] && same_group(&points[i]->config, &points[k]->config)) group[members++] = points[k];
        for (size_t k = i; k < n; k++)
            if (same_group(&points[i]->config, &points[k]->config)) done[k] = true;
        if (members) code = fit_group(fit, group, members, status);
    }
    free(group);
    free(done);
    return code;
}
