/* LeRobot data sets: what all versions share, and v2.0 and v2.1, which keep each episode in files of its own. */
#include "datasets/catalogue/lerobot_places.h"

#include "datasets/catalogue/data_files.h"
#include "datasets/catalogue/episodes_file.h"
#include "datasets/catalogue/image_header.h"
#include "datasets/codec/video_look.h"
#include "datasets/tables/tables.h"
#include "formats/child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The paths that LeRobot writes where info.json states none. */
static const char *const v2_data = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
                         *const v2_video =
                             "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
                         *const v2_image = "images/{video_key}/episode_{episode_index:06d}/frame_{frame_index:06d}.png",
                         *const v3_data = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
                         *const v3_video = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
                         *const v3_image = "images/{video_key}/episode-{episode_index:06d}/frame-{frame_index:06d}.png";

static bool is_v3(const sg_catalogue *catalogue) {
    return strcmp(catalogue->info.version, "v3.0") == 0;
}

/* ---- asking ---- */

static sg_template_values values_of(const sg_lerobot_places *places, const char *camera, int64_t episode,
                                    int64_t frame) {
    sg_template_values values = {.video_key = camera};
    values.number[SG_FIELD_EPISODE_CHUNK] = episode / places->chunks_size;
    values.number[SG_FIELD_EPISODE_INDEX] = episode;
    values.number[SG_FIELD_FRAME_INDEX] = frame;
    return values;
}

/* The data file of an episode, and the row of its first frame there. */
static sg_code data_file(const sg_catalogue *catalogue, int64_t episode, char *path, size_t room, int64_t *first_row,
                         sg_status *status) {
    const sg_lerobot_places *places = catalogue->places;
    sg_template_values values = values_of(places, NULL, episode, 0);
    *first_row = 0;
    if (places->data_part) {
        values.number[SG_FIELD_CHUNK_INDEX] = places->data_part[episode].chunk;
        values.number[SG_FIELD_FILE_INDEX] = places->data_part[episode].file;
        *first_row = places->data_part[episode].from.row;
    }
    return sg_template_expand(&places->data, catalogue->path, &values, path, room, status);
}

static sg_code frame_place(const sg_catalogue *catalogue, size_t camera, int64_t episode, int64_t frame,
                           sg_frame_place *place, sg_status *status) {
    const sg_lerobot_places *places = catalogue->places;
    const char *name = catalogue->cameras[camera].name;
    if (place->store == SG_STORE_TABLE) {
        int64_t first;
        sg_code code = data_file(catalogue, episode, place->path, sizeof place->path, &first, status);
        (void)snprintf(place->inner, sizeof place->inner, "%s", name);
        place->row = first + frame;
        return code;
    }
    if (place->store == SG_STORE_VIDEO && is_v3(catalogue))
        return sg_lerobot_video_v3(catalogue, camera, episode, frame, place, status);
    sg_template_values values = values_of(places, name, episode, frame);
    bool video = place->store == SG_STORE_VIDEO;
    if (video) place->time_s = (double)frame / places->fps;
    return sg_template_expand(video ? &places->video : &places->image, catalogue->path, &values, place->path,
                              sizeof place->path, status);
}

static sg_code row_place(const sg_catalogue *catalogue, int64_t episode, int64_t frame, sg_row_place *place,
                         sg_status *status) {
    const sg_lerobot_places *places = catalogue->places;
    int64_t first;
    sg_code code = data_file(catalogue, episode, place->path, sizeof place->path, &first, status);
    place->row = first + frame;
    if (places->state) (void)snprintf(place->state, sizeof place->state, "observation.state");
    if (places->action) (void)snprintf(place->action, sizeof place->action, "action");
    return code;
}

static void close_places(void *user) {
    sg_lerobot_places *places = user;
    for (size_t c = 0; places->video_row && c < places->n_cameras; c++) free(places->video_row[c].file);
    free(places->video_row);
    free(places->video_part);
    free(places->data_part);
    free(places);
}

/* ---- opening ---- */

/* One of the two tells episodes apart. */
static sg_code parse_path(const char *what, const char *text, bool v3, sg_template *out, sg_status *status) {
    sg_code code = sg_template_parse(what, text, out, status);
    if (code != SG_OK) return code;
    if (sg_template_uses(out, v3 ? SG_FIELD_FILE_INDEX : SG_FIELD_EPISODE_INDEX)) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "%s '%.200s' names the same file for all: {%s} is missing", what, text,
                   v3 ? "file_index" : "episode_index");
}

static sg_code parse_paths(const sg_lerobot_info *info, bool v3, sg_lerobot_places *places, sg_status *status) {
    const char *data = info->data_path[0] ? info->data_path : v3 ? v3_data : v2_data;
    const char *video = info->video_path[0] ? info->video_path : v3 ? v3_video : v2_video;
    sg_code code = parse_path("data_path", data, v3, &places->data, status);
    if (code == SG_OK) code = parse_path("video_path", video, v3, &places->video, status);
    if (code == SG_OK) code = sg_template_parse("images", v3 ? v3_image : v2_image, &places->image, status);
    if (code == SG_OK && info->set.cameras > 1 && !sg_template_uses(&places->video, SG_FIELD_VIDEO_KEY))
        code = sg_fail(status, SG_BAD_INPUT, "video_path '%.200s' names the same file for all cameras", video);
    return code;
}

static sg_code open_v2(sg_catalogue *catalogue, sg_status *status) {
    char path[768];
    int64_t *lengths;
    size_t n;
    sg_code code = sg_catalogue_join(path, sizeof path, catalogue->path, "meta/episodes.jsonl", status);
    if (code == SG_OK) code = sg_episodes_file_read(path, &lengths, &n, status);
    if (code != SG_OK) return code;
    code = sg_catalogue_episodes(catalogue, n, status);
    if (code == SG_OK) memcpy(catalogue->first_frame + 1, lengths, n * sizeof *lengths);
    free(lengths);
    int64_t stated = catalogue->info.frames;
    if (code == SG_OK) code = sg_catalogue_sum_lengths(catalogue, status);
    if (code == SG_OK) sg_catalogue_compare_frames(catalogue, stated);
    return code;
}

static bool is_file(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* Frames of an image camera lie in files of their own where such a file is; else in the tables. */
static sg_code find_images(sg_catalogue *catalogue, sg_status *status) {
    for (size_t c = 0; c < catalogue->n_cameras; c++) {
        sg_camera *camera = &catalogue->cameras[c];
        if (camera->store != SG_STORE_TABLE) continue;
        sg_frame_place place = {.store = SG_STORE_IMAGE_FILE};
        sg_code code = frame_place(catalogue, c, 0, 0, &place, status);
        if (code != SG_OK) return code;
        if (!is_file(place.path)) continue;
        camera->store = SG_STORE_IMAGE_FILE;
        (void)snprintf(camera->codec, sizeof camera->codec, "png");
    }
    return SG_OK;
}

typedef struct look_at {
    const sg_catalogue *catalogue;
    sg_frame_place place;
} look_at;

/* An image that the table names instead of holding it. */
static sg_code header_of_file(const look_at *work, const char *stated, sg_image_header *header, sg_status *status) {
    char path[900];
    unsigned char first[4096]; /* JPEG's size stands behind its tables and what a camera says of itself */
    sg_code code = sg_files_image(work->catalogue->path, stated, path, sizeof path, status);
    if (code != SG_OK) return code;
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(first, 1, sizeof first, file) : 0;
    if (file) (void)fclose(file);
    if (sg_image_header_read(first, n, header)) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "%.400s is no PNG or JPEG image", path);
}

static sg_code image_header(void *user, sg_bytes *answer, sg_status *status) {
    const look_at *work = user;
    const sg_frame_place *place = &work->place;
    sg_table *table;
    sg_code code = sg_table_open(place->path, &table, status);
    if (code != SG_OK) return code;
    int column = sg_table_column(table, place->inner);
    const uint8_t *bytes = NULL;
    size_t n = 0;
    sg_image_header header;
    char file[600] = "";
    if (column < 0)
        code = sg_fail(status, SG_BAD_INPUT, "%.400s has no column %.200s of images", place->path, place->inner);
    else
        code = sg_table_image_path(table, column, place->row, file, sizeof file, status);
    if (code == SG_OK && file[0])
        code = header_of_file(work, file, &header, status);
    else if (code == SG_OK)
        code = sg_table_bytes(table, column, place->row, &bytes, &n, status);
    if (code == SG_OK && !file[0] && !sg_image_header_read(bytes, n, &header))
        code = sg_fail(status, SG_BAD_INPUT, "%.400s: column %.200s holds no PNG or JPEG images", place->path,
                       place->inner);
    if (code == SG_OK && !sg_bytes_add(answer, &header, sizeof header))
        code = sg_fail_memory(status, sizeof header, "an image's size");
    sg_table_close(table);
    return code;
}

/* The codec of images in tables, which info.json does not state. */
static sg_code look_at_images(sg_catalogue *catalogue, sg_status *status) {
    static const sg_child_limits limits = {.memory_bytes = 4ull << 30, .cpu_s = 20, .wall_s = 60};
    for (size_t c = 0; c < catalogue->n_cameras; c++) {
        sg_camera *camera = &catalogue->cameras[c];
        if (camera->store != SG_STORE_TABLE) continue;
        look_at work = {catalogue, {.store = SG_STORE_TABLE}};
        sg_code code = frame_place(catalogue, c, 0, 0, &work.place, status);
        unsigned char *bytes = NULL;
        size_t n = 0;
        if (code == SG_OK) code = sg_child_run(work.place.path, image_header, &work, &limits, &bytes, &n, status);
        if (code != SG_OK) return code;
        sg_image_header header;
        if (n == sizeof header) {
            memcpy(&header, bytes, sizeof header);
            header.codec[sizeof header.codec - 1] = 0;
            (void)snprintf(camera->codec, sizeof camera->codec, "%s",
                           strcmp(header.codec, "jpeg") == 0 ? "jpeg" : "png");
        }
        free(bytes);
    }
    return SG_OK;
}

/* Key frames and codec of videos, where info.json does not state them (LeRobot 0.4 does not record key frames): the first
 * video of each camera tells. One that cannot be read is told of by whoever reads it. */
static void look_at_videos(sg_catalogue *catalogue) {
    for (size_t c = 0; c < catalogue->n_cameras; c++) {
        sg_camera *camera = &catalogue->cameras[c];
        if (camera->store != SG_STORE_VIDEO || (camera->gop > 0 && camera->codec[0])) continue;
        sg_frame_place place = {.store = SG_STORE_VIDEO};
        sg_video_info seen;
        sg_status unread;
        sg_code code = frame_place(catalogue, c, 0, 0, &place, &unread);
        if (code == SG_OK) code = sg_video_look(place.path, &seen, &unread);
        if (code == SG_MACHINE) return; /* no module: the other cameras cannot be looked at either */
        if (code != SG_OK) continue;
        if (camera->gop == 0 && seen.gop > 0) camera->gop = seen.gop;
        if (sg_path_part_is_sound(seen.codec)) memcpy(camera->codec, seen.codec, sizeof camera->codec);
    }
    if (catalogue->n_cameras > 0 && catalogue->cameras->store == SG_STORE_VIDEO)
        memcpy(catalogue->info.codec, catalogue->cameras->codec, sizeof catalogue->info.codec);
}

static sg_code missing(const sg_catalogue *catalogue, const char *path, sg_status *status) {
    return sg_fail(status, SG_BAD_INPUT, "%.400s is missing: the data set in %.300s is not complete, download it anew",
                   path, catalogue->path);
}

/* Files of all episodes, or of some spread over them where there are very many. */
static sg_code check_files(const sg_catalogue *catalogue, sg_status *status) {
    enum { LOOKS = 4096 };
    size_t n = catalogue->n_episodes, stride = n / LOOKS + 1;
    for (size_t e = 0; e < n; e += stride) {
        if (n - e <= stride) e = n - 1;
        for (size_t c = 0; c < catalogue->n_cameras; c++) {
            sg_frame_place place = {.store = catalogue->cameras[c].store};
            sg_code code = frame_place(catalogue, c, (int64_t)e, 0, &place, status);
            if (code != SG_OK) return code;
            if (!is_file(place.path)) return missing(catalogue, place.path, status);
        }
        if (!catalogue->has_tables) continue;
        char path[768];
        int64_t row;
        sg_code code = data_file(catalogue, (int64_t)e, path, sizeof path, &row, status);
        if (code != SG_OK) return code;
        if (!is_file(path)) return missing(catalogue, path, status);
    }
    return SG_OK;
}

sg_code sg_lerobot_need_tables(const sg_catalogue *catalogue, sg_status *status) {
    char why[600];
    if (sg_tables_possible(why, sizeof why)) return SG_OK;
    return sg_fail(status, SG_MACHINE, "%.300s keeps its frames in tables. %s", catalogue->path, why);
}

/* Where places had to do without tables, tables_why says so already. */
static sg_code decide_tables(sg_catalogue *catalogue, sg_status *status) {
    const sg_lerobot_places *places = catalogue->places;
    char *why = catalogue->tables_why;
    if (why[0]) return SG_OK;
    if (!places->state && !places->action)
        (void)snprintf(why, sizeof catalogue->tables_why, "it states no observation.state and no action");
    else
        catalogue->has_tables = sg_tables_possible(why, sizeof catalogue->tables_why);
    for (size_t c = 0; c < catalogue->n_cameras; c++)
        if (catalogue->cameras[c].store == SG_STORE_TABLE) return sg_lerobot_need_tables(catalogue, status);
    return SG_OK;
}

static sg_code take_info(sg_catalogue *catalogue, const sg_lerobot_info *info, sg_status *status) {
    sg_lerobot_places *places = catalogue->places;
    catalogue->kind = SG_DATASET_LEROBOT;
    catalogue->info = info->set;
    places->kind = (sg_places){frame_place, row_place, close_places};
    places->chunks_size = info->chunks_size;
    places->fps = info->set.fps;
    places->state = info->set.state_dim > 0;
    places->action = info->set.action_dim > 0;
    sg_code code = sg_catalogue_cameras(catalogue, (size_t)info->set.cameras, status);
    if (code != SG_OK) return code;
    places->n_cameras = catalogue->n_cameras;
    bool video = false;
    for (size_t c = 0; c < catalogue->n_cameras; c++) {
        catalogue->cameras[c] = info->cameras[c];
        if (catalogue->cameras[c].store != SG_STORE_VIDEO) continue;
        video = true;
        if (catalogue->cameras[c].fps <= 0) catalogue->cameras[c].fps = info->set.fps;
    }
    if (video && !(info->set.fps > 0))
        return sg_fail(status, SG_BAD_INPUT, "%.400s: fps is missing: nobody can tell the times of frames in videos",
                       info->set.path);
    code = parse_paths(info, is_v3(catalogue), places, status);
    return code == SG_OK ? SG_OK : sg_fail_in(status, "%.400s", info->set.path);
}

sg_code sg_catalogue_open_lerobot(sg_catalogue *catalogue, sg_status *status) {
    sg_lerobot_info info;
    sg_code code = sg_files_check(catalogue->path, status);
    if (code == SG_OK) code = sg_lerobot_info_read(catalogue->path, &info, status);
    if (code != SG_OK) return code;
    sg_lerobot_places *places = calloc(1, sizeof *places);
    if (!places) {
        sg_lerobot_info_free(&info);
        return sg_fail_memory(status, sizeof *places, "a catalogue");
    }
    places->kind.close = close_places;
    catalogue->places = places;
    code = take_info(catalogue, &info, status);
    sg_lerobot_info_free(&info);
    if (code == SG_OK)
        code = is_v3(catalogue) ? sg_lerobot_open_v3(catalogue, places, status) : open_v2(catalogue, status);
    if (code == SG_OK) code = find_images(catalogue, status);
    if (code == SG_OK) code = decide_tables(catalogue, status);
    if (code == SG_OK) code = check_files(catalogue, status);
    if (code == SG_OK) code = look_at_images(catalogue, status);
    if (code == SG_OK) look_at_videos(catalogue);
    return code;
}
