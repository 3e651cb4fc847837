/* What the driver tells of GPUs, against an emulated management library: every value, old drivers, hostile answers, and every
 * finding with its remedy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/nvidia/nvml.h"
#include "kernels/nvidia/readiness.h"

static const char NEW_DRIVER[] = SG_BINARY_DIR "/emulation/lib", OLD_DRIVER[] = SG_BINARY_DIR "/emulation/old_driver";

static sg_nvml *open_nvml(const char *folder, const char *world) {
    sg_nvml *nvml;
    sg_status status = {0};
    assert_int_equal(setenv("SG_NVML_EMULATION", world, 1), 0);
    if (sg_nvml_open(folder, &nvml, &status)) fail_msg("%s", status.text);
    return nvml;
}

static sg_gpu_state read_gpu(const char *folder, const char *world) {
    sg_gpu_state g;
    sg_status status = {0};
    sg_nvml *nvml = open_nvml(folder, world);
    if (sg_nvml_read(nvml, 0, &g, &status)) fail_msg("%s", status.text);
    sg_nvml_close(nvml);
    return g;
}

static const char EVERYTHING[] =
    "driver=580.95.05;cuda=13000;gpu;name=NVIDIA L40S;uuid=GPU-1234;bus=00000001:AB:00.0;capability=89;total=46068;"
    "used=1000;sm=2400;sm_max=2520;memory_clock=9001;memory_max=9001;temperature=61;power=250;limit=300;power_default="
    "350;"
    "reasons=0x44;busy=97;pstate=2;process=4242:900;process=77;ecc=1;ecc_errors=3;ecc_ever=5;rows_pending=1;mig=1;"
    "persistence=0;compute_mode=3;generation=3;width=8;max_generation=4;max_width=16;gpu_generation=5;link=00000001:AC:"
    "00.0:4";

static void check_common(const sg_gpu_state *g) {
    assert_string_equal(g->name, "NVIDIA L40S");
    assert_string_equal(g->uuid, "GPU-1234");
    assert_string_equal(g->bus, "00000001:AB:00.0");
    assert_int_equal(g->capability, 89);
    assert_true(g->total_bytes == UINT64_C(46068) << 20 && g->used_bytes == UINT64_C(1000) << 20);
    assert_true(g->free_bytes == UINT64_C(45068) << 20);
    assert_true(g->now.sm_mhz == 2400 && g->sm_max_mhz == 2520 && g->now.memory_mhz == 9001 &&
                g->memory_max_mhz == 9001);
    assert_true(g->now.temperature_c == 61 && g->now.power_w == 250);
    assert_true(g->power_limit_w == 300 && g->power_default_w == 350);
    assert_true(g->now.reasons == (SG_GPU_POWER_CAP | SG_GPU_THERMAL_HARDWARE));
    assert_true(g->busy_percent == 97 && g->performance_state == 2);
    assert_int_equal(g->n_processes, 2);
    assert_true(g->processes[0].pid == 4242 && g->processes[0].bytes == UINT64_C(900) << 20);
    assert_true(g->processes[1].pid == 77 && g->processes[1].bytes == 0);
    assert_true(g->ecc == 1 && g->ecc_uncorrected == 3 && g->ecc_uncorrected_ever == 5);
    assert_true(g->persistence == 0 && g->compute_mode == SG_GPU_COMPUTE_EXCLUSIVE);
    assert_true(g->now.pcie_generation == 3 && g->now.pcie_width == 8);
    assert_true(g->pcie_max_generation == 4 && g->pcie_max_width == 16);
    assert_int_equal(g->nvlinks, 4);
    assert_false(g->now.lost);
}

static void every_value(void **unused) {
    (void)unused;
    sg_gpu_state g = read_gpu(NEW_DRIVER, EVERYTHING);
    check_common(&g);
    assert_true(g.rows_pending == 1 && g.rows_failed == 0 && g.mig == 1 && g.pcie_gpu_generation == 5);
    sg_nvml *nvml = open_nvml(NEW_DRIVER, EVERYTHING);
    assert_string_equal(sg_nvml_driver(nvml), "580.95.05");
    assert_int_equal(sg_nvml_cuda_version(nvml), 13000);
    assert_int_equal(sg_nvml_count(nvml), 1);
    sg_nvml_close(nvml);
}

/* What a driver's library does not have is not told; what it has under an older name is. */
static void an_old_driver_tells_less(void **unused) {
    (void)unused;
    sg_gpu_state g = read_gpu(OLD_DRIVER, EVERYTHING);
    check_common(&g);
    assert_true(g.rows_pending == -1 && g.rows_failed == -1 && g.mig == -1 && g.pcie_gpu_generation == 0);
}

/* Each function fails in turn: the others' values stay, and nothing is an error but what hands out GPUs. */
static void what_fails_is_not_told(void **unused) {
    (void)unused;
    static const char *const functions[] = {"nvmlSystemGetDriverVersion",
                                            "nvmlSystemGetCudaDriverVersion_v2",
                                            "nvmlDeviceGetName",
                                            "nvmlDeviceGetUUID",
                                            "nvmlDeviceGetPciInfo_v3",
                                            "nvmlDeviceGetCudaComputeCapability",
                                            "nvmlDeviceGetMemoryInfo",
                                            "nvmlDeviceGetClockInfo",
                                            "nvmlDeviceGetMaxClockInfo",
                                            "nvmlDeviceGetTemperatureV",
                                            "nvmlDeviceGetTemperature",
                                            "nvmlDeviceGetPowerUsage",
                                            "nvmlDeviceGetEnforcedPowerLimit",
                                            "nvmlDeviceGetPowerManagementDefaultLimit",
                                            "nvmlDeviceGetCurrentClocksEventReasons",
                                            "nvmlDeviceGetUtilizationRates",
                                            "nvmlDeviceGetPerformanceState",
                                            "nvmlDeviceGetComputeRunningProcesses_v3",
                                            "nvmlDeviceGetEccMode",
                                            "nvmlDeviceGetTotalEccErrors",
                                            "nvmlDeviceGetRemappedRows",
                                            "nvmlDeviceGetMigMode",
                                            "nvmlDeviceGetPersistenceMode",
                                            "nvmlDeviceGetComputeMode",
                                            "nvmlDeviceGetCurrPcieLinkGeneration",
                                            "nvmlDeviceGetCurrPcieLinkWidth",
                                            "nvmlDeviceGetMaxPcieLinkGeneration",
                                            "nvmlDeviceGetGpuMaxPcieLinkGeneration",
                                            "nvmlDeviceGetMaxPcieLinkWidth",
                                            "nvmlDeviceGetNvLinkState"};
    sg_gpu_state whole = read_gpu(NEW_DRIVER, EVERYTHING);
    int changed = 0;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        char world[1024];
        (void)snprintf(world, sizeof world, "fail=%s:999;%s", functions[i], EVERYTHING);
        sg_gpu_state g = read_gpu(NEW_DRIVER, world);
        changed += memcmp(&g, &whole, sizeof g) != 0;
    }
    /* two are about the system, and each of the two ways to a temperature stands in for the other */
    assert_int_equal(changed, sizeof functions / sizeof functions[0] - 4);
}

static void expect_no_start(const char *world, sg_code code, const char *part) {
    sg_nvml *nvml;
    sg_status status = {0};
    assert_int_equal(setenv("SG_NVML_EMULATION", world, 1), 0);
    assert_int_equal(sg_nvml_open(NEW_DRIVER, &nvml, &status), code);
    assert_null(nvml);
    if (!strstr(status.text, part)) fail_msg("'%s' lacks '%s'", status.text, part);
}

static void libraries_that_do_not_start(void **unused) {
    (void)unused;
    expect_no_start("init=9", SG_MACHINE, "modprobe nvidia");
    expect_no_start("init=18", SG_MACHINE, "different versions");
    expect_no_start("init=4", SG_MACHINE, "/dev/nvidia*");
    expect_no_start("init=6", SG_NO, "finds no GPU");
    expect_no_start("init=999", SG_MACHINE, "NVML error 999");
    expect_no_start("fail=nvmlDeviceGetCount_v2:999;gpu", SG_MACHINE, "how many GPUs");
    expect_no_start("count=4294967295;gpu", SG_MACHINE, "4294967295 GPUs");
    sg_nvml *nvml;
    sg_status status = {0};
    if (sg_nvml_open("/nowhere", &nvml, &status) == SG_OK) /* a machine with a driver of its own */
        sg_nvml_close(nvml);
    else
        assert_non_null(strstr(status.text, "comes with the driver"));
}

static void hostile_answers(void **unused) {
    (void)unused;
    sg_gpu_state g = read_gpu(NEW_DRIVER, "gpu;unterminated=1");
    assert_int_equal(strlen(g.name), sizeof g.name - 1);
    for (const char *c = g.name; *c; c++) assert_true(*c == '?');
    assert_int_equal(strlen(g.bus), sizeof g.bus - 1);
    g = read_gpu(NEW_DRIVER, "gpu;processes_told=4000000000;process=1:1");
    assert_int_equal(g.n_processes, 1024); /* no more than there was room for */
    assert_int_equal(g.processes[0].pid, 1);
    assert_int_equal(g.processes[1].pid, 0);
    g = read_gpu(NEW_DRIVER, "gpu;capability=-5;width=70000;busy=4000;compute_mode=9;pstate=32;ecc_errors=-1");
    assert_true(g.capability == 0 && g.now.pcie_width == 0 && g.busy_percent == -1 && g.performance_state == -1);
    assert_true(g.compute_mode == SG_GPU_COMPUTE_NOT_TOLD && g.ecc_uncorrected == INT64_MAX);
    /* more GPUs than are handed out */
    sg_nvml *nvml = open_nvml(NEW_DRIVER, "count=5;gpu");
    sg_status status = {0};
    assert_int_equal(sg_nvml_read(nvml, 3, &g, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "does not hand out GPU 3"));
    assert_int_equal(sg_nvml_read(nvml, -1, &g, &status), SG_MACHINE);
    assert_int_equal(sg_nvml_find(nvml, "00000000:99:00.0"), -1);
    sg_nvml_close(nvml);
}

static void lost_gpus(void **unused) {
    (void)unused;
    sg_nvml *nvml = open_nvml(NEW_DRIVER, "gpu;gpu;lost=1");
    sg_gpu_state g;
    sg_gpu_sample s;
    sg_status status = {0};
    assert_int_equal(sg_nvml_read(nvml, 0, &g, &status), SG_OK);
    assert_int_equal(sg_nvml_read(nvml, 1, &g, &status), SG_MACHINE);
    assert_true(g.now.lost);
    assert_non_null(strstr(status.text, "fell off the bus"));
    sg_nvml_sample(nvml, 1, &s);
    assert_true(s.lost);
    sg_nvml_sample(nvml, 0, &s);
    assert_false(s.lost);
    sg_nvml_close(nvml);
    /* lost between two of the calls of one reading */
    g = read_gpu(NEW_DRIVER, "lost_after=6;gpu");
    assert_true(g.now.lost);
}

static void found_by_bus(void **unused) {
    (void)unused;
    sg_nvml *nvml = open_nvml(NEW_DRIVER, "gpu;bus=00000000:3B:00.0;gpu;bus=00000001:3B:00.0;gpu;bus=00000000:AF:00.0");
    assert_int_equal(sg_nvml_find(nvml, "0000:3b:00.0"), 0);
    assert_int_equal(sg_nvml_find(nvml, "0001:3B:00.0"), 1);
    assert_int_equal(sg_nvml_find(nvml, "00000000:af:00.0"), 2);
    assert_int_equal(sg_nvml_find(nvml, "0:AF:00.0"), 2);
    assert_int_equal(sg_nvml_find(nvml, "0000:AF:00.1"), -1);
    assert_int_equal(sg_nvml_find(nvml, ""), -1);
    assert_int_equal(sg_nvml_find(nvml, NULL), -1);
    sg_nvml_close(nvml);
}

static void expect_connection(const char *folder, const char *world, const char *text) {
    char there[8], back[8];
    sg_nvml *nvml = open_nvml(folder, world);
    sg_nvml_connection(nvml, 0, 1, there);
    sg_nvml_connection(nvml, 1, 0, back);
    assert_string_equal(there, text);
    assert_string_equal(back, text);
    sg_nvml_connection(nvml, 1, 1, there);
    assert_string_equal(there, "X");
    sg_nvml_close(nvml);
}

static void connections(void **unused) {
    (void)unused;
    static const char *const levels[] = {"PIX", "PIX", "PXB", "PHB", "NODE", "SYS"};
    char world[64];
    for (int i = 0; i < 6; i++) {
        (void)snprintf(world, sizeof world, "gpu;level=%d;gpu;level=%d", 10 * i, 10 * i);
        expect_connection(NEW_DRIVER, world, levels[i]);
        expect_connection(OLD_DRIVER, world, levels[i]);
    }
    expect_connection(NEW_DRIVER, "gpu;link=00000000:3C:00.0:4;gpu;link=00000000:3B:00.0:4", "NV4");
    expect_connection(NEW_DRIVER, "gpu;switch=18;gpu;switch=18", "NV18");
    expect_connection(NEW_DRIVER, "gpu;switch=18;gpu;level=40", "SYS");
    expect_connection(NEW_DRIVER, "gpu;level=77;gpu", "?");
    expect_connection(NEW_DRIVER, "fail=nvmlDeviceGetTopologyCommonAncestor:3;gpu;gpu", "?");
}

static void reasons_in_words(void **unused) {
    (void)unused;
    char text[160], cut[12];
    sg_gpu_reasons_text(SG_GPU_IDLE, text, sizeof text);
    assert_string_equal(text, "");
    sg_gpu_reasons_text(SG_GPU_POWER_CAP | SG_GPU_THERMAL_HARDWARE | SG_GPU_IDLE, text, sizeof text);
    assert_string_equal(text, "power cap, thermal (hardware)");
    sg_gpu_reasons_text(UINT64_MAX, text, sizeof text);
    assert_non_null(strstr(text, "display clocks")); /* all of them have room */
    sg_gpu_reasons_text(UINT64_MAX, cut, sizeof cut);
    assert_int_equal(strlen(cut), sizeof cut - 1);
}

/* ---- findings ---- */

static const sg_gpu_finding *find(const sg_gpu_finding *list, int n, const char *what) {
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].what, what) == 0) return &list[i];
    return NULL;
}

static void expect_finding(const char *keys, const char *what, sg_gpu_severity severity, const char *part) {
    char world[256];
    sg_gpu_finding list[SG_GPU_FINDINGS_MAX];
    (void)snprintf(world, sizeof world, "gpu;%s", keys);
    sg_gpu_state g = read_gpu(NEW_DRIVER, world);
    int n = sg_gpu_findings(&g, list);
    const sg_gpu_finding *f = find(list, n, what);
    if (!f) fail_msg("%s: no finding '%s'", keys, what);
    assert_int_equal(f->severity, severity);
    if (!strstr(f->text, part)) fail_msg("'%s' lacks '%s'", f->text, part);
}

static void findings(void **unused) {
    (void)unused;
    sg_gpu_finding list[SG_GPU_FINDINGS_MAX];
    sg_gpu_state g = read_gpu(NEW_DRIVER, "gpu");
    assert_int_equal(sg_gpu_findings(&g, list), 0); /* a healthy one has none */
    expect_finding("capability=70", "capability", SG_GPU_BLOCKS, "predicted only");
    expect_finding("capability=121", "capability", SG_GPU_NOTE, "first start");
    expect_finding("process=4242:900;process=7:8", "busy", SG_GPU_WARNING, "pid 4242 (900 MiB), pid 7 (8 MiB)");
    expect_finding("process=1;process=2;process=3;process=4;process=5;process=6;process=7;process=8", "busy",
                   SG_GPU_WARNING, "and 2 more");
    expect_finding("busy=55", "busy", SG_GPU_WARNING, "55 %");
    expect_finding("used=40000", "memory", SG_GPU_WARNING, "no process is shown");
    expect_finding("ecc_errors=3", "ecc", SG_GPU_WARNING, "3 uncorrected");
    expect_finding("ecc_ever=9", "ecc", SG_GPU_NOTE, "9 uncorrected");
    expect_finding("rows_pending=1", "ecc", SG_GPU_WARNING, "nvidia-smi -r -i 0");
    expect_finding("rows_failed=1", "ecc", SG_GPU_BLOCKS, "replaced");
    expect_finding("mig=1", "mig", SG_GPU_WARNING, "nvidia-smi -i 0 -mig 0");
    expect_finding("limit=400", "power_limit", SG_GPU_WARNING, "nvidia-smi -i 0 -pl 700");
    expect_finding("reasons=0x20;temperature=88", "thermal", SG_GPU_WARNING, "88 C");
    expect_finding("reasons=0x40", "thermal", SG_GPU_WARNING, "fans");
    expect_finding("reasons=0x80", "power_brake", SG_GPU_WARNING, "power supply");
    expect_finding("reasons=0x8", "slowdown", SG_GPU_WARNING, "cooling");
    expect_finding("reasons=0x2", "clocks", SG_GPU_WARNING, "-rac");
    expect_finding("width=4", "pcie_width", SG_GPU_WARNING, "4 of 16 lanes");
    expect_finding("generation=1;busy=90", "pcie_generation", SG_GPU_WARNING, "generation 1 of 5");
    expect_finding("gpu_generation=6", "pcie_slot", SG_GPU_NOTE, "generation 5, the GPU 6");
    expect_finding("compute_mode=2", "compute_mode", SG_GPU_BLOCKS, "prohibited");
    expect_finding("compute_mode=3", "compute_mode", SG_GPU_NOTE, "one process at a time");
    expect_finding("compute_mode=3;process=5:1", "compute_mode", SG_GPU_BLOCKS, "and one does");
    expect_finding("persistence=0", "persistence", SG_GPU_NOTE, "-pm 1");
    /* an idle link at its lowest generation is no fault */
    g = read_gpu(NEW_DRIVER, "gpu;generation=1;pstate=8");
    assert_int_equal(sg_gpu_findings(&g, list), 0);
    g.now.lost = true;
    assert_int_equal(sg_gpu_findings(&g, list), 1);
    assert_string_equal(list[0].what, "lost");
    assert_int_equal(list[0].severity, SG_GPU_BLOCKS);
}

/* Everything wrong at once: no finding is dropped silently for want of room. */
static void the_worst_gpu(void **unused) {
    (void)unused;
    sg_gpu_finding list[SG_GPU_FINDINGS_MAX];
    sg_gpu_state g = read_gpu(NEW_DRIVER, "gpu;capability=70;rows_failed=1;rows_pending=1;ecc_errors=1;compute_mode=2;"
                                          "process=1;mig=1;reasons=0x1ff;limit=100;width=1;generation=1;busy=99;"
                                          "gpu_generation=6;persistence=0");
    int n = sg_gpu_findings(&g, list);
    assert_int_equal(n, 15);
    assert_non_null(find(list, n, "persistence"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value),
        cmocka_unit_test(an_old_driver_tells_less),
        cmocka_unit_test(what_fails_is_not_told),
        cmocka_unit_test(libraries_that_do_not_start),
        cmocka_unit_test(hostile_answers),
        cmocka_unit_test(lost_gpus),
        cmocka_unit_test(found_by_bus),
        cmocka_unit_test(connections),
        cmocka_unit_test(reasons_in_words),
        cmocka_unit_test(findings),
        cmocka_unit_test(the_worst_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
