/* Whole command lines on machines with GPUs where something is wrong, before they start or in the middle. */
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

/* ---- drivers and libraries ----------------------------------------------------------------------------------------------- */

static void is_on_the_cpu(const char *in_err) {
    const json_t *points;
    sg_said said = sg_stepgauge("measure", "mlp", "--batch", "8", "--json", SMALL, NULL);
    if (in_err && !strstr(said.err, in_err)) fail_msg("stderr does not say '%s': %s", in_err, said.err);
    if (!in_err) assert_null(strstr(said.err, "GPU"));
    json_t *root = sg_gpu_points_of(said, &points, 1);
    assert_string_equal(sg_gpu_text_of(json_array_get(points, 0), "device"), "cpu");
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
        sg_gpu_driver(cases[i].libraries, cases[i].cuda, FOUR_GPUS);
        sg_gpu_emulation(cases[i].emulation);
        if (cases[i].visible) (void)setenv("CUDA_VISIBLE_DEVICES", cases[i].visible, 1);
        for (int k = 0; k < 4; k += 2)
            sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", "8", asked[k], asked[k + 1], SMALL, NULL), 3,
                          cases[i].words);
        is_on_the_cpu(i == 0 ? NULL : cases[i].words);
        (void)unsetenv("CUDA_VISIBLE_DEVICES");
    }
}

static void more_gpus_than_there_are(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "8", SMALL, NULL);
    assert_null(strchr(said.err, '\n')[1] ? said.err : NULL); /* said once, not by every rank */
    sg_gpu_expect(said, 2, "--gpus 8: 4 can be seen here: use --gpus 4 or fewer");
    sg_gpu_driver(LIBRARIES, "0,13000,1", FOUR_GPUS);
    (void)setenv("CUDA_VISIBLE_DEVICES", "2,9,1", 1);
    sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "2", SMALL, NULL), 2,
                  "1 can be seen here (CUDA_VISIBLE_DEVICES is '2,9,1')");
    sg_gpu_driver(LIBRARIES, "0,13000,2", FOUR_GPUS);
    (void)setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);
    const json_t *points;
    json_t *root = sg_gpu_points_of(
        sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "2", "--json", SMALL, NULL), &points, 1);
    assert_string_equal(sg_gpu_text_of(json_object_get(json_array_get(points, 0), "gpu"), "bus"), "00000000:04:00.0");
    json_decref(root);
}

static void a_driver_without_nvml(void **state) {
    (void)state;
    sg_scratch_link(&sg_gpu_scratch, "driver/libcuda.so.1", LIBRARIES "/libcuda.so.1");
    char folder[96];
    (void)snprintf(folder, sizeof folder, "%s/driver", sg_gpu_scratch.path);
    sg_gpu_driver(folder, "0,13000,4", "");
    const json_t *points;
    json_t *root = sg_gpu_points_of(
        sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "2", "--json", SMALL, NULL), &points, 1);
    sg_gpu_is_told(json_array_get(points, 0), "emulated");
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
            sg_scratch_file(&sg_gpu_scratch, name, "no library");
        else
            sg_scratch_link(&sg_gpu_scratch, name, SG_BINARY_DIR "/emulation/runtime/libsg_emulation.so");
    }
    (void)snprintf(folder, sizeof folder, "%s/without-%s", sg_gpu_scratch.path, library);
    assert_int_equal(setenv("STEPGAUGE_CUDA_LIBS", folder, 1), 0);
}

static void libraries_that_are_missing(void **state) {
    (void)state;
    without("libnccl.so.2");
    sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", "8", "--gpus", "2", SMALL, NULL), 3, "nvidia-nccl-cu13");
    sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", "8", SMALL, NULL), 0, NULL);
    without("libcublas.so.13");
    sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", "8", SMALL, NULL), 3, "nvidia-cublas");
    sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", "8", SMALL, "--cuda-libs", LIBRARIES, NULL), 0, NULL);
    without("libcudnn.so.9");
    const json_t *points;
    json_t *root = sg_gpu_points_of(sg_stepgauge("measure", "--config", sg_gpu_small_act(), "--batch", "1",
                                                 "--min-iterations", "1", "--time-budget", "1", "--json", NULL),
                                    &points, 1);
    assert_non_null(strstr(sg_gpu_text_of(json_object_get(json_array_get(points, 0), "gpu"), "libraries"),
                           "no cuDNN: convolutions by im2col"));
    json_decref(root);
}

/* ---- faults in the middle --------------------------------------------------------------------------------------------------- */

static void a_gpu_that_is_lost(void **state) {
    (void)state;
    sg_gpu_emulation("gpus=4,lose=0,lose_after=250");
    sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", "2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20", "-o",
                               sg_gpu_run_path, SMALL, NULL),
                  3, "GPU 0 (0000:01:00.0): ");
    size_t kept = sg_gpu_points_in(sg_gpu_run_path);
    assert_true(kept >= 1 && kept < 19);
    assert_int_equal(unlink(sg_gpu_run_path), 0);
    sg_gpu_emulation("gpus=4,lose=1,lose_after=250");
    sg_said said = sg_stepgauge("measure", "mlp", "--batch", "2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20",
                                "--gpus", "2", "-o", sg_gpu_run_path, SMALL, NULL);
    assert_non_null(strstr(said.err, "rank 1, GPU 1 (0000:02:00.0): "));
    sg_gpu_expect(said, 3, "the GPU was lost or a kernel failed: look at 'dmesg'");
    kept = sg_gpu_points_in(sg_gpu_run_path);
    assert_true(kept >= 1 && kept < 19);
}

static void pause_s(double s) {
    const struct timespec pause = {(time_t)s, (long)(1e9 * (s - floor(s)))};
    (void)nanosleep(&pause, NULL);
}

static void wait_for_points(size_t least) {
    for (int i = 0; i < 6000; i++) {
        size_t n = sg_gpu_points_in(sg_gpu_run_path);
        if (n != SIZE_MAX && n >= least) return;
        pause_s(0.01);
    }
    fail_msg("the run file never held %zu points", least);
}

#define MANY_BATCHES "2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36"
static sg_running start_two(void) {
    return sg_stepgauge_start("measure", "mlp", "--batch", MANY_BATCHES, "--gpus", "2", "-o", sg_gpu_run_path, SMALL,
                              NULL);
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
    sg_gpu_expect(said, 137, "was killed by SIGKILL");
    size_t kept = sg_gpu_points_in(sg_gpu_run_path);
    assert_true(kept >= 1 && kept < 35);
}

static void interrupted_on_two_gpus(void **state) {
    (void)state;
    sg_running running = start_two();
    wait_for_points(1);
    assert_int_equal(kill(running.pid, SIGINT), 0);
    sg_said said = sg_running_wait(&running);
    sg_gpu_expect(said, 130, "what was measured is kept");
    size_t kept = sg_gpu_points_in(sg_gpu_run_path);
    assert_true(kept >= 1 && kept < 35);
}

static long size_of(const char *path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return (long)info.st_size;
}

static void the_disk_fills_up(void **state) {
    (void)state;
    sg_gpu_expect(sg_stepgauge("measure", "mlp", "--batch", "2", "-o", sg_gpu_run_path, SMALL, NULL), 0, NULL);
    struct rlimit usual, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    tight = usual;
    tight.rlim_cur = (rlim_t)size_of(sg_gpu_run_path);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    sg_said said = sg_stepgauge("measure", "mlp", "--batch", "4", "-o", sg_gpu_run_path, SMALL, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
    sg_gpu_expect(said, 3, "untouched");
    assert_int_equal(sg_gpu_points_in(sg_gpu_run_path), 1);
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
    sg_scratch_folder(&sg_gpu_scratch, "disk");
    (void)snprintf(disk, sizeof disk, "%s/disk", sg_gpu_scratch.path);
    (void)snprintf(path, sizeof path, "%s/run.h5", disk);
    (void)snprintf(filler, sizeof filler, "%s/filler", disk);
    if (mount("tmpfs", disk, "tmpfs", 0, "size=256k") != 0) {
        print_message("no disk of one's own may be mounted here: skipped\n");
        return;
    }
    sg_said first = sg_stepgauge("measure", "mlp", "--batch", "2", "--gpus", "2", "-o", path, SMALL, NULL);
    fill(filler);
    sg_said second = sg_stepgauge("measure", "mlp", "--batch", "4,8", "--gpus", "2", "-o", path, SMALL, NULL);
    size_t kept = sg_gpu_points_in(path);
    (void)unlink(path);
    (void)unlink(filler);
    bool empty = is_empty(disk); /* no lock, no unfinished file */
    assert_int_equal(umount2(disk, MNT_DETACH), 0);
    sg_gpu_expect(first, 0, NULL);
    sg_gpu_expect(second, 3, "untouched");
    assert_int_equal(kept, 1);
    assert_true(empty);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, sg_gpu_machine, sg_gpu_nothing_left)
        T(drivers_that_do_not_serve),  T(more_gpus_than_there_are), T(a_driver_without_nvml),
        T(libraries_that_are_missing), T(a_gpu_that_is_lost),       T(a_rank_that_is_killed),
        T(interrupted_on_two_gpus),    T(the_disk_fills_up),        T(rank_0s_disk_fills_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
