/* reader_frames.c: one frame of a camera, however it is kept. */
#include "datasets/reader/reader_own.h"

#include "datasets/catalogue/data_files.h"
#include "formats/durable_file.h"

#include <stdlib.h>
#include <string.h>

#define IMAGE_BYTES_MAX ((size_t)256 << 20) /* of one encoded image */

/* ---- what is open -------------------------------------------------------------------------------------------------- */

typedef struct kept_video {
    const sg_codec_api *api;
    sg_video *video;
    double tick_s;
} kept_video;

static void close_video(void *value) {
    kept_video *kept = value;
    kept->api->video_close(kept->video);
    free(kept);
}

static sg_code check_size(const sg_camera *camera, const sg_video_info *info, sg_status *status) {
    if (info->height == camera->height && info->width == camera->width) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "its frames are %lld x %lld, the data set says %lld x %lld",
                   (long long)info->height, (long long)info->width, (long long)camera->height,
                   (long long)camera->width);
}

static sg_code open_video(sg_reader *reader, const sg_camera *camera, const char *path, kept_video **found,
                          sg_status *status) {
    sg_video_info info;
    sg_code code = SG_OK;
    if (!reader->videos.close)
        code = sg_keep_start(&reader->videos, (size_t)reader->options.decoders_kept, close_video, status);
    if (code != SG_OK) return code;
    *found = sg_keep_get(&reader->videos, path);
    if (*found) return SG_OK;
    kept_video *kept = calloc(1, sizeof *kept);
    if (!kept) return sg_fail_memory(status, sizeof *kept, "an open video");
    kept->api = reader->video;
    code = kept->api->video_open(path, 1, &kept->video, status);
    if (code == SG_OK) {
        reader->opened++;
        kept->api->video_info(kept->video, &info);
        kept->tick_s = info.tick_s;
        code = check_size(camera, &info, status);
    }
    if (code != SG_OK) {
        close_video(kept);
        return code;
    }
    *found = kept;
    return sg_keep_put(&reader->videos, path, kept, status);
}

static sg_code need_room(sg_reader *reader, size_t n, sg_status *status) {
    if (n > IMAGE_BYTES_MAX)
        return sg_fail(status, SG_BAD_INPUT, "an encoded image of %zu bytes is larger than images are", n);
    if (n <= reader->encoded_room) return SG_OK;
    uint8_t *room = realloc(reader->encoded, n);
    if (!room) return sg_fail_memory(status, n, "an encoded image");
    reader->encoded = room;
    reader->encoded_room = n;
    return SG_OK;
}

static sg_code need_codec(const sg_codec_api **api, const char *name, sg_status *status) {
    return *api ? SG_OK : sg_codec_open(name, api, status);
}

/* ---- the ways in which frames are kept ----------------------------------------------------------------------------- */

/* The moment is the data set's, the clock is the file's: where a tick of it is longer than the tolerance, no frame may lie that
 * near, and the nearest within half a frame is the one that is meant. */
static double tolerance_of(const sg_reader *reader, const sg_camera *camera, double tick_s) {
    double half = camera->fps > 0 ? 0.5 / camera->fps : 0;
    bool coarse = tick_s > reader->options.tolerance_s && half > reader->options.tolerance_s;
    return coarse ? half : reader->options.tolerance_s;
}

static sg_code video_frame(sg_reader *reader, const sg_camera *camera, const sg_frame_place *place, uint8_t *rgb,
                           sg_status *status) {
    kept_video *kept = NULL;
    sg_code code = need_codec(&reader->video, "video", status);
    if (code == SG_OK) code = open_video(reader, camera, place->path, &kept, status);
    if (code != SG_OK) return code;
    code = kept->api->video_read(kept->video, place->time_s, tolerance_of(reader, camera, kept->tick_s), rgb,
                                 &reader->decoded, status);
    if (code != SG_OK) sg_keep_drop(&reader->videos, place->path);
    return code;
}

static sg_code decode_image(sg_reader *reader, const sg_camera *camera, const uint8_t *bytes, size_t n, uint8_t *rgb,
                            sg_status *status) {
    sg_code code = need_codec(&reader->image, "image", status);
    if (code == SG_OK) code = reader->image->image_read(bytes, n, camera->height, camera->width, rgb, status);
    reader->decoded.frames_decoded++;
    return code;
}

static sg_code image_file(sg_reader *reader, const sg_camera *camera, const char *path, uint8_t *rgb,
                          sg_status *status) {
    unsigned char *bytes = NULL;
    size_t n = 0;
    sg_code code = sg_file_read(path, IMAGE_BYTES_MAX, &bytes, &n, status);
    if (code != SG_OK) return code;
    reader->opened++;
    code = decode_image(reader, camera, bytes, n, rgb, status);
    free(bytes);
    return code;
}

static sg_code table_frame(sg_reader *reader, const sg_camera *camera, const sg_frame_place *place, uint8_t *rgb,
                           sg_status *status) {
    sg_table *table = NULL;
    const uint8_t *bytes = NULL;
    size_t n = 0;
    sg_code code = sg_reader_table(reader, place->path, &table, status);
    if (code != SG_OK) return code;
    int column = sg_table_column(table, place->inner);
    if (column < 0) return sg_fail(status, SG_BAD_INPUT, "it has no column '%.200s'", place->inner);
    char stated[600], file[900];
    code = sg_table_image_path(table, column, place->row, stated, sizeof stated, status);
    if (code == SG_OK && stated[0]) {
        code = sg_files_image(reader->catalogue->path, stated, file, sizeof file, status);
        return code == SG_OK ? image_file(reader, camera, file, rgb, status) : code;
    }
    if (code == SG_OK) code = sg_table_bytes(table, column, place->row, &bytes, &n, status);
    if (code != SG_OK) return code;
    return decode_image(reader, camera, bytes, n, rgb, status);
}

/* [height, width, 3] to [3, height, width]. */
static void turn(const uint8_t *from, size_t pixels, uint8_t *to) {
    uint8_t *red = to, *green = to + pixels, *blue = to + 2 * pixels;
    for (size_t i = 0; i < pixels; i++) {
        red[i] = from[3 * i];
        green[i] = from[3 * i + 1];
        blue[i] = from[3 * i + 2];
    }
}

static sg_code raw_frame(sg_reader *reader, const sg_camera *camera, const sg_frame_place *place, uint8_t *rgb,
                         sg_status *status) {
    sg_hdf5_rows *file = NULL;
    size_t pixels = (size_t)camera->height * (size_t)camera->width;
    sg_code code = sg_reader_file(reader, place->path, &file, status);
    if (code == SG_OK) code = sg_hdf5_rows_bytes(file, place->inner, place->row, reader->turned, 3 * pixels, status);
    if (code != SG_OK) return code;
    reader->decoded.frames_decoded++;
    turn(reader->turned, pixels, rgb);
    return SG_OK;
}

static sg_code encoded_frame(sg_reader *reader, const sg_camera *camera, const sg_frame_place *place, uint8_t *rgb,
                             sg_status *status) {
    sg_hdf5_rows *file = NULL;
    size_t n = 0;
    sg_code code = sg_reader_file(reader, place->path, &file, status);
    if (code == SG_OK) code = sg_hdf5_rows_width(file, place->inner, &n, status);
    if (code == SG_OK) code = need_room(reader, n, status);
    if (code == SG_OK) code = sg_hdf5_rows_bytes(file, place->inner, place->row, reader->encoded, n, status);
    if (code != SG_OK) return code;
    return decode_image(reader, camera, reader->encoded, n, rgb, status);
}

sg_code sg_reader_frame(sg_reader *reader, size_t camera_index, int64_t episode, int64_t frame, uint8_t *rgb,
                        sg_status *status) {
    const sg_camera *camera = &reader->catalogue->cameras[camera_index];
    sg_frame_place place;
    sg_code code = sg_catalogue_place(reader->catalogue, camera_index, episode, frame, &place, status);
    if (code != SG_OK) return code;
    switch (place.store) {
    case SG_STORE_VIDEO: code = video_frame(reader, camera, &place, rgb, status); break;
    case SG_STORE_IMAGE_FILE: code = image_file(reader, camera, place.path, rgb, status); break;
    case SG_STORE_TABLE: code = table_frame(reader, camera, &place, rgb, status); break;
    case SG_STORE_HDF5_RAW: code = raw_frame(reader, camera, &place, rgb, status); break;
    case SG_STORE_HDF5_ENCODED: code = encoded_frame(reader, camera, &place, rgb, status); break;
    default: code = sg_fail(status, SG_BAD_INPUT, "frames are kept in no way that is known"); break;
    }
    if (code == SG_OK) return SG_OK;
    return sg_fail_in(status, "frame %lld of episode %lld, camera %s (%.400s)", (long long)frame, (long long)episode,
                      camera->name, place.path);
}
