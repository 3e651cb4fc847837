/* import as a command: tables, JSON, train_config.json beside a log, observed points, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/files/run_file.h"
#include "tests/support/near.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

static sg_scratch scratch;
static char train[96], rl[96], none[96], run_path[96], noise[96], plain[96];

static const char lerobot_text[] = "INFO 2026-08-07 15:43:30 ot_train.py:441 cfg.steps=20000 (20K)\n"
                                   "INFO 2026-08-07 15:43:30 ot_train.py:442 dataset.num_frames=71471 (71K)\n"
                                   "INFO 2026-08-07 15:43:30 ot_train.py:443 dataset.num_episodes=52\n"
                                   "INFO 2026-08-07 15:43:30 ot_train.py:446 Effective batch size: 8 x 1 = 8\n"
                                   "INFO 2026-08-07 15:43:30 ot_train.py:447 num_learnable_params=51597190 (52M)\n"
                                   "INFO 2026-08-07 15:44:30 ot_train.py:769 step:200 smpl:2K data_s:0.050 "
                                   "prep_s:0.001 updt_s:0.210 step_s:0.261 smp/s:31 "
                                   "mem_gb:3.73\n"
                                   "INFO 2026-08-07 15:45:10 ot_train.py:769 step:400 smpl:3K data_s:0.002 "
                                   "prep_s:0.001 updt_s:0.180 step_s:0.183 smp/s:44 "
                                   "mem_gb:3.75\n"
                                   "INFO 2026-08-07 15:45:10 ot_train.py:651 Checkpoint policy after step 400\n"
                                   "INFO 2026-08-07 15:46:00 ot_train.py:769 step:600 smpl:5K data_s:0.002 "
                                   "prep_s:0.001 updt_s:0.182 step_s:0.185 smp/s:43 "
                                   "mem_gb:3.75\n";

static int make_files(void **state) {
    (void)state;
    scratch = sg_scratch_new();
    sg_scratch_file(&scratch, "a/train.log", lerobot_text);
    sg_scratch_file(
        &scratch, "a/train_config.json",
        "{\"batch_size\": 8, \"steps\": 20000, \"num_workers\": 6, \"save_freq\": 400, \"policy\": {\"type\": "
        "\"act\", \"input_features\": {\"observation.images.top\": {\"type\": \"VISUAL\", \"shape\": [3, 96, "
        "128]}, \"observation.state\": {\"type\": \"STATE\", \"shape\": [6]}}, \"output_features\": "
        "{\"action\": {\"type\": \"ACTION\", \"shape\": [6]}}}}");
    sg_scratch_file(&scratch, "rl.log",
                    "Learning iteration 0/10\nTotal steps: 256\nSteps per second: 256\nCollection time: 0.768s\n"
                    "Learning time: 0.238s\nLearning iteration 1/10\nTotal steps: 512\nSteps per second: 1581\n"
                    "Collection time: 0.102s\nLearning time: 0.060s\nMean surrogate loss: -0.0076\n");
    sg_scratch_file(&scratch, "none.log", "one two three\n");
    sg_scratch_file(&scratch, "noise.log", "step:1 updt_s:0.1\nCheckpoint policy after step 1 \xff\xc0\x80\xe2\x88\n");
    sg_scratch_file(&scratch, "b/plain.log",
                    "step:10 smpl:640 updt_s:0.5 data_s:0.0\nstep:20 smpl:1280 updt_s:0.01 "
                    "data_s:0.0\nstep:30 smpl:1920 updt_s:0.011 data_s:0.0\n");
    sg_scratch_file(&scratch, "b/train_config.json", "{\"batch_size\": ");
    (void)snprintf(plain, sizeof plain, "%s/b/plain.log", scratch.path);
    (void)snprintf(train, sizeof train, "%s/a/train.log", scratch.path);
    (void)snprintf(rl, sizeof rl, "%s/rl.log", scratch.path);
    (void)snprintf(none, sizeof none, "%s/none.log", scratch.path);
    (void)snprintf(noise, sizeof noise, "%s/noise.log", scratch.path);
    (void)snprintf(run_path, sizeof run_path, "%s/run.h5", scratch.path);
    return 0;
}

static int remove_files(void **state) {
    (void)state;
    sg_scratch_free(&scratch);
    return 0;
}

static void logs_as_json(void **state) {
    (void)state;
    json_t *root = sg_said_answer(sg_stepgauge("import", train, rl, "--json", NULL), 0);
    json_t *logs = json_object_get(root, "logs");
    assert_int_equal(json_array_size(logs), 2);
    json_t *first = json_array_get(logs, 0), *second = json_array_get(logs, 1);
    assert_string_equal(json_string_value(json_object_get(first, "file")), train);
    assert_string_equal(json_string_value(json_object_get(first, "format")), "lerobot-2026-08");
    json_t *config = json_object_get(first, "config");
    assert_string_equal(json_string_value(json_object_get(config, "policy")), "act"); /* the file beside it */
    assert_close(sg_json_number(config, "batch"), 8);
    assert_close(sg_json_number(config, "ranks"), 1);
    assert_close(sg_json_number(config, "steps"), 20000);
    assert_close(sg_json_number(config, "frames"), 71471);
    assert_close(sg_json_number(config, "episodes"), 52);
    assert_close(sg_json_number(config, "parameters_trainable"), 51597190);
    assert_close(sg_json_number(config, "workers"), 6);
    assert_null(json_object_get(config, "parameters_total"));
    json_t *windows = json_object_get(first, "windows");
    assert_int_equal(json_array_size(windows), 3);
    json_t *window = json_array_get(windows, 1);
    assert_close(sg_json_number(window, "step"), 400);
    assert_close(sg_json_number(window, "update_s"), 0.18);
    assert_close(sg_json_number(window, "dataloading_s"), 0.002);
    assert_close(sg_json_number(window, "preprocessing_s"), 0.001);
    assert_close(sg_json_number(window, "step_s"), 0.183);
    assert_close(sg_json_number(window, "samples_per_s"), 44);
    assert_true(fabs(sg_json_number(window, "peak_allocated_bytes") - 3.75 * 0x1p30) <= 1);
    assert_null(json_object_get(window, "collection_s"));
    assert_close(sg_json_number(first, "steady.step_s"), 0.184);
    assert_close(sg_json_number(first, "steady.windows"), 2);
    assert_close(sg_json_number(first, "steady.first_dropped"), 1);
    assert_close(sg_json_number(first, "steady.stalled"), 0);
    json_t *event = json_array_get(json_object_get(first, "events"), 0);
    assert_string_equal(json_string_value(json_object_get(event, "kind")), "checkpoint");
    assert_close(sg_json_number(event, "step"), 400);
    assert_close(sg_json_number(event, "seconds"), 50 - 200 * 0.185);
    assert_true(json_is_array(json_object_get(first, "warnings")));
    window = json_array_get(json_object_get(second, "windows"), 1);
    assert_close(sg_json_number(window, "iteration"), 1);
    assert_close(sg_json_number(window, "collection_s"), 0.102);
    assert_close(sg_json_number(window, "learning_s"), 0.06);
    assert_close(sg_json_number(window, "env_steps_per_s"), 1581);
    assert_null(json_object_get(window, "update_s"));
    json_decref(root);
    json_decref(sg_said_answer(sg_stepgauge("import", noise, "--json", NULL), 0)); /* bytes that JSON cannot hold */
}

static void logs_as_tables(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("import", train, NULL);
    assert_int_equal(said.status, 0);
    static const char *const parts[] = {"lerobot-2026-08", "warm-up", "steady (2)", "checkpoint", "train_config.json"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(said.out, parts[i])) fail_msg("'%s' is missing in: %s", parts[i], said.out);
    sg_said_clear(&said);
}

/* A quoted line that is cut within a character still is JSON. */
static void quotations(void **state) {
    (void)state;
    char text[512] = "step:1 updt_s:0.1\nError executing job with overrides: [", path[96];
    size_t n = strlen(text);
    for (int i = 0; i < 60; i++, n += 3) memcpy(text + n, "\xe2\x88\x91", 4);
    sg_scratch_file(&scratch, "quoted.log", text);
    (void)snprintf(path, sizeof path, "%s/quoted.log", scratch.path);
    json_t *root = sg_said_answer(sg_stepgauge("import", path, "--explain", "--json", NULL), 0), *one;
    bool crash = false;
    size_t i;
    json_array_foreach(json_object_get(json_array_get(json_object_get(root, "logs"), 0), "diagnoses"), i, one) {
        const char *rule = json_string_value(json_object_get(one, "rule"));
        crash |= strcmp(rule, "crash") == 0;
        assert_true(json_is_string(json_object_get(one, "text")) && json_is_string(json_object_get(one, "evidence")));
    }
    assert_true(crash);
    json_decref(root);
}

static void logs_explained(void **state) {
    (void)state;
    json_t *root = sg_said_answer(sg_stepgauge("import", train, "--explain", "--json", NULL), 0);
    json_t *log = json_array_get(json_object_get(root, "logs"), 0), *diagnoses = json_object_get(log, "diagnoses");
    json_t *first = json_array_get(diagnoses, 0);
    assert_string_equal(json_string_value(json_object_get(first, "rule")), "update"); /* no machine to ask */
    assert_true(sg_json_number(first, "share") > 0.9);
    assert_true(json_is_string(json_object_get(first, "evidence")) && json_is_string(json_object_get(first, "remedy")));
    assert_true(json_array_size(json_object_get(log, "asks")) > 0);
    json_decref(root);
    root = sg_said_answer(sg_stepgauge("import", train, "--explain", "--machine", "rtx-4090", "--json", NULL), 0);
    log = json_array_get(json_object_get(root, "logs"), 0);
    bool limit = false;
    size_t i;
    json_array_foreach(json_object_get(log, "diagnoses"), i, first) {
        limit |= strcmp(json_string_value(json_object_get(first, "rule")), "limit") == 0;
    }
    assert_true(limit);
    json_decref(root);
    root = sg_said_answer(sg_stepgauge("import", train, "--json", NULL), 0);
    assert_null(json_object_get(json_array_get(json_object_get(root, "logs"), 0), "diagnoses"));
    json_decref(root);
    sg_said said = sg_stepgauge("import", train, "--explain", NULL);
    assert_int_equal(said.status, 0);
    assert_non_null(strstr(said.out, "What limits this training"));
    sg_said_clear(&said);
}

static void observed_points(void **state) {
    (void)state;
    json_t *root =
        sg_said_answer(sg_stepgauge("import", train, "-o", run_path, "--machine", "rtx-4090", "--json", NULL), 0);
    assert_close(sg_json_number(root, "points_written"), 1);
    json_decref(root);
    root = sg_said_answer(sg_stepgauge("import", rl, "-o", run_path, "--machine", "rtx-4090", "--envs", "64",
                                       "--steps-per-env", "4", "--json", NULL),
                          0);
    json_decref(root);
    sg_run run;
    sg_status status;
    assert_int_equal(sg_run_file_read(run_path, &run, &status), SG_OK);
    assert_int_equal(run.n_points, 2);
    const sg_point *act = &run.points[0], *ppo = &run.points[1];
    assert_string_equal(act->source, "observed");
    assert_string_equal(act->config.policy, "act");
    assert_string_equal(act->config.device, "cuda");
    assert_int_equal(act->config.batch, 8);
    assert_int_equal(act->config.cameras, 1);
    assert_int_equal(act->config.image_height, 96);
    assert_int_equal(act->config.workers, 6);
    assert_close(act->q[SG_Q_STEP].median, 0.184);
    assert_close(act->q[SG_Q_UPDATE].median, 0.181);
    assert_non_null(strstr(act->gpu.name, "4090"));
    assert_non_null(strstr(run.machine.gpu, "4090"));
    assert_int_equal(ppo->config.envs, 64);
    assert_close(ppo->q[SG_Q_COLLECTION].median, 0.102);
    assert_close(ppo->q[SG_Q_ITERATION].median, 0.162);
    sg_run_clear(&run);
    /* A fit of logs alone adjusts the data sheet of the machine that they name. */
    char machine[128];
    (void)snprintf(machine, sizeof machine, "%s/observed.h5", scratch.path);
    root = sg_said_answer(sg_stepgauge("fit", run_path, "-o", machine, "--json", NULL), 0);
    json_t *notes = json_object_get(root, "notes");
    assert_non_null(strstr(json_string_value(json_array_get(notes, 0)), "training logs alone"));
    bool surprised = false;
    size_t at;
    json_t *note;
    json_array_foreach(notes, at, note) surprised |= strstr(json_string_value(note), "other than said") != NULL;
    assert_true(surprised);
    json_decref(root);
    root = sg_said_answer(sg_stepgauge("predict", "act", "--machine", machine, "--cameras", "1", "--image-size",
                                       "96x96", "--batch", "8", "--json", NULL),
                          0);
    /* ten times what the sheet says: taken as far as the sheet's doubt goes, and said */
    assert_true(sg_json_number(json_object_get(root, "update_s"), "value") > 0.012);
    json_decref(root);
}

/* Beside measurements they tell a fit how far the framework is from what was run here. */
static void fit_of_measured_and_observed(void **state) {
    (void)state;
    char path[96];
    (void)snprintf(path, sizeof path, "%s/mixed.h5", scratch.path);
    sg_said said = sg_stepgauge("measure", "mlp", "--device", "cpu", "--batch", "4,8,16", "--time-budget", "1", "-o",
                                path, "--quiet", NULL);
    if (said.status != 0) fail_msg("%s", said.err);
    sg_said_clear(&said);
    json_decref(sg_said_answer(
        sg_stepgauge("import", plain, "--policy", "mlp", "--machine", "cpu", "-o", path, "--json", NULL), 0));
    json_t *root = sg_said_answer(sg_stepgauge("fit", path, "--json", NULL), 0);
    bool told = false;
    size_t i, rows = 0;
    json_t *one;
    json_array_foreach(json_object_get(root, "notes"), i, one) told |= strncmp(json_string_value(one), "logs:", 5) == 0;
    assert_true(told);
    json_array_foreach(json_object_get(root, "laws"), i,
                       one) if (json_integer_value(json_object_get(one, "points")) == 3) rows++;
    assert_true(rows > 0); /* of the three that were measured */
    json_decref(root);
}

/* The clock has 0.2 s a step where nothing is saved, so the checkpoint took 10 s; one comes every 400 steps. */
static void what_is_left(void **state) {
    (void)state;
    json_t *root = sg_said_answer(sg_stepgauge("plan", "--log", train, "--json", NULL), 0);
    assert_close(sg_json_number(root, "step"), 600);
    assert_close(sg_json_number(root, "steps"), 20000);
    assert_close(sg_json_number(root, "pace.steady_s"), 0.2);
    assert_close(sg_json_number(root, "checkpoints"), 49);
    assert_close(sg_json_number(root, "checkpoint_s"), 10);
    assert_close(sg_json_number(root, "rest_s.value"), 19400 * 0.2 + 490);
    assert_close(sg_json_number(root, "loader_s"), 19400 * 0.002);
    json_decref(root);
    sg_said said = sg_stepgauge("plan", "--log", train, "--steps", "1600", "--deadline", "1", NULL);
    assert_int_equal(said.status, 0);
    assert_non_null(strstr(said.out, "To go: "));
    assert_non_null(strstr(said.out, "Within 1 h"));
    sg_said_clear(&said);
    said = sg_stepgauge("plan", "--log", train, "--deadline", "0.5", NULL);
    assert_int_equal(said.status, 1); /* it takes more than an hour */
    assert_non_null(strstr(said.out, "NOT safely within 30 min"));
    sg_said_clear(&said);
    root = sg_said_answer(sg_stepgauge("plan", "--log", rl, "--json", NULL), 0); /* iteration 1 of 10, no clock */
    assert_close(sg_json_number(root, "rest_s.value"), 9 * 0.162);
    json_decref(root);
    root = sg_said_answer(sg_stepgauge("validate", "--logs", train, rl, "--json", NULL), 0);
    assert_int_equal(json_array_size(json_object_get(root, "skipped")), 1);
    json_decref(root);
}

static void configs_beside(void **state) {
    (void)state;
    json_t *root = sg_said_answer(sg_stepgauge("import", plain, "--json", NULL), 0);
    json_t *log = json_array_get(json_object_get(root, "logs"), 0);
    assert_null(json_object_get(json_object_get(log, "config"), "policy"));
    json_t *last =
        json_array_get(json_object_get(log, "warnings"), json_array_size(json_object_get(log, "warnings")) - 1);
    assert_non_null(strstr(json_string_value(last), "Not used")); /* it is no JSON */
    json_decref(root);
    char config[96];
    (void)snprintf(config, sizeof config, "%s/a/train_config.json", scratch.path);
    root = sg_said_answer(sg_stepgauge("import", plain, "--train-config", config, "--json", NULL), 0);
    log = json_array_get(json_object_get(root, "logs"), 0);
    assert_null(json_object_get(json_object_get(log, "config"), "policy"));
    last = json_array_get(json_object_get(log, "warnings"), json_array_size(json_object_get(log, "warnings")) - 1);
    assert_non_null(strstr(json_string_value(last), "another run"));
    json_decref(root);
}

static void refuse(sg_said said, const char *part) {
    if (said.status != 2) fail_msg("exit status %d: %s", said.status, said.err);
    if (!strstr(said.err, part)) fail_msg("'%s' is missing in: %s", part, said.err);
    sg_said_clear(&said);
}

static void refusals(void **state) {
    (void)state;
    refuse(sg_stepgauge("plan", "act", "--log", train, NULL), "leave out a policy");
    refuse(sg_stepgauge("plan", "--log", train, "--epochs", "3", NULL), "leave out --epochs");
    refuse(sg_stepgauge("plan", "--log", train, "--log", rl, NULL), "one training at a time");
    refuse(sg_stepgauge("plan", "--log", "/nowhere/x.log", NULL), "/nowhere/x.log");
    refuse(sg_stepgauge("validate", "--cross-validate", "batches", NULL), "--reports");
    char other[96];
    (void)snprintf(other, sizeof other, "%s/other.h5", scratch.path);
    refuse(sg_stepgauge("import", NULL), "which logs");
    refuse(sg_stepgauge("import", "/nonexistent.log", NULL), "/nonexistent.log");
    refuse(sg_stepgauge("import", none, NULL), "rsl_rl");
    refuse(sg_stepgauge("import", none, "--json", NULL), "updt_s");
    refuse(sg_stepgauge("import", rl, "-o", other, NULL), "--machine, --envs, --steps-per-env");
    refuse(sg_stepgauge("import", noise, "-o", other, NULL), "warm-up");
    refuse(sg_stepgauge("import", train, "--train-config", none, NULL), "none.log");
    refuse(sg_stepgauge("import", train, "-o", other, "--machine", "no-such-gpu", NULL), "no-such-gpu");
    refuse(sg_stepgauge("import", train, "-o", other, "--machine", "l4", "--policy", "nothing", NULL), "nothing");
    FILE *file = fopen(other, "r");
    assert_null(file);
}

/* A log with its number of environments becomes what the simulator needs, and predicts another number. */
static void simulators(void **state) {
    (void)state;
    char run[96], machine[96];
    (void)snprintf(run, sizeof run, "%s/rl.h5", scratch.path);
    (void)snprintf(machine, sizeof machine, "%s/rl-machine.h5", scratch.path);
    sg_said said = sg_stepgauge("import", rl, "-o", run, "--machine", "rtx-4090", "--envs", "64", "--steps-per-env",
                                "4", "--task", "mjlab-go1", NULL);
    assert_int_equal(said.status, 0);
    sg_said_clear(&said);
    said = sg_stepgauge("fit", run, "--machine", "rtx-4090", "-o", machine, NULL);
    assert_int_equal(said.status, 0);
    assert_non_null(strstr(said.out, "mjlab-go1"));
    sg_said_clear(&said);
    json_t *root = sg_said_answer(sg_stepgauge("predict", "ppo", "--machine", machine, "--task", "mjlab-go1", "--envs",
                                               "64", "--steps-per-env", "4", "--iterations", "100", "--json", NULL),
                                  0);
    assert_true(fabs(sg_json_number(root, "collection_s.value") / 0.102 - 1) < 0.1);
    assert_close(sg_json_number(root, "total_s.value"), 100 * sg_json_number(root, "iteration_s.value"));
    json_decref(root);
    said = sg_stepgauge("predict", "ppo", "--machine", machine, "--task", "nobody-knows", NULL);
    assert_int_equal(said.status, 2);
    assert_true(strstr(said.err, "mjlab-go1") && strstr(said.err, "isaac-lab"));
    sg_said_clear(&said);
    said = sg_stepgauge("predict", "act", "--machine", "rtx-4090", "--task", "mjlab", NULL);
    assert_int_equal(said.status, 2);
    sg_said_clear(&said);
    root = sg_said_answer(
        sg_stepgauge("plan", "ppo", "--machine", machine, "--envs", "64", "--iterations", "100", "--json", NULL), 0);
    assert_true(sg_json_number(root, "here.wall_clock_s.value") > 0);
    json_decref(root);
}

/* After observed_points: the run file holds this very log. */
static void logs_compared(void **state) {
    (void)state;
    json_t *root = sg_said_answer(sg_stepgauge("compare", train, run_path, "rtx-4090", "--json", NULL), 0);
    json_t *first = json_array_get(json_object_get(root, "comparisons"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "policy")), "act");
    assert_close(sg_json_number(first, "phases.update_s.log"), 0.181);
    assert_close(sg_json_number(first, "phases.update_s.log_over_measured"), 1);
    assert_true(sg_json_number(first, "phases.update_s.predicted.value") > 0);
    assert_true(json_is_true(json_object_get(json_object_get(first, "nearest_point"), "same_configuration")));
    assert_true(json_array_size(json_object_get(first, "findings")) > 0);
    json_decref(root);
    sg_said said = sg_stepgauge("compare", train, "rtx-4090", "--batch", "4", NULL);
    assert_int_equal(said.status, 0);
    assert_true(strstr(said.out, "batch 4") && strstr(said.out, "log / predicted"));
    sg_said_clear(&said);
    said = sg_stepgauge("compare", rl, "rtx-4090", NULL);
    assert_int_equal(said.status, 2);
    assert_true(strstr(said.err, "--envs") && strstr(said.err, "--steps-per-env"));
    sg_said_clear(&said);
    said = sg_stepgauge("compare", train, train, NULL);
    assert_int_equal(said.status, 2);
    sg_said_clear(&said);
    said = sg_stepgauge("compare", train, NULL);
    assert_int_equal(said.status, 2);
    assert_non_null(strstr(said.err, "what to compare it with"));
    sg_said_clear(&said);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logs_as_json),    cmocka_unit_test(logs_as_tables),
        cmocka_unit_test(logs_explained),  cmocka_unit_test(quotations),
        cmocka_unit_test(observed_points), cmocka_unit_test(logs_compared),
        cmocka_unit_test(simulators),      cmocka_unit_test(fit_of_measured_and_observed),
        cmocka_unit_test(configs_beside),  cmocka_unit_test(refusals),
        cmocka_unit_test(what_is_left),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
