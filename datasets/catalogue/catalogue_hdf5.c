/* HDF5 demonstrations: one file, or a folder of them. A child process looks into them. */
#include "datasets/catalogue/catalogue_kinds.h"

#include "datasets/catalogue/data_files.h"
#include "datasets/catalogue/hdf5_demos.h"
#include "datasets/catalogue/path_template.h"
#include "formats/child.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct hdf5_places {
    sg_places kind;
    bool folder;
    sg_name_list files;
    sg_demos_head head;
    struct where {
        uint32_t file, number;
    } * demo; /* [episodes] */
} hdf5_places;

/* HDF5 (format specification, II.A): its signature stands at 0, or at 512, 1024, ... behind a user block. */
bool sg_catalogue_is_hdf5(const char *path) {
    static const unsigned char signature[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool found = false;
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        for (off_t at = 0; !found && at <= (1 << 20); at = at ? 2 * at : 512) {
            unsigned char bytes[sizeof signature];
            found = pread(fd, bytes, sizeof bytes, at) == (ssize_t)sizeof bytes &&
                    memcmp(bytes, signature, sizeof bytes) == 0;
        }
    }
    if (fd >= 0) (void)close(fd);
    return found;
}

static void close_places(void *user) {
    hdf5_places *p = user;
    sg_names_free(&p->files);
    free(p->demo);
    free(p);
}

/* ---- asking ---- */

static sg_code file_of(const sg_catalogue *catalogue, int64_t episode, char *path, size_t room, sg_status *status) {
    const hdf5_places *p = catalogue->places;
    char name[260] = "";
    if (p->folder) {
        (void)sg_names_get(&p->files, p->demo[episode].file, name, sizeof name);
        return sg_catalogue_join(path, room, catalogue->path, name, status);
    }
    (void)snprintf(path, room, "%s", catalogue->path);
    return SG_OK;
}

static sg_code frame_place(const sg_catalogue *catalogue, size_t camera, int64_t episode, int64_t frame,
                           sg_frame_place *place, sg_status *status) {
    const hdf5_places *p = catalogue->places;
    const char *name = catalogue->cameras[camera].name;
    if (catalogue->kind == SG_DATASET_ALOHA)
        (void)snprintf(place->inner, sizeof place->inner, "/observations/images/%s", name);
    else
        (void)snprintf(place->inner, sizeof place->inner, "/data/demo_%" PRIu32 "/obs/%s", p->demo[episode].number,
                       name);
    place->row = frame;
    return file_of(catalogue, episode, place->path, sizeof place->path, status);
}

static sg_code row_place(const sg_catalogue *catalogue, int64_t episode, int64_t frame, sg_row_place *place,
                         sg_status *status) {
    const hdf5_places *p = catalogue->places;
    bool aloha = catalogue->kind == SG_DATASET_ALOHA;
    char demo[64] = "";
    if (!aloha) (void)snprintf(demo, sizeof demo, "/data/demo_%" PRIu32, p->demo[episode].number);
    (void)snprintf(place->action, sizeof place->action, "%s/%s", demo, aloha ? "action" : "actions");
    size_t n = 0;
    for (size_t i = 0; i < 3 && p->head.state[i][0] && n < sizeof place->state; i++) {
        int added = snprintf(place->state + n, sizeof place->state - n, "%s%s/%s/%s", i ? "\n" : "", demo,
                             aloha ? "observations" : "obs", p->head.state[i]);
        n += added > 0 ? (size_t)added : 0;
    }
    place->hdf5 = true;
    place->row = frame;
    return file_of(catalogue, episode, place->path, sizeof place->path, status);
}

/* ---- opening ---- */

static sg_code look(void *user, sg_bytes *answer, sg_status *status) {
    const sg_catalogue *catalogue = user;
    const hdf5_places *p = catalogue->places;
    return sg_demos_scan(catalogue->path, p->folder ? &p->files : NULL, answer, status);
}

static bool is_text(const char *text, size_t room) {
    return memchr(text, 0, room) != NULL;
}

static bool camera_is_sound(const sg_camera *c) {
    return is_text(c->name, sizeof c->name) && sg_path_part_is_sound(c->name) && is_text(c->codec, sizeof c->codec) &&
           c->height >= 1 && c->height <= UINT32_MAX && c->width >= 1 && c->width <= UINT32_MAX &&
           (c->store == SG_STORE_HDF5_RAW || c->store == SG_STORE_HDF5_ENCODED);
}

/* The child may have been taken over by what it read: everything is checked again. */
static bool head_is_sound(const sg_demos_head *head) {
    bool kind = head->kind == SG_DATASET_ROBOMIMIC || head->kind == SG_DATASET_LIBERO || head->kind == SG_DATASET_ALOHA;
    if (!is_text(head->amiss, sizeof head->amiss)) return false;
    for (int i = 0; i < 3; i++)
        if (!is_text(head->state[i], sizeof head->state[i])) return false;
    return kind && head->n_cameras <= SG_CAMERAS_MOST && head->state_dim >= 0 && head->state_dim <= 3000000 &&
           head->action_dim >= 1 && head->action_dim <= 1000000;
}

static sg_code take_demos(sg_catalogue *catalogue, const unsigned char *bytes, size_t n, sg_status *status) {
    hdf5_places *p = catalogue->places;
    size_t episodes = n / sizeof(sg_demo);
    sg_code code = sg_catalogue_episodes(catalogue, episodes, status);
    if (code != SG_OK) return code;
    p->demo = calloc(episodes, sizeof *p->demo);
    if (!p->demo) return sg_fail_memory(status, episodes * sizeof *p->demo, "the episodes of a data set");
    for (size_t e = 0; e < episodes; e++) {
        sg_demo demo;
        memcpy(&demo, bytes + e * sizeof demo, sizeof demo);
        if (demo.file >= (p->folder ? p->files.n : 1))
            return sg_fail(status, SG_BAD_INPUT, "%.400s: an episode in no file", catalogue->path);
        p->demo[e].file = demo.file;
        p->demo[e].number = demo.number;
        catalogue->first_frame[e + 1] = demo.frames;
    }
    return sg_catalogue_sum_lengths(catalogue, status);
}

static sg_code take_answer(sg_catalogue *catalogue, const unsigned char *bytes, size_t n, sg_status *status) {
    hdf5_places *p = catalogue->places;
    size_t at = sizeof p->head;
    bool sound = n >= at;
    if (sound) memcpy(&p->head, bytes, at);
    sound = sound && head_is_sound(&p->head) && n - at >= p->head.n_cameras * sizeof(sg_camera);
    sg_code code = sound ? sg_catalogue_cameras(catalogue, p->head.n_cameras, status) : SG_OK;
    if (code != SG_OK) return code;
    for (size_t c = 0; sound && c < catalogue->n_cameras; c++, at += sizeof(sg_camera)) {
        memcpy(&catalogue->cameras[c], bytes + at, sizeof(sg_camera));
        sound = camera_is_sound(&catalogue->cameras[c]);
    }
    if (!sound)
        return sg_fail(status, SG_BAD_INPUT, "%.400s cannot be read: its content is damaged or hostile",
                       catalogue->path);
    catalogue->kind = (sg_dataset_kind)p->head.kind;
    catalogue->info.state_dim = p->head.state_dim;
    catalogue->info.action_dim = p->head.action_dim;
    catalogue->has_tables = true;
    memcpy(catalogue->warning, p->head.amiss, sizeof p->head.amiss);
    sg_catalogue_sum_cameras(catalogue);
    return take_demos(catalogue, bytes + at, n - at, status);
}

static sg_code scan_apart(sg_catalogue *catalogue, sg_status *status) {
    const hdf5_places *p = catalogue->places;
    /* Structure alone: hundreds of microseconds per demonstration; a disk that is cold needs longer, but not processor. */
    sg_child_limits limits = {.memory_bytes = 2ull << 30,
                              .cpu_s = 120 + (unsigned)(p->files.n / 20),
                              .wall_s = 900,
                              .answer_bytes = (size_t)256 << 20};
    unsigned char *bytes;
    size_t n;
    sg_code code = sg_child_run(catalogue->path, look, catalogue, &limits, &bytes, &n, status);
    if (code == SG_OK) code = take_answer(catalogue, bytes, n, status);
    free(bytes);
    return code;
}

sg_code sg_catalogue_open_hdf5(sg_catalogue *catalogue, sg_status *status) {
    static const char *const endings[] = {".hdf5", ".h5", NULL};
    sg_name_list files = {0};
    bool folder = !sg_catalogue_is_hdf5(catalogue->path);
    sg_code code = folder ? sg_names_read(catalogue->path, SG_NAMES_FILES, endings, &files, status) : SG_OK;
    if (code != SG_OK) return code;
    if (folder && files.n == 0) return SG_NO;
    hdf5_places *p = calloc(1, sizeof *p);
    if (!p) {
        sg_names_free(&files);
        return sg_fail_memory(status, sizeof *p, "a catalogue");
    }
    p->kind = (sg_places){frame_place, row_place, close_places};
    p->folder = folder;
    p->files = files;
    catalogue->places = p;
    if (folder) code = sg_files_check(catalogue->path, status);
    return code == SG_OK ? scan_apart(catalogue, status) : code;
}
