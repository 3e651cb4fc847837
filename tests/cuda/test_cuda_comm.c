/* Collectives between GPUs, ranks as threads that found each other over TCP: results, their place among other work on the
 * device, in a recording, and the end when a rank is not there any more. Needs two GPUs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/module.h"
#include "kernels/tcp/tcp.h"
#include "kernels/transport.h"

enum { RANKS = 2, COUNT = 100000, PART = COUNT / RANKS, SKIPPED = 77 };

typedef struct one_rank {
    sg_tcp_options join;
    const sg_device_api *api;
    sg_device *device;
    sg_comm *comm;
    sg_transport *transport;
    sg_code (*body)(struct one_rank *r);
    float *host, *device_a, *device_b;
    sg_code code;
    sg_status status;
} one_rank;

static const uint64_t BYTES = COUNT * sizeof(float);

static const sg_device_api *cuda;

/* ---- a rank ------------------------------------------------------------------------------------------------------------ */

static sg_code upload(one_rank *r, float base) {
    for (int i = 0; i < COUNT; i++) r->host[i] = base + (float)(i % 100);
    sg_code code =
        r->api->copy(r->device, r->device_a, r->host, BYTES, SG_COPY_TO_DEVICE, SG_STREAM_COMPUTE, &r->status);
    return code ? code : r->api->stream_wait(r->device, SG_STREAM_COMPUTE, &r->status);
}

static sg_code download(one_rank *r, const float *from) {
    sg_code code = r->api->copy(r->device, r->host, from, BYTES, SG_COPY_TO_HOST, SG_STREAM_COMPUTE, &r->status);
    return code ? code : r->api->stream_wait(r->device, SG_STREAM_COMPUTE, &r->status);
}

/* host[i] = base + i % 100 for i in first .. first + n - 1. */
static sg_code expect(one_rank *r, int first, int n, float base) {
    for (int i = first; i < first + n; i++)
        if (r->host[i] != base + (float)(i % 100))
            return sg_fail(&r->status, SG_MACHINE, "element %d is %g, not %g", i, (double)r->host[i],
                           (double)(base + (float)(i % 100)));
    return SG_OK;
}

static sg_code open_rank(one_rank *r) {
    void *a = NULL, *b = NULL;
    sg_code code = sg_tcp_join(&r->join, &r->transport, &r->status);
    if (!code) code = r->api->open(&(sg_device_options){.index = r->join.rank}, &r->device, &r->status);
    const sg_comm_options join = {.rank = r->join.rank, .ranks = RANKS, .bootstrap = r->transport, .timeout_s = 20};
    if (!code) code = r->api->comm_create(r->device, &join, &r->comm, &r->status);
    if (!code) code = r->api->segment_alloc(r->device, BYTES, &a, &r->status);
    if (!code) code = r->api->segment_alloc(r->device, BYTES, &b, &r->status);
    r->device_a = a;
    r->device_b = b;
    r->host = malloc(BYTES);
    return code || r->host ? code : sg_fail_memory(&r->status, BYTES, "values");
}

static void close_rank(one_rank *r) {
    free(r->host);
    if (r->comm) r->api->comm_destroy(r->device, r->comm);
    if (r->device_a) r->api->segment_free(r->device, r->device_a, BYTES);
    if (r->device_b) r->api->segment_free(r->device, r->device_b, BYTES);
    if (r->device) r->api->close(r->device);
    if (r->transport) r->transport->api->leave(r->transport);
}

static void *run_rank(void *user) {
    one_rank *r = user;
    r->code = open_rank(r);
    if (!r->code) r->code = r->body(r);
    close_rank(r);
    return NULL;
}

static void run(sg_code (*body)(one_rank *), one_rank rank[RANKS]) {
    sg_tcp_options join = {.ranks = RANKS, .address = "127.0.0.1", .secret = "of this test", .timeout_s = 20};
    sg_status status = {0};
    pthread_t thread[RANKS];
    if (sg_tcp_listen(join.address, 0, &join.listener, &join.port, &status)) fail_msg("%s", status.text);
    for (int i = 0; i < RANKS; i++) {
        rank[i] = (one_rank){.join = join, .api = cuda, .body = body};
        rank[i].join.rank = i;
        if (i > 0) rank[i].join.listener = 0;
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &rank[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
}

static void run_well(sg_code (*body)(one_rank *)) {
    one_rank rank[RANKS];
    run(body, rank);
    for (int i = 0; i < RANKS; i++)
        if (rank[i].code) fail_msg("rank %d: %s", i, rank[i].status.text);
}

/* ---- results ----------------------------------------------------------------------------------------------------------- */

static sg_code reduce_gather_scatter(one_rank *r) {
    const sg_device_api *api = r->api;
    int me = r->join.rank;
    sg_code code = upload(r, (float)(10 * me));
    if (!code) code = api->all_reduce_mean(r->device, r->comm, r->device_a, COUNT, SG_F32, &r->status);
    if (!code) code = api->stream_wait(r->device, SG_STREAM_COLLECTIVE, &r->status);
    if (!code) code = download(r, r->device_a);
    if (!code) code = expect(r, 0, COUNT, 10 * (RANKS - 1) / 2.0f);
    if (!code) code = upload(r, (float)(10 * me));
    if (!code)
        code = api->reduce_scatter_mean(r->device, r->comm, r->device_a, r->device_b + me * PART, PART, SG_F32,
                                        &r->status);
    if (!code) /* two in a row, without a wait between them */
        code = api->all_gather(r->device, r->comm, r->device_b + me * PART, r->device_b, PART, SG_F32, &r->status);
    if (!code) code = api->stream_wait(r->device, SG_STREAM_COLLECTIVE, &r->status);
    if (!code) code = download(r, r->device_b);
    return code ? code : expect(r, 0, COUNT, 10 * (RANKS - 1) / 2.0f);
}

static void test_results(void **state) {
    (void)state;
    run_well(reduce_gather_scatter);
}

/* ---- among other work ---------------------------------------------------------------------------------------------------- */

static sg_code fill(one_rank *r, sg_plan *plan, float *to) {
    void *pointers[1] = {to};
    return r->api->launch(r->device, plan, SG_STREAM_COMPUTE, pointers, NULL, NULL, &r->status);
}

static sg_code prepare_fill(one_rank *r, sg_plan **plan) {
    const int64_t size[1] = {COUNT};
    sg_desc desc = sg_desc_make(SG_F32, 1, size);
    sg_op op = {.kind = SG_OP_FILL, .n_out = 1, .desc = &desc, .attrs = {.alpha = 3}};
    return r->api->prepare(r->device, &op, 1, plan, &r->status);
}

/* While it waits the host asks whether the GPU is done; that it was not yet is nothing a later launch may be blamed for. */
static sg_code launch_after_waiting(one_rank *r) {
    sg_plan *plan = NULL;
    sg_code code = prepare_fill(r, &plan);
    for (int turn = 0; turn < 3 && !code; turn++) {
        for (int i = 0; i < 10 && !code; i++) code = fill(r, plan, i % 2 ? r->device_a : r->device_b);
        if (!code) code = r->api->stream_wait(r->device, SG_STREAM_COMPUTE, &r->status);
    }
    if (plan) r->api->plans_free(r->device, &plan, 1);
    return code;
}

static void test_launches_after_waits(void **state) {
    (void)state;
    run_well(launch_after_waiting);
}

/* fill, all-reduce on its own stream, back: as buckets of gradients go. */
static sg_code reduce_joined(one_rank *r, sg_plan *plan, sg_event *ready, sg_event *done) {
    const sg_device_api *api = r->api;
    sg_code code = r->join.rank == 0 ? fill(r, plan, r->device_a) : SG_OK;
    if (!code) code = api->event_record(r->device, ready, SG_STREAM_COMPUTE, &r->status);
    if (!code) code = api->event_wait(r->device, ready, SG_STREAM_COLLECTIVE, &r->status);
    if (!code) code = api->all_reduce_mean(r->device, r->comm, r->device_a, COUNT, SG_F32, &r->status);
    if (!code) code = api->event_record(r->device, done, SG_STREAM_COLLECTIVE, &r->status);
    return code ? code : api->event_wait(r->device, done, SG_STREAM_COMPUTE, &r->status);
}

/* Rank 0 has 3 each time, rank 1 what came out before: 3 + 8 / 2^n after n times from 11. */
static sg_code record_and_replay(one_rank *r) {
    const sg_device_api *api = r->api;
    sg_plan *plan = NULL;
    sg_event *ready = NULL, *done = NULL;
    sg_graph_exec *graph = NULL;
    sg_code code = prepare_fill(r, &plan);
    if (!code) code = api->event_create(r->device, &ready, &r->status);
    if (!code) code = api->event_create(r->device, &done, &r->status);
    for (int i = 0; i < COUNT; i++) r->host[i] = 11;
    if (!code)
        code = api->copy(r->device, r->device_a, r->host, BYTES, SG_COPY_TO_DEVICE, SG_STREAM_COMPUTE, &r->status);
    if (!code) code = api->stream_wait(r->device, SG_STREAM_COMPUTE, &r->status);
    if (!code) code = reduce_joined(r, plan, ready, done); /* NCCL connects when it is first used */
    if (!code) code = api->stream_wait(r->device, SG_STREAM_COMPUTE, &r->status);
    if (!code) code = api->graph_begin(r->device, &r->status);
    if (!code) {
        code = reduce_joined(r, plan, ready, done);
        sg_code ended = api->graph_end(r->device, &graph, code ? NULL : &r->status);
        code = code ? code : ended;
    }
    for (uint64_t step = 1; step <= 2 && !code; step++)
        code = api->graph_launch(r->device, graph, &(sg_launch){.step = step}, &r->status);
    if (!code) code = download(r, r->device_a);
    if (!code && r->host[COUNT - 1] != 4)
        code = sg_fail(&r->status, SG_MACHINE, "%g instead of 4", (double)r->host[COUNT - 1]);
    if (graph) api->graph_destroy(r->device, graph);
    if (ready) api->event_destroy(r->device, ready);
    if (done) api->event_destroy(r->device, done);
    if (plan) api->plans_free(r->device, &plan, 1);
    return code;
}

static void test_recorded_collectives(void **state) {
    (void)state;
    run_well(record_and_replay);
}

/* ---- ends ---------------------------------------------------------------------------------------------------------------- */

/* Rank 1 leaves without a word; rank 0 must not wait for ever. */
static sg_code leave_the_other_alone(one_rank *r) {
    if (r->join.rank == 1) {
        r->api->comm_abort(r->device, r->comm);
        r->transport->api->leave(r->transport);
        r->transport = NULL;
        return SG_OK;
    }
    sg_code code = upload(r, 1);
    if (!code) code = r->api->all_reduce_mean(r->device, r->comm, r->device_a, COUNT, SG_F32, &r->status);
    if (!code) code = r->api->stream_wait(r->device, SG_STREAM_COLLECTIVE, &r->status);
    if (!code) return SG_OK;
    sg_status again = {0};
    if (r->api->all_reduce_mean(r->device, r->comm, r->device_a, COUNT, SG_F32, &again) == SG_OK)
        return SG_OK; /* wrong: the communicator is gone */
    return code;
}

static void test_a_rank_that_left(void **state) {
    (void)state;
    one_rank rank[RANKS];
    run(leave_the_other_alone, rank);
    assert_int_equal(rank[1].code, SG_OK);
    assert_int_equal(rank[0].code, SG_MACHINE);
    assert_true(strstr(rank[0].status.text, "rank") != NULL);
}

static bool two_gpus(sg_status *status) {
    sg_device *device = NULL;
    if (sg_module_device("cuda", &cuda, status)) return false;
    if (cuda->open(&(sg_device_options){.index = RANKS - 1}, &device, status)) return false;
    cuda->close(device);
    return true;
}

int main(void) {
    sg_status status = {0};
    (void)setenv("STEPGAUGE_EMULATION", "gpus=2", 0); /* before the module is opened; means nothing on real ones */
    if (!two_gpus(&status)) {
        (void)fprintf(stderr, "skipped: %s\n", status.text);
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_launches_after_waits),
        cmocka_unit_test(test_recorded_collectives),
        cmocka_unit_test(test_a_rank_that_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
