/* measure_record.c: see measure_record.h. */
#include "sim/measure/measure_record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/measure/gpu_state.h"

/* Times whose middle four fifths differ by more than this share of the median come from a disturbed machine. */
static const double SPREAD = 0.25;

void sg_record_start(sg_record *r, const sg_training *training) {
    *r = (sg_record){.training = training};
}

void sg_record_clear(sg_record *r) {
    for (int q = 0; q < SG_Q_COUNT; q++) free(r->raw[q]);
    *r = (sg_record){0};
}

static bool has_quantity(const sg_record *r, int q) {
    return q < SG_Q_COLLECTION || r->training->envs > 0;
}

static sg_code make_room(sg_record *r, sg_status *status) {
    if (r->n < r->room) return SG_OK;
    size_t room = r->room ? 2 * r->room : 64;
    for (int q = 0; q < SG_Q_COUNT; q++) {
        if (!has_quantity(r, q)) continue;
        double *grown = realloc(r->raw[q], room * sizeof *grown);
        if (!grown) return sg_fail_memory(status, room * sizeof *grown, "measured times");
        r->raw[q] = grown;
    }
    r->room = room;
    return SG_OK;
}

sg_code sg_record_add(sg_record *r, const sg_step_times *t, double local_update_s, sg_status *status) {
    const double value[SG_Q_COUNT] = {
        [SG_Q_DATALOADING] = t->dataloading_s,
        [SG_Q_PREPROCESSING] = t->preprocessing_s,
        [SG_Q_UPDATE] = t->update_s,
        [SG_Q_STEP] = t->step_s,
        [SG_Q_FORWARD] = t->forward_s,
        [SG_Q_BACKWARD] = t->backward_s,
        [SG_Q_OPTIMIZER] = t->optimizer_s,
        [SG_Q_EXPOSED_SYNC] = isnan(local_update_s) ? t->exposed_sync_s : t->update_s - local_update_s,
        [SG_Q_PREPROCESSING_DEVICE] = t->preprocessing_device_s,
        [SG_Q_UPDATE_DEVICE] = t->update_device_s,
        [SG_Q_COLLECTION] = t->collection_s,
        [SG_Q_INFERENCE] = t->inference_s,
        [SG_Q_ENVIRONMENT] = t->environment_s,
        [SG_Q_LEARNING] = t->learning_s,
        [SG_Q_ITERATION] = t->iteration_s,
    };
    sg_code code = make_room(r, status);
    if (code) return code;
    for (int q = 0; q < SG_Q_COUNT; q++)
        if (has_quantity(r, q)) r->raw[q][r->n] = value[q];
    r->n++;
    return SG_OK;
}

sg_quantity sg_record_main(const sg_record *r) {
    return r->training->envs > 0 ? SG_Q_ITERATION : SG_Q_UPDATE;
}

double sg_record_spread(const sg_record *r) {
    return sg_record_spread_of(r, sg_record_main(r));
}

double sg_record_spread_of(const sg_record *r, sg_quantity q) {
    enum { LEAST = 6 }; /* the extremes of six hold the median with 97 % */
    if (r->n < LEAST) return INFINITY;
    sg_statistic s = sg_statistic_of(r->raw[q], r->n);
    return s.median > 0 ? 0.5 * (s.high - s.low) / s.median : INFINITY;
}

/* Work of one iteration over its optimizer steps, by the training's own counts. */
static void count_work(const sg_training *t, sg_point *p) {
    double steps = t->optimizer_steps > 0 ? (double)t->optimizer_steps : 1;
    for (size_t b = 0; b < t->n_blocks; b++)
        for (size_t s = 0; s < t->blocks[b].n_steps; s++) {
            if (t->blocks[b].steps[s].kind != SG_STEP_PROGRAM) continue;
            sg_counts c = sg_count_program(t, (size_t)t->blocks[b].steps[s].index);
            for (int pass = 0; pass < SG_PASS_COUNT; pass++) {
                p->flops += (double)t->blocks[b].repeat / steps * c.pass[pass].flops;
                p->bytes += (double)t->blocks[b].repeat / steps * c.pass[pass].bytes;
            }
        }
    sg_counts main = sg_count_program(t, sg_main_program(t));
    p->ops_forward = main.pass[SG_PASS_FORWARD].ops;
    p->ops_backward = main.pass[SG_PASS_BACKWARD].ops;
}

void sg_record_finish(sg_record *r, sg_point *p) {
    const sg_training *t = r->training;
    p->iterations = (int64_t)r->n;
    for (int q = 0; q < SG_Q_COUNT; q++) {
        p->q[q] = (sg_statistic){NAN, NAN, NAN, NAN};
        if (r->raw[q]) p->q[q] = sg_statistic_of(r->raw[q], r->n);
        p->raw[q] = r->raw[q];
        r->raw[q] = NULL;
    }
    double samples = (double)t->batch * (double)(t->accumulation > 0 ? t->accumulation : 1) * (double)p->config.ranks;
    if (t->envs > 0) {
        double env_steps = (double)t->envs * (double)t->steps_per_env * (double)p->config.ranks;
        p->env_steps_per_s = env_steps / p->q[SG_Q_ITERATION].median;
        p->samples_per_s = samples * (double)t->optimizer_steps / p->q[SG_Q_ITERATION].median;
    } else {
        p->samples_per_s = samples / p->q[SG_Q_STEP].median;
        p->env_steps_per_s = NAN;
    }
    count_work(t, p);
    sg_record_clear(r);
}

static int ascending(const void *a, const void *b) {
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static void judge_spread(sg_point *p, size_t used) {
    if (sg_point_pauses(&p->config)) return; /* its update is a pause; waits of a loader come in bursts anyway */
    sg_quantity main = p->raw[SG_Q_ITERATION] ? SG_Q_ITERATION : SG_Q_UPDATE;
    size_t n = (size_t)p->iterations;
    double *sorted = p->raw[main] && n >= 3 ? malloc(n * sizeof *sorted) : NULL;
    if (!sorted) return;
    memcpy(sorted, p->raw[main], n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ascending);
    double low = sorted[n / 10], high = sorted[n - 1 - n / 10], median = p->q[main].median;
    free(sorted);
    if (!(high - low > SPREAD * median)) return;
    p->disturbed = true;
    (void)snprintf(p->disturbed_why + used, sizeof p->disturbed_why - used,
                   "%s%s differs from iteration to iteration: %.4g to %.4g s", used ? "; " : "", sg_quantity_name(main),
                   low, high);
}

void sg_record_judge(sg_point *p, const sg_host_state *before, const sg_host_state *after, int own_processes) {
    p->disturbed_why[0] = 0;
    p->disturbed = sg_host_state_compare(before, after, own_processes, p->disturbed_why, sizeof p->disturbed_why) > 0;
    sg_host_others others = sg_host_others_between(before, after, own_processes);
    p->other_processors = others.processors;
    p->withheld_share = others.withheld_share;
    if (sg_gpu_conditions_judge(&p->gpu, p->disturbed_why, sizeof p->disturbed_why)) p->disturbed = true;
    judge_spread(p, strlen(p->disturbed_why));
    p->load_average = before->load_average > 0 ? before->load_average : 0;
    p->clock_mhz = after->clock_mhz;
}
