/* The walker: what it runs, when, with which memory; on the reference device, the virtual device, and a device that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/module.h"
#include "kernels/virtual/machine.h"
#include "sim/walk.h"
#include "tests/reference/reference.h"
#include "tests/support/small_policies.h"
#include "tests/support/tiny_training.h"
#include "tests/support/watch_device.h"

enum { BATCH = 8, FEATURES = 5, OUTPUTS = 3, WEIGHTS = FEATURES * OUTPUTS };

static sg_tiny *tiny(bool sync, bool dropout) {
    const sg_tiny_options o = {
        .batch = BATCH, .features = FEATURES, .outputs = OUTPUTS, .sync = sync, .dropout = dropout, .lr = 0.01};
    return sg_tiny_new(&o);
}

static sg_device *reference_device(int kind) {
    sg_device *d;
    assert_int_equal(sg_reference_device()->open(&(sg_device_options){.index = kind}, &d, NULL), SG_OK);
    return d;
}

/* Prices that do not matter here, a host that costs 1 s per forward op. */
static sg_machine machine(void) {
    sg_machine m;
    sg_machine_init(&m);
    (void)snprintf(m.name, sizeof m.name, "tests");
    (void)snprintf(m.device_class, sizeof m.device_class, "cuda");
    for (int i = 0; i < SG_M_COUNT; i++) m.p[i].value = 1;
    /* links by bandwidth and latency alone */
    for (int i = SG_M_COLLECTIVE_RANK_S; i <= SG_M_NETWORK_LATENCY_S; i++) m.p[i].value = NAN;
    for (int i = SG_M_PEAK_F32; i <= SG_M_BANDWIDTH; i++) m.p[i].value = 1e12;
    m.p[SG_M_KERNEL_START_S].value = m.p[SG_M_KERNEL_FLOOR_S].value = 1e-3;
    m.p[SG_M_COPY_BANDWIDTH].value = 1e12;
    m.p[SG_M_COLLECTIVE_BUSBW].value = 1e12;
    m.p[SG_M_COLLECTIVE_LATENCY_S].value = 7;
    m.p[SG_M_CONTEXT_BYTES].value = 0;
    m.p[SG_M_HOST_SEGMENT_S].value = NAN; /* memory is free */
    m.memory_bytes = (uint64_t)1 << 30;
    return m;
}

typedef struct fixture {
    sg_tiny *tiny;
    const sg_device_api *api;
    sg_device *device;
    sg_walker *walker;
} fixture;

static fixture open_on_reference(sg_tiny *t, sg_walk_options o, int kind) {
    fixture f = {.tiny = t, .api = sg_reference_device(), .device = reference_device(kind)};
    o.api = f.api;
    o.device = f.device;
    sg_status status = {0};
    if (sg_walker_open(&t->training, &o, &f.walker, &status)) fail_msg("%s", status.text);
    return f;
}

static void close_fixture(fixture *f) {
    sg_walker_close(f->walker);
    f->api->close(f->device);
    sg_tiny_free(f->tiny);
}

static void iterate(fixture *f, sg_step_times *times) {
    sg_status status = {0};
    if (sg_walker_iteration(f->walker, times, &status)) fail_msg("%s", status.text);
}

static void read_tensor(const fixture *f, int32_t tensor, double *out, size_t n) {
    sg_status status = {0};
    if (sg_walker_read(f->walker, tensor, out, n, &status)) fail_msg("%s", status.text);
}

static double loss_of(const fixture *f) {
    double loss;
    read_tensor(f, f->tiny->loss, &loss, 1);
    return loss;
}

/* With fixed randomness a linear regression can only get better; with a new batch each step the loss moves. */
static void training_trains(void **unused) {
    (void)unused;
    for (int kind = 0; kind < 2; kind++) {
        fixture f = open_on_reference(tiny(false, true), (sg_walk_options){.seed = 3, .fixed_random = true}, kind);
        assert_int_equal(sg_walker_keep(f.walker, f.tiny->loss, NULL), SG_OK);
        iterate(&f, NULL);
        double first = loss_of(&f);
        for (int i = 0; i < 300; i++) iterate(&f, NULL);
        assert_true(loss_of(&f) < 0.5 * first);
        close_fixture(&f);
    }
    fixture f = open_on_reference(tiny(false, true), (sg_walk_options){.seed = 3, .learning_rate = 1e-12}, 0);
    (void)sg_walker_keep(f.walker, f.tiny->loss, NULL);
    iterate(&f, NULL);
    double first = loss_of(&f);
    iterate(&f, NULL);
    assert_true(fabs(loss_of(&f) - first) > 1e-6); /* another batch, another mask */
    close_fixture(&f);
}

/* The values that a step of AdamW on this loss must give, computed here from what the walker reports of its tensors. */
static void one_step_is_right(void **unused) {
    (void)unused;
    fixture f = open_on_reference(tiny(false, false), (sg_walk_options){.seed = 5}, 0);
    double w[WEIGHTS], x[BATCH * FEATURES], y[BATCH * OUTPUTS], g[WEIGHTS], after[WEIGHTS], loss = 0;
    read_tensor(&f, f.tiny->w, w, WEIGHTS);
    (void)sg_walker_keep(f.walker, f.tiny->gradient, NULL);
    (void)sg_walker_keep(f.walker, f.tiny->loss, NULL);
    iterate(&f, NULL);
    read_tensor(&f, f.tiny->x, x, BATCH * FEATURES);
    read_tensor(&f, f.tiny->y, y, BATCH * OUTPUTS);
    read_tensor(&f, f.tiny->gradient, g, WEIGHTS);
    read_tensor(&f, f.tiny->w, after, WEIGHTS);
    double expected[WEIGHTS] = {0};
    for (int b = 0; b < BATCH; b++)
        for (int o = 0; o < OUTPUTS; o++) {
            double p = -y[b * OUTPUTS + o];
            for (int i = 0; i < FEATURES; i++) p += x[b * FEATURES + i] * w[i * OUTPUTS + o];
            loss += p * p / (BATCH * OUTPUTS);
            for (int i = 0; i < FEATURES; i++)
                expected[i * OUTPUTS + o] += 2 * p * x[b * FEATURES + i] / (BATCH * OUTPUTS);
        }
    assert_true(fabs(loss_of(&f) - loss) < 1e-6);
    for (int i = 0; i < WEIGHTS; i++) {
        assert_true(fabs(g[i] - expected[i]) < 1e-6);
        /* first step of Adam: lr x sign */
        assert_true(fabs(after[i] - (w[i] - 0.01 * copysign(1, expected[i]))) < 1e-5);
    }
    for (int i = 0; i < BATCH * FEATURES; i++) assert_true(x[i] >= -1 && x[i] < 1);
    for (int i = 0; i < BATCH * OUTPUTS; i++) assert_true(y[i] >= 0 && y[i] < 2);
    close_fixture(&f);
}

static void learning_rate_is_overridden(void **unused) {
    (void)unused;
    fixture f = open_on_reference(tiny(false, false), (sg_walk_options){.seed = 5, .learning_rate = 0.5}, 0);
    double before[WEIGHTS], after[WEIGHTS];
    read_tensor(&f, f.tiny->w, before, WEIGHTS);
    iterate(&f, NULL);
    read_tensor(&f, f.tiny->w, after, WEIGHTS);
    for (int i = 0; i < WEIGHTS; i++) assert_true(fabs(fabs(after[i] - before[i]) - 0.5) < 1e-3);
    close_fixture(&f);
}

/* Rank r of N sees the r-th slice of what one process with the N-fold batch sees, and starts with equal weights. */
static void ranks_share_one_stream_of_samples(void **unused) {
    (void)unused;
    sg_tiny_options o = {.batch = 2 * BATCH, .features = FEATURES, .outputs = OUTPUTS, .dropout = true, .lr = 0.01};
    fixture whole = open_on_reference(sg_tiny_new(&o), (sg_walk_options){.seed = 9}, 0);
    double x[2 * BATCH * FEATURES], w[WEIGHTS], mask[2 * BATCH * FEATURES];
    (void)sg_walker_keep(whole.walker, whole.tiny->mask, NULL);
    read_tensor(&whole, whole.tiny->w, w, WEIGHTS);
    iterate(&whole, NULL);
    iterate(&whole, NULL);
    read_tensor(&whole, whole.tiny->x, x, 2 * BATCH * FEATURES);
    read_tensor(&whole, whole.tiny->mask, mask, 2 * BATCH * FEATURES);
    for (int r = 0; r < 2; r++) {
        sg_comm *nobody = (sg_comm *)&o; /* never used: no gradient leaves without GRAD_READY entries */
        sg_device_api api = *sg_reference_device();
        if (!api.all_reduce_mean) api.all_reduce_mean = sg_watch_api()->all_reduce_mean;
        sg_tiny *t = tiny(false, true);
        fixture f = {.tiny = t, .api = &api, .device = reference_device(0)};
        sg_walk_options options = {.api = &api, .device = f.device, .seed = 9, .rank = r, .ranks = 2, .comm = nobody};
        assert_int_equal(sg_walker_open(&t->training, &options, &f.walker, NULL), SG_OK);
        double part[BATCH * FEATURES], own[WEIGHTS];
        (void)sg_walker_keep(f.walker, t->mask, NULL);
        read_tensor(&f, t->w, own, WEIGHTS);
        assert_memory_equal(own, w, sizeof w);
        iterate(&f, NULL);
        iterate(&f, NULL);
        read_tensor(&f, t->x, part, BATCH * FEATURES);
        assert_memory_equal(part, x + (ptrdiff_t)r * BATCH * FEATURES, sizeof part);
        read_tensor(&f, t->mask, part, BATCH * FEATURES);
        assert_memory_equal(part, mask + (ptrdiff_t)r * BATCH * FEATURES, sizeof part);
        close_fixture(&f);
    }
    close_fixture(&whole);
}

static void reading_and_writing(void **unused) {
    (void)unused;
    fixture f = open_on_reference(tiny(false, false), (sg_walk_options){.seed = 1}, 0);
    double w[WEIGHTS], back[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) w[i] = i + 0.5;
    assert_int_equal(sg_walker_write(f.walker, f.tiny->w, w, WEIGHTS, NULL), SG_OK);
    read_tensor(&f, f.tiny->w, back, WEIGHTS);
    assert_memory_equal(w, back, sizeof w);
    sg_status status = {0};
    assert_int_equal(sg_walker_read(f.walker, f.tiny->w, back, 3, &status), SG_BAD_INPUT);
    assert_int_equal(sg_walker_read(f.walker, 1000, back, 1, &status), SG_BAD_INPUT);
    assert_int_equal(sg_walker_read(f.walker, -1, back, 1, &status), SG_BAD_INPUT);
    assert_int_equal(sg_walker_read(f.walker, f.tiny->loss, back, 1, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "not live"));
    assert_int_equal(sg_walker_read(f.walker, f.tiny->exp_avg, back, WEIGHTS, &status), SG_BAD_INPUT); /* not born */
    iterate(&f, NULL);
    read_tensor(&f, f.tiny->exp_avg, back, WEIGHTS);
    assert_int_equal(sg_walker_keep(f.walker, 1000, NULL), SG_BAD_INPUT);
    assert_int_equal(sg_walker_program(f.walker, 7, NULL), SG_BAD_INPUT);
    assert_int_equal(sg_walker_program(f.walker, 0, NULL), SG_OK);
    assert_int_equal(sg_walker_program(f.walker, 1, NULL), SG_OK);
    close_fixture(&f);
}

/* Peak of the hand-made program: everything that lives when the backward's gradient of w appears. */
static void peaks_are_found(void **unused) {
    (void)unused;
    fixture f = open_on_reference(tiny(false, false), (sg_walk_options){.seed = 1}, SG_REFERENCE_CPU);
    iterate(&f, NULL);
    sg_memory_peak peak;
    sg_walker_peak(f.walker, &peak);
    const uint64_t x = 4 * BATCH * FEATURES, y = 4 * BATCH * OUTPUTS, w = 4 * WEIGHTS;
    /* first iteration: optimizer state is born at its first step, when loss, gradient and weights are live */
    uint64_t forward = x + y + w + 2 * y + 4;
    uint64_t optimizer = x + y + w + 4 + w + 2 * w;
    assert_int_equal(peak.allocated_bytes, forward > optimizer ? forward : optimizer);
    assert_int_equal(peak.reserved_bytes, peak.allocated_bytes);
    sg_walker_reset_peak(f.walker);
    iterate(&f, NULL);
    sg_walker_peak(f.walker, &peak);
    assert_int_equal(peak.allocated_bytes, forward + 2 * w);
    assert_int_equal(peak.program, f.tiny->update);
    assert_int_equal(peak.pass, SG_PASS_FORWARD);
    assert_int_equal(peak.module, 1);
    assert_int_equal(peak.by_role[SG_ROLE_WEIGHT], w);
    assert_int_equal(peak.by_role[SG_ROLE_OPTIMIZER], 2 * w);
    assert_int_equal(peak.by_role[SG_ROLE_BATCH], x + y);
    uint64_t sum = 0;
    for (int i = 0; i < SG_ROLE_COUNT; i++) sum += peak.by_role[i];
    assert_int_equal(sum, peak.allocated_bytes);
    close_fixture(&f);
}

/* Reference and virtual walks visit the same entries with the same peaks, to the byte. */
static void devices_agree(void **unused) {
    (void)unused;
    fixture f = open_on_reference(tiny(false, true), (sg_walk_options){.seed = 1}, SG_REFERENCE_CACHING);
    sg_machine m = machine();
    m.caching_allocator = true;
    sg_device *d;
    assert_int_equal(sg_virtual_device()->open(&(sg_device_options){.machine = &m}, &d, NULL), SG_OK);
    sg_walker *v;
    sg_status status = {0};
    sg_walk_options o = {.api = sg_virtual_device(), .device = d, .seed = 1};
    if (sg_walker_open(&f.tiny->training, &o, &v, &status)) fail_msg("%s", status.text);
    for (int i = 0; i < 2; i++) {
        iterate(&f, NULL);
        assert_int_equal(sg_walker_iteration(v, NULL, &status), SG_OK);
    }
    assert_true(sg_walker_visit_hash(f.walker) == sg_walker_visit_hash(v));
    sg_memory_peak a, b;
    sg_walker_peak(f.walker, &a);
    sg_walker_peak(v, &b);
    assert_int_equal(a.allocated_bytes, b.allocated_bytes);
    assert_int_equal(a.reserved_bytes, b.reserved_bytes);
    assert_int_equal(a.entry, b.entry);
    assert_memory_equal(a.by_role, b.by_role, sizeof a.by_role);
    double x;
    assert_int_equal(sg_walker_read(v, f.tiny->w, &x, 1, &status), SG_BAD_INPUT); /* nothing behind its addresses */
    sg_walker_close(v);
    sg_virtual_device()->close(d);
    close_fixture(&f);
}

/* Phases on the virtual device, whose host costs 1 s per forward or backward op and kernels are free. */
static void phases_are_what_the_framework_reads(void **unused) {
    (void)unused;
    sg_machine m = machine();
    m.p[SG_M_HOST_VIEW].value = 0.25;
    m.p[SG_M_HOST_OPTIMIZER_OPS].value = 10;
    m.p[SG_M_HOST_OPTIMIZER_S].value = 5;
    m.p[SG_M_HOST_SYNC_S].value = 2;
    sg_device *d;
    assert_int_equal(sg_virtual_device()->open(&(sg_device_options){.machine = &m}, &d, NULL), SG_OK);
    sg_tiny *t = tiny(false, false);
    sg_walk_options o = {.api = sg_virtual_device(), .device = d};
    sg_walker *w;
    sg_status status = {0};
    if (sg_walker_open(&t->training, &o, &w, &status)) fail_msg("%s", status.text);
    sg_step_times s;
    assert_int_equal(sg_walker_iteration(w, &s, &status), SG_OK);
    /* 4 forward ops, 2 views, 2 backward ops, 1 optimizer op and the optimizer's fixed part, 1 blocking read */
    double host = 4 + 2 * 0.25 + 2 + 1 + 15 + 2;
    assert_true(fabs(s.update_s - host) < 0.1);
    assert_true(s.dataloading_s == 0);
    assert_true(s.preprocessing_s < 0.1);
    assert_true(fabs(s.step_s - s.update_s - s.preprocessing_s) < 1e-9);
    assert_true(fabs(s.iteration_s - s.step_s) < 1e-9);
    assert_true(fabs(s.forward_s - 4.5) < 0.1);
    assert_true(fabs(s.backward_s - 2) < 0.1);
    assert_true(fabs(s.update_device_s - s.forward_s - s.backward_s - s.optimizer_s) < 1e-9);
    assert_true(s.collection_s == 0 && s.exposed_sync_s == 0);
    sg_walker_close(w);
    sg_virtual_device()->close(d);
    sg_tiny_free(t);
}

/* On the virtual device each op takes exactly its price. */
static void profile_is_by_op(void **unused) {
    (void)unused;
    sg_machine m = machine();
    sg_device *d;
    assert_int_equal(sg_virtual_device()->open(&(sg_device_options){.machine = &m}, &d, NULL), SG_OK);
    sg_tiny *t = tiny(false, false);
    sg_walk_options o = {.api = sg_virtual_device(), .device = d};
    sg_walker *w;
    assert_int_equal(sg_walker_open(&t->training, &o, &w, NULL), SG_OK);
    double seconds[64], runs[64];
    assert_true(t->training.n_ops > 0 && t->training.n_ops <= 64);
    assert_int_equal(sg_walker_profile(w, &(sg_op_profile){seconds, runs}, NULL), SG_OK);
    for (size_t i = 0; i < t->training.n_ops; i++) { /* each op runs once */
        double s;
        assert_int_equal(sg_machine_price(&m, &t->training.ops[i], &s, NULL, NULL), SG_OK);
        assert_true(s > 0 && fabs(seconds[i] - s) < 1e-9 && runs[i] == 1);
    }
    sg_walker_close(w);
    sg_virtual_device()->close(d);
    sg_tiny_free(t);
}

/* Copies into gradient buckets are the walker's own: what profiles are written to ends with the training's ops. */
static void profile_of_ranks_ends_with_the_ops(void **unused) {
    (void)unused;
    sg_machine m = machine();
    sg_device *d;
    const sg_device_api *api = sg_virtual_device();
    assert_int_equal(api->open(&(sg_device_options){.machine = &m}, &d, NULL), SG_OK);
    sg_comm *comm;
    assert_int_equal(api->comm_create(d, &(sg_comm_options){.ranks = 2}, &comm, NULL), SG_OK);
    sg_tiny *t = tiny(true, false);
    sg_walk_options o = {.api = api, .device = d, .ranks = 2, .comm = comm};
    sg_walker *w;
    assert_int_equal(sg_walker_open(&t->training, &o, &w, NULL), SG_OK);
    double seconds[64], runs[64];
    assert_true(t->training.n_ops > 0 && t->training.n_ops < 60);
    for (int i = 0; i < 64; i++) seconds[i] = runs[i] = -1;
    assert_int_equal(sg_walker_profile(w, &(sg_op_profile){seconds, runs}, NULL), SG_OK);
    for (size_t i = 0; i < 64; i++) {
        bool op = i < t->training.n_ops;
        assert_true(op ? seconds[i] > 0 && runs[i] == 1 : seconds[i] == -1 && runs[i] == -1);
    }
    sg_walker_close(w);
    api->comm_destroy(d, comm);
    api->close(d);
    sg_tiny_free(t);
}

/* Gradients travel: one bucket, 7 s of latency, nothing to hide behind; without communication nothing is waited for. */
static void exposed_sync_is_measured(void **unused) {
    (void)unused;
    sg_machine m = machine();
    m.p[SG_M_HOST_OP_S].value = 0;
    sg_device *d;
    const sg_device_api *api = sg_virtual_device();
    assert_int_equal(api->open(&(sg_device_options){.machine = &m}, &d, NULL), SG_OK);
    sg_comm *comm;
    assert_int_equal(api->comm_create(d, &(sg_comm_options){.ranks = 4}, &comm, NULL), SG_OK);
    sg_watch watch = {0};
    sg_device *watched = sg_watch_open(&watch, api, d);
    sg_tiny *t = tiny(true, false);
    sg_walk_options o = {.api = sg_watch_api(), .device = watched, .ranks = 4, .comm = comm};
    sg_walker *w;
    sg_status status = {0};
    if (sg_walker_open(&t->training, &o, &w, &status)) fail_msg("%s", status.text);
    sg_step_times with, without;
    assert_int_equal(sg_walker_iteration(w, &with, &status), SG_OK);
    assert_int_equal(watch.calls[SG_WATCH_ALL_REDUCE], 1);
    assert_true(fabs(with.exposed_sync_s - 7) < 0.01);
    sg_walker_set_communication(w, false);
    int64_t launches = watch.calls[SG_WATCH_LAUNCH];
    assert_int_equal(sg_walker_iteration(w, &without, &status), SG_OK);
    assert_int_equal(watch.calls[SG_WATCH_ALL_REDUCE], 1);
    assert_int_equal(watch.calls[SG_WATCH_LAUNCH], 2 * launches); /* copies into and out of buckets stay */
    assert_true(without.exposed_sync_s == 0);
    assert_true(fabs(with.update_s - without.update_s - 7) < 0.01);
    sg_memory_peak peak;
    sg_walker_peak(w, &peak);
    assert_int_equal(peak.by_role[SG_ROLE_GRADIENT], 4 * WEIGHTS); /* in the forward: the bucket */
    sg_walker_close(w);
    sg_watch_close(watched);
    api->comm_destroy(d, comm);
    api->close(d);
    sg_tiny_free(t);
}

/* Each call of the device fails once; the walker reports it, gives everything back, and goes on when asked again. */
static void fail_each_call(const sg_training *t, int kind, bool placed) {
    sg_device *d = reference_device(kind);
    for (int call = 0; call < SG_WATCH_ALL_REDUCE; call++) {
        bool reached = true;
        for (int64_t k = 1; reached; k++) {
            sg_watch watch = {.fail_call = (sg_watch_call)call, .fail_at = k, .fail_code = SG_MACHINE};
            sg_device *watched = sg_watch_open(&watch, sg_reference_device(), d);
            sg_walk_options o = {.api = sg_watch_api(), .device = watched, .placed_storages = placed};
            sg_walker *w = NULL;
            sg_status status = {0};
            sg_code code = sg_walker_open(t, &o, &w, &status);
            if (!code) {
                for (int i = 0; i < 2 && !code; i++) code = sg_walker_iteration(w, NULL, &status);
                if (code) {
                    sg_code again = sg_walker_iteration(w, NULL, NULL);
                    assert_int_equal(again, SG_OK);
                }
                sg_walker_close(w);
            } else {
                assert_null(w);
            }
            reached = watch.calls[call] >= k;
            if (reached && code) {
                assert_int_equal(code, SG_MACHINE);
                assert_non_null(strstr(status.text, "told to fail"));
            }
            if (reached && call != SG_WATCH_STREAM_WAIT) assert_int_equal(code, SG_MACHINE);
            assert_int_equal(watch.segments, 0);
            assert_int_equal(watch.segment_bytes, 0);
            assert_int_equal(watch.events, 0);
            assert_int_equal(watch.plans, 0);
            sg_watch_close(watched);
        }
    }
    sg_reference_device()->close(d);
}

static void every_failure_is_survived(void **unused) {
    (void)unused;
    sg_tiny *t = tiny(false, true);
    for (int kind = 0; kind < 2; kind++)
        for (int placed = 0; placed < 2; placed++) fail_each_call(&t->training, kind, placed);
    sg_tiny_free(t);
    sg_training *mlp = sg_small_build(SG_SMALL_MLP, &SG_SMALL_SETTING[0], &(sg_small_options){.accumulation = 2});
    fail_each_call(mlp, SG_REFERENCE_CPU, false);
    sg_training_free(mlp);
}

/* The walk of a policy of many small ops costs little of what the ops themselves cost on a CPU. */
static void walking_costs_little(void **unused) {
    (void)unused;
    const sg_device_api *api;
    sg_status status = {0};
    if (sg_module_device("cpu", &api, &status)) fail_msg("%s", status.text);
    const sg_setting settings[] = {{"envs", "64", "test"}};
    const sg_policy_request request = {
        .policy = "ppo", .device_class = SG_DEVICE_CLASS_CPU, .settings = settings, .n_settings = 1};
    sg_training *t;
    sg_device *d;
    sg_walker *w;
    if (sg_policy_build(&request, &t, &status)) fail_msg("%s", status.text);
    assert_int_equal(api->open(&(sg_device_options){.threads = 1}, &d, NULL), SG_OK);
    if (sg_walker_open(t, &(sg_walk_options){.api = api, .device = d}, &w, &status)) fail_msg("%s", status.text);
    assert_int_equal(sg_walker_iteration(w, NULL, NULL), SG_OK);
    double own_s = sg_walker_own_s(w);
    sg_step_times times;
    assert_int_equal(sg_walker_iteration(w, &times, NULL), SG_OK);
    own_s = sg_walker_own_s(w) - own_s;
    assert_true(own_s > 0);
    assert_true(own_s < 0.02 * times.iteration_s);
    sg_walker_close(w);
    api->close(d);
    sg_training_free(t);
}

static void out_of_memory_is_an_answer(void **unused) {
    (void)unused;
    sg_tiny *t = tiny(false, false);
    sg_device *d = reference_device(SG_REFERENCE_CPU);
    int answers = 0;
    for (uint64_t limit = 256; limit < 8192; limit += 64) {
        sg_watch watch = {.limit_bytes = limit};
        sg_device *watched = sg_watch_open(&watch, sg_reference_device(), d);
        sg_walk_options o = {.api = sg_watch_api(), .device = watched};
        sg_walker *w;
        sg_status status = {0};
        sg_code code = sg_walker_open(&t->training, &o, &w, &status);
        if (!code) {
            code = sg_walker_iteration(w, NULL, &status);
            sg_walker_close(w);
        }
        assert_true(code == SG_OK || code == SG_NO);
        answers += code == SG_NO;
        assert_int_equal(watch.segments, 0);
        sg_watch_close(watched);
    }
    assert_true(answers > 10);
    sg_reference_device()->close(d);
    sg_tiny_free(t);
}

/* Tables that a walker must not believe. */
static void unsound_trainings_are_refused(void **unused) {
    (void)unused;
    sg_device *d = reference_device(SG_REFERENCE_CPU);
    for (int what = 0; what < 7; what++) {
        sg_tiny *t = tiny(false, false);
        sg_entry *entries = (sg_entry *)t->training.programs[1].entries;
        int32_t *args = (int32_t *)t->training.args;
        sg_tensor *tensors = (sg_tensor *)t->training.tensors;
        switch (what) {
        case 0: entries[1].index = 1000; break;
        case 1: entries[2].args = 100000; break;
        case 2: args[0] = -1; break;
        case 3: tensors[0].offset_bytes = 1; break;
        case 4: tensors[1].storage = 1000; break;
        case 5: entries[1].kind = SG_ENTRY_FREE; break;           /* the prediction is never allocated */
        default: entries[1].index = tensors[t->w].storage; break; /* weights have no lifetime */
        }
        sg_walk_options o = {.api = sg_reference_device(), .device = d};
        sg_walker *w = NULL;
        sg_status status = {0};
        sg_code code = sg_walker_open(&t->training, &o, &w, &status);
        if (!code) code = sg_walker_iteration(w, NULL, &status);
        assert_int_equal(code, SG_BAD_INPUT);
        assert_true(strlen(status.text) > 10);
        sg_walker_close(w);
        sg_tiny_free(t);
    }
    sg_tiny *t = tiny(false, false);
    sg_walker *w;
    assert_int_equal(sg_walker_open(&t->training,
                                    &(sg_walk_options){.api = sg_reference_device(), .device = d, .ranks = 2}, &w,
                                    NULL),
                     SG_BAD_INPUT); /* no communicator */
    assert_int_equal(sg_walker_open(&t->training,
                                    &(sg_walk_options){.api = sg_reference_device(), .device = d, .rank = 1}, &w, NULL),
                     SG_BAD_INPUT);
    sg_tiny_free(t);
    sg_reference_device()->close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_trains),
        cmocka_unit_test(one_step_is_right),
        cmocka_unit_test(learning_rate_is_overridden),
        cmocka_unit_test(ranks_share_one_stream_of_samples),
        cmocka_unit_test(reading_and_writing),
        cmocka_unit_test(peaks_are_found),
        cmocka_unit_test(devices_agree),
        cmocka_unit_test(phases_are_what_the_framework_reads),
        cmocka_unit_test(profile_is_by_op),
        cmocka_unit_test(profile_of_ranks_ends_with_the_ops),
        cmocka_unit_test(exposed_sync_is_measured),
        cmocka_unit_test(every_failure_is_survived),
        cmocka_unit_test(walking_costs_little),
        cmocka_unit_test(out_of_memory_is_an_answer),
        cmocka_unit_test(unsound_trainings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
