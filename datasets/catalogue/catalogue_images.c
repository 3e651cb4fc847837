/* Folders of image files: DIR/EPISODE/CAMERA/0.png and so on, or DIR/EPISODE/0.png where there is one camera. */
#include "datasets/catalogue/catalogue_kinds.h"

#include "datasets/catalogue/data_files.h"
#include "datasets/catalogue/image_header.h"
#include "datasets/catalogue/name_list.h"
#include "formats/child.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const image_endings[] = {".png", ".jpg", ".jpeg", NULL};
static const char flat_camera[] = "image"; /* the one without a folder, and so without a name */

typedef struct image_places {
    sg_places kind;
    bool flat;
    sg_name_list folders;   /* of DIR; those without images are no episodes */
    uint32_t *folder;       /* [episodes]: which of them */
    sg_name_list *patterns; /* of frames: those of most episodes are the same */
    size_t n_patterns, patterns_room;
    uint32_t *pattern; /* [episodes x cameras] */
} image_places;

static void close_places(void *user) {
    image_places *p = user;
    for (size_t i = 0; i < p->n_patterns; i++) sg_names_free(&p->patterns[i]);
    free(p->patterns);
    free(p->pattern);
    free(p->folder);
    sg_names_free(&p->folders);
    free(p);
}

/* DIR/EPISODE[/CAMERA] of a folder's index. */
static sg_code camera_folder(const sg_catalogue *catalogue, size_t folder, size_t camera, char *out, size_t room,
                             sg_status *status) {
    const image_places *p = catalogue->places;
    char name[260];
    int n = -1;
    if (sg_names_get(&p->folders, folder, name, sizeof name))
        n = snprintf(out, room, "%s/%s%s%s", catalogue->path, name, p->flat ? "" : "/",
                     p->flat ? "" : catalogue->cameras[camera].name);
    if (n >= 0 && (size_t)n < room) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "a path below %.200s has more than %zu letters", catalogue->path, room - 1);
}

static sg_code frame_place(const sg_catalogue *catalogue, size_t camera, int64_t episode, int64_t frame,
                           sg_frame_place *place, sg_status *status) {
    const image_places *p = catalogue->places;
    const sg_name_list *names = &p->patterns[p->pattern[(size_t)episode * catalogue->n_cameras + camera]];
    sg_code code = camera_folder(catalogue, p->folder[episode], camera, place->path, sizeof place->path, status);
    if (code != SG_OK) return code;
    size_t n = strlen(place->path);
    place->path[n++] = '/';
    if (n < sizeof place->path && sg_names_get(names, (size_t)frame, place->path + n, sizeof place->path - n))
        return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "a path below %.200s has more than %zu letters", catalogue->path,
                   sizeof place->path - 1);
}

/* ---- which folders are cameras ---- */

static sg_code count_images(const char *folder, size_t *n, sg_status *status) {
    sg_name_list names;
    sg_code code = sg_names_read(folder, SG_NAMES_FILES, image_endings, &names, status);
    *n = code == SG_OK ? names.n : 0;
    sg_names_free(&names);
    return code == SG_NO ? SG_OK : code;
}

/* The sub-folders of an episode that hold images become cameras. */
static sg_code find_cameras(sg_catalogue *catalogue, const char *episode, sg_status *status) {
    sg_name_list names;
    size_t n_cameras = 0;
    sg_code code = sg_names_read(episode, SG_NAMES_FOLDERS, NULL, &names, status);
    if (code == SG_NO) return SG_OK;
    if (code == SG_OK && names.n == 0) return SG_OK;
    /* more of them than cameras are no episode's: a tree of something else */
    if (code == SG_OK && names.n <= SG_CAMERAS_MOST) code = sg_catalogue_cameras(catalogue, names.n, status);
    for (size_t i = 0; code == SG_OK && i < names.n && names.n <= SG_CAMERAS_MOST; i++) {
        char path[1024];
        sg_camera *camera = &catalogue->cameras[n_cameras];
        size_t images = 0;
        if (!sg_names_get(&names, i, camera->name, sizeof camera->name)) continue;
        code = sg_catalogue_join(path, sizeof path, episode, camera->name, status);
        if (code == SG_OK) code = count_images(path, &images, status);
        n_cameras += images > 0;
    }
    sg_names_free(&names);
    catalogue->n_cameras = n_cameras;
    if (n_cameras == 0) {
        free(catalogue->cameras);
        catalogue->cameras = NULL;
    }
    return code;
}

/* The layout of one folder of DIR: n_cameras stays 0 where it holds no images in either way. */
static sg_code find_layout_of(sg_catalogue *catalogue, size_t folder, sg_status *status) {
    image_places *p = catalogue->places;
    char name[260], path[1024];
    size_t images;
    if (!sg_names_get(&p->folders, folder, name, sizeof name)) return SG_OK;
    sg_code code = sg_catalogue_join(path, sizeof path, catalogue->path, name, status);
    if (code == SG_OK) code = count_images(path, &images, status);
    if (code != SG_OK) return code;
    if (images == 0) return find_cameras(catalogue, path, status);
    p->flat = true;
    code = sg_catalogue_cameras(catalogue, 1, status);
    if (code == SG_OK) memcpy(catalogue->cameras[0].name, flat_camera, sizeof flat_camera);
    return code;
}

/* Whether the folder holds images of the first camera. */
static sg_code holds_images(const sg_catalogue *catalogue, size_t folder, bool *holds, sg_status *status) {
    char path[1024];
    size_t images;
    sg_code code = camera_folder(catalogue, folder, 0, path, sizeof path, status);
    if (code == SG_OK) code = count_images(path, &images, status);
    *holds = code == SG_OK && images > 0;
    return code;
}

/* From the first folder that holds images in either way. SG_NO: there is none, or more of the first few hold none than some:
 * a tree in which pictures lie is no data set. */
static sg_code find_layout(sg_catalogue *catalogue, sg_status *status) {
    enum { LOOK_AT = 16 };
    const image_places *p = catalogue->places;
    size_t with = 0, without = 0;
    for (size_t i = 0; i < p->folders.n && i < LOOK_AT; i++) {
        bool holds = false;
        sg_code code = SG_OK;
        if (catalogue->n_cameras == 0) {
            code = find_layout_of(catalogue, i, status);
            holds = catalogue->n_cameras > 0;
        } else {
            code = holds_images(catalogue, i, &holds, status);
        }
        if (code != SG_OK) return code;
        with += holds;
        without += !holds;
    }
    return with > 0 && with >= without ? SG_OK : SG_NO;
}

/* ---- episodes ---- */

static bool same_pattern(const sg_name_list *a, const sg_name_list *b) {
    if (a->start || b->start || !a->letters || !b->letters) return false;
    return a->first == b->first && a->width == b->width && strcmp(a->letters, b->letters) == 0 &&
           strcmp(a->letters + strlen(a->letters) + 1, b->letters + strlen(b->letters) + 1) == 0;
}

/* Takes the names over. */
static sg_code keep_names(image_places *p, sg_name_list *names, uint32_t *pattern, sg_status *status) {
    for (size_t back = 1; back <= p->n_patterns && back <= 16; back++) {
        if (!same_pattern(&p->patterns[p->n_patterns - back], names)) continue;
        *pattern = (uint32_t)(p->n_patterns - back);
        sg_names_free(names);
        return SG_OK;
    }
    if (p->n_patterns == p->patterns_room) {
        size_t room = 2 * p->patterns_room + 16;
        sg_name_list *bigger = room < UINT32_MAX ? realloc(p->patterns, room * sizeof *bigger) : NULL;
        if (!bigger) {
            sg_names_free(names);
            return sg_fail_memory(status, room * sizeof *bigger, "names of images");
        }
        p->patterns = bigger;
        p->patterns_room = room;
    }
    *pattern = (uint32_t)p->n_patterns;
    p->patterns[p->n_patterns++] = *names;
    return SG_OK;
}

/* Cameras that stopped a frame later than others do not matter: an episode has as many frames as all its cameras. *frames is
 * 0 where none of them is there. */
static sg_code read_episode(sg_catalogue *catalogue, size_t folder, size_t episode, int64_t *frames,
                            sg_status *status) {
    image_places *p = catalogue->places;
    size_t there = 0, least = SIZE_MAX;
    for (size_t c = 0; c < catalogue->n_cameras; c++) {
        char path[1024];
        sg_name_list names;
        sg_code code = camera_folder(catalogue, folder, c, path, sizeof path, status);
        if (code == SG_OK) code = sg_names_read(path, SG_NAMES_FILES, image_endings, &names, status);
        if (code == SG_NO) continue;
        if (code != SG_OK) return code;
        there += names.n > 0;
        if (names.n < least) least = names.n;
        if (names.n == 0) continue;
        code = keep_names(p, &names, &p->pattern[episode * catalogue->n_cameras + c], status);
        if (code != SG_OK) return code;
    }
    *frames = there == 0 ? 0 : (int64_t)least;
    if (there == 0 || there == catalogue->n_cameras) return SG_OK;
    char name[260] = "?";
    (void)sg_names_get(&p->folders, folder, name, sizeof name);
    return sg_fail(status, SG_BAD_INPUT, "%.300s: %.200s has images of %zu of the %zu cameras: take the folder away",
                   catalogue->path, name, there, catalogue->n_cameras);
}

static sg_code read_episodes(sg_catalogue *catalogue, sg_status *status) {
    image_places *p = catalogue->places;
    size_t n = p->folders.n, found = 0;
    sg_code code = sg_catalogue_episodes(catalogue, n, status);
    if (code != SG_OK) return code;
    p->folder = calloc(n, sizeof *p->folder);
    p->pattern = calloc(n * catalogue->n_cameras, sizeof *p->pattern);
    if (!p->folder || !p->pattern)
        return sg_fail_memory(status, n * catalogue->n_cameras * sizeof *p->pattern, "the episodes of a data set");
    for (size_t i = 0; i < n; i++) {
        int64_t frames = 0;
        code = read_episode(catalogue, i, found, &frames, status);
        if (code != SG_OK) return code;
        if (frames == 0) continue;
        p->folder[found] = (uint32_t)i;
        catalogue->first_frame[++found] = frames;
    }
    catalogue->n_episodes = found;
    return sg_catalogue_sum_lengths(catalogue, status);
}

/* ---- sizes ---- */

/* In the child: the header of every camera's first image. */
static sg_code read_headers(void *user, sg_bytes *answer, sg_status *status) {
    enum { ENOUGH = 1 << 20 }; /* colour profiles and previews come before a JPEG's size */
    const sg_catalogue *catalogue = user;
    uint8_t *bytes = malloc(ENOUGH);
    sg_code code = bytes ? SG_OK : sg_fail_memory(status, ENOUGH, "an image's head");
    for (size_t c = 0; code == SG_OK && c < catalogue->n_cameras; c++) {
        sg_frame_place place = {.store = SG_STORE_IMAGE_FILE};
        sg_image_header header;
        code = frame_place(catalogue, c, 0, 0, &place, status);
        if (code != SG_OK) break;
        int fd = open(place.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        ssize_t n = fd < 0 ? -1 : read(fd, bytes, ENOUGH);
        if (fd >= 0) (void)close(fd);
        if (n < 0 || !sg_image_header_read(bytes, (size_t)n, &header))
            code = sg_fail(status, SG_BAD_INPUT, "%.400s is no PNG or JPEG, or it is damaged", place.path);
        else if (!sg_bytes_add(answer, &header, sizeof header))
            code = sg_fail_memory(status, sizeof header, "an image's size");
    }
    free(bytes);
    return code;
}

static sg_code read_sizes(sg_catalogue *catalogue, sg_status *status) {
    static const sg_child_limits limits = {.memory_bytes = 64u << 20, .cpu_s = 5, .wall_s = 60};
    unsigned char *bytes;
    size_t n;
    sg_code code = sg_child_run(catalogue->path, read_headers, catalogue, &limits, &bytes, &n, status);
    if (code != SG_OK) return code;
    for (size_t c = 0; c < catalogue->n_cameras && n == catalogue->n_cameras * sizeof(sg_image_header); c++) {
        sg_camera *camera = &catalogue->cameras[c];
        sg_image_header header;
        memcpy(&header, bytes + c * sizeof header, sizeof header);
        camera->store = SG_STORE_IMAGE_FILE;
        camera->height = header.height;
        camera->width = header.width;
        (void)snprintf(camera->codec, sizeof camera->codec, "%.7s", header.codec);
    }
    free(bytes);
    return SG_OK;
}

sg_code sg_catalogue_open_images(sg_catalogue *catalogue, sg_status *status) {
    image_places *p = calloc(1, sizeof *p);
    if (!p) return sg_fail_memory(status, sizeof *p, "a catalogue");
    p->kind = (sg_places){frame_place, NULL, close_places};
    catalogue->places = p;
    catalogue->kind = SG_DATASET_IMAGES;
    sg_code code = sg_names_read(catalogue->path, SG_NAMES_FOLDERS, NULL, &p->folders, status);
    if (code == SG_OK) code = find_layout(catalogue, status);
    if (code == SG_OK) code = sg_files_check(catalogue->path, status);
    if (code == SG_OK) code = read_episodes(catalogue, status);
    if (code == SG_OK) code = read_sizes(catalogue, status);
    if (code != SG_OK) return code;
    sg_catalogue_sum_cameras(catalogue);
    (void)snprintf(catalogue->tables_why, sizeof catalogue->tables_why,
                   "folders of images hold no rows of state and action");
    return SG_OK;
}
