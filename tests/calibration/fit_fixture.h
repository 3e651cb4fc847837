/* fit_fixture.h: runs made up from a known machine, and their fits. */
#ifndef SG_TESTS_CALIBRATION_FIT_FIXTURE_H
#define SG_TESTS_CALIBRATION_FIT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/fit/fit.h"
#include "calibration/machine/machine_group.h"
#include "calibration/predict/predict.h"
#include "calibration/predict/work.h"
#include "sim/measure/measure.h"

static const char *const CONFIGS = SG_SOURCE_DIR "/configs";

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        sg_status status = {0};                                                                                        \
        if ((call) != SG_OK) fail_msg("line %d: %s", __LINE__, status.text);                                           \
    } while (0)

/* ---- points made up from a known machine -------------------------------------------------------------------------- */

/* Normal deviates from a fixed seed: twelve uniform ones less six. */
static inline double deviate(uint64_t *state) {
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        sum += (double)(*state >> 11) / 9007199254740992.0;
    }
    return sum;
}

static inline sg_machine prior_machine(void) {
    sg_machine m;
    OK(sg_machine_load("cpu", CONFIGS, &m, &status));
    return m;
}

/* A CPU that differs from the prior in every efficiency. Its nominal peak and bandwidth are the prior's: efficiencies are
 * relative to them. */
static inline sg_machine true_machine(void) {
    sg_machine m = prior_machine();
    for (int c = 0; c < SG_CLASS_COUNT; c++) {
        sg_machine_id id = sg_machine_eff_of((sg_op_class)c);
        if (id < SG_M_COUNT) m.p[id].value *= c % 2 ? 1.3 : 0.8;
    }
    m.p[SG_M_KERNEL_START_S].value *= 1.5;
    m.p[SG_M_KERNEL_FLOOR_S].value *= 1.2;
    return m;
}

static inline void set_q(sg_point *p, sg_quantity q, double seconds) {
    p->q[q] = (sg_statistic){seconds, seconds, seconds * 0.99, seconds * 1.01};
}

static const sg_setting mlp_settings[] = {{"input_dim", "256", "test"}, {"hidden_dims", "1024,1024", "test"}};
static const sg_setting ppo_settings[] = {{"envs", "64", "test"}, {"steps_per_env", "8", "test"}};

/* What the machine `truth` would show: `size` is the batch, for ppo the environments. */
static inline sg_point point_of(const char *policy, int64_t size, const sg_machine *truth, double noise,
                                uint64_t *seed) {
    bool ppo = strcmp(policy, "ppo") == 0;
    char envs[24];
    (void)snprintf(envs, sizeof envs, "%lld", (long long)size);
    sg_setting settings[2];
    memcpy(settings, ppo ? ppo_settings : mlp_settings, sizeof settings);
    if (ppo) settings[0].value = envs;
    sg_policy_request request = {.policy = policy,
                                 .device_class = SG_DEVICE_CLASS_CPU,
                                 .batch = ppo ? 0 : size,
                                 .settings = settings,
                                 .n_settings = 2};
    sg_measure_options options = {.device = "cpu", .threads = 2, .workers = 1, .seed = 1, .ranks = 1};
    sg_training *training;
    sg_point p = {.iterations = 9, .warmup = 1, .fits_rates = true, .source = "measured", .frame_s = NAN};
    OK(sg_policy_build(&request, &training, &status));
    OK(sg_measure_config(&request, training, &options, &p.config, &status));
    p.key = sg_point_key(&p.config);
    double *count = calloc(training->n_ops, sizeof *count), step = 0;
    assert_non_null(count);
    sg_work_counts(training, count);
    OK(sg_work_class_seconds(training, count, truth, p.class_s, NULL, &status));
    for (int c = 0; c < SG_CLASS_COUNT; c++) {
        p.class_s[c] *= exp(noise * deviate(seed));
        step += p.class_s[c];
    }
    set_q(&p, ppo ? SG_Q_LEARNING : SG_Q_UPDATE, step * exp(noise * deviate(seed)));
    set_q(&p, SG_Q_PREPROCESSING, 1e-6 * (double)size);
    set_q(&p, SG_Q_DATALOADING, 1e-4 * step);
    set_q(&p, ppo ? SG_Q_ITERATION : SG_Q_STEP, 1.01 * step);
    free(count);
    sg_training_free(training);
    return p;
}

typedef struct made_run {
    sg_run run;
    sg_point points[8];
} made_run;

static inline void make_run(made_run *m, const char *policy, const int64_t *sizes, size_t n, double noise) {
    uint64_t seed = 7;
    sg_machine truth = true_machine();
    memset(m, 0, sizeof *m);
    m->run.points = m->points;
    m->run.n_points = n;
    (void)snprintf(m->run.machine.hostname, sizeof m->run.machine.hostname, "made-up");
    (void)snprintf(m->run.machine.cpu, sizeof m->run.machine.cpu, "made-up CPU");
    m->run.machine.cores = m->run.machine.threads = 2;
    m->run.machine.memory_bytes = 8 << 20;
    for (size_t i = 0; i < n; i++) m->points[i] = point_of(policy, sizes[i], &truth, noise, &seed);
    sg_machine_clear(&truth);
}

static const int64_t four[] = {8, 32, 128, 512};

static inline void fit_run(const made_run *m, const sg_fit_options *options, sg_fit *fit) {
    sg_machine prior = prior_machine();
    static const sg_fit_options nothing = {0};
    OK(sg_fit_run(&m->run, &prior, options ? options : &nothing, fit, &status));
    sg_machine_clear(&prior);
}

static inline bool has_note(const sg_fit *fit, const char *text) {
    for (size_t i = 0; i < fit->n_notes; i++)
        if (strstr(fit->notes[i], text)) return true;
    return false;
}

#endif
