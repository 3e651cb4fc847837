/* codec_table.h: what a frame costs a loader worker by how it is kept (configs/loaders.yaml), relative to the machine's
 * frame_s. */
#ifndef SG_CALIBRATION_CODEC_TABLE_H
#define SG_CALIBRATION_CODEC_TABLE_H

#include "kernels/status.h"

#include <stddef.h>
#include <stdint.h>

enum { SG_CODECS_MAX = 16 };

typedef struct sg_codec_cost {
    char name[24];          /* "av1", "h264", "png", "jpeg", "raw" */
    double relative, fixed; /* of a 480x640 frame / of AV1; the part of it that does not go with the pixels */
    double decoding;        /* the part that goes with the frames decoded for each one; 0: a still image */
    double log_sd;          /* of relative */
} sg_codec_cost;

typedef struct sg_codec_table {
    sg_codec_cost codec[SG_CODECS_MAX];
    size_t n;
} sg_codec_table;

sg_code sg_codec_table_load(const char *config_dir, sg_codec_table *table, sg_status *status);
/* By name; an unknown or empty one is AV1, with doubt. */
sg_codec_cost sg_codec_cost_of(const sg_codec_table *table, const char *codec);

/* Cost of one frame that is asked for / frame_s of the machine. gop: frames from key frame to key frame, 0 = 2; frames_at_once:
 * consecutive frames of one camera that a sample asks for (observation steps). */
double sg_codec_frame_cost(const sg_codec_cost *codec, int64_t height, int64_t width, int64_t gop,
                           int64_t frames_at_once);
/* Frames of a video that are decoded per frame that is asked for: (gop - 1) / 2 on the way to the first, on average. */
double sg_codec_decoded(int64_t gop, int64_t frames_at_once);

#endif
