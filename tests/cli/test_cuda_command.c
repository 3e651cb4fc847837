/* Whole command lines on GPUs: what a point tells, several GPUs, what fits, benchmarks, and what goes wrong on such machines.
 * The program runs on the emulated CUDA and the emulated driver, as users run it on theirs. */
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

#include "calibration/predict.h"
#include "sim/process_tree.h"
#include "sim/run_file.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

static const char *const small[] = {"--set", "hidden_dims=16", "--min-iterations", "3", "--time-budget", "0.2"};
#define SMALL small[0], small[1], small[2], small[3], small[4], small[5]

#define LIBRARIES         SG_BINARY_DIR "/emulation/lib"
#define GPU(number, more) "gpu;name=Emulated GPU" more ";bus=00000000:0" number ":00.0;"
static const char FOUR_GPUS[] = GPU("1", "") GPU("2", "") GPU("3", "") GPU("4", "");

static sg_scratch scratch;
static char run_path[96];

/* ---- a machine with four GPUs ------------------------------------------------------------------------------------- */

static void driver(const char *libraries, const char *cuda, const char *nvml) {
    assert_int_equal(setenv("LD_LIBRARY_PATH", libraries, 1), 0);
    assert_int_equal(setenv("SG_CUDA_DRIVER_EMULATION", cuda, 1), 0);
    assert_int_equal(setenv("SG_NVML_EMULATION", nvml, 1), 0);
}

static void emulation(const char *settings) {
    assert_int_equal(setenv("STEPGAUGE_EMULATION", settings, 1), 0);
}

static int usual_machine(void **state) {
    (void)state;
    scratch = sg_scratch_new();
    (void)snprintf(run_path, sizeof run_path, "%s/run.h5", scratch.path);
    driver(LIBRARIES, "0,13000,4", FOUR_GPUS);
    emulation("gpus=4");
    (void)setenv("STEPGAUGE_CUDA_LIBS", LIBRARIES, 1);
    (void)unsetenv("CUDA_VISIBLE_DEVICES");
    return 0;
}

/* Nothing may be left behind: no lock, no unfinished file, no process of ours. */
static int nothing_left(void **state) {
    (void)state;
    int result = 0;
    pid_t child;
    DIR *folder = opendir(scratch.path);
    for (struct dirent *e; folder && (e = readdir(folder));)
        if (strstr(e->d_name, ".lock") || strstr(e->d_name, ".tmp")) {
            print_error("%s was left behind\n", e->d_name);
            result = -1;
        }
    if (folder) (void)closedir(folder);
    if (sg_process_children(getpid(), &child, 1) > 0) {
        print_error("process %d was left behind\n", (int)child);
        result = -1;
    }
    sg_scratch_free(&scratch);
    return result;
}

static void expect(sg_said said, int status, const char *in_err) {
    if (said.status != status) fail_msg("exit status %d instead of %d: %s", said.status, status, said.err);
    if (in_err && !strstr(said.err, in_err)) fail_msg("stderr does not say '%s': %s", in_err, said.err);
    sg_said_clear(&said);
}

static size_t points_in(const char *path) {
    sg_run run;
    if (sg_run_file_read(path, &run, NULL) != SG_OK) return SIZE_MAX;
    size_t n = run.n_points;
    sg_run_clear(&run);
    return n;
}

/* The points of a command that must succeed; json_decref the root. */
static json_t *points_of(sg_said said, const json_t **points, size_t n) {
    if (said.status != 0) fail_msg("exit status %d: %s", said.status, said.err);
    json_t *root = sg_said_json(&said);
    *points = json_object_get(root, "points");
    assert_int_equal(json_array_size(*points), n);
    sg_said_clear(&said);
    return root;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    if (!text) fail_msg("no text %s", key);
    return text;
}

static void is_of_a_gpu(const json_t *point, const char *host) {
    assert_string_equal(text_of(point, "device"), "cuda");
    assert_string_equal(text_of(point, "host"), host);
    assert_true(sg_json_number(point, "update_s") > 0);
    assert_true(sg_json_number(point, "update_device_s") > 0);
    const json_t *gpu = json_object_get(point, "gpu");
    assert_non_null(strstr(text_of(gpu, "name"), "Emulated GPU"));
    assert_non_null(strstr(text_of(gpu, "libraries"), "cuBLAS 13."));
}

/* The file of an ACT whose step takes the emulation no more than a second. */
static const char *small_act(void) {
    static char path[96];
    (void)snprintf(path, sizeof path, "%s/act.yaml", scratch.path);
    sg_scratch_file(&scratch, "act.yaml",
                    "policy: act\ncameras: 1\nimage_height: 32\nimage_width: 32\nchunk_size: 4\nbackbone_width: 3\n"
                    "dim_model: 16\nn_heads: 2\ndim_feedforward: 16\nn_encoder_layers: 1\nn_decoder_layers: 1\n"
                    "n_vae_encoder_layers: 1\n");
    return path;
}

/* ---- points ---------------------------------------------------------------------------------------------------------- */

/* No --device: the GPU that is ready is taken. */
static void a_point_tells_of_its_gpu(void **state) {
    (void)state;
    const json_t *points;
    json_t *root = points_of(sg_stepgauge("measure", "mlp", "--batch", "8", "--json", SMALL, NULL), &points, 1);
    const json_t *p = json_array_get(points, 0), *gpu = json_object_get(p, "gpu");
    is_of_a_gpu(p, "emulated");
    assert_string_equal(text_of(gpu, "driver"), "580.65.06");
    assert_string_equal(text_of(gpu, "bus"), "00000000:01:00.0");
    assert_string_equal(text_of(gpu, "throttle"), "");
    assert_non_null(strstr(text_of(gpu, "libraries"), "cuDNN 9."));
    assert_non_null(strstr(text_of(gpu, "libraries"), "NCCL 2."));
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

/* Ranks write into a file that holds other policies' points too. */
static void only_what_was_asked_for_is_shown(void **state) {
    (void)state;
    const json_t *points;
    json_decref(points_of(sg_stepgauge("measure", "mlp", "--gpus", "2", "--set", "activation=relu", "-o", run_path,
                                       "--json", SMALL, NULL),
                          &points, 1));
    json_t *root = points_of(sg_stepgauge("measure", "mlp", "--gpus", "2", "--set", "activation=tanh", "-o", run_path,
                                          "--json", SMALL, NULL),
                             &points, 1);
    assert_non_null(strstr(text_of(json_array_get(points, 0), "settings"), "activation=tanh"));
    assert_int_equal(points_in(run_path), 2);
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
        json_t *root = points_of(sg_stepgauge("measure", "mlp", "--batch", "8", "--json", "--device", "cuda", "-o",
                                              run_path, SMALL, ways[i].option, ways[i].value, NULL),
                                 &points, 1);
        const json_t *p = json_array_get(points, 0);
        is_of_a_gpu(p, ways[i].host);
        assert_string_equal(text_of(p, "execution"), ways[i].execution);
        assert_string_equal(text_of(p, "precision"), ways[i].precision);
        json_decref(root);
    }
    assert_int_equal(points_in(run_path), N);
    expect(sg_stepgauge("measure", "mlp", "--batch", "8", "-o", run_path, SMALL, "--cuda-graph", NULL), 0,
           "in the run file already");
    assert_int_equal(points_in(run_path), N);
}

static void policies_of_every_kind(void **state) {
    (void)state;
    const json_t *points;
    json_t *root = points_of(sg_stepgauge("measure", "ppo", "--envs", "16", "--steps-per-env", "4", "--mini-batches",
                                          "2", "--ppo-epochs", "1", "--env-step-us", "5", "--min-iterations", "2",
                                          "--time-budget", "0.2", "--json", NULL),
                             &points, 1);
    is_of_a_gpu(json_array_get(points, 0), "emulated");
    assert_true(sg_json_number(json_array_get(points, 0), "env_steps_per_s") > 0);
    json_decref(root);
    root = points_of(sg_stepgauge("measure", "--config", small_act(), "--batch", "1", "--min-iterations", "1",
                                  "--time-budget", "1", "--json", NULL),
                     &points, 1);
    is_of_a_gpu(json_array_get(points, 0), "emulated");
    assert_true(sg_json_number(json_array_get(points, 0), "preprocessing_device_s") > 0);
    json_decref(root);
    char config[96];
    (void)snprintf(config, sizeof config, "%s/smolvla.yaml", scratch.path);
    sg_scratch_file(&scratch, "smolvla.yaml",
                    "policy: smolvla\ncameras: 2\nimage_height: 32\nimage_width: 48\nstate_dim: 3\naction_dim: 2\n"
                    "max_state_dim: 4\nmax_action_dim: 5\nchunk_size: 3\nlanguage_tokens: 3\n"
                    "resize_imgs_with_padding: [32, 32]\nnum_vlm_layers: 2\ntext_hidden_size: 16\n"
                    "text_intermediate_size: 14\ntext_num_attention_heads: 3\ntext_num_key_value_heads: 1\n"
                    "text_head_dim: 4\nvocab_size: 13\nvision_hidden_size: 8\nvision_intermediate_size: 10\n"
                    "vision_num_hidden_layers: 2\nvision_num_attention_heads: 2\nvision_patch_size: 8\n"
                    "scale_factor: 2\n");
    root = points_of(sg_stepgauge("measure", "--config", config, "--batch", "1", "--gpus", "2", "--precision", "bf16",
                                  "--min-iterations", "1", "--time-budget", "1", "--json", NULL),
                     &points, 1);
    is_of_a_gpu(json_array_get(points, 0), "emulated");
    json_decref(root);
}

static void no_bf16_on_a_t4(void **state) {
    (void)state;
    emulation("gpus=4,capability=75");
    expect(sg_stepgauge("measure", "mlp", "--batch", "8", "--precision", "bf16", SMALL, NULL), 1,
           "has no bf16 (compute capability below 8.0): use --precision fp16 or fp32");
    expect(sg_stepgauge("measure", "mlp", "--batch", "8", "--precision", "bf16", "--gpus", "2", SMALL, NULL), 1,
           "has no bf16");
    expect(sg_stepgauge("measure", "mlp", "--batch", "8", "--precision", "fp16", SMALL, NULL), 0, NULL);
    emulation("gpus=4,capability=70");
    expect(sg_stepgauge("measure", "mlp", "--batch", "8", SMALL, NULL), 3, "'stepgauge predict --machine'");
}

/* ---- several GPUs ------------------------------------------------------------------------------------------------------- */

static void several_gpus_and_resuming(void **state) {
    (void)state;
    const json_t *points;
    json_t *root = points_of(
        sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "1,2,4", "-o", run_path, "--json", SMALL, NULL),
        &points, 3);
    static const double ranks[] = {1, 2, 4};
    double update_s[3];
    for (size_t i = 0; i < 3; i++) {
        const json_t *p = json_array_get(points, i);
        is_of_a_gpu(p, "emulated");
        assert_true(sg_json_number(p, "ranks") == ranks[i]);
        assert_true(i == 0 || sg_json_number(p, "rank_spread") >= 0);
        update_s[i] = sg_json_number(p, "update_s");
    }
    json_decref(root);
    root = points_of(
        sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "2,4", "-o", run_path, "--json", SMALL, NULL), &points,
        2);
    for (size_t i = 0; i < 2; i++)
        assert_true(sg_json_number(json_array_get(points, i), "update_s") == update_s[i + 1]);
    json_decref(root);
    assert_int_equal(points_in(run_path), 3);
}

static void sharded_and_replayed(void **state) {
    (void)state;
    const json_t *points;
    json_t *root =
        points_of(sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "2", "--json", SMALL, NULL), &points, 1);
    double whole = sg_json_number(json_array_get(points, 0), "peak_allocated_bytes");
    json_decref(root);
    root = points_of(sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "2", "--cuda-graph", "--sharding", "full",
                                  "--json", SMALL, NULL),
                     &points, 1);
    const json_t *p = json_array_get(points, 0);
    assert_string_equal(text_of(p, "execution"), "cuda-graph;sharding-full");
    assert_true(sg_json_number(p, "peak_allocated_bytes") < whole);
    json_decref(root);
}

static void gpus_of_two_models(void **state) {
    (void)state;
    driver(LIBRARIES, "0,13000,4", GPU("1", "") GPU("2", " II") GPU("3", "") GPU("4", ""));
    emulation("gpus=4,other_model=1");
    const json_t *points;
    json_t *root =
        points_of(sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "2", "-o", run_path, "--json", SMALL, NULL),
                  &points, 1);
    const json_t *p = json_array_get(points, 0);
    assert_true(json_is_true(json_object_get(p, "disturbed")));
    assert_non_null(strstr(text_of(p, "disturbed_why"), "GPUs of different models"));
    assert_non_null(strstr(text_of(json_object_get(p, "gpu"), "name"), "Emulated GPU II"));
    json_decref(root);
    expect(sg_stepgauge("fit", run_path, "--machine", "t4", NULL), 2, "nothing to fit");
    sg_said said = sg_stepgauge("bench", "collective", "--gpus", "2", "--sizes", "1K", "--min-iterations", "1",
                                "--time-budget", "1", NULL);
    assert_non_null(strstr(said.out, "GPUs of different models: 1 x Emulated GPU + 1 x Emulated GPU II"));
    expect(said, 0, NULL);
}

/* As Slurm does where each task has its GPU alone: both are their process's first. */
static void each_rank_sees_its_own_gpu(void **state) {
    (void)state;
    char port[16];
    (void)snprintf(port, sizeof port, "%d", 20000 + (int)(getpid() % 20000));
    driver(LIBRARIES, "0,13000,1", FOUR_GPUS);
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
    expect(second, 0, NULL);
    const json_t *points;
    json_t *root = points_of(first, &points, 1);
    const json_t *p = json_array_get(points, 0);
    assert_true(sg_json_number(p, "ranks") == 2);
    assert_string_equal(text_of(json_object_get(p, "gpu"), "bus"), "00000000:03:00.0");
    json_decref(root);
}

/* ---- what fits ------------------------------------------------------------------------------------------------------------ */

static void a_batch_that_does_not_fit(void **state) {
    (void)state;
    emulation("gpus=4,memory_mib=40");
    static const char words[] = "batch 65536 does not fit: needs 0.064 GiB, 0.0";
    expect(sg_stepgauge("measure", "mlp", "--batch", "8,65536,16", "-o", run_path, SMALL, NULL), 1, words);
    assert_int_equal(points_in(run_path), 2);
    expect(sg_stepgauge("measure", "mlp", "--batch", "8,65536,16", "--gpus", "2", "-o", run_path, SMALL, NULL), 1,
           words);
    assert_int_equal(points_in(run_path), 4);
    emulation("gpus=4,memory_mib=2");
    expect(sg_stepgauge("measure", "mlp", "--batch", "auto", SMALL, NULL), 1, "not even batch 1 fits");
}

static double auto_batch(const char *gpus) {
    const json_t *points;
    json_t *root =
        points_of(sg_stepgauge("measure", "mlp", "--batch", "auto", "--gpus", gpus, "--json", SMALL, NULL), &points, 1);
    double batch = sg_json_number(json_array_get(points, 0), "batch");
    json_decref(root);
    return batch;
}

/* Of two GPUs the smaller decides, whichever rank has it. */
static void the_largest_batch_that_fits(void **state) {
    (void)state;
    emulation("gpus=4,memory_mib=38");
    double batch = auto_batch("1");
    assert_true(batch >= 16);
    char more[16];
    (void)snprintf(more, sizeof more, "%.0f", batch + batch / 32 + 2);
    expect(sg_stepgauge("measure", "mlp", "--batch", more, SMALL, NULL), 1, NULL);
    emulation("gpus=4,memory_mib=64,small=1,small_mib=38");
    double both = auto_batch("2");
    if (!(both > 0.5 * batch && both <= 1.1 * batch)) fail_msg("batch %g on one GPU, %g on both", batch, both);
}

/* One rank's memory is full: all agree on that, and go on with the next batch. */
static void out_of_memory_on_one_rank(void **state) {
    (void)state;
    emulation("gpus=4,memory_mib=2000,small=1,small_mib=40");
    expect(sg_stepgauge("measure", "mlp", "--batch", "8,65536,16", "--gpus", "2", "-o", run_path, SMALL, NULL), 1,
           "rank 1, GPU 1 (0000:02:00.0): batch 65536 does not fit");
    assert_int_equal(points_in(run_path), 2);
}

/* ---- benchmarks, fits, gauge ------------------------------------------------------------------------------------------- */

static size_t bench_records(const char *kind, const char *option, const char *value) {
    sg_said said = sg_stepgauge("bench", kind, "--device", "cuda", "-o", run_path, "--json", "--min-iterations", "2",
                                "--time-budget", "1", option, value, NULL);
    if (said.status != 0) fail_msg("bench %s: exit status %d: %s", kind, said.status, said.err);
    json_t *root = sg_said_json(&said);
    json_decref(root);
    sg_said_clear(&said);
    sg_run run;
    assert_int_equal(sg_run_file_read(run_path, &run, NULL), SG_OK);
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
    sg_said said = sg_stepgauge("bench", "collective", "--gpus", "2,4", "--sizes", "1K", "-o", run_path, "--json",
                                "--min-iterations", "2", "--time-budget", "2", NULL);
    if (said.status != 0) fail_msg("exit status %d: %s", said.status, said.err);
    json_t *root = sg_said_json(&said);
    json_decref(root);
    sg_said_clear(&said);
    sg_run run;
    assert_int_equal(sg_run_file_read(run_path, &run, NULL), SG_OK);
    size_t by_ranks[5] = {0};
    for (size_t i = 0; i < run.n_micros; i++) {
        assert_string_equal(run.micros[i].config.device, "cuda");
        assert_true(run.micros[i].config.ranks == 2 || run.micros[i].config.ranks == 4);
        by_ranks[run.micros[i].config.ranks]++;
    }
    for (int ranks = 2; ranks <= 4; ranks += 2) assert_true(by_ranks[ranks] >= 3 && by_ranks[ranks] % 3 == 0);
    sg_run_clear(&run);
    expect(sg_stepgauge("bench", "collective", "--gpus", "8", NULL), 2, "--gpus 8: 4 can be seen here");
    emulation("gpus=4,small=1,small_mib=20"); /* less than a product's workspace: its rank cannot go on, nobody waits */
    sg_said full = sg_stepgauge("bench", "collective", "--gpus", "2", "--sizes", "1K", NULL);
    assert_true(full.seconds < 30);
    expect(full, 3, "the GPU is out of memory");
}

/* The emulated host's time is PyTorch's on another machine: it must teach nothing about this one's. */
static void fits_keep_the_host(void **state) {
    (void)state;
    char fitted[112];
    (void)snprintf(fitted, sizeof fitted, "%s/fit.h5", scratch.path);
    expect(sg_stepgauge("measure", "mlp", "--batch", "4,8,16", "-o", run_path, SMALL, NULL), 0, NULL);
    expect(sg_stepgauge("fit", run_path, NULL), 2,
           "('Emulated GPU') has no data sheet of its own: name the nearest with --machine");
    expect(sg_stepgauge("fit", run_path, "--machine", "t4", "-o", fitted, NULL), 0, NULL);
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
    expect(sg_stepgauge("predict", "mlp", "--batch", "8", "--machine", fitted, "--set", "hidden_dims=16", NULL), 0,
           NULL);
}

static void gauge(void **state) {
    (void)state;
    expect(sg_stepgauge("gauge", "mlp", "--set", "hidden_dims=16", "--time-budget", "3", NULL), 2,
           "has no data sheet of its own: name the nearest with --machine");
    sg_said said = sg_stepgauge("gauge", "mlp", "--set", "hidden_dims=16", "--time-budget", "3", "--machine", "t4",
                                "--json", "-o", run_path, NULL);
    if (said.status != 0) fail_msg("exit status %d: %s", said.status, said.err);
    json_t *root = sg_said_json(&said);
    json_decref(root);
    sg_said_clear(&said);
    assert_true(points_in(run_path) >= 1 && points_in(run_path) != SIZE_MAX);
}

/* ---- drivers and libraries ----------------------------------------------------------------------------------------------- */

static void is_on_the_cpu(const char *in_err) {
    const json_t *points;
    sg_said said = sg_stepgauge("measure", "mlp", "--batch", "8", "--json", SMALL, NULL);
    if (in_err && !strstr(said.err, in_err)) fail_msg("stderr does not say '%s': %s", in_err, said.err);
    if (!in_err) assert_null(strstr(said.err, "GPU"));
    json_t *root = points_of(said, &points, 1);
    assert_string_equal(text_of(json_array_get(points, 0), "device"), "cpu");
    json_decref(root);
}

static void drivers_that_do_not_serve(void **state) {
    (void)state;
    static const char *const asked[] = {"--device", "cuda", "--gpus", "2"};
    static const struct {
        const char *libraries, *cuda, *emulation, *visible, *words;
    } cases[] = {{"", "0,13000,0", "gpus=0", NULL, "no driver"},
                 {LIBRARIES, "0,12080,4", "gpus=4,driver=12080", NULL, "install driver 580 or newer"},
                 {LIBRARIES, "100,13000,0", "gpus=4", "", "hides every GPU: unset it"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        driver(cases[i].libraries, cases[i].cuda, FOUR_GPUS);
        emulation(cases[i].emulation);
        if (cases[i].visible) (void)setenv("CUDA_VISIBLE_DEVICES", cases[i].visible, 1);
        for (int k = 0; k < 4; k += 2)
            expect(sg_stepgauge("measure", "mlp", "--batch", "8", asked[k], asked[k + 1], SMALL, NULL), 3,
                   cases[i].words);
        is_on_the_cpu(i == 0 ? NULL : cases[i].words);
        (void)unsetenv("CUDA_VISIBLE_DEVICES");
    }
}

static void more_gpus_than_there_are(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "8", SMALL, NULL);
    assert_null(strchr(said.err, '\n')[1] ? said.err : NULL); /* said once, not by every rank */
    expect(said, 2, "--gpus 8: 4 can be seen here: use --gpus 4 or fewer");
    driver(LIBRARIES, "0,13000,1", FOUR_GPUS);
    (void)setenv("CUDA_VISIBLE_DEVICES", "2,9,1", 1);
    expect(sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "2", SMALL, NULL), 2,
           "1 can be seen here (CUDA_VISIBLE_DEVICES is '2,9,1')");
    driver(LIBRARIES, "0,13000,2", FOUR_GPUS);
    (void)setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);
    const json_t *points;
    json_t *root =
        points_of(sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "2", "--json", SMALL, NULL), &points, 1);
    assert_string_equal(text_of(json_object_get(json_array_get(points, 0), "gpu"), "bus"), "00000000:04:00.0");
    json_decref(root);
}

static void a_driver_without_nvml(void **state) {
    (void)state;
    sg_scratch_link(&scratch, "driver/libcuda.so.1", LIBRARIES "/libcuda.so.1");
    char folder[96];
    (void)snprintf(folder, sizeof folder, "%s/driver", scratch.path);
    driver(folder, "0,13000,4", "");
    const json_t *points;
    json_t *root =
        points_of(sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "2", "--json", SMALL, NULL), &points, 1);
    is_of_a_gpu(json_array_get(points, 0), "emulated");
    assert_true(sg_json_number(json_array_get(points, 0), "gpu.samples") == 0);
    json_decref(root);
}

/* A folder in which one library is no library: what is looked for first is found, and does not open. */
static void without(const char *library) {
    static const char *const files[] = {"libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libcurand.so.10",
                                        "libnccl.so.2"};
    char name[64], folder[96];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        (void)snprintf(name, sizeof name, "without-%s/%s", library, files[i]);
        if (strcmp(files[i], library) == 0)
            sg_scratch_file(&scratch, name, "no library");
        else
            sg_scratch_link(&scratch, name, SG_BINARY_DIR "/emulation/runtime/libsg_emulation.so");
    }
    (void)snprintf(folder, sizeof folder, "%s/without-%s", scratch.path, library);
    assert_int_equal(setenv("STEPGAUGE_CUDA_LIBS", folder, 1), 0);
}

static void libraries_that_are_missing(void **state) {
    (void)state;
    without("libnccl.so.2");
    expect(sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "2", SMALL, NULL), 3, "nvidia-nccl-cu13");
    expect(sg_stepgauge("measure", "mlp", "--batch", "8", SMALL, NULL), 0, NULL);
    without("libcublas.so.13");
    expect(sg_stepgauge("measure", "mlp", "--batch", "8", SMALL, NULL), 3, "nvidia-cublas");
    expect(sg_stepgauge("measure", "mlp", "--batch", "8", SMALL, "--cuda-libs", LIBRARIES, NULL), 0, NULL);
    without("libcudnn.so.9");
    const json_t *points;
    json_t *root = points_of(sg_stepgauge("measure", "--config", small_act(), "--batch", "1", "--min-iterations", "1",
                                          "--time-budget", "1", "--json", NULL),
                             &points, 1);
    assert_non_null(strstr(text_of(json_object_get(json_array_get(points, 0), "gpu"), "libraries"),
                           "no cuDNN: convolutions by im2col"));
    json_decref(root);
}

/* ---- faults in the middle --------------------------------------------------------------------------------------------------- */

static void a_gpu_that_is_lost(void **state) {
    (void)state;
    emulation("gpus=4,lose=0,lose_after=250");
    expect(sg_stepgauge("measure", "mlp", "--batch", "2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20", "-o", run_path,
                        SMALL, NULL),
           3, "GPU 0 (0000:01:00.0): ");
    size_t kept = points_in(run_path);
    assert_true(kept >= 1 && kept < 19);
    assert_int_equal(unlink(run_path), 0);
    emulation("gpus=4,lose=1,lose_after=250");
    sg_said said = sg_stepgauge("measure", "mlp", "--batch", "2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20",
                                "--gpus", "2", "-o", run_path, SMALL, NULL);
    assert_non_null(strstr(said.err, "rank 1, GPU 1 (0000:02:00.0): "));
    expect(said, 3, "the GPU was lost or a kernel failed: look at 'dmesg'");
    kept = points_in(run_path);
    assert_true(kept >= 1 && kept < 19);
}

static void pause_s(double s) {
    const struct timespec pause = {(time_t)s, (long)(1e9 * (s - floor(s)))};
    (void)nanosleep(&pause, NULL);
}

static void wait_for_points(size_t least) {
    for (int i = 0; i < 6000; i++) {
        size_t n = points_in(run_path);
        if (n != SIZE_MAX && n >= least) return;
        pause_s(0.01);
    }
    fail_msg("the run file never held %zu points", least);
}

#define MANY_BATCHES "2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36"
static sg_running start_two(void) {
    return sg_stepgauge_start("measure", "mlp", "--batch", MANY_BATCHES, "--gpus", "2", "-o", run_path, SMALL, NULL);
}

static void a_rank_that_is_killed(void **state) {
    (void)state;
    sg_running running = start_two();
    wait_for_points(1);
    pid_t child[2];
    assert_int_equal(sg_process_children(running.pid, child, 2), 2);
    pid_t last = child[0] > child[1] ? child[0] : child[1];
    assert_int_equal(kill(last, SIGKILL), 0);
    struct timespec killed, ended;
    (void)clock_gettime(CLOCK_MONOTONIC, &killed);
    sg_said said = sg_running_wait(&running);
    (void)clock_gettime(CLOCK_MONOTONIC, &ended);
    assert_true(ended.tv_sec - killed.tv_sec < 20);
    assert_non_null(strstr(said.err, "rank 1"));
    assert_true(kill(child[0], 0) != 0 && kill(child[1], 0) != 0);
    expect(said, 137, "was killed by SIGKILL");
    size_t kept = points_in(run_path);
    assert_true(kept >= 1 && kept < 35);
}

static void interrupted_on_two_gpus(void **state) {
    (void)state;
    sg_running running = start_two();
    wait_for_points(1);
    assert_int_equal(kill(running.pid, SIGINT), 0);
    sg_said said = sg_running_wait(&running);
    expect(said, 130, "what was measured is kept");
    size_t kept = points_in(run_path);
    assert_true(kept >= 1 && kept < 35);
}

static long size_of(const char *path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return (long)info.st_size;
}

static void the_disk_fills_up(void **state) {
    (void)state;
    expect(sg_stepgauge("measure", "mlp", "--batch", "2", "-o", run_path, SMALL, NULL), 0, NULL);
    struct rlimit usual, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    tight = usual;
    tight.rlim_cur = (rlim_t)size_of(run_path);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    sg_said said = sg_stepgauge("measure", "mlp", "--batch", "4", "-o", run_path, SMALL, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
    expect(said, 3, "untouched");
    assert_int_equal(points_in(run_path), 1);
}

/* To all but two pages: a lock still finds room, a run file does not. */
static void fill(const char *path) {
    static const char block[512];
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    while (fwrite(block, 1, sizeof block, file) == sizeof block && fflush(file) == 0) {
    }
    (void)fclose(file);
    assert_int_equal(truncate(path, size_of(path) - 8192), 0);
}

static bool is_empty(const char *path) {
    DIR *folder = opendir(path);
    int n = 0;
    while (folder && readdir(folder)) n++;
    if (folder) (void)closedir(folder);
    return n == 2; /* . and .. */
}

/* A disk of its own, where one may be had: the file size limit would stop NCCL's shared memory as well. */
static void rank_0s_disk_fills_up(void **state) {
    (void)state;
    char disk[96], path[112], filler[112];
    sg_scratch_folder(&scratch, "disk");
    (void)snprintf(disk, sizeof disk, "%s/disk", scratch.path);
    (void)snprintf(path, sizeof path, "%s/run.h5", disk);
    (void)snprintf(filler, sizeof filler, "%s/filler", disk);
    if (mount("tmpfs", disk, "tmpfs", 0, "size=256k") != 0) {
        print_message("no disk of one's own may be mounted here: skipped\n");
        return;
    }
    sg_said first = sg_stepgauge("measure", "mlp", "--batch", "2", "--gpus", "2", "-o", path, SMALL, NULL);
    fill(filler);
    sg_said second = sg_stepgauge("measure", "mlp", "--batch", "4,8", "--gpus", "2", "-o", path, SMALL, NULL);
    size_t kept = points_in(path);
    (void)unlink(path);
    (void)unlink(filler);
    bool empty = is_empty(disk); /* no lock, no unfinished file */
    assert_int_equal(umount2(disk, MNT_DETACH), 0);
    expect(first, 0, NULL);
    expect(second, 3, "untouched");
    assert_int_equal(kept, 1);
    assert_true(empty);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, usual_machine, nothing_left)
        T(a_point_tells_of_its_gpu),
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
        T(drivers_that_do_not_serve),
        T(more_gpus_than_there_are),
        T(a_driver_without_nvml),
        T(libraries_that_are_missing),
        T(a_gpu_that_is_lost),
        T(a_rank_that_is_killed),
        T(interrupted_on_two_gpus),
        T(the_disk_fills_up),
        T(rank_0s_disk_fills_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
