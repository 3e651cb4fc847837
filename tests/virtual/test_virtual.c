/* The virtual device: clocks and their derivatives, joins, collectives, memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/virtual/replay.h"
#include "tests/support/near.h"
#include "tests/support/priced.h"
#include "tests/support/round_machine.h"

typedef struct bench {
    sg_machine machine;
    const sg_device_api *api;
    sg_device *device;
} bench;

static void bench_open(bench *b, const sg_machine *machine) {
    b->machine = *machine;
    b->api = sg_virtual_device();
    assert_int_equal(b->api->abi, SG_DEVICE_ABI);
    assert_int_equal(b->api->struct_bytes, sizeof(sg_device_api));
    sg_device_options options = {.machine = &b->machine};
    assert_int_equal(b->api->open(&options, &b->device, NULL), SG_OK);
}

static void run(bench *b, sg_plan *plan) {
    assert_int_equal(b->api->launch(b->device, plan, SG_STREAM_COMPUTE, NULL, NULL, NULL, NULL), SG_OK);
}

static void work(bench *b, sg_host_class cls, int64_t count) {
    assert_int_equal(b->api->host_work(b->device, cls, count, NULL), SG_OK);
}

static void wait_all(bench *b) {
    assert_int_equal(b->api->stream_wait(b->device, SG_STREAM_COMPUTE, NULL), SG_OK);
}

static sg_virtual_report report_of(const bench *b) {
    sg_virtual_report r;
    sg_virtual_read(b->device, &r);
    return r;
}

/* Ops of a sequence: they outlive the tape that they are recorded on. */
typedef struct three_ops {
    sg_sample_op s[3];
    sg_op ops[3];
} three_ops;

static void make_three(three_ops *t) {
    sg_make_matmul(&t->s[0], 2048, 2048, 2048, SG_COMPUTE_F32);
    sg_make_unary(&t->s[1], 1 << 22);
    sg_make_conv(&t->s[2], 32);
    for (int i = 0; i < 3; i++) {
        t->ops[i] = t->s[i].op;
        t->ops[i].desc = t->s[i].desc;
    }
}

/* One small training-like sequence with everything that advances a clock; with a tape, it goes there. Returns the host's
 * seconds. */
static double sequence(const sg_machine *m, const three_ops *three, sg_tape *tape) {
    bench b;
    bench_open(&b, m);
    sg_virtual_record_on(b.device, tape);
    sg_plan *plans[3];
    assert_int_equal(b.api->prepare(b.device, three->ops, 3, plans, NULL), SG_OK);
    sg_comm *comm = NULL;
    sg_event *ready = NULL;
    assert_int_equal(b.api->comm_create(b.device, &(sg_comm_options){.ranks = 4}, &comm, NULL), SG_OK);
    assert_int_equal(b.api->event_create(b.device, &ready, NULL), SG_OK);
    assert_int_equal(b.api->copy(b.device, NULL, NULL, 1 << 20, SG_COPY_TO_DEVICE, SG_STREAM_COPY, NULL), SG_OK);
    assert_int_equal(b.api->event_record(b.device, ready, SG_STREAM_COPY, NULL), SG_OK);
    assert_int_equal(b.api->event_wait(b.device, ready, SG_STREAM_COMPUTE, NULL), SG_OK);
    for (int i = 0; i < 12; i++) {
        work(&b, i % 2 ? SG_HOST_OP_FORWARD : SG_HOST_OP_BACKWARD, 1 + i % 3);
        work(&b, SG_HOST_VIEW_FORWARD, 2);
        run(&b, plans[i % 3]);
        if (i % 4 == 3) {
            assert_int_equal(b.api->event_record(b.device, ready, SG_STREAM_COMPUTE, NULL), SG_OK);
            assert_int_equal(b.api->event_wait(b.device, ready, SG_STREAM_COLLECTIVE, NULL), SG_OK);
            assert_int_equal(b.api->all_reduce_mean(b.device, comm, NULL, 3 << 20, SG_F32, NULL), SG_OK);
        }
        if (i == 5) {
            wait_all(&b);
            work(&b, SG_HOST_SYNC, 1);
        }
    }
    assert_int_equal(b.api->event_record(b.device, ready, SG_STREAM_COLLECTIVE, NULL), SG_OK);
    assert_int_equal(b.api->event_wait(b.device, ready, SG_STREAM_COMPUTE, NULL), SG_OK);
    assert_int_equal(b.api->host_idle(b.device, 1e-5, NULL), SG_OK);
    work(&b, SG_HOST_OPTIMIZER, 1);
    run(&b, plans[1]);
    wait_all(&b);
    double end = b.api->now(b.device);
    assert_true(end == report_of(&b).host_s);
    b.api->event_destroy(b.device, ready);
    b.api->comm_destroy(b.device, comm);
    b.api->plans_free(b.device, plans, 3);
    b.api->close(b.device);
    return end;
}

/* A tape replayed is the sequence itself, and its derivatives through waits, overlap and joins equal central differences, in
 * three regimes. */
static void test_clock_gradient(void **state) {
    (void)state;
    const double host_op[3] = {1e-7, 100e-6, 3e-3};
    three_ops three;
    make_three(&three);
    sg_tape *tape;
    sg_replay *replay;
    assert_int_equal(sg_tape_open(&tape, NULL), SG_OK);
    assert_int_equal(sg_tape_read(tape, SG_TAPE_NO_PART, NULL), SG_OK);
    sg_machine nothing;
    sg_machine_init(&nothing); /* recording needs no numbers */
    assert_true(sequence(&nothing, &three, tape) == 0);
    assert_int_equal(sg_tape_read(tape, 1, NULL), SG_OK);
    assert_int_equal(sg_replay_open(tape, &replay, NULL), SG_OK);
    for (int regime = 0; regime < 3; regime++) {
        sg_machine m = sg_round_machine();
        m.p[SG_M_HOST_OP_S].value = host_op[regime];
        m.p[SG_M_COLLECTIVE_STRETCH].value = 1.06;
        sg_tape_prices *prices;
        sg_replayed r;
        assert_int_equal(sg_tape_price(tape, &m, &prices, NULL), SG_OK);
        assert_int_equal(sg_replay_run(replay, prices, 4, 1, &r, NULL), SG_OK);
        double s = sequence(&m, &three, NULL), sum = 0;
        assert_true(r.report.host_s == s && r.reading[0] == 0 && r.reading[1] == s);
        for (int i = 0; i < SG_M_COUNT; i++) {
            const double h = 1e-6;
            sg_machine up = m, down = m;
            up.p[i].value *= exp(h);
            down.p[i].value *= exp(-h);
            double numeric = (sequence(&up, &three, NULL) - sequence(&down, &three, NULL)) / (2 * h);
            assert_near(r.by_log[1][i] / s, numeric / s, 1e-5);
            assert_true(r.by_log[0][i] == 0);
            sum += fabs(r.by_log[1][i]);
        }
        assert_true(sum > 0.5 * s);
        sg_tape_prices_close(prices);
    }
    sg_replay_close(replay);
    sg_tape_close(tape);
}

/* What a tape lacks on a machine is named when it is priced. */
static void test_tape_refusals(void **state) {
    (void)state;
    three_ops three;
    make_three(&three);
    sg_tape *tape;
    sg_status status;
    sg_tape_prices *prices;
    assert_int_equal(sg_tape_open(&tape, NULL), SG_OK);
    (void)sequence(&(sg_machine){.name = "round"}, &three, tape);
    assert_int_equal(sg_tape_read(tape, SG_TAPE_PARTS, &status), SG_BAD_INPUT);
    static const sg_machine_id needed[] = {SG_M_EFF_CONV, SG_M_HOST_SYNC_S, SG_M_COPY_BANDWIDTH};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        sg_machine m = sg_round_machine();
        m.p[needed[i]].value = NAN;
        assert_int_equal(sg_tape_price(tape, &m, &prices, &status), SG_NO);
        assert_null(prices);
        assert_non_null(strstr(status.text, sg_machine_key(needed[i])));
    }
    sg_machine m = sg_round_machine();
    sg_replay *replay;
    sg_replayed r;
    m.p[SG_M_COLLECTIVE_LATENCY_S].value = NAN;
    assert_int_equal(sg_tape_price(tape, &m, &prices, NULL), SG_OK);
    assert_int_equal(sg_replay_open(tape, &replay, NULL), SG_OK);
    assert_int_equal(sg_replay_run(replay, prices, 4, 1, &r, &status), SG_NO);
    assert_non_null(strstr(status.text, "collective_latency_s"));
    assert_int_equal(sg_replay_run(replay, prices, 1, 1, &r, &status), SG_OK);
    assert_true(r.report.collective_busy_s == 0);
    sg_replay_close(replay);
    sg_tape_prices_close(prices);
    sg_tape_close(tape);
}

static sg_machine without_host(void) {
    sg_machine m = sg_round_machine();
    m.p[SG_M_HOST_OP_S].value = m.p[SG_M_HOST_OPTIMIZER_S].value = m.p[SG_M_HOST_SYNC_S].value = 0;
    return m;
}

/* Zero host cost, one stream: the host's clock after a wait is the sum of prices. */
static void test_no_host_is_sum_of_prices(void **state) {
    (void)state;
    sg_machine m = without_host();
    bench b;
    bench_open(&b, &m);
    sg_sample_op s[2];
    sg_make_matmul(&s[0], 512, 512, 512, SG_COMPUTE_BF16);
    sg_make_unary(&s[1], 1 << 20);
    sg_op ops[2] = {s[0].op, s[1].op};
    sg_plan *plans[2];
    assert_int_equal(b.api->prepare(b.device, ops, 2, plans, NULL), SG_OK);
    double expected = 0;
    for (int i = 0; i < 100; i++) {
        work(&b, SG_HOST_OP_FORWARD, 1);
        run(&b, plans[i % 2]);
        expected += sg_op_price_s(&m, &ops[i % 2]);
    }
    assert_true(b.api->now(b.device) == 0); /* nothing waited yet */
    wait_all(&b);
    assert_near(b.api->now(b.device) / expected, 1, 1e-12);
    sg_virtual_report r = report_of(&b);
    assert_near(r.device_busy_s / expected, 1, 1e-12);
    assert_near((r.class_s[SG_CLASS_GEMM] + r.class_s[SG_CLASS_ELEMENTWISE]) / expected, 1, 1e-12);
    assert_true(r.host_busy_s == 0);
    b.api->plans_free(b.device, plans, 2);
    b.api->close(b.device);
}

/* Zero prices: the step is the sum of host costs. Each class costs what the machine says. */
static void test_no_prices_is_sum_of_host(void **state) {
    (void)state;
    sg_machine m = sg_round_machine();
    for (int i = SG_M_PEAK_F32; i <= SG_M_BANDWIDTH; i++) m.p[i].value = 1e300;
    m.p[SG_M_KERNEL_START_S].value = m.p[SG_M_KERNEL_FLOOR_S].value = 0;
    bench b;
    bench_open(&b, &m);
    sg_sample_op s;
    sg_make_unary(&s, 1 << 20);
    sg_plan *plan;
    assert_int_equal(b.api->prepare(b.device, &s.op, 1, &plan, NULL), SG_OK);
    work(&b, SG_HOST_OP_FORWARD, 7);
    run(&b, plan);
    work(&b, SG_HOST_OP_BACKWARD, 5);
    work(&b, SG_HOST_VIEW_FORWARD, 11);
    work(&b, SG_HOST_VIEW_BACKWARD, 13);
    work(&b, SG_HOST_OPTIMIZER, 3); /* tensors */
    work(&b, SG_HOST_SYNC, 2);
    wait_all(&b);
    double expected = 7 * 10e-6 + 5 * 5e-6 + 11 * 3e-6 + (3 * 100 * 10e-6 + 1e-3) + 2 * 15e-6;
    assert_near(b.api->now(b.device) / expected, 1, 1e-9);
    assert_near(report_of(&b).host_busy_s / expected, 1, 1e-9);
    b.api->plans_free(b.device, &plan, 1);
    b.api->close(b.device);
}

/* An allocation from the driver costs the host what the machine says, and nothing where it says nothing. */
static void test_segments_cost_the_host(void **state) {
    (void)state;
    sg_machine m = sg_round_machine();
    for (int stated = 0; stated < 2; stated++) {
        m.p[SG_M_HOST_SEGMENT_S].value = stated ? 2e-4 : NAN;
        bench b;
        void *segment;
        bench_open(&b, &m);
        for (int i = 0; i < 3; i++) assert_int_equal(b.api->segment_alloc(b.device, 1 << 21, &segment, NULL), SG_OK);
        assert_near(b.api->now(b.device), stated ? 6e-4 : 0, 1e-12);
        b.api->close(b.device);
    }
}

/* On a CPU the host computes: times add, whatever their size. */
static void test_in_line_cpu(void **state) {
    (void)state;
    sg_machine m = sg_round_machine();
    (void)snprintf(m.device_class, sizeof m.device_class, "cpu");
    bench b;
    bench_open(&b, &m);
    sg_sample_op s;
    sg_make_unary(&s, 1 << 24);
    sg_plan *plan;
    assert_int_equal(b.api->prepare(b.device, &s.op, 1, &plan, NULL), SG_OK);
    for (int i = 0; i < 3; i++) {
        work(&b, SG_HOST_OP_FORWARD, 4);
        run(&b, plan);
    }
    assert_near(b.api->now(b.device) / (3 * (40e-6 + sg_op_price_s(&m, &s.op))), 1, 1e-12);
    b.api->plans_free(b.device, &plan, 1);
    b.api->close(b.device);
}

/* busbw law, one stream of collectives, and compute stretched exactly where they overlap. */
static void test_collectives(void **state) {
    (void)state;
    sg_machine m = without_host();
    bench b;
    bench_open(&b, &m);
    sg_comm *comm;
    assert_int_equal(b.api->comm_create(b.device, &(sg_comm_options){.ranks = 4}, &comm, NULL), SG_OK);
    sg_sample_op s;
    sg_make_matmul(&s, 4096, 4096, 4096, SG_COMPUTE_F32);
    sg_plan *plan;
    assert_int_equal(b.api->prepare(b.device, &s.op, 1, &plan, NULL), SG_OK);
    double alone = sg_op_price_s(&m, &s.op);
    const int64_t count = 25 << 18; /* 25 MiB of fp32 */
    double each = 2.0 * 3 / 4 * 4 * (double)count / 100e9 + 50e-6;
    assert_true(3 * each < alone);
    for (int i = 0; i < 3; i++)
        assert_int_equal(b.api->all_reduce_mean(b.device, comm, NULL, count, SG_F32, NULL), SG_OK);
    run(&b, plan);
    wait_all(&b);
    /* 3 collectives of work done at 1/1.25, the rest at full speed */
    assert_near(b.api->now(b.device) / (alone + 3 * each * (1 - 1 / 1.25)), 1, 1e-9);
    assert_near(report_of(&b).collective_busy_s / (3 * each), 1, 1e-9);

    sg_virtual_reset(b.device);
    assert_true(b.api->now(b.device) == 0);
    assert_int_equal(b.api->all_gather(b.device, comm, NULL, NULL, count / 4, SG_F32, NULL), SG_OK);
    assert_int_equal(b.api->reduce_scatter_mean(b.device, comm, NULL, NULL, count / 4, SG_F32, NULL), SG_OK);
    assert_int_equal(b.api->stream_wait(b.device, SG_STREAM_COLLECTIVE, NULL), SG_OK);
    assert_near(b.api->now(b.device) / (each + 50e-6), 1, 1e-9); /* the two halves of an all-reduce */
    b.api->comm_destroy(b.device, comm);

    /* one rank: free */
    sg_virtual_reset(b.device);
    assert_int_equal(b.api->comm_create(b.device, &(sg_comm_options){.ranks = 1}, &comm, NULL), SG_OK);
    assert_int_equal(b.api->all_reduce_mean(b.device, comm, NULL, count, SG_F32, NULL), SG_OK);
    assert_int_equal(b.api->stream_wait(b.device, SG_STREAM_COLLECTIVE, NULL), SG_OK);
    assert_true(b.api->now(b.device) == 0);
    b.api->comm_destroy(b.device, comm);
    sg_status status;
    assert_int_equal(b.api->comm_create(b.device, &(sg_comm_options){.ranks = 0}, &comm, &status), SG_BAD_INPUT);
    b.api->plans_free(b.device, &plan, 1);
    b.api->close(b.device);

    m.p[SG_M_COLLECTIVE_BUSBW].value = NAN;
    bench_open(&b, &m);
    assert_int_equal(b.api->comm_create(b.device, &(sg_comm_options){.ranks = 2}, &comm, &status), SG_NO);
    assert_non_null(strstr(status.text, "collective_busbw"));
    b.api->close(b.device);
}

/* Copies run beside compute and cost bytes / bandwidth; idle time passes on the host alone. */
static void test_copies_and_idle(void **state) {
    (void)state;
    sg_machine m = without_host();
    bench b;
    bench_open(&b, &m);
    assert_int_equal(b.api->copy(b.device, NULL, NULL, 10000000, SG_COPY_TO_DEVICE, SG_STREAM_COPY, NULL), SG_OK);
    wait_all(&b);
    assert_true(b.api->now(b.device) == 0);
    assert_int_equal(b.api->stream_wait(b.device, SG_STREAM_COPY, NULL), SG_OK);
    assert_near(b.api->now(b.device), 1e-3, 1e-12);
    assert_int_equal(b.api->host_idle(b.device, 0.25, NULL), SG_OK);
    assert_near(b.api->now(b.device), 0.251, 1e-12);
    sg_event *e;
    double at;
    assert_int_equal(b.api->event_create(b.device, &e, NULL), SG_OK);
    assert_int_equal(b.api->event_record(b.device, e, SG_STREAM_COMPUTE, NULL), SG_OK);
    assert_int_equal(b.api->event_seconds(b.device, e, &at, NULL), SG_OK);
    assert_near(at, 0.251, 1e-12);
    b.api->event_destroy(b.device, e);
    sg_status status;
    assert_int_equal(b.api->host_idle(b.device, -1, &status), SG_BAD_INPUT);
    assert_int_equal(b.api->host_idle(b.device, NAN, &status), SG_BAD_INPUT);
    b.api->close(b.device);
}

/* Addresses differ, are aligned and end where the machine's memory (less the context) ends. */
static void test_memory(void **state) {
    (void)state;
    sg_machine m = sg_round_machine();
    bench b;
    bench_open(&b, &m);
    void *one, *two, *three;
    sg_status status;
    assert_int_equal(b.api->segment_alloc(b.device, (uint64_t)4 << 30, &one, &status), SG_OK);
    assert_int_equal(b.api->segment_alloc(b.device, 1, &two, &status), SG_OK);
    assert_true((uintptr_t)one % 512 == 0 && (uintptr_t)two % 512 == 0);
    assert_true((uintptr_t)two >= (uintptr_t)one + ((uint64_t)4 << 30));
    /* 8 GiB - 0.5 GiB context - 4 GiB - 1 byte are left */
    uint64_t left = ((uint64_t)7 << 29) - 1;
    assert_int_equal(b.api->segment_alloc(b.device, left + 1, &three, &status), SG_NO);
    assert_null(three);
    assert_non_null(strstr(status.text, "out of memory"));
    assert_int_equal(b.api->segment_alloc(b.device, left, &three, &status), SG_OK);
    b.api->segment_free(b.device, one, (uint64_t)4 << 30);
    assert_int_equal(b.api->segment_alloc(b.device, (uint64_t)4 << 30, &one, &status), SG_OK);
    assert_true(one != two && one != three);
    assert_int_equal(b.api->segment_alloc(b.device, UINT64_MAX, &one, &status), SG_NO);
    b.api->close(b.device);
    m.memory_bytes = 0; /* unknown: no limit but the address range */
    bench_open(&b, &m);
    assert_int_equal(b.api->segment_alloc(b.device, (uint64_t)1 << 50, &one, &status), SG_OK);
    assert_int_equal(b.api->segment_alloc(b.device, UINT64_MAX, &one, &status), SG_NO);
    b.api->close(b.device);
}

/* Refusals name the op and what is missing; nothing is prepared then. */
static void test_refusals(void **state) {
    (void)state;
    const sg_device_api *api = sg_virtual_device();
    sg_status status;
    sg_device *none;
    assert_int_equal(api->open(&(sg_device_options){0}, &none, &status), SG_BAD_INPUT);
    sg_machine m = sg_round_machine();
    m.p[SG_M_EFF_CONV].value = m.p[SG_M_HOST_OP_S].value = NAN;
    bench b;
    bench_open(&b, &m);
    sg_sample_op s[2];
    sg_make_unary(&s[0], 8);
    sg_make_conv(&s[1], 8);
    sg_op ops[2] = {s[0].op, s[1].op};
    sg_plan *plans[2];
    assert_int_equal(api->prepare(b.device, ops, 2, plans, &status), SG_NO);
    assert_non_null(strstr(status.text, "CONV"));
    assert_non_null(strstr(status.text, "eff_conv"));
    assert_int_equal(api->host_work(b.device, SG_HOST_OP_FORWARD, 1, &status), SG_NO);
    assert_non_null(strstr(status.text, "host_op_s"));
    sg_device_info info;
    assert_int_equal(api->info(b.device, &info, &status), SG_OK);
    assert_false(info.executes);
    assert_true(info.caching);
    api->close(b.device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_gradient),
        cmocka_unit_test(test_tape_refusals),
        cmocka_unit_test(test_no_host_is_sum_of_prices),
        cmocka_unit_test(test_no_prices_is_sum_of_host),
        cmocka_unit_test(test_segments_cost_the_host),
        cmocka_unit_test(test_in_line_cpu),
        cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_copies_and_idle),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
