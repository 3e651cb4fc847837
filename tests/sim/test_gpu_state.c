/* A GPU watched while it is measured, against the emulated NVML: what is summed up, what makes a point suspect, a GPU lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/measure/gpu_state.h"
#include "sim/measure/measure.h"
#include "tests/reference/reference.h"
#include "tests/support/tiny_training.h"

static const sg_device_info GPU = {
    .kind = "cuda", .name = "a GPU", .library = "CUDA 13.0", .driver = "580.1", .bus = "0000:3B:00.0"};

static void set_world(const char *world) {
    assert_int_equal(setenv("SG_NVML_EMULATION", world, 1), 0);
}

static void pause_ms(long ms) {
    const struct timespec t = {0, ms * 1000000};
    (void)nanosleep(&t, NULL);
}

static sg_code watch(const char *world, long ms, sg_gpu_conditions *c, sg_status *status) {
    set_world(world);
    sg_gpu_watch *w = sg_gpu_watch_start(&GPU);
    assert_non_null(w);
    if (ms) pause_ms(ms);
    return sg_gpu_watch_stop(w, &GPU, c, status);
}

/* Another process than this one, which is on the GPU, too. */
static const char *busy_world(const char *more, char text[256]) {
    (void)snprintf(text, 256,
                   "driver=580.65.06;gpu;sm=1500;memory_clock=2619;temperature=71;power=420;limit=600;"
                   "reasons=0x5;process=%ld:100;%s",
                   (long)getpid(), more);
    return text;
}

static void what_is_summed_up(void **unused) {
    (void)unused;
    sg_gpu_conditions c;
    char world[256], why[256] = "";
    assert_int_equal(watch(busy_world("", world), 450, &c, NULL), SG_OK);
    assert_string_equal(c.name, "NVIDIA H100 80GB HBM3");
    assert_string_equal(c.driver, "580.65.06");
    assert_string_equal(c.bus, "00000000:3B:00.0");
    assert_string_equal(c.libraries, "CUDA 13.0");
    assert_true(c.sm_clock_mhz == 1500 && c.memory_clock_mhz == 2619);
    assert_true(c.temperature_c == 71 && c.power_w == 420 && c.power_limit_w == 600);
    assert_string_equal(c.throttle, "power cap");
    assert_true(c.samples >= 3); /* at once, every fifth of a second, at the end */
    assert_true(c.pcie_generation == 5 && c.pcie_width == 16);
    assert_int_equal(c.other_processes, 0);
    assert_int_equal(sg_gpu_conditions_judge(&c, why, sizeof why), 0); /* a power cap is how many GPUs run */
    assert_int_equal(watch(busy_world("", world), 0, &c, NULL), SG_OK);
    assert_true(c.samples >= 2);
}

static void what_is_suspect(void **unused) {
    (void)unused;
    static const struct {
        const char *reasons, *word;
    } faults[] = {{"reasons=0x20", "thermal (software)"},
                  {"reasons=0x44", "power cap, thermal (hardware)"},
                  {"reasons=0x80", "power brake"},
                  {"reasons=0x8", "hardware slowdown"}};
    sg_gpu_conditions c;
    char world[256];
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        char why[256] = "load";
        assert_int_equal(watch(busy_world(faults[i].reasons, world), 0, &c, NULL), SG_OK);
        assert_int_equal(sg_gpu_conditions_judge(&c, why, sizeof why), 1);
        assert_non_null(strstr(why, "load; the GPU was throttled"));
        assert_non_null(strstr(why, faults[i].word));
    }
    char why[256] = "", cut[40] = "";
    assert_int_equal(watch(busy_world("process=1:1;process=4000000000:1;reasons=0x40", world), 0, &c, NULL), SG_OK);
    assert_int_equal(c.other_processes, 2);
    assert_int_equal(sg_gpu_conditions_judge(&c, why, sizeof why), 2);
    assert_non_null(strstr(why, "2 other process(es)"));
    assert_int_equal(sg_gpu_conditions_judge(&c, cut, sizeof cut), 2);
    assert_int_equal(strlen(cut), sizeof cut - 1);
}

/* A driver that tells little leaves fields empty; one that tells nothing, or another GPU, leaves what the device says. */
static void what_is_not_told(void **unused) {
    (void)unused;
    sg_gpu_conditions c;
    assert_int_equal(watch("fail=nvmlDeviceGetClockInfo:3;fail=nvmlDeviceGetPowerUsage:3;gpu", 0, &c, NULL), SG_OK);
    assert_true(c.sm_clock_mhz == 0 && c.power_w == 0 && c.temperature_c == 40);
    set_world("gpu;bus=00000000:99:00.0");
    assert_null(sg_gpu_watch_start(&GPU));
    set_world("init=9");
    assert_null(sg_gpu_watch_start(&GPU));
    assert_int_equal(sg_gpu_watch_stop(NULL, &GPU, &c, NULL), SG_OK);
    assert_string_equal(c.name, "a GPU");
    assert_string_equal(c.driver, "580.1");
    assert_int_equal(c.samples, 0);
    const sg_device_info cpu = {.kind = "cpu", .name = "a CPU"};
    assert_null(sg_gpu_watch_start(&cpu));
    assert_int_equal(sg_gpu_watch_stop(NULL, &cpu, &c, NULL), SG_OK);
    const sg_gpu_conditions nothing = {0};
    assert_memory_equal(&c, &nothing, sizeof c);
}

static void a_lost_gpu(void **unused) {
    (void)unused;
    sg_gpu_conditions c;
    sg_status status = {0};
    assert_int_equal(watch("lost_after=2;gpu", 0, &c, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "GPU 0000:3B:00.0 (a GPU) fell off the bus"));
    assert_non_null(strstr(status.text, "dmesg"));
    /* between two samples: what the first saw is kept */
    assert_int_equal(watch("lost_after=12;gpu;temperature=66", 250, &c, &status), SG_MACHINE);
    assert_true(c.samples == 1 && c.temperature_c == 66);
}

/* ---- a whole measurement ---- */

static sg_code info_with_bus(sg_device *device, sg_device_info *info, sg_status *status) {
    sg_code code = sg_reference_device()->info(device, info, status);
    (void)snprintf(info->bus, sizeof info->bus, "%s", GPU.bus);
    return code;
}

static sg_code measure(const char *world, sg_point *p, sg_status *status) {
    static const sg_point_config CONFIG = {.policy = "tiny", .device = "reference", .batch = 4, .ranks = 1};
    const sg_tiny_options options = {.batch = 4, .features = 8, .outputs = 6, .lr = 0.01};
    const sg_measure_options o = {.device = "reference", .workers = 1, .min_iterations = 6, .max_iterations = 6};
    sg_device_api api = *sg_reference_device();
    api.info = info_with_bus;
    set_world(world);
    sg_tiny *t = sg_tiny_new(&options);
    sg_code code = sg_measure_training(&t->training, &api, &CONFIG, &o, p, status);
    sg_tiny_free(t);
    return code;
}

static void measurements_keep_it(void **unused) {
    (void)unused;
    sg_point p;
    sg_status status = {0};
    if (measure("gpu;sm=1234;reasons=0x40;temperature=90", &p, &status)) fail_msg("%s", status.text);
    assert_true(p.gpu.sm_clock_mhz == 1234 && p.gpu.samples >= 2);
    assert_true(p.disturbed);
    assert_non_null(strstr(p.disturbed_why, "thermal (hardware), up to 90 C"));
    sg_point_clear(&p);
    assert_int_equal(measure("gpu;bus=00000000:99:00.0", &p, &status), SG_OK);
    assert_true(p.gpu.samples == 0 && p.gpu.bus[0]);
    sg_point_clear(&p);
    assert_int_equal(measure("lost_after=2;gpu", &p, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "measuring "));
    assert_non_null(strstr(status.text, "fell off the bus"));
}

static void machines_tell_of_gpus(void **unused) {
    (void)unused;
    sg_machine_record m;
    set_world(
        "driver=580.95.05;gpu;name=NVIDIA L4;total=23034;switch=18;gpu;name=NVIDIA L40S;total=46068;switch=18;gpu;"
        "name=NVIDIA L4;level=30");
    sg_machine_describe(&m);
    assert_int_equal(m.gpus, 3);
    assert_string_equal(m.gpu, "NVIDIA L4, NVIDIA L40S");
    assert_string_equal(m.gpu_driver, "580.95.05");
    assert_string_equal(m.gpu_topology, "NV18, SYS");
    assert_true(m.gpu_memory_bytes == INT64_C(23034) << 20);
    set_world("init=9");
    sg_machine_describe(&m);
    assert_true(m.gpus == 0 && !m.gpu[0] && !m.gpu_driver[0]);
}

int main(void) {
    /* once it is open in this process, a library is found by its name: the emulation stands for the system's */
    if (!dlopen(SG_BINARY_DIR "/emulation/lib/libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_summed_up),    cmocka_unit_test(what_is_suspect),
        cmocka_unit_test(what_is_not_told),     cmocka_unit_test(a_lost_gpu),
        cmocka_unit_test(measurements_keep_it), cmocka_unit_test(machines_tell_of_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
