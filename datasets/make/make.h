/* make.h: small valid data sets of every kind, for tests and for those who have none. */
#ifndef SG_DATASETS_MAKE_MAKE_H
#define SG_DATASETS_MAKE_MAKE_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct sg_make_options {
    const char *kind; /* "lerobot-v2.0", "lerobot-v2.1", "lerobot-v3.0", "images", "robomimic", "aloha", "libero" */
    const char *
        codec; /* lerobot: "av1" (default), "h264", "png"; images: "png" (default), "jpeg"; aloha: "raw" (default), "jpeg" */
    int64_t episodes, frames_per_episode, cameras, height, width, state_dim, action_dim, gop;
    double fps;
    uint64_t seed;
    const volatile int *stop; /* set to 1 from outside: it ends with SG_NO after the running frame; NULL: never */
    void (*progress)(void *user, double fraction); /* NULL: none */
    void *user;
} sg_make_options;

/* Defaults where a number is 0: 4 episodes of 50 frames, 2 cameras of 480 x 640, state and action of 6, GOP 2, 30 fps. path:
 * a folder that does not exist yet or is empty; on failure what was written is taken away. Frames are scenes whose decoding
 * costs what a camera's does (edges, texture, noise, things that move). SG_BAD_INPUT names the option; SG_MACHINE: no room,
 * or a library that writing needs is missing, with the remedy. */
sg_code sg_dataset_make(const char *path, const sg_make_options *options, sg_status *status);

#endif
