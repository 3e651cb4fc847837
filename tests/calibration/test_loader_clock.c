/* The loader's clock against what can be said in closed form: rate limits, sums, bursts, shares of the processors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "calibration/loader/loader_law.h"
#include "tests/support/near.h"

static sg_loader_waits clock_of(const sg_loader_course *course) {
    sg_loader_waits w;
    sg_status status = {0};
    if (sg_loader_clock(course, &w, &status)) fail_msg("%s", status.text);
    return w;
}

/* Processors for everybody, no contention: the slower of step and workers, whatever their number. */
static void test_limit_is_the_slower(void **state) {
    (void)state;
    sg_loader_course c = {.processors = 64, .batch_cpu_s = 1.0, .step_s = 0.3, .step_threads = 1};
    for (c.workers = 1; c.workers <= 16; c.workers++) {
        sg_loader_waits w = clock_of(&c);
        double expected = fmax(c.step_s, c.batch_cpu_s / c.workers);
        assert_near(w.period_s, expected, 0.002 * expected);
        assert_near(w.mean_s, expected - c.step_s, 0.002);
        assert_close(w.first_batch_s, 1.0);
        assert_close(w.step_s, 0.3);
    }
    c.workers = 2;
    c.handover_s = 0.1; /* of the consumer: only where it is the slower one does it count */
    assert_near(clock_of(&c).period_s, 0.5, 0.002);
    c.workers = 8;
    assert_near(clock_of(&c).period_s, 0.4, 0.002);
    assert_near(clock_of(&c).p50_s, 0.1, 1e-9);
}

/* Waits for a disk take no processor: any number of workers waits at once. */
static void test_waiting_takes_no_processor(void **state) {
    (void)state;
    sg_loader_course c = {.processors = 1, .batch_cpu_s = 0.1, .batch_wait_s = 0.9, .step_s = 0.05, .workers = 5};
    assert_near(clock_of(&c).period_s, 0.2, 0.02);
    c.workers = 20; /* now the one processor is the limit */
    assert_near(clock_of(&c).period_s, 0.1, 0.005);
    assert_near(1 / sg_loader_rate(&c, 20, 1), 0.1, 0.005);
}

static void test_in_line_is_the_sum(void **state) {
    (void)state;
    sg_loader_course c = {.processors = 4,
                          .batch_cpu_s = 0.5,
                          .batch_wait_s = 0.1,
                          .step_s = 0.3,
                          .handover_s = 0.02,
                          .batch_log_sd = 0.2};
    sg_loader_waits w = clock_of(&c);
    assert_near(w.period_s, 0.92, 0.005);
    assert_near(w.mean_s, 0.62, 0.005);
    assert_close(w.step_s, 0.3);
    assert_close(w.stalled_share, 1);
    assert_true(w.p99_s > w.p50_s && w.max_s >= w.p99_s && w.p90_s > w.p50_s);
}

/* Workers that start together finish together: W batches at once, then a wait: a burst each W-th step. */
static void test_bursts(void **state) {
    (void)state;
    sg_loader_course c = {.processors = 64, .batch_cpu_s = 1.0, .step_s = 0.05, .workers = 8};
    sg_loader_waits w = clock_of(&c);
    assert_near(w.stall_every, 8, 0.01);
    assert_near(w.stalled_share, 0.125, 1e-3);
    assert_near(w.period_s, 0.125, 1e-3);
    assert_close(w.p50_s, 0); /* most steps wait for nothing, the mean is all in the stalls */
    assert_near(w.max_s, 0.6, 0.01);
    assert_near(w.mean_s, 0.075, 1e-3);
}

/* Batches come in order: one slow worker sets the pace of all. */
static void test_one_slow_worker(void **state) {
    (void)state;
    sg_loader_course c = {.processors = 64, .batch_cpu_s = 1.0, .step_s = 0.05, .workers = 4, .slowest = 3};
    assert_near(clock_of(&c).period_s, 3.0 / 4, 0.01);
    c.slowest = 0;
    assert_near(clock_of(&c).period_s, 1.0 / 4, 0.01);
}

/* Too few processors: work is work. */
static void test_processor_sharing(void **state) {
    (void)state;
    /* W workers alone on C processors: C batches per batch time, each taking W / C times as long */
    sg_loader_course c = {.processors = 2, .batch_cpu_s = 1.0, .step_s = 1e-9, .workers = 6};
    sg_loader_waits w = clock_of(&c);
    assert_near(w.period_s, 0.5, 0.005);
    assert_near(w.batch_s, 3.0, 0.05);
    assert_near(w.batch_cpu_s, 1.0, 0.01);
    /* a training that uses both processors, and a queue that never fills: all the work over all processors */
    c = (sg_loader_course){.processors = 2,
                           .batch_cpu_s = 1.0,
                           .step_s = 0.5,
                           .step_threads = 2,
                           .step_on_processors = true,
                           .workers = 8};
    w = clock_of(&c);
    assert_near(w.period_s, (2 * 0.5 + 1.0) / 2, 0.01);
    /* two threads of the step and one worker on two processors: each thread has 2/3 of one */
    c.workers = 1;
    c.batch_cpu_s = 100;
    w = clock_of(&c);
    assert_true(w.mean_s > 10);
    c.steps = 1;
    sg_loader_course alone = c;
    alone.batch_cpu_s = 1e-3;
    alone.prefetch = 64;
    assert_near(clock_of(&alone).step_s, 0.5, 0.005); /* a loader of nothing stretches nothing */
    /* a step on a GPU takes its time, its host thread only takes a processor from workers */
    c = (sg_loader_course){.processors = 2, .batch_cpu_s = 1.0, .step_s = 0.5, .step_threads = 1, .workers = 4};
    w = clock_of(&c);
    assert_close(w.step_s, 0.5);
    assert_true(w.period_s > 0.5 && w.period_s < 0.75);
}

static void test_contention(void **state) {
    (void)state;
    assert_close(sg_loader_contention(0.1, 0, 1, 8), 1);
    assert_close(sg_loader_contention(0.1, 0, 4, 8), 1.3);
    assert_close(sg_loader_contention(0.1, 0, 16, 8), 1.7);
    assert_close(sg_loader_contention(0, 0.01, 4, 8), 1.12);
    sg_loader_course c = {.processors = 8, .batch_cpu_s = 1, .step_s = 1e-9, .workers = 4, .sigma = 0.1};
    assert_near(clock_of(&c).period_s, 1.3 / 4, 0.003);
    assert_near(1 / sg_loader_rate(&c, 4, 8), 1.3 / 4, 1e-6);
}

/* The end of an epoch empties the queue and starts it anew: a batch at least where the loader is the slower. */
static void test_epoch_end(void **state) {
    (void)state;
    sg_loader_course c = {.processors = 64, .batch_cpu_s = 1.0, .step_s = 0.25, .workers = 8};
    double seconds;
    sg_status status;
    assert_int_equal(sg_loader_epoch_end(&c, &seconds, &status), SG_OK);
    assert_near(seconds, 1.0, 0.26); /* the step that goes on meanwhile may hide one */
    c.workers = 0;
    assert_int_equal(sg_loader_epoch_end(&c, &seconds, &status), SG_OK);
    assert_close(seconds, 0);
}

/* A mean over whole epochs has its share of their ends. */
static void test_short_epochs(void **state) {
    (void)state;
    sg_loader_course c = {.processors = 64, .batch_cpu_s = 1.0, .step_s = 0.05, .workers = 4};
    double seconds, without = clock_of(&c).period_s;
    sg_status status;
    assert_int_equal(sg_loader_epoch_end(&c, &seconds, &status), SG_OK);
    c.epoch = 20;
    assert_near(clock_of(&c).period_s, without + seconds / 20, 0.15 * seconds / 20);
    c.epoch = 1000000;
    assert_int_equal(sg_loader_clock(&c, &(sg_loader_waits){0}, &status), SG_OK);
}

/* More workers and more vCPUs make it faster up to the knee, and change nothing beyond: what is left of differences there is how
 * workers happen to fall in step. */
static void test_monotone(void **state) {
    (void)state;
    double last = INFINITY;
    for (int workers = 1; workers <= 32; workers++) {
        sg_loader_course c = {
            .processors = 8, .batch_cpu_s = 1.0, .step_s = 0.1, .step_threads = 1, .workers = workers};
        double period = clock_of(&c).period_s;
        if (workers <= 7)
            assert_true(period < last);
        else
            assert_true(period > 1.0 / 8 &&
                        period < 1.0 / 7); /* a host thread wants a processor for most of the time */
        last = period;
    }
    last = INFINITY;
    for (int n = 1; n <= 32; n++) {
        sg_loader_course c = {.processors = n, .batch_cpu_s = 1.0, .step_s = 0.1, .step_threads = 1, .workers = 16};
        double period = clock_of(&c).period_s;
        if (n <= 10)
            assert_true(period < last);
        else
            assert_near(period, 0.1, 0.002);
        last = period;
    }
}

static void test_what_is_needed(void **state) {
    (void)state;
    sg_loader_course c = {.processors = 8, .batch_cpu_s = 1.0, .step_s = 0.1, .step_threads = 1, .workers = 4};
    assert_int_equal(sg_loader_workers_for(&c, 5), 5);
    assert_int_equal(sg_loader_workers_for(&c, 10), 0); /* eight processors feed seven or eight */
    assert_int_equal(sg_loader_processors_for(&c, 10), 11);
    /* a CPU's step on all of its processors leaves workers their fair half: what keeps up there needs no more of them */
    sg_loader_course cpu = {.processors = 2,
                            .batch_cpu_s = 0.02,
                            .step_s = 0.03,
                            .step_threads = 2,
                            .workers = 3,
                            .step_on_processors = true};
    assert_int_equal(sg_loader_workers_for(&cpu, 1 / cpu.step_s), 1);
    assert_int_equal(sg_loader_processors_for(&cpu, 1 / cpu.step_s), 2);
    cpu.batch_cpu_s = 0.07; /* two do not, three have one and a half left at most */
    assert_int_equal(sg_loader_workers_for(&cpu, 1 / cpu.step_s), 0);
    assert_int_equal(sg_loader_processors_for(&cpu, 1 / cpu.step_s), 5);
    c.kappa = 0.1; /* each pair slows the others: some rates no number reaches */
    assert_int_equal(sg_loader_processors_for(&c, 100), 0);
}

static void test_refusals(void **state) {
    (void)state;
    const sg_loader_course good = {.processors = 2, .batch_cpu_s = 1, .step_s = 1, .workers = 2};
    sg_loader_waits w;
    sg_status status;
    sg_loader_course bad[7];
    for (int i = 0; i < 7; i++) bad[i] = good;
    bad[0].processors = 0;
    bad[1].batch_cpu_s = -1;
    bad[2].step_s = INFINITY;
    bad[3].workers = -1;
    bad[4].workers = SG_LOADER_WORKERS_MAX + 1;
    bad[5].sigma = NAN;
    bad[6].batch_cpu_s = bad[6].step_s = 0;
    for (int i = 0; i < 7; i++) assert_int_equal(sg_loader_clock(&bad[i], &w, &status), SG_BAD_INPUT);
    assert_int_equal(sg_loader_clock(&good, &w, &status), SG_OK);
}

static void test_finding_a_law(void **state) {
    (void)state;
    sg_loader_law laws[3] = {{.dataset = "lerobot-v3.0;av1;480x640;gop=2;cameras=2;name=a", .layer = "cold"},
                             {.dataset = "lerobot-v3.0;av1;480x640;gop=2;cameras=2;name=a", .layer = "cached"},
                             {.dataset = "images;png;96x96;cameras=1;name=b", .layer = "cached"}};
    bool other;
    assert_ptr_equal(sg_loader_law_find(laws, 3, laws[0].dataset, NULL, &other), &laws[1]);
    assert_false(other);
    assert_ptr_equal(sg_loader_law_find(laws, 3, laws[0].dataset, "cold", &other), &laws[0]);
    assert_ptr_equal(sg_loader_law_find(laws, 3, "images;png;96x96;cameras=1;name=c", NULL, &other), &laws[2]);
    assert_true(other);
    assert_null(sg_loader_law_find(laws, 3, "images;png;96x128;cameras=1;name=b", NULL, &other));
    assert_null(sg_loader_law_find(laws, 3, "", NULL, &other));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit_is_the_slower), cmocka_unit_test(test_waiting_takes_no_processor),
        cmocka_unit_test(test_in_line_is_the_sum),  cmocka_unit_test(test_bursts),
        cmocka_unit_test(test_one_slow_worker),     cmocka_unit_test(test_processor_sharing),
        cmocka_unit_test(test_contention),          cmocka_unit_test(test_epoch_end),
        cmocka_unit_test(test_short_epochs),        cmocka_unit_test(test_monotone),
        cmocka_unit_test(test_what_is_needed),      cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_finding_a_law),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
