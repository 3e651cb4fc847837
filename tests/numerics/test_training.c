/* Trainings learn: on the cpu device, with batch, noise, time and masks fixed, the loss falls to a tenth. */
#include "kernels/module.h"
#include "sim/walk/walk.h"
#include "tests/support/small_policies.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct course {
    sg_small which;
    double learning_rate;
    int iterations;
} course;

static const course COURSES[] = {
    {SG_SMALL_ACT, 3e-3, 400},
    {SG_SMALL_SMOLVLA, 1e-2, 300},
    {SG_SMALL_SMOLVLA_VISION_FROZEN, 1e-2, 300},
    {SG_SMALL_SMOLVLA_UNFROZEN, 1e-2, 300},
    {SG_SMALL_PI0, 1e-2, 300},
    {SG_SMALL_PI05, 1e-2, 300},
    {SG_SMALL_PPO_UNCLIPPED, 1e-2, 200},
    {SG_SMALL_MLP, 1e-2, 300},
    {SG_SMALL_TRANSFORMER, 1e-2, 300},
};

/* Loss after the first iteration over the smallest seen so far; stops once it is 10. */
static double gain(const course *c, const sg_small_setting *setting) {
    const sg_device_api *api = NULL;
    sg_device *device = NULL;
    sg_walker *walker = NULL;
    sg_status status = {0};
    double first = 0, loss = 0, best = INFINITY;
    sg_training *training = sg_small_build(c->which, setting, &(sg_small_options){.batch = 2, .clip = true});
    if (sg_module_device("cpu", &api, &status) != SG_OK) fail_msg("%s", status.text);
    assert_int_equal(api->open(&(sg_device_options){.threads = 2}, &device, &status), SG_OK);
    sg_walk_options options = {
        .api = api, .device = device, .seed = 17, .ranks = 1, .fixed_random = true, .learning_rate = c->learning_rate};
    if (sg_walker_open(training, &options, &walker, &status) != SG_OK) fail_msg("%s", status.text);
    assert_int_equal(sg_walker_keep(walker, training->loss, &status), SG_OK);
    for (int i = 0; i < c->iterations && best * 10 > first; i++) {
        if (sg_walker_iteration(walker, NULL, &status) != SG_OK) fail_msg("%s", status.text);
        if (sg_walker_read(walker, training->loss, &loss, 1, &status) != SG_OK) fail_msg("%s", status.text);
        assert_true(isfinite(loss));
        if (i == 0) first = loss;
        best = fmin(best, loss);
    }
    sg_walker_close(walker);
    api->close(device);
    sg_training_free(training);
    return first / best;
}

static void test_loss_falls_to_a_tenth(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof COURSES / sizeof *COURSES; i++)
        for (int s = 1; s < SG_SMALL_SETTINGS; s += 2) { /* CPU classes */
            double times = gain(&COURSES[i], &SG_SMALL_SETTING[s]);
            if (!(times >= 10))
                fail_msg("%s, %s: the loss fell %.3g times only", sg_small_name(COURSES[i].which),
                         SG_SMALL_SETTING[s].name, times);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_loss_falls_to_a_tenth)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
