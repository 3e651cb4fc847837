/* The measurement protocol on the reference device: how many iterations, when it stops, what it writes down, and ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/clock.h"
#include "sim/measure/host_state.h"
#include "sim/measure/measure.h"
#include "tests/reference/reference.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/tiny_training.h"
#include "tests/support/watch_device.h"

static sg_tiny *tiny(bool sync) {
    const sg_tiny_options o = {.batch = 4, .features = 8, .outputs = 6, .sync = sync, .dropout = true, .lr = 0.01};
    return sg_tiny_new(&o);
}

static const sg_point_config CONFIG = {.policy = "tiny", .device = "reference", .batch = 4, .ranks = 1};

static void a_point_is_complete(void **unused) {
    (void)unused;
    sg_tiny *t = tiny(false);
    sg_measure_options o = {.device = "reference", .workers = 1, .min_iterations = 8, .max_iterations = 8};
    sg_point p;
    sg_status status = {0};
    if (sg_measure_training(&t->training, sg_reference_device(), &CONFIG, &o, &p, &status)) fail_msg("%s", status.text);
    assert_int_equal(p.iterations, 8);
    assert_int_equal(p.warmup, 1);
    assert_true(p.key == sg_point_key(&CONFIG));
    for (int q = 0; q < SG_Q_COUNT; q++) {
        bool expected = q < SG_Q_COLLECTION;
        assert_true((p.raw[q] != NULL) == expected);
        if (!expected) continue;
        sg_statistic s = sg_statistic_of(p.raw[q], 8);
        assert_memory_equal(&s, &p.q[q], sizeof s);
        assert_true(s.low <= s.median && s.median <= s.high && s.low >= 0);
    }
    assert_true(p.q[SG_Q_UPDATE].median > 0 && p.q[SG_Q_FORWARD].median > 0);
    for (int i = 0; i < 8; i++) {
        double sum = p.raw[SG_Q_DATALOADING][i] + p.raw[SG_Q_PREPROCESSING][i] + p.raw[SG_Q_UPDATE][i];
        assert_true(fabs(sum - p.raw[SG_Q_STEP][i]) < 1e-12);
        assert_true(p.raw[SG_Q_FORWARD][i] + p.raw[SG_Q_BACKWARD][i] < p.raw[SG_Q_UPDATE][i] * 1.001 + 1e-6);
    }
    assert_true(fabs(p.samples_per_s * p.q[SG_Q_STEP].median / 4 - 1) < 1e-9);
    assert_true(p.peak_allocated_bytes > 0 && p.peak_reserved_bytes == p.peak_allocated_bytes);
    assert_true(p.resident_bytes > p.peak_allocated_bytes);
    assert_true(p.flops > 0 && p.bytes > 0 && p.ops_forward == 5 && p.ops_backward == 2);
    assert_true(p.class_s[SG_CLASS_GEMM] > 0 && p.class_s[SG_CLASS_CONV] == 0);
    assert_true(p.rank_spread == 0);
    assert_string_equal(p.source, "measured");
    assert_true(p.fits_rates);
    sg_point_clear(&p);
    sg_tiny_free(t);
}

static void it_stops_when_it_should(void **unused) {
    (void)unused;
    sg_tiny *t = tiny(false);
    sg_point p;
    /* any interval is tight: as soon as six iterations can hold one */
    sg_measure_options o = {.device = "reference", .min_iterations = 2, .max_iterations = 5000, .tight = 1e9};
    assert_int_equal(sg_measure_training(&t->training, sg_reference_device(), &CONFIG, &o, &p, NULL), SG_OK);
    assert_int_equal(p.iterations, 6);
    sg_point_clear(&p);
    /* no interval is tight: the most, or the time */
    o.tight = 0;
    o.max_iterations = 31;
    assert_int_equal(sg_measure_training(&t->training, sg_reference_device(), &CONFIG, &o, &p, NULL), SG_OK);
    assert_int_equal(p.iterations, 31);
    sg_point_clear(&p);
    o.max_iterations = 0;
    o.time_budget_s = 0.3;
    double start = sg_clock_s();
    assert_int_equal(sg_measure_training(&t->training, sg_reference_device(), &CONFIG, &o, &p, NULL), SG_OK);
    assert_true(p.iterations > 31);
    /* it ends early only for what the next iteration and the profile behind it may take */
    double spent_s = sg_clock_s() - start, longest_s = 0;
    for (int64_t i = 0; i < p.iterations; i++) longest_s = fmax(longest_s, p.raw[SG_Q_STEP][i]);
    assert_true(spent_s + 3 * longest_s > 0.25);
    sg_point_clear(&p);
    /* a limit is passed by one iteration at most, whatever the least */
    o = (sg_measure_options){.device = "reference", .min_iterations = 4000, .max_iterations = 4000, .warmup = 50};
    start = sg_clock_s();
    assert_int_equal(sg_measure_training(&t->training, sg_reference_device(), &CONFIG, &o, &p, NULL), SG_OK);
    o.time_limit_s = 0.05 * (sg_clock_s() - start);
    assert_int_equal(p.warmup, 50);
    sg_point_clear(&p);
    assert_int_equal(sg_measure_training(&t->training, sg_reference_device(), &CONFIG, &o, &p, NULL), SG_OK);
    assert_true(p.iterations >= 1 && p.iterations < 4000);
    double before_last_s = 0;
    for (int64_t i = 0; i + 1 < p.iterations; i++) before_last_s += p.raw[SG_Q_STEP][i];
    assert_true(before_last_s < o.time_limit_s);
    sg_point_clear(&p);
    o.time_limit_s = 1e-9;
    assert_int_equal(sg_measure_training(&t->training, sg_reference_device(), &CONFIG, &o, &p, NULL), SG_OK);
    assert_true(p.iterations == 1 && p.warmup == 0 && p.disturbed && p.q[SG_Q_UPDATE].median > 0);
    assert_non_null(strstr(p.disturbed_why, "the first"));
    sg_point_clear(&p);
    o = (sg_measure_options){.device = "reference"};
    /* the least is made even without any time */
    o.time_budget_s = 1e-9;
    o.min_iterations = 12;
    assert_int_equal(sg_measure_training(&t->training, sg_reference_device(), &CONFIG, &o, &p, NULL), SG_OK);
    assert_int_equal(p.iterations, 12);
    sg_point_clear(&p);
    sg_tiny_free(t);
}

typedef struct interrupter {
    volatile int stop;
    int calls, after;
    double last;
    bool backwards;
} interrupter;

static void interrupt_later(void *user, double fraction, const char *what) {
    interrupter *i = user;
    assert_non_null(what);
    if (!(fraction >= 0 && fraction <= 1)) i->backwards = true;
    i->last = fraction;
    if (++i->calls >= i->after) i->stop = 1;
}

/* An interrupt during warm-up or before the least number of iterations leaves nothing; later it leaves what there is. */
static void interrupts(void **unused) {
    (void)unused;
    sg_tiny *t = tiny(false);
    for (int after = 1; after < 20; after += 3) {
        interrupter i = {.after = after};
        sg_measure_options o = {.device = "reference",
                                .workers = 2,
                                .min_iterations = 6,
                                .max_iterations = 1000,
                                .stop = &i.stop,
                                .progress = interrupt_later,
                                .user = &i};
        sg_point p;
        sg_status status = {0};
        sg_code code = sg_measure_training(&t->training, sg_reference_device(), &CONFIG, &o, &p, &status);
        assert_false(i.backwards);
        if (after <= 6) { /* the first call announces the warm-up */
            assert_int_equal(code, SG_MACHINE);
            assert_non_null(strstr(status.text, "interrupted"));
            for (int q = 0; q < SG_Q_COUNT; q++) assert_null(p.raw[q]);
        } else if (after > 7) {
            assert_int_equal(code, SG_OK);
            assert_true(p.iterations >= 6 && p.iterations <= after);
            assert_true(isnan(p.class_s[SG_CLASS_GEMM])); /* no time was left for the profile */
        }
        if (code == SG_OK) sg_point_clear(&p);
    }
    sg_tiny_free(t);
}

static void out_of_memory_is_an_answer(void **unused) {
    (void)unused;
    sg_tiny *t = tiny(false);
    assert_true(sg_training_peak_bytes(&t->training) > 4 * (4 * 8 + 4 * 6 + 3 * 8 * 6));
    /* a storage that no machine has */
    sg_storage *storages = (sg_storage *)t->training.storages;
    storages[0].bytes = (uint64_t)1 << 50;
    sg_measure_options o = {.device = "reference", .min_iterations = 1};
    sg_point p;
    sg_status status = {0};
    assert_int_equal(sg_measure_training(&t->training, sg_reference_device(), &CONFIG, &o, &p, &status), SG_NO);
    assert_non_null(strstr(status.text, "GiB"));
    sg_tiny_free(t);
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

enum { RANKS = 2 };

typedef struct rank_run {
    sg_tiny *tiny[RANKS];
    sg_point point[RANKS];
    sg_code code[RANKS];
    sg_status status[RANKS];
    double gradient[RANKS][8 * 6], weights[RANKS][8 * 6];
    int interrupt_rank;
    volatile int stop;
} rank_run;

static void stop_after_nine(void *user, double fraction, const char *what) {
    rank_run *r = user;
    (void)fraction;
    if (strstr(what, "9 iterations")) r->stop = 1;
}

static void measure_rank(void *user, int rank) {
    rank_run *r = user;
    sg_measure_options o = {.device = "reference",
                            .min_iterations = 7,
                            .max_iterations = r->interrupt_rank >= 0 ? 1000 : 7,
                            .rank = rank,
                            .ranks = RANKS,
                            .bootstrap = sg_thread_ranks_transport()};
    if (rank == r->interrupt_rank) {
        o.stop = &r->stop;
        o.progress = stop_after_nine;
        o.user = r;
    }
    r->code[rank] = sg_measure_training(&r->tiny[rank]->training, sg_thread_ranks_api(), &CONFIG, &o, &r->point[rank],
                                        &r->status[rank]);
}

static void ranks_measure_together(void **unused) {
    (void)unused;
    for (int interrupt_rank = -1; interrupt_rank < RANKS; interrupt_rank++) {
        rank_run r = {.interrupt_rank = interrupt_rank};
        for (int i = 0; i < RANKS; i++) r.tiny[i] = tiny(true);
        sg_thread_ranks_run(RANKS, measure_rank, &r);
        for (int i = 0; i < RANKS; i++) {
            if (r.code[i]) fail_msg("%s", r.status[i].text);
            assert_int_equal(r.point[i].iterations, r.point[0].iterations);
            assert_non_null(r.point[i].raw[SG_Q_EXPOSED_SYNC]);
        }
        assert_true(r.point[0].rank_spread > 0);
        assert_null(r.point[1].rank_update_s);
        for (int i = 0; i < RANKS; i++)
            assert_memory_equal(r.point[0].rank_update_s + i * r.point[0].iterations, r.point[i].raw[SG_Q_UPDATE],
                                (size_t)r.point[0].iterations * sizeof(double));
        if (interrupt_rank < 0) assert_int_equal(r.point[0].iterations, 7);
        if (interrupt_rank >= 0) assert_true(r.point[0].iterations >= 9 && r.point[0].iterations < 1000);
        for (int i = 0; i < RANKS; i++) {
            sg_point_clear(&r.point[i]);
            sg_tiny_free(r.tiny[i]);
        }
    }
}

static void walk_rank(void *user, int rank) {
    rank_run *r = user;
    sg_tiny *t = r->tiny[rank];
    const sg_device_api *api = sg_thread_ranks_api();
    sg_device *device;
    sg_comm *comm = NULL;
    sg_walker *w = NULL;
    sg_status *status = &r->status[rank];
    sg_code code = api->open(&(sg_device_options){0}, &device, status);
    if (!code) code = api->comm_create(device, &(sg_comm_options){.rank = rank, .ranks = RANKS}, &comm, status);
    if (!code) {
        const sg_walk_options o = {
            .api = api, .device = device, .seed = 11, .rank = rank, .ranks = RANKS, .comm = comm};
        code = sg_walker_open(&t->training, &o, &w, status);
    }
    if (!code) code = sg_walker_keep(w, t->gradient, status);
    for (int i = 0; i < 3 && !code; i++) code = sg_walker_iteration(w, NULL, status);
    if (!code) code = sg_walker_read(w, t->gradient, r->gradient[rank], 48, status);
    if (!code) code = sg_walker_read(w, t->w, r->weights[rank], 48, status);
    r->code[rank] = code;
    sg_walker_close(w);
    api->comm_destroy(device, comm);
    api->close(device);
}

/* Two ranks hold equal gradients and weights, those of one process with the batch of both. */
static void ranks_train_as_one(void **unused) {
    (void)unused;
    rank_run r = {0};
    for (int i = 0; i < RANKS; i++) r.tiny[i] = tiny(true);
    sg_thread_ranks_run(RANKS, walk_rank, &r);
    for (int i = 0; i < RANKS; i++) {
        if (r.code[i]) fail_msg("%s", r.status[i].text);
        sg_tiny_free(r.tiny[i]);
    }
    assert_memory_equal(r.gradient[0], r.gradient[1], sizeof r.gradient[0]);
    assert_memory_equal(r.weights[0], r.weights[1], sizeof r.weights[0]);
    const sg_tiny_options whole = {.batch = 8, .features = 8, .outputs = 6, .dropout = true, .lr = 0.01};
    sg_tiny *t = sg_tiny_new(&whole);
    sg_device *device;
    sg_walker *w;
    double gradient[48], weights[48], norm = 0, error = 0;
    assert_int_equal(sg_reference_device()->open(&(sg_device_options){0}, &device, NULL), SG_OK);
    const sg_walk_options o = {.api = sg_reference_device(), .device = device, .seed = 11};
    assert_int_equal(sg_walker_open(&t->training, &o, &w, NULL), SG_OK);
    assert_int_equal(sg_walker_keep(w, t->gradient, NULL), SG_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(sg_walker_iteration(w, NULL, NULL), SG_OK);
    assert_int_equal(sg_walker_read(w, t->gradient, gradient, 48, NULL), SG_OK);
    assert_int_equal(sg_walker_read(w, t->w, weights, 48, NULL), SG_OK);
    for (int i = 0; i < 48; i++) {
        norm += gradient[i] * gradient[i];
        error += (gradient[i] - r.gradient[0][i]) * (gradient[i] - r.gradient[0][i]);
        assert_true(fabs(weights[i] - r.weights[0][i]) < 1e-5);
    }
    assert_true(norm > 0 && sqrt(error / norm) < 1e-5);
    sg_walker_close(w);
    sg_reference_device()->close(device);
    sg_tiny_free(t);
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

static void disturbances_are_told(void **unused) {
    (void)unused;
    const sg_host_state quiet = {.at_s = 10, .busy_s = 100, .own_s = 50, .clock_mhz = 3000, .processors = 2};
    char why[256] = "";
    sg_host_state after = quiet;
    after.at_s = 20;
    after.busy_s = 118;
    after.own_s = 67;
    assert_int_equal(sg_host_state_compare(&quiet, &after, 1, why, sizeof why), 0);
    assert_string_equal(why, "");
    after.own_s = 60; /* 18 s busy, 10 of them ours */
    assert_int_equal(sg_host_state_compare(&quiet, &after, 1, why, sizeof why), 1);
    assert_string_equal(why, "other processes used 0.8 of 2 processors");
    assert_true(fabs(sg_host_others_between(&quiet, &after, 1).processors - 0.8) < 1e-9);
    assert_true(sg_host_others_between(&quiet, &after, 2).processors == 0);
    assert_int_equal(sg_host_state_compare(&quiet, &after, 2, why, sizeof why), 0); /* the other rank */
    after.clock_mhz = 2000;
    after.stolen_s = 5;
    after.throttled_s = 1;
    after.preemptions = 100000;
    /* 5 of 20 processor seconds stolen, 1 of 10 seconds held back */
    assert_true(fabs(sg_host_others_between(&quiet, &after, 1).withheld_share - 0.35) < 1e-9);
    why[0] = 0;
    assert_int_equal(sg_host_state_compare(&quiet, &after, 1, why, sizeof why), 5);
    assert_non_null(strstr(why, "MHz"));
    assert_non_null(strstr(why, "; "));
    char little[20] = "";
    (void)sg_host_state_compare(&quiet, &after, 1, little, sizeof little); /* truncated, not overrun */
    assert_true(strlen(little) < sizeof little);
    const sg_host_state blind = {.at_s = 1, .busy_s = -1, .load_average = 7, .processors = 2};
    after = blind;
    after.at_s = 2;
    why[0] = 0;
    assert_int_equal(sg_host_state_compare(&blind, &after, 1, why, sizeof why), 1);
    assert_non_null(strstr(why, "load average 7.0"));
    assert_true(sg_host_others_between(&blind, &after, 1).processors == 6);
}

static void the_host_is_described(void **unused) {
    (void)unused;
    sg_machine_record m;
    sg_machine_describe(&m);
    assert_true(m.cpu[0] && m.os[0] && m.hostname[0] && m.program_version[0]);
    assert_true(m.cores >= 1 && m.threads >= 1 && m.threads <= m.cores);
    assert_true(m.memory_bytes > (int64_t)1 << 28);
    assert_true(sg_host_available_bytes() > 0);
    assert_true(sg_host_available_bytes() <= (uint64_t)m.memory_bytes);
    enum { BYTES = 64 << 20 };
    sg_host_reset_peak_resident();
    char *memory = malloc(BYTES);
    assert_non_null(memory);
    for (size_t i = 0; i < BYTES; i += 512) ((volatile char *)memory)[i] = 1;
    assert_true(sg_host_peak_resident_bytes() > BYTES);
    free(memory);
    sg_host_state s;
    sg_host_state_read(&s);
    assert_true(s.own_s > 0 && s.at_s > 0 && s.processors == m.threads);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_point_is_complete),
        cmocka_unit_test(it_stops_when_it_should),
        cmocka_unit_test(interrupts),
        cmocka_unit_test(out_of_memory_is_an_answer),
        cmocka_unit_test(ranks_measure_together),
        cmocka_unit_test(ranks_train_as_one),
        cmocka_unit_test(disturbances_are_told),
        cmocka_unit_test(the_host_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
