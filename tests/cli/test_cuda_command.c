/* Whole command lines on GPUs: what a point tells, several GPUs, what fits, benchmarks, fits. The program runs on the emulated
 * CUDA and the emulated driver, as users run it on theirs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "calibration/predict/predict.h"
#include "sim/files/run_file.h"
#include "sim/ranks/process_tree.h"
#include "tests/support/gpu_machine.h"

/* ---- points ---------------------------------------------------------------------------------------------------------- */

/* No --device: the GPU that is ready is taken. */
static void a_point_tells_of_its_gpu(void **state) {
    (void)state;
    const json_t *points;
    json_t *root = sg_gpu_points_of(sg_stepgauge("measure", "mlp", "--batch", "8", "--json", SMALL, NULL), &points, 1);
    const json_t *p = json_array_get(points, 0), *gpu = json_object_get(p, "gpu");
    sg_gpu_is_told(p, "emulated");
    assert_string_equal(sg_gpu_text_of(gpu, "driver"), "580.65.06");
    assert_string_equal(sg_gpu_text_of(gpu, "bus"), "00000000:01:00.0");
    assert_string_equal(sg_gpu_text_of(gpu, "throttle"), "");
    assert_non_null(strstr(sg_gpu_text_of(gpu, "libraries"), "cuDNN 9."));
    assert_non_null(strstr(sg_gpu_text_of(gpu, "libraries"), "NCCL 2."));
    assert_true(sg_json_number(gpu, "samples") >= 1 && sg_json_number(gpu, "sm_clock_mhz") == 1980);
    assert_true(sg_json_number(gpu, "temperature_c") == 40 && sg_json_number(gpu, "power_limit_w") == 700);
    assert_true(sg_json_number(root, "machine.gpus.count") == 4);
    json_decref(root);
}

/* Times with one machine's host must not pass for times with another's. */
static void another_host_is_another_point(void **state) {
    (void)state;
    sg_point_config config = {.policy = "mlp", .device = "cuda", .host = "emulated", .host_op_ns = 20000, .batch = 8};
    uint64_t key = sg_point_key(&config);
    config.host_op_ns = 30000;
    assert_true(sg_point_key(&config) != key);
}

/* Microseconds of a trace's spans with this category or on this track; n: how many. */
static double traced_us(const json_t *trace, const char *category, int track, size_t *n) {
    double sum = 0;
    size_t i;
    json_t *event;
    *n = 0;
    json_array_foreach(json_object_get(trace, "traceEvents"), i, event) {
        const char *its = json_string_value(json_object_get(event, "cat"));
        if (!its || (category && strcmp(its, category) != 0)) continue;
        if (!category && json_integer_value(json_object_get(event, "tid")) != track) continue;
        sum += json_number_value(json_object_get(event, "dur"));
        ++*n;
    }
    return sum;
}

/* The compute stream is busy inside of the phases, whatever the two clocks show; ranks exchange; a replay is one span. */
static void a_trace_of_gpus(void **state) {
    (void)state;
    enum { COMPUTE = 3, COLLECTIVE = 5 };
    char path[128];
    (void)snprintf(path, sizeof path, "%s/trace.json", sg_gpu_scratch.path);
    for (int way = 0; way < 3; way++) {
        const json_t *points;
        const char *gpus = way == 1 ? "2" : "1", *last = way == 2 ? "--cuda-graph" : NULL;
        json_decref(sg_gpu_points_of(
            sg_stepgauge("measure", "mlp", "--gpus", gpus, "--trace", path, "--json", SMALL, last, NULL), &points, 1));
        json_t *trace = json_load_file(path, 0, NULL);
        assert_non_null(trace);
        size_t ops, exchanges, phases;
        double phases_us = traced_us(trace, "phase", 0, &phases), compute_us = traced_us(trace, NULL, COMPUTE, &ops);
        (void)traced_us(trace, NULL, COLLECTIVE, &exchanges);
        assert_true(phases > 0 && compute_us > 0 && compute_us <= phases_us);
        assert_true(way == 2 ? ops > 0 && ops < 20 : ops > 20);
        assert_true((exchanges > 0) == (way == 1));
        json_decref(trace);
        assert_int_equal(remove(path), 0);
    }
}

/* Ranks write into a file that holds other policies' points too. */
static void only_what_was_asked_for_is_shown(void **state) {
    (void)state;
    const json_t *points;
    json_decref(sg_gpu_points_of(sg_stepgauge("measure", "mlp", "--gpus", "2", "--set", "activation=relu", "-o",
                                              sg_gpu_run_path, "--json", SMALL, NULL),
                                 &points, 1));
    json_t *root = sg_gpu_points_of(sg_stepgauge("measure", "mlp", "--gpus", "2", "--set", "activation=tanh", "-o",
                                                 sg_gpu_run_path, "--json", SMALL, NULL),
                                    &points, 1);
    assert_non_null(strstr(sg_gpu_text_of(json_array_get(points, 0), "settings"), "activation=tanh"));
    assert_int_equal(sg_gpu_points_in(sg_gpu_run_path), 2);
    json_decref(root);
}

/* Each changes what is run, so each is a point of its own in the run file. */
static void ways_to_run_a_step(void **state) {
    (void)state;
    static const struct {
        const char *option, *value, *host, *execution, *precision;
    } ways[] = {{"--host", "native", "native", "", "fp32"},
                {"--conv", "heuristic", "emulated", "heuristic-conv", "fp32"},
                {"--cuda-graph", NULL, "emulated", "cuda-graph", "fp32"},
                {"--precision", "tf32", "emulated", "", "tf32"},
                {"--precision", "bf16", "emulated", "", "bf16"},
                {"--precision", "fp16", "emulated", "", "fp16"},
                {"--precision", "bf16-pure", "emulated", "", "bf16-pure"}};
    enum { N = sizeof ways / sizeof ways[0] };
    for (size_t i = 0; i < N; i++) {
        const json_t *points;
        json_t *root = sg_gpu_points_of(sg_stepgauge("measure", "mlp", "--batch", "8", "--json", "--device", "cuda",
                                                     "-o", sg_gpu_run_path, SMALL, ways[i].option, ways[i].value, NULL),
                                        &points, 1);
        const json_t *p = json_array_get(points, 0);
        sg_gpu_is_told(p, ways[i].host);
        assert_string_equal(sg_gpu_text_of(p, "execution"), ways[i].execution);
        assert_string_equal(sg_gpu_text_of(p, "precision"), ways[i].precision);
        json_decref(root);
    }
    assert_int_equal(sg_gpu_points_in(sg_gpu_run_path), N);
    sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", "8", "-o", sg_gpu_run_path, SMALL, "--cuda-graph", NULL), 0,
                  "in the run file already");
    assert_int_equal(sg_gpu_points_in(sg_gpu_run_path), N);
}

static void policies_of_every_kind(void **state) {
    (void)state;
    const json_t *points;
    json_t *root = sg_gpu_points_of(sg_stepgauge("measure", "ppo", "--envs", "16", "--steps-per-env", "4",
                                                 "--mini-batches", "2", "--ppo-epochs", "1", "--env-step-us", "5",
                                                 "--min-iterations", "2", "--time-budget", "0.2", "--json", NULL),
                                    &points, 1);
    sg_gpu_is_told(json_array_get(points, 0), "emulated");
    assert_true(sg_json_number(json_array_get(points, 0), "env_steps_per_s") > 0);
    json_decref(root);
    root = sg_gpu_points_of(sg_stepgauge("measure", "--config", sg_gpu_small_act(), "--batch", "1", "--min-iterations",
                                         "1", "--time-budget", "1", "--json", NULL),
                            &points, 1);
    sg_gpu_is_told(json_array_get(points, 0), "emulated");
    assert_true(sg_json_number(json_array_get(points, 0), "preprocessing_device_s") > 0);
    json_decref(root);
    char config[96];
    (void)snprintf(config, sizeof config, "%s/smolvla.yaml", sg_gpu_scratch.path);
    sg_scratch_file(&sg_gpu_scratch, "smolvla.yaml",
                    "policy: smolvla\ncameras: 2\nimage_height: 32\nimage_width: 48\nstate_dim: 3\naction_dim: 2\n"
                    "max_state_dim: 4\nmax_action_dim: 5\nchunk_size: 3\nlanguage_tokens: 3\n"
                    "resize_imgs_with_padding: [32, 32]\nnum_vlm_layers: 2\ntext_hidden_size: 16\n"
                    "text_intermediate_size: 14\ntext_num_attention_heads: 3\ntext_num_key_value_heads: 1\n"
                    "text_head_dim: 4\nvocab_size: 13\nvision_hidden_size: 8\nvision_intermediate_size: 10\n"
                    "vision_num_hidden_layers: 2\nvision_num_attention_heads: 2\nvision_patch_size: 8\n"
                    "scale_factor: 2\n");
    root = sg_gpu_points_of(sg_stepgauge("measure", "--config", config, "--batch", "1", "--gpus", "2", "--precision",
                                         "bf16", "--min-iterations", "1", "--time-budget", "1", "--json", NULL),
                            &points, 1);
    sg_gpu_is_told(json_array_get(points, 0), "emulated");
    json_decref(root);
}

static void no_bf16_on_a_t4(void **state) {
    (void)state;
    sg_gpu_emulation("gpus=4,capability=75");
    sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", "8", "--precision", "bf16", SMALL, NULL), 1,
                  "has no bf16 (compute capability below 8.0): use --precision fp16 or fp32");
    sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", "8", "--precision", "bf16", "--gpus", "2", SMALL, NULL), 1,
                  "has no bf16");
    sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", "8", "--precision", "fp16", SMALL, NULL), 0, NULL);
    sg_gpu_emulation("gpus=4,capability=70");
    sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", "8", SMALL, NULL), 3, "'stepgauge predict --machine'");
}

/* ---- several GPUs ------------------------------------------------------------------------------------------------------- */

static void several_gpus_and_resuming(void **state) {
    (void)state;
    const json_t *points;
    json_t *root = sg_gpu_points_of(
        sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "1,2,4", "-o", sg_gpu_run_path, "--json", SMALL, NULL),
        &points, 3);
    static const double ranks[] = {1, 2, 4};
    double update_s[3];
    for (size_t i = 0; i < 3; i++) {
        const json_t *p = json_array_get(points, i);
        sg_gpu_is_told(p, "emulated");
        assert_true(sg_json_number(p, "ranks") == ranks[i]);
        assert_true(i == 0 || sg_json_number(p, "rank_spread") >= 0);
        update_s[i] = sg_json_number(p, "update_s");
    }
    json_decref(root);
    root = sg_gpu_points_of(
        sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "2,4", "-o", sg_gpu_run_path, "--json", SMALL, NULL),
        &points, 2);
    for (size_t i = 0; i < 2; i++)
        assert_true(sg_json_number(json_array_get(points, i), "update_s") == update_s[i + 1]);
    json_decref(root);
    assert_int_equal(sg_gpu_points_in(sg_gpu_run_path), 3);
}

static void sharded_and_replayed(void **state) {
    (void)state;
    const json_t *points;
    json_t *root = sg_gpu_points_of(
        sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "2", "--json", SMALL, NULL), &points, 1);
    double whole = sg_json_number(json_array_get(points, 0), "peak_allocated_bytes");
    json_decref(root);
    root = sg_gpu_points_of(sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "2", "--cuda-graph", "--sharding",
                                         "full", "--json", SMALL, NULL),
                            &points, 1);
    const json_t *p = json_array_get(points, 0);
    assert_string_equal(sg_gpu_text_of(p, "execution"), "cuda-graph;sharding-full");
    assert_true(sg_json_number(p, "peak_allocated_bytes") < whole);
    json_decref(root);
}

static void gpus_of_two_models(void **state) {
    (void)state;
    sg_gpu_driver(LIBRARIES, "0,13000,4", GPU("1", "") GPU("2", " II") GPU("3", "") GPU("4", ""));
    sg_gpu_emulation("gpus=4,other_model=1");
    const json_t *points;
    json_t *root = sg_gpu_points_of(
        sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "2", "-o", sg_gpu_run_path, "--json", SMALL, NULL),
        &points, 1);
    const json_t *p = json_array_get(points, 0);
    assert_true(json_is_true(json_object_get(p, "disturbed")));
    assert_non_null(strstr(sg_gpu_text_of(p, "disturbed_why"), "GPUs of different models"));
    assert_non_null(strstr(sg_gpu_text_of(json_object_get(p, "gpu"), "name"), "Emulated GPU II"));
    json_decref(root);
    sg_gpu_expect(sg_stepgauge("fit", sg_gpu_run_path, "--machine", "t4", NULL), 2, "nothing to fit");
    sg_said said = sg_stepgauge("bench", "collective", "--gpus", "2", "--sizes", "1K", "--min-iterations", "1",
                                "--time-budget", "1", NULL);
    assert_non_null(strstr(said.out, "GPUs of different models: 1 x Emulated GPU + 1 x Emulated GPU II"));
    sg_gpu_expect(said, 0, NULL);
}

/* As Slurm does where each task has its GPU alone: both are their process's first. */
static void each_rank_sees_its_own_gpu(void **state) {
    (void)state;
    char port[16];
    (void)snprintf(port, sizeof port, "%d", 20000 + (int)(getpid() % 20000));
    sg_gpu_driver(LIBRARIES, "0,13000,1", FOUR_GPUS);
    static const char *const names[] = {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS",
                                        "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NODELIST",
                                        "MASTER_ADDR",  "MASTER_PORT",   "CUDA_VISIBLE_DEVICES"};
    enum { N = sizeof names / sizeof names[0] };
    sg_running running[2];
    for (int r = 0; r < 2; r++) {
        const char *own = r ? "1" : "0", *gpu = r ? "3" : "2";
        const char *const values[N] = {own, own, "2", "77", "0", "localhost", "127.0.0.1", port, gpu};
        for (int i = 0; i < N; i++) assert_int_equal(setenv(names[i], values[i], 1), 0);
        running[r] = sg_stepgauge_start("measure", "mlp", "--batch", "8", "--device", "cuda", "--json", SMALL, NULL);
    }
    for (int i = 0; i < N; i++) assert_int_equal(unsetenv(names[i]), 0);
    sg_said first = sg_running_wait(&running[0]), second = sg_running_wait(&running[1]);
    sg_gpu_expect(second, 0, NULL);
    const json_t *points;
    json_t *root = sg_gpu_points_of(first, &points, 1);
    const json_t *p = json_array_get(points, 0);
    assert_true(sg_json_number(p, "ranks") == 2);
    assert_string_equal(sg_gpu_text_of(json_object_get(p, "gpu"), "bus"), "00000000:03:00.0");
    json_decref(root);
}

/* ---- what fits ------------------------------------------------------------------------------------------------------------ */

static void a_batch_that_does_not_fit(void **state) {
    (void)state;
    sg_gpu_emulation("gpus=4,memory_mib=40");
    static const char words[] = "batch 65536 does not fit: needs 0.064 GiB, 0.0";
    sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", "8,65536,16", "-o", sg_gpu_run_path, SMALL, NULL), 1,
                  words);
    assert_int_equal(sg_gpu_points_in(sg_gpu_run_path), 2);
    sg_gpu_expect(
        sg_stepgauge("measure", "mlp", "--batch", "8,65536,16", "--gpus", "2", "-o", sg_gpu_run_path, SMALL, NULL), 1,
        words);
    assert_int_equal(sg_gpu_points_in(sg_gpu_run_path), 4);
    sg_gpu_emulation("gpus=4,memory_mib=2");
    sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", "auto", SMALL, NULL), 1, "not even batch 1 fits");
}

static double auto_batch(const char *gpus) {
    const json_t *points;
    json_t *root = sg_gpu_points_of(
        sg_stepgauge("measure", "mlp", "--batch", "auto", "--gpus", gpus, "--json", SMALL, NULL), &points, 1);
    double batch = sg_json_number(json_array_get(points, 0), "batch");
    json_decref(root);
    return batch;
}

/* Of two GPUs the smaller decides, whichever rank has it. */
static void the_largest_batch_that_fits(void **state) {
    (void)state;
    sg_gpu_emulation("gpus=4,memory_mib=38");
    double batch = auto_batch("1");
    assert_true(batch >= 16);
    char more[16];
    (void)snprintf(more, sizeof more, "%.0f", batch + batch / 32 + 2);
    sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", more, SMALL, NULL), 1, NULL);
    sg_gpu_emulation("gpus=4,memory_mib=64,small=1,small_mib=38");
    double both = auto_batch("2");
    if (!(both > 0.5 * batch && both <= 1.1 * batch)) fail_msg("batch %g on one GPU, %g on both", batch, both);
}

/* One rank's memory is full: all agree on that, and go on with the next batch. */
static void out_of_memory_on_one_rank(void **state) {
    (void)state;
    sg_gpu_emulation("gpus=4,memory_mib=2000,small=1,small_mib=40");
    sg_gpu_expect(
        sg_stepgauge("measure", "mlp", "--batch", "8,65536,16", "--gpus", "2", "-o", sg_gpu_run_path, SMALL, NULL), 1,
        "rank 1, GPU 1 (0000:02:00.0): batch 65536 does not fit");
    assert_int_equal(sg_gpu_points_in(sg_gpu_run_path), 2);
}

/* ---- benchmarks, fits, gauge ------------------------------------------------------------------------------------------- */

static size_t bench_records(const char *kind, const char *option, const char *value) {
    sg_said said = sg_stepgauge("bench", kind, "--device", "cuda", "-o", sg_gpu_run_path, "--json", "--min-iterations",
                                "2", "--time-budget", "1", option, value, NULL);
    if (said.status != 0) fail_msg("bench %s: exit status %d: %s", kind, said.status, said.err);
    json_t *root = sg_said_json(&said);
    json_decref(root);
    sg_said_clear(&said);
    sg_run run;
    assert_int_equal(sg_run_file_read(sg_gpu_run_path, &run, NULL), SG_OK);
    size_t n = 0;
    for (size_t i = 0; i < run.n_micros; i++) {
        const sg_micro *m = &run.micros[i];
        if (strcmp(m->config.bench, kind) != 0) continue;
        assert_string_equal(m->config.device, "cuda");
        assert_string_equal(m->config.device_name, "Emulated GPU");
        assert_true(m->s.median > 0);
        n++;
    }
    sg_run_clear(&run);
    return n;
}

/* Fewer than all where the machine is too slow for the time given. */
static void benchmarks(void **state) {
    (void)state;
    assert_true(bench_records("gemm", "--sizes", "16") >= 1);
    assert_true(bench_records("memory", "--sizes", "16K") >= 1);
    assert_true(bench_records("copy", "--sizes", "64K") >= 1);
    assert_true(bench_records("launch", NULL, NULL) >= 1);
}

/* Three collectives, three records each: alone, beside a product, that product. */
static void collectives(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("bench", "collective", "--gpus", "2,4", "--sizes", "1K", "-o", sg_gpu_run_path,
                                "--json", "--min-iterations", "2", "--time-budget", "2", NULL);
    if (said.status != 0) fail_msg("exit status %d: %s", said.status, said.err);
    json_t *root = sg_said_json(&said);
    json_decref(root);
    sg_said_clear(&said);
    sg_run run;
    assert_int_equal(sg_run_file_read(sg_gpu_run_path, &run, NULL), SG_OK);
    size_t by_ranks[5] = {0};
    for (size_t i = 0; i < run.n_micros; i++) {
        assert_string_equal(run.micros[i].config.device, "cuda");
        assert_true(run.micros[i].config.ranks == 2 || run.micros[i].config.ranks == 4);
        by_ranks[run.micros[i].config.ranks]++;
    }
    for (int ranks = 2; ranks <= 4; ranks += 2) assert_true(by_ranks[ranks] >= 3 && by_ranks[ranks] % 3 == 0);
    sg_run_clear(&run);
    sg_gpu_expect(sg_stepgauge("bench", "collective", "--gpus", "8", NULL), 2, "--gpus 8: 4 can be seen here");
    sg_gpu_emulation(
        "gpus=4,small=1,small_mib=20"); /* less than a product's workspace: its rank cannot go on, nobody waits */
    sg_said full = sg_stepgauge("bench", "collective", "--gpus", "2", "--sizes", "1K", NULL);
    assert_true(full.seconds < 30);
    sg_gpu_expect(full, 3, "the GPU is out of memory");
}

/* The emulated host's time is PyTorch's on another machine: it must teach nothing about this one's. */
static void fits_keep_the_host(void **state) {
    (void)state;
    char fitted[112];
    (void)snprintf(fitted, sizeof fitted, "%s/fit.h5", sg_gpu_scratch.path);
    sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", "4,8,16", "-o", sg_gpu_run_path, SMALL, NULL), 0, NULL);
    sg_gpu_expect(sg_stepgauge("fit", sg_gpu_run_path, NULL), 2,
                  "('Emulated GPU') has no data sheet of its own: name the nearest with --machine");
    sg_gpu_expect(sg_stepgauge("fit", sg_gpu_run_path, "--machine", "t4", "-o", fitted, NULL), 0, NULL);
    sg_machine sheet, machine;
    assert_int_equal(sg_machine_load("t4", NULL, &sheet, NULL), SG_OK);
    assert_int_equal(sg_machine_load(fitted, NULL, &machine, NULL), SG_OK);
    static const sg_machine_id host[] = {SG_M_HOST_OP_S, SG_M_HOST_VIEW, SG_M_HOST_BACKWARD, SG_M_HOST_SYNC_S};
    for (size_t i = 0; i < sizeof host / sizeof host[0]; i++) {
        const sg_machine_parameter *a = &sheet.p[host[i]], *b = &machine.p[host[i]];
        assert_true(a->evidence == b->evidence);
        assert_true(a->value == b->value || (isnan(a->value) && isnan(b->value)));
    }
    assert_string_equal(machine.device_class, "cuda");
    assert_string_equal(machine.title, "Emulated GPU");
    assert_true(machine.units == sheet.units && machine.memory_bytes != sheet.memory_bytes);
    sg_machine_clear(&sheet);
    sg_machine_clear(&machine);
    sg_gpu_expect(sg_stepgauge("predict", "mlp", "--batch", "8", "--machine", fitted, "--set", "hidden_dims=16", NULL),
                  0, NULL);
}

static void gauge(void **state) {
    (void)state;
    sg_gpu_expect(sg_stepgauge("gauge", "mlp", "--set", "hidden_dims=16", "--time-budget", "3", NULL), 2,
                  "has no data sheet of its own: name the nearest with --machine");
    sg_said said = sg_stepgauge("gauge", "mlp", "--set", "hidden_dims=16", "--time-budget", "3", "--machine", "t4",
                                "--json", "-o", sg_gpu_run_path, NULL);
    if (said.status != 0) fail_msg("exit status %d: %s", said.status, said.err);
    json_t *root = sg_said_json(&said);
    json_decref(root);
    sg_said_clear(&said);
    assert_true(sg_gpu_points_in(sg_gpu_run_path) >= 1 && sg_gpu_points_in(sg_gpu_run_path) != SIZE_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, sg_gpu_machine, sg_gpu_nothing_left)
        T(a_point_tells_of_its_gpu),
        T(a_trace_of_gpus),
        T(another_host_is_another_point),
        T(only_what_was_asked_for_is_shown),
        T(ways_to_run_a_step),
        T(policies_of_every_kind),
        T(no_bf16_on_a_t4),
        T(several_gpus_and_resuming),
        T(sharded_and_replayed),
        T(gpus_of_two_models),
        T(each_rank_sees_its_own_gpu),
        T(a_batch_that_does_not_fit),
        T(the_largest_batch_that_fits),
        T(out_of_memory_on_one_rank),
        T(benchmarks),
        T(collectives),
        T(fits_keep_the_host),
        T(gauge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
