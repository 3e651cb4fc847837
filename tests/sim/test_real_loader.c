/* The loader of real batches: whatever the number of workers the same batches in the same order, every sample of an epoch once,
 * and worker processes that die, hang, read bad files or take too much memory are errors that say so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/clock.h"
#include "sim/loader/loader.h"
#include "sim/loader/sample_order.h"
#include "sim/loader/sample_source.h"
#include "sim/measure/point.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHADOW_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SHADOW_MEMORY 1
#endif
#endif

/* ---- samples that say which they are ----------------------------------------------------------------------------- */

enum { BATCH = 4, H = 6, W = 8, STATE = 3, FRAME = 3 * H * W };

typedef struct shapes {
    sg_training training;
    sg_tensor tensors[3];
    sg_input inputs[3];
} shapes;

static shapes shapes_of(void) {
    shapes s = {0};
    s.tensors[0].desc = sg_desc_make(SG_U8, 4, (const int64_t[]){BATCH, 3, H, W});
    s.tensors[1].desc = sg_desc_make(SG_F32, 2, (const int64_t[]){BATCH, STATE});
    s.tensors[2].desc = sg_desc_make(SG_F32, 2, (const int64_t[]){BATCH, STATE});
    s.inputs[0] = (sg_input){.name = "observation.images.camera1", .tensor = 0, .source = SG_INPUT_IMAGE, .high = 256};
    s.inputs[1] = (sg_input){.name = "observation.state", .tensor = 1, .source = SG_INPUT_UNIFORM, .high = 1};
    s.inputs[2] = (sg_input){.name = "noise", .tensor = 2, .source = SG_INPUT_UNIFORM, .low = 2, .high = 3};
    s.training = (sg_training){.policy = "shapes",
                               .batch = BATCH,
                               .accumulation = 1,
                               .cameras = 1,
                               .image_height = H,
                               .image_width = W,
                               .frames_per_sample = 1,
                               .n_tensors = 3,
                               .n_inputs = 3};
    return s;
}

static void join(shapes *s) {
    s->training.tensors = s->tensors;
    s->training.inputs = s->inputs;
}

/* What a sample does to the worker that reads it; -1: none does. */
typedef struct faults {
    int64_t unreadable, crashes, hangs, greedy;
} faults;
static const faults NONE = {-1, -1, -1, -1};

static sg_code open_hand(void *user, void **hand, sg_status *status) {
    (void)status;
    *hand = user;
    return SG_OK;
}

static sg_code take_memory(sg_status *status) {
    volatile size_t gib = (size_t)1 << 30;
    char *memory = malloc(gib);
    if (!memory) return sg_fail_memory(status, gib, "a decoder");
    memset(memory, 1, 4096);
    free(memory);
    return SG_OK;
}

static sg_code read_sample(void *hand, int64_t sample, int64_t row, void *const *data, sg_read_cost *cost,
                           sg_status *status) {
    const faults *f = hand;
    if (sample == f->unreadable) return sg_fail(status, SG_BAD_INPUT, "episode_7.png: not an image: leave it out");
    if (sample == f->crashes) (void)raise(SIGSEGV);
    if (sample == f->hangs) (void)pause();
    if (sample == f->greedy) return take_memory(status);
    memset((uint8_t *)data[0] + row * FRAME, (int)(sample % 251), FRAME);
    for (int k = 0; k < STATE; k++) ((float *)data[1])[row * STATE + k] = (float)sample + 0.25F * (float)k;
    cost->samples++;
    cost->frames++;
    cost->frames_decoded += 2;
    cost->bytes_read += FRAME;
    cost->frame_cpu_s += 1e-3;
    cost->frame_wall_s += 2e-3;
    return SG_OK;
}

static void where(void *user, int64_t sample, char *text, size_t bytes) {
    (void)user;
    (void)snprintf(text, bytes, "film_%d.mp4", (int)sample);
}

static const bool FILLS[3] = {true, true, false};

static sg_sample_source source_of(faults *f, int64_t samples) {
    return (sg_sample_source){
        .user = f, .samples = samples, .fills = FILLS, .open = open_hand, .read = read_sample, .where = where};
}

static sg_loader *opened(const sg_loader_options *o) {
    sg_loader *l;
    sg_status status = {0};
    if (sg_loader_open(o, &l, &status)) fail_msg("%s", status.text);
    return l;
}

static sg_code next(sg_loader *l, void *const **data, sg_status *status) {
    double wait_s;
    return sg_loader_next(l, 0, data, &wait_s, status);
}

/* The sample in a row of a batch; its parts agree. */
static int64_t sample_in(void *const *data, int row) {
    const float *state = (const float *)data[1] + (size_t)row * STATE, *drawn = (const float *)data[2];
    int64_t sample = (int64_t)state[0];
    const uint8_t *frame = (const uint8_t *)data[0] + (size_t)row * FRAME;
    for (int k = 0; k < FRAME; k++) assert_int_equal(frame[k], sample % 251);
    for (int k = 0; k < STATE; k++) assert_true(state[k] == (float)sample + 0.25F * (float)k);
    for (int k = 0; k < BATCH * STATE; k++) assert_true(drawn[k] >= 2 && drawn[k] <= 3);
    return sample;
}

/* ---- the order --------------------------------------------------------------------------------------------------- */

static void every_shuffle_is_a_permutation(void **unused) {
    (void)unused;
    static const int64_t sizes[] = {1, 2, 3, 17, 64, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bool seen[1000] = {false};
        for (int64_t p = 0; p < sizes[i]; p++) {
            int64_t at = sg_shuffled(3, 5, sizes[i], p);
            assert_true(at >= 0 && at < sizes[i]);
            assert_false(seen[at]);
            seen[at] = true;
        }
    }
    int moved = 0, other_epoch = 0, other_seed = 0;
    for (int64_t p = 0; p < 1000; p++) {
        moved += sg_shuffled(3, 5, 1000, p) != p;
        other_epoch += sg_shuffled(3, 5, 1000, p) != sg_shuffled(3, 6, 1000, p);
        other_seed += sg_shuffled(3, 5, 1000, p) != sg_shuffled(4, 5, 1000, p);
    }
    assert_true(moved > 980 && other_epoch > 980 && other_seed > 980);
    assert_true(sg_shuffled(1, 1, INT64_C(1) << 40, 12345) < INT64_C(1) << 40);
}

/* Ranks together see each sample of an epoch; what is beyond completes the last batches. */
static void ranks_share_an_epoch(void **unused) {
    (void)unused;
    enum { SAMPLES = 27, RANKS = 3 };
    int seen[SAMPLES] = {0};
    for (int rank = 0; rank < RANKS; rank++) {
        const sg_sample_order order = {SAMPLES, BATCH, 9, rank, RANKS};
        assert_int_equal(sg_order_batches(&order), 3); /* 7 batches of 4 over 3 ranks */
        for (int64_t b = 0; b < 3; b++)
            for (int64_t row = 0; row < BATCH; row++) seen[sg_order_sample(&order, 2, b, row)]++;
    }
    int more = 0;
    for (int i = 0; i < SAMPLES; i++) {
        assert_true(seen[i] == 1 || seen[i] == 2);
        more += seen[i] - 1;
    }
    assert_int_equal(more, 3 * RANKS * BATCH - SAMPLES);
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

static void workers_do_not_matter(void **unused) {
    (void)unused;
    enum { SAMPLES = 30, EPOCH = 8, BATCHES = 3 * EPOCH };
    static const int workers[] = {0, 1, 3};
    int64_t expected[BATCHES][BATCH];
    shapes s = shapes_of();
    join(&s);
    faults none = NONE;
    const sg_sample_source source = source_of(&none, SAMPLES);
    for (size_t k = 0; k < sizeof workers / sizeof *workers; k++) {
        sg_loader *l = opened(&(sg_loader_options){
            .training = &s.training, .source = &source, .workers = workers[k], .prefetch = 2, .seed = 4});
        for (int b = 0; b < BATCHES; b++) {
            void *const *data;
            sg_status status = {0};
            assert_int_equal(sg_loader_epoch(l), b / EPOCH);
            if (next(l, &data, &status)) fail_msg("%s", status.text);
            for (int row = 0; row < BATCH; row++) {
                int64_t sample = sample_in(data, row);
                if (k == 0) expected[b][row] = sample;
                assert_int_equal(sample, expected[b][row]);
            }
        }
        sg_loader_close(l);
    }
    for (int e = 0; e < 3; e++) {
        int seen[SAMPLES] = {0};
        for (int b = 0; b < EPOCH; b++)
            for (int row = 0; row < BATCH; row++) seen[expected[e * EPOCH + b][row]]++;
        for (int i = 0; i < SAMPLES; i++) assert_true(seen[i] >= 1);
    }
    assert_memory_not_equal(expected[0], expected[EPOCH], sizeof expected[0]);
}

static void what_batches_cost_is_told(void **unused) {
    (void)unused;
    shapes s = shapes_of();
    join(&s);
    faults none = NONE;
    const sg_sample_source source = source_of(&none, 16);
    sg_loader *l =
        opened(&(sg_loader_options){.training = &s.training, .source = &source, .workers = 2, .prefetch = 3});
    void *const *data;
    sg_loader_record r;
    for (int b = 0; b < 3; b++) assert_int_equal(next(l, &data, NULL), SG_OK);
    sg_loader_count_from_here(l);
    for (int b = 0; b < 6; b++) assert_int_equal(next(l, &data, NULL), SG_OK); /* batches 4 and 8 begin epochs */
    sg_loader_tell(l, &r);
    assert_int_equal(r.batches, 6);
    assert_int_equal(r.frames, 6 * BATCH);
    assert_int_equal(r.frames_decoded, 2 * 6 * BATCH);
    assert_int_equal(r.bytes_read, 6 * BATCH * FRAME);
    assert_true(fabs(r.frame_cpu_s - 1e-3) < 1e-9 && fabs(r.frame_s - 2e-3) < 1e-9);
    assert_true(r.batch_s > 0 && r.batch_cpu_s > 0 && r.batch_log_sd > 0);
    assert_true(r.first_batch_s > 0 && r.epoch_s > 0);
    assert_true(r.worker_bytes > 0);
    assert_true(r.processors >= 1);
    assert_int_equal(r.prefetch, 3);
    assert_true(fabs(sg_loader_frame_s(l) - 1e-3) < 1e-9);
    sg_loader_close(l);
}

/* ---- pinned memory ----------------------------------------------------------------------------------------------- */

static int64_t pinned; /* pieces that are held */

static sg_code pin(sg_device *device, uint64_t bytes, void **memory, sg_status *status) {
    (void)device;
    *memory = malloc(bytes);
    if (!*memory) return sg_fail_memory(status, bytes, "pinned memory");
    pinned++;
    return SG_OK;
}

static void unpin(sg_device *device, void *memory) {
    (void)device;
    free(memory);
    pinned--;
}

static const sg_device_api PINNING = {.host_alloc = pin, .host_free = unpin};

/* The same batches through a thread that copies them, over several epochs, and closing with copies under way. */
static void batches_come_in_pinned_memory(void **unused) {
    (void)unused;
    shapes s = shapes_of();
    join(&s);
    faults none = NONE;
    sg_status status = {0};
    const sg_sample_source source = source_of(&none, 22);
    for (int workers = 0; workers <= 2; workers++) {
        const sg_sample_order order = {22, BATCH, 4, 0, 1};
        sg_loader *l = opened(&(sg_loader_options){
            .training = &s.training, .source = &source, .workers = workers, .prefetch = 2, .seed = 4});
        assert_int_equal(sg_loader_use_device(l, &PINNING, NULL, &status), SG_OK);
        assert_int_equal(pinned,
                         3 * (workers ? 3 * workers : 2)); /* each worker may be two ahead of one that is held */
        for (int64_t b = 0; b < 20; b++) {
            void *const *data;
            if (next(l, &data, &status)) fail_msg("%s", status.text);
            for (int row = 0; row < BATCH; row++)
                assert_int_equal(sample_in(data, row), sg_order_sample(&order, b / 6, b % 6, row));
        }
        sg_loader_close(l);
        assert_int_equal(pinned, 0);
    }
    faults bad = {7, -1, -1, -1};
    const sg_sample_source broken = source_of(&bad, 22);
    sg_loader *l =
        opened(&(sg_loader_options){.training = &s.training, .source = &broken, .workers = 2, .prefetch = 1});
    assert_int_equal(sg_loader_use_device(l, &PINNING, NULL, &status), SG_OK);
    void *const *data;
    sg_code code = SG_OK;
    for (int b = 0; b < 8 && !code; b++) code = next(l, &data, &status);
    assert_int_equal(code, SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "episode_7.png"));
    assert_int_equal(next(l, &data, &status), SG_BAD_INPUT); /* and stays so */
    sg_loader_close(l);
    assert_int_equal(pinned, 0);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

/* The error after at most `most` batches. */
static sg_code error_of(sg_loader *l, int most, sg_status *status) {
    void *const *data;
    sg_code code = SG_OK;
    for (int b = 0; b < most && !code; b++) code = next(l, &data, status);
    return code;
}

static void faults_are_told(void **unused) {
    (void)unused;
    static const struct {
        faults what;
        sg_code code;
        const char *words[3];
    } cases[] = {{{5, -1, -1, -1}, SG_BAD_INPUT, {"worker", "episode_7.png", "leave it out"}},
                 {{-1, 5, -1, -1}, SG_MACHINE, {"worker", "film_5.mp4", "leave that out"}},
                 {{-1, -1, 5, -1}, SG_MACHINE, {"worker", "film_5.mp4", "has read nothing for"}}};
    shapes s = shapes_of();
    join(&s);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int workers = 0; workers <= 2; workers += 2) {
            faults what = cases[k].what;
            sg_status status = {0};
            const sg_sample_source source = source_of(&what, 12);
            sg_loader *l = opened(
                &(sg_loader_options){.training = &s.training, .source = &source, .workers = workers, .hang_s = 0.2});
            assert_int_equal(error_of(l, 3, &status), cases[k].code);
            for (int w = 0; w < 3; w++)
                if (!strstr(status.text, cases[k].words[w]))
                    fail_msg("'%s' is not in: %s", cases[k].words[w], status.text);
            sg_loader_close(l);
        }
}

static void a_killed_worker_is_told(void **unused) {
    (void)unused;
    shapes s = shapes_of();
    join(&s);
    faults none = NONE;
    sg_status status = {0};
    const sg_sample_source source = source_of(&none, 400);
    sg_loader *l =
        opened(&(sg_loader_options){.training = &s.training, .source = &source, .workers = 2, .prefetch = 1});
    assert_int_equal(error_of(l, 3, &status), SG_OK);
    assert_int_equal(kill(sg_loader_process(l, 1), SIGKILL), 0);
    assert_int_equal(error_of(l, 10, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "worker 1 of 2"));
    assert_non_null(strstr(status.text, "as the kernel does where memory runs out: take fewer workers"));
    sg_loader_close(l);
}

static sg_code read_lies(void *hand, int64_t sample, int64_t row, void *const *data, sg_read_cost *cost,
                         sg_status *status) {
    sg_code code = read_sample(hand, sample, row, data, cost, status);
    cost->frame_cpu_s = sample == 5 ? (double)NAN : cost->frame_cpu_s;
    return code;
}

/* A worker that a file has got hold of cannot write what it likes into a record. */
static void nonsense_of_a_worker_is_refused(void **unused) {
    (void)unused;
    shapes s = shapes_of();
    join(&s);
    faults none = NONE;
    sg_status status = {0};
    sg_sample_source source = source_of(&none, 12);
    source.read = read_lies;
    sg_loader *l = opened(&(sg_loader_options){.training = &s.training, .source = &source, .workers = 1});
    assert_int_equal(error_of(l, 3, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "hostile"));
    sg_loader_close(l);
}

#ifndef SHADOW_MEMORY
static void memory_has_a_limit(void **unused) {
    (void)unused;
    shapes s = shapes_of();
    join(&s);
    for (int limited = 0; limited < 2; limited++) {
        faults greedy = {-1, -1, -1, 2};
        sg_status status = {0};
        sg_sample_source source = source_of(&greedy, 4);
        source.memory_bytes = limited ? 256u << 20 : 0;
        sg_loader *l = opened(&(sg_loader_options){.training = &s.training, .source = &source, .workers = 1});
        assert_int_equal(error_of(l, 1, &status), limited ? SG_MACHINE : SG_OK);
        if (limited) assert_non_null(strstr(status.text, "a decoder"));
        sg_loader_close(l);
    }
}
#endif

static bool is_gone(int process) {
    for (int i = 0; i < 500; i++) {
        if (kill(process, 0) != 0 && errno == ESRCH) return true;
        char path[64], state = 0;
        (void)snprintf(path, sizeof path, "/proc/%d/stat", process);
        FILE *file = fopen(path, "re");
        if (!file) return true;
        int got = fscanf(file, "%*d (%*[^)]) %c", &state);
        (void)fclose(file);
        if (got == 1 && state == 'Z') return true; /* dead; nobody has waited for it yet */
        (void)usleep(10000);
    }
    return false;
}

/* Workers go with the training process, even in the middle of a batch. */
static void no_orphan_is_left(void **unused) {
    (void)unused;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t training = fork();
    if (training == 0) {
        shapes s = shapes_of();
        join(&s);
        faults hangs = {-1, -1, 1, -1};
        sg_loader *l;
        const sg_sample_source source = source_of(&hangs, 2);
        int ids[2] = {0, 0};
        if (sg_loader_open(&(sg_loader_options){.training = &s.training, .source = &source, .workers = 2}, &l, NULL) ==
            SG_OK)
            for (int i = 0; i < 2; i++) ids[i] = sg_loader_process(l, i);
        if (write(ends[1], ids, sizeof ids) != sizeof ids) _exit(1);
        for (;;) (void)pause();
    }
    int ids[2] = {0, 0};
    assert_int_equal(read(ends[0], ids, sizeof ids), sizeof ids);
    assert_true(ids[0] > 0 && ids[1] > 0);
    assert_int_equal(kill(training, SIGKILL), 0);
    assert_int_equal(waitpid(training, NULL, 0), training);
    for (int i = 0; i < 2; i++) assert_true(is_gone(ids[i]));
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* An interrupt ends the waiting for a batch that does not come, and closing leaves no process behind. */
static void interrupts_are_heard(void **unused) {
    (void)unused;
    shapes s = shapes_of();
    join(&s);
    faults hangs = {-1, -1, 1, -1};
    volatile int stop = 1;
    sg_status status = {0};
    const sg_sample_source source = source_of(&hangs, 2);
    sg_loader *l =
        opened(&(sg_loader_options){.training = &s.training, .source = &source, .workers = 1, .stop = &stop});
    int process = sg_loader_process(l, 0);
    double start = sg_clock_s();
    assert_int_equal(error_of(l, 1, &status), SG_MACHINE);
    assert_string_equal(status.text, "interrupted");
    assert_true(sg_clock_s() - start < 60); /* not the 120 s of a hang */
    sg_loader_close(l);
    assert_int_equal(kill(process, 0), -1);
}

static void nonsense_is_refused(void **unused) {
    (void)unused;
    shapes s = shapes_of();
    join(&s);
    faults none = NONE;
    sg_loader *l;
    sg_status status = {0};
    sg_sample_source source = source_of(&none, 0);
    sg_loader_options o = {.training = &s.training, .source = &source, .workers = 1};
    assert_int_equal(sg_loader_open(&o, &l, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "no samples"));
    source.samples = 10;
    o.simulated = true;
    assert_int_equal(sg_loader_open(&o, &l, &status), SG_BAD_INPUT);
    o.simulated = false;
    s.tensors[0].desc = sg_desc_make(SG_U8, 4, (const int64_t[]){BATCH, 3, 1 << 19, 1 << 19});
    o.workers = 8;
    assert_int_equal(sg_loader_open(&o, &l, &status), SG_NO);
    assert_non_null(strstr(status.text, "fewer loader workers"));
    o.workers = 100000;
    assert_int_equal(sg_loader_open(&o, &l, &status), SG_BAD_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shuffle_is_a_permutation),
        cmocka_unit_test(ranks_share_an_epoch),
        cmocka_unit_test(workers_do_not_matter),
        cmocka_unit_test(what_batches_cost_is_told),
        cmocka_unit_test(batches_come_in_pinned_memory),
        cmocka_unit_test(faults_are_told),
        cmocka_unit_test(a_killed_worker_is_told),
        cmocka_unit_test(nonsense_of_a_worker_is_refused),
#ifndef SHADOW_MEMORY
        cmocka_unit_test(memory_has_a_limit),
#endif
        cmocka_unit_test(no_orphan_is_left),
        cmocka_unit_test(interrupts_are_heard),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
