/* Tables and videos of LeRobot data sets. */
#include "datasets/make/make_lerobot.h"
#include "datasets/tables/tables.h"

#include <stdlib.h>
#include <string.h>

enum { PER_CHUNK = 1000, CAMERAS_MOST = 16, NUMBER_COLUMNS = 7 };

/* Where the file of these episodes lies; what: "data", or "videos" and a camera. */
static sg_code file_path(const sg_make_lerobot_set *set, const char *what, const char *camera, int64_t first,
                         const char *ending, char path[SG_MAKE_PATH_BYTES], sg_status *status) {
    long long number = first / set->span, chunk = number / PER_CHUNK;
    const char *slash = camera ? "/" : "";
    if (!camera) camera = "";
    sg_code code = set->v3 ? sg_make_path(set->make, path, status, "%s%s%s/chunk-%03lld/file-%03lld.%s", what, slash,
                                          camera, chunk, number % PER_CHUNK, ending)
                           : sg_make_path(set->make, path, status, "%s/chunk-%03lld%s%s/episode_%06lld.%s", what, chunk,
                                          slash, camera, number, ending);
    return code == SG_OK ? sg_make_way(set->make, path, status) : code;
}

static sg_level_counts *levels(sg_make_lerobot_set *set, int64_t camera) {
    return set->episode ? &set->episode[camera] : &set->total[camera];
}

/* ---- tables -------------------------------------------------------------------------------------------------------- */

/* The images of one camera, row by row. */
typedef struct image_column {
    uint8_t **bytes;
    size_t *n_bytes;
    char (*paths)[32];
    const char **texts;
    int64_t rows;
} image_column;

static void image_column_free(image_column *column) {
    for (int64_t i = 0; column->bytes && i < column->rows; i++) free(column->bytes[i]);
    free(column->bytes);
    free(column->n_bytes);
    free(column->paths);
    free(column->texts);
}

static sg_code image_column_fill(sg_make_lerobot_set *set, int64_t camera, int64_t first, int64_t n,
                                 image_column *column, sg_status *status) {
    sg_make *make = set->make;
    size_t rows = (size_t)(n * make->o.frames_per_episode);
    *column = (image_column){.bytes = calloc(rows, sizeof(uint8_t *)),
                             .n_bytes = calloc(rows, sizeof(size_t)),
                             .paths = calloc(rows, sizeof *column->paths),
                             .texts = calloc(rows, sizeof(char *)),
                             .rows = (int64_t)rows};
    if (!column->bytes || !column->n_bytes || !column->paths || !column->texts)
        return sg_fail_memory(status, rows * sizeof *column->paths, "a column of images");
    sg_code code = SG_OK;
    for (size_t i = 0; code == SG_OK && i < rows; i++) {
        int64_t episode = first + (int64_t)i / make->o.frames_per_episode,
                frame = (int64_t)i % make->o.frames_per_episode;
        (void)snprintf(column->paths[i], sizeof column->paths[i], "frame%c%06lld.png", set->v3 ? '-' : '_',
                       (long long)frame);
        column->texts[i] = column->paths[i];
        code = sg_make_image(make, camera, episode, frame, levels(set, camera), &column->bytes[i], &column->n_bytes[i],
                             status);
    }
    return code;
}

/* The columns of numbers from row `row` on. */
static void number_columns(const sg_make *make, int64_t row, sg_table_column_data *columns) {
    const sg_make_rows *r = &make->rows;
    const sg_table_column_data all[NUMBER_COLUMNS] = {
        {"action", SG_COLUMN_FLOAT, make->o.action_dim, r->action + row * make->o.action_dim, NULL, NULL, NULL},
        {"observation.state", SG_COLUMN_FLOAT, make->o.state_dim, r->state + row * make->o.state_dim, NULL, NULL, NULL},
        {"timestamp", SG_COLUMN_FLOAT, 1, r->timestamp + row, NULL, NULL, NULL},
        {"frame_index", SG_COLUMN_INT64, 1, r->frame_index + row, NULL, NULL, NULL},
        {"episode_index", SG_COLUMN_INT64, 1, r->episode_index + row, NULL, NULL, NULL},
        {"index", SG_COLUMN_INT64, 1, r->index + row, NULL, NULL, NULL},
        {"task_index", SG_COLUMN_INT64, 1, r->task_index + row, NULL, NULL, NULL},
    };
    memcpy(columns, all, sizeof all);
}

static json_t *sequence(int64_t width) {
    json_t *number = json_pack("{s:s, s:s}", "dtype", "float32", "_type", "Value");
    return width == 1
               ? number
               : json_pack("{s:o, s:I, s:s}", "feature", number, "length", (json_int_t)width, "_type", "Sequence");
}

/* What Hugging Face's datasets keeps of its features: without it images would come back as bytes. NULL: no memory. */
static char *features_note(const sg_make_lerobot_set *set) {
    static const char *const counters[] = {"frame_index", "episode_index", "index", "task_index"};
    const sg_make_options *o = &set->make->o;
    json_t *features = json_object();
    (void)json_object_set_new(features, "action", sequence(o->action_dim));
    (void)json_object_set_new(features, "observation.state", sequence(o->state_dim));
    (void)json_object_set_new(features, "timestamp", sequence(1));
    for (size_t i = 0; i < 4; i++)
        (void)json_object_set_new(features, counters[i], json_pack("{s:s, s:s}", "dtype", "int64", "_type", "Value"));
    for (int64_t c = 0; !set->video && c < o->cameras; c++) {
        char name[SG_MAKE_NAME_BYTES];
        sg_lerobot_camera(c, name);
        (void)json_object_set_new(features, name, json_pack("{s:s}", "_type", "Image"));
    }
    json_t *note = json_pack("{s:{s:o}}", "info", "features", features);
    char *text = note ? json_dumps(note, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    json_decref(note);
    return text;
}

static sg_code write_table(const sg_make_lerobot_set *set, const char *path, const sg_table_column_data *columns,
                           size_t n_columns, int64_t rows, sg_status *status) {
    char *text = features_note(set);
    if (!text) return sg_fail(status, SG_MACHINE, "no memory for the features of %s", path);
    const sg_table_note note = {"huggingface", text};
    sg_code code = sg_table_write_noted(path, columns, n_columns, rows, &note, 1, status);
    free(text);
    return code;
}

sg_code sg_lerobot_data(sg_make_lerobot_set *set, int64_t first, int64_t n, sg_status *status) {
    const sg_make *make = set->make;
    sg_table_column_data columns[NUMBER_COLUMNS + CAMERAS_MOST];
    char names[CAMERAS_MOST][SG_MAKE_NAME_BYTES], path[SG_MAKE_PATH_BYTES];
    image_column images[CAMERAS_MOST];
    size_t n_images = 0;
    number_columns(make, first * make->o.frames_per_episode, columns);
    sg_code code = file_path(set, "data", NULL, first, "parquet", path, status);
    for (int64_t c = 0; !set->video && code == SG_OK && c < make->o.cameras; c++) {
        image_column *column = &images[n_images++];
        code = image_column_fill(set, c, first, n, column, status);
        sg_lerobot_camera(c, names[c]);
        columns[NUMBER_COLUMNS + c] = (sg_table_column_data){.name = names[c],
                                                             .kind = SG_COLUMN_IMAGE,
                                                             .width = 1,
                                                             .texts = column->texts,
                                                             .bytes = (const uint8_t *const *)column->bytes,
                                                             .n_bytes = column->n_bytes};
    }
    if (code == SG_OK)
        code = write_table(set, path, columns, NUMBER_COLUMNS + n_images, n * make->o.frames_per_episode, status);
    for (size_t i = 0; i < n_images; i++) image_column_free(&images[i]);
    return code;
}

/* ---- videos -------------------------------------------------------------------------------------------------------- */

typedef struct reel {
    sg_make_lerobot_set *set;
    int64_t camera, first;
    sg_code code;
    sg_status status;
} reel;

static bool draw(void *user, int64_t frame, uint8_t *rgb) {
    reel *r = user;
    sg_make *make = r->set->make;
    int64_t episode = r->first + frame / make->o.frames_per_episode;
    r->code = sg_make_draw(make, r->camera, episode, frame % make->o.frames_per_episode, rgb, levels(r->set, r->camera),
                           &r->status);
    return r->code == SG_OK;
}

sg_code sg_lerobot_video(sg_make_lerobot_set *set, int64_t camera, int64_t first, int64_t n, sg_status *status) {
    const sg_make_options *o = &set->make->o;
    char name[SG_MAKE_NAME_BYTES], path[SG_MAKE_PATH_BYTES];
    reel r = {.set = set, .camera = camera, .first = first};
    sg_lerobot_camera(camera, name);
    sg_code code = file_path(set, "videos", name, first, "mp4", path, status);
    if (code == SG_OK)
        code = set->make->video->video_write(path, o->codec, o->height, o->width, o->fps, o->gop,
                                             n * o->frames_per_episode, draw, &r, status);
    if (r.code != SG_OK && status) *status = r.status;
    return r.code != SG_OK ? r.code : code;
}
