/* Micro-benchmarks on the cpu device, and on one that fails, refuses or computes wrongly. Times are only compared within a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/module.h"
#include "sim/bench/bench.h"
#include "tests/support/bent_device.h"

static const sg_device_api *cpu(void) {
    const sg_device_api *api;
    sg_status status = {0};
    if (sg_module_device("cpu", &api, &status) != SG_OK) fail_msg("%s", status.text);
    return api;
}

static sg_bench_options options_for(const int64_t *sizes, size_t n) {
    return (sg_bench_options){.threads = 1,
                              .sizes = sizes,
                              .n_sizes = n,
                              .time_budget_s = 1,
                              .tight = 0.02,
                              .min_iterations = 3,
                              .max_iterations = 20,
                              .ranks = 1};
}

static void add_precision(sg_bench_options *o, const char *name) {
    assert_int_equal(sg_bench_precision_of(name, &o->precision[o->n_precisions++], NULL), SG_OK);
}

static void run(const sg_device_api *api, sg_bench_kind kind, const sg_bench_options *options, sg_bench *bench) {
    sg_status status = {0};
    sg_code code = sg_bench_open(api, options, bench, &status);
    if (!code) code = sg_bench_run(bench, kind, &status);
    if (code) fail_msg("%s", status.text);
}

static const sg_micro *find(const sg_bench *b, const char *what, const char *compute, int64_t n, int64_t bytes) {
    for (size_t i = 0; i < b->n_micros; i++) {
        const sg_micro_config *c = &b->micros[i].config;
        if (!strcmp(c->what, what) && (!*compute || !strcmp(c->compute, compute)) && c->n == n && c->bytes == bytes)
            return &b->micros[i];
    }
    fail_msg("no record of %s %s, n %lld, %lld bytes", what, compute, (long long)n, (long long)bytes);
    return NULL;
}

static void sound(const sg_bench *b, const char *name) {
    for (size_t i = 0; i < b->n_micros; i++) {
        const sg_micro *m = &b->micros[i];
        assert_string_equal(m->config.bench, name);
        assert_true(m->iterations >= 3 && m->calls >= 1 && m->warmup >= 1);
        assert_true(m->s.median > 0 && m->s.low <= m->s.median && m->s.median <= m->s.high);
        assert_true(m->p99_s >= m->s.median);
        assert_true(m->config.device_name[0] && m->library[0] && m->date[0]);
        assert_true(m->key == sg_micro_key(&m->config));
        for (size_t j = 0; j < i; j++) assert_true(b->micros[j].key != m->key);
    }
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static void products_are_timed_and_right(void **state) {
    (void)state;
    const int64_t sizes[] = {64, 100};
    sg_bench_options o = options_for(sizes, 2);
    add_precision(&o, "fp32");
    add_precision(&o, "bf16");
    sg_bench b;
    run(cpu(), SG_BENCH_GEMM, &o, &b);
    sound(&b, "gemm");
    assert_int_equal(b.n_micros, 8);
    assert_int_equal(b.n_omissions, 0);
    const sg_micro *m = find(&b, "product", "f32", 100, 0);
    assert_true(m->checked && m->error < 1 && m->fits_rates);
    assert_true(m->flops == 2e6 && m->bytes_moved == 3 * 4 * 1e4);
    assert_float_equal(m->flop_per_s, 2e6 / m->s.median, 1e-6 * m->flop_per_s);
    assert_true(find(&b, "product", "bf16", 64, 0)->bytes_moved == 3 * 2 * 64 * 64);
    const sg_micro *moved = find(&b, "with_transfer", "f32", 100, 0);
    assert_true(moved->bytes_moved == 3 * 4 * 1e4);
    assert_string_equal(moved->config.host_memory, "any");
    sg_bench_close(&b);
}

static void larger_products_take_longer(void **state) {
    (void)state;
    const int64_t sizes[] = {64, 512}; /* 512 times the work */
    sg_bench_options o = options_for(sizes, 2);
    add_precision(&o, "fp32");
    sg_bench b;
    run(cpu(), SG_BENCH_GEMM, &o, &b);
    assert_true(find(&b, "product", "f32", 512, 0)->s.low > 4 * find(&b, "product", "f32", 64, 0)->s.low);
    sg_bench_close(&b);
}

static void wrong_products_are_noticed(void **state) {
    (void)state;
    const int64_t sizes[] = {64};
    sg_bent bent = {.inner = cpu(), .wrong_results = true};
    sg_bench_options o = options_for(sizes, 1);
    sg_bench b;
    sg_status status = {0};
    assert_int_equal(sg_bench_open(sg_bent_device(&bent, false, false), &o, &b, &status), SG_OK);
    assert_int_equal(sg_bench_run(&b, SG_BENCH_GEMM, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "wrong"));
    assert_non_null(strstr(status.text, "gemm 64 fp32"));
    sg_bench_close(&b);
    assert_true(bent.allocated == 0 && bent.alive == 0);
}

static void a_refused_precision_is_said_once(void **state) {
    (void)state;
    const int64_t sizes[] = {16, 32};
    sg_bent bent = {.inner = cpu(), .refused = SG_COMPUTE_BF16};
    sg_bench_options o = options_for(sizes, 2);
    add_precision(&o, "fp32");
    add_precision(&o, "bf16");
    sg_bench b;
    run(sg_bent_device(&bent, false, false), SG_BENCH_GEMM, &o, &b);
    assert_int_equal(b.n_micros, 4);
    assert_int_equal(b.n_omissions, 1);
    assert_true(b.omissions[0].answer);
    assert_string_equal(b.omissions[0].what, "gemm 16 bf16");
    assert_non_null(strstr(b.omissions[0].why, "no such products"));
    sg_bench_close(&b);
}

static void what_does_not_fit_is_an_answer(void **state) {
    (void)state;
    const int64_t sizes[] = {16, 500000, 1000};
    sg_bent bent = {.inner = cpu(), .free_bytes = 1 << 20};
    sg_bench_options o = options_for(sizes, 3);
    add_precision(&o, "fp32");
    sg_bench b;
    run(sg_bent_device(&bent, false, false), SG_BENCH_GEMM, &o, &b);
    assert_int_equal(b.n_micros, 2); /* of 16 alone */
    assert_int_equal(b.n_omissions, 2);
    for (size_t i = 0; i < 2; i++) assert_true(b.omissions[i].answer && strstr(b.omissions[i].why, "on the device"));
    sg_bench_close(&b);
}

static void what_takes_too_long_is_left_out(void **state) {
    (void)state;
    const int64_t sizes[] = {128, 16384};
    sg_bench_options o = options_for(sizes, 2);
    add_precision(&o, "fp32");
    sg_bench b;
    run(cpu(), SG_BENCH_GEMM, &o, &b);
    assert_int_equal(b.n_micros, 2);
    assert_int_equal(b.n_omissions, 1);
    assert_false(b.omissions[0].answer);
    assert_non_null(strstr(b.omissions[0].why, "--time-budget"));
    sg_bench_close(&b);
}

/* ---- memory, copies, launches ------------------------------------------------------------------------------------ */

static void memory_ops_are_right_at_odd_sizes(void **state) {
    (void)state;
    const int64_t sizes[] = {4, 400, 12288 + 20}; /* one element; part of a row; three rows, cut */
    sg_bench_options o = options_for(sizes, 3);
    sg_bench b;
    run(cpu(), SG_BENCH_MEMORY, &o, &b);
    sound(&b, "memory");
    assert_int_equal(b.n_micros + b.n_omissions, 3 * sg_bench_memory_count);
    for (size_t k = 0; k < sg_bench_memory_count; k++) {
        const sg_micro *m = find(&b, sg_bench_memory_names[k], "", 0, 4);
        assert_true(m->checked && m->error <= 1 && m->bytes_moved > 0);
    }
    assert_true(find(&b, "add", "", 0, 400)->bytes_moved == 1200);
    assert_true(find(&b, "adamw", "", 0, 12288)->bytes_moved == 7 * 12288);
    assert_true(find(&b, "device_copy", "", 0, 12288)->bytes_moved == 2 * 12288);
    sg_bench_close(&b);
}

static void wrong_memory_ops_are_noticed(void **state) {
    (void)state;
    const int64_t sizes[] = {8192};
    sg_bent bent = {.inner = cpu(), .wrong_results = true};
    sg_bench_options o = options_for(sizes, 1);
    sg_bench b;
    sg_status status = {0};
    assert_int_equal(sg_bench_open(sg_bent_device(&bent, false, false), &o, &b, &status), SG_OK);
    assert_int_equal(sg_bench_run(&b, SG_BENCH_MEMORY, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "memory copy 8192 bytes"));
    assert_int_equal(b.n_micros, 1); /* the device's own copy, before */
    sg_bench_close(&b);
}

static void copies_both_ways(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 100000};
    sg_bench_options o = options_for(sizes, 2);
    sg_bench b;
    run(cpu(), SG_BENCH_COPY, &o, &b);
    sound(&b, "copy");
    assert_int_equal(b.n_micros, 4);
    assert_string_equal(find(&b, "to_host", "", 0, 1)->config.host_memory, "any");
    sg_bench_close(&b);
    sg_bent bent = {.inner = cpu()};
    run(sg_bent_device(&bent, true, false), SG_BENCH_COPY, &o, &b);
    assert_int_equal(b.n_micros, 8);
    assert_string_equal(b.micros[0].config.host_memory, "pinned");
    assert_string_equal(b.micros[2].config.host_memory, "pageable");
    sg_bench_close(&b);
    assert_int_equal(bent.allocated, 0);
}

static void wrong_copies_are_noticed(void **state) {
    (void)state;
    const int64_t sizes[] = {1000};
    sg_bent bent = {.inner = cpu(), .wrong_copies = true};
    sg_bench_options o = options_for(sizes, 1);
    sg_bench b;
    sg_status status = {0};
    assert_int_equal(sg_bench_open(sg_bent_device(&bent, true, false), &o, &b, &status), SG_OK);
    assert_int_equal(sg_bench_run(&b, SG_BENCH_COPY, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "what came back"));
    sg_bench_close(&b);
    assert_int_equal(bent.allocated, 0);
}

static void launches_with_and_without_graphs(void **state) {
    (void)state;
    sg_bench_options o = options_for(NULL, 0);
    sg_bench b;
    run(cpu(), SG_BENCH_LAUNCH, &o, &b);
    sound(&b, "launch");
    assert_int_equal(b.n_micros, 4);
    assert_int_equal(b.n_omissions, 1);
    sg_bench_close(&b);
    sg_bent bent = {.inner = cpu()};
    run(sg_bent_device(&bent, false, true), SG_BENCH_LAUNCH, &o, &b);
    assert_int_equal(b.n_micros, 6);
    assert_true(bent.replays > 0);
    /* 64 ops are in the call that enqueues them here, one in what a replay costs */
    assert_true(find(&b, "graph_enqueue", "", 0, 4)->s.low > 8 * find(&b, "graph_replay", "", 0, 4)->s.low);
    sg_bench_close(&b);
    assert_int_equal(bent.alive, 0);
}

static void a_short_time_leaves_the_rest_out(void **state) {
    (void)state;
    const int64_t sizes[] = {4096, 8192, 16384};
    sg_bench_options o = options_for(sizes, 3);
    o.time_budget_s = 1e-6;
    sg_bench b;
    run(cpu(), SG_BENCH_COPY, &o, &b);
    assert_int_equal(b.n_micros, 2);
    assert_int_equal(b.n_omissions, 2);
    assert_false(b.omissions[0].answer);
    sg_bench_close(&b);
}

/* ---- bad input, interrupts, faults ------------------------------------------------------------------------------- */

static void sizes_that_are_none_are_refused(void **state) {
    (void)state;
    static const int64_t bad[] = {0, -5, INT64_MAX};
    for (int kind = SG_BENCH_GEMM; kind <= SG_BENCH_COPY; kind++)
        for (size_t i = 0; i < 3; i++) {
            sg_bench_options o = options_for(&bad[i], 1);
            sg_bench b;
            sg_status status = {0};
            assert_int_equal(sg_bench_open(cpu(), &o, &b, &status), SG_OK);
            assert_int_equal(sg_bench_run(&b, (sg_bench_kind)kind, &status), SG_BAD_INPUT);
            sg_bench_close(&b);
        }
    sg_bench_precision precision;
    sg_status status = {0};
    assert_int_equal(sg_bench_precision_of("fp8", &precision, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "bf16"));
}

static void an_interrupt_ends_it(void **state) {
    (void)state;
    const volatile int stop = 1;
    for (int kind = SG_BENCH_GEMM; kind <= SG_BENCH_LAUNCH; kind++) {
        sg_bench_options o = options_for(NULL, 0);
        o.stop = &stop;
        sg_bench b;
        run(cpu(), (sg_bench_kind)kind, &o, &b);
        assert_true(b.interrupted);
        assert_int_equal(b.n_micros, 0);
        sg_bench_close(&b);
    }
}

static void collectives_need_ranks(void **state) {
    (void)state;
    sg_bench_options o = options_for(NULL, 0);
    sg_bench b;
    sg_status status = {0};
    assert_int_equal(sg_bench_open(cpu(), &o, &b, &status), SG_OK);
    assert_int_equal(sg_bench_run(&b, SG_BENCH_COLLECTIVE, &status), SG_BAD_INPUT);
    sg_bench_close(&b);
}

/* Each of the first calls of the device fails once: a clear error and nothing left behind. */
static void every_call_may_fail(void **state) {
    (void)state;
    enum { CALLS = 120 };
    const int64_t sizes[] = {16};
    for (int kind = SG_BENCH_GEMM; kind <= SG_BENCH_LAUNCH; kind++)
        for (int at = 1; at <= CALLS; at++) {
            sg_bent bent = {.inner = cpu(), .fail_at = at};
            sg_bench_options o = options_for(sizes, kind == SG_BENCH_LAUNCH ? 0 : 1);
            if (kind == SG_BENCH_GEMM) add_precision(&o, "fp32");
            o.time_budget_s = 1e-6;
            sg_bench b;
            sg_status status = {0};
            sg_code code = sg_bench_open(sg_bent_device(&bent, true, true), &o, &b, &status);
            if (!code) code = sg_bench_run(&b, (sg_bench_kind)kind, &status);
            if (bent.calls < at)
                at = CALLS;
            else if (code != SG_MACHINE || !strstr(status.text, "injected failure"))
                fail_msg("benchmark %d, call %d: %d, '%s'", kind, at, (int)code, status.text);
            sg_bench_close(&b);
            if (bent.allocated || bent.alive)
                fail_msg("benchmark %d, call %d: %lld blocks and %lld objects are left", kind, at,
                         (long long)bent.allocated, (long long)bent.alive);
        }
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static double decoded(const sg_bench *b, const char *codec, int64_t gop, const char *access, int64_t processes) {
    for (size_t i = 0; i < b->n_micros; i++) {
        const sg_micro_config *c = &b->micros[i].config;
        if (!strcmp(c->what, codec) && !strcmp(c->access, access) && c->k == gop && c->ranks == processes)
            return b->micros[i].decoded_per_frame;
    }
    fail_msg("no record of %s, %s", codec, access);
    return 0;
}

/* Half of the frames of a group of two need the one before them, and reading in order needs each once. Of a group of 30,
 * 15.5 are decoded for a frame in the middle; of two frames in a row, the second costs one more. */
static void frames_cost_what_their_group_asks(void **state) {
    (void)state;
    const int64_t heights[] = {96};
    sg_bench_options o = options_for(heights, 1);
    o.threads = 2;
    o.time_budget_s = 600; /* the number of iterations ends it */
    o.max_iterations = 4;
    o.tight = 0;
    sg_bench b;
    sg_status status = {0};
    sg_bench_open_host("a processor", &o, &b);
    if (sg_bench_run(&b, SG_BENCH_DECODE, &status)) fail_msg("%s", status.text);
    /* 4 videos in 3 orders, 3 kinds of images in one; each once more by two processes */
    assert_int_equal(b.n_micros, 4 * (3 + 1) + 3 * (1 + 1));
    assert_int_equal(b.n_omissions, 0);
    sound(&b, "decode");
    assert_float_equal(decoded(&b, "av1", 2, "shuffled", 1), 1.5, 0.15);
    assert_float_equal(decoded(&b, "av1", 2, "shuffled", 2), 1.5, 0.15);
    assert_float_equal(decoded(&b, "av1", 2, "sequential", 1), 1, 1e-9);
    assert_float_equal(decoded(&b, "av1", 2, "history", 1), 1.25, 0.15);
    assert_float_equal(decoded(&b, "av1", 30, "sequential", 1), 1, 1e-9);
    assert_float_equal(decoded(&b, "av1", 30, "shuffled", 1), 15.5, 3);
    assert_float_equal(decoded(&b, "av1", 30, "history", 1), 8, 2);
    /* x264's streams let the decoder put frames in order, which holds one back */
    assert_float_equal(decoded(&b, "h264", 2, "shuffled", 1), 2.5, 0.2);
    assert_true(decoded(&b, "h264", 30, "shuffled", 1) > decoded(&b, "h264", 30, "history", 1));
    assert_float_equal(decoded(&b, "png", 0, "shuffled", 2), 1, 1e-9);
    assert_float_equal(decoded(&b, "jpeg", 0, "shuffled", 1), 1, 1e-9);
    assert_float_equal(decoded(&b, "raw", 0, "shuffled", 1), 1, 1e-9);
    for (size_t i = 0; i < b.n_micros; i++) {
        assert_true(*b.micros[i].library != '\0');
        assert_true((b.micros[i].config.ranks == 2) == isfinite(b.micros[i].alone_s));
    }
    sg_bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_timed_and_right),
        cmocka_unit_test(larger_products_take_longer),
        cmocka_unit_test(wrong_products_are_noticed),
        cmocka_unit_test(a_refused_precision_is_said_once),
        cmocka_unit_test(what_does_not_fit_is_an_answer),
        cmocka_unit_test(what_takes_too_long_is_left_out),
        cmocka_unit_test(memory_ops_are_right_at_odd_sizes),
        cmocka_unit_test(wrong_memory_ops_are_noticed),
        cmocka_unit_test(copies_both_ways),
        cmocka_unit_test(wrong_copies_are_noticed),
        cmocka_unit_test(launches_with_and_without_graphs),
        cmocka_unit_test(a_short_time_leaves_the_rest_out),
        cmocka_unit_test(sizes_that_are_none_are_refused),
        cmocka_unit_test(an_interrupt_ends_it),
        cmocka_unit_test(collectives_need_ranks),
        cmocka_unit_test(every_call_may_fail),
        cmocka_unit_test(frames_cost_what_their_group_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
