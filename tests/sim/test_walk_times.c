/* The walker's times: phases, profiles, exposed communication, and what walking itself costs. */
#include "kernels/module.h"
#include "models/policy.h"
#include "tests/sim/walk_fixture.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_are_what_the_framework_reads),
        cmocka_unit_test(profile_is_by_op),
        cmocka_unit_test(profile_of_ranks_ends_with_the_ops),
        cmocka_unit_test(exposed_sync_is_measured),
        cmocka_unit_test(walking_costs_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
