/* Catalogues of every kind: what they hold, where frames and rows lie, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datasets/catalogue/catalogue.h"
#include "datasets/catalogue/episodes_file.h"
#include "datasets/catalogue/name_list.h"
#include "datasets/catalogue/path_template.h"
#include "datasets/make/make.h"
#include "datasets/tables/tables.h"
#include "tests/support/contains.h"
#include "tests/support/scratch.h"

/* ---- helpers ---- */

static void path_in(const sg_scratch *s, const char *name, char out[512]) {
    (void)snprintf(out, 512, "%s%s%s", s->path, *name ? "/" : "", name);
}

static sg_catalogue *opened(const sg_scratch *s, const char *name) {
    char path[512];
    sg_catalogue *c = NULL;
    sg_status status;
    path_in(s, name, path);
    if (sg_catalogue_open(path, &c, &status) != SG_OK) fail_msg("%s", status.text);
    return c;
}

static void refused(const sg_scratch *s, const char *name, const char *says) {
    char path[512];
    sg_catalogue *c = NULL;
    sg_status status;
    path_in(s, name, path);
    sg_code code = sg_catalogue_open(path, &c, &status);
    if (code == SG_OK) fail_msg("%s was opened: '%s' was expected", path, says);
    assert_null(c);
    sg_assert_contains(status.text, says);
}

static sg_frame_place frame_at(const sg_catalogue *c, size_t camera, int64_t episode, int64_t frame) {
    sg_frame_place place;
    sg_status status;
    if (sg_catalogue_place(c, camera, episode, frame, &place, &status) != SG_OK) fail_msg("%s", status.text);
    return place;
}

static sg_row_place row_at(const sg_catalogue *c, int64_t episode, int64_t frame) {
    sg_row_place place;
    sg_status status;
    if (sg_catalogue_row(c, episode, frame, &place, &status) != SG_OK) fail_msg("%s", status.text);
    return place;
}

static void ends_in(const char *text, const char *ending) {
    size_t n = strlen(text), m = strlen(ending);
    if (n < m || strcmp(text + n - m, ending) != 0) fail_msg("'%s' does not end in '%s'", text, ending);
}

static void described_as(const sg_catalogue *c, const char *begins) {
    char text[256];
    for (size_t room = 1; room < sizeof text; room++) { /* whatever the room, never beyond it */
        memset(text, '#', sizeof text);
        sg_catalogue_describe(c, text, room);
        assert_non_null(memchr(text, 0, room));
        assert_int_equal(text[room], '#');
    }
    sg_catalogue_describe(c, text, sizeof text);
    if (strncmp(text, begins, strlen(begins)) != 0) fail_msg("'%s' does not begin with '%s'", text, begins);
    sg_assert_contains(text, c->name);
    assert_null(strchr(text, '/'));
}

static bool tables_here(void) {
    char why[256];
    return sg_tables_possible(why, sizeof why);
}

/* ---- names and templates ---- */

static void names_in_the_order_of_people(void **state) {
    (void)state;
    static const char *const order[] = {"e", "e1", "e02", "e2", "e10", "e10a", "e11", "f0"};
    for (size_t i = 0; i + 1 < sizeof order / sizeof *order; i++) {
        assert_true(sg_names_compare(order[i], order[i + 1]) < 0);
        assert_true(sg_names_compare(order[i + 1], order[i]) > 0);
        assert_int_equal(sg_names_compare(order[i], order[i]), 0);
    }
    sg_scratch s = sg_scratch_new();
    static const char *const files[] = {"p/f9.png", "p/f10.png", "p/f11.PNG", "p/.f.png", "p/g.txt",
                                        "q/f8.png", "q/f10.png", "q/f9.png",  "r/a.png",  "r/f.png/x"};
    static const char *const endings[] = {".png", NULL};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) sg_scratch_file(&s, files[i], "x");
    char path[512], name[64];
    sg_name_list list;
    static const char *const want[3][4] = {
        {"f9.png", "f10.png", "f11.PNG"}, {"f8.png", "f9.png", "f10.png"}, {"a.png"}};
    for (int k = 0; k < 3; k++) {
        const char folder[] = {(char)('p' + k), 0};
        path_in(&s, folder, path);
        assert_int_equal(sg_names_read(path, SG_NAMES_FILES, endings, &list, NULL), SG_OK);
        assert_int_equal(list.n, k < 2 ? 3 : 1);
        assert_true((list.start == NULL) == (k == 1)); /* a pattern; PNG and no number make none */
        for (size_t i = 0; i < list.n; i++) {
            assert_true(sg_names_get(&list, i, name, sizeof name));
            assert_string_equal(name, want[k][i]);
            assert_false(sg_names_get(&list, i, name, 3));
        }
        sg_names_free(&list);
    }
    path_in(&s, "nothing", path);
    assert_int_equal(sg_names_read(path, SG_NAMES_FILES, endings, &list, NULL), SG_NO);
    path_in(&s, "", path);
    assert_int_equal(sg_names_read(path, SG_NAMES_FOLDERS, NULL, &list, NULL), SG_OK);
    assert_int_equal(list.n, 3);
    sg_names_free(&list);
    sg_scratch_free(&s);
}

static void templates(void **state) {
    (void)state;
    sg_template t;
    sg_status status;
    char path[128];
    sg_template_values values = {.video_key = "cam"};
    values.number[SG_FIELD_EPISODE_CHUNK] = 7;
    values.number[SG_FIELD_EPISODE_INDEX] = 1234567;
    assert_int_equal(sg_template_parse("t",
                                       "v/c-{episode_chunk:03d}/{video_key}/e{episode_index:06d}..{episode_index}.mp4",
                                       &t, &status),
                     SG_OK);
    assert_int_equal(sg_template_expand(&t, "/r", &values, path, sizeof path, &status), SG_OK);
    assert_string_equal(path, "/r/v/c-007/cam/e1234567..1234567.mp4");
    assert_int_equal(sg_template_expand(&t, "/r", &values, path, 36, &status), SG_BAD_INPUT);
    assert_true(sg_template_uses(&t, SG_FIELD_VIDEO_KEY));
    assert_false(sg_template_uses(&t, SG_FIELD_FILE_INDEX));
    static const struct {
        const char *text, *says;
    } bad[] = {{"", "nothing"},
               {"/etc/{episode_index}", "absolute"},
               {"../{episode_index}", "way out"},
               {"a/../{episode_index}", "way out"},
               {"a/..", "way out"},
               {"a\n", "control"},
               {"{episode_index", "brace"},
               {"episode_index}", "brace"},
               {"{{episode_index}}", "brace"},
               {"{other}", "not known"},
               {"{episode_index:06x}", "not known"},
               {"{episode_index:99d}", "not known"},
               {"{video_key:03d}", "not known"},
               {"{episode_index.__class__}", "not known"},
               {"{episode_index}{episode_index}{episode_index}{episode_index}{episode_index}{episode_index}"
                "{episode_index}{episode_index}{episode_index}{episode_index}{episode_index}{episode_index}"
                "{episode_index}{episode_index}{episode_index}{episode_index}{episode_index}",
                "more"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(sg_template_parse("data_path", bad[i].text, &t, &status), SG_BAD_INPUT);
        sg_assert_contains(status.text, bad[i].says);
    }
}

/* ---- LeRobot v2 ---- */

static const char v2_info[] =
    "{\"codebase_version\": \"v2.1\", \"total_frames\": 12, \"total_episodes\": 3, \"fps\": 10, \"chunks_size\": 2,"
    "\"data_path\": \"data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet\","
    "\"video_path\": \"videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4\","
    "\"features\": {\"observation.images.top\": {\"dtype\": \"video\", \"shape\": [48, 64, 3], \"names\": null, "
    "\"info\": "
    "{\"video.codec\": \"av1\", \"video.g\": 2, \"video.fps\": 10.0}},"
    "\"observation.images.side\": {\"dtype\": \"image\", \"shape\": [3, 24, 32], \"names\": null},"
    "\"observation.state\": {\"dtype\": \"float32\", \"shape\": [4]}, \"action\": {\"dtype\": \"float32\", \"shape\": "
    "[2]}}}";
static const char v2_episodes[] = "{\"episode_index\": 0, \"tasks\": [\"a\"], \"length\": 5}\n"
                                  "{\"episode_index\": 2, \"tasks\": [\"a\"], \"length\": 4}\n\n"
                                  "{\"episode_index\": 1, \"length\": 3}";

static void write_v2(const sg_scratch *s, const char *info, const char *episodes) {
    sg_scratch_file(s, "meta/info.json", info);
    sg_scratch_file(s, "meta/episodes.jsonl", episodes);
    for (int e = 0; e < 3; e++) {
        char path[128];
        (void)snprintf(path, sizeof path, "videos/chunk-%03d/observation.images.top/episode_%06d.mp4", e / 2, e);
        sg_scratch_file(s, path, "v");
        (void)snprintf(path, sizeof path, "data/chunk-%03d/episode_%06d.parquet", e / 2, e);
        sg_scratch_file(s, path, "p");
        (void)snprintf(path, sizeof path, "images/observation.images.side/episode_%06d/frame_000000.png", e);
        sg_scratch_file(s, path, "i");
    }
}

static void lerobot_v2(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new();
    write_v2(&s, v2_info, v2_episodes);
    sg_catalogue *c = opened(&s, "");
    assert_int_equal(c->kind, SG_DATASET_LEROBOT);
    assert_int_equal(c->n_episodes, 3);
    static const int64_t first[] = {0, 5, 8, 12};
    for (int i = 0; i < 4; i++) assert_int_equal(c->first_frame[i], first[i]);
    static const int64_t episode_of[] = {0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2};
    for (int i = 0; i < 12; i++) assert_int_equal(sg_catalogue_episode(c, i), episode_of[i]);
    assert_int_equal(sg_catalogue_episode(c, -1), -1);
    assert_int_equal(sg_catalogue_episode(c, 12), -1);
    assert_int_equal(c->n_cameras, 2);
    assert_string_equal(c->cameras[0].name, "observation.images.top");
    assert_int_equal(c->cameras[0].gop, 2);
    assert_string_equal(c->warning, "");
    assert_int_equal(c->cameras[1].height, 24);
    assert_int_equal(c->cameras[1].store, SG_STORE_IMAGE_FILE);
    described_as(c, "lerobot-v2.1;av1;48x64+24x32;gop=2;cameras=2;name=");
    sg_frame_place place = frame_at(c, 0, 2, 3);
    assert_int_equal(place.store, SG_STORE_VIDEO);
    ends_in(place.path, "/videos/chunk-001/observation.images.top/episode_000002.mp4");
    assert_true(place.time_s > 0.2999 && place.time_s < 0.3001);
    place = frame_at(c, 1, 1, 2);
    ends_in(place.path, "/images/observation.images.side/episode_000001/frame_000002.png");
    sg_status status;
    assert_int_equal(sg_catalogue_place(c, 0, 3, 0, &place, &status), SG_BAD_INPUT);
    assert_int_equal(sg_catalogue_place(c, 0, 1, 3, &place, &status), SG_BAD_INPUT);
    assert_int_equal(sg_catalogue_place(c, 0, 1, -1, &place, &status), SG_BAD_INPUT);
    assert_int_equal(sg_catalogue_place(c, 2, 1, 0, &place, &status), SG_BAD_INPUT);
    assert_true(c->has_tables == tables_here());
    if (c->has_tables) {
        sg_row_place row = row_at(c, 1, 2);
        ends_in(row.path, "/data/chunk-000/episode_000001.parquet");
        assert_string_equal(row.state, "observation.state");
        assert_string_equal(row.action, "action");
        assert_int_equal(row.row, 2);
        assert_false(row.hdf5);
    }
    sg_code cold = sg_catalogue_make_cold(c, &status);
    if (cold != SG_OK) {
        assert_int_equal(cold, SG_MACHINE);
        sg_assert_contains(status.text, "memory");
    }
    sg_catalogue_close(c);
    sg_scratch_free(&s);
}

/* v2_info with one part replaced. */
static const char *with(const char *part, const char *by) {
    static char text[4096];
    const char *at = strstr(v2_info, part);
    assert_non_null(at);
    (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - v2_info), v2_info, by, at + strlen(part));
    return text;
}

static void lerobot_v2_refusals(void **state) {
    (void)state;
    static const struct {
        const char *part, *by, *episodes, *says;
    } bad[] = {
        {"data/chunk-{episode_chunk:03d}", "/etc", NULL, "absolute"},
        {"videos/chunk", "../videos/chunk", NULL, "way out"},
        {"episode_{episode_index:06d}.parquet", "all.parquet", NULL, "{episode_index} is missing"},
        {"/{video_key}/", "/", NULL, "same file for all cameras"},
        {"{episode_index:06d}.mp4", "{os}.mp4", NULL, "not known"},
        {"\"chunks_size\": 2", "\"chunks_size\": 0", NULL, "chunks_size"},
        {"observation.images.top", "../../x", NULL, "no camera has such a name"},
        {"\"fps\": 10,", "", NULL, "fps is missing"},
        {"\"chunks_size\": 2", "\"chunks_size\": 1", NULL, "is missing: the data set in"},
        {"v2.1", "v2.1", "{\"episode_index\": 0, \"length\": 5}\n{\"episode_index\": 2, \"length\": 5}",
         "not all before"},
        {"v2.1", "v2.1", "{\"episode_index\": 0, \"length\": 5}\n{\"episode_index\": 0, \"length\": 5}",
         "listed twice"},
        {"v2.1", "v2.1", "{\"episode_index\": 0, \"length\": 0}", "episodes.jsonl:1"},
        {"v2.1", "v2.1", "{\"episode_index\": 0, \"length\": 1e300}", "length"},
        {"v2.1", "v2.1", "\n{\"episode_index\": 0,", "episodes.jsonl:2"},
        {"v2.1", "v2.1", "", "no episode"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sg_scratch s = sg_scratch_new();
        write_v2(&s, with(bad[i].part, bad[i].by), bad[i].episodes ? bad[i].episodes : v2_episodes);
        refused(&s, "", bad[i].says);
        sg_scratch_free(&s);
    }
    sg_scratch s = sg_scratch_new();
    sg_scratch_file(&s, "meta/info.json", v2_info);
    refused(&s, "", "tells the length of every episode");
    sg_scratch_free(&s);
}

static void links(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new(), cache = sg_scratch_new();
    write_v2(&s, v2_info, v2_episodes);
    sg_scratch_link(&s, "data/inside", "../meta");
    sg_scratch_link(&s, "data/nowhere", "/nonexistent/file");
    sg_catalogue_close(opened(&s, ""));
    sg_scratch_link(&s, "videos/outside", "/etc/hostname");
    refused(&s, "", "leaves the data set's folder");
    /* Hugging Face's cache: snapshots/REVISION holds links to blobs */
    sg_scratch_file(&cache, "blobs/a", v2_info);
    sg_scratch_link(&cache, "snapshots/r1/meta/info.json", "../../../blobs/a");
    refused(&cache, "snapshots/r1", "tells the length of every episode");
    sg_scratch_file(&cache, "other/a", v2_info);
    sg_scratch_link(&cache, "snapshots/r1/meta/more.json", "../../../other/a");
    refused(&cache, "snapshots/r1", "leaves the data set's folder");
    sg_scratch_free(&s);
    sg_scratch_free(&cache);
}

static void many_episodes(void **state) {
    (void)state;
    enum { N = 20000 };
    sg_scratch s = sg_scratch_new();
    char path[512];
    path_in(&s, "episodes.jsonl", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < N; i++)
        (void)fprintf(file, "{\"episode_index\": %d, \"tasks\": [\"t\"], \"length\": %d}\n", N - 1 - i, i + 1);
    assert_int_equal(fclose(file), 0);
    int64_t *lengths;
    size_t n;
    sg_status status;
    assert_int_equal(sg_episodes_file_read(path, &lengths, &n, &status), SG_OK);
    assert_int_equal(n, N);
    for (int i = 0; i < N; i++) assert_int_equal(lengths[i], N - i);
    free(lengths);
    assert_int_equal(unlink(path), 0);
    sg_scratch_free(&s);
}

/* ---- LeRobot v3 ---- */

static const char v3_info[] =
    "{\"codebase_version\": \"v3.0\", \"total_frames\": 12, \"total_episodes\": 3, \"fps\": 10, \"chunks_size\": 1000,"
    "\"features\": {\"top\": {\"dtype\": \"video\", \"shape\": [48, 64, 3], \"names\": null},"
    "\"observation.state\": {\"dtype\": \"float32\", \"shape\": [4]}}}";

/* One file of the table of episodes. columns: 7, or 8 with the first frame of each among all. */
static void write_columns(const sg_scratch *s, const char *name, const double (*rows)[8], int64_t n, size_t n_columns) {
    static const char *const names[] = {"episode_index",
                                        "length",
                                        "data/chunk_index",
                                        "data/file_index",
                                        "videos/top/chunk_index",
                                        "videos/top/file_index",
                                        "videos/top/from_timestamp",
                                        "dataset_from_index"};
    double numbers[8][8];
    sg_table_column_data columns[8];
    memset(columns, 0, sizeof columns);
    for (size_t c = 0; c < n_columns; c++) {
        for (int64_t r = 0; r < n; r++) numbers[c][r] = rows[r][c];
        columns[c].name = names[c];
        columns[c].width = 1;
        columns[c].kind = c == 6 ? SG_COLUMN_DOUBLE : SG_COLUMN_INT64;
        columns[c].numbers = numbers[c];
    }
    char path[512];
    sg_status status;
    sg_scratch_file(s, name, ""); /* makes the folders */
    path_in(s, name, path);
    if (sg_table_write(path, columns, n_columns, n, &status) != SG_OK) fail_msg("%s", status.text);
}

static void write_table(const sg_scratch *s, const char *name, const double (*rows)[8], int64_t n) {
    write_columns(s, name, rows, n, 7);
}

static void write_v3(const sg_scratch *s) {
    sg_scratch_file(s, "meta/info.json", v3_info);
    sg_scratch_file(s, "videos/top/chunk-000/file-000.mp4", "v");
    sg_scratch_file(s, "data/chunk-000/file-000.parquet", "p");
    sg_scratch_file(s, "data/chunk-000/file-001.parquet", "p");
}

static void lerobot_v3(void **state) {
    (void)state;
    if (!tables_here()) skip();
    sg_scratch s = sg_scratch_new();
    write_v3(&s);
    sg_scratch_file(&s, "videos/top/chunk-000/file-001.mp4", "v");
    static const double begin[][8] = {{0, 5, 0, 0, 0, 0, 0}, {1, 3, 0, 0, 0, 0, 0.5}},
                        end[][8] = {{2, 4, 0, 1, 0, 1, 0}};
    write_table(&s, "meta/episodes/chunk-000/file-000.parquet", begin, 2);
    write_table(&s, "meta/episodes/chunk-000/file-001.parquet", end, 1);
    sg_catalogue *c = opened(&s, "");
    assert_int_equal(c->n_episodes, 3);
    assert_int_equal(c->info.frames, 12);
    described_as(c, "lerobot-v3.0;48x64;cameras=1;name=");
    sg_frame_place place = frame_at(c, 0, 1, 2);
    ends_in(place.path, "/videos/top/chunk-000/file-000.mp4");
    assert_true(place.time_s > 0.6999 && place.time_s < 0.7001);
    place = frame_at(c, 0, 2, 0);
    ends_in(place.path, "/videos/top/chunk-000/file-001.mp4");
    assert_true(place.time_s == 0);
    sg_row_place row = row_at(c, 1, 2);
    ends_in(row.path, "/data/chunk-000/file-000.parquet");
    assert_int_equal(row.row, 7);
    assert_string_equal(row.action, "");
    assert_int_equal(row_at(c, 2, 3).row, 3);
    sg_catalogue_close(c);
    static const double hostile[][8] = {{2, 4, 0, 1, 0, -1, 0}, {2, 0, 0, 1, 0, 1, 0}, {2, 4, 0, 1e300, 0, 1, 0},
                                        {2, 4, 0, 1, 0, 1, -5}, {2, 4, 0, 1, 0, 7, 0}, {1, 4, 0, 1, 0, 1, 0}};
    static const char *const says[] = {"impossible", "impossible", "impossible",
                                       "impossible", "is missing", "episode 2"};
    for (size_t i = 0; i < 6; i++) {
        if (i == 2) continue; /* no such number fits the column */
        write_table(&s, "meta/episodes/chunk-000/file-001.parquet", hostile + i, 1);
        refused(&s, "", says[i]);
    }
    sg_scratch_file(&s, "meta/episodes/chunk-000/file-001.parquet", "PAR1 and nothing else PAR1");
    refused(&s, "", "file-001.parquet");
    sg_scratch_free(&s);
}

/* Rows in a data file follow from the order of frames in the data set, whatever the order of files. */
static void lerobot_v3_files_in_turn(void **state) {
    (void)state;
    if (!tables_here()) skip();
    sg_scratch s = sg_scratch_new();
    write_v3(&s);
    static const double turn[][8] = {{0, 5, 0, 0, 0, 0, 0, 0}, {1, 3, 0, 1, 0, 0, 0.5, 8}, {2, 3, 0, 0, 0, 0, 0.8, 5}},
                        gap[][8] = {{0, 5, 0, 0, 0, 0, 0, 0}, {1, 3, 0, 1, 0, 0, 0.5, 9}, {2, 3, 0, 0, 0, 0, 0.8, 6}},
                        part[][8] = {{0, 5, 0, 0, 0, 0, 0, 0}, {1, 3, 0, 1, 0, 0, 0.5, 8}, {2, 3, 0, 0, 0, 0, 0.8, -1}};
    for (size_t columns = 7; columns <= 8; columns++) { /* without first frames, the order of episodes */
        write_columns(&s, "meta/episodes/chunk-000/file-000.parquet", turn, 3, columns);
        sg_catalogue *c = opened(&s, "");
        assert_int_equal(row_at(c, 0, 4).row, 4);
        assert_int_equal(row_at(c, 1, 1).row, 1);
        ends_in(row_at(c, 1, 1).path, "/data/chunk-000/file-001.parquet");
        assert_int_equal(row_at(c, 2, 1).row, 6);
        ends_in(row_at(c, 2, 1).path, "/data/chunk-000/file-000.parquet");
        sg_assert_contains(c->warning, "states 12 frames, the episodes have 11");
        sg_catalogue_close(c);
    }
    write_columns(&s, "meta/episodes/chunk-000/file-000.parquet", gap, 3, 8);
    refused(&s, "", "episode 2 begins at frame 6 of the data set");
    write_columns(&s, "meta/episodes/chunk-000/file-000.parquet", part, 3, 8);
    refused(&s, "", "nobody can tell its rows");
    sg_scratch_free(&s);
}

/* Without the library: one video holds all frames, episodes are equally long. */
static void lerobot_v3_without_tables(void **state) {
    (void)state;
    const char *before = getenv("STEPGAUGE_CARQUET");
    char *kept = before ? strdup(before) : NULL;
    assert_int_equal(setenv("STEPGAUGE_CARQUET", "/nonexistent/libcarquet.so", 1), 0);
    sg_scratch s = sg_scratch_new();
    write_v3(&s);
    sg_catalogue *c = opened(&s, "");
    assert_false(c->has_tables);
    sg_assert_contains(c->tables_why, "equally long");
    assert_int_equal(c->n_episodes, 3);
    assert_int_equal(c->first_frame[1], 4);
    sg_frame_place place = frame_at(c, 0, 2, 3);
    ends_in(place.path, "/videos/top/chunk-000/file-000.mp4");
    assert_true(place.time_s > 1.0999 && place.time_s < 1.1001);
    sg_row_place row;
    sg_status status;
    assert_int_equal(sg_catalogue_row(c, 0, 0, &row, &status), SG_BAD_INPUT);
    sg_assert_contains(status.text, "equally long");
    sg_catalogue_close(c);
    sg_scratch_file(&s, "videos/top/chunk-000/file-001.mp4", "no video");
    refused(&s, "", "file-000.mp4");
    sg_scratch_free(&s);
    assert_int_equal(kept ? setenv("STEPGAUGE_CARQUET", kept, 1) : unsetenv("STEPGAUGE_CARQUET"), 0);
    free(kept);
}

/* ---- folders of images ---- */

/* The first bytes of a PNG of this size. */
static void write_png(const sg_scratch *s, const char *name, uint8_t height, uint8_t width) {
    const uint8_t bytes[] = {0x89, 'P', 'N', 'G', '\r',  '\n', 0x1a, '\n', 0,      0, 0, 13, 'I', 'H', 'D',
                             'R',  0,   0,   0,   width, 0,    0,    0,    height, 8, 2, 0,  0,   0};
    char path[512];
    sg_scratch_file(s, name, "");
    path_in(s, name, path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, file), sizeof bytes);
    assert_int_equal(fclose(file), 0);
}

static void images(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new(), flat = sg_scratch_new();
    for (int e = 1; e <= 11; e++)
        for (int f = 0; f < 12 - e; f++) {
            char name[64];
            (void)snprintf(name, sizeof name, "ep%d/left/%d.png", e, f);
            write_png(&s, name, 24, 32);
            (void)snprintf(name, sizeof name, "ep%d/right/frame%03d.png", e, f);
            write_png(&s, name, 12, 16);
            (void)snprintf(name, sizeof name, "ep%d/%d.png", e, 100 * f);
            write_png(&flat, name, 24, 32);
        }
    write_png(&s, "ep3/right/frame009.png", 12, 16); /* one more than the other camera has */
    sg_scratch_file(&s, "notes/about.txt", "nothing");
    sg_catalogue *c = opened(&s, "");
    assert_int_equal(c->kind, SG_DATASET_IMAGES);
    assert_int_equal(c->n_episodes, 11);
    assert_int_equal(c->info.frames, 66);
    assert_int_equal(c->first_frame[3] - c->first_frame[2], 9);
    assert_false(c->has_tables);
    described_as(c, "images;png;24x32+12x16;cameras=2;name=");
    ends_in(frame_at(c, 0, 9, 1).path, "/ep10/left/1.png"); /* ten comes behind nine */
    ends_in(frame_at(c, 1, 1, 9).path, "/ep2/right/frame009.png");
    sg_catalogue_close(c);
    c = opened(&flat, "");
    assert_int_equal(c->n_cameras, 1);
    ends_in(frame_at(c, 0, 0, 10).path, "/ep1/1000.png");
    assert_int_equal(c->cameras[0].width, 32);
    sg_catalogue_close(c);
    sg_dataset info;
    sg_status status;
    assert_int_equal(sg_dataset_read(flat.path, &info, &status), SG_OK);
    assert_int_equal(info.frames, 66);
    assert_int_equal(info.episodes, 11);
    assert_int_equal(info.image_height, 24);
    assert_string_equal(info.codec, "png");
    sg_scratch_file(&flat, "ep1/0.png", "no image at all");
    refused(&flat, "", "ep1/0.png is no PNG or JPEG");
    write_png(&s, "ep12/left/0.png", 24, 32);
    refused(&s, "", "ep12 has images of 1 of the 2 cameras");
    sg_scratch_free(&s);
    sg_scratch_free(&flat);
}

/* Hugging Face's cache: the folder's name is a checksum. */
static void names_in_a_cache(void **state) {
    (void)state;
    static const struct {
        const char *folder, *name;
    } sets[] = {{"datasets--lerobot--pusht/snapshots/0d5f1", "pusht"},
                {"datasets--pusht/snapshots/0d5f1", "pusht"},
                {"datasets--lerobot--pusht/snapshots/0d5f1/inner", "inner"},
                {"models--lerobot--act/snapshots/0d5f1", "0d5f1"}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        sg_scratch s = sg_scratch_new();
        char name[128];
        (void)snprintf(name, sizeof name, "%s/ep1/top/0.png", sets[i].folder);
        write_png(&s, name, 24, 32);
        sg_catalogue *c = opened(&s, sets[i].folder);
        assert_string_equal(c->name, sets[i].name);
        sg_catalogue_close(c);
        sg_scratch_free(&s);
    }
}

/* ---- HDF5 ---- */

/* A data set of zeros. */
static void put(hid_t file, const char *name, hid_t type, int rank, const hsize_t *dims) {
    hid_t links = H5Pcreate(H5P_LINK_CREATE), space = H5Screate_simple(rank, dims, NULL);
    assert_true(H5Pset_create_intermediate_group(links, 1) >= 0);
    hid_t set = H5Dcreate2(file, name, type, space, links, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(set >= 0);
    (void)H5Dclose(set);
    (void)H5Sclose(space);
    (void)H5Pclose(links);
}

static hid_t create(const sg_scratch *s, const char *name) {
    char path[512];
    path_in(s, name, path);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    return file;
}

static void put_demo(hid_t file, int number, hsize_t frames, hsize_t width, const char *ending) {
    char name[96];
    const hsize_t image[] = {frames, 24, width, 3}, action[] = {frames, 7}, three[] = {frames, 3}, four[] = {frames, 4};
    (void)snprintf(name, sizeof name, "/data/demo_%d/obs/agentview%s", number, ending);
    put(file, name, H5T_STD_U8LE, 4, image);
    (void)snprintf(name, sizeof name, "/data/demo_%d/actions", number);
    put(file, name, H5T_IEEE_F64LE, 2, action);
    (void)snprintf(name, sizeof name, "/data/demo_%d/obs/robot0_eef_pos", number);
    put(file, name, H5T_IEEE_F64LE, 2, three);
    (void)snprintf(name, sizeof name, "/data/demo_%d/obs/robot0_eef_quat", number);
    put(file, name, H5T_IEEE_F64LE, 2, four);
    (void)snprintf(name, sizeof name, "/data/demo_%d/obs/agentview_depth", number);
    const hsize_t depth[] = {frames, 24, width, 1};
    put(file, name, H5T_IEEE_F32LE, 4, depth);
}

static void robomimic(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new();
    hid_t file = create(&s, "demo.hdf5");
    put_demo(file, 10, 6, 32, "_image");
    put_demo(file, 2, 5, 32, "_image");
    (void)H5Fclose(file);
    for (int whole = 0; whole < 2; whole++) {
        sg_catalogue *c = opened(&s, whole ? "" : "demo.hdf5");
        assert_int_equal(c->kind, SG_DATASET_ROBOMIMIC);
        assert_int_equal(c->n_episodes, 2);
        assert_int_equal(c->first_frame[1], 5); /* two comes before ten */
        assert_int_equal(c->info.state_dim, 7);
        assert_int_equal(c->info.action_dim, 7);
        described_as(c, "robomimic;raw;24x32;cameras=1;name=");
        sg_frame_place place = frame_at(c, 0, 1, 4);
        assert_int_equal(place.store, SG_STORE_HDF5_RAW);
        ends_in(place.path, "/demo.hdf5");
        assert_string_equal(place.inner, "/data/demo_10/obs/agentview_image");
        assert_int_equal(place.row, 4);
        sg_row_place row = row_at(c, 0, 3);
        assert_true(row.hdf5);
        assert_string_equal(row.state, "/data/demo_2/obs/robot0_eef_pos\n/data/demo_2/obs/robot0_eef_quat");
        assert_string_equal(row.action, "/data/demo_2/actions");
        sg_catalogue_close(c);
    }
    char path[512];
    sg_dataset info;
    sg_status status;
    path_in(&s, "demo.hdf5", path);
    assert_int_equal(sg_dataset_read(path, &info, &status), SG_OK);
    assert_int_equal(info.image_width, 32);
    assert_int_equal(info.frames, 11);
    assert_string_equal(info.codec, "raw");
    sg_scratch_free(&s);
}

/* Images that are no camera's are told of. */
static void images_of_other_shapes(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new();
    const hsize_t turned[] = {5, 3, 24, 32}, action[] = {5, 7};
    hid_t file = create(&s, "demo.hdf5");
    put(file, "/data/demo_0/obs/agentview_image", H5T_IEEE_F32LE, 4, turned);
    put(file, "/data/demo_0/actions", H5T_IEEE_F64LE, 2, action);
    (void)H5Fclose(file);
    sg_catalogue *c = opened(&s, "demo.hdf5");
    assert_int_equal(c->n_cameras, 0);
    assert_string_equal(c->warning, "agentview_image is [5, 3, 24, 32] and no uint8, cameras are uint8 [T, H, W, 3]");
    sg_catalogue_close(c);
    sg_scratch_free(&s);
}

static void demonstrations_made(void **state) {
    (void)state;
    static const struct {
        const char *kind, *codec, *described, *camera, *state;
    } sets[] = {
        {"libero", NULL, "libero;raw;24x32;cameras=2;name=", "/data/demo_1/obs/eye_in_hand_rgb",
         "/data/demo_1/obs/joint_states"},
        {"aloha", NULL, "aloha;raw;24x32;cameras=2;name=", "/observations/images/cam_left_wrist", "/observations/qpos"},
        {"aloha", "jpeg", "aloha;jpeg;24x32;cameras=2;name=", "/observations/images/cam_left_wrist",
         "/observations/qpos"}};
    for (size_t i = 0; i < 3; i++) {
        sg_scratch s = sg_scratch_new();
        sg_make_options options = {.kind = sets[i].kind,
                                   .codec = sets[i].codec,
                                   .episodes = 2,
                                   .frames_per_episode = 3,
                                   .height = 24,
                                   .width = 32};
        sg_status status;
        sg_code code = sg_dataset_make(s.path, &options, &status);
        if (code == SG_MACHINE && sets[i].codec) { /* the module for JPEG is not built */
            sg_scratch_free(&s);
            continue;
        }
        if (code != SG_OK) fail_msg("%s", status.text);
        sg_catalogue *c = opened(&s, "");
        described_as(c, sets[i].described);
        assert_int_equal(c->info.frames, 6);
        assert_int_equal(c->info.state_dim, 6);
        sg_frame_place place = frame_at(c, 1, 1, 2);
        assert_string_equal(place.inner, sets[i].camera);
        assert_int_equal(place.row, 2);
        assert_string_equal(row_at(c, 1, 0).state, sets[i].state);
        if (i > 0) ends_in(place.path, "/episode_1.hdf5");
        sg_catalogue_close(c);
        sg_scratch_free(&s);
    }
}

static void hdf5_refusals(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new();
    hid_t file = create(&s, "a.hdf5");
    (void)H5Fclose(file);
    refused(&s, "a.hdf5", "no /data/demo_0 (robomimic, LIBERO) and no /observations (ALOHA)");
    file = create(&s, "a.hdf5");
    put_demo(file, 0, 3, 32, "_rgb");
    put_demo(file, 1, 3, 16, "_rgb");
    (void)H5Fclose(file);
    refused(&s, "", "agentview_rgb is missing, or is no camera of the same size");
    file = create(&s, "a.hdf5");
    put_demo(file, 0, 3, 32, "_rgb");
    assert_true(H5Lcreate_external("/etc/passwd", "/", file, "/data/demo_1", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lcreate_soft("/data/demo_0", file, "/data/demo_2", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    (void)H5Fclose(file);
    sg_catalogue *c = opened(&s, "a.hdf5"); /* links are no demonstrations */
    assert_int_equal(c->n_episodes, 1);
    assert_int_equal(c->kind, SG_DATASET_LIBERO);
    sg_catalogue_close(c);
    file = create(&s, "b.hdf5");
    const hsize_t dims[] = {3, 4};
    put(file, "/observations/qpos", H5T_IEEE_F32LE, 2, dims);
    put(file, "/action", H5T_IEEE_F32LE, 2, dims);
    (void)H5Fclose(file);
    refused(&s, "", "of another kind than the files before it");
    char path[512];
    path_in(&s, "b.hdf5", path);
    assert_int_equal(truncate(path, 700), 0);
    refused(&s, "b.hdf5", "damaged or not complete");
    sg_scratch_file(&s, "b.hdf5", "no HDF5");
    refused(&s, "", "b.hdf5 is no HDF5 file");
    refused(&s, "b.hdf5", "is no HDF5 file: give a data set's folder");
    sg_scratch_free(&s);
}

static void nothing_known(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new();
    sg_scratch_file(&s, "a/b/readme.txt", "text");
    refused(&s, "", "no LeRobot data set (it holds no meta/info.json), no HDF5 demonstrations");
    refused(&s, "missing", "does not exist");
    sg_scratch_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_in_the_order_of_people),
        cmocka_unit_test(templates),
        cmocka_unit_test(lerobot_v2),
        cmocka_unit_test(lerobot_v2_refusals),
        cmocka_unit_test(links),
        cmocka_unit_test(many_episodes),
        cmocka_unit_test(lerobot_v3),
        cmocka_unit_test(lerobot_v3_files_in_turn),
        cmocka_unit_test(lerobot_v3_without_tables),
        cmocka_unit_test(names_in_a_cache),
        cmocka_unit_test(images_of_other_shapes),
        cmocka_unit_test(images),
        cmocka_unit_test(robomimic),
        cmocka_unit_test(demonstrations_made),
        cmocka_unit_test(hdf5_refusals),
        cmocka_unit_test(nothing_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
