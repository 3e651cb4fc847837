/* What a GPU does not forgive, the emulation does not either: errors that nobody took back, recordings that are not whole,
 * results that hang on the order of threads. */
#include "tests/cuda/emulation_calls.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { BLOCKS = 9, THREADS = 64, N = BLOCKS * THREADS };

static int begin(void **state) {
    (void)state;
    sg_emu_set_devices(1);
    OK(cudaSetDevice(0));
    (void)cudaGetLastError();
    (void)sg_emu_fault();
    return 0;
}
static int end(void **state) {
    (void)state;
    sg_emu_set_order(0);
    sg_emu_alive a = sg_emu_count_alive();
    const char *fault = sg_emu_fault();
    if (fault) print_error("%s\n", fault);
    return fault || a.allocations || a.streams || a.events || a.graphs ? -1 : 0;
}

/* ---- errors -------------------------------------------------------------------------------------------------------- */

static void test_not_ready_is_an_error_until_it_is_taken(void **state) {
    (void)state;
    int *a = device_ints(N);
    cudaStream_t s = new_stream();
    OK(emu_fill(a, N, 1, s));
    OK(emu_fill(a, N, 2, s));
    assert_int_equal(cudaStreamQuery(s), cudaErrorNotReady);
    assert_int_equal(emu_fill(a, N, 3, s), cudaErrorNotReady); /* queued, but blamed for the question before */
    assert_int_equal(cudaStreamQuery(s), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaErrorNotReady);
    OK(emu_fill(a, N, 4, s));
    OK(cudaStreamSynchronize(s));
    assert_int_equal(a[0], 4);
    OK(cudaStreamDestroy(s));
    OK(cudaFree(a));
}

/* ---- recordings ----------------------------------------------------------------------------------------------------- */

static void test_only_a_relaxed_recording_lives_with_allocations(void **state) {
    (void)state;
    static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                                       cudaStreamCaptureModeRelaxed};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        bool relaxed = modes[i] == cudaStreamCaptureModeRelaxed;
        cudaStream_t s = new_stream();
        cudaGraph_t graph = NULL;
        void *at = NULL;
        OK(cudaStreamBeginCapture(s, modes[i]));
        assert_int_equal(cudaMalloc(&at, 4), relaxed ? cudaSuccess : cudaErrorStreamCaptureUnsupported);
        assert_int_equal(cudaStreamEndCapture(s, &graph), relaxed ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
        (void)cudaGetLastError();
        if (graph) OK(cudaGraphDestroy(graph));
        OK(cudaFree(at));
        OK(cudaStreamDestroy(s));
    }
}

/* A stream joins by waiting for the first one's event, and must be waited for in the end. */
static void test_streams_that_joined_must_come_back(void **state) {
    (void)state;
    int *a = device_ints(N), *b = device_ints(N);
    for (int back = 0; back < 2; back++) {
        cudaStream_t first = new_stream(), second = new_stream();
        cudaEvent_t fork = new_event(cudaEventDefault), join = new_event(cudaEventDefault);
        cudaGraph_t graph = NULL;
        OK(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed));
        OK(emu_fill(a, N, 7, first));
        OK(cudaEventRecord(fork, first));
        OK(cudaStreamWaitEvent(second, fork, 0));
        if (!back) OK(cudaEventRecord(join, second)); /* too early: the work comes behind it */
        OK(emu_double(a, b, N, second));
        if (back) OK(cudaEventRecord(join, second));
        OK(cudaStreamWaitEvent(first, join, 0));
        assert_int_equal(cudaStreamEndCapture(first, &graph), back ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
        (void)cudaGetLastError();
        if (graph) OK(cudaGraphDestroy(graph));
        assert_int_equal(cudaEventQuery(fork), cudaErrorCapturedEvent);
        (void)cudaGetLastError();
        OK(cudaEventRecord(fork, first)); /* outside it is an event like others again */
        OK(cudaEventSynchronize(fork));
        OK(cudaEventDestroy(fork));
        OK(cudaEventDestroy(join));
        OK(cudaStreamDestroy(first));
        OK(cudaStreamDestroy(second));
    }
    OK(cudaFree(a));
    OK(cudaFree(b));
}

static void test_a_recording_does_not_wait_for_work_outside(void **state) {
    (void)state;
    int *a = device_ints(N);
    cudaStream_t first = new_stream(), second = new_stream();
    cudaEvent_t outside = new_event(cudaEventDefault);
    cudaGraph_t graph = NULL;
    OK(emu_fill(a, N, 7, second));
    OK(cudaEventRecord(outside, second));
    OK(cudaEventSynchronize(outside)); /* that it is done already is no excuse */
    OK(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed));
    assert_int_equal(cudaStreamWaitEvent(first, outside, 0), cudaErrorStreamCaptureIsolation);
    assert_int_equal(cudaStreamEndCapture(first, &graph), cudaErrorStreamCaptureInvalidated);
    (void)cudaGetLastError();
    OK(cudaEventDestroy(outside));
    OK(cudaStreamDestroy(first));
    OK(cudaStreamDestroy(second));
    OK(cudaFree(a));
}

static void *end_elsewhere(void *stream) {
    cudaGraph_t graph = NULL;
    cudaError_t error = cudaStreamEndCapture(stream, &graph);
    return (void *)(uintptr_t)error;
}
static void test_a_recording_ends_on_the_thread_that_began_it(void **state) {
    (void)state;
    cudaStream_t s = new_stream();
    pthread_t thread;
    void *error = NULL;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, s), 0);
    assert_int_equal(pthread_join(thread, &error), 0);
    assert_int_equal((uintptr_t)error, cudaErrorStreamCaptureWrongThread);
    OK(cudaStreamDestroy(s));
}

/* ---- order ----------------------------------------------------------------------------------------------------------- */

static int wrong_after_passing(int *a, bool with_barrier, unsigned order, cudaStream_t s) {
    int wrong = 0;
    sg_emu_set_order(order);
    OK(emu_pass_on(a, BLOCKS, with_barrier, s));
    OK(cudaStreamSynchronize(s));
    for (int i = 0; i < N; i++) wrong += a[i] != (i + 1) % THREADS;
    return wrong;
}

static void test_a_missing_barrier_shows_in_another_order(void **state) {
    (void)state;
    int *a = device_ints(N);
    cudaStream_t s = new_stream();
    for (unsigned order = 0; order < 10; order++) assert_int_equal(wrong_after_passing(a, true, order, s), 0);
    int forward = wrong_after_passing(a, false, 0, s), backward = wrong_after_passing(a, false, 1, s);
    assert_int_not_equal(forward, backward);
    int most = 0;
    for (unsigned order = 2; order < 10; order++) {
        int wrong = wrong_after_passing(a, false, order, s);
        most = wrong > most ? wrong : most;
    }
    assert_true(most > N / 8);
    OK(cudaStreamDestroy(s));
    OK(cudaFree(a));
}

static void test_blocks_and_threads_have_no_order(void **state) {
    (void)state;
    int *a = device_ints(N);
    cudaStream_t s = new_stream();
    for (unsigned order = 0; order < 6; order++) {
        int wrong = 0, fine = 0;
        sg_emu_set_order(order);
        for (int i = 0; i < N; i++) a[i] = i;
        OK(emu_shift(a, N, s));
        OK(cudaStreamSynchronize(s));
        for (int i = 0; i + 1 < N; i++) a[i] == i + 1 ? fine++ : wrong++;
        if (order == 0) assert_int_equal(wrong, 0); /* by luck */
        if (order == 1) assert_int_equal(fine, 1);
        if (order > 1) assert_true(wrong > 0 && fine > 0);
    }
    /* every thread of every block has run all the same, once */
    for (unsigned order = 0; order < 6; order++) {
        int *sums = device_ints(BLOCKS);
        sg_emu_set_order(order);
        OK(emu_sum(sums, BLOCKS, s));
        OK(emu_fill(a, N, (int)order, s));
        OK(cudaStreamSynchronize(s));
        for (int i = 0; i < BLOCKS; i++) assert_int_equal(sums[i], THREADS * (THREADS - 1) / 2);
        for (int i = 0; i < N; i++) assert_int_equal(a[i], order);
        OK(cudaFree(sums));
    }
    OK(cudaStreamDestroy(s));
    OK(cudaFree(a));
}

static void test_pageable_memory_may_be_read_late(void **state) {
    (void)state;
    for (unsigned order = 0; order < 2; order++) {
        int *a = device_ints(1), value = 5;
        cudaStream_t s = new_stream();
        sg_emu_set_order(order);
        OK(cudaMemcpyAsync(a, &value, sizeof value, cudaMemcpyHostToDevice, s));
        value = 6;
        OK(cudaStreamSynchronize(s));
        assert_int_equal(a[0], order ? 6 : 5);
        OK(cudaStreamDestroy(s));
        OK(cudaFree(a));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_not_ready_is_an_error_until_it_is_taken, begin, end),
        cmocka_unit_test_setup_teardown(test_only_a_relaxed_recording_lives_with_allocations, begin, end),
        cmocka_unit_test_setup_teardown(test_streams_that_joined_must_come_back, begin, end),
        cmocka_unit_test_setup_teardown(test_a_recording_does_not_wait_for_work_outside, begin, end),
        cmocka_unit_test_setup_teardown(test_a_recording_ends_on_the_thread_that_began_it, begin, end),
        cmocka_unit_test_setup_teardown(test_a_missing_barrier_shows_in_another_order, begin, end),
        cmocka_unit_test_setup_teardown(test_blocks_and_threads_have_no_order, begin, end),
        cmocka_unit_test_setup_teardown(test_pageable_memory_may_be_read_late, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
