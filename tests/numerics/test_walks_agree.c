/* One training, several devices: the same visits, the same memory to the byte, the same numbers up to rounding. */
#include "kernels/module.h"
#include "kernels/virtual/machine.h"
#include "tests/reference/reference.h"
#include "tests/support/lab.h"
#include "tests/support/small_policies.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const sg_device_api *cpu_device(void) {
    const sg_device_api *api = NULL;
    sg_status status = {0};
    if (sg_module_device("cpu", &api, &status) != SG_OK) fail_msg("%s", status.text);
    return api;
}

/* ---- visits and memory ------------------------------------------------------------------------------------------- */

typedef struct trace {
    uint64_t hash;
    sg_memory_peak peak;
} trace;

static trace walk(const sg_training *training, const sg_device_api *api, const sg_device_options *options) {
    sg_status status = {0};
    sg_device *device = NULL;
    sg_walker *walker = NULL;
    trace t;
    if (api->open(options, &device, &status) != SG_OK) fail_msg("%s", status.text);
    sg_walk_options walk = {.api = api, .device = device, .seed = 9, .ranks = 1};
    if (sg_walker_open(training, &walk, &walker, &status) != SG_OK) fail_msg("%s", status.text);
    for (int i = 0; i < 2; i++)
        if (sg_walker_iteration(walker, NULL, &status) != SG_OK) fail_msg("%s: %s", api->kind, status.text);
    t.hash = sg_walker_visit_hash(walker);
    sg_walker_peak(walker, &t.peak);
    sg_walker_close(walker);
    api->close(device);
    return t;
}

static bool same(const trace *a, const trace *b) {
    return a->hash == b->hash && a->peak.allocated_bytes == b->peak.allocated_bytes &&
           a->peak.reserved_bytes == b->peak.reserved_bytes && a->peak.program == b->peak.program &&
           a->peak.entry == b->peak.entry && a->peak.pass == b->peak.pass &&
           memcmp(a->peak.by_role, b->peak.by_role, sizeof a->peak.by_role) == 0;
}

static sg_machine machine_of(bool caching) {
    sg_machine machine;
    sg_machine_init(&machine);
    machine.caching_allocator = caching;
    machine.bf16 = machine.fp16 = machine.tf32 = true;
    machine.memory_bytes = UINT64_C(1) << 34;
    for (int i = 0; i < SG_M_COUNT; i++) machine.p[i].value = 1;
    /* links by bandwidth and latency alone */
    for (int i = SG_M_COLLECTIVE_RANK_S; i <= SG_M_NETWORK_LATENCY_S; i++) machine.p[i].value = NAN;
    return machine;
}

static void compare_walks(const sg_training *training, const char *policy, const char *setting) {
    for (int caching = 0; caching < 2; caching++) {
        sg_machine machine = machine_of(caching);
        trace reference = walk(training, sg_reference_device(), &(sg_device_options){.index = caching});
        trace priced = walk(training, sg_virtual_device(), &(sg_device_options){.machine = &machine});
        assert_true(reference.peak.allocated_bytes > 0);
        if (!same(&reference, &priced)) fail_msg("%s, %s: reference and virtual differ", policy, setting);
        if (caching) continue;
        trace cpu = walk(training, cpu_device(), &(sg_device_options){.threads = 2});
        if (!same(&reference, &cpu)) fail_msg("%s, %s: reference and cpu differ", policy, setting);
    }
}

static void test_visits_and_memory(void **state) {
    (void)state;
    for (int which = 0; which < SG_SMALL_COUNT; which++)
        for (int s = 0; s < SG_SMALL_SETTINGS; s++) {
            sg_training *training =
                sg_small_build((sg_small)which, &SG_SMALL_SETTING[s], &(sg_small_options){.clip = true});
            compare_walks(training, sg_small_name((sg_small)which), SG_SMALL_SETTING[s].name);
            sg_training_free(training);
        }
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static void open_lab(sg_lab *lab, const sg_training *training, const sg_device_api *api, bool wide, bool ppo) {
    sg_lab_open(lab, training, &(sg_lab_options){.api = api, .wide = wide, .seed = 13, .main_program_only = ppo});
}

/* What storing in the training's own dtypes costs is seen with the reference, which rounds each result once. The cpu rounds
 * inside its sums too, so it may be some times as far from the exact result, not more. */
static const double TIMES_AS_FAR = 8;

/* Unit roundoff of the narrowest floats that the training stores. */
static double coarsest(const sg_training *t) {
    double u = 0x1p-24;
    for (size_t i = 0; i < t->n_tensors; i++)
        if (t->tensors[i].desc.dtype == SG_BF16) u = 0x1p-8;
    return u;
}

static void compare_numbers(const sg_training *training, const char *policy, const char *setting, bool ppo) {
    sg_lab exact, rounded, cpu;
    open_lab(&exact, training, NULL, true, ppo);
    open_lab(&rounded, training, NULL, false, ppo);
    open_lab(&cpu, training, cpu_device(), false, ppo);
    double allowed = TIMES_AS_FAR * sg_lab_distance(&rounded, &exact), distance = sg_lab_distance(&cpu, &exact);
    double loss_allowed =
        TIMES_AS_FAR * fmax(fabs(rounded.value - exact.value), coarsest(training) * fabs(exact.value));
    if (!(distance <= allowed))
        fail_msg("%s, %s: gradients are %.3g apart, %.3g allowed", policy, setting, distance, allowed);
    if (!(fabs(cpu.value - exact.value) <= loss_allowed))
        fail_msg("%s, %s: the loss is %.9g instead of %.9g", policy, setting, cpu.value, exact.value);
    sg_lab_close(&exact);
    sg_lab_close(&rounded);
    sg_lab_close(&cpu);
}

static void test_numbers(void **state) {
    (void)state;
    for (int which = 0; which < SG_SMALL_COUNT; which++)
        for (int s = 0; s < SG_SMALL_SETTINGS; s++) {
            sg_training *training = sg_small_build((sg_small)which, &SG_SMALL_SETTING[s], &(sg_small_options){0});
            compare_numbers(training, sg_small_name((sg_small)which), SG_SMALL_SETTING[s].name,
                            which == SG_SMALL_PPO || which == SG_SMALL_PPO_UNCLIPPED);
            sg_training_free(training);
        }
}

/* All profiles compute the same function of the same noise: in double their gradients agree. ACT's dropout is an exception:
 * the native lowering computes its last variational layer for one token alone, so its masks have other shapes. */
static void test_profiles_agree(void **state) {
    (void)state;
    for (int which = SG_SMALL_ACT_PLAIN; which < SG_SMALL_COUNT; which++) {
        sg_lab lab[SG_SMALL_SETTINGS];
        sg_training *training[SG_SMALL_SETTINGS];
        for (int s = 0; s < SG_SMALL_SETTINGS; s++) {
            training[s] = sg_small_build((sg_small)which, &SG_SMALL_SETTING[s], &(sg_small_options){0});
            open_lab(&lab[s], training[s], NULL, true, false);
        }
        for (int s = 1; s < SG_SMALL_SETTINGS; s++) {
            double distance = sg_lab_distance(&lab[s], &lab[0]);
            if (!(distance < 1e-10))
                fail_msg("%s: %s and %s are %.3g apart", sg_small_name((sg_small)which), SG_SMALL_SETTING[s].name,
                         SG_SMALL_SETTING[0].name, distance);
        }
        for (int s = 0; s < SG_SMALL_SETTINGS; s++) {
            sg_lab_close(&lab[s]);
            sg_training_free(training[s]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_visits_and_memory),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_profiles_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
