/* lerobot_places.h: where a LeRobot data set keeps its frames. For datasets/catalogue_lerobot*.c alone. */
#ifndef SG_DATASETS_CATALOGUE_LEROBOT_PLACES_H
#define SG_DATASETS_CATALOGUE_LEROBOT_PLACES_H

#include "datasets/catalogue/catalogue_kinds.h"
#include "datasets/catalogue/lerobot_info.h"
#include "datasets/catalogue/path_template.h"

/* v3.0: a file of many episodes and where one of them begins in it. */
typedef struct sg_file_part {
    uint32_t chunk, file;
    union {
        int64_t row;   /* of a table */
        double time_s; /* of a video */
    } from;
} sg_file_part;

/* v3.0 without its table of episodes: the videos of a camera, in order. */
typedef struct sg_video_row {
    sg_file_part *file; /* from.row: its first frame, counted over all */
    size_t n;
} sg_video_row;

typedef struct sg_lerobot_places {
    sg_places kind;
    sg_template data, video, image;
    int64_t chunks_size;
    double fps;
    bool state, action;
    sg_file_part *data_part;  /* v3.0: [episodes] */
    sg_file_part *video_part; /* v3.0: [cameras x episodes]; NULL: video_row */
    sg_video_row *video_row;  /* [cameras] */
    size_t n_cameras;
} sg_lerobot_places;

/* SG_MACHINE: tables cannot be read here, and this data set's frames lie in them. */
sg_code sg_lerobot_need_tables(const sg_catalogue *catalogue, sg_status *status);

/* Episodes of a v3.0 data set: from its table of episodes, or where tables cannot be read from its videos. */
sg_code sg_lerobot_open_v3(sg_catalogue *catalogue, sg_lerobot_places *places, sg_status *status);
/* A v3.0 frame's video, and the time in it. */
sg_code sg_lerobot_video_v3(const sg_catalogue *catalogue, size_t camera, int64_t episode, int64_t frame,
                            sg_frame_place *place, sg_status *status);

#endif
