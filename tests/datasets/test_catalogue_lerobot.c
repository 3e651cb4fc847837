/* Catalogues of LeRobot v2 and v3: where frames and rows lie, and what is refused. */
#include "tests/datasets/catalogue_fixture.h"

#include <stdlib.h>
#include <unistd.h>

#include "datasets/catalogue/episodes_file.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lerobot_v2),
        cmocka_unit_test(lerobot_v2_refusals),
        cmocka_unit_test(links),
        cmocka_unit_test(many_episodes),
        cmocka_unit_test(lerobot_v3),
        cmocka_unit_test(lerobot_v3_files_in_turn),
        cmocka_unit_test(lerobot_v3_without_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
