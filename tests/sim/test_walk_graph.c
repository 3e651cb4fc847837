/* The main program recorded and replayed: it computes what the plain walk computes, to the bit, in the same memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/virtual/machine.h"
#include "sim/walk/walk.h"
#include "tests/reference/reference.h"
#include "tests/support/graph_device.h"
#include "tests/support/small_policies.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/watch_device.h"

enum { ITERATIONS = 4 };

typedef struct outcome {
    double *values; /* weights, buffers and moments, one after the other */
    size_t n;
    sg_memory_peak peak;
    sg_walk_graph graph;
    sg_step_times times; /* of the last iteration */
} outcome;

static void append(outcome *o, const sg_training *t, sg_walker *w, int32_t tensor) {
    if (tensor < 0) return;
    size_t n = (size_t)sg_desc_count(&t->tensors[tensor].desc);
    o->values = realloc(o->values, (o->n + n) * sizeof *o->values);
    assert_non_null(o->values);
    sg_status status = {0};
    if (sg_walker_read(w, tensor, o->values + o->n, n, &status)) fail_msg("%s", status.text);
    o->n += n;
}

static outcome train(const sg_training *t, sg_walk_options options) {
    outcome o = {0};
    sg_walker *w = NULL;
    sg_status status = {0};
    if (sg_walker_open(t, &options, &w, &status)) fail_msg("%s", status.text);
    for (int i = 0; i < ITERATIONS; i++) {
        if (i == 2) sg_walker_reset_peak(w);
        if (sg_walker_iteration(w, &o.times, &status)) fail_msg("%s: %s", t->policy, status.text);
    }
    for (size_t i = 0; i < t->n_parameters; i++) {
        append(&o, t, w, t->parameters[i].tensor);
        append(&o, t, w, t->parameters[i].state[0]);
        append(&o, t, w, t->parameters[i].state[1]);
    }
    sg_walker_peak(w, &o.peak);
    sg_walker_graph(w, &o.graph);
    sg_walker_close(w);
    return o;
}

static outcome train_alone(const sg_training *t, int kind, bool graph, bool placed) {
    const sg_device_api *api = sg_graph_device_api();
    sg_device *d;
    assert_int_equal(api->open(&(sg_device_options){.index = kind}, &d, NULL), SG_OK);
    outcome o =
        train(t, (sg_walk_options){.api = api, .device = d, .seed = 3, .graph = graph, .placed_storages = placed});
    api->close(d);
    return o;
}

static void expect_equal(const char *name, const outcome *plain, const outcome *graph) {
    assert_int_equal(plain->n, graph->n);
    if (memcmp(plain->values, graph->values, plain->n * sizeof *plain->values) != 0)
        fail_msg("%s: the replayed training differs", name);
}

static void compare(sg_small which, const sg_small_options *options, int kind, bool placed) {
    const sg_small_setting *setting = &SG_SMALL_SETTING[placed ? 2 : 0];
    sg_training *t = sg_small_build(which, setting, options);
    outcome plain = train_alone(t, kind, false, placed), graph = train_alone(t, kind, true, placed);
    expect_equal(sg_small_name(which), &plain, &graph);
    int64_t runs = ITERATIONS * t->optimizer_steps;
    assert_int_equal(plain.graph.replays, 0);
    assert_int_equal(graph.graph.replays, runs - 1); /* the first makes the optimizer's state */
    assert_true(graph.graph.recordings >= 1);
    if (kind == SG_REFERENCE_CACHING || options->accumulation < 2) assert_int_equal(graph.graph.recordings, 1);
    assert_int_equal(graph.graph.moved_waits, sg_count_program(t, sg_main_program(t)).waits);
    assert_int_equal(plain.peak.allocated_bytes > 0, 1);
    if (placed) assert_int_equal(graph.peak.allocated_bytes, plain.peak.allocated_bytes);
    if (!placed) {
        assert_true(graph.graph.reserved_bytes > 0);
        assert_true(graph.peak.reserved_bytes >= graph.peak.allocated_bytes);
    }
    if (kind == SG_REFERENCE_CACHING) assert_int_equal(graph.peak.allocated_bytes, plain.peak.allocated_bytes);
    assert_true(graph.times.update_s > 0 && graph.times.update_device_s > 0);
    if (options->accumulation < 2) assert_true(graph.times.forward_s == 0 && graph.times.backward_s == 0);
    free(plain.values);
    free(graph.values);
    sg_training_free(t);
    assert_int_equal(sg_graph_device_live(), 0);
}

static void replays_compute_the_same(void **state) {
    (void)state;
    static const sg_small which[] = {SG_SMALL_ACT, SG_SMALL_PPO, SG_SMALL_TOKENS, SG_SMALL_MLP};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++)
        for (int kind = 0; kind < 2; kind++) compare(which[i], &(sg_small_options){.clip = true}, kind, false);
    compare(SG_SMALL_MLP, &(sg_small_options){.precision = "fp16", .clip = true}, SG_REFERENCE_CACHING, false);
    compare(SG_SMALL_TOKENS, &(sg_small_options){0}, SG_REFERENCE_CPU, true);
    for (int kind = 0; kind < 2; kind++) compare(SG_SMALL_MLP, &(sg_small_options){.accumulation = 3}, kind, false);
}

/* ---- ranks ---- */

typedef struct ranked {
    const sg_training *training;
    outcome outcome[2][2]; /* graph, rank */
} ranked;

static void rank_trains(void *user, int rank) {
    ranked *r = user;
    const sg_device_api *api = sg_graph_device_api();
    sg_device *d;
    sg_comm *comm;
    if (api->open(&(sg_device_options){.index = SG_REFERENCE_CACHING}, &d, NULL)) abort();
    if (api->comm_create(d, &(sg_comm_options){.rank = rank, .ranks = 2}, &comm, NULL)) abort();
    for (int graph = 0; graph < 2; graph++)
        r->outcome[graph][rank] = train(r->training, (sg_walk_options){.api = api,
                                                                       .device = d,
                                                                       .seed = 3,
                                                                       .rank = rank,
                                                                       .ranks = 2,
                                                                       .comm = comm,
                                                                       .buckets = {1024, 4096},
                                                                       .graph = graph != 0});
    api->comm_destroy(d, comm);
    api->close(d);
}

static void ranks_replay_their_exchange(void **state) {
    (void)state;
    ranked r = {.training = sg_small_build(SG_SMALL_MLP, &SG_SMALL_SETTING[0], &(sg_small_options){.ranks = 2})};
    sg_thread_ranks_run(2, rank_trains, &r);
    for (int rank = 0; rank < 2; rank++) expect_equal("mlp", &r.outcome[0][rank], &r.outcome[1][rank]);
    expect_equal("mlp", &r.outcome[1][0], &r.outcome[1][1]);
    assert_int_equal(r.outcome[1][0].graph.replays, ITERATIONS - 1);
    for (int i = 0; i < 4; i++) free(r.outcome[i / 2][i % 2].values);
    sg_training_free((sg_training *)r.training);
}

/* ---- refusals and failures ---- */

static void refuse(const sg_training *t, sg_walk_options o, sg_code code, const char *part) {
    sg_walker *w;
    sg_status status = {0};
    assert_int_equal(sg_walker_open(t, &o, &w, &status), code);
    assert_null(w);
    if (!strstr(status.text, part)) fail_msg("'%s' does not say '%s'", status.text, part);
}

static void what_cannot_be_recorded_is_refused(void **state) {
    (void)state;
    sg_training *t = sg_small_build(SG_SMALL_MLP, &SG_SMALL_SETTING[0], &(sg_small_options){0});
    sg_device *d;
    assert_int_equal(sg_reference_device()->open(NULL, &d, NULL), SG_OK);
    refuse(t, (sg_walk_options){.api = sg_reference_device(), .device = d, .graph = true}, SG_NO, "records no graphs");
    refuse(t, (sg_walk_options){.api = sg_graph_device_api(), .device = d, .graph = true, .fixed_random = true},
           SG_BAD_INPUT, "not fixed");
    sg_reference_device()->close(d);
    sg_training_free(t);
}

static void every_failure_is_survived(void **state) {
    (void)state;
    sg_training *t = sg_small_build(SG_SMALL_MLP, &SG_SMALL_SETTING[0], &(sg_small_options){.accumulation = 2});
    sg_device *d;
    const sg_device_api *api = sg_graph_device_api();
    assert_int_equal(api->open(&(sg_device_options){.index = SG_REFERENCE_CACHING}, &d, NULL), SG_OK);
    for (int call = 0; call < SG_WATCH_ALL_REDUCE; call++) {
        bool reached = true;
        for (int64_t k = 1; reached; k++) {
            sg_watch watch = {.fail_call = (sg_watch_call)call, .fail_at = k, .fail_code = SG_MACHINE};
            sg_walk_options o = {.api = sg_watch_api(), .device = sg_watch_open(&watch, api, d), .graph = true};
            sg_walker *w = NULL;
            sg_status status = {0};
            sg_code code = sg_walker_open(t, &o, &w, &status);
            for (int i = 0; i < 3 && w && !code; i++) code = sg_walker_iteration(w, NULL, &status);
            reached = watch.calls[call] >= k;
            if (reached && code && !strstr(status.text, "told to fail")) fail_msg("%s", status.text);
            if (reached && call == SG_WATCH_GRAPH) assert_int_equal(code, SG_MACHINE);
            for (int i = 0; i < 3 && w && reached; i++)
                if (sg_walker_iteration(w, NULL, &status))
                    fail_msg("call %d number %lld: %s", call, (long long)k, status.text);
            sg_walker_close(w);
            assert_int_equal(watch.segments, 0);
            assert_int_equal(watch.events, 0);
            assert_int_equal(watch.plans, 0);
            if (sg_graph_device_live())
                fail_msg("call %d number %lld left %lld recordings", call, (long long)k,
                         (long long)sg_graph_device_live());
            sg_watch_close(o.device);
        }
    }
    api->close(d);
    sg_training_free(t);
}

/* ---- priced ---- */

/* With a slow host a plain update takes as long as its dispatches, a replay one dispatch and what the device needs. */
static void a_replay_costs_one_dispatch(void **state) {
    (void)state;
    sg_machine m;
    sg_machine_init(&m);
    (void)snprintf(m.device_class, sizeof m.device_class, "cuda");
    for (int i = 0; i < SG_M_COUNT; i++) m.p[i].value = 1;
    /* links by bandwidth and latency alone */
    for (int i = SG_M_COLLECTIVE_RANK_S; i <= SG_M_NETWORK_LATENCY_S; i++) m.p[i].value = NAN;
    for (int i = SG_M_PEAK_F32; i <= SG_M_BANDWIDTH; i++) m.p[i].value = 1e12;
    m.p[SG_M_KERNEL_START_S].value = m.p[SG_M_KERNEL_FLOOR_S].value = 1e-3;
    m.p[SG_M_COPY_BANDWIDTH].value = 1e12;
    m.p[SG_M_HOST_SYNC_S].value = 0;
    m.p[SG_M_CONTEXT_BYTES].value = 0;
    m.memory_bytes = (uint64_t)1 << 30;
    sg_training *t = sg_small_build(SG_SMALL_MLP, &SG_SMALL_SETTING[0], &(sg_small_options){.clip = true});
    const sg_device_api *api = sg_virtual_device();
    sg_device *d;
    assert_int_equal(api->open(&(sg_device_options){.machine = &m}, &d, NULL), SG_OK);
    outcome o[2];
    for (int graph = 0; graph < 2; graph++) {
        sg_walker *w;
        sg_status status = {0};
        sg_walk_options options = {.api = api, .device = d, .seed = 1, .graph = graph != 0};
        if (sg_walker_open(t, &options, &w, &status)) fail_msg("%s", status.text);
        for (int i = 0; i < 3; i++) {
            sg_virtual_reset(d);
            if (sg_walker_iteration(w, &o[graph].times, &status)) fail_msg("%s", status.text);
        }
        sg_walker_close(w);
    }
    double device_s = 0;
    const sg_program *p = &t->programs[sg_main_program(t)];
    for (size_t i = 0; i < p->n_entries; i++) {
        double s = 0;
        if (p->entries[i].kind != SG_ENTRY_OP) continue;
        assert_int_equal(sg_machine_price(&m, &t->ops[p->entries[i].index], &s, NULL, NULL), SG_OK);
        device_s += s;
    }
    assert_true(o[0].times.update_s > 20);
    /* The stream is empty until the dispatch, but for what preprocessing left in it. */
    assert_true(o[1].times.update_device_s <= o[1].times.update_s && o[1].times.update_device_s > 1);
    assert_true(fabs(o[1].times.update_s - 1 - device_s) < 1e-9);
    api->close(d);
    sg_training_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replays_compute_the_same),           cmocka_unit_test(ranks_replay_their_exchange),
        cmocka_unit_test(what_cannot_be_recorded_is_refused), cmocka_unit_test(every_failure_is_survived),
        cmocka_unit_test(a_replay_costs_one_dispatch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
