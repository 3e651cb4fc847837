#include "datasets/catalogue/catalogue_kinds.h"

#include "datasets/catalogue/data_files.h"
#include "datasets/catalogue/near_path.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const kind_names[SG_DATASET_KIND_COUNT] = {[SG_DATASET_LEROBOT] = "lerobot",
                                                              [SG_DATASET_IMAGES] = "images",
                                                              [SG_DATASET_ROBOMIMIC] = "robomimic",
                                                              [SG_DATASET_ALOHA] = "aloha",
                                                              [SG_DATASET_LIBERO] = "libero"};

const char *sg_dataset_kind_name(sg_dataset_kind kind) {
    return (unsigned)kind < SG_DATASET_KIND_COUNT ? kind_names[kind] : "?";
}

/* ---- what the kinds build with ---- */

sg_code sg_catalogue_join(char *out, size_t room, const char *dir, const char *name, sg_status *status) {
    int n = snprintf(out, room, "%s/%s", dir, name);
    if (n >= 0 && (size_t)n < room) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "a path below %.200s has more than %zu letters", dir, room - 1);
}

sg_code sg_catalogue_episodes(sg_catalogue *catalogue, size_t n, sg_status *status) {
    if (n == 0) return sg_fail(status, SG_BAD_INPUT, "%.400s holds no episode", catalogue->path);
    if (n > (size_t)SG_FRAMES_MOST)
        return sg_fail(status, SG_BAD_INPUT, "%.400s: %zu episodes are more than a data set has", catalogue->path, n);
    size_t bytes = (n + 1) * sizeof *catalogue->first_frame;
    catalogue->first_frame = calloc(n + 1, sizeof *catalogue->first_frame);
    if (!catalogue->first_frame) return sg_fail_memory(status, bytes, "the episodes of a data set");
    catalogue->n_episodes = n;
    return SG_OK;
}

sg_code sg_catalogue_sum_lengths(sg_catalogue *catalogue, sg_status *status) {
    int64_t *first = catalogue->first_frame;
    for (size_t e = 0; e < catalogue->n_episodes; e++) {
        if (first[e + 1] < 1)
            return sg_fail(status, SG_BAD_INPUT, "%.400s: episode %zu has no frames", catalogue->path, e);
        if (first[e + 1] > SG_FRAMES_MOST - first[e])
            return sg_fail(status, SG_BAD_INPUT, "%.400s: more frames than a data set has, up to episode %zu",
                           catalogue->path, e);
        first[e + 1] += first[e];
    }
    catalogue->info.frames = first[catalogue->n_episodes];
    catalogue->info.episodes = (int64_t)catalogue->n_episodes;
    return SG_OK;
}

void sg_catalogue_compare_frames(sg_catalogue *catalogue, int64_t stated) {
    if (stated == catalogue->info.frames) return;
    (void)snprintf(catalogue->warning, sizeof catalogue->warning,
                   "info.json states %" PRId64 " frames, the episodes have %" PRId64
                   ": trainers read the episodes, and so it is done here",
                   stated, catalogue->info.frames);
}

sg_code sg_catalogue_cameras(sg_catalogue *catalogue, size_t n, sg_status *status) {
    if (n > SG_CAMERAS_MOST)
        return sg_fail(status, SG_BAD_INPUT, "%.400s: %zu cameras are more than the %d that are read", catalogue->path,
                       n, (int)SG_CAMERAS_MOST);
    catalogue->cameras = calloc(n ? n : 1, sizeof *catalogue->cameras);
    if (!catalogue->cameras) return sg_fail_memory(status, n * sizeof *catalogue->cameras, "a data set's cameras");
    catalogue->n_cameras = n;
    return SG_OK;
}

void sg_catalogue_sum_cameras(sg_catalogue *catalogue) {
    sg_dataset *info = &catalogue->info;
    const sg_camera *camera = catalogue->cameras;
    info->cameras = (int64_t)catalogue->n_cameras;
    for (size_t c = 0; c < catalogue->n_cameras; c++)
        info->mixed_sizes |= camera[c].height != camera->height || camera[c].width != camera->width;
    if (catalogue->n_cameras == 0) return;
    info->image_height = camera->height;
    info->image_width = camera->width;
    memcpy(info->codec, camera->codec, sizeof info->codec);
}

/* ---- opening ---- */

/* Hugging Face's cache keeps DATASET in datasets--USER--DATASET/snapshots/REVISION, and a file there as a link to
 * blobs/CHECKSUM: neither revision nor checksum is a name. path: as it was given; real: of the file system, changed. */
static const char *name_of(const char *path, char *real) {
    static const char folder[] = "datasets--";
    char *last = strrchr(real, '/'), *above = NULL;
    if (!last || !last[1]) return "/";
    *last++ = 0;
    above = strrchr(real, '/');
    const char *given = strrchr(path, '/');
    if (above && strcmp(above, "/blobs") == 0) return given && given[1] ? given + 1 : path;
    if (!above || strcmp(above, "/snapshots") != 0) return last;
    *above = 0;
    const char *repository = strrchr(real, '/');
    if (!repository || strncmp(repository + 1, folder, sizeof folder - 1) != 0) return last;
    const char *name = repository + sizeof folder;
    for (const char *next; (next = strstr(name, "--")) && next[2];) name = next + 2;
    return *name ? name : last;
}

static sg_code no_such_set(const char *path, sg_status *status) {
    char near[SG_NEAR_BYTES];
    sg_near_path(path, near, sizeof near);
    return sg_fail(status, SG_BAD_INPUT,
                   "data set %.400s does not exist: %s%s%sgive the folder that holds meta/info.json, folders of images "
                   "or HDF5 files",
                   path, near[0] ? "did you mean '" : "", near, near[0] ? "'? Else " : "");
}

/* The last part of the path as the file system knows it ("." has a name too). */
static sg_code set_name(sg_catalogue *catalogue, const char *path, sg_status *status) {
    int n = snprintf(catalogue->path, sizeof catalogue->path, "%s", path);
    if (n < 0 || (size_t)n >= sizeof catalogue->path)
        return sg_fail(status, SG_BAD_INPUT, "data set path is too long: %.80s...", path);
    while (n > 1 && catalogue->path[n - 1] == '/') catalogue->path[--n] = 0;
    memcpy(catalogue->info.path, catalogue->path, sizeof catalogue->path);
    char *real = realpath(path, NULL);
    if (!real) return no_such_set(path, status);
    (void)snprintf(catalogue->name, sizeof catalogue->name, "%.63s", name_of(catalogue->path, real));
    for (char *p = catalogue->name; *p; p++)
        if (*p == ';' || (unsigned char)*p < 32 || *p == 127) *p = '_'; /* names stand in lines of their own */
    free(real);
    return SG_OK;
}

static bool is_file(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static sg_code open_folder(sg_catalogue *catalogue, sg_status *status) {
    char info[600];
    (void)snprintf(info, sizeof info, "%s/meta/info.json", catalogue->path);
    if (is_file(info)) return sg_catalogue_open_lerobot(catalogue, status);
    sg_code code = sg_catalogue_open_hdf5(catalogue, status);
    if (code == SG_NO) code = sg_catalogue_open_images(catalogue, status);
    if (code != SG_NO) return code;
    return sg_fail(status, SG_BAD_INPUT,
                   "%.400s is no data set of a known kind: no LeRobot data set (it holds no meta/info.json), no HDF5 "
                   "demonstrations (no *.hdf5 or *.h5), no image folders (no EPISODE/CAMERA/*.png or *.jpg, and no "
                   "EPISODE/*.png or *.jpg)",
                   catalogue->path);
}

static sg_code open_path(sg_catalogue *catalogue, const char *path, sg_status *status) {
    sg_code code = set_name(catalogue, path, status);
    if (code != SG_OK) return code;
    if (!is_file(catalogue->path)) return open_folder(catalogue, status);
    if (sg_catalogue_is_hdf5(catalogue->path)) return sg_catalogue_open_hdf5(catalogue, status);
    return sg_fail(status, SG_BAD_INPUT,
                   "%.400s is no HDF5 file: give a data set's folder (one that holds meta/info.json, folders of images "
                   "or HDF5 files) or one HDF5 file of demonstrations",
                   path);
}

sg_code sg_catalogue_open(const char *path, sg_catalogue **catalogue, sg_status *status) {
    *catalogue = NULL;
    sg_catalogue *made = calloc(1, sizeof *made);
    if (!made) return sg_fail_memory(status, sizeof *made, "a catalogue");
    sg_code code = open_path(made, path, status);
    if (code == SG_OK)
        *catalogue = made;
    else
        sg_catalogue_close(made);
    return code;
}

void sg_catalogue_close(sg_catalogue *catalogue) {
    if (!catalogue) return;
    if (catalogue->places) ((sg_places *)catalogue->places)->close(catalogue->places);
    free(catalogue->cameras);
    free(catalogue->first_frame);
    free(catalogue);
}

/* ---- asking ---- */

static sg_code check_frame(const sg_catalogue *catalogue, int64_t episode, int64_t frame, sg_status *status) {
    if (episode < 0 || (uint64_t)episode >= catalogue->n_episodes)
        return sg_fail(status, SG_BAD_INPUT, "%.400s: there is no episode %" PRId64 ", it has %zu", catalogue->path,
                       episode, catalogue->n_episodes);
    int64_t frames = catalogue->first_frame[episode + 1] - catalogue->first_frame[episode];
    if (frame < 0 || frame >= frames)
        return sg_fail(status, SG_BAD_INPUT,
                       "%.400s: there is no frame %" PRId64 " in episode %" PRId64 ", it has %" PRId64, catalogue->path,
                       frame, episode, frames);
    return SG_OK;
}

sg_code sg_catalogue_place(const sg_catalogue *catalogue, size_t camera, int64_t episode, int64_t frame,
                           sg_frame_place *place, sg_status *status) {
    sg_code code = check_frame(catalogue, episode, frame, status);
    if (code != SG_OK) return code;
    if (camera >= catalogue->n_cameras)
        return sg_fail(status, SG_BAD_INPUT, "%.400s: there is no camera %zu, it has %zu", catalogue->path, camera,
                       catalogue->n_cameras);
    place->store = catalogue->cameras[camera].store;
    place->path[0] = place->inner[0] = 0;
    place->time_s = 0;
    place->row = 0;
    const sg_places *kind = catalogue->places;
    return kind->frame(catalogue, camera, episode, frame, place, status);
}

sg_code sg_catalogue_row(const sg_catalogue *catalogue, int64_t episode, int64_t frame, sg_row_place *place,
                         sg_status *status) {
    sg_code code = check_frame(catalogue, episode, frame, status);
    if (code != SG_OK) return code;
    if (!catalogue->has_tables)
        return sg_fail(status, SG_BAD_INPUT, "%.400s: %s", catalogue->path, catalogue->tables_why);
    place->hdf5 = false;
    place->path[0] = place->state[0] = place->action[0] = 0;
    place->row = 0;
    const sg_places *kind = catalogue->places;
    return kind->row(catalogue, episode, frame, place, status);
}

int64_t sg_catalogue_episode(const sg_catalogue *catalogue, int64_t frame) {
    size_t low = 0, high = catalogue->n_episodes; /* first[low] <= frame < first[high] */
    if (frame < 0 || frame >= catalogue->first_frame[high]) return -1;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (catalogue->first_frame[middle] <= frame)
            low = middle;
        else
            high = middle;
    }
    return (int64_t)low;
}

/* Adds to a text at *n, which ends where it is full. */
static void add_text(char *text, size_t bytes, size_t *n, const char *before, const char *added) {
    for (const char *p = before; *p && *n + 1 < bytes; p++) text[(*n)++] = *p;
    for (const char *p = added; *p && *n + 1 < bytes; p++) text[(*n)++] = *p;
    text[*n] = 0;
}

static void add_number(char *text, size_t bytes, size_t *n, const char *before, int64_t number) {
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%" PRId64, number);
    add_text(text, bytes, n, before, digits);
}

/* Sizes that differ from the ones before them: "480x640+240x320". */
static void add_sizes(const sg_catalogue *catalogue, char *text, size_t bytes, size_t *n) {
    const sg_camera *camera = catalogue->cameras;
    for (size_t c = 0; camera && c < catalogue->n_cameras; c++) {
        bool known = false;
        for (size_t i = 0; i < c && !known; i++)
            known = camera[i].height == camera[c].height && camera[i].width == camera[c].width;
        if (known) continue;
        add_number(text, bytes, n, c ? "+" : ";", camera[c].height);
        add_number(text, bytes, n, "x", camera[c].width);
    }
}

void sg_catalogue_describe(const sg_catalogue *catalogue, char *text, size_t bytes) {
    if (bytes == 0) return;
    size_t n = 0;
    const sg_camera *camera = catalogue->n_cameras > 0 ? catalogue->cameras : NULL;
    const char *version = catalogue->info.version;
    add_text(text, bytes, &n, "", sg_dataset_kind_name(catalogue->kind));
    if (version[0]) add_text(text, bytes, &n, "-", version);
    if (camera && camera->codec[0]) add_text(text, bytes, &n, ";", camera->codec);
    add_sizes(catalogue, text, bytes, &n);
    if (camera && camera->gop > 0) add_number(text, bytes, &n, ";gop=", camera->gop);
    add_number(text, bytes, &n, ";cameras=", (int64_t)catalogue->n_cameras);
    add_text(text, bytes, &n, ";name=", catalogue->name);
}

sg_code sg_catalogue_make_cold(const sg_catalogue *catalogue, sg_status *status) {
    return sg_files_make_cold(catalogue->path, status);
}
