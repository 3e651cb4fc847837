/* decode_clip.h: clips that `bench decode` makes for itself, and their frames, decoded one at a time as a trainer's worker
 * does. Files are written and read in child processes alone. */
#ifndef SG_SIM_BENCH_DECODE_CLIP_H
#define SG_SIM_BENCH_DECODE_CLIP_H

#include "datasets/codec/codec.h"

typedef struct sg_decode_clip {
    char codec[8];  /* "av1", "h264": one file; "png", "jpeg": a file per frame; "raw": uint8 frames in an HDF5 file */
    char path[160]; /* of the file, or what the names of its files begin with */
    int64_t height, width, gop, frames; /* gop: 0 where each frame stands alone */
    double fps;
} sg_decode_clip;

/* Draws and encodes the clip in a child process. SG_MACHINE: its codec is missing here, with the remedy. */
sg_code sg_decode_clip_make(const sg_decode_clip *clip, sg_status *status);
void sg_decode_clip_remove(const sg_decode_clip *clip);

/* An open clip, in the process that decodes. */
typedef struct sg_decode_source sg_decode_source;
sg_code sg_decode_source_open(const sg_decode_clip *clip, sg_decode_source **source, sg_status *status);
void sg_decode_source_close(sg_decode_source *source); /* NULL is allowed */
/* What decodes: "libpng 1.6.39, ..."; valid while it is open. */
const char *sg_decode_source_library(const sg_decode_source *source);
/* Decodes frame `frame` of the clip into memory of the source: [3, height, width]. */
sg_code sg_decode_source_frame(sg_decode_source *source, int64_t frame, sg_decode_count *count, sg_status *status);

#endif
