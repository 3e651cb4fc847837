/* The cpu device around its ops: memory, streams, events, collectives on their own thread, refusals, accuracy of functions. */
#include "kernels/module.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define SIZE(...)        ((const int64_t[]){__VA_ARGS__})
#define MAKE(dtype, ...) sg_desc_make(dtype, (int)(sizeof(SIZE(__VA_ARGS__)) / sizeof(int64_t)), SIZE(__VA_ARGS__))

static const sg_device_api *api;
static sg_device *device;

static int open_device(void **state) {
    sg_status status = {0};
    (void)state;
    if (sg_module_device("cpu", &api, &status) != SG_OK) {
        print_error("%s\n", status.text);
        return -1;
    }
    return api->open(&(sg_device_options){.threads = 2}, &device, &status) == SG_OK ? 0 : -1;
}

static int close_device(void **state) {
    (void)state;
    api->close(device);
    return 0;
}

static sg_plan *prepared(const sg_op *op) {
    sg_status status = {0};
    sg_plan *plan = NULL;
    if (api->prepare(device, op, 1, &plan, &status) != SG_OK) fail_msg("%s", status.text);
    return plan;
}

/* ---- device ---------------------------------------------------------------------------------------------------------- */

static void test_info_and_options(void **state) {
    (void)state;
    sg_device_info info;
    sg_status status = {0};
    assert_int_equal(api->info(device, &info, &status), SG_OK);
    assert_string_equal(info.kind, "cpu");
    assert_true(info.executes && !info.caching && info.units == 2 && info.memory_bytes > 0);
    assert_non_null(strstr(info.library, "oneDNN"));
    sg_device *other = NULL;
    assert_int_equal(api->open(&(sg_device_options){.threads = -1}, &other, &status), SG_BAD_INPUT);
    assert_int_equal(api->open(&(sg_device_options){.index = 1}, &other, &status), SG_BAD_INPUT);
    assert_null(other);
    assert_int_equal(api->host_idle(device, 1, &status), SG_BAD_INPUT);
    assert_int_equal(api->host_work(device, SG_HOST_SYNC, 1, &status), SG_OK);
}

/* Takes and gives blocks of many sizes in random order: they are aligned, never overlap and keep what was written. */
static void test_segments_do_not_overlap(void **state) {
    (void)state;
    enum { SLOTS = 64, ROUNDS = 4000 };
    struct {
        uint32_t *at;
        uint64_t words;
        uint32_t mark;
    } slot[SLOTS] = {{0}};
    uint64_t random = 1;
    sg_status status = {0};
    for (int round = 0; round < ROUNDS; round++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        int i = (int)(random >> 40) % SLOTS;
        if (slot[i].at) {
            assert_int_equal(slot[i].at[0], slot[i].mark);
            assert_int_equal(slot[i].at[slot[i].words - 1], slot[i].mark);
            assert_int_equal(slot[i].at[slot[i].words / 2], slot[i].mark);
            api->segment_free(device, slot[i].at, slot[i].words * 4);
            slot[i].at = NULL;
            continue;
        }
        void *segment = NULL;
        slot[i].words = 1 + (random >> 20) % (UINT64_C(1) << (2 + (random >> 50) % 17));
        assert_int_equal(api->segment_alloc(device, slot[i].words * 4, &segment, &status), SG_OK);
        assert_int_equal((uintptr_t)segment % 512, 0);
        slot[i].at = segment;
        slot[i].mark = (uint32_t)round;
        for (uint64_t w = 0; w < slot[i].words; w++) slot[i].at[w] = slot[i].mark;
    }
    for (int i = 0; i < SLOTS; i++)
        if (slot[i].at) api->segment_free(device, slot[i].at, slot[i].words * 4);
}

static void test_no_memory_is_an_answer(void **state) {
    (void)state;
    void *segment = &segment;
    sg_status status = {0};
    assert_int_equal(api->segment_alloc(device, UINT64_C(1) << 50, &segment, &status), SG_NO);
    assert_null(segment);
    assert_int_equal(api->segment_alloc(device, UINT64_MAX, &segment, &status), SG_NO);
    assert_int_equal(api->segment_alloc(device, 0, &segment, &status), SG_OK);
    api->segment_free(device, segment, 0);
    api->segment_free(device, NULL, 0);
}

/* ---- plans ------------------------------------------------------------------------------------------------------------ */

static void test_unsound_and_impossible_ops(void **state) {
    (void)state;
    sg_status status = {0};
    sg_plan *plans[2] = {NULL, NULL};
    sg_desc good[2] = {MAKE(SG_F32, 4), MAKE(SG_F32, 4)}, bad[2] = {MAKE(SG_F32, 4), MAKE(SG_F32, 5)};
    sg_op ops[2] = {{.kind = SG_OP_COPY, .n_in = 1, .n_out = 1, .desc = good},
                    {.kind = SG_OP_COPY, .n_in = 1, .n_out = 1, .desc = bad}};
    assert_int_equal(api->prepare(device, ops, 2, plans, &status), SG_BAD_INPUT);
    assert_true(plans[0] == NULL && plans[1] == NULL);
    sg_desc wide[3] = {MAKE(SG_F64, 2, 2), MAKE(SG_F64, 2, 2), MAKE(SG_F64, 2, 2)};
    sg_op product = {.kind = SG_OP_MATMUL, .n_in = 2, .n_out = 1, .attrs = {.alpha = 1}, .desc = wide};
    assert_int_equal(api->prepare(device, &product, 1, plans, &status), SG_NO);
    assert_non_null(strstr(status.text, "MATMUL f64[2,2] f64[2,2] -> f64[2,2]"));
}

static void test_index_outside_the_table(void **state) {
    (void)state;
    sg_status status = {0};
    float table[6] = {0, 1, 2, 3, 4, 5}, y[4] = {0};
    int64_t index[2] = {2, 3};
    sg_desc descs[3] = {MAKE(SG_F32, 3, 2), MAKE(SG_I64, 2), MAKE(SG_F32, 2, 2)};
    sg_op op = {.kind = SG_OP_EMBEDDING, .n_in = 2, .n_out = 1, .desc = descs};
    sg_plan *plan = prepared(&op);
    void *pointers[3] = {table, index, y};
    assert_int_equal(api->launch(device, plan, SG_STREAM_COMPUTE, pointers, NULL, NULL, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "index 3"));
    index[1] = 0;
    assert_int_equal(api->launch(device, plan, SG_STREAM_COMPUTE, pointers, NULL, NULL, &status), SG_OK);
    assert_true(y[0] == 4 && y[1] == 5 && y[2] == 0 && y[3] == 1);
    assert_int_equal(api->launch(device, plan, SG_STREAM_COLLECTIVE, pointers, NULL, NULL, &status), SG_BAD_INPUT);
    api->plans_free(device, &plan, 1);
}

/* ---- accuracy of functions ---------------------------------------------------------------------------------------------- */

static double exactly(sg_fn fn, double x) {
    switch (fn) {
    case SG_FN_EXP: return exp(x);
    case SG_FN_LOG: return log(x);
    case SG_FN_TANH: return tanh(x);
    case SG_FN_SIGMOID: return 1 / (1 + exp(-x));
    case SG_FN_SIN: return sin(x);
    case SG_FN_COS: return cos(x);
    case SG_FN_SILU: return x / (1 + exp(-x));
    case SG_FN_ELU: return x > 0 ? x : expm1(x);
    default: return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    }
}

/* Units in the last place of fp32 at x. */
static double ulp_of(double x) {
    return fmax(ldexp(1, ilogb(fmax(fabs(x), 1e-37)) - 23), 0x1p-149);
}

static double worst_ulps(sg_fn fn, double low, double high) {
    enum { N = 100000 };
    sg_status status = {0};
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    assert_true(x && y);
    for (int i = 0; i < N; i++) x[i] = (float)(low + (high - low) * i / (N - 1));
    sg_desc descs[2] = {MAKE(SG_F32, N), MAKE(SG_F32, N)};
    sg_op op = {.kind = SG_OP_UNARY, .n_in = 1, .n_out = 1, .attrs = {.fn = fn, .alpha = 1}, .desc = descs};
    sg_plan *plan = prepared(&op);
    void *pointers[2] = {x, y};
    assert_int_equal(api->launch(device, plan, SG_STREAM_COMPUTE, pointers, NULL, NULL, &status), SG_OK);
    double worst = 0;
    for (int i = 0; i < N; i++) {
        double want = exactly(fn, (double)x[i]);
        worst = fmax(worst, fabs((double)y[i] - want) / ulp_of(want));
    }
    api->plans_free(device, &plan, 1);
    free(x);
    free(y);
    return worst;
}

static void test_functions_are_within_four_ulps(void **state) {
    (void)state;
    static const struct {
        sg_fn fn;
        double low, high;
    } ranges[] = {
        {SG_FN_EXP, -103, 88.7},     {SG_FN_EXP, -1, 1},        {SG_FN_LOG, 1e-38, 4},    {SG_FN_LOG, 0.5, 1e6},
        {SG_FN_TANH, -12, 12},       {SG_FN_TANH, -0.01, 0.01}, {SG_FN_SIGMOID, -80, 80}, {SG_FN_SIN, -3, 3},
        {SG_FN_COS, -1.5, 1.5},      {SG_FN_SILU, -60, 60},     {SG_FN_ELU, -20, 5},      {SG_FN_ELU, -1, 0},
        {SG_FN_GELU_TANH, -0.5, 10},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        double worst = worst_ulps(ranges[i].fn, ranges[i].low, ranges[i].high);
        if (worst > 4)
            fail_msg("%s on [%g, %g]: %.2f units in the last place", sg_fn_name(ranges[i].fn), ranges[i].low,
                     ranges[i].high, worst);
    }
}

static void test_special_values(void **state) {
    (void)state;
    sg_status status = {0};
    const float inf = HUGE_VALF, nan = nanf("");
    float x[4] = {inf, -inf, nan, 0}, y[4];
    static const struct {
        sg_fn fn;
        float want[4]; /* of inf, -inf, NaN, 0 */
    } cases[] = {
        {SG_FN_EXP, {HUGE_VALF, 0, NAN, 1}},  {SG_FN_LOG, {HUGE_VALF, NAN, NAN, -HUGE_VALF}},
        {SG_FN_TANH, {1, -1, NAN, 0}},        {SG_FN_SIGMOID, {1, 0, NAN, 0.5f}},
        {SG_FN_RELU, {HUGE_VALF, 0, NAN, 0}}, {SG_FN_SIN, {NAN, NAN, NAN, 0}},
        {SG_FN_ELU, {HUGE_VALF, -1, NAN, 0}}, {SG_FN_SQRT, {HUGE_VALF, NAN, NAN, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sg_desc descs[2] = {MAKE(SG_F32, 4), MAKE(SG_F32, 4)};
        sg_op op = {
            .kind = SG_OP_UNARY, .n_in = 1, .n_out = 1, .attrs = {.fn = cases[i].fn, .alpha = 1}, .desc = descs};
        sg_plan *plan = prepared(&op);
        void *pointers[2] = {x, y};
        assert_int_equal(api->launch(device, plan, SG_STREAM_COMPUTE, pointers, NULL, NULL, &status), SG_OK);
        for (int e = 0; e < 4; e++) {
            bool same = isnan(cases[i].want[e]) ? isnan(y[e]) : y[e] == cases[i].want[e];
            if (!same)
                fail_msg("%s(%g) is %g, not %g", sg_fn_name(cases[i].fn), (double)x[e], (double)y[e],
                         (double)cases[i].want[e]);
        }
        api->plans_free(device, &plan, 1);
    }
}

/* ---- collectives ---------------------------------------------------------------------------------------------------------- */

/* A transport of one rank whose all-reduce takes 50 ms, writes, and remembers its order; the third one fails when told. */
static struct {
    int calls;
    bool fails, aborted;
    pthread_t thread;
} fake;

static void sleep_ms(long ms) {
    struct timespec pause = {.tv_nsec = ms * 1000000};
    (void)nanosleep(&pause, NULL);
}

static sg_code fake_all_reduce(sg_transport *self, void *buffer, int64_t count, sg_dtype dtype, sg_status *status) {
    (void)self;
    assert_int_equal(dtype, SG_F32);
    if (fake.fails) return sg_fail(status, SG_MACHINE, "rank 1 has left");
    sleep_ms(50);
    fake.thread = pthread_self();
    fake.calls++;
    for (int64_t i = 0; i < count; i++) ((float *)buffer)[i] = (float)fake.calls;
    return SG_OK;
}

static sg_code fake_all_gather(sg_transport *self, const void *part, void *whole, int64_t count, sg_dtype dtype,
                               sg_status *status) {
    (void)self, (void)dtype, (void)status;
    memcpy(whole, part, (size_t)count * sizeof(float));
    return SG_OK;
}

static sg_code fake_reduce_scatter(sg_transport *self, const void *whole, void *part, int64_t count, sg_dtype dtype,
                                   sg_status *status) {
    (void)self, (void)dtype, (void)status;
    memcpy(part, whole, (size_t)count * sizeof(float));
    return SG_OK;
}

static void fake_abort(sg_transport *self, const char *why) {
    (void)self, (void)why;
    fake.aborted = true;
}

static const sg_transport_api fake_api = {.abi = SG_TRANSPORT_ABI,
                                          .struct_bytes = sizeof(sg_transport_api),
                                          .all_reduce_mean = fake_all_reduce,
                                          .all_gather = fake_all_gather,
                                          .reduce_scatter_mean = fake_reduce_scatter,
                                          .abort = fake_abort};
static sg_transport fake_transport = {.api = &fake_api, .rank = 0, .ranks = 1};

static sg_comm *communicator(double timeout_s) {
    sg_status status = {0};
    sg_comm *comm = NULL;
    sg_comm_options options = {.rank = 0, .ranks = 1, .bootstrap = &fake_transport, .timeout_s = timeout_s};
    memset(&fake, 0, sizeof fake);
    if (api->comm_create(device, &options, &comm, &status) != SG_OK) fail_msg("%s", status.text);
    return comm;
}

static void test_collectives_run_beside_compute(void **state) {
    (void)state;
    sg_status status = {0};
    sg_comm *comm = communicator(10);
    sg_event *before = NULL, *after = NULL;
    float buffer[2][3] = {{0}};
    assert_int_equal(api->event_create(device, &before, &status), SG_OK);
    assert_int_equal(api->event_create(device, &after, &status), SG_OK);
    double seconds = 0, start_s = api->now(device);
    assert_int_equal(api->event_seconds(device, after, &seconds, &status), SG_BAD_INPUT);
    assert_int_equal(api->event_record(device, before, SG_STREAM_COMPUTE, &status), SG_OK);
    assert_int_equal(api->event_wait(device, before, SG_STREAM_COLLECTIVE, &status), SG_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(api->all_reduce_mean(device, comm, buffer[i], 3, SG_F32, &status), SG_OK);
    assert_int_equal(api->event_record(device, after, SG_STREAM_COLLECTIVE, &status), SG_OK);
    double queued_s = api->now(device) - start_s;
    assert_int_equal(api->event_wait(device, after, SG_STREAM_COMPUTE, &status), SG_OK);
    double done_s = api->now(device) - start_s;
    assert_true(queued_s < 0.5 * done_s); /* the thread slept, we did not */
    assert_true(buffer[0][2] == 1 && buffer[1][0] == 2);
    assert_false(pthread_equal(fake.thread, pthread_self()));
    double first_s, last_s;
    assert_int_equal(api->event_seconds(device, before, &first_s, &status), SG_OK);
    assert_int_equal(api->event_seconds(device, after, &last_s, &status), SG_OK);
    assert_true(last_s - first_s > 0.09 && last_s - first_s <= done_s);
    float gathered[3] = {0}, scattered[3] = {0};
    assert_int_equal(api->all_gather(device, comm, buffer[1], gathered, 3, SG_F32, &status), SG_OK);
    assert_int_equal(api->reduce_scatter_mean(device, comm, buffer[0], scattered, 3, SG_F32, &status), SG_OK);
    assert_int_equal(api->stream_wait(device, SG_STREAM_COLLECTIVE, &status), SG_OK);
    assert_true(gathered[1] == 2 && scattered[1] == 1);
    assert_int_equal(api->all_reduce_mean(device, comm, buffer[0], 3, SG_I64, &status), SG_BAD_INPUT);
    api->event_destroy(device, before);
    api->event_destroy(device, after);
    api->comm_destroy(device, comm);
}

static void test_failed_collective_is_reported(void **state) {
    (void)state;
    sg_status status = {0};
    sg_comm *comm = communicator(10);
    float buffer[3] = {0};
    sg_event *event = NULL;
    fake.fails = true;
    assert_int_equal(api->event_create(device, &event, &status), SG_OK);
    assert_int_equal(api->all_reduce_mean(device, comm, buffer, 3, SG_F32, &status), SG_OK);
    assert_int_equal(api->stream_wait(device, SG_STREAM_COLLECTIVE, &status), SG_MACHINE);
    assert_string_equal(status.text, "rank 1 has left");
    assert_int_equal(api->all_reduce_mean(device, comm, buffer, 3, SG_F32, &status), SG_MACHINE);
    assert_int_equal(api->event_record(device, event, SG_STREAM_COLLECTIVE, &status), SG_MACHINE);
    api->event_destroy(device, event);
    api->comm_abort(device, comm);
    assert_true(fake.aborted);
    api->comm_destroy(device, comm);
}

static void test_timeout_and_bad_options(void **state) {
    (void)state;
    sg_status status = {0};
    sg_comm *comm = communicator(0.01);
    float buffer[3] = {0};
    assert_int_equal(api->all_reduce_mean(device, comm, buffer, 3, SG_F32, &status), SG_OK);
    assert_int_equal(api->stream_wait(device, SG_STREAM_COLLECTIVE, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "did not complete within 0.01 s"));
    sleep_ms(100);
    api->comm_destroy(device, comm);
    sg_comm_options options = {.rank = 2, .ranks = 2, .bootstrap = &fake_transport};
    assert_int_equal(api->comm_create(device, &options, &comm, &status), SG_BAD_INPUT);
    options.bootstrap = NULL;
    assert_int_equal(api->comm_create(device, &options, &comm, &status), SG_BAD_INPUT);
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, open_device, close_device)

int main(void) {
    const struct CMUnitTest tests[] = {
        on_device(test_info_and_options),
        on_device(test_segments_do_not_overlap),
        on_device(test_no_memory_is_an_answer),
        on_device(test_unsound_and_impossible_ops),
        on_device(test_index_outside_the_table),
        on_device(test_functions_are_within_four_ulps),
        on_device(test_special_values),
        on_device(test_collectives_run_beside_compute),
        on_device(test_failed_collective_is_reported),
        on_device(test_timeout_and_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
