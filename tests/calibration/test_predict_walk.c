/* A course replayed is the walk itself: the same seconds to the last bit, for every family, on a GPU, on a CPU, with one rank
 * and several, sharded, captured; and its derivatives are the walk's own differences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calibration/predict/predict_walk.h"
#include "sim/walk/environment.h"
#include "tests/support/small_policies.h"

static const double ENV_STEP_S = 3e-4;

/* Numbers of no machine in particular. host: seconds of an op, which decides what limits. */
static sg_machine machine_of(const char *device_class, double host_op_s, bool caching) {
    sg_machine m;
    sg_machine_init(&m);
    (void)snprintf(m.name, sizeof m.name, "made-up");
    (void)snprintf(m.device_class, sizeof m.device_class, "%s", device_class);
    m.caching_allocator = caching;
    m.bf16 = m.fp16 = m.tf32 = true;
    for (int i = 0; i < SG_M_COUNT; i++)
        if (!(m.p[i].value > 0)) m.p[i].value = 1;
    for (int i = SG_M_PEAK_F32; i <= SG_M_PEAK_F16; i++) m.p[i].value = 1.1e13 * (1 + 0.3 * i);
    for (int i = SG_M_EFF_GEMM; i <= SG_M_EFF_OPTIMIZER; i++) m.p[i].value = 0.4 + 0.017 * i;
    m.p[SG_M_BANDWIDTH].value = 0.9e12;
    m.p[SG_M_KERNEL_START_S].value = 3.3e-6;
    m.p[SG_M_KERNEL_FLOOR_S].value = 2.1e-6;
    m.p[SG_M_HOST_OP_S].value = host_op_s;
    m.p[SG_M_HOST_BACKWARD].value = 0.55;
    m.p[SG_M_HOST_VIEW].value = 0.31;
    m.p[SG_M_HOST_OPTIMIZER_OPS].value = 0.7;
    m.p[SG_M_HOST_OPTIMIZER_S].value = 30 * host_op_s;
    m.p[SG_M_HOST_SYNC_S].value = 2.3 * host_op_s;
    m.p[SG_M_COPY_BANDWIDTH].value = 1.2e10;
    m.p[SG_M_COLLECTIVE_BUSBW].value = 2.2e9;
    m.p[SG_M_COLLECTIVE_LATENCY_S].value = 1.9e-5;
    m.p[SG_M_COLLECTIVE_RANK_S].value = 2.7e-6;
    m.p[SG_M_COLLECTIVE_LOCAL].value = 4.1e9;
    m.p[SG_M_COLLECTIVE_POWER].value = 0.97;
    m.p[SG_M_COLLECTIVE_SWITCH].value = 2.9e9;
    m.p[SG_M_COLLECTIVE_SMALL_S].value = 1.4e-5;
    m.p[SG_M_COLLECTIVE_SMALL].value = 0.7e9;
    m.p[SG_M_COLLECTIVE_PAIR].value = 3.1e9;
    m.p[SG_M_NETWORK].value = 1.3e9;
    m.p[SG_M_NETWORK_LATENCY_S].value = 4.3e-5;
    m.p[SG_M_OVERLAP_STRETCH].value = 1.17;
    m.p[SG_M_COLLECTIVE_STRETCH].value = 1.08;
    return m;
}

typedef struct walk_case {
    bool processor, graph;
    int ranks;
} walk_case;

static sg_bucket_options small_buckets(void) {
    return (sg_bucket_options){.first_bytes = 1 << 10, .bytes = 1 << 13}; /* many, so that they overlap */
}

/* An iteration as the walker and the device make it, call by call. */
static void walk(const sg_training *t, const sg_machine *m, const walk_case *c, sg_step_times *times,
                 sg_virtual_report *report, sg_memory_peak *peak) {
    const sg_device_api *api = sg_virtual_device();
    sg_walk_options o = {.api = api, .seed = 1, .ranks = c->ranks, .graph = c->graph, .buckets = small_buckets()};
    sg_environment *environment = NULL;
    sg_walker *walker;
    sg_status status;
    assert_int_equal(api->open(&(sg_device_options){.machine = m}, &o.device, NULL), SG_OK);
    sg_virtual_free_segments(o.device, true); /* as for a course whose memory is not given back */
    if (c->ranks > 1)
        assert_int_equal(api->comm_create(o.device, &(sg_comm_options){.ranks = c->ranks}, &o.comm, NULL), SG_OK);
    if (t->envs > 0) {
        sg_environment_options eo = {.env_step_s = ENV_STEP_S, .envs = t->envs, .simulated = true};
        assert_int_equal(sg_environment_open(&eo, &environment, NULL), SG_OK);
        o.environment = environment;
    }
    if (sg_walker_open(t, &o, &walker, &status)) fail_msg("%s", status.text);
    for (int i = 0; i < (c->graph ? 3 : 2); i++) {
        sg_virtual_reset(o.device);
        if (sg_walker_iteration(walker, times, &status)) fail_msg("%s", status.text);
    }
    sg_virtual_read(o.device, report);
    sg_walker_peak(walker, peak);
    sg_walker_close(walker);
    sg_environment_close(environment);
    if (o.comm) api->comm_destroy(o.device, o.comm);
    api->close(o.device);
}

static void replay(sg_course *course, const sg_machine *m, int ranks, sg_walked *walked) {
    sg_tape_prices *prices;
    sg_status status;
    if (sg_tape_price(sg_course_tape(course), m, &prices, &status)) fail_msg("%s", status.text);
    if (sg_course_walk(course, prices, ranks, ENV_STEP_S, walked, &status)) fail_msg("%s", status.text);
    sg_tape_prices_close(prices);
}

static bool same_report(const sg_virtual_report *a, const sg_virtual_report *b) {
    bool same = a->host_s == b->host_s && a->host_busy_s == b->host_busy_s && a->device_busy_s == b->device_busy_s &&
                a->collective_busy_s == b->collective_busy_s;
    for (int c = 0; c < SG_CLASS_COUNT; c++) same = same && a->class_s[c] == b->class_s[c];
    return same;
}

static sg_course *course_of(const sg_training *t, const walk_case *c, bool caching) {
    sg_course_options options = {.processor = c->processor,
                                 .several = c->ranks > 1,
                                 .caching = caching,
                                 .graph = c->graph,
                                 .buckets = small_buckets()};
    sg_course *course;
    sg_status status;
    if (sg_course_open(t, &options, &course, &status)) fail_msg("%s", status.text);
    return course;
}

static const double HOST_OP_S[3] = {1e-8, 4e-6, 1e-4};

/* One course stands for all machines and numbers of ranks. */
static void compare(const sg_training *t, const walk_case *c, const char *what) {
    bool caching = !c->processor;
    sg_course *course = course_of(t, c, caching);
    for (int k = 0; k < 3; k++)
        for (int more = 0; more < (c->ranks > 1 && !t->n_shards ? 2 : 1); more++) {
            sg_machine m = machine_of(c->processor ? "cpu" : "cuda", HOST_OP_S[k], caching);
            sg_walked walked;
            sg_step_times times;
            sg_virtual_report report;
            sg_memory_peak peak;
            walk_case one = *c;
            one.ranks += 5 * more;
            walk(t, &m, &one, &times, &report, &peak);
            replay(course, &m, one.ranks, &walked);
            assert_true(report.host_s > 0 && times.iteration_s > 0);
            if (c->ranks > 1) assert_true(report.collective_busy_s > 0);
            if (memcmp(&times, &walked.times, sizeof times) != 0)
                fail_msg("%s: times differ: %.17g, %.17g", what, times.iteration_s, walked.times.iteration_s);
            if (!same_report(&report, &walked.report)) fail_msg("%s: reports differ", what);
            assert_true(peak.allocated_bytes == walked.peak.allocated_bytes &&
                        peak.reserved_bytes == walked.peak.reserved_bytes && peak.entry == walked.peak.entry);
        }
    sg_course_close(course);
}

static void test_replay_is_the_walk(void **state) {
    (void)state;
    static const walk_case cases[] = {{.ranks = 1}, {.ranks = 3}, {.ranks = 1, .processor = true}};
    for (int policy = 0; policy < SG_SMALL_COUNT; policy++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            sg_small_setting setting = SG_SMALL_SETTING[0];
            setting.device_class = cases[i].processor ? SG_DEVICE_CLASS_CPU : SG_DEVICE_CLASS_CUDA;
            sg_small_options options = {.ranks = cases[i].ranks, .clip = true};
            sg_training *t = sg_small_build((sg_small)policy, &setting, &options);
            compare(t, &cases[i], sg_small_name((sg_small)policy));
            sg_training_free(t);
        }
}

static void test_accumulated_sharded_and_captured(void **state) {
    (void)state;
    sg_small_setting setting = SG_SMALL_SETTING[0];
    setting.device_class = SG_DEVICE_CLASS_CUDA;
    sg_training *t = sg_small_build(SG_SMALL_ACT, &setting, &(sg_small_options){.accumulation = 3, .ranks = 2});
    compare(t, &(walk_case){.ranks = 2}, "accumulation");
    sg_training_free(t);
    t = sg_small_build(SG_SMALL_ACT, &setting, &(sg_small_options){.sharding = "full", .ranks = 2});
    compare(t, &(walk_case){.ranks = 2}, "sharding");
    sg_training_free(t);
    t = sg_small_build(SG_SMALL_SMOLVLA, &setting, &(sg_small_options){.clip = true});
    compare(t, &(walk_case){.ranks = 1, .graph = true}, "graph");
    sg_training_free(t);
    t = sg_small_build(SG_SMALL_MLP, &setting, &(sg_small_options){.clip = true, .ranks = 2});
    compare(t, &(walk_case){.ranks = 2, .graph = true}, "graph of ranks");
    sg_training_free(t);
}

/* Derivatives of every phase, the host's and the device's work, by every parameter, against differences of replays. */
static void test_derivatives(void **state) {
    (void)state;
    static const sg_small policies[] = {SG_SMALL_ACT, SG_SMALL_PPO};
    for (int k = 0; k < 6; k++) {
        sg_small_setting setting = SG_SMALL_SETTING[0];
        setting.device_class = SG_DEVICE_CLASS_CUDA;
        sg_training *t = sg_small_build(policies[k % 2], &setting, &(sg_small_options){.ranks = 2, .clip = true});
        const walk_case c = {.ranks = 2};
        sg_course *course = course_of(t, &c, true);
        sg_machine m = machine_of("cuda", HOST_OP_S[k / 2], true);
        sg_walked at, up, down;
        replay(course, &m, 2, &at);
        for (int i = 0; i < SG_M_COUNT; i++) {
            const double h = 1e-7;
            sg_machine bent = m;
            bent.p[i].value = m.p[i].value * exp(h);
            replay(course, &bent, 2, &up);
            bent.p[i].value = m.p[i].value * exp(-h);
            replay(course, &bent, 2, &down);
            double whole = at.times.iteration_s, sum = 0;
            for (int p = 0; p < SG_PHASE_COUNT; p++) sum += at.by_log[p][i];
            double numeric = (up.times.iteration_s - down.times.iteration_s) / (2 * h);
            assert_true(fabs(sum - numeric) < 1e-5 * whole);
            numeric = (up.times.update_s - down.times.update_s) / (2 * h);
            assert_true(fabs(at.by_log[SG_PHASE_UPDATE][i] - numeric) < 1e-5 * whole);
            numeric = (up.report.host_busy_s - down.report.host_busy_s) / (2 * h);
            assert_true(fabs(at.host_by_log[i] - numeric) < 1e-5 * whole);
        }
        /* without stretch the device's work is the sum of its prices */
        sg_machine plain = m, bent = m;
        plain.p[SG_M_OVERLAP_STRETCH].value = bent.p[SG_M_OVERLAP_STRETCH].value = 1;
        bent.p[SG_M_BANDWIDTH].value *= 1 + 1e-7;
        replay(course, &plain, 2, &at);
        replay(course, &bent, 2, &up);
        double numeric = (up.report.device_busy_s - at.report.device_busy_s) / 1e-7;
        assert_true(fabs(at.device_by_log[SG_M_BANDWIDTH] - numeric) < 1e-5 * at.report.device_busy_s);
        assert_true(numeric < 0);
        sg_course_close(course);
        sg_training_free(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay_is_the_walk),
        cmocka_unit_test(test_accumulated_sharded_and_captured),
        cmocka_unit_test(test_derivatives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
