/* What limits a training: every rule speaks where a log holds its numbers, and is silent where it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calibration/explain/explain.h"
#include "tests/support/log_checks.h"

#define HEAD                                                                                                           \
    "INFO 2026-08-07 15:00:00 ot_train.py:441 cfg.steps=4000 (4K)\n"                                                   \
    "INFO 2026-08-07 15:00:00 ot_train.py:442 dataset.num_frames=4000 (4K)\n"                                          \
    "INFO 2026-08-07 15:00:00 ot_train.py:446 Effective batch size: 8 x 1 = 8\n"
#define LINE(clock, step, data, update)                                                                                \
    "INFO 2026-08-07 " clock " ot_train.py:769 step:" step " data_s:" data " prep_s:0.000 updt_s:" update "\n"
/* 100 steps of 0.2 s between lines. */
#define STEADY                                                                                                         \
    HEAD LINE("15:00:20", "100", "0.001", "0.199") LINE("15:00:40", "200", "0.001", "0.199")                           \
        LINE("15:01:00", "300", "0.001", "0.199") LINE("15:01:20", "400", "0.001", "0.199")                            \
            LINE("15:01:40", "500", "0.001", "0.199") LINE("15:02:00", "600", "0.001", "0.199")
#define BLOCK(iteration, collection, learning)                                                                         \
    "Learning iteration " iteration "\nCollection time: " collection "s\nLearning time: " learning                     \
    "s\nMean surrogate loss: -0.1\n"

/* The last run of the text is explained, the runs before it stand beside it. */
static sg_explanation explain(const char *text, sg_explain_facts facts) {
    sg_logs logs = sg_logs_of_text(text);
    const sg_log *others[8];
    assert_in_range(logs.n, 1, 8);
    for (size_t i = 0; i + 1 < logs.n; i++) others[i] = &logs.logs[i];
    facts.log = &logs.logs[logs.n - 1];
    facts.others = others;
    facts.n_others = logs.n - 1;
    sg_explanation e;
    sg_status status;
    if (sg_explain(&facts, &e, &status) != SG_OK) fail_msg("%s", status.text);
    sg_logs_clear(&logs);
    return e;
}

static const sg_diagnosis *find(const sg_explanation *e, const char *rule) {
    for (size_t i = 0; i < e->n; i++)
        if (strcmp(e->diagnosis[i].rule, rule) == 0) return &e->diagnosis[i];
    return NULL;
}

typedef struct rule_case {
    const char *rule, *speaks, *silent;
    double share, gain;    /* NAN: none; 0: not looked at */
    const char *evidence;  /* a part of it */
    int64_t envs, per_env; /* facts beside the log, where it speaks and where it must not */
} rule_case;

static const rule_case cases[] = {
    {"loader-wait", HEAD LINE("15:00:30", "100", "0.100", "0.200") LINE("15:01:00", "200", "0.100", "0.200"), STEADY,
     1.0 / 3, 1.5, "100 ms of a step of 300 ms", 0, 0},
    /* One line in four holds nearly all of the waiting. */
    {"loader-bursts",
     HEAD LINE("15:00:20", "100", "0.001", "0.200") LINE("15:00:40", "200", "0.001", "0.200")
         LINE("15:01:20", "300", "0.397", "0.200") LINE("15:01:40", "400", "0.001", "0.200")
             LINE("15:02:00", "500", "0.001", "0.200"),
     STEADY, 1.0 / 3, 1.5, "1 of 4 lines hold 99 %", 0, 0},
    /* 4000 frames / 8 samples: an epoch ends every 500 steps. */
    {"loader-epochs",
     HEAD LINE("15:00:20", "200", "0.001", "0.199") LINE("15:00:40", "400", "0.001", "0.199")
         LINE("15:01:00", "600", "0.011", "0.199") LINE("15:01:20", "800", "0.001", "0.199")
             LINE("15:01:40", "1000", "0.011", "0.199"),
     STEADY, 2.0 / (500 * 0.2 + 2.0), 0, "11 ms in 2 lines", 0, 0},
    {"loader-drift",
     HEAD LINE("15:00:10", "100", "0.010", "0.100") LINE("15:00:20", "200", "0.010", "0.100")
         LINE("15:00:30", "300", "0.010", "0.100") LINE("15:00:40", "400", "0.010", "0.100")
             LINE("15:00:50", "500", "0.010", "0.100") LINE("15:01:00", "600", "0.030", "0.100")
                 LINE("15:01:10", "700", "0.030", "0.100") LINE("15:01:20", "800", "0.030", "0.100")
                     LINE("15:01:30", "900", "0.030", "0.100") LINE("15:01:40", "1000", "0.060", "0.100")
                         LINE("15:01:50", "1100", "0.060", "0.100") LINE("15:02:00", "1200", "0.060", "0.100")
                             LINE("15:02:10", "1300", "0.060", "0.100"),
     STEADY, 0.05 / 0.16, 0, "10 ms in the first third of the lines, 60 ms", 0, 0},
    {"update", STEADY, HEAD LINE("15:00:30", "100", "0.100", "0.200") LINE("15:01:00", "200", "0.100", "0.200"), 0.995,
     NAN, "199 ms of a step of 200 ms", 0, 0},
    {"update-drift",
     HEAD LINE("15:00:20", "100", "0.001", "0.199") LINE("15:00:40", "200", "0.001", "0.200")
         LINE("15:01:00", "300", "0.001", "0.200") LINE("15:01:25", "400", "0.001", "0.250")
             LINE("15:01:50", "500", "0.001", "0.250"),
     STEADY, 0.2, 1.25, "200 ms in the first half", 0, 0},
    {"batch-flat",
     "step:200 smpl:1600 updt_s:0.2 data_s:0.0\nstep:400 smpl:3200 updt_s:0.2 data_s:0.0\n"
     "step:200 smpl:6400 updt_s:0.8 data_s:0.0\nstep:400 smpl:12800 updt_s:0.8 data_s:0.0\n",
     "step:200 smpl:1600 updt_s:0.2 data_s:0.0\nstep:400 smpl:3200 updt_s:0.2 data_s:0.0\n"
     "step:200 smpl:6400 updt_s:0.4 data_s:0.0\nstep:400 smpl:12800 updt_s:0.4 data_s:0.0\n",
     NAN, NAN, "40 samples/s at batch 8, 40 at batch 32", 0, 0},
    {"step-flat",
     "step:200 smpl:1600 updt_s:0.03 data_s:0.0\nstep:400 smpl:3200 updt_s:0.03 data_s:0.0\n"
     "step:200 smpl:6400 updt_s:0.03 data_s:0.0\nstep:400 smpl:12800 updt_s:0.03 data_s:0.0\n",
     "step:200 smpl:1600 updt_s:0.03 data_s:0.0\nstep:400 smpl:3200 updt_s:0.03 data_s:0.0\n"
     "step:200 smpl:6400 updt_s:0.09 data_s:0.0\nstep:400 smpl:12800 updt_s:0.09 data_s:0.0\n",
     NAN, 4, "30 ms a step at batch 8", 0, 0},
    {"gpus-flat",
     "Effective batch size: 8 x 1 = 8\nstep:200 smpl:2K updt_s:0.2 data_s:0.0\nstep:400 smpl:3K updt_s:0.2 data_s:0.0\n"
     "End of training\nEffective batch size: 8 x 8 = 64\nstep:200 smpl:13K updt_s:1.6 data_s:0.0\n"
     "step:400 smpl:26K updt_s:1.6 data_s:0.0\n",
     "Effective batch size: 8 x 1 = 8\nstep:200 smpl:2K updt_s:0.2 data_s:0.0\nstep:400 smpl:3K updt_s:0.2 data_s:0.0\n"
     "End of training\nEffective batch size: 8 x 8 = 64\nstep:200 smpl:13K updt_s:0.21 data_s:0.0\n"
     "step:400 smpl:26K updt_s:0.21 data_s:0.0\n",
     NAN, 8, "40 samples/s with 1, 40 with 8", 0, 0},
    {"checkpoints",
     HEAD LINE("15:00:20", "100", "0.001", "0.199") "INFO 2026-08-07 15:00:40 Checkpoint policy after step 200\n" LINE(
         "15:00:40", "200", "0.001", "0.199") LINE("15:01:00", "300", "0.001", "0.199")
         LINE("15:01:20", "400", "0.001", "0.199") "INFO 2026-08-07 15:01:20 Checkpoint policy after step 400\n" LINE(
             "15:01:50", "500", "0.001", "0.199"),
     STEADY, 0, 0, "one is written at least every 200 steps", 0, 0},
    {"hub-pushes",
     HEAD LINE("15:00:20", "100", "0.001", "0.199") LINE(
         "15:00:40", "200", "0.001", "0.199") "Found 11 files to upload\n" LINE("15:01:30", "300", "0.001", "0.199"),
     STEADY, NAN, NAN, "30 s each", 0, 0},
    {"evaluation",
     HEAD LINE("15:00:20", "100", "0.001", "0.199") LINE("15:00:40", "200", "0.001", "0.199")
         LINE("15:01:00", "300", "0.001",
              "0.199") "INFO 2026-08-07 15:01:00 Eval policy at step 300\n" LINE("15:02:00", "400", "0.001", "0.199"),
     STEADY, 0.4, 1 / 0.6, "40 s in all", 0, 0},
    {"unaccounted",
     HEAD LINE("15:00:30", "100", "0.001", "0.199") LINE("15:01:00", "200", "0.001", "0.199")
         LINE("15:01:30", "300", "0.001", "0.199"),
     STEADY, 1.0 / 3, 1.5, "200 steps took 60 s by the clock", 0, 0},
    {"crash", STEADY "Traceback (most recent call last):\n", STEADY, NAN, NAN, "At about step 600", 0, 0},
    {"out-of-memory",
     "step:200 smpl:1600 updt_s:0.2 data_s:0.0 smp/s:40 mem_gb:4.00\n"
     "step:400 smpl:3200 updt_s:0.2 data_s:0.0 smp/s:40 mem_gb:4.00\n"
     "step:200 smpl:3200 updt_s:0.4 data_s:0.0 smp/s:40 mem_gb:7.00\n"
     "step:400 smpl:6400 updt_s:0.4 data_s:0.0 smp/s:40 mem_gb:7.00\n"
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 708.00 MiB. GPU 0 has a total capacity of 15.80 "
     "GiB "
     "of which 2 MiB is free.\n",
     STEADY, NAN, NAN, "1.00 GiB + 0.375 GiB per sample", 0, 0},
    {"memory-reading",
     "step:200 smpl:1600 updt_s:0.2 data_s:0.0 smp/s:40 mem_gb:4.00\n"
     "step:400 smpl:3200 updt_s:0.2 data_s:0.0 smp/s:40 mem_gb:4.00\n",
     STEADY, NAN, NAN, "5.0 to 5.8 GiB", 0, 0},
    {"first-window", HEAD LINE("15:00:50", "100", "0.300", "0.200") LINE("15:01:10", "200", "0.001", "0.199"), STEADY,
     NAN, NAN, "the start cost about 30 s", 0, 0},
    {"compilation", "time to jit: 0:00:30.0\ntime to train: 0:01:30.0\n",
     "time to jit: 0:00:00.5\ntime to train: 0:01:30.0\n", 0.25, 4.0 / 3, "30 s", 0, 0},
    {"time-left", STEADY, STEADY "INFO 2026-08-07 15:02:01 End of training\n", NAN, NAN, "600 of 4000 steps done", 0,
     0},
    {"passes",
     "cfg.steps=60000 (60K)\ndataset.num_frames=4000 (4K)\nEffective batch size: 8 x 1 = 8\nstep:100 smpl:800 "
     "updt_s:0.2 data_s:0.0\nstep:200 smpl:2K updt_s:0.2 data_s:0.0\n",
     STEADY, NAN, 1.2, "60000 steps x 8 samples / 4000 frames", 0, 0},
    {"default-iterations", BLOCK("66/30000", "0.183", "0.054"), BLOCK("66/3000", "0.183", "0.054"), NAN, 10,
     "12 min for 3000", 0, 0},
    {"ranks-same-steps",
     "cfg.steps=8000 (8K)\nEffective batch size: 8 x 4 = 32\nstep:100 smpl:3K updt_s:0.2 data_s:0.0\nstep:200 smpl:6K "
     "updt_s:0.2 data_s:0.0\n",
     STEADY, NAN, 4, "256000 samples instead of 64000", 0, 0},
    {"single-steps",
     "INFO 2024-06-23 16:00:00 ts/train.py:179 step:100 smpl:808 ep:1 updt_s:0.1 data_s:0.1\nINFO 2024-06-23 16:00:10 "
     "ts/train.py:179 step:200 smpl:1608 ep:2 updt_s:0.1 data_s:0.1\n",
     STEADY, NAN, NAN, "200 ms per step, their time stamps 100 ms", 0, 0},
    {"rounded-counters", "step:7K smpl:29K ep:66 updt_s:0.2 data_s:0.0\nstep:7K smpl:29K ep:67 updt_s:0.2 data_s:0.0\n",
     STEADY, NAN, NAN, "2 of 2 lines", 0, 0},
    {"rank-counters",
     "Effective batch size: 8 x 4 = 32\nstep:100 smpl:3K updt_s:0.2 data_s:0.0\nstep:200 smpl:6K updt_s:0.2 "
     "data_s:0.0\n",
     STEADY, NAN, NAN, "4 processes x batch 8", 0, 0},
    {"collection", BLOCK("1/9", "1.0", "0.1") BLOCK("2/9", "0.9", "0.1"), BLOCK("1/9", "0.5", "0.5"), 0.9, 1 / 0.55,
     "collection 900 ms", 0, 0},
    {"learning", BLOCK("1/9", "0.5", "0.5") BLOCK("2/9", "0.4", "0.6"), BLOCK("1/9", "0.9", "0.1"), 0.6, 1 / 0.53,
     "learning 600 ms", 0, 0},
    {"slow-simulator", BLOCK("1/9", "22.5", "0.15") BLOCK("2/9", "22.5", "0.15"), BLOCK("1/9", "1.6", "0.15"), 0, 0,
     "938 ms per step of 4096", 4096, 24},
    {"few-environments", BLOCK("1/9", "1.2", "0.15"), BLOCK("1/9", "1.2", "0.15"), NAN, NAN, "64 environments, 50 ms",
     64, 24},
    {"rollout-length", BLOCK("1/9", "2.0", "0.2"), BLOCK("1/9", "2.0", "0.2"), NAN, 2.2 / 1.2, "collection 2 s", 4096,
     48},
};

static void rules_speak_and_are_silent(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const rule_case *c = &cases[i];
        sg_explanation e = explain(c->speaks, (sg_explain_facts){.envs = c->envs, .steps_per_env = c->per_env});
        const sg_diagnosis *d = find(&e, c->rule);
        if (!d) fail_msg("%s does not speak", c->rule);
        if (!strstr(d->evidence, c->evidence)) fail_msg("%s: '%s'", c->rule, d->evidence);
        if (!d->text[0] || !d->remedy[0]) fail_msg("%s: says nothing", c->rule);
        if (isnan(c->share) ? !isnan(d->share) : c->share > 0 && fabs(d->share - c->share) > 0.003)
            fail_msg("%s: share %g", c->rule, d->share);
        if (isnan(c->gain) ? !isnan(d->gain) : c->gain > 0 && fabs(d->gain - c->gain) > 0.01)
            fail_msg("%s: gain %g", c->rule, d->gain);
        sg_explanation_clear(&e);
        bool same = c->envs > 0; /* the same log: of the usual numbers */
        e = explain(c->silent, (sg_explain_facts){.envs = same ? 4096 : 0, .steps_per_env = same ? 24 : 0});
        d = find(&e, c->rule);
        if (d) fail_msg("%s speaks: %s", c->rule, d->evidence);
        sg_explanation_clear(&e);
    }
}

/* ---- against a machine --------------------------------------------------------------------------------------------- */

static sg_figure figure(double value) {
    return (sg_figure){.value = value, .low = value / 1.2, .high = value * 1.2};
}

static sg_prediction prediction(double update_s, double peak_bytes, const char *limit, double busy) {
    sg_prediction p = {.update_s = figure(update_s),
                       .step_s = figure(update_s + 0.001),
                       .peak_allocated_bytes = figure(peak_bytes),
                       .device_busy_share = busy,
                       .exposed_sync_s = 0.05};
    (void)snprintf(p.limited_by, sizeof p.limited_by, "%s", limit);
    (void)snprintf(p.limited_by_text, sizeof p.limited_by_text, "%s-bound", limit);
    return p;
}

static const char with_memory[] = "Effective batch size: 8 x 2 = 16\n"
                                  "step:200 smpl:3200 updt_s:0.2 data_s:0.0 smp/s:80 mem_gb:4.00\n"
                                  "step:400 smpl:6400 updt_s:0.2 data_s:0.0 smp/s:80 mem_gb:4.00\n";

static void machines_tell_more(void **state) {
    (void)state;
    sg_prediction p = prediction(0.15, 2 * 0x1p30, "launch", 0.3);
    sg_explain_variant variants[2] = {
        {.change = "CUDA graphs", .predicted = prediction(0.05, 2 * 0x1p30, "launch", 0.9)},
        {.change = "full precision", .fp32 = true, .predicted = prediction(0.2, 4 * 0x1p30, "compute", 0.9)}};
    sg_machine machine = {.memory_bytes = (uint64_t)8 << 30};
    sg_explain_facts facts = {
        .machine = &machine, .predicted = &p, .variants = variants, .n_variants = 2, .precision = "bf16"};
    sg_explanation e = explain(with_memory, facts);
    const sg_diagnosis *d = find(&e, "limit");
    assert_non_null(d);
    assert_string_equal(d->cause, "launch");
    assert_true(strstr(d->remedy, "CUDA graphs") && fabs(d->gain - 3) < 0.01);
    d = find(&e, "slower-than-machine"); /* 0.2 s, at most 0.18 */
    assert_true(d && fabs(d->gain - 0.2 / 0.15) < 0.01 && fabs(d->share - 0.25) < 0.01);
    d = find(&e, "precision-ignored"); /* 4 GiB are full precision's */
    assert_true(d && strstr(d->evidence, "4.00 GiB at the peak"));
    d = find(&e, "communication");
    assert_true(d && fabs(d->share - 0.05 / 0.151) < 0.01);
    d = find(&e, "memory-room");
    assert_true(d && strstr(d->evidence, "of 8.00 GiB"));
    assert_null(find(&e, "update")); /* the machine says it better */
    sg_explanation_clear(&e);

    p = prediction(0.2, 4 * 0x1p30, "compute", 0.95);
    p.exposed_sync_s = 0;
    machine.memory_bytes = 0;
    e = explain(with_memory, facts);
    assert_string_equal(find(&e, "limit")->cause, "compute");
    assert_null(find(&e, "slower-than-machine"));
    assert_null(find(&e, "precision-ignored"));
    assert_null(find(&e, "communication"));
    assert_null(find(&e, "memory-room"));
    sg_explanation_clear(&e);
    e = explain(with_memory, (sg_explain_facts){0});
    assert_null(find(&e, "limit"));
    assert_true(e.n_asks > 0 && strstr(e.asks[0], "--machine"));
    sg_explanation_clear(&e);
}

static void storage_of_checkpoints(void **state) {
    (void)state;
    static const char text[] = "num_learnable_params=3616757520 (4B)\nnum_total_params=3616757520 (4B)\n"
                               "cfg.steps=60000 (60K)\nstep:200 smpl:3200 updt_s:0.2 data_s:0.0\n"
                               "step:400 smpl:6400 updt_s:0.2 data_s:0.0\n";
    sg_logs logs = sg_logs_of_text(text);
    sg_explain_facts facts = {.log = &logs.logs[0]};
    sg_explanation e;
    sg_status status;
    assert_int_equal(sg_explain(&facts, &e, &status), SG_OK);
    assert_null(find(&e, "checkpoint-storage")); /* how often it saves is not told */
    sg_explanation_clear(&e);
    logs.logs[0].config.save_every = 6000; /* as a train_config.json fills it in */
    assert_int_equal(sg_explain(&facts, &e, &status), SG_OK);
    const sg_diagnosis *d = find(&e, "checkpoint-storage");
    assert_true(d && strstr(d->evidence, "10 saves"));
    sg_explanation_clear(&e);
    sg_logs_clear(&logs);
}

static void every_rule_is_tested(void **state) {
    (void)state;
    static const char *const elsewhere[] = {"limit",         "slower-than-machine", "precision-ignored",
                                            "communication", "memory-room",         "checkpoint-storage"};
    const char *name;
    for (size_t r = 0; (name = sg_explain_rule_name(r)) != NULL; r++) {
        bool found = false;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) found |= strcmp(cases[i].rule, name) == 0;
        for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) found |= strcmp(elsewhere[i], name) == 0;
        if (!found) fail_msg("%s has no test", name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_speak_and_are_silent),
        cmocka_unit_test(machines_tell_more),
        cmocka_unit_test(storage_of_checkpoints),
        cmocka_unit_test(every_rule_is_tested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
