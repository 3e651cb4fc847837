/* Frames come back from files as they were drawn, and the frame of a time is the one of that time: each carries its number. */
#include "datasets/codec.h"
#include "datasets/scene.h"
#include "tests/support/scratch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { HEIGHT = 96, WIDTH = 128, PLANE = HEIGHT * WIDTH, BYTES = 3 * PLANE, BLOCK = 16, BITS = 8, FRAMES = 40 };
static const double FPS = 30, TOLERANCE_S = 1e-4;

static const sg_codec_api *video, *image;
static sg_scratch folder;

/* ---- drawn frames with a number in them ---------------------------------------------------------------------------- */

static bool draw(void *scene, int64_t frame, uint8_t *rgb) {
    sg_scene_draw(scene, frame, rgb);
    for (int bit = 0; bit < BITS; bit++)
        for (int c = 0; c < 3; c++)
            for (int y = 0; y < BLOCK; y++)
                memset(rgb + c * PLANE + y * WIDTH + bit * BLOCK, frame >> bit & 1 ? 235 : 20, BLOCK);
    return true;
}

static int64_t number_in(const uint8_t *rgb) {
    int64_t number = 0;
    for (int bit = 0; bit < BITS; bit++) {
        int value = rgb[PLANE + BLOCK / 2 * WIDTH + bit * BLOCK + BLOCK / 2];
        assert_true(value < 90 || value > 165);
        number |= (int64_t)(value > 128) << bit;
    }
    return number;
}

static double psnr(const uint8_t *a, const uint8_t *b) {
    double sum = 0;
    for (int i = 0; i < BYTES; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sum > 0 ? 10 * log10(255.0 * 255.0 * BYTES / sum) : INFINITY;
}

static sg_scene *scene_of(uint64_t seed) {
    sg_scene *scene;
    sg_status status;
    assert_int_equal(sg_scene_new(HEIGHT, WIDTH, seed, &scene, &status), SG_OK);
    return scene;
}

/* A clip in the scratch folder: its path. */
static const char *clip(const char *codec, int64_t gop) {
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s-%lld.mp4", folder.path, codec, (long long)gop);
    sg_scene *scene = scene_of(1);
    sg_status status = {0};
    sg_code code = video->video_write(path, codec, HEIGHT, WIDTH, FPS, gop, FRAMES, draw, scene, &status);
    if (code) fail_msg("%s", status.text);
    sg_scene_free(scene);
    return path;
}

/* ---- videos -------------------------------------------------------------------------------------------------------- */

static void read_and_check(sg_video *v, int64_t frame, const sg_scene *scene, double least_psnr,
                           sg_decode_count *count) {
    static uint8_t got[BYTES], drawn[BYTES];
    sg_status status = {0};
    if (video->video_read(v, (double)frame / FPS, TOLERANCE_S, got, count, &status)) fail_msg("%s", status.text);
    assert_int_equal(number_in(got), frame);
    draw((void *)(uintptr_t)scene, frame, drawn);
    double found = psnr(got, drawn);
    if (!(found > least_psnr)) fail_msg("frame %lld: %g dB", (long long)frame, found);
}

static void check_clip(const char *codec, int64_t gop, double least_psnr) {
    const char *path = clip(codec, gop);
    sg_video *v;
    sg_status status = {0};
    sg_video_info info;
    sg_scene *scene = scene_of(1);
    if (video->video_open(path, 1, &v, &status)) fail_msg("%s", status.text);
    video->video_info(v, &info);
    assert_int_equal(info.height, HEIGHT);
    assert_int_equal(info.width, WIDTH);
    assert_int_equal(info.frames, FRAMES);
    assert_int_equal(info.gop, gop);
    assert_string_equal(info.codec, codec);
    assert_string_equal(info.pixel_format, "yuv420p");
    assert_true(fabs(info.fps - FPS) < 1e-9);
    assert_true(fabs(info.duration_s - FRAMES / FPS) < 1e-3);
    sg_decode_count forward = {0};
    for (int64_t f = 0; f < FRAMES; f++) read_and_check(v, f, scene, least_psnr, &forward);
    assert_int_equal(forward.frames, FRAMES);
    sg_decode_count jumps = {0};
    for (int64_t f = FRAMES - 1; f >= 0; f--) read_and_check(v, f, scene, least_psnr, &jumps);
    for (int64_t i = 0; i < FRAMES; i++) read_and_check(v, (i * 17 + 5) % FRAMES, scene, least_psnr, &jumps);
    assert_int_equal(jumps.frames, 2 * FRAMES);
    assert_true(jumps.frames_decoded >= jumps.frames);
    /* the same frame again costs nothing */
    sg_decode_count again = {0};
    read_and_check(v, (39 * 17 + 5) % FRAMES, scene, least_psnr, &again);
    assert_int_equal(again.frames_decoded + again.seeks, 0);
    sg_scene_free(scene);
    video->video_close(v);
}

static void test_av1_gop_2(void **state) {
    (void)state;
    check_clip("av1", 2, 27);
}

static void test_av1_gop_30(void **state) {
    (void)state;
    check_clip("av1", 30, 27);
}

static void test_h264_gop_2(void **state) {
    (void)state;
    check_clip("h264", 2, 27);
}

/* x264 reorders frames here. */
static void test_h264_gop_30(void **state) {
    (void)state;
    check_clip("h264", 30, 27);
}

/* ---- images -------------------------------------------------------------------------------------------------------- */

static void check_image(const char *codec, double least_psnr) {
    static uint8_t drawn[BYTES], got[BYTES];
    sg_scene *scene = scene_of(2);
    sg_status status = {0};
    uint8_t *bytes;
    size_t n;
    int64_t height, width;
    draw(scene, 9, drawn);
    sg_scene_free(scene);
    if (image->image_write(codec, drawn, HEIGHT, WIDTH, &bytes, &n, &status)) fail_msg("%s", status.text);
    assert_int_equal(image->image_size(bytes, n, &height, &width, &status), SG_OK);
    assert_int_equal(height, HEIGHT);
    assert_int_equal(width, WIDTH);
    if (image->image_read(bytes, n, HEIGHT, WIDTH, got, &status)) fail_msg("%s", status.text);
    assert_true(psnr(drawn, got) > least_psnr);
    assert_int_equal(image->image_read(bytes, n, WIDTH, HEIGHT, got, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "96 x 128 pixels, 128 x 96 are expected"));
    /* cut anywhere, it is refused or (its last few bytes) whole */
    for (size_t cut = 0; cut + 16 < n; cut += n / 40 + 1)
        assert_int_equal(image->image_read(bytes, cut, HEIGHT, WIDTH, got, &status), SG_BAD_INPUT);
    free(bytes);
}

static void test_png(void **state) {
    (void)state;
    check_image("png", 1000); /* exact: infinite */
}

static void test_jpeg(void **state) {
    (void)state;
    check_image("jpeg", 35);
}

static int make_folder(void **state) {
    (void)state;
    folder = sg_scratch_new();
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    sg_scratch_free(&folder);
    return 0;
}

int main(void) {
    sg_status status = {0};
    if (sg_codec_open("video", &video, &status) || sg_codec_open("image", &image, &status)) {
        (void)fprintf(stderr, "%s\n", status.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_av1_gop_2),   cmocka_unit_test(test_av1_gop_30), cmocka_unit_test(test_h264_gop_2),
        cmocka_unit_test(test_h264_gop_30), cmocka_unit_test(test_png),        cmocka_unit_test(test_jpeg),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
