/* The emulation itself: what it must catch, it catches. */
#include "tests/cuda/emulation_calls.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N = 100 };

static void expect_fault(const char *words) {
    const char *text = sg_emu_fault();
    assert_non_null(text);
    if (!strstr(text, words)) fail_msg("'%s' does not tell of '%s'", text, words);
}

/* Each test leaves nothing alive and no fault untold. */
static int begin(void **state) {
    (void)state;
    sg_emu_set_devices(2);
    OK(cudaSetDevice(0));
    (void)cudaGetLastError();
    (void)sg_emu_fault();
    return 0;
}
static int end(void **state) {
    (void)state;
    sg_emu_fail_call(0);
    sg_emu_alive a = sg_emu_count_alive();
    const char *fault = sg_emu_fault();
    if (fault) print_error("%s\n", fault);
    return fault || a.allocations || a.pinned || a.streams || a.events || a.graphs || a.handles || a.bytes ? -1 : 0;
}

static void test_results_are_there_after_a_wait(void **state) {
    (void)state;
    int *a = device_ints(N);
    cudaStream_t s = new_stream();
    assert_int_equal(a[0], -1); /* new memory holds no zeros */
    OK(emu_fill(a, N, 7, s));
    assert_int_equal(a[N - 1], -1);
    assert_int_equal(cudaStreamQuery(s) == cudaSuccess ? a[N - 1] : 7, 7);
    OK(cudaStreamSynchronize(s));
    for (int i = 0; i < N; i++) assert_int_equal(a[i], 7);
    OK(cudaStreamDestroy(s));
    OK(cudaFree(a));
}

static void test_streams_have_no_order_without_an_event(void **state) {
    (void)state;
    for (int ordered = 0; ordered < 2; ordered++) {
        int *a = device_ints(N), *b = device_ints(N);
        cudaStream_t first = new_stream(), second = new_stream();
        cudaEvent_t filled = new_event(cudaEventDisableTiming);
        OK(emu_fill(a, N, 21, first));
        OK(cudaEventRecord(filled, first));
        if (ordered) OK(cudaStreamWaitEvent(second, filled, 0));
        OK(emu_double(a, b, N, second));
        OK(cudaStreamSynchronize(second));
        assert_int_equal(b[0], ordered ? 42 : -2);
        OK(cudaStreamSynchronize(first));
        OK(cudaEventDestroy(filled));
        OK(cudaStreamDestroy(first));
        OK(cudaStreamDestroy(second));
        OK(cudaFree(a));
        OK(cudaFree(b));
    }
}

static void test_threads_of_a_block_work_together(void **state) {
    (void)state;
    int *a = device_ints(5);
    cudaStream_t s = new_stream();
    OK(emu_sum(a, 5, s));
    OK(cudaStreamSynchronize(s));
    for (int i = 0; i < 5; i++) assert_int_equal(a[i], 64 * 63 / 2);
    OK(emu_leftover(a, 5, s));
    OK(cudaStreamSynchronize(s));
    for (int i = 0; i < 5; i++) assert_int_equal(a[i], -1); /* nothing of the block before */
    OK(cudaStreamDestroy(s));
    OK(cudaFree(a));
}

static void test_a_barrier_that_not_all_reach(void **state) {
    (void)state;
    int *a = device_ints(1);
    cudaStream_t s = new_stream();
    OK(emu_diverge(a, s));
    assert_int_equal(cudaStreamSynchronize(s), cudaErrorLaunchFailure);
    expect_fault("barrier");
    /* the failure stays: nothing works on this device any more, but what it holds can be given back */
    assert_int_equal(emu_count(a, s), cudaErrorLaunchFailure);
    void *more = NULL;
    assert_int_equal(cudaMalloc(&more, 4), cudaErrorLaunchFailure);
    assert_null(more);
    (void)cudaStreamDestroy(s);
    OK(cudaFree(a));
    sg_emu_lose_device(0, false);
    a = device_ints(1);
    OK(cudaFree(a));
}

static void overwrite(bool before) {
    int *a = device_ints(N);
    cudaStream_t s = new_stream();
    OK(emu_fill(before ? a - 1 : a, before ? N : N + 1, 3, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaStreamDestroy(s));
    OK(cudaFree(a));
}

#if defined(__SANITIZE_ADDRESS__)
static void overwrite_before(void) {
    overwrite(true);
}
static void overwrite_behind(void) {
    overwrite(false);
}
static void read_freed(void) {
    int *a = device_ints(N), *b = device_ints(N);
    cudaStream_t s = new_stream();
    OK(cudaFree(a));
    OK(emu_double(a, b, N, s));
    OK(cudaStreamSynchronize(s));
}
/* The access itself ends the program: in a child. */
static void test_accesses_outside_allocations(void **state) {
    (void)state;
    void (*const wrong[])(void) = {overwrite_before, overwrite_behind, read_freed};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)close(STDERR_FILENO);
            wrong[i]();
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
    }
}
#else
/* Red zones tell of writes when the memory is freed; what was freed holds no results any more. */
static void test_accesses_outside_allocations(void **state) {
    (void)state;
    for (int before = 0; before < 2; before++) {
        overwrite(before != 0);
        expect_fault(before ? "before" : "behind");
    }
}
#endif

static void test_frees_of_what_is_not_allocated(void **state) {
    (void)state;
    int *a = device_ints(N);
    assert_int_equal(cudaFree(a + 1), cudaErrorInvalidValue);
    expect_fault("no allocation");
    assert_int_equal(cudaFreeHost(a), cudaErrorInvalidValue);
    expect_fault("no allocation");
    OK(cudaFree(a));
    assert_int_equal(cudaFree(a), cudaErrorInvalidValue);
    expect_fault("no allocation");
}

static void test_copies_say_where_memory_is(void **state) {
    (void)state;
    int host[N], *a = device_ints(N);
    void *pinned = NULL;
    cudaStream_t s = new_stream();
    OK(cudaMallocHost(&pinned, sizeof host));
    for (int i = 0; i < N; i++) host[i] = i;
    OK(cudaMemcpyAsync(a, host, sizeof host, cudaMemcpyHostToDevice, s));
    memset(host, 0, sizeof host); /* pageable memory has been read by now */
    OK(cudaMemcpyAsync(host, a, sizeof host, cudaMemcpyDeviceToHost, s));
    assert_int_equal(host[N - 1], N - 1); /* and into it the call waits */
    OK(cudaMemcpyAsync(pinned, a, sizeof host, cudaMemcpyDeviceToHost, s));
    assert_int_equal(((int *)pinned)[1], -1); /* into pinned memory it does not */
    OK(cudaStreamSynchronize(s));
    assert_int_equal(((int *)pinned)[1], 1);
    assert_int_equal(cudaMemcpyAsync(a, host, sizeof host, cudaMemcpyDeviceToHost, s), cudaErrorInvalidValue);
    expect_fault("not where the call says");
    assert_int_equal(cudaMemcpyAsync(a, host, sizeof host + 4, cudaMemcpyHostToDevice, s), cudaErrorInvalidValue);
    expect_fault("not where the call says");
    OK(cudaFreeHost(pinned));
    OK(cudaStreamDestroy(s));
    OK(cudaFree(a));
}

static void test_streams_belong_to_devices(void **state) {
    (void)state;
    int *a = device_ints(1);
    cudaStream_t s = new_stream();
    OK(cudaSetDevice(1));
    assert_int_equal(emu_count(a, s), cudaErrorInvalidResourceHandle);
    expect_fault("stream of device 0");
    OK(cudaSetDevice(0));
    assert_int_equal(emu_count(a, NULL), cudaErrorInvalidResourceHandle);
    expect_fault("default stream");
    assert_int_equal(cudaSetDevice(2), cudaErrorInvalidDevice);
    OK(cudaStreamDestroy(s));
    OK(cudaFree(a));
}

static void test_a_recording_runs_when_it_is_replayed(void **state) {
    (void)state;
    int *a = device_ints(N);
    cudaStream_t s = new_stream();
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    OK(emu_fill(a, N, 0, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(emu_count(a, s));
    OK(emu_count(a, s));
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamSynchronize(s));
    assert_int_equal(a[0], 0);
    for (int i = 0; i < 3; i++) OK(cudaGraphLaunch(exec, s));
    OK(cudaStreamSynchronize(s));
    assert_int_equal(a[0], 6);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaStreamDestroy(s));
    OK(cudaFree(a));
}

/* What must not be called while a stream is recorded. */
static cudaError_t wait_for_stream(cudaStream_t s) {
    return cudaStreamSynchronize(s);
}
static cudaError_t wait_for_device(cudaStream_t s) {
    (void)s;
    return cudaDeviceSynchronize();
}
static cudaError_t allocate(cudaStream_t s) {
    void *at = NULL;
    (void)s;
    return cudaMalloc(&at, 4);
}
static cudaError_t ask(cudaStream_t s) {
    return cudaStreamQuery(s);
}

static void test_what_ends_a_recording(void **state) {
    (void)state;
    cudaError_t (*const calls[])(cudaStream_t) = {wait_for_stream, wait_for_device, allocate, ask};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        cudaStream_t s = new_stream();
        cudaGraph_t graph = NULL;
        OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        assert_int_equal(calls[i](s), cudaErrorStreamCaptureUnsupported);
        assert_int_equal(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
        assert_null(graph);
        OK(cudaStreamSynchronize(s)); /* the stream is as before */
        OK(cudaStreamDestroy(s));
    }
}

static void test_a_lost_device_answers_nothing(void **state) {
    (void)state;
    int *a = device_ints(1);
    cudaStream_t s = new_stream();
    OK(emu_count(a, s));
    sg_emu_lose_device(0, true);
    assert_int_equal(cudaStreamSynchronize(s), cudaErrorLaunchFailure);
    assert_int_equal(emu_count(a, s), cudaErrorLaunchFailure);
    size_t have, all;
    assert_int_equal(cudaMemGetInfo(&have, &all), cudaErrorLaunchFailure);
    OK(cudaSetDevice(1)); /* the other one does */
    int *b = device_ints(1);
    OK(cudaFree(b));
    OK(cudaSetDevice(0));
    (void)cudaStreamDestroy(s);
    OK(cudaFree(a));
    sg_emu_lose_device(0, false);
}

static void test_memory_has_an_end(void **state) {
    (void)state;
    size_t have, all;
    OK(cudaMemGetInfo(&have, &all));
    size_t before = all;
    sg_emu_set_memory(1 << 20);
    void *a = NULL, *b = NULL;
    OK(cudaMalloc(&a, 700 << 10));
    assert_int_equal(cudaMalloc(&b, 700 << 10), cudaErrorMemoryAllocation);
    assert_null(b);
    OK(cudaMemGetInfo(&have, &all));
    assert_int_equal(all, 1 << 20);
    assert_int_equal(have, (1 << 20) - (700 << 10));
    OK(cudaSetDevice(1)); /* each device has its own */
    OK(cudaMalloc(&b, 700 << 10));
    OK(cudaFree(b));
    OK(cudaSetDevice(0));
    OK(cudaFree(a));
    sg_emu_set_memory(before);
}

/* One place in the code, whatever the compiler unrolls around it. */
static __attribute__((noinline)) cudaError_t allocate_here(void **at) {
    cudaError_t error = cudaMalloc(at, 4);
    if (error != cudaSuccess) *at = NULL;
    return error;
}

static void test_failures_by_number_and_by_place(void **state) {
    (void)state;
    sg_emu_site sites[16];
    void *at[3];
    sg_emu_fail_call(2);
    OK(cudaMalloc(&at[0], 4));
    assert_int_equal(cudaMalloc(&at[1], 4), cudaErrorMemoryAllocation);
    assert_true(sg_emu_has_failed());
    OK(cudaFree(at[0]));
    sg_emu_forget_sites();
    for (int pass = 0; pass < 2; pass++) {
        int64_t before = sg_emu_calls();
        for (int i = 0; i < 3; i++)
            assert_int_equal(allocate_here(&at[i]), pass == 1 && i == 1 ? cudaErrorMemoryAllocation : cudaSuccess);
        assert_true(sg_emu_calls() >= before + 3);
        for (int i = 0; i < 3; i++) OK(cudaFree(at[i]));
        if (pass == 1) break;
        assert_int_equal(sg_emu_sites(sites, 16), 1); /* one place in the code, called three times */
        assert_string_equal(sites[0].call, "cudaMalloc");
        assert_int_equal(sites[0].calls, 3);
        sg_emu_fail_site(sites[0].site, 2);
        assert_false(sg_emu_has_failed());
    }
    assert_true(sg_emu_has_failed());
}

static void test_what_is_alive_is_counted(void **state) {
    (void)state;
    sg_emu_alive before = sg_emu_count_alive();
    int *a = device_ints(N);
    cudaStream_t s = new_stream();
    cudaEvent_t e = new_event(cudaEventDisableTiming);
    sg_emu_alive now = sg_emu_count_alive();
    assert_int_equal(now.allocations - before.allocations, 1);
    assert_int_equal(now.bytes - before.bytes, N * sizeof(int));
    assert_int_equal(now.streams - before.streams, 1);
    assert_int_equal(now.events - before.events, 1);
    OK(cudaEventDestroy(e));
    OK(cudaStreamDestroy(s));
    OK(cudaFree(a));
}

/* A rank: a thread with a device of its own. */
typedef struct rank {
    int device, sum;
    bool fine;
} rank;

static void *run_rank(void *context) {
    enum { TIMES = 200 };
    rank *r = context;
    void *at = NULL;
    cudaStream_t s = NULL;
    r->fine = cudaSetDevice(r->device) == cudaSuccess && cudaMalloc(&at, sizeof(int)) == cudaSuccess &&
              cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess;
    if (!r->fine) return NULL;
    r->fine = emu_fill(at, 1, 1000 * r->device, s) == cudaSuccess;
    for (int i = 0; i < TIMES && r->fine; i++) {
        r->fine = emu_count(at, s) == cudaSuccess;
        if (r->fine && i % 16 == 0) r->fine = cudaStreamSynchronize(s) == cudaSuccess;
    }
    r->fine = r->fine && cudaStreamSynchronize(s) == cudaSuccess;
    r->sum = *(int *)at;
    r->fine = r->fine && cudaStreamDestroy(s) == cudaSuccess && cudaFree(at) == cudaSuccess;
    return NULL;
}

static void test_ranks_are_threads(void **state) {
    (void)state;
    enum { RANKS = 4 };
    pthread_t thread[RANKS];
    rank ranks[RANKS];
    sg_emu_set_devices(RANKS);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (rank){.device = i};
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < RANKS; i++) {
        assert_true(ranks[i].fine);
        assert_int_equal(ranks[i].sum, 1000 * i + 200);
    }
}

/* How long it takes is told, not judged: machines differ. */
static void test_many_barriers(void **state) {
    (void)state;
    enum { BLOCKS = 1000, THREADS = 256, BARRIERS = 10 };
    int *a = device_ints(BLOCKS);
    cudaStream_t s = new_stream();
    struct timespec from, to;
    OK(emu_barriers(a, BLOCKS, THREADS, BARRIERS, s));
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    OK(cudaStreamSynchronize(s));
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    for (int i = 0; i < BLOCKS; i++) assert_int_equal(a[i], THREADS * BARRIERS);
    print_message("%d blocks of %d threads, %d barriers: %.3f s\n", BLOCKS, THREADS, BARRIERS,
                  (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec));
    OK(cudaStreamDestroy(s));
    OK(cudaFree(a));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_results_are_there_after_a_wait),
        TEST(test_streams_have_no_order_without_an_event),
        TEST(test_threads_of_a_block_work_together),
        TEST(test_a_barrier_that_not_all_reach),
        TEST(test_accesses_outside_allocations),
        TEST(test_frees_of_what_is_not_allocated),
        TEST(test_copies_say_where_memory_is),
        TEST(test_streams_belong_to_devices),
        TEST(test_a_recording_runs_when_it_is_replayed),
        TEST(test_what_ends_a_recording),
        TEST(test_a_lost_device_answers_nothing),
        TEST(test_memory_has_an_end),
        TEST(test_failures_by_number_and_by_place),
        TEST(test_what_is_alive_is_counted),
        TEST(test_ranks_are_threads),
        TEST(test_many_barriers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
