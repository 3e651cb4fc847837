/* meta/ of LeRobot data sets: info.json, statistics, tasks, episodes. */
#include "datasets/make/make_lerobot.h"
#include "datasets/tables/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1000, CAMERAS_MOST = 16 };

json_t *sg_lerobot_stats(const sg_make_lerobot_set *set, int64_t first, int64_t rows, const sg_level_counts *levels) {
    const sg_make *make = set->make;
    const sg_make_rows *r = &make->rows;
    const struct {
        const char *name;
        const double *numbers;
        int64_t width;
    } columns[] = {{"action", r->action, make->o.action_dim},
                   {"observation.state", r->state, make->o.state_dim},
                   {"timestamp", r->timestamp, 1},
                   {"frame_index", r->frame_index, 1},
                   {"episode_index", r->episode_index, 1},
                   {"index", r->index, 1},
                   {"task_index", r->task_index, 1}};
    json_t *stats = json_object();
    bool done = stats != NULL;
    for (size_t i = 0; done && i < sizeof columns / sizeof columns[0]; i++) {
        const double *from = columns[i].numbers + first * columns[i].width;
        json_t *of_column = sg_make_numbers_stats(from, rows, columns[i].width);
        done = of_column && json_object_set_new(stats, columns[i].name, of_column) == 0;
    }
    for (int64_t c = 0; done && c < make->o.cameras; c++) {
        char name[SG_MAKE_NAME_BYTES];
        sg_lerobot_camera(c, name);
        json_t *of_camera = sg_make_frames_stats(&levels[c], rows);
        done = of_camera && json_object_set_new(stats, name, of_camera) == 0;
    }
    if (done) return stats;
    json_decref(stats);
    return NULL;
}

/* ---- info.json ----------------------------------------------------------------------------------------------------- */

static json_t *joint_feature(int64_t width) {
    json_t *names = json_array();
    for (int64_t j = 0; j < width; j++) {
        char name[SG_MAKE_NAME_BYTES];
        (void)snprintf(name, sizeof name, "joint_%lld.pos", (long long)j + 1);
        (void)json_array_append_new(names, json_string(name));
    }
    return json_pack("{s:s, s:[I], s:o}", "dtype", "float32", "shape", (json_int_t)width, "names", names);
}

static json_t *number_feature(const char *dtype) {
    return json_pack("{s:s, s:[i], s:n}", "dtype", dtype, "shape", 1, "names");
}

/* What the encoder was told: see video_write in datasets/codec/codec.h. */
static json_t *video_details(const sg_make_options *o) {
    bool av1 = strcmp(o->codec, "av1") == 0;
    json_t *info =
        json_pack("{s:I, s:I, s:s, s:s, s:b, s:I, s:i, s:b, s:I, s:i}", "video.height", (json_int_t)o->height,
                  "video.width", (json_int_t)o->width, "video.codec", o->codec, "video.pix_fmt", "yuv420p",
                  "video.is_depth_map", 0, "video.fps", (json_int_t)o->fps, "video.channels", 3, "has_audio", 0,
                  "video.g", (json_int_t)o->gop, "video.crf", av1 ? 30 : 23);
    if (av1) (void)json_object_set_new(info, "video.preset", json_integer(12));
    return info;
}

static json_t *camera_feature(const sg_make_lerobot_set *set) {
    const sg_make_options *o = &set->make->o;
    json_t *feature = json_pack("{s:s, s:[I,I,i], s:[s,s,s]}", "dtype", set->video ? "video" : "image", "shape",
                                (json_int_t)o->height, (json_int_t)o->width, 3, "names", "height", "width", "channels");
    if (set->video) (void)json_object_set_new(feature, "info", video_details(o));
    return feature;
}

static json_t *features(const sg_make_lerobot_set *set) {
    static const char *const counters[] = {"frame_index", "episode_index", "index", "task_index"};
    const sg_make_options *o = &set->make->o;
    json_t *all = json_object();
    (void)json_object_set_new(all, "action", joint_feature(o->action_dim));
    (void)json_object_set_new(all, "observation.state", joint_feature(o->state_dim));
    for (int64_t c = 0; c < o->cameras; c++) {
        char name[SG_MAKE_NAME_BYTES];
        sg_lerobot_camera(c, name);
        (void)json_object_set_new(all, name, camera_feature(set));
    }
    (void)json_object_set_new(all, "timestamp", number_feature("float32"));
    for (size_t i = 0; i < 4; i++) (void)json_object_set_new(all, counters[i], number_feature("int64"));
    return all;
}

static void add_integer(json_t *info, const char *key, int64_t value) {
    (void)json_object_set_new(info, key, json_integer((json_int_t)value));
}

static sg_code write_info(const sg_make_lerobot_set *set, sg_status *status) {
    const sg_make *make = set->make;
    const sg_make_options *o = &make->o;
    char split[32];
    (void)snprintf(split, sizeof split, "0:%lld", (long long)o->episodes);
    json_t *info = json_pack("{s:s, s:s, s:I, s:I, s:i}", "codebase_version", o->kind + strlen("lerobot-"),
                             "robot_type", "so101_follower", "total_episodes", (json_int_t)o->episodes, "total_frames",
                             (json_int_t)make->frames, "total_tasks", 1);
    if (!set->v3) {
        add_integer(info, "total_videos", set->video ? o->episodes * o->cameras : 0);
        add_integer(info, "total_chunks", (o->episodes + CHUNK - 1) / CHUNK);
    }
    add_integer(info, "chunks_size", CHUNK);
    if (set->v3) { /* LeRobot's defaults */
        add_integer(info, "data_files_size_in_mb", 100);
        add_integer(info, "video_files_size_in_mb", 200);
    }
    add_integer(info, "fps", (int64_t)o->fps);
    const char *data = set->v3 ? "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
                               : "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet";
    const char *video = set->v3 ? "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
                                : "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4";
    (void)json_object_set_new(info, "splits", json_pack("{s:s}", "train", split));
    (void)json_object_set_new(info, "data_path", json_string(data));
    (void)json_object_set_new(info, "video_path", set->video ? json_string(video) : json_null());
    (void)json_object_set_new(info, "features", features(set));
    return sg_make_json(make, "meta/info.json", info, status);
}

/* ---- v2.0 and v2.1 ------------------------------------------------------------------------------------------------- */

static sg_code write_lines(sg_make_lerobot_set *set, sg_status *status) {
    const sg_make *make = set->make;
    json_t *episodes = json_array();
    for (int64_t e = 0; e < make->o.episodes; e++)
        (void)json_array_append_new(episodes,
                                    json_pack("{s:I, s:[s], s:I}", "episode_index", (json_int_t)e, "tasks",
                                              SG_MAKE_TASK, "length", (json_int_t)make->o.frames_per_episode));
    sg_code code = sg_make_json_lines(make, "meta/episodes.jsonl", episodes, status);
    if (code == SG_OK)
        code = sg_make_json_lines(make, "meta/tasks.jsonl",
                                  json_pack("[{s:i, s:s}]", "task_index", 0, "task", SG_MAKE_TASK), status);
    if (code == SG_OK && set->episodes_stats)
        code = sg_make_json_lines(make, "meta/episodes_stats.jsonl", json_incref(set->episodes_stats), status);
    return code;
}

/* ---- v3.0 ---------------------------------------------------------------------------------------------------------- */

/* The task's text is the index of the table, as pandas keeps one. */
static const char pandas_index[] =
    "{\"index_columns\": [\"__index_level_0__\"], \"column_indexes\": [{\"name\": null, \"field_name\": null, "
    "\"pandas_type\": \"unicode\", \"numpy_type\": \"object\", \"metadata\": {\"encoding\": \"UTF-8\"}}], \"columns\": "
    "[{\"name\": \"task_index\", \"field_name\": \"task_index\", \"pandas_type\": \"int64\", \"numpy_type\": "
    "\"int64\", "
    "\"metadata\": null}, {\"name\": null, \"field_name\": \"__index_level_0__\", \"pandas_type\": \"unicode\", "
    "\"numpy_type\": \"object\", \"metadata\": null}], \"pandas_version\": \"2.2.0\"}";

static sg_code write_tasks(const sg_make *make, sg_status *status) {
    static const double zero = 0;
    static const sg_table_note note = {"pandas", pandas_index};
    const char *const text = SG_MAKE_TASK;
    const sg_table_column_data columns[] = {
        {.name = "task_index", .kind = SG_COLUMN_INT64, .width = 1, .numbers = &zero},
        {.name = "__index_level_0__", .kind = SG_COLUMN_TEXT, .width = 1, .texts = &text}};
    char path[SG_MAKE_PATH_BYTES];
    sg_code code = sg_make_path(make, path, status, "meta/tasks.parquet");
    if (code == SG_OK) code = sg_make_way(make, path, status);
    return code == SG_OK ? sg_table_write_noted(path, columns, 2, 1, &note, 1, status) : code;
}

/* Columns of the table of episodes: values in one block of `rows` each. */
typedef struct episode_table {
    sg_table_column_data columns[16 + 4 * CAMERAS_MOST];
    char names[16 + 4 * CAMERAS_MOST][SG_MAKE_NAME_BYTES + 32];
    size_t n;
    double *values;     /* [columns, rows] */
    const char **tasks; /* [rows] */
    int64_t rows;
} episode_table;

static double *add_column(episode_table *table, const char *camera, const char *what, int kind) {
    double *values = table->values + (int64_t)table->n * table->rows;
    (void)snprintf(table->names[table->n], sizeof table->names[0], "%s%s%s%s", camera ? "videos/" : "",
                   camera ? camera : "", camera ? "/" : "", what);
    table->columns[table->n] = (sg_table_column_data){.name = table->names[table->n], .width = 1, .numbers = values};
    table->columns[table->n].kind = kind;
    table->n++;
    return values;
}

/* chunk_index and file_index of each episode's file. */
static void add_file(episode_table *table, const sg_make_lerobot_set *set, const char *camera, const char *chunk,
                     const char *file) {
    double *in_chunk = add_column(table, camera, chunk, SG_COLUMN_INT64);
    double *in_file = add_column(table, camera, file, SG_COLUMN_INT64);
    for (int64_t e = 0; e < table->rows; e++) {
        int64_t number = e / set->span, of_chunk = number / CHUNK;
        in_chunk[e] = (double)of_chunk;
        in_file[e] = (double)(number % CHUNK);
    }
}

static void add_camera(episode_table *table, const sg_make_lerobot_set *set, const char *camera) {
    const sg_make_options *o = &set->make->o;
    add_file(table, set, camera, "chunk_index", "file_index");
    double *from = add_column(table, camera, "from_timestamp", SG_COLUMN_DOUBLE);
    double *to = add_column(table, camera, "to_timestamp", SG_COLUMN_DOUBLE);
    for (int64_t e = 0; e < table->rows; e++) {
        int64_t before = e % set->span;
        from[e] = (double)(before * o->frames_per_episode) / o->fps;
        to[e] = (double)((before + 1) * o->frames_per_episode) / o->fps;
    }
}

static void fill_episodes(episode_table *table, const sg_make_lerobot_set *set) {
    const sg_make_options *o = &set->make->o;
    double *number = add_column(table, NULL, "episode_index", SG_COLUMN_INT64);
    (void)add_column(table, NULL, "tasks", SG_COLUMN_TEXT_LIST);
    table->columns[table->n - 1].texts = table->tasks;
    double *length = add_column(table, NULL, "length", SG_COLUMN_INT64);
    double *first = add_column(table, NULL, "dataset_from_index", SG_COLUMN_INT64);
    double *behind = add_column(table, NULL, "dataset_to_index", SG_COLUMN_INT64);
    for (int64_t e = 0; e < table->rows; e++) {
        table->tasks[e] = SG_MAKE_TASK;
        number[e] = (double)e;
        length[e] = (double)o->frames_per_episode;
        first[e] = (double)(e * o->frames_per_episode);
        behind[e] = (double)((e + 1) * o->frames_per_episode);
    }
    add_file(table, set, NULL, "data/chunk_index", "data/file_index");
    for (int64_t c = 0; set->video && c < o->cameras; c++) {
        char camera[SG_MAKE_NAME_BYTES];
        sg_lerobot_camera(c, camera);
        add_camera(table, set, camera);
    }
    (void)add_column(table, NULL, "meta/episodes/chunk_index", SG_COLUMN_INT64);
    (void)add_column(table, NULL, "meta/episodes/file_index", SG_COLUMN_INT64);
}

static sg_code write_episodes(const sg_make_lerobot_set *set, sg_status *status) {
    char path[SG_MAKE_PATH_BYTES];
    sg_code code = sg_make_path(set->make, path, status, "meta/episodes/chunk-000/file-000.parquet");
    if (code == SG_OK) code = sg_make_way(set->make, path, status);
    if (code != SG_OK) return code;
    episode_table *table = calloc(1, sizeof *table);
    int64_t rows = set->make->o.episodes;
    if (table) {
        table->rows = rows;
        table->tasks = calloc((size_t)rows, sizeof *table->tasks);
        table->values = calloc((size_t)rows * (sizeof table->columns / sizeof table->columns[0]), sizeof(double));
    }
    if (table && table->values && table->tasks) {
        fill_episodes(table, set);
        code = sg_table_write(path, table->columns, table->n, rows, status);
    } else {
        code = sg_fail_memory(status, (size_t)rows * sizeof table->columns, "the table of episodes");
    }
    if (table) {
        free(table->values);
        free(table->tasks);
    }
    free(table);
    return code;
}

/* -------------------------------------------------------------------------------------------------------------------- */

sg_code sg_lerobot_meta(sg_make_lerobot_set *set, sg_status *status) {
    const sg_make *make = set->make;
    sg_code code = SG_OK;
    if (!set->episodes_stats) /* v2.1 has those of each episode instead */
        code = sg_make_json(make, "meta/stats.json", sg_lerobot_stats(set, 0, make->frames, set->total), status);
    if (code == SG_OK && !set->v3) code = write_lines(set, status);
    if (code == SG_OK && set->v3) code = write_tasks(make, status);
    if (code == SG_OK && set->v3) code = write_episodes(set, status);
    return code == SG_OK ? write_info(set, status) : code;
}
