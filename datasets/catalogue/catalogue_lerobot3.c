/* LeRobot v3.0: files of many episodes. Where each begins stands in the table of episodes; where tables cannot be read, it
 * follows from how many frames each video holds. */
#include "datasets/catalogue/lerobot_places.h"

#include "datasets/catalogue/name_list.h"
#include "datasets/codec/codec.h"
#include "datasets/tables/tables.h"
#include "formats/child.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char remedy[] = "download the data set anew";

/* ---- the table of episodes ---- */

/* Columns of an episode: length, its data file, its first frame among all (may be missing: -1), and per video camera its file
 * and beginning. */
enum {
    LENGTH,
    DATA_CHUNK,
    DATA_FILE,
    EPISODE,
    DATASET_FROM,
    FIXED_COLUMNS,
    VIDEO_CHUNK = 0,
    VIDEO_FILE,
    VIDEO_FROM,
    VIDEO_COLUMNS
};

typedef struct episode_work {
    const sg_catalogue *catalogue;
    const char *path; /* of one file of the table */
} episode_work;

static sg_code find_column(sg_table *table, const char *path, const char *name, int *column, sg_status *status) {
    *column = sg_table_column(table, name);
    if (*column >= 0) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "%.400s has no column %.200s: it is no table of LeRobot v3.0 episodes", path,
                   name);
}

static sg_code find_columns(const episode_work *work, sg_table *table, int *columns, sg_status *status) {
    static const char *const fixed[FIXED_COLUMNS] = {[LENGTH] = "length",
                                                     [DATA_CHUNK] = "data/chunk_index",
                                                     [DATA_FILE] = "data/file_index",
                                                     [EPISODE] = "episode_index",
                                                     [DATASET_FROM] = "dataset_from_index"};
    static const char *const video[VIDEO_COLUMNS] = {
        [VIDEO_CHUNK] = "chunk_index", [VIDEO_FILE] = "file_index", [VIDEO_FROM] = "from_timestamp"};
    for (int i = 0; i < FIXED_COLUMNS; i++) {
        columns[i] = sg_table_column(table, fixed[i]);
        if (columns[i] >= 0 || i == DATASET_FROM) continue;
        return find_column(table, work->path, fixed[i], &columns[i], status);
    }
    int *next = columns + FIXED_COLUMNS;
    for (size_t c = 0; c < work->catalogue->n_cameras; c++) {
        const sg_camera *camera = &work->catalogue->cameras[c];
        for (int i = 0; camera->store == SG_STORE_VIDEO && i < VIDEO_COLUMNS; i++) {
            char name[160];
            (void)snprintf(name, sizeof name, "videos/%s/%s", camera->name, video[i]);
            sg_code code = find_column(table, work->path, name, next++, status);
            if (code != SG_OK) return code;
        }
    }
    return SG_OK;
}

static size_t videos_of(const sg_catalogue *catalogue) {
    size_t n = 0;
    for (size_t c = 0; c < catalogue->n_cameras; c++) n += catalogue->cameras[c].store == SG_STORE_VIDEO;
    return n;
}

static size_t columns_of(const sg_catalogue *catalogue) {
    return FIXED_COLUMNS + VIDEO_COLUMNS * videos_of(catalogue);
}

/* In the child: the columns of one file, row by row, as doubles. */
static sg_code read_rows(void *user, sg_bytes *answer, sg_status *status) {
    const episode_work *work = user;
    int columns[FIXED_COLUMNS + VIDEO_COLUMNS * SG_CAMERAS_MOST];
    size_t n_columns = columns_of(work->catalogue);
    sg_table *table;
    sg_code code = sg_table_open(work->path, &table, status);
    if (code != SG_OK) return code;
    code = find_columns(work, table, columns, status);
    int64_t rows = sg_table_rows(table);
    for (int64_t row = 0; code == SG_OK && row < rows; row++) {
        for (size_t i = 0; code == SG_OK && i < n_columns; i++) {
            double value = -1;
            size_t n = 1;
            if (columns[i] >= 0) code = sg_table_numbers(table, columns[i], row, &value, 1, &n, status);
            if (code == SG_OK && n != 1)
                code = sg_fail(status, SG_BAD_INPUT, "%.400s: one number is expected in row %" PRId64, work->path, row);
            if (code == SG_OK && !sg_bytes_add(answer, &value, sizeof value))
                code = answer->n + sizeof value > answer->limit
                           ? sg_fail(status, SG_BAD_INPUT, "%.400s holds more episodes than are read", work->path)
                           : sg_fail_memory(status, answer->n, "its episodes");
        }
    }
    sg_table_close(table);
    return code;
}

/* Whole numbers that fit 32 bits, or time; what a hostile file holds instead is refused. */
static bool is_index(double value) {
    return value >= 0 && value <= UINT32_MAX && value == floor(value);
}

/* Places of one episode. from.row: its first frame among all, or -1. */
static sg_code take_row(sg_catalogue *catalogue, sg_lerobot_places *places, const double *row, size_t episode,
                        const char *path, sg_status *status) {
    if (!is_index(row[EPISODE]) || row[EPISODE] != (double)episode)
        return sg_fail(status, SG_BAD_INPUT, "%.400s: episode %zu is expected, and %.17g is there", path, episode,
                       row[EPISODE]);
    double from = row[DATASET_FROM];
    bool sound = row[LENGTH] >= 1 && is_index(row[LENGTH]) && is_index(row[DATA_CHUNK]) && is_index(row[DATA_FILE]) &&
                 (from == -1 || (from >= 0 && from <= (double)SG_FRAMES_MOST && from == floor(from)));
    sg_file_part *part = &places->data_part[episode];
    if (sound) {
        catalogue->first_frame[episode + 1] = (int64_t)row[LENGTH];
        *part = (sg_file_part){
            .chunk = (uint32_t)row[DATA_CHUNK], .file = (uint32_t)row[DATA_FILE], .from.row = (int64_t)from};
    }
    const double *video = row + FIXED_COLUMNS;
    for (size_t c = 0; sound && c < catalogue->n_cameras; c++) {
        if (catalogue->cameras[c].store != SG_STORE_VIDEO) continue;
        sound = is_index(video[VIDEO_CHUNK]) && is_index(video[VIDEO_FILE]) && video[VIDEO_FROM] >= 0 &&
                video[VIDEO_FROM] < 1e9;
        if (sound)
            places->video_part[episode * catalogue->n_cameras + c] =
                (sg_file_part){.chunk = (uint32_t)video[VIDEO_CHUNK],
                               .file = (uint32_t)video[VIDEO_FILE],
                               .from.time_s = video[VIDEO_FROM]};
        video += VIDEO_COLUMNS;
    }
    if (sound) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "%.400s: episode %zu has an impossible length, file or time", path, episode);
}

/* ---- rows in data files ---- */

typedef struct in_file {
    sg_file_part *part;
    int64_t length;
    size_t episode;
} in_file;

/* By file; in it by first frame, or where it is not stated by episode. */
static int by_place(const void *a, const void *b) {
    const in_file *p = a, *q = b;
    if (p->part->chunk != q->part->chunk) return p->part->chunk < q->part->chunk ? -1 : 1;
    if (p->part->file != q->part->file) return p->part->file < q->part->file ? -1 : 1;
    if (p->part->from.row != q->part->from.row) return p->part->from.row < q->part->from.row ? -1 : 1;
    return (p->episode > q->episode) - (p->episode < q->episode);
}

/* A data file's rows are those of its episodes, in the order of their frames in the data set: one behind the other. */
static sg_code place_in_file(const sg_catalogue *catalogue, const in_file *first, size_t n, sg_status *status) {
    int64_t row = 0, base = first->part->from.row;
    for (size_t i = 0; i < n; i++) {
        int64_t from = first[i].part->from.row;
        if ((from < 0) != (base < 0) || (from >= 0 && from - base != row))
            return sg_fail(status, SG_BAD_INPUT,
                           "%.400s: episode %zu begins at frame %" PRId64 " of the data set (dataset_from_index), the "
                           "episodes before it in its data file (chunk %u, file %u) end at %" PRId64
                           ": nobody can tell its rows; %s",
                           catalogue->path, first[i].episode, from, (unsigned)first->part->chunk,
                           (unsigned)first->part->file, base + row, remedy);
        first[i].part->from.row = row;
        row += first[i].length;
    }
    return SG_OK;
}

/* from.row of every episode: of its data file instead of among all. */
static sg_code place_rows(sg_catalogue *catalogue, sg_lerobot_places *places, sg_status *status) {
    size_t n = catalogue->n_episodes;
    in_file *sorted = calloc(n, sizeof *sorted);
    if (!sorted) return sg_fail_memory(status, n * sizeof *sorted, "the episodes of a data set");
    for (size_t e = 0; e < n; e++) sorted[e] = (in_file){&places->data_part[e], catalogue->first_frame[e + 1], e};
    qsort(sorted, n, sizeof *sorted, by_place);
    sg_code code = SG_OK;
    for (size_t i = 0, end; code == SG_OK && i < n; i = end) {
        const sg_file_part *file = sorted[i].part;
        for (end = i + 1; end < n; end++)
            if (sorted[end].part->chunk != file->chunk || sorted[end].part->file != file->file) break;
        code = place_in_file(catalogue, &sorted[i], end - i, status);
    }
    free(sorted);
    return code;
}

/* Rows of all files of the table, in order. */
typedef struct all_rows {
    double *numbers;
    size_t n, room; /* episodes */
} all_rows;

static sg_code add_rows(all_rows *all, const double *numbers, size_t n, size_t columns, sg_status *status) {
    if (n > SIZE_MAX / sizeof(double) / columns - all->n) return sg_fail_memory(status, SIZE_MAX, "episodes");
    size_t bytes = (all->n + n) * columns * sizeof(double);
    double *bigger = realloc(all->numbers, bytes ? bytes : 1);
    if (!bigger) return sg_fail_memory(status, bytes, "the episodes of a data set");
    if (n) memcpy(bigger + all->n * columns, numbers, n * columns * sizeof(double));
    all->numbers = bigger;
    all->n += n;
    return SG_OK;
}

static sg_code read_table_file(const sg_catalogue *catalogue, const char *path, all_rows *all, sg_status *status) {
    /* files are 100 MB at most (data_files_size_in_mb), and statistics are most of it */
    static const sg_child_limits limits = {
        .memory_bytes = 8ull << 30, .cpu_s = 120, .wall_s = 300, .answer_bytes = (size_t)1 << 30};
    episode_work work = {catalogue, path};
    unsigned char *bytes;
    size_t n, columns = columns_of(catalogue);
    sg_code code = sg_child_run(path, read_rows, &work, &limits, &bytes, &n, status);
    if (code != SG_OK) return code;
    double *numbers = malloc(n ? n : 1);
    if (numbers) {
        memcpy(numbers, bytes, n);
        code = add_rows(all, numbers, n / sizeof(double) / columns, columns, status);
    } else {
        code = sg_fail_memory(status, n, "the episodes of a data set");
    }
    free(numbers);
    free(bytes);
    return code;
}

static sg_code read_chunk(const sg_catalogue *catalogue, const char *folder, all_rows *all, sg_status *status) {
    static const char *const endings[] = {".parquet", NULL};
    sg_name_list files;
    sg_code code = sg_names_read(folder, SG_NAMES_FILES, endings, &files, status);
    for (size_t i = 0; code == SG_OK && i < files.n; i++) {
        char name[260], path[1200];
        if (!sg_names_get(&files, i, name, sizeof name)) continue;
        code = sg_catalogue_join(path, sizeof path, folder, name, status);
        if (code == SG_OK) code = read_table_file(catalogue, path, all, status);
    }
    sg_names_free(&files);
    return code == SG_NO ? SG_OK : code;
}

static sg_code read_table(const sg_catalogue *catalogue, all_rows *all, sg_status *status) {
    char folder[600];
    sg_name_list chunks;
    sg_code code = sg_catalogue_join(folder, sizeof folder, catalogue->path, "meta/episodes", status);
    if (code == SG_OK) code = sg_names_read(folder, SG_NAMES_FOLDERS, NULL, &chunks, status);
    if (code == SG_NO) return sg_fail(status, SG_BAD_INPUT, "%.400s is missing: %s", folder, remedy);
    for (size_t i = 0; code == SG_OK && i < chunks.n; i++) {
        char name[260], path[900];
        if (!sg_names_get(&chunks, i, name, sizeof name)) continue;
        code = sg_catalogue_join(path, sizeof path, folder, name, status);
        if (code == SG_OK) code = read_chunk(catalogue, path, all, status);
    }
    sg_names_free(&chunks);
    if (code == SG_OK && all->n == 0)
        code = sg_fail(status, SG_BAD_INPUT, "%.400s lists no episodes: %s", folder, remedy);
    return code;
}

static sg_code from_table(sg_catalogue *catalogue, sg_lerobot_places *places, sg_status *status) {
    all_rows all = {0};
    sg_code code = read_table(catalogue, &all, status);
    if (code == SG_OK) code = sg_catalogue_episodes(catalogue, all.n, status);
    if (code == SG_OK && all.n > 0) {
        places->data_part = calloc(all.n, sizeof *places->data_part);
        places->video_part = calloc(all.n * (catalogue->n_cameras + 1), sizeof *places->video_part);
        if (!places->data_part || !places->video_part)
            code = sg_fail_memory(status, all.n * sizeof *places->video_part, "the episodes of a data set");
    }
    size_t columns = columns_of(catalogue);
    for (size_t e = 0; code == SG_OK && e < all.n; e++)
        code = take_row(catalogue, places, all.numbers + e * columns, e, catalogue->path, status);
    free(all.numbers);
    int64_t stated = catalogue->info.frames;
    if (code == SG_OK) code = place_rows(catalogue, places, status);
    if (code == SG_OK) code = sg_catalogue_sum_lengths(catalogue, status);
    if (code == SG_OK) sg_catalogue_compare_frames(catalogue, stated);
    return code;
}

/* ---- without the table: from the videos ---- */

static sg_code video_path(const sg_catalogue *catalogue, size_t camera, uint32_t chunk, uint32_t file, char *path,
                          size_t room, sg_status *status) {
    const sg_lerobot_places *places = catalogue->places;
    sg_template_values values = {.video_key = catalogue->cameras[camera].name};
    values.number[SG_FIELD_CHUNK_INDEX] = chunk;
    values.number[SG_FIELD_FILE_INDEX] = file;
    return sg_template_expand(&places->video, catalogue->path, &values, path, room, status);
}

static bool is_file(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* The videos of a camera as they were written: file after file, then the next chunk. */
static sg_code list_videos(const sg_catalogue *catalogue, size_t camera, sg_video_row *row, sg_status *status) {
    const sg_lerobot_places *places = catalogue->places;
    sg_file_part next = {0};
    for (;;) {
        char path[768];
        sg_code code = video_path(catalogue, camera, next.chunk, next.file, path, sizeof path, status);
        if (code != SG_OK) return code;
        if (!is_file(path)) {
            if (row->n > 0) return SG_OK;
            return sg_fail(status, SG_BAD_INPUT, "%.400s is missing: %s", path, remedy);
        }
        if ((row->n & (row->n + 1)) == 0) { /* grows at 0, 1, 3, 7, ... */
            size_t room = 2 * row->n + 1;
            sg_file_part *bigger = realloc(row->file, room * sizeof *bigger);
            if (!bigger) return sg_fail_memory(status, room * sizeof *bigger, "the videos of a data set");
            row->file = bigger;
        }
        row->file[row->n++] = next;
        next.file++;
        if (next.file < places->chunks_size) continue;
        next.file = 0;
        next.chunk++;
    }
}

/* In the child: frames of the video at this path. */
static sg_code count_frames(void *user, sg_bytes *answer, sg_status *status) {
    const char *path = user;
    const sg_codec_api *api;
    sg_video *video;
    sg_code code = sg_codec_open("video", &api, status);
    if (code == SG_OK) code = api->video_open(path, 1, &video, status);
    if (code != SG_OK) return code;
    sg_video_info info;
    api->video_info(video, &info);
    int64_t frames = info.frames > 0 ? info.frames : (int64_t)llround(info.duration_s * info.fps);
    api->video_close(video);
    if (frames < 1) return sg_fail(status, SG_BAD_INPUT, "%.400s does not tell how many frames it has", path);
    return sg_bytes_add(answer, &frames, sizeof frames) ? SG_OK : sg_fail_memory(status, sizeof frames, path);
}

static sg_code frames_of(char *path, int64_t *frames, sg_status *status) {
    static const sg_child_limits limits = {.memory_bytes = 2ull << 30, .cpu_s = 10, .wall_s = 60};
    unsigned char *bytes;
    size_t n;
    sg_code code = sg_child_run(path, count_frames, path, &limits, &bytes, &n, status);
    if (code != SG_OK) return sg_fail_in(status, "counting the frames of %.400s, because tables cannot be read", path);
    *frames = 0;
    if (n == sizeof *frames) memcpy(frames, bytes, n);
    free(bytes);
    if (*frames >= 1 && *frames <= SG_FRAMES_MOST) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "%.400s does not tell how many frames it has", path);
}

/* A single video holds all frames; of several each is asked. */
static sg_code count_videos(const sg_catalogue *catalogue, size_t camera, sg_video_row *row, sg_status *status) {
    int64_t total = 0;
    for (size_t i = 0; i < row->n; i++) {
        char path[768];
        int64_t frames = catalogue->info.frames;
        sg_code code = SG_OK;
        if (row->n > 1)
            code = video_path(catalogue, camera, row->file[i].chunk, row->file[i].file, path, sizeof path, status);
        if (code == SG_OK && row->n > 1) code = frames_of(path, &frames, status);
        if (code != SG_OK) return code;
        row->file[i].from.row = total;
        if (frames > SG_FRAMES_MOST - total) break;
        total += frames;
    }
    if (total == catalogue->info.frames) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT,
                   "%.300s: the videos of %.100s hold %" PRId64 " frames and info.json states %" PRId64
                   ", so that nobody can tell which frame is where without the table of episodes; %.200s",
                   catalogue->path, catalogue->cameras[camera].name, total, catalogue->info.frames,
                   catalogue->tables_why);
}

/* Nothing else tells where episodes end: all are taken to be of one length, the last ones a frame shorter. */
static sg_code equal_lengths(sg_catalogue *catalogue, sg_status *status) {
    int64_t episodes = catalogue->info.episodes > 0 ? catalogue->info.episodes : 1, frames = catalogue->info.frames;
    if (episodes > frames)
        return sg_fail(status, SG_BAD_INPUT, "%.400s: info.json states more episodes than frames", catalogue->path);
    sg_code code = sg_catalogue_episodes(catalogue, (size_t)episodes, status);
    for (int64_t e = 0; code == SG_OK && e < episodes; e++)
        catalogue->first_frame[e + 1] = frames / episodes + (e < frames % episodes);
    return code == SG_OK ? sg_catalogue_sum_lengths(catalogue, status) : code;
}

static sg_code from_videos(sg_catalogue *catalogue, sg_lerobot_places *places, sg_status *status) {
    if (videos_of(catalogue) < catalogue->n_cameras || catalogue->n_cameras == 0)
        return sg_lerobot_need_tables(catalogue, status);
    places->video_row = calloc(catalogue->n_cameras, sizeof *places->video_row);
    if (!places->video_row)
        return sg_fail_memory(status, catalogue->n_cameras * sizeof *places->video_row, "the videos of a data set");
    sg_code code = SG_OK;
    for (size_t c = 0; code == SG_OK && c < catalogue->n_cameras; c++) {
        code = list_videos(catalogue, c, &places->video_row[c], status);
        if (code == SG_OK) code = count_videos(catalogue, c, &places->video_row[c], status);
    }
    if (code == SG_OK) code = equal_lengths(catalogue, status);
    (void)snprintf(catalogue->tables_why, sizeof catalogue->tables_why,
                   "no library for Parquet is here: episodes are taken to be equally long, frames are placed by their "
                   "videos, rows are not read");
    return code;
}

sg_code sg_lerobot_open_v3(sg_catalogue *catalogue, sg_lerobot_places *places, sg_status *status) {
    if (sg_tables_possible(catalogue->tables_why, sizeof catalogue->tables_why)) {
        catalogue->tables_why[0] = 0;
        return from_table(catalogue, places, status);
    }
    return from_videos(catalogue, places, status);
}

/* ---- asking ---- */

sg_code sg_lerobot_video_v3(const sg_catalogue *catalogue, size_t camera, int64_t episode, int64_t frame,
                            sg_frame_place *place, sg_status *status) {
    const sg_lerobot_places *places = catalogue->places;
    const sg_file_part *part;
    if (places->video_part) {
        part = &places->video_part[(size_t)episode * catalogue->n_cameras + camera];
        place->time_s = part->from.time_s + (double)frame / places->fps;
    } else {
        const sg_video_row *row = &places->video_row[camera];
        int64_t at = catalogue->first_frame[episode] + frame;
        size_t low = 0, high = row->n;
        while (high - low > 1) {
            size_t middle = low + (high - low) / 2;
            if (row->file[middle].from.row <= at)
                low = middle;
            else
                high = middle;
        }
        part = &row->file[low];
        place->time_s = (double)(at - part->from.row) / places->fps;
    }
    return video_path(catalogue, camera, part->chunk, part->file, place->path, sizeof place->path, status);
}
