/* One rank is walked, whatever the number of GPUs: 4,096 cost what 2 cost, and what they say makes sense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "calibration/predict/predict.h"

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct asked {
    sg_predictor *predictor;
    sg_machine machine;
} asked;

static asked open_for(const char *machine) {
    static sg_policy_request request;
    asked a;
    sg_status status;
    request = (sg_policy_request){.policy = "act", .batch = 8};
    if (sg_machine_load(machine, NULL, &a.machine, &status)) fail_msg("%s", status.text);
    if (sg_predictor_open(&request, NULL, &a.predictor, &status)) fail_msg("%s", status.text);
    return a;
}

static void close_of(asked *a) {
    sg_predictor_close(a->predictor);
    sg_machine_clear(&a->machine);
}

static sg_prediction of(const asked *a, int ranks) {
    sg_predict_options options = {.ranks = ranks, .workers = 4, .cameras_known = true, .host_known = true};
    sg_prediction p;
    sg_status status;
    if (sg_predictor_run(a->predictor, &a->machine, &options, &p, &status)) fail_msg("%s", status.text);
    return p;
}

static double seconds_of(const asked *a, int ranks, int times) {
    double start = now();
    for (int i = 0; i < times; i++) (void)of(a, ranks);
    return now() - start;
}

static void same_cost(void **state) {
    (void)state;
    enum { TIMES = 30 };
    asked a = open_for("h100-sxm");
    (void)seconds_of(&a, 2, TIMES);
    (void)seconds_of(&a, 4096, TIMES);
    double few = seconds_of(&a, 2, TIMES), many = seconds_of(&a, 4096, TIMES);
    if (!(many < 2 * few)) fail_msg("4096 ranks cost %.2f times what 2 cost", many / few);
    close_of(&a);
}

static void sane(void **state) {
    (void)state;
    static const char *const machines[] = {"h100-sxm", "a100-sxm-40gb", "rtx-4090", "v100-sxm-16gb"};
    static const int ranks[] = {2, 8, 64, 512, 4096};
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++) {
        asked a = open_for(machines[m]);
        sg_prediction one = of(&a, 1), last = one;
        assert_true(one.exposed_sync_s == 0);
        for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
            sg_prediction p = of(&a, ranks[i]);
            assert_true(isfinite(p.update_s.value) && p.update_s.low > 0 && p.update_s.high < 100);
            /* slower than fewer ranks (a mesh may have more rings for more of them), and more samples in all */
            if (strcmp(machines[m], "v100-sxm-16gb") != 0) assert_true(p.update_s.value >= last.update_s.value);
            assert_true(p.update_s.value > one.update_s.value);
            assert_true(p.samples_per_s.value > last.samples_per_s.value);
            assert_true(p.samples_per_s.value < ranks[i] * one.samples_per_s.value * (1 + 1e-9));
            assert_true(p.exposed_sync_s > 0 && p.exposed_sync_s < p.update_s.value);
            last = p;
        }
        close_of(&a);
    }
}

/* The slowest of n normal draws: Blom's approximation against the exact expectation of order statistics. */
static void jitter(void **state) {
    (void)state;
    asked a = open_for("h100-sxm");
    a.machine.p[SG_M_RANK_JITTER].value = 0.02;
    sg_prediction p = of(&a, 4096);
    a.machine.p[SG_M_RANK_JITTER].value = 1e-9;
    double factor = p.update_s.value / of(&a, 4096).update_s.value;
    assert_true(fabs(factor - (1 + 0.02 * 3.6261)) < 0.02 * 0.02); /* E[max of 4096] = 3.6261 */
    close_of(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_cost), cmocka_unit_test(sane), cmocka_unit_test(jitter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
