/* video_look.h: what a video file holds, asked without trusting it. */
#ifndef SG_DATASETS_CODEC_VIDEO_LOOK_H
#define SG_DATASETS_CODEC_VIDEO_LOOK_H

#include "datasets/codec/codec.h"

/* Opens the video in a child process with limits. SG_BAD_INPUT: no video, damaged, or it makes the library crash or hang;
 * SG_MACHINE: the video module is missing, with the remedy. */
sg_code sg_video_look(const char *path, sg_video_info *info, sg_status *status);

#endif
