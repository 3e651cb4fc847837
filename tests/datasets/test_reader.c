/* Samples of every kind of data set: frames as they were drawn, rows as they were recorded, at both ends of an episode. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <hdf5.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datasets/codec/codec.h"
#include "datasets/make/make.h"
#include "datasets/make/scene.h"
#include "datasets/reader/reader.h"
#include "datasets/reader/reader_hdf5.h"
#include "datasets/reader/reader_keep.h"
#include "datasets/tables/tables.h"
#include "formats/child.h"
#include "tests/support/scratch.h"

enum {
    EPISODES = 3,
    LENGTH = 9, /* frames of each episode */
    CAMERAS = 2,
    HEIGHT = 64,
    WIDTH = 96,
    BYTES = 3 * HEIGHT * WIDTH,
    DIM = 6,
    STEPS = 2, /* observations */
    CHUNK = 5, /* actions */
    SEED = 7
};

static sg_scratch scratch;

/* ---- a data set, made and opened ----------------------------------------------------------------------------------- */

static void skip_without(bool there, const char *why) {
    if (there) return;
    print_message("%s\n", why);
    skip();
}

static void need(const char *kind, const char *codec) {
    char why[1024] = "";
    sg_status status = {0};
    const sg_codec_api *api = NULL;
    if (strncmp(kind, "lerobot", 7) == 0) skip_without(sg_tables_possible(why, sizeof why), why);
    bool video = strncmp(kind, "lerobot", 7) == 0 && strcmp(codec, "png") != 0;
    if (strcmp(codec, "raw") != 0)
        skip_without(sg_codec_open(video ? "video" : "image", &api, &status) == SG_OK, status.text);
}

static sg_catalogue *made(const char *kind, const char *codec, char *path, size_t bytes) {
    sg_status status;
    sg_catalogue *catalogue = NULL;
    sg_make_options options = {.kind = kind,
                               .codec = codec,
                               .episodes = EPISODES,
                               .frames_per_episode = LENGTH,
                               .cameras = CAMERAS,
                               .height = HEIGHT,
                               .width = WIDTH,
                               .state_dim = DIM,
                               .action_dim = DIM,
                               .seed = SEED};
    if (strcmp(codec, "raw") == 0 && strcmp(kind, "aloha") != 0) options.codec = NULL;
    need(kind, codec);
    (void)snprintf(path, bytes, "%s/%s-%s", scratch.path, kind, codec);
    if (access(path, F_OK) != 0 && sg_dataset_make(path, &options, &status) != SG_OK) fail_msg("%s", status.text);
    if (sg_catalogue_open(path, &catalogue, &status) != SG_OK) fail_msg("%s", status.text);
    assert_int_equal(catalogue->n_episodes, EPISODES);
    assert_int_equal(catalogue->n_cameras, CAMERAS);
    return catalogue;
}

static sg_reader *opened(const sg_catalogue *catalogue, const sg_reader_options *options) {
    sg_reader *reader = NULL;
    sg_status status;
    if (sg_reader_open(catalogue, options, &reader, &status) != SG_OK) fail_msg("%s", status.text);
    return reader;
}

/* ---- what must come out -------------------------------------------------------------------------------------------- */

static uint8_t drawn[EPISODES][CAMERAS][LENGTH][BYTES];

/* The seed of a made camera's scene: cameras and episodes are numbered through. */
static void draw_all(void) {
    for (int i = 0; i < EPISODES * CAMERAS; i++) {
        sg_scene *scene = NULL;
        sg_status status;
        if (sg_scene_new(HEIGHT, WIDTH, (uint64_t)SEED * 1000003 + (uint64_t)i, &scene, &status) != SG_OK)
            fail_msg("%s", status.text);
        for (int frame = 0; frame < LENGTH; frame++)
            sg_scene_draw(scene, frame, drawn[i / CAMERAS][i % CAMERAS][frame]);
        sg_scene_free(scene);
    }
}

static double mean_difference(const uint8_t *a, const uint8_t *b) {
    double sum = 0;
    for (int i = 0; i < BYTES; i++) sum += abs(a[i] - b[i]);
    return sum / BYTES;
}

/* Bit for bit where the codec keeps every bit. Where it loses some, the frame is nearer to what was drawn than to what was
 * drawn one frame away. */
static void expect_frame(bool exact, int64_t episode, int camera, int64_t frame, const uint8_t *rgb) {
    const uint8_t *own = drawn[episode][camera][frame];
    if (exact) {
        assert_memory_equal(rgb, own, BYTES);
        return;
    }
    double distance = mean_difference(rgb, own);
    for (int64_t other = frame ? frame - 1 : 1; other <= frame + 1 && other < LENGTH; other += 2) {
        double away = mean_difference(rgb, drawn[episode][camera][other]);
        if (distance >= away)
            fail_msg("frame %d of camera %d: %.2f from itself, %.2f from frame %d", (int)frame, camera, distance, away,
                     (int)other);
    }
}

typedef struct read_sample {
    uint8_t pixels[CAMERAS * STEPS][BYTES], *frames[CAMERAS * STEPS];
    float state[STEPS][DIM], action[CHUNK][DIM];
} read_sample;

static void read_one(sg_reader *reader, int64_t frame, read_sample *sample, sg_read_cost *cost) {
    sg_status status;
    memset(sample, 0xa5, sizeof *sample);
    for (int i = 0; i < CAMERAS * STEPS; i++) sample->frames[i] = sample->pixels[i];
    const sg_sample wanted = {sample->frames, sample->state[0], sample->action[0]};
    if (sg_reader_sample(reader, frame, &wanted, cost, &status) != SG_OK) fail_msg("%s", status.text);
}

/* Rows of all frames, as they came. */
typedef struct read_rows {
    float state[EPISODES * LENGTH][STEPS][DIM], action[EPISODES * LENGTH][CHUNK][DIM];
} read_rows;

/* In made data sets the action is the state that comes one frame later. */
static void expect_rows(const read_rows *rows, int first, int within) {
    const size_t bytes = sizeof rows->state[0][0];
    const float(*state)[DIM] = rows->state[first + within], (*action)[DIM] = rows->action[first + within];
    assert_memory_equal(state[0], rows->state[first + (within ? within - 1 : 0)][STEPS - 1], bytes);
    for (int k = 0; k < CHUNK; k++) {
        int next = within + k + 1;
        if (next < LENGTH) assert_memory_equal(action[k], rows->state[first + next][STEPS - 1], bytes);
        if (next > LENGTH) assert_memory_equal(action[k], action[k - 1], bytes);
    }
    assert_memory_not_equal(action[0], state[STEPS - 1], bytes);
}

static void expect_all(const char *kind, const char *codec, bool exact) {
    static read_sample sample;
    static read_rows rows;
    char path[160];
    sg_catalogue *catalogue = made(kind, codec, path, sizeof path);
    const sg_reader_options options = {.frames_per_sample = STEPS, .action_rows = CHUNK};
    sg_reader *reader = opened(catalogue, &options);
    sg_read_cost cost = {0};
    for (int k = 0; k < EPISODES * LENGTH; k++) {
        int64_t frame = (k * 11 + 5) % (EPISODES * LENGTH), episode = frame / LENGTH, within = frame % LENGTH;
        read_one(reader, frame, &sample, &cost);
        for (int i = 0; i < CAMERAS * STEPS; i++) {
            int64_t at = within - (STEPS - 1) + i % STEPS;
            expect_frame(exact, episode, i / STEPS, at < 0 ? 0 : at, sample.pixels[i]);
        }
        memcpy(rows.state[frame], sample.state, sizeof sample.state);
        memcpy(rows.action[frame], sample.action, sizeof sample.action);
    }
    for (int frame = 0; catalogue->has_tables && frame < EPISODES * LENGTH; frame++)
        expect_rows(&rows, frame - frame % LENGTH, frame % LENGTH);
    assert_int_equal(cost.samples, EPISODES * LENGTH);
    assert_int_equal(cost.frames, EPISODES * LENGTH * CAMERAS * STEPS);
    assert_true(cost.frames_decoded >= cost.frames / 2); /* repeated frames need not be decoded again */
    assert_true(cost.opened >= 1);
    assert_true(cost.bytes_read > 0);
    assert_true(cost.frame_cpu_s > 0 && cost.frame_wall_s > 0 && cost.table_wall_s > 0);
    sg_reader_close(reader);
    sg_catalogue_close(catalogue);
}

static void raw_frames_in_hdf5(void **state) {
    (void)state;
    expect_all("aloha", "raw", true);
    expect_all("robomimic", "raw", true);
    expect_all("libero", "raw", true);
}

static void encoded_frames_in_hdf5(void **state) {
    (void)state;
    expect_all("aloha", "jpeg", false);
}

static void files_of_images(void **state) {
    (void)state;
    expect_all("images", "png", true);
    expect_all("images", "jpeg", false);
}

static void lerobot_videos(void **state) {
    (void)state;
    expect_all("lerobot-v3.0", "h264", false);
    expect_all("lerobot-v2.1", "av1", false);
}

static void lerobot_images_in_tables(void **state) {
    (void)state;
    expect_all("lerobot-v2.0", "png", true);
    expect_all("lerobot-v3.0", "png", true);
}

/* Tables as they are written before images are embedded: no bytes, and where the recorder put each file. */
static void images_that_tables_name(void **state) {
    (void)state;
    need("lerobot-v2.1", "png");
    enum { FRAMES = 4 };
    sg_scratch s = sg_scratch_new(), elsewhere = sg_scratch_new();
    const sg_codec_api *api = NULL;
    sg_status status;
    char paths[FRAMES][512], file[600];
    const char *texts[FRAMES];
    const uint8_t *none[FRAMES] = {0};
    const size_t zero[FRAMES] = {0};
    static const double numbers[FRAMES] = {1, 2, 3, 4};
    assert_int_equal(sg_codec_open("image", &api, &status), SG_OK);
    for (int i = 0; i < FRAMES; i++) {
        uint8_t *bytes = NULL;
        size_t n = 0;
        assert_int_equal(api->image_write("png", drawn[0][0][i], HEIGHT, WIDTH, &bytes, &n, &status), SG_OK);
        (void)snprintf(file, sizeof file, "images/top/%d.png", i);
        sg_scratch_file(i == 3 ? &elsewhere : &s, file, "");
        (void)snprintf(file, sizeof file, "%s/images/top/%d.png", i == 3 ? elsewhere.path : s.path, i);
        FILE *out = fopen(file, "wb");
        assert_non_null(out);
        assert_int_equal(fwrite(bytes, 1, n, out), n);
        assert_int_equal(fclose(out), 0);
        free(bytes);
        /* below the folder; where it is; where it was on another machine; in a place that is not the data set's */
        (void)snprintf(paths[i], sizeof paths[i], "%s%simages/top/%d.png",
                       i == 0   ? ""
                       : i == 1 ? s.path
                       : i == 2 ? "/home/robot/recorded"
                                : elsewhere.path,
                       i ? "/" : "", i);
        texts[i] = paths[i];
    }
    sg_scratch_file(&s, "meta/info.json",
                    "{\"codebase_version\": \"v2.1\", \"total_frames\": 4, \"total_episodes\": 1, \"fps\": 10,"
                    "\"features\": {\"top\": {\"dtype\": \"image\", \"shape\": [64, 96, 3], \"names\": null},"
                    "\"action\": {\"dtype\": \"float32\", \"shape\": [1]}}}");
    sg_scratch_file(&s, "meta/episodes.jsonl", "{\"episode_index\": 0, \"length\": 4}\n");
    sg_scratch_file(&s, "data/chunk-000/episode_000000.parquet", "");
    (void)snprintf(file, sizeof file, "%s/data/chunk-000/episode_000000.parquet", s.path);
    const sg_table_column_data columns[] = {
        {.name = "top", .kind = SG_COLUMN_IMAGE, .texts = texts, .bytes = none, .n_bytes = zero},
        {.name = "action", .kind = SG_COLUMN_FLOAT, .width = 1, .numbers = numbers}};
    if (sg_table_write(file, columns, 2, FRAMES, &status) != SG_OK) fail_msg("%s", status.text);
    sg_catalogue *catalogue = NULL;
    if (sg_catalogue_open(s.path, &catalogue, &status) != SG_OK) fail_msg("%s", status.text);
    assert_string_equal(catalogue->cameras[0].codec, "png");
    const sg_reader_options plain = {0};
    sg_reader *reader = opened(catalogue, &plain);
    static uint8_t pixels[BYTES];
    uint8_t *frames[] = {pixels};
    const sg_sample wanted = {.frames = frames};
    sg_read_cost cost = {0};
    for (int i = 0; i < 3; i++) {
        if (sg_reader_sample(reader, i, &wanted, &cost, &status) != SG_OK) fail_msg("%s", status.text);
        assert_memory_equal(pixels, drawn[0][0][i], BYTES);
    }
    assert_int_equal(sg_reader_sample(reader, 3, &wanted, &cost, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "which is not in the data set's folder"));
    sg_reader_close(reader);
    sg_catalogue_close(catalogue);
    sg_scratch_free(&elsewhere);
    sg_scratch_free(&s);
}

/* ---- refusals ------------------------------------------------------------------------------------------------------ */

static void refused_options(void **state) {
    (void)state;
    char path[160];
    sg_status status;
    sg_catalogue *catalogue = made("aloha", "raw", path, sizeof path);
    const sg_reader_options wrong[] = {{.frames_per_sample = -1}, {.action_rows = -1}, {.action_rows = INT64_MAX},
                                       {.cameras = CAMERAS + 1},  {.cameras = -1},     {.decoders_kept = -1},
                                       {.tolerance_s = -1}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        sg_reader *reader = NULL;
        assert_int_equal(sg_reader_open(catalogue, &wrong[i], &reader, &status), SG_BAD_INPUT);
        assert_null(reader);
    }
    const sg_sample nothing = {0};
    const sg_reader_options plain = {.cameras = 1};
    sg_reader *reader = opened(catalogue, &plain);
    sg_read_cost cost = {0};
    assert_int_equal(sg_reader_sample(reader, -1, &nothing, &cost, &status), SG_BAD_INPUT);
    assert_int_equal(sg_reader_sample(reader, EPISODES * LENGTH, &nothing, &cost, &status), SG_BAD_INPUT);
    assert_int_equal(cost.samples, 0);
    assert_int_equal(sg_reader_sample(reader, 4, &nothing, &cost, &status), SG_OK); /* read, and handed to nobody */
    assert_int_equal(cost.frames, 1);
    sg_reader_close(reader);
    sg_catalogue_close(catalogue);
}

/* One file is damaged: its samples name it, those of other files come as before. */
static void damaged_file(void **state) {
    (void)state;
    char path[160];
    sg_frame_place place;
    sg_status status;
    sg_catalogue *catalogue = made("aloha", "raw", path, sizeof path);
    const sg_sample nothing = {0};
    const sg_reader_options plain = {0};
    sg_read_cost cost = {0};
    assert_int_equal(sg_catalogue_place(catalogue, 0, 1, 0, &place, &status), SG_OK);
    assert_int_equal(truncate(place.path, 3000), 0);
    sg_reader *reader = opened(catalogue, &plain);
    assert_int_equal(sg_reader_sample(reader, LENGTH, &nothing, &cost, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, place.path));
    assert_int_equal(sg_reader_sample(reader, 0, &nothing, &cost, &status), SG_OK);
    assert_int_equal(unlink(place.path), 0);
    assert_int_equal(sg_reader_sample(reader, LENGTH + 1, &nothing, &cost, &status), SG_BAD_INPUT);
    assert_int_equal(sg_reader_sample(reader, 2 * LENGTH, &nothing, &cost, &status), SG_OK);
    assert_int_equal(cost.samples, 2);
    sg_reader_close(reader);
    sg_catalogue_close(catalogue);
}

static void rows_of_hdf5_that_are_none(void **state) {
    (void)state;
    static uint8_t pixels[BYTES];
    float numbers[2 * DIM];
    char path[160];
    size_t n = 0;
    sg_frame_place place;
    sg_row_place row;
    sg_status status;
    sg_hdf5_rows *file = NULL;
    sg_catalogue *catalogue = made("robomimic", "raw", path, sizeof path);
    assert_int_equal(sg_catalogue_place(catalogue, 0, 0, 0, &place, &status), SG_OK);
    assert_int_equal(sg_catalogue_row(catalogue, 0, 0, &row, &status), SG_OK);
    assert_int_equal(sg_hdf5_rows_open(place.path, &file, &status), SG_OK);
    assert_int_equal(sg_hdf5_rows_bytes(file, place.inner, LENGTH, pixels, BYTES, &status), SG_BAD_INPUT);
    assert_int_equal(sg_hdf5_rows_bytes(file, place.inner, -1, pixels, BYTES, &status), SG_BAD_INPUT);
    assert_int_equal(sg_hdf5_rows_bytes(file, place.inner, 0, pixels, BYTES - 1, &status), SG_BAD_INPUT);
    assert_int_equal(sg_hdf5_rows_bytes(file, row.state, 0, pixels, BYTES, &status), SG_BAD_INPUT); /* of doubles */
    assert_int_equal(sg_hdf5_rows_bytes(file, "data/none", 0, pixels, BYTES, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "data/none"));
    assert_int_equal(sg_hdf5_rows_bytes(file, "data", 0, pixels, BYTES, &status), SG_BAD_INPUT); /* a group */
    assert_int_equal(sg_hdf5_rows_numbers(file, place.inner, 0, 1, numbers, DIM, DIM, &n, &status), SG_BAD_INPUT);
    assert_int_equal(sg_hdf5_rows_numbers(file, row.action, 0, 1, numbers, DIM, DIM - 1, &n, &status), SG_BAD_INPUT);
    assert_int_equal(sg_hdf5_rows_numbers(file, row.action, LENGTH - 1, 2, numbers, DIM, DIM, &n, &status),
                     SG_BAD_INPUT);
    assert_int_equal(sg_hdf5_rows_numbers(file, row.action, LENGTH - 2, 2, numbers, DIM, DIM, &n, &status), SG_OK);
    assert_int_equal(n, DIM);
    sg_hdf5_rows_close(file);
    sg_catalogue_close(catalogue);
}

static char closed[8];

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their memory has no limit */
enum { WIDE = 1 << 20, DEEP = 64 };

static sg_code read_first_row(void *path, sg_bytes *answer, sg_status *status) {
    static uint8_t row[WIDE];
    sg_hdf5_rows *file;
    (void)answer;
    sg_code code = sg_hdf5_rows_open(path, &file, status);
    if (code != SG_OK) return code;
    code = sg_hdf5_rows_bytes(file, "rows", 0, row, sizeof row, status);
    sg_hdf5_rows_close(file);
    return code;
}

/* A compressed chunk of 64 MiB is unpacked whole for one row. */
static void memory_that_runs_out_is_no_damage(void **state) {
    (void)state;
    char path[160];
    sg_status status;
    uint8_t *rows = calloc(DEEP, WIDE), *none = NULL;
    const hsize_t dims[] = {DEEP, WIDE};
    size_t n;
    assert_non_null(rows);
    (void)snprintf(path, sizeof path, "%s/deep.hdf5", scratch.path);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), how = H5Pcreate(H5P_DATASET_CREATE);
    hid_t space = H5Screate_simple(2, dims, NULL);
    assert_true(H5Pset_chunk(how, 2, dims) >= 0 && H5Pset_deflate(how, 1) >= 0);
    hid_t set = H5Dcreate2(file, "rows", H5T_STD_U8LE, space, H5P_DEFAULT, how, H5P_DEFAULT);
    assert_true(H5Dwrite(set, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows) >= 0);
    free(rows);
    assert_true(H5Dclose(set) >= 0 && H5Pclose(how) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0);
    (void)H5garbage_collect(); /* the child would find the memory of that chunk in free lists */
    (void)malloc_trim(0);
    const sg_child_limits little = {.memory_bytes = 8 << 20, .cpu_s = 10},
                          enough = {.memory_bytes = 1 << 30, .cpu_s = 10};
    assert_int_equal(sg_child_run(path, read_first_row, path, &enough, &none, &n, &status), SG_OK);
    free(none);
    if (sg_child_run(path, read_first_row, path, &little, &none, &n, &status) != SG_MACHINE ||
        !strstr(status.text, "memory ran out"))
        fail_msg("%s", status.text);
}
#endif

static void close_letter(void *value) {
    closed[strlen(closed)] = *(const char *)value;
}

static void the_least_recently_used_goes(void **state) {
    (void)state;
    char a[] = "a", b[] = "b", c[] = "c", d[] = "d";
    sg_keep keep;
    sg_status status;
    assert_int_equal(sg_keep_start(&keep, 2, close_letter, &status), SG_OK);
    assert_int_equal(sg_keep_put(&keep, "a", a, &status), SG_OK);
    assert_false(sg_keep_drop_oldest(&keep)); /* never the last one */
    assert_int_equal(sg_keep_put(&keep, "b", b, &status), SG_OK);
    assert_ptr_equal(sg_keep_get(&keep, "a"), a);
    assert_int_equal(sg_keep_put(&keep, "c", c, &status), SG_OK);
    assert_string_equal(closed, "b");
    assert_null(sg_keep_get(&keep, "b"));
    assert_ptr_equal(sg_keep_get(&keep, "a"), a);
    assert_true(sg_keep_drop_oldest(&keep));
    assert_string_equal(closed, "bc");
    assert_int_equal(sg_keep_put(&keep, "d", d, &status), SG_OK);
    sg_keep_drop(&keep, "a");
    sg_keep_drop(&keep, "nobody");
    assert_string_equal(closed, "bca");
    sg_keep_end(&keep);
    assert_string_equal(closed, "bcad");
}

/* With room for one decoder every change of camera opens its video anew; the frames are the same. */
static void few_decoders(void **state) {
    (void)state;
    static read_sample many, few;
    char path[160];
    sg_catalogue *catalogue = made("lerobot-v3.0", "h264", path, sizeof path);
    const sg_reader_options all = {.frames_per_sample = STEPS, .action_rows = CHUNK},
                            one = {.frames_per_sample = STEPS, .action_rows = CHUNK, .decoders_kept = 1};
    sg_reader *reader_all = opened(catalogue, &all), *reader_one = opened(catalogue, &one);
    sg_read_cost cost_all = {0}, cost_one = {0};
    for (int64_t frame = 0; frame < EPISODES * LENGTH; frame += 5) {
        read_one(reader_all, frame, &many, &cost_all);
        read_one(reader_one, frame, &few, &cost_one);
        assert_memory_equal(many.pixels, few.pixels, sizeof many.pixels);
    }
    assert_true(cost_one.opened > cost_all.opened);
    sg_reader_close(reader_all);
    sg_reader_close(reader_one);
    sg_catalogue_close(catalogue);
}

static int start(void **state) {
    (void)state;
    scratch = sg_scratch_new();
    draw_all();
    return 0;
}

static int end(void **state) {
    (void)state;
    sg_scratch_free(&scratch);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raw_frames_in_hdf5),
        cmocka_unit_test(encoded_frames_in_hdf5),
        cmocka_unit_test(files_of_images),
        cmocka_unit_test(lerobot_videos),
        cmocka_unit_test(few_decoders),
        cmocka_unit_test(lerobot_images_in_tables),
        cmocka_unit_test(images_that_tables_name),
        cmocka_unit_test(rows_of_hdf5_that_are_none),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(memory_that_runs_out_is_no_damage),
#endif
        cmocka_unit_test(the_least_recently_used_goes),
        cmocka_unit_test(refused_options),
        cmocka_unit_test(damaged_file),
    };
    return cmocka_run_group_tests(tests, start, end);
}
