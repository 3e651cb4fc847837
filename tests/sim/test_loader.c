/* The frame codec and the data loader: pictures survive, batches come in order and are functions of the sample, workers stop,
 * and the simulated queue does what the law of rates says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/clock.h"
#include "sim/loader/frame_codec.h"
#include "sim/loader/frame_planes.h"
#include "sim/loader/loader.h"

/* ---- the codec --------------------------------------------------------------------------------------------------- */

/* Decoded luma against the scene that was encoded; the quantiser leaves a few levels of error. */
static void pictures_survive(void **unused) {
    (void)unused;
    enum { H = 96, W = 128 };
    sg_frame_codec *codec;
    sg_frame_decoder *decoder;
    assert_int_equal(sg_frame_codec_new(H, W, 5, &codec, NULL), SG_OK);
    assert_int_equal(sg_frame_decoder_new(codec, &decoder, NULL), SG_OK);
    const int64_t stride[3] = {(int64_t)H * W, W, 1};
    static uint8_t rgb[3 * H * W], again[3 * H * W], other[3 * H * W];
    sg_planes scene;
    assert_int_equal(sg_planes_new(H, W, &scene, NULL), SG_OK);
    for (int f = 0; f < sg_frame_codec_frames(codec); f++) {
        sg_frame_decode(decoder, f, rgb, stride);
        sg_planes_draw_scene(5, f / 2, f % 2, &scene);
        double squares = 0;
        for (int i = 0; i < H * W; i++) {
            double luma = 0.299 * rgb[i] + 0.587 * rgb[H * W + i] + 0.114 * rgb[2 * H * W + i];
            double error = luma - scene.at[0][i];
            squares += error * error;
        }
        assert_true(10 * log10(255 * 255 * H * W / squares) > 28); /* PSNR, dB */
        assert_true(sg_frame_codec_bytes(codec, f) > 200);         /* there is something to decode */
        assert_true(sg_frame_codec_bytes(codec, f) < H * W);
        sg_frame_decode(decoder, 0, other, stride);
        sg_frame_decode(decoder, f, again, stride); /* no state is left over */
        assert_memory_equal(rgb, again, sizeof rgb);
        if (f > 1) assert_memory_not_equal(rgb, other, sizeof rgb);
        /* second frames are coded by what changed */
        if (f % 2) assert_true(sg_frame_codec_bytes(codec, f) < sg_frame_codec_bytes(codec, f - 1));
    }
    sg_planes_free(&scene);
    sg_frame_decoder_free(decoder);
    sg_frame_codec_free(codec);
}

static void any_size_and_layout(void **unused) {
    (void)unused;
    static const int64_t sizes[][2] = {{8, 8}, {9, 31}, {17, 16}, {50, 33}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t h = sizes[i][0], w = sizes[i][1];
        sg_frame_codec *codec;
        sg_frame_decoder *decoder;
        assert_int_equal(sg_frame_codec_new(h, w, 1, &codec, NULL), SG_OK);
        assert_int_equal(sg_frame_decoder_new(codec, &decoder, NULL), SG_OK);
        size_t n = (size_t)(3 * h * w);
        uint8_t *planar = malloc(n), *packed = malloc(n); /* exactly: ASan sees an overrun */
        assert_true(planar && packed);
        sg_frame_decode(decoder, 1, planar, (const int64_t[3]){h * w, w, 1});
        sg_frame_decode(decoder, 1, packed, (const int64_t[3]){1, 3 * w, 3});
        for (int64_t p = 0; p < h * w; p++)
            for (int64_t c = 0; c < 3; c++) assert_int_equal(planar[c * h * w + p], packed[3 * p + c]);
        free(planar);
        free(packed);
        sg_frame_decoder_free(decoder);
        sg_frame_codec_free(codec);
    }
    sg_frame_codec *codec;
    assert_int_equal(sg_frame_codec_new(7, 640, 1, &codec, NULL), SG_BAD_INPUT);
    assert_int_equal(sg_frame_codec_new(480, 100000, 1, &codec, NULL), SG_BAD_INPUT);
}

/* A frame costs by its pixels: 16 times the area, several times the processor time (the least of interleaved runs). */
static void frames_cost_by_their_size(void **unused) {
    (void)unused;
    sg_frame_codec *codec[2];
    sg_frame_decoder *decoder[2];
    static uint8_t to[3 * 240 * 320];
    double least[2] = {INFINITY, INFINITY};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sg_frame_codec_new(i ? 240 : 60, i ? 320 : 80, 1, &codec[i], NULL), SG_OK);
        assert_int_equal(sg_frame_decoder_new(codec[i], &decoder[i], NULL), SG_OK);
    }
    for (int k = 0; k < 60; k++) {
        int big = k % 6 == 0, w = big ? 320 : 80, h = big ? 240 : 60;
        double start = sg_clock_thread_s();
        for (int f = 0; f < 2; f++) sg_frame_decode(decoder[big], f, to, (const int64_t[3]){(int64_t)h * w, w, 1});
        least[big] = fmin(least[big], sg_clock_thread_s() - start);
    }
    assert_true(least[1] > 5 * least[0]);
    for (int i = 0; i < 2; i++) {
        sg_frame_decoder_free(decoder[i]);
        sg_frame_codec_free(codec[i]);
    }
}

/* ---- the loader -------------------------------------------------------------------------------------------------- */

enum { BATCH = 2, H = 24, W = 32 };

/* Two cameras of one size and a state; only what a loader reads. */
typedef struct shapes {
    sg_training training;
    sg_tensor tensors[4];
    sg_input inputs[4];
} shapes;

static shapes *small_training(int64_t batch) {
    shapes *s = calloc(1, sizeof *s);
    assert_non_null(s);
    const int64_t image[4] = {batch, 3, H, W}, state[2] = {batch, 6};
    s->tensors[0].desc = sg_desc_make(SG_U8, 4, image);
    s->tensors[1].desc = sg_desc_channels_last(SG_U8, batch, 3, H, W);
    s->tensors[2].desc = sg_desc_make(SG_F32, 2, state);
    s->tensors[3].desc = sg_desc_make(SG_F32, 2, state);
    s->inputs[0] = (sg_input){.name = "top", .tensor = 0, .source = SG_INPUT_IMAGE, .high = 256};
    s->inputs[1] = (sg_input){.name = "wrist", .tensor = 1, .source = SG_INPUT_IMAGE, .high = 256};
    s->inputs[2] = (sg_input){.name = "state", .tensor = 2, .source = SG_INPUT_UNIFORM, .low = -1, .high = 1};
    s->inputs[3] = (sg_input){.name = "kept", .tensor = 3, .source = SG_INPUT_STORAGE, .high = 1};
    s->training = (sg_training){.policy = "shapes",
                                .batch = batch,
                                .accumulation = 1,
                                .cameras = 2,
                                .image_height = H,
                                .image_width = W,
                                .frames_per_sample = 1,
                                .tensors = s->tensors,
                                .n_tensors = 4,
                                .inputs = s->inputs,
                                .n_inputs = 4};
    return s;
}

static sg_loader *opened(const sg_loader_options *o) {
    sg_loader *l;
    sg_status status = {0};
    if (sg_loader_open(o, &l, &status)) fail_msg("%s", status.text);
    return l;
}

static void *const *next(sg_loader *l) {
    void *const *data;
    double wait_s;
    assert_int_equal(sg_loader_next(l, 0, &data, &wait_s, NULL), SG_OK);
    assert_true(wait_s == 0);
    return data;
}

/* Whatever the number of workers: the same batches in the same order. */
static void workers_do_not_matter(void **unused) {
    (void)unused;
    enum { BATCHES = 12, IMAGE = BATCH * 3 * H * W, STATE = BATCH * 6 };
    static uint8_t images[BATCHES][2][IMAGE];
    static float states[BATCHES][STATE];
    static const int workers[] = {0, 1, 2, 3, 5};
    shapes *s = small_training(BATCH);
    for (size_t k = 0; k < sizeof workers / sizeof *workers; k++) {
        sg_loader *l = opened(&(sg_loader_options){
            .training = &s->training, .workers = workers[k], .prefetch = 1 + (int)k % 2, .seed = 4});
        for (int b = 0; b < BATCHES; b++) {
            void *const *data = next(l);
            assert_null(data[3]);
            if (k == 0) {
                memcpy(images[b][0], data[0], IMAGE);
                memcpy(images[b][1], data[1], IMAGE);
                memcpy(states[b], data[2], sizeof states[b]);
            } else {
                assert_memory_equal(images[b][0], data[0], IMAGE);
                assert_memory_equal(images[b][1], data[1], IMAGE);
                assert_memory_equal(states[b], data[2], sizeof states[b]);
            }
        }
        assert_true(sg_loader_frame_s(l) > 0);
        sg_loader_close(l);
    }
    int different = 0;
    for (int b = 1; b < BATCHES; b++) different += states[b][0] != states[0][0];
    assert_int_equal(different, BATCHES - 1);
    free(s);
}

/* Two ranks get the halves of the batch of twice the size. */
static void ranks_share_one_stream(void **unused) {
    (void)unused;
    shapes *whole = small_training(2 * BATCH), *half = small_training(BATCH);
    for (int r = 0; r < 2; r++) {
        sg_loader *part =
            opened(&(sg_loader_options){.training = &half->training, .workers = 1, .seed = 8, .rank = r, .ranks = 2});
        sg_loader *from_start = opened(&(sg_loader_options){.training = &whole->training, .seed = 8});
        for (int b = 0; b < 3; b++) {
            void *const *a = next(part), *const *w = next(from_start);
            for (int i = 0; i < 3; i++) {
                size_t bytes = sg_desc_span_bytes(&half->tensors[i].desc);
                assert_memory_equal(a[i], (const char *)w[i] + (size_t)r * bytes, bytes);
            }
        }
        sg_loader_close(part);
        sg_loader_close(from_start);
    }
    free(whole);
    free(half);
}

/* Closing at any moment ends; with work under way, with a full queue, before the first batch. */
static void loaders_stop(void **unused) {
    (void)unused;
    shapes *s = small_training(BATCH);
    for (int i = 0; i < 40; i++) {
        sg_loader *l = opened(&(sg_loader_options){.training = &s->training, .workers = 1 + i % 4, .seed = 1});
        for (int b = 0; b < i % 7; b++) (void)next(l);
        sg_loader_close(l);
    }
    sg_loader_close(NULL);
    free(s);
}

static void bad_options_are_refused(void **unused) {
    (void)unused;
    shapes *s = small_training(BATCH);
    const sg_loader_options bad[] = {
        {.training = NULL},
        {.training = &s->training, .workers = -1},
        {.training = &s->training, .workers = 100000},
        {.training = &s->training, .prefetch = -2},
        {.training = &s->training, .prefetch = SG_PREFETCH_MAX + 1},
        {.training = &s->training, .rank = 1},
        {.training = &s->training, .rank = 2, .ranks = 2},
        {.training = &s->training, .simulated = true, .frame_s = -1},
        {.training = &s->training, .simulated = true, .frame_s = NAN},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sg_loader *l;
        sg_status status = {0};
        assert_int_equal(sg_loader_open(&bad[i], &l, &status), SG_BAD_INPUT);
        assert_null(l);
        assert_true(strlen(status.text) > 10);
    }
    s->tensors[0].desc.size[2] = 4; /* frames of 4 rows */
    sg_loader *l;
    assert_int_equal(sg_loader_open(&(sg_loader_options){.training = &s->training}, &l, NULL), SG_BAD_INPUT);
    free(s);
}

/* Waiting of the n-th batch when the step takes step_s. */
static double simulated_wait(int workers, double step_s, int batches, double *first) {
    shapes *s = small_training(BATCH);
    /* a batch is 4 frames of 0.1 s */
    sg_loader *l = opened(&(sg_loader_options){
        .training = &s->training, .workers = workers, .prefetch = 2, .simulated = true, .frame_s = 0.1});
    double now = 100, wait_s = 0;
    for (int b = 0; b < batches; b++) {
        void *const *data = (void *const *)&now;
        assert_int_equal(sg_loader_next(l, now, &data, &wait_s, NULL), SG_OK);
        assert_null(data);
        if (b == 0 && first) *first = wait_s;
        now += wait_s + step_s;
    }
    sg_loader_close(l);
    free(s);
    return wait_s;
}

/* step = max(update, frames per batch / (workers x rate)); without workers the sum (facts: loader law). */
static void the_simulated_queue_keeps_the_law(void **unused) {
    (void)unused;
    double first;
    assert_true(fabs(simulated_wait(0, 1, 5, &first) - 0.4) < 1e-9);
    assert_true(fabs(simulated_wait(1, 1.0, 50, &first)) < 1e-9);
    assert_true(fabs(first - 0.4) < 1e-9);
    assert_true(fabs(simulated_wait(1, 0.3, 50, &first) - 0.1) < 1e-9);
    /* with several workers whole batches come in bursts: the mean counts */
    shapes *s = small_training(BATCH);
    sg_loader *l = opened(
        &(sg_loader_options){.training = &s->training, .workers = 2, .prefetch = 2, .simulated = true, .frame_s = 0.1});
    double now = 0, sum = 0;
    for (int b = 0; b < 200; b++) {
        void *const *data;
        double wait_s;
        assert_int_equal(sg_loader_next(l, now, &data, &wait_s, NULL), SG_OK);
        if (b >= 100) sum += wait_s;
        now += wait_s + 0.05;
    }
    assert_true(fabs(sum / 100 - (0.2 - 0.05)) < 1e-3);
    now = sum = 0; /* the clock is set back between two iterations: waits go on as before */
    for (int b = 0; b < 100; b++) {
        void *const *data;
        double wait_s;
        assert_int_equal(sg_loader_next(l, now, &data, &wait_s, NULL), SG_OK);
        sum += wait_s;
        now += wait_s + 0.05;
    }
    assert_true(fabs(sum / 100 - (0.2 - 0.05)) < 5e-3);
    sg_loader_close(l);
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_survive),          cmocka_unit_test(any_size_and_layout),
        cmocka_unit_test(frames_cost_by_their_size), cmocka_unit_test(workers_do_not_matter),
        cmocka_unit_test(ranks_share_one_stream),    cmocka_unit_test(loaders_stop),
        cmocka_unit_test(bad_options_are_refused),   cmocka_unit_test(the_simulated_queue_keeps_the_law),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
