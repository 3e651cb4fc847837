/* codec.h: the table of functions of the modules that decode and encode frames: stepgauge_video.so (FFmpeg: AV1, H.264) and
 * stepgauge_image.so (PNG, JPEG). Opened on first need, in the process that reads: a worker. */
#ifndef SG_DATASETS_CODEC_CODEC_H
#define SG_DATASETS_CODEC_CODEC_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SG_CODEC_ABI = 2 };

/* What a video holds. */
typedef struct sg_video_info {
    int64_t height, width, frames; /* frames: 0 where the file does not tell */
    double fps, duration_s;
    double tick_s; /* of its clock: frames lie at whole ticks */
    char codec[24], pixel_format[24];
    int64_t gop; /* frames between the first two key frames; 0: one key frame only, or unknown */
} sg_video_info;

typedef struct sg_decode_count {
    int64_t frames, frames_decoded, seeks; /* added to */
} sg_decode_count;

typedef struct sg_video sg_video; /* one open file with its decoder */

/* Frames are [3, height, width] uint8 RGB, as trainers hand them on. */
typedef struct sg_codec_api {
    uint32_t abi;                 /* first: SG_CODEC_ABI */
    const char *name, *libraries; /* "video"; "libavcodec 59.37.100, libdav1d 1.0.0" */

    /* ---- video; NULL in the image module ---- */
    /* threads: of the decoder; 0 = 1. Paths go to the local file system alone (no protocols). */
    sg_code (*video_open)(const char *path, int threads, sg_video **video, sg_status *status);
    void (*video_close)(sg_video *video); /* NULL is allowed */
    void (*video_info)(const sg_video *video, sg_video_info *info);
    /* The frame nearest to time_s, as the trainer finds it: seek to the key frame before it unless it lies ahead within
     * the same group of pictures, decode up to it. SG_BAD_INPUT: none within tolerance_s. rgb: 3 height width bytes. */
    sg_code (*video_read)(sg_video *video, double time_s, double tolerance_s, uint8_t *rgb, sg_decode_count *count,
                          sg_status *status);
    /* Encodes `frames` frames that `draw` gives, yuv420p, as LeRobot records: codec "av1" (SVT-AV1, preset 12, CRF 30)
     * or "h264" (CRF 23), a key frame every `gop` frames. draw returns false to end it: SG_NO, and no
     * file is left. SG_MACHINE: no such encoder here. */
    sg_code (*video_write)(const char *path, const char *codec, int64_t height, int64_t width, double fps, int64_t gop,
                           int64_t frames, bool (*draw)(void *user, int64_t frame, uint8_t *rgb), void *user,
                           sg_status *status);

    /* ---- still images; NULL in the video module ---- */
    /* Height and width from the header alone. */
    sg_code (*image_size)(const uint8_t *bytes, size_t n, int64_t *height, int64_t *width, sg_status *status);
    /* PNG or JPEG, told apart by their first bytes. SG_BAD_INPUT: another size than height x width, or damaged. */
    sg_code (*image_read)(const uint8_t *bytes, size_t n, int64_t height, int64_t width, uint8_t *rgb,
                          sg_status *status);
    /* codec: "png" or "jpeg" (quality 95). *bytes is free'd by the caller. */
    sg_code (*image_write)(const char *codec, const uint8_t *rgb, int64_t height, int64_t width, uint8_t **bytes,
                           size_t *n, sg_status *status);
} sg_codec_api;

/* What a module exports as "sg_module_codec". */
typedef const sg_codec_api *(*sg_module_codec_fn)(void);
/* name: "video" or "image". SG_MACHINE: the module or its libraries are missing, with the remedy. */
sg_code sg_codec_open(const char *name, const sg_codec_api **api, sg_status *status);

#endif
