/* gauge: the main job in one go: measure this machine briefly, fit, and say what the training needs here and what to rent. */
#include "cli/commands.h"
#include "cli/fitting.h"
#include "cli/interrupt.h"
#include "cli/measuring.h"
#include "cli/planning.h"
#include "cli/real_data.h"
#include "kernels/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double DEFAULT_BUDGET_S = 100;  /* with fitting and start-up the whole stays under two minutes */
static const int64_t DEFAULT_STEPS = 100000; /* LeRobot's default `steps` */
enum { SIZES = 3 };

typedef struct gauging {
    const sg_args *args;
    sg_device_choice choice;
    sg_request request;
    sg_real_data data; /* that batches come from; else they are synthetic */
    bool ppo;
    int64_t size[SIZES]; /* batches, or environments */
    sg_run run;
    const volatile int *stop;
    sg_progress progress;
    double end_s; /* when measuring must be over */
    bool tells;   /* where no bar is drawn: a line for each point */
} gauging;

static bool key_is(const sg_setting *s, const char *key) {
    return strcmp(s->name, key) == 0;
}

/* Three sizes below what will be asked for, small enough to be measured in the time there is. */
static void choose_sizes(gauging *g) {
    const sg_int_list *batch = &g->args->batch;
    int64_t top = g->ppo ? 2048 : 4;
    for (size_t i = 0; i < g->request.n_settings; i++)
        if (g->ppo && (key_is(&g->request.settings[i], "envs") || key_is(&g->request.settings[i], "num_envs")))
            top = strtoll(g->request.settings[i].value, NULL, 10);
    if (top < 4) top = 4;
    for (int i = 0; i < SIZES; i++) g->size[i] = top >> (SIZES - 1 - i);
    for (size_t i = 0; batch->n >= SIZES && i < SIZES; i++) g->size[i] = batch->value[i];
}

/* The policy with one size; PPO's size is a setting, appended so that it wins. */
static sg_policy_request at_size(const gauging *g, int64_t size, sg_setting *room, char *text, size_t text_bytes) {
    sg_policy_request policy = g->request.policy;
    if (!g->ppo) {
        policy.batch = size;
        return policy;
    }
    memcpy(room, g->request.settings, g->request.n_settings * sizeof *room);
    (void)snprintf(text, text_bytes, "%lld", (long long)size);
    room[g->request.n_settings] = (sg_setting){"envs", text, "gauge"};
    policy.settings = room;
    policy.n_settings = g->request.n_settings + 1;
    return policy;
}

/* Within budget_s where `least` iterations allow it, and within limit_s where one does. */
static sg_code measure_size(gauging *g, int64_t size, double budget_s, double limit_s, int64_t least, sg_point *point,
                            sg_status *status) {
    char text[32];
    sg_setting *room = calloc(g->request.n_settings + 1, sizeof *room);
    if (!room) return sg_fail_memory(status, (g->request.n_settings + 1) * sizeof *room, "settings");
    sg_policy_request policy = at_size(g, size, room, text, sizeof text);
    sg_measure_options options = sg_measuring_options(g->args, &g->choice, g->stop, &g->progress);
    options.catalogue = g->data.catalogue;
    options.time_budget_s = budget_s;
    options.time_limit_s = limit_s;
    options.min_iterations = least;
    if (g->tells)
        fprintf(stderr, "stepgauge: measuring %s %lld, %.0f s left\n", g->ppo ? "envs" : "batch", (long long)size,
                fmax(0, g->end_s - sg_clock_s()));
    sg_code code = sg_measure(&policy, &options, point, status);
    free(room);
    return code;
}

static double step_s(const sg_point *p) {
    return p->config.envs > 0 ? p->q[SG_Q_ITERATION].median : p->q[SG_Q_STEP].median;
}

/* One or two iterations tell no width. */
static double width(const sg_point *p) {
    if (p->iterations < 3) return INFINITY;
    const sg_statistic *s = &p->q[p->config.envs > 0 ? SG_Q_LEARNING : SG_Q_UPDATE];
    return s->median > 0 ? (s->high - s->low) / s->median : 0;
}

/* Each size once. A size that would not end in time, or does not fit in memory, is left out. */
static sg_code first_round(gauging *g, sg_status *status) {
    for (int i = 0; i < SIZES && !*g->stop; i++) {
        double left_s = g->end_s - sg_clock_s(), per_unit = 0;
        if (g->run.n_points) {
            const sg_point *last = &g->run.points[g->run.n_points - 1];
            per_unit = step_s(last) / (double)(g->ppo ? last->config.envs : last->config.batch);
            /* a warm-up, an iteration that counts and what is in doubt */
            if (2.5 * per_unit * (double)g->size[i] > left_s) continue;
        }
        sg_point *point = &g->run.points[g->run.n_points];
        /* what the smaller ones take, the largest lacks */
        double limit_s = i + 1 < SIZES ? 0.5 * left_s : left_s;
        sg_code code = measure_size(g, g->size[i], left_s / (SIZES - i + 1), limit_s, 3, point, status);
        if (code == SG_NO && g->run.n_points) continue;
        if (code != SG_OK) return *g->stop && g->run.n_points ? SG_OK : code;
        g->run.n_points++;
    }
    return SG_OK;
}

/* The time that is left goes where the interval is widest. */
static sg_code refine(gauging *g, sg_status *status) {
    for (int round = 0; round < 8 && !*g->stop; round++) {
        sg_point *widest = &g->run.points[0];
        for (size_t i = 1; i < g->run.n_points; i++)
            if (width(&g->run.points[i]) > width(widest)) widest = &g->run.points[i];
        double left_s = g->end_s - sg_clock_s();
        /* a warm-up, one more than there were, and the profile; where there were three, enough to be worth it */
        double iterations = widest->iterations < 3 ? (double)widest->iterations + 3.5 : 8;
        if (width(widest) < 0.02 || iterations * step_s(widest) > left_s) return SG_OK;
        sg_point again;
        int64_t size = g->ppo ? widest->config.envs : widest->config.batch;
        sg_code code = measure_size(g, size, left_s, left_s, widest->iterations + 3, &again, status);
        if (code != SG_OK) return *g->stop ? SG_OK : code;
        bool better = width(&again) < width(widest) || (isinf(width(widest)) && again.iterations > widest->iterations);
        sg_point *drop = better ? widest : &again;
        sg_point kept = drop == widest ? again : *widest;
        sg_point_clear(drop);
        *widest = kept;
    }
    return SG_OK;
}

static sg_code record(const gauging *g, sg_status *status) {
    if (!g->args->output) return SG_OK;
    sg_run_writer *writer;
    sg_code code = sg_run_writer_open(g->args->output, &g->run.machine, &writer, status);
    if (code != SG_OK) return code;
    for (size_t i = 0; code == SG_OK && i < g->run.n_points; i++)
        code = sg_run_writer_append(writer, &g->run.points[i], status);
    sg_run_writer_close(writer);
    return code;
}

static sg_code measure(gauging *g, sg_status *status) {
    g->run.points = calloc(SIZES, sizeof *g->run.points);
    if (!g->run.points) return sg_fail_memory(status, SIZES * sizeof *g->run.points, "measured points");
    sg_machine_describe(&g->run.machine);
    double budget_s = g->args->time_budget_s > 0 ? g->args->time_budget_s : DEFAULT_BUDGET_S;
    g->end_s = sg_clock_s() + budget_s;
    g->progress = sg_progress_start(g->args);
    g->tells = !g->args->quiet && !g->progress.on;
    sg_code code = g->data.catalogue ? sg_real_data_prepare(&g->data, SG_LAYER_CACHED, g->stop, status) : SG_OK;
    if (code == SG_OK || code == SG_NO)
        code = first_round(g, status); /* NO: what does not fit in memory comes from disk */
    if (code == SG_OK && g->run.n_points) code = refine(g, status);
    sg_progress_end(&g->progress);
    if (code == SG_OK && g->run.n_points == 0)
        code = sg_fail(status, SG_MACHINE, "nothing was measured: allow more time (--time-budget) or a smaller policy");
    return code == SG_OK ? record(g, status) : code;
}

static int tell(gauging *g, const sg_fit *fit, const sg_plan_answer *plan) {
    int result = *g->stop ? SG_EXIT_INTERRUPTED : SG_OK;
    if (g->args->json) {
        json_t *points = json_array();
        for (size_t i = 0; i < g->run.n_points; i++)
            (void)json_array_append_new(points, sg_json_point(&g->run.points[i]));
        json_t *object = json_pack("{s:o, s:o, s:o, s:o}", "machine", sg_json_machine(&g->run.machine), "points",
                                   points, "fit", sg_json_fit(fit, &g->run), "plan", sg_json_plan(plan));
        return sg_json_print(object, result);
    }
    const sg_machine_record *m = &g->run.machine;
    printf("Measured on %s (%s, %lld threads)\n", m->hostname, m->cpu, (long long)m->threads);
    sg_print_points(g->run.points, g->run.n_points);
    if (fit->n_laws) {
        const sg_law *law = &fit->laws[0];
        printf("\nFitted: %s = %s", law->quantity, sg_law_formula((sg_law_kind)law->kind));
        for (size_t i = 0; i < law->n_terms; i++)
            printf("%s %s = %.4g", i ? "," : ":", sg_law_term((sg_law_kind)law->kind, i), law->value[i]);
        printf("; residuals %.1f %%; worth measuring next: %s\n", 100 * law->residual_log_sd, law->next_point);
    }
    for (size_t i = 0; i < fit->n_notes; i++) printf("Note: %s\n", fit->notes[i]);
    if (!g->args->output) printf("Note: these measurements are not kept; -o run.h5 keeps them for 'fit'\n");
    printf("\nWhat the training needs, here and rented\n\n");
    sg_print_plan(plan);
    return result;
}

static int conclude(gauging *g) {
    sg_status status;
    sg_fit fit;
    if (sg_fitting(g->args, &g->run, &fit, &status) != SG_OK) {
        if (!*g->stop) return sg_show_error(g->args, &status);
        (void)sg_fail(&status, SG_MACHINE, "interrupted before enough was measured to fit: %zu point(s)%s%s",
                      g->run.n_points, g->args->output ? ", kept in " : "", g->args->output ? g->args->output : "");
        (void)sg_show_error(g->args, &status);
        return SG_EXIT_INTERRUPTED;
    }
    sg_plan_answer plan = {0};
    sg_plan_request what = sg_plan_request_of(g->args, &g->request, &fit.machine);
    if (g->args->batch.n != 1) what.policy.batch = 0; /* the sizes measured are not the size trained with */
    if (what.steps == 0 && what.epochs == 0 && !g->ppo) what.steps = DEFAULT_STEPS;
    what.here_fit = &fit;
    what.policy.device_class = SG_DEVICE_CLASS_CUDA;
    int result;
    if (sg_plan_make(&what, &plan, &status) != SG_OK)
        result = sg_show_error(g->args, &status);
    else
        result = tell(g, &fit, &plan);
    sg_plan_clear(&plan);
    sg_fit_clear(&fit);
    return result;
}

int sg_cmd_gauge(const sg_args *args) {
    sg_status status;
    gauging g = {.args = args, .stop = sg_interrupt_flag()};
    if (sg_device_choose(args, &g.choice, &status) != SG_OK ||
        sg_request_make(args, g.choice.device_class, &g.request, &status) != SG_OK)
        return sg_show_error(args, &status);
    if (g.choice.passed_over[0] && !args->quiet)
        fprintf(stderr, "stepgauge: measuring on the CPU, the GPU is not ready: %s\n", g.choice.passed_over);
    if (sg_device_ready(&g.choice, 1, &status) != SG_OK ||
        sg_device_choose_host(args, g.request.policy.framework, 0, &g.choice, &status) != SG_OK ||
        sg_device_has_sheet(args, &g.choice, 0, &status) != SG_OK) {
        sg_request_clear(&g.request);
        return sg_show_error(args, &status);
    }
    g.ppo = strcmp(g.request.name, "ppo") == 0;
    choose_sizes(&g);
    int result;
    sg_code code = sg_real_data_open(args, &g.request.policy, false, &g.data, &status);
    if (code == SG_OK && g.data.catalogue && g.data.catalogue->warning[0])
        sg_show_warning("%s", g.data.catalogue->warning);
    if (code == SG_OK) code = measure(&g, &status);
    if (code == SG_OK) {
        result = conclude(&g);
    } else {
        result = sg_show_error(args, &status);
        if (*g.stop) result = SG_EXIT_INTERRUPTED;
    }
    sg_real_data_close(&g.data);
    sg_run_clear(&g.run);
    sg_request_clear(&g.request);
    return result;
}
