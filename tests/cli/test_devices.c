/* `stepgauge devices` on machines with emulated drivers, GPUs and CUDA libraries: as a person and as a program sees it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/program.h"
#include "tests/support/scratch.h"

static const char *const FILES[] = {"libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libcurand.so.10",
                                    "libnccl.so.2"};

/* A folder that holds the emulated driver and, `cuda` given, the CUDA libraries: as the system's library path would. */
static sg_scratch machine(const char *world, const char *driver, const char *cuda) {
    sg_scratch s = sg_scratch_new();
    sg_scratch_link(&s, "libnvidia-ml.so.1", SG_BINARY_DIR "/emulation/lib/libnvidia-ml.so.1");
    sg_scratch_link(&s, "libcuda.so.1", SG_BINARY_DIR "/emulation/lib/libcuda.so.1");
    for (size_t i = 0; cuda && i < sizeof FILES / sizeof FILES[0]; i++) sg_scratch_link(&s, FILES[i], cuda);
    assert_int_equal(setenv("LD_LIBRARY_PATH", s.path, 1), 0);
    assert_int_equal(setenv("SG_NVML_EMULATION", world, 1), 0);
    assert_int_equal(setenv("SG_CUDA_DRIVER_EMULATION", driver, 1), 0);
    assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
    return s;
}

static const char CUDA13[] = SG_BINARY_DIR "/emulation/libraries/library_of_cuda13.so";

static void expect(const sg_said *said, const char *part) {
    if (!strstr(said->out, part)) fail_msg("'%s' is not in:\n%s\n%s", part, said->out, said->err);
}

static json_t *row_of(const json_t *root, const char *kind) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(root, "devices"), i, row) {
        if (strcmp(json_string_value(json_object_get(row, "kind")), kind) == 0) return row;
    }
    fail_msg("no row '%s'", kind);
    return NULL;
}

static bool has_module(void) {
    return access(SG_BINARY_DIR "/modules/stepgauge_cuda.so", R_OK) == 0;
}

static void two_gpus(void **unused) {
    (void)unused;
    sg_scratch s =
        machine("driver=580.95.05;gpu;link=00000000:3C:00.0:4;gpu;name=Tesla V100;capability=70;process=55:300;"
                "link=00000000:3B:00.0:4;ecc_errors=2",
                "0,13000,2", CUDA13);
    sg_said said = sg_stepgauge("devices", NULL);
    assert_int_equal(said.status, 0);
    if (has_module())
        expect(&said, "ready: driver 580.95.05, CUDA 13.0, 2 GPU(s); cuBLAS 13.0.2, cuDNN 9.13.0, cuRAND");
    expect(&said, "GPU 0  NVIDIA H100 80GB HBM3, compute capability 9.0, 00000000:3B:00.0");
    expect(&said, "SM 1980 of 1980 MHz, memory 2619 of 2619 MHz, 40 C, 80 of 700 W");
    expect(&said, "PCIe 5 x16 of 5 x16, 4 NVLinks, ECC on, MIG off, persistence on");
    expect(&said, "nothing stands in its way");
    expect(&said, "blocks: compute capability 7.0");
    expect(&said, "warning: in use by pid 55 (300 MiB)");
    expect(&said, "warning: 2 uncorrected");
    expect(&said, "NV4      X");
    sg_said_clear(&said);
    sg_scratch_free(&s);
}

static void as_json(void **unused) {
    (void)unused;
    sg_scratch s = machine("driver=580.95.05;fail=nvmlDeviceGetEccMode:3;gpu;process=9:1;reasons=0x40;gpu;lost=1",
                           "0,13010,2", CUDA13);
    sg_said said = sg_stepgauge("devices", "--json", NULL);
    assert_int_equal(said.status, 0);
    json_t *root = sg_said_json(&said), *cuda = row_of(root, "cuda");
    assert_string_equal(json_string_value(json_object_get(json_object_get(cuda, "driver"), "version")), "580.95.05");
    assert_true(json_real_value(json_object_get(json_object_get(cuda, "driver"), "cuda")) > 13.05);
    json_t *gpus = json_object_get(cuda, "gpus");
    assert_int_equal(json_array_size(gpus), 2);
    json_t *gpu = json_array_get(gpus, 0);
    assert_true(sg_json_number(gpu, "memory_bytes") == 81559.0 * 0x1p20);
    assert_true(sg_json_number(gpu, "temperature_c") == 40 && sg_json_number(gpu, "pcie_max_width") == 16);
    assert_true(json_is_null(json_object_get(gpu, "ecc"))); /* not told */
    assert_true(json_is_true(json_object_get(gpu, "ready")));
    assert_string_equal(json_string_value(json_object_get(gpu, "throttle")), "thermal (hardware)");
    json_t *finding = json_array_get(json_object_get(gpu, "findings"), 0);
    assert_string_equal(json_string_value(json_object_get(finding, "what")), "busy");
    assert_string_equal(json_string_value(json_object_get(finding, "severity")), "warning");
    json_t *process = json_array_get(json_object_get(gpu, "processes"), 0);
    assert_int_equal(json_integer_value(json_object_get(process, "pid")), 9);
    gpu = json_array_get(gpus, 1);
    assert_true(json_is_true(json_object_get(gpu, "lost")) && json_is_false(json_object_get(gpu, "ready")));
    json_t *libraries = json_object_get(cuda, "libraries");
    assert_int_equal(json_array_size(libraries), 5);
    assert_string_equal(json_string_value(json_object_get(json_array_get(libraries, 2), "version")), "9.13.0");
    assert_int_equal(json_array_size(json_object_get(cuda, "topology")), 2);
    json_decref(root);
    sg_said_clear(&said);
    sg_scratch_free(&s);
}

/* What stands in the way of all GPUs is the answer of the whole device. */
static void expect_not_ready(const char *world, const char *driver, const char *cuda, const char *part) {
    sg_scratch s = machine(world, driver, cuda);
    sg_said said = sg_stepgauge("devices", "--json", NULL);
    assert_int_equal(said.status, 0); /* the processor can train */
    json_t *root = sg_said_json(&said), *row = row_of(root, "cuda");
    const char *state = json_string_value(json_object_get(row, "state"));
    assert_true(json_is_false(json_object_get(row, "ready")));
    assert_int_equal(strncmp(state, "not ready: ", 11), 0);
    if (!strstr(state, part)) fail_msg("'%s' lacks '%s'", state, part);
    json_decref(root);
    sg_said_clear(&said);
    sg_scratch_free(&s);
}

static void what_stands_in_the_way(void **unused) {
    (void)unused;
    expect_not_ready("gpu", "0,12080,1", CUDA13, "driver 580 or newer");
    expect_not_ready("gpu", "803,13000,0", CUDA13, "different versions");
    expect_not_ready("gpu;capability=60", "0,13000,1", CUDA13, "predicted only");
    expect_not_ready("gpu;compute_mode=2", "0,13000,1", CUDA13, "prohibited");
    expect_not_ready("gpu", "0,13000,1", SG_BINARY_DIR "/emulation/libraries/library_of_cuda12.so",
                     "built for CUDA 12");
}

static void hidden_gpus(void **unused) {
    (void)unused;
    sg_scratch s = machine("gpu;gpu", "0,13000,1", CUDA13);
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "1,7", 1), 0);
    sg_said said = sg_stepgauge("devices", NULL);
    expect(&said, "CUDA_VISIBLE_DEVICES='1,7' shows 1 of 2 GPUs and hides 0: '7' names no GPU here");
    sg_said_clear(&said);
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "", 1), 0);
    assert_int_equal(setenv("SG_CUDA_DRIVER_EMULATION", "100,13000,0", 1), 0);
    said = sg_stepgauge("devices", NULL);
    assert_int_equal(said.status, 0);
    expect(&said, "not ready: CUDA_VISIBLE_DEVICES is set to '' and hides every GPU");
    sg_said_clear(&said);
    /* not UTF-8: still JSON */
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "\xff\xfe", 1), 0);
    said = sg_stepgauge("devices", "--json", NULL);
    json_t *root = sg_said_json(&said);
    assert_true(json_is_string(json_object_get(row_of(root, "cuda"), "visible")));
    json_decref(root);
    sg_said_clear(&said);
    assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
    sg_scratch_free(&s);
}

/* A driver without its management library still trains; what it would tell is not told. */
static void without_nvml(void **unused) {
    (void)unused;
    sg_scratch s = machine("init=999", "0,13000,1", CUDA13);
    sg_said said = sg_stepgauge("devices", NULL);
    assert_int_equal(said.status, 0);
    expect(&said, "clocks, heat and use are not told: the NVIDIA management library does not start");
    if (has_module()) expect(&said, "1 GPU(s); cuBLAS 13.0.2");
    sg_said_clear(&said);
    sg_scratch_free(&s);
}

static void a_named_folder(void **unused) {
    (void)unused;
    sg_scratch s = machine("gpu", "0,13000,1", NULL), other = sg_scratch_new();
    char path[96], place[160];
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        (void)snprintf(path, sizeof path, "nvidia/cu13/lib/%s", FILES[i]);
        sg_scratch_link(&other, path, CUDA13);
    }
    sg_said said = sg_stepgauge("devices", "--cuda-libs", other.path, NULL);
    assert_int_equal(said.status, 0);
    (void)snprintf(place, sizeof place, "cuDNN 9.13.0: %s/nvidia/cu13/lib/libcudnn.so.9", other.path);
    expect(&said, place);
    sg_said_clear(&said);
    said = sg_stepgauge("devices", "--cuda-libs", "/nowhere", NULL);
    assert_int_equal(said.status, 2);
    assert_non_null(strstr(said.err, "--cuda-libs names '/nowhere', which is no folder"));
    sg_said_clear(&said);
    sg_scratch_free(&s);
    sg_scratch_free(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_gpus),    cmocka_unit_test(as_json),      cmocka_unit_test(what_stands_in_the_way),
        cmocka_unit_test(hidden_gpus), cmocka_unit_test(without_nvml), cmocka_unit_test(a_named_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
