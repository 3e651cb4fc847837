#include "sim/bench/decode_clip.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hdf5.h>

#include "datasets/codec/rgb_planes.h"
#include "datasets/make/scene.h"
#include "datasets/reader/reader_hdf5.h"
#include "formats/child.h"

enum { NAME_BYTES = 192, SCENE_SEED = 11 };

/* Far above what a clip takes; against a codec that runs away. */
static const sg_child_limits MAKING = {
    .memory_bytes = 8ull << 30, .cpu_s = 300, .file_bytes = 4ull << 30, .wall_s = 300};
static const double TOLERANCE_S = 1e-3; /* of a frame's time: MP4's clocks tick in less */
static const char RAW_SET[] = "frames";

static bool is_video(const sg_decode_clip *clip) {
    return clip->gop > 0;
}

static bool is_raw(const sg_decode_clip *clip) {
    return strcmp(clip->codec, "raw") == 0;
}

static size_t plane_of(const sg_decode_clip *clip) {
    return (size_t)clip->height * (size_t)clip->width;
}

static void name_of_frame(const sg_decode_clip *clip, int64_t frame, char name[NAME_BYTES]) {
    (void)snprintf(name, NAME_BYTES, "%s-%04lld", clip->path, (long long)frame);
}

/* ---- making ------------------------------------------------------------------------------------------------------- */

static bool draw(void *scene, int64_t frame, uint8_t *rgb) {
    sg_scene_draw(scene, frame, rgb);
    return true;
}

static sg_code write_video(const sg_decode_clip *clip, sg_scene *scene, sg_status *status) {
    const sg_codec_api *api;
    sg_code code = sg_codec_open("video", &api, status);
    if (code) return code;
    return api->video_write(clip->path, clip->codec, clip->height, clip->width, clip->fps, clip->gop, clip->frames,
                            draw, scene, status);
}

static sg_code write_file(const char *name, const uint8_t *bytes, size_t n, sg_status *status) {
    FILE *file = fopen(name, "wb");
    bool written = file && fwrite(bytes, 1, n, file) == n;
    if (file && fclose(file) != 0) written = false;
    return written ? SG_OK : sg_fail(status, SG_MACHINE, "cannot write %s: is the disk full?", name);
}

static sg_code write_images(const sg_decode_clip *clip, const sg_scene *scene, uint8_t *rgb, sg_status *status) {
    const sg_codec_api *api;
    sg_code code = sg_codec_open("image", &api, status);
    for (int64_t f = 0; !code && f < clip->frames; f++) {
        char name[NAME_BYTES];
        uint8_t *bytes;
        size_t n;
        sg_scene_draw(scene, f, rgb);
        code = api->image_write(clip->codec, rgb, clip->height, clip->width, &bytes, &n, status);
        if (code) break;
        name_of_frame(clip, f, name);
        code = write_file(name, bytes, n, status);
        free(bytes);
    }
    return code;
}

/* One frame a row, interleaved, without compression: as robomimic and ALOHA keep them. */
static bool write_rows(hid_t set, const sg_decode_clip *clip, const sg_scene *scene, uint8_t *rgb, uint8_t *packed) {
    const hsize_t h = (hsize_t)clip->height, w = (hsize_t)clip->width, count[4] = {1, h, w, 3};
    size_t plane = plane_of(clip);
    hid_t file = H5Dget_space(set), memory = H5Screate_simple(4, count, NULL);
    bool done = file >= 0 && memory >= 0;
    for (int64_t f = 0; done && f < clip->frames; f++) {
        const hsize_t start[4] = {(hsize_t)f};
        sg_scene_draw(scene, f, rgb);
        sg_planes_to_rgb(rgb, rgb + plane, rgb + 2 * plane, plane, packed);
        done = H5Sselect_hyperslab(file, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
               H5Dwrite(set, H5T_NATIVE_UINT8, memory, file, H5P_DEFAULT, packed) >= 0;
    }
    if (memory >= 0) (void)H5Sclose(memory);
    if (file >= 0) (void)H5Sclose(file);
    return done;
}

static sg_code write_raw(const sg_decode_clip *clip, const sg_scene *scene, uint8_t *rgb, sg_status *status) {
    uint8_t *packed = malloc(3 * plane_of(clip));
    if (!packed) return sg_fail_memory(status, 3 * plane_of(clip), "a frame");
    const hsize_t extent[4] = {(hsize_t)clip->frames, (hsize_t)clip->height, (hsize_t)clip->width, 3};
    hid_t file = H5Fcreate(clip->path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(4, extent, NULL);
    hid_t set = file < 0 || space < 0
                    ? -1
                    : H5Dcreate2(file, RAW_SET, H5T_STD_U8LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    bool done = set >= 0 && write_rows(set, clip, scene, rgb, packed);
    if (set >= 0) done = H5Dclose(set) >= 0 && done;
    if (space >= 0) (void)H5Sclose(space);
    if (file >= 0) done = H5Fclose(file) >= 0 && done;
    free(packed);
    return done ? SG_OK : sg_fail(status, SG_MACHINE, "cannot write %s: is the disk full?", clip->path);
}

static sg_code make_in_child(void *user, sg_bytes *answer, sg_status *status) {
    const sg_decode_clip *clip = user;
    sg_scene *scene;
    (void)answer;
    sg_code code = sg_scene_new(clip->height, clip->width, SCENE_SEED, &scene, status);
    if (code) return code;
    uint8_t *rgb = malloc(3 * plane_of(clip));
    if (!rgb)
        code = sg_fail_memory(status, 3 * plane_of(clip), "a frame");
    else if (is_video(clip))
        code = write_video(clip, scene, status);
    else
        code = is_raw(clip) ? write_raw(clip, scene, rgb, status) : write_images(clip, scene, rgb, status);
    free(rgb);
    sg_scene_free(scene);
    return code;
}

sg_code sg_decode_clip_make(const sg_decode_clip *clip, sg_status *status) {
    unsigned char *bytes = NULL;
    size_t n;
    sg_decode_clip copy = *clip;
    sg_code code = sg_child_run(clip->path, make_in_child, &copy, &MAKING, &bytes, &n, status);
    free(bytes);
    return code;
}

void sg_decode_clip_remove(const sg_decode_clip *clip) {
    char name[NAME_BYTES];
    (void)unlink(clip->path);
    for (int64_t f = 0; !is_video(clip) && !is_raw(clip) && f < clip->frames; f++) {
        name_of_frame(clip, f, name);
        (void)unlink(name);
    }
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

struct sg_decode_source {
    sg_decode_clip clip;
    const sg_codec_api *api; /* NULL: raw */
    sg_video *video;
    sg_hdf5_rows *rows;
    uint8_t *rgb, *encoded; /* encoded: an image's file, or a row */
    size_t room;
    char library[160];
};

static sg_code open_raw(sg_decode_source *s, sg_status *status) {
    unsigned major, minor, release;
    (void)H5get_libversion(&major, &minor, &release);
    (void)snprintf(s->library, sizeof s->library, "HDF5 %u.%u.%u", major, minor, release);
    s->room = 3 * plane_of(&s->clip);
    s->encoded = malloc(s->room);
    if (!s->encoded) return sg_fail_memory(status, s->room, "a frame");
    return sg_hdf5_rows_open(s->clip.path, &s->rows, status);
}

static sg_code open_codec(sg_decode_source *s, sg_status *status) {
    sg_code code = sg_codec_open(is_video(&s->clip) ? "video" : "image", &s->api, status);
    if (code) return code;
    (void)snprintf(s->library, sizeof s->library, "%s", s->api->libraries);
    return is_video(&s->clip) ? s->api->video_open(s->clip.path, 1, &s->video, status) : SG_OK;
}

sg_code sg_decode_source_open(const sg_decode_clip *clip, sg_decode_source **source, sg_status *status) {
    *source = NULL;
    sg_decode_source *s = calloc(1, sizeof *s);
    if (!s) return sg_fail_memory(status, sizeof *s, "a clip");
    s->clip = *clip;
    s->rgb = malloc(3 * plane_of(clip));
    sg_code code = s->rgb ? SG_OK : sg_fail_memory(status, 3 * plane_of(clip), "a frame");
    if (!code) code = is_raw(clip) ? open_raw(s, status) : open_codec(s, status);
    if (code)
        sg_decode_source_close(s);
    else
        *source = s;
    return code;
}

void sg_decode_source_close(sg_decode_source *s) {
    if (!s) return;
    if (s->video) s->api->video_close(s->video);
    sg_hdf5_rows_close(s->rows);
    free(s->rgb);
    free(s->encoded);
    free(s);
}

const char *sg_decode_source_library(const sg_decode_source *source) {
    return source->library;
}

/* The whole file into s->encoded. */
static sg_code read_file(sg_decode_source *s, const char *name, size_t *n, sg_status *status) {
    struct stat info;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        if (fd >= 0) (void)close(fd);
        return sg_fail(status, SG_MACHINE, "%s cannot be opened", name);
    }
    if ((size_t)info.st_size > s->room) {
        uint8_t *grown = realloc(s->encoded, (size_t)info.st_size);
        if (grown) {
            s->encoded = grown;
            s->room = (size_t)info.st_size;
        }
    }
    ssize_t got = (size_t)info.st_size <= s->room ? read(fd, s->encoded, (size_t)info.st_size) : -1;
    (void)close(fd);
    if (got != info.st_size) return sg_fail(status, SG_MACHINE, "%s cannot be read", name);
    *n = (size_t)got;
    return SG_OK;
}

static sg_code read_image(sg_decode_source *s, int64_t frame, sg_status *status) {
    char name[NAME_BYTES];
    size_t n = 0;
    name_of_frame(&s->clip, frame, name);
    sg_code code = read_file(s, name, &n, status);
    return code ? code : s->api->image_read(s->encoded, n, s->clip.height, s->clip.width, s->rgb, status);
}

static sg_code read_raw(sg_decode_source *s, int64_t frame, sg_status *status) {
    size_t plane = plane_of(&s->clip);
    sg_code code = sg_hdf5_rows_bytes(s->rows, RAW_SET, frame, s->encoded, 3 * plane, status);
    if (!code) sg_rgb_to_planes(s->encoded, plane, s->rgb, s->rgb + plane, s->rgb + 2 * plane);
    return code;
}

sg_code sg_decode_source_frame(sg_decode_source *s, int64_t frame, sg_decode_count *count, sg_status *status) {
    if (s->video) return s->api->video_read(s->video, (double)frame / s->clip.fps, TOLERANCE_S, s->rgb, count, status);
    count->frames++;
    count->frames_decoded++;
    return s->rows ? read_raw(s, frame, status) : read_image(s, frame, status);
}
