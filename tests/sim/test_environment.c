/* The environment: it takes what it is told to take, on a core of its own, and simulated it only says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "kernels/clock.h"
#include "sim/walk/environment.h"

static sg_environment *opened(double env_step_s, int64_t envs, bool simulated) {
    sg_environment *e;
    const sg_environment_options o = {.env_step_s = env_step_s, .envs = envs, .simulated = simulated};
    assert_int_equal(sg_environment_open(&o, &e, NULL), SG_OK);
    return e;
}

/* The given cost is spent on the processor and not asleep; more time may pass when others take the core away. */
static void given_cost_is_spent(void **unused) {
    (void)unused;
    sg_environment *e = opened(1e-5, 8, false);
    double wait_s;
    for (int i = 0; i < 5; i++) {
        double wall = sg_clock_s(), busy = sg_clock_thread_s();
        assert_int_equal(sg_environment_step(e, 1000, &wait_s, NULL), SG_OK);
        wall = sg_clock_s() - wall;
        busy = sg_clock_thread_s() - busy;
        assert_true(wait_s == 0);
        assert_true(busy >= 0.0099 && busy < 0.02);
        assert_true(wall >= 0.99 * busy);
    }
    assert_true(sg_environment_step_s(e) == 1e-5);
    sg_environment_close(e);
}

/* Without a cost the integrator's own is measured: ten times the steps take more time. */
static void measured_cost(void **unused) {
    (void)unused;
    sg_environment *e = opened(0, 64, false);
    double wait_s, start = sg_clock_thread_s();
    assert_true(sg_environment_step_s(e) == 0);
    assert_int_equal(sg_environment_step(e, 4000, &wait_s, NULL), SG_OK);
    double few = sg_clock_thread_s() - start;
    assert_true(sg_environment_step_s(e) > 0);
    assert_true(sg_environment_step_s(e) * 4000 <= few);
    start = sg_clock_thread_s();
    assert_int_equal(sg_environment_step(e, 40000, &wait_s, NULL), SG_OK);
    assert_true(sg_clock_thread_s() - start > 2 * few);
    sg_environment_close(e);
}

static void simulated_cost_is_returned(void **unused) {
    (void)unused;
    sg_environment *e = opened(0.5, 4, true);
    double wait_s, start = sg_clock_s();
    assert_int_equal(sg_environment_step(e, 4, &wait_s, NULL), SG_OK);
    assert_true(wait_s == 2);
    assert_true(sg_clock_s() - start < 1);
    assert_int_equal(sg_environment_step(e, 0, &wait_s, NULL), SG_OK);
    assert_true(wait_s == 0);
    sg_environment_close(e);
}

static void bad_options_are_refused(void **unused) {
    (void)unused;
    static const sg_environment_options bad[] = {
        {.envs = 0},
        {.envs = -1},
        {.envs = INT64_MAX},
        {.envs = 1, .env_step_s = -1},
        {.envs = 1, .env_step_s = NAN},
        {.envs = 1, .env_step_s = INFINITY},
        {.envs = 1, .simulated = true},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sg_environment *e;
        sg_status status = {0};
        assert_int_equal(sg_environment_open(&bad[i], &e, &status), SG_BAD_INPUT);
        assert_null(e);
        assert_true(strlen(status.text) > 10);
    }
    sg_environment *e = opened(0, 1, false);
    double wait_s;
    assert_int_equal(sg_environment_step(e, -1, &wait_s, NULL), SG_BAD_INPUT);
    sg_environment_close(e);
    sg_environment_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_cost_is_spent),
        cmocka_unit_test(measured_cost),
        cmocka_unit_test(simulated_cost_is_returned),
        cmocka_unit_test(bad_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
