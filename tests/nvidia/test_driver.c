/* Is there a driver, and if not, why: fake /proc, /sys and /dev trees with an emulated libcuda.so.1, or with none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/nvidia/driver.h"
#include "tests/support/scratch.h"

static const char WITH_CUDA[] = SG_BINARY_DIR "/emulation/lib";

typedef struct scene {
    sg_scratch root;
    sg_nvidia_places places;
} scene;

static void card(const scene *s, const char *vendor, const char *class) {
    sg_scratch_file(&s->root, "sys/bus/pci/devices/0000:3b:00.0/vendor", vendor);
    sg_scratch_file(&s->root, "sys/bus/pci/devices/0000:3b:00.0/class", class);
}

static void module(const scene *s, const char *version) {
    char text[160];
    (void)snprintf(text, sizeof text,
                   "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build  (dvs-builder@U22)\n"
                   "GCC version:  gcc version 12.3.0\n",
                   version);
    sg_scratch_file(&s->root, "proc/driver/nvidia/version", text);
    sg_scratch_file(&s->root, "dev/nvidia0", "");
}

static void expect(const scene *s, const char *cuda, sg_driver_problem problem, const char *part) {
    sg_nvidia_driver d;
    if (cuda) assert_int_equal(setenv("SG_CUDA_DRIVER_EMULATION", cuda, 1), 0);
    sg_nvidia_driver_look(&s->places, &d);
    if (d.problem != problem) fail_msg("problem %d instead of %d: %s", d.problem, problem, d.text);
    if (!strstr(d.text, part)) fail_msg("'%s' lacks '%s'", d.text, part);
}

static scene start(const char *libraries) {
    scene s = {.root = sg_scratch_new()};
    assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
    s.places.libraries = libraries;
    return s;
}

/* places.root points into the scene, which must not move afterwards */
#define SCENE(name, libraries)                                                                                         \
    scene name = start(libraries);                                                                                     \
    name.places.root = name.root.path

static void without_a_library(void **unused) {
    (void)unused;
    SCENE(s, "/nowhere");
    expect(&s, NULL, SG_DRIVER_NO_GPU, "predict --machine");
    card(&s, "0x8086\n", "0x030000\n");
    expect(&s, NULL, SG_DRIVER_NO_GPU, "no driver");
    card(&s, "0x10de\n", "0x040300\n"); /* the sound of a card that is passed through elsewhere */
    expect(&s, NULL, SG_DRIVER_NO_GPU, "no driver");
    card(&s, "0x10de\n", "0x030200\n");
    expect(&s, NULL, SG_DRIVER_NOT_INSTALLED, "nvidia-driver-580");
    sg_scratch_file(&s.root, "sys/module/nouveau/refcnt", "1\n");
    expect(&s, NULL, SG_DRIVER_NOT_INSTALLED, "nouveau");
    module(&s, "535.183.01");
    expect(&s, NULL, SG_DRIVER_NO_LIBRARY, "libnvidia-compute-535");
    sg_scratch_file(&s.root, ".dockerenv", "");
    expect(&s, NULL, SG_DRIVER_CONTAINER, "--gpus all");
    sg_scratch_free(&s.root);
}

static void a_ready_driver(void **unused) {
    (void)unused;
    SCENE(s, WITH_CUDA);
    module(&s, "580.65.06");
    expect(&s, "0,13000,2", SG_DRIVER_READY, "driver 580.65.06, CUDA 13.0, 2 GPU(s)");
    sg_nvidia_driver d;
    sg_nvidia_driver_look(&s.places, &d);
    assert_string_equal(d.version, "580.65.06");
    assert_true(d.module && d.library && d.nodes == 1 && d.devices == 2 && d.cuda_version == 13000);
    sg_scratch_free(&s.root);
    /* WSL has neither /proc/driver nor nodes, and works */
    SCENE(wsl, WITH_CUDA);
    expect(&wsl, "0,13010,1", SG_DRIVER_READY, "CUDA 13.1");
    sg_scratch_free(&wsl.root);
}

static void drivers_that_do_not_do(void **unused) {
    (void)unused;
    SCENE(s, WITH_CUDA);
    expect(&s, "100,13000,0", SG_DRIVER_NOT_LOADED, "modprobe nvidia");
    sg_scratch_file(&s.root, "proc/1/cgroup", "0::/system.slice/docker-abc.scope\n");
    expect(&s, "100,13000,0", SG_DRIVER_CONTAINER, "--gpus all");
    module(&s, "575.57.08");
    expect(&s, "0,12090,1", SG_DRIVER_OLD, "575.57.08 supports CUDA 12.9");
    expect(&s, "0,12090,1", SG_DRIVER_OLD, "driver 580 or newer");
    expect(&s, "804,13000,0", SG_DRIVER_OLD, "cuda-compat");
    expect(&s, "803,13000,0", SG_DRIVER_MISMATCH, "different versions");
    expect(&s, "802,13000,0", SG_DRIVER_FAILS, "nvidia-fabricmanager");
    expect(&s, "34,0,0", SG_DRIVER_NO_LIBRARY, "stubs");
    expect(&s, "46,13000,0", SG_DRIVER_FAILS, "-c DEFAULT");
    expect(&s, "999,13000,0", SG_DRIVER_FAILS, "nvidia_uvm");
    expect(&s, "12345,-7,-1", SG_DRIVER_FAILS, "error 12345");
    expect(&s, "100,13000,0", SG_DRIVER_FAILS, "finds no GPU that it supports");
    expect(&s, "0,13000,-3", SG_DRIVER_FAILS, "finds no GPU");
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "", 1), 0);
    expect(&s, "100,13000,0", SG_DRIVER_HIDDEN, "set to '' and hides every GPU");
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "0,0", 1), 0);
    expect(&s, "101,13000,0", SG_DRIVER_HIDDEN, "'0,0'");
    assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
    sg_scratch_free(&s.root);
}

static void odd_version_files(void **unused) {
    (void)unused;
    static const char *const texts[] = {
        "",    "NVRM version:",       "NVRM version: x 580 y\n", "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17 ",
        " ..", "\xff\xfe 580.65.06x "};
    SCENE(s, WITH_CUDA);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        sg_nvidia_driver d;
        sg_scratch_file(&s.root, "proc/driver/nvidia/version", texts[i]);
        sg_nvidia_driver_look(&s.places, &d);
        assert_true(d.module);
        assert_true(strlen(d.version) < sizeof d.version);
        if (i != 4) assert_string_equal(d.version, "");
    }
    sg_scratch_free(&s.root);
}

/* ---- CUDA_VISIBLE_DEVICES ---- */

static const char *const UUIDS[] = {"GPU-aaaa1111", "GPU-aaaa2222", "GPU-bbbb3333", ""};

static void expect_visible(const char *value, int n, bool odd, const char *part) {
    sg_cuda_visible v;
    sg_cuda_visible_read(value, UUIDS, 4, &v);
    if (v.n != n || v.odd != odd) fail_msg("'%s': %d visible, odd %d: %s", value ? value : "unset", v.n, v.odd, v.text);
    if (part ? !strstr(v.text, part) : v.text[0]) fail_msg("'%s' lacks '%s'", v.text, part ? part : "nothing");
}

static void what_is_visible(void **unused) {
    (void)unused;
    expect_visible(NULL, 4, false, NULL);
    expect_visible("0,1,2,3", 4, false, NULL);
    expect_visible(" 3 , 0 ", 2, false, "hides 1, 2");
    expect_visible("", 0, false, "is '' and hides every GPU (0, 1, 2, 3)");
    expect_visible("-1", 0, false, "hides every GPU");
    expect_visible("0,9,1", 1, true, "'9' names no GPU here and ends the list");
    expect_visible("0,,1", 1, true, "shows 1 of 4 GPUs and hides 1, 2, 3");
    expect_visible("1,1", 0, true, "'1' is named twice");
    expect_visible("all", 0, true, "'all' names no GPU");
    expect_visible("0x1", 0, true, "'0x1'");
    expect_visible("99999999999999999999", 0, true, "names no GPU");
    expect_visible("GPU-bbbb", 1, false, "hides 0, 1, 3");
    expect_visible("GPU-aaaa", 0, true, "names no GPU"); /* two begin so */
    expect_visible("GPU-aaaa1111,2", 2, false, "hides 1, 3");
    expect_visible("MIG-1234", 0, false, "MIG instance");
    sg_cuda_visible v;
    sg_cuda_visible_read("0", UUIDS, 0, &v);
    assert_int_equal(v.n, 0);
    sg_cuda_visible_read(NULL, UUIDS, -4, &v);
    assert_int_equal(v.n, 0);
    char *endless = malloc(100001);
    assert_non_null(endless);
    memset(endless, ',', 100000);
    endless[100000] = '\0';
    expect_visible(endless, 0, true, "ends the list");
    memset(endless, '7', 100000);
    expect_visible(endless, 0, true, "ends the list");
    free(endless);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_library),      cmocka_unit_test(a_ready_driver),
        cmocka_unit_test(drivers_that_do_not_do), cmocka_unit_test(odd_version_files),
        cmocka_unit_test(what_is_visible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
