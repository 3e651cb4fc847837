/* Frames come back from files as they were drawn, and the frame of a time is the one of that time: each carries its number. */
#include "datasets/codec/codec.h"
#include "datasets/make/scene.h"
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

static void read_and_check(sg_video *v, int64_t frame, sg_scene *scene, double least_psnr, sg_decode_count *count) {
    static uint8_t got[BYTES], drawn[BYTES];
    sg_status status = {0};
    if (video->video_read(v, (double)frame / FPS, TOLERANCE_S, got, count, &status)) fail_msg("%s", status.text);
    assert_int_equal(number_in(got), frame);
    draw(scene, frame, drawn);
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

static size_t file_bytes(const char *path, uint8_t *bytes, size_t room) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(bytes, 1, room, file);
    assert_int_equal(fclose(file), 0);
    assert_true(n > 0 && n < room);
    return n;
}

/* ---- videos that are none ------------------------------------------------------------------------------------------ */

static void write_bytes(const char *path, const uint8_t *bytes, size_t n) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fwrite(bytes, 1, n, file) == n);
    assert_int_equal(fclose(file), 0);
}

static void refused(const char *path, const char *text) {
    sg_video *v = NULL;
    sg_status status = {0};
    assert_int_equal(video->video_open(path, 1, &v, &status), SG_BAD_INPUT);
    assert_null(v);
    if (!strstr(status.text, text)) fail_msg("'%s' is not in: %s", text, status.text);
}

static void test_what_is_no_video(void **state) {
    (void)state;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/none.mp4", folder.path);
    refused(path, "does not exist");
    refused(folder.path, "is not a file");
    write_bytes(path, (const uint8_t *)"", 0);
    refused(path, "is empty");
    write_bytes(path, (const uint8_t *)"#EXTM3U\n/etc/passwd\n", 21);
    refused(path, "cannot be read");
    refused("http://127.0.0.1/clip.mp4", "does not exist");
    (void)snprintf(path, sizeof path, "%s/tests/fuzz/seeds/fuzz_image/color.png", SG_SOURCE_DIR);
    refused(path, "cannot be read");
}

/* Cut or damaged anywhere, a file is refused, or those of its frames that are told of are as large as it says; nothing
 * crashes. */
static void test_damaged_videos(void **state) {
    (void)state;
    static uint8_t bytes[1 << 20], rgb[BYTES];
    static const char *const codecs[] = {"av1", "h264"};
    char path[128];
    int64_t missed = 0;
    for (int k = 0; k < 2; k++) {
        size_t n = file_bytes(clip(codecs[k], 30), bytes, sizeof bytes);
        (void)snprintf(path, sizeof path, "%s/damaged.mp4", folder.path);
        for (int i = 0; i < 24; i++) {
            size_t end = i % 2 ? n : n * (size_t)(i + 1) / 25;
            for (size_t b = 0; i % 2 && b < 64; b++) {
                size_t at = n / 24 * (size_t)i + 61 * b;
                if (at < n) bytes[at] ^= (uint8_t)(b + 1);
            }
            write_bytes(path, bytes, end);
            sg_video *v;
            sg_status status = {0};
            sg_decode_count count = {0};
            if (video->video_open(path, 1, &v, &status)) {
                assert_int_equal(status.code, SG_BAD_INPUT);
                missed++;
                continue;
            }
            sg_video_info info;
            video->video_info(v, &info);
            for (int64_t f = 0; info.height == HEIGHT && info.width == WIDTH && f < FRAMES; f += 9)
                if (video->video_read(v, (double)f / FPS, TOLERANCE_S, rgb, &count, &status)) missed++;
            video->video_close(v);
        }
    }
    assert_true(missed > 0);
}

static void test_times_without_a_frame(void **state) {
    (void)state;
    static uint8_t rgb[BYTES];
    static const double times_s[] = {-1, 0.5 / 30, 7, 1e30, NAN};
    sg_video *v;
    sg_status status = {0};
    sg_decode_count count = {0};
    if (video->video_open(clip("av1", 2), 1, &v, &status)) fail_msg("%s", status.text);
    for (size_t i = 0; i < sizeof times_s / sizeof *times_s; i++)
        assert_int_equal(video->video_read(v, times_s[i], TOLERANCE_S, rgb, &count, &status), SG_BAD_INPUT);
    /* the nearer of two, and the last one, which the decoder gives when nothing follows */
    assert_int_equal(video->video_read(v, 10.4 / FPS, 0.02, rgb, &count, &status), SG_OK);
    assert_int_equal(number_in(rgb), 10);
    assert_int_equal(video->video_read(v, 10.6 / FPS, 0.02, rgb, &count, &status), SG_OK);
    assert_int_equal(number_in(rgb), 11);
    assert_int_equal(video->video_read(v, (FRAMES - 0.6) / FPS, 0.02, rgb, &count, &status), SG_OK);
    assert_int_equal(number_in(rgb), FRAMES - 1);
    assert_int_equal(video->video_read(v, 7, TOLERANCE_S, rgb, &count, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "has no frame within 0.0001 s of 7 s"));
    video->video_close(v);
}

static bool give_up(void *user, int64_t frame, uint8_t *rgb) {
    (void)user;
    memset(rgb, 0, BYTES);
    return frame < 3;
}

static void test_refused_clips(void **state) {
    (void)state;
    char path[128];
    sg_status status = {0};
    (void)snprintf(path, sizeof path, "%s/refused.mp4", folder.path);
    assert_int_equal(video->video_write(path, "vp8", HEIGHT, WIDTH, FPS, 2, 4, give_up, NULL, &status), SG_BAD_INPUT);
    assert_int_equal(video->video_write(path, "av1", 95, WIDTH, FPS, 2, 4, give_up, NULL, &status), SG_BAD_INPUT);
    assert_int_equal(video->video_write(path, "av1", HEIGHT, WIDTH, 0, 2, 4, give_up, NULL, &status), SG_BAD_INPUT);
    assert_int_equal(video->video_write("/nowhere/x.mp4", "h264", HEIGHT, WIDTH, FPS, 2, 4, give_up, NULL, &status),
                     SG_MACHINE);
    assert_int_equal(video->video_write(path, "h264", HEIGHT, WIDTH, FPS, 2, 8, give_up, NULL, &status), SG_NO);
    assert_int_not_equal(access(path, F_OK), 0);
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

/* Every kind of file that PNG and JPEG know becomes RGB: 16 x 24 pixels, the left half of one color, the right of another. */
static void test_kinds_of_images(void **state) {
    (void)state;
    enum { H = 16, W = 24 };
    static const struct {
        const char *name;
        int left[3], right[3], tolerance;
    } kinds[] = {
        {"color.png", {200, 30, 60}, {10, 180, 220}, 0},
        {"palette.png", {200, 30, 60}, {10, 180, 220}, 0},
        {"rgba16.png", {200, 30, 60}, {10, 180, 220}, 0},
        {"grey_interlaced.png", {200, 200, 200}, {10, 10, 10}, 0},
        {"one_bit.png", {255, 255, 255}, {0, 0, 0}, 0},
        {"color.jpg", {200, 30, 60}, {10, 180, 220}, 3},
        {"progressive.jpg", {200, 30, 60}, {10, 180, 220}, 4},
        {"grey.jpg", {200, 200, 200}, {10, 10, 10}, 3},
        {"cmyk.jpg", {200, 30, 60}, {10, 180, 220}, 3},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char path[512];
        uint8_t bytes[4096], rgb[3 * H * W];
        int64_t height, width;
        sg_status status = {0};
        (void)snprintf(path, sizeof path, "%s/tests/fuzz/seeds/fuzz_image/%s", SG_SOURCE_DIR, kinds[k].name);
        size_t n = file_bytes(path, bytes, sizeof bytes);
        if (image->image_size(bytes, n, &height, &width, &status)) fail_msg("%s: %s", kinds[k].name, status.text);
        assert_true(height == H && width == W);
        if (image->image_read(bytes, n, H, W, rgb, &status)) fail_msg("%s: %s", kinds[k].name, status.text);
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                for (int c = 0; c < 3; c++) {
                    int want = x < W / 2 ? kinds[k].left[c] : kinds[k].right[c], got = rgb[(c * H + y) * W + x];
                    bool edge = kinds[k].tolerance && x >= W / 2 - 8 && x < W / 2 + 8; /* JPEG's blocks blur it */
                    if (!edge && abs(got - want) > kinds[k].tolerance)
                        fail_msg("%s: %d at %d, %d of %d", kinds[k].name, got, x, y, c);
                }
    }
}

static void test_what_is_no_image(void **state) {
    (void)state;
    static const uint8_t gif[] = "GIF89a........";
    static uint8_t rgb[BYTES];
    int64_t height, width;
    sg_status status = {0};
    assert_int_equal(image->image_size(gif, sizeof gif, &height, &width, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "neither PNG nor JPEG"));
    assert_int_equal(image->image_read(gif, 0, HEIGHT, WIDTH, rgb, &status), SG_BAD_INPUT);
    /* a PNG that says to be 100,000 pixels wide */
    static const uint8_t wide[] = {0x89, 'P',  'N',  'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0,
                                   1,    0x86, 0xa0, 0,   0,    0,    16,   8,    2, 0, 0, 0,  0,   0,   0,   0};
    assert_int_equal(image->image_size(wide, sizeof wide, &height, &width, &status), SG_BAD_INPUT);
    uint8_t *bytes;
    size_t n;
    assert_int_equal(image->image_write("gif", rgb, HEIGHT, WIDTH, &bytes, &n, &status), SG_BAD_INPUT);
    assert_int_equal(image->image_write("png", rgb, 0, WIDTH, &bytes, &n, &status), SG_BAD_INPUT);
    assert_null(bytes);
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
        cmocka_unit_test(test_av1_gop_2),
        cmocka_unit_test(test_av1_gop_30),
        cmocka_unit_test(test_h264_gop_2),
        cmocka_unit_test(test_h264_gop_30),
        cmocka_unit_test(test_what_is_no_video),
        cmocka_unit_test(test_damaged_videos),
        cmocka_unit_test(test_times_without_a_frame),
        cmocka_unit_test(test_refused_clips),
        cmocka_unit_test(test_png),
        cmocka_unit_test(test_jpeg),
        cmocka_unit_test(test_kinds_of_images),
        cmocka_unit_test(test_what_is_no_image),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
