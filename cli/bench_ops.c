#include "cli/bench_ops.h"

#include "cli/interrupt.h"
#include "cli/measuring.h"
#include "kernels/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Layers of one kind have the same shapes: one of each is enough. Two batches, so that those between are joined. */
typedef struct sample {
    const char *policy;
    sg_setting settings[4];
    size_t n_settings;
    int64_t batch; /* 0: PPO, which has environments */
} sample;

#define ONE(name, value)                                                                                               \
    { name, value, "bench ops" }
static const sample samples[] = {
    {"ppo", {ONE("envs", "1024"), ONE("steps_per_env", "4"), ONE("ppo_epochs", "1")}, 3, 0},
    {"ppo", {ONE("envs", "4096"), ONE("steps_per_env", "4"), ONE("ppo_epochs", "1")}, 3, 0},
    {"act", {ONE("n_encoder_layers", "1"), ONE("n_vae_encoder_layers", "1")}, 2, 1},
    {"smolvla", {ONE("num_vlm_layers", "2"), ONE("vision_num_hidden_layers", "1")}, 2, 1},
    {"act", {ONE("n_encoder_layers", "1"), ONE("n_vae_encoder_layers", "1")}, 2, 8},
    {"smolvla", {ONE("num_vlm_layers", "2"), ONE("vision_num_hidden_layers", "1")}, 2, 8},
};
#undef ONE
enum { SAMPLES = sizeof samples / sizeof *samples, FRAMEWORKS = 2, MOST_POINTS = SAMPLES * FRAMEWORKS };
/* Their ops differ; those of other profiles are one of theirs. */
static const sg_framework frameworks[FRAMEWORKS] = {SG_FRAMEWORK_PYTORCH_EAGER, SG_FRAMEWORK_NATIVE};

/* A point takes one iteration of warm-up, a counted one and one to three in which each op is timed. */
static const double DEFAULT_BUDGET_S = 120, ITERATIONS_OF_A_POINT = 3.5;

typedef struct session {
    const sg_args *args;
    sg_device_choice choice;
    sg_run run;
    sg_point points[MOST_POINTS];
    sg_run_writer *writer;
    const volatile int *stop;
    sg_progress progress;
    double end_s;
    size_t left_out;
} session;

/* Seconds that a point will take, from the same policy's smaller batch; 0 where none was measured. */
static double expected_s(const session *s, const sample *one, sg_framework framework) {
    for (size_t i = s->run.n_points; i-- > 0 && one->batch > 1;) {
        const sg_point *p = &s->points[i];
        if (strcmp(p->config.policy, one->policy) == 0 &&
            strcmp(p->config.framework, sg_framework_name(framework)) == 0 && p->config.batch > 0)
            return ITERATIONS_OF_A_POINT * p->q[SG_Q_STEP].median * (double)one->batch / (double)p->config.batch;
    }
    return 0;
}

static sg_code measure_one(session *s, const sample *one, sg_framework framework, sg_status *status) {
    double left_s = s->end_s - sg_clock_s();
    if (s->run.n_points && (left_s <= 0 || expected_s(s, one, framework) > left_s)) {
        s->left_out++;
        return SG_OK;
    }
    const sg_policy_request request = {.policy = one->policy,
                                       .framework = framework,
                                       .device_class = s->choice.device_class,
                                       .batch = one->batch,
                                       .settings = one->settings,
                                       .n_settings = one->n_settings};
    sg_measure_options options = sg_measuring_options(s->args, &s->choice, s->stop, &s->progress);
    options.min_iterations = options.max_iterations = options.warmup = 1;
    options.time_budget_s = left_s > 0 ? left_s : 1;
    sg_point *point = &s->points[s->run.n_points];
    sg_code code = sg_measure(&request, &options, point, status);
    if (code == SG_NO && s->run.n_points) { /* does not fit: smaller ones were measured */
        s->left_out++;
        return SG_OK;
    }
    if (code) return code;
    s->run.n_points++;
    return s->writer ? sg_run_writer_append(s->writer, point, status) : SG_OK;
}

static sg_code measure_all(session *s, sg_status *status) {
    sg_code code = sg_device_choose(s->args, &s->choice, status);
    if (!code) code = sg_device_ready(&s->choice, 1, status);
    if (!code && s->args->output) code = sg_run_writer_open(s->args->output, &s->run.machine, &s->writer, status);
    for (int f = 0; f < FRAMEWORKS && !code; f++)
        for (size_t i = 0; i < SAMPLES && !code && !*s->stop; i++)
            code = measure_one(s, &samples[i], frameworks[f], status);
    return *s->stop ? SG_OK : code; /* the point that an interrupt ended holds nothing */
}

static int show(const session *s) {
    int result = *s->stop ? SG_EXIT_INTERRUPTED : SG_OK;
    if (!s->args->json) {
        sg_print_points(s->points, s->run.n_points);
        if (s->left_out)
            printf("%zu of %d left out: the time was over, or memory too small\n", s->left_out, MOST_POINTS);
        return result;
    }
    json_t *points = json_array();
    for (size_t i = 0; i < s->run.n_points; i++) (void)json_array_append_new(points, sg_json_point(&s->points[i]));
    json_t *object =
        json_pack("{s:s, s:o, s:I}", "bench", "ops", "points", points, "left_out", (json_int_t)s->left_out);
    return sg_json_print(object, result);
}

int sg_bench_ops(const sg_args *args) {
    sg_status status;
    session *s = calloc(1, sizeof *s);
    if (!s) {
        (void)sg_fail_memory(&status, sizeof *s, "a benchmark");
        return sg_show_error(args, &status);
    }
    s->args = args;
    s->stop = sg_interrupt_flag();
    s->run.points = s->points;
    s->end_s = sg_clock_s() + (args->time_budget_s > 0 ? args->time_budget_s : DEFAULT_BUDGET_S);
    sg_machine_describe(&s->run.machine);
    s->progress = sg_progress_start(args);
    sg_code code = measure_all(s, &status);
    sg_run_writer_close(s->writer);
    sg_progress_end(&s->progress);
    int result = code ? sg_show_error(args, &status) : show(s);
    for (size_t i = 0; i < s->run.n_points; i++) sg_point_clear(&s->points[i]);
    free(s);
    return result;
}
