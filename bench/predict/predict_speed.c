/* predict_speed: how many predictions the library makes per second on one core, and where their time goes.
 *
 *     build/release/bench_predict CONFIG_DIR [POLICY ...]
 *
 * Per policy: what is done once (building the step program, recording its walk), once per machine (pricing), and for every
 * prediction (replaying the walk with its derivatives, intervals); then a sweep over machines, batches and numbers of GPUs as
 * `plan` makes it. Times are processor time of the one thread; of repeated parts, the median. */
#include "calibration/config/config_dir.h"
#include "calibration/predict/predict.h"
#include "calibration/predict/predict_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 15, PREDICTIONS = 2000, MOST_MACHINES = 96 };

static const int64_t BATCHES[] = {1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128};
static const int GPUS[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024, 4096};
enum { N_BATCHES = sizeof BATCHES / sizeof *BATCHES, N_GPUS = sizeof GPUS / sizeof *GPUS };

static double now_s(void) {
    struct timespec at;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void check(sg_code code, const char *what, const sg_status *status) {
    if (!code) return;
    (void)fprintf(stderr, "%s: %s\n", what, status->text);
    exit(EXIT_FAILURE);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

typedef struct fleet {
    const char *config_dir;
    sg_machine machine[MOST_MACHINES];
    size_t n;
} fleet;

static sg_predict_options options_of(const fleet *f, int ranks, int64_t batch) {
    return (sg_predict_options){.ranks = ranks,
                                .batch = batch,
                                .workers = 4,
                                .cameras_known = true,
                                .language_known = true,
                                .config_dir = f->config_dir};
}

/* Every GPU of the configuration folder that can be priced with several ranks. */
static void load(fleet *f) {
    const sg_policy_request smallest = {.policy = "mlp"};
    sg_predict_options two = options_of(f, 2, 0);
    sg_prediction answer;
    sg_names names;
    sg_status status;
    check(sg_config_list(f->config_dir, "machines", ".yaml", &names, &status), "machines", &status);
    for (size_t i = 0; i < names.count && f->n < MOST_MACHINES; i++) {
        sg_machine *m = &f->machine[f->n];
        check(sg_machine_load(names.name[i], f->config_dir, m, &status), names.name[i], &status);
        if (strcmp(m->device_class, "cuda") == 0 && !sg_predict(&smallest, m, &two, &answer, &status))
            f->n++;
        else
            sg_machine_clear(m);
    }
    sg_names_clear(&names);
}

enum { BUILD, RECORD, PRICE, WALK, DERIVATIVES, PARTS };

/* Median seconds of each part by itself, on the first machine. */
static void time_parts(const char *policy, const fleet *f, double seconds[PARTS], size_t *moves, size_t *durations) {
    double values[PARTS][REPEATS];
    const sg_policy_request request = {.policy = policy, .device_class = SG_DEVICE_CLASS_CUDA, .ranks = 2};
    sg_status status;
    sg_machine m = f->machine[0];
    for (int k = 0; k < SG_M_COUNT; k++) /* every parameter is needed: no framework's numbers were added */
        if (!(m.p[k].value > 0)) m.p[k].value = 1;
    for (int i = 0; i < REPEATS; i++) {
        enum { WALKS = 20 };
        sg_training *t;
        sg_course *course;
        sg_tape_prices *prices;
        sg_replay *replay;
        sg_replayed replayed;
        double at = now_s();
        check(sg_policy_build(&request, &t, &status), policy, &status);
        values[BUILD][i] = now_s() - at;
        at = now_s();
        check(sg_course_open(t, &(sg_course_options){.caching = true}, &course, &status), policy, &status);
        values[RECORD][i] = now_s() - at;
        const sg_tape *tape = sg_course_tape(course);
        at = now_s();
        check(sg_tape_price(tape, &m, &prices, &status), policy, &status);
        values[PRICE][i] = now_s() - at;
        check(sg_replay_open(tape, &replay, &status), policy, &status);
        at = now_s();
        for (int k = 0; k < WALKS; k++)
            check(sg_replay_times(replay, prices, 1, 1e-5, &replayed, &status), policy, &status);
        values[WALK][i] = (now_s() - at) / WALKS;
        at = now_s();
        for (int k = 0; k < WALKS; k++)
            check(sg_replay_run(replay, prices, 1, 1e-5, &replayed, &status), policy, &status);
        values[DERIVATIVES][i] = (now_s() - at) / WALKS - values[WALK][i];
        *moves = tape->n_moves;
        *durations = tape->n_durations;
        sg_replay_close(replay);
        sg_tape_prices_close(prices);
        sg_course_close(course);
        sg_training_free(t);
    }
    for (int k = 0; k < PARTS; k++) seconds[k] = median(values[k], REPEATS);
}

/* each_s: a whole prediction when everything that can be kept is there. */
static void parts(const char *policy, const fleet *f, double each_s) {
    double s[PARTS];
    size_t moves = 0, durations = 0;
    time_parts(policy, f, s, &moves, &durations);
    double rest_s = each_s - s[WALK] - s[DERIVATIVES];
    (void)printf("  once per batch: build %.2f ms, walk and memory %.2f ms (%zu moves); once per machine: %zu prices "
                 "%.0f us\n",
                 1e3 * s[BUILD], 1e3 * s[RECORD], moves, durations, 1e6 * s[PRICE]);
    (void)printf("  each: replay %.1f us (%.0f %%), derivatives %.1f us (%.0f %%), machine and intervals %.1f us "
                 "(%.0f %%); the first costs %.0f times as much\n",
                 1e6 * s[WALK], 100 * s[WALK] / each_s, 1e6 * s[DERIVATIVES], 100 * s[DERIVATIVES] / each_s,
                 1e6 * rest_s, 100 * rest_s / each_s, (s[BUILD] + s[RECORD] + s[PRICE] + each_s) / each_s);
}

/* One machine after another, and numbers of ranks, so that nothing is asked twice in a row. */
static double predictions(const char *policy, const fleet *f) {
    const sg_policy_request request = {.policy = policy};
    sg_predictor *p;
    sg_prediction answer;
    sg_status status;
    check(sg_predictor_open(&request, f->config_dir, &p, &status), policy, &status);
    size_t machines = f->n > 0 && f->n < 16 ? f->n : 16, warm_up = 2 * machines;
    double at = 0;
    for (size_t k = 0; k < warm_up + PREDICTIONS; k++) {
        if (k == warm_up) at = now_s();
        sg_predict_options o = options_of(f, GPUS[k / machines % N_GPUS], 0);
        check(sg_predictor_run(p, &f->machine[k % machines], &o, &answer, &status), policy, &status);
    }
    double each = (now_s() - at) / PREDICTIONS;
    sg_predictor_close(p);
    return each;
}

static void sweep(const char *policy, const fleet *f) {
    const sg_policy_request request = {.policy = policy};
    sg_predictor *p;
    sg_prediction answer;
    sg_status status;
    int n = 0, fit = 0;
    double at = now_s();
    check(sg_predictor_open(&request, f->config_dir, &p, &status), policy, &status);
    for (int b = 0; b < N_BATCHES; b++)
        for (size_t m = 0; m < f->n; m++)
            for (int g = 0; g < N_GPUS && n < 10000; g++, n++) {
                sg_predict_options o = options_of(f, GPUS[g], BATCHES[b]);
                sg_code code = sg_predictor_run(p, &f->machine[m], &o, &answer, &status);
                if (code == SG_BAD_INPUT && n == 0) { /* its batch follows from other settings */
                    (void)printf("  no sweep: %s\n", status.text);
                    sg_predictor_close(p);
                    return;
                }
                if (code != SG_NO) check(code, policy, &status); /* one that cannot be priced is an answer too */
                fit += !code && answer.fits;
            }
    sg_predictor_close(p);
    (void)printf("  sweep: %d (machine x batch x GPUs), %d fit: %.2f s\n", n, fit, now_s() - at);
}

int main(int argc, char **argv) {
    static const char *const all[] = {"act", "smolvla", "ppo"};
    if (argc < 2) {
        (void)fprintf(stderr, "usage: bench_predict CONFIG_DIR [POLICY ...]\n");
        return EXIT_FAILURE;
    }
    fleet *f = calloc(1, sizeof *f);
    if (!f) return EXIT_FAILURE;
    f->config_dir = argv[1];
    load(f);
    int n = argc > 2 ? argc - 2 : (int)(sizeof all / sizeof *all);
    for (int i = 0; i < n; i++) {
        const char *policy = argc > 2 ? argv[i + 2] : all[i];
        double each = predictions(policy, f);
        (void)printf("%s: %.0f predictions per second, %.1f us each\n", policy, 1 / each, 1e6 * each);
        parts(policy, f, each);
        sweep(policy, f);
    }
    for (size_t i = 0; i < f->n; i++) sg_machine_clear(&f->machine[i]);
    free(f);
    return EXIT_SUCCESS;
}
