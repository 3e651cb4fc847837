/* make_internal.h: a data set under way, for make*.c alone. */
#ifndef SG_DATASETS_MAKE_MAKE_INTERNAL_H
#define SG_DATASETS_MAKE_MAKE_INTERNAL_H

#include "datasets/codec/codec.h"
#include "datasets/make/make.h"
#include "datasets/make/scene.h"

#include <jansson.h>
#include <stddef.h>

enum { SG_MAKE_PATH_BYTES = 1024, SG_MAKE_NAME_BYTES = 96 };

/* How often each level occurs in a channel of frames: every statistic of them follows. */
typedef struct sg_level_counts {
    uint64_t count[3][256];
} sg_level_counts;

/* What a robot that moves smoothly would record, over all frames. */
typedef struct sg_make_rows {
    double *state;  /* [frames, state_dim] */
    double *action; /* [frames, action_dim]: where the joints are one frame later */
    double *timestamp, *frame_index, *episode_index, *index, *task_index;
} sg_make_rows;

typedef struct sg_make {
    const char *path;
    sg_make_options o; /* without zeros */
    int64_t frames;    /* of all episodes */
    int64_t drawn;     /* frames of cameras, for progress */
    const sg_codec_api *video, *image;
    sg_make_rows rows;
    uint8_t *rgb;    /* one frame, [3, height, width] */
    sg_scene *scene; /* of one camera in one episode, the latest drawn */
    int64_t scene_camera, scene_episode;
} sg_make;

/* ---- the kinds ---- */
sg_code sg_make_lerobot(sg_make *make, sg_status *status);
sg_code sg_make_images(sg_make *make, sg_status *status);
sg_code sg_make_robomimic(sg_make *make, sg_status *status);
sg_code sg_make_libero(sg_make *make, sg_status *status);
sg_code sg_make_aloha(sg_make *make, sg_status *status);

/* ---- what is recorded ---- */
extern const char SG_MAKE_TASK[]; /* what the robot was told */
sg_code sg_make_rows_new(sg_make *make, sg_status *status);
void sg_make_rows_free(sg_make_rows *rows);
/* Draws into rgb: [3, height, width], and counts its levels where counts is given. SG_NO: it was told to stop. */
sg_code sg_make_draw(sg_make *make, int64_t camera, int64_t episode, int64_t frame, uint8_t *rgb,
                     sg_level_counts *counts, sg_status *status);
/* The frame as a PNG or JPEG; *bytes is free'd by the caller. */
sg_code sg_make_image(sg_make *make, int64_t camera, int64_t episode, int64_t frame, sg_level_counts *counts,
                      uint8_t **bytes, size_t *n, sg_status *status);

/* ---- statistics, as JSON of LeRobot's form; NULL: no memory ---- */
/* {"min", "max", "mean", "std", "count", "q01" ..}: lists of `width` numbers over `rows` rows. */
json_t *sg_make_numbers_stats(const double *numbers, int64_t rows, int64_t width);
/* The same of frames with channels from 0 to 1, each statistic [3, 1, 1]; `frames` is the count. */
json_t *sg_make_frames_stats(const sg_level_counts *counts, int64_t frames);

/* ---- files ---- */
/* Path below the data set's folder. SG_BAD_INPUT: too long. */
sg_code sg_make_path(const sg_make *make, char *out, sg_status *status, const char *format, ...) SG_PRINTF(4, 5);
/* Makes the folders that lead to this file. */
sg_code sg_make_way(const sg_make *make, const char *file, sg_status *status);
/* Writes a new file. */
sg_code sg_make_write(const char *path, const void *bytes, size_t n, sg_status *status);
/* Writes and frees the value (NULL: no memory): a file of indented JSON, or a list as one line of JSON per item. */
sg_code sg_make_json(const sg_make *make, const char *name, json_t *value, sg_status *status);
sg_code sg_make_json_lines(const sg_make *make, const char *name, json_t *list, sg_status *status);
/* Removes all that lies in the folder, and the folder itself unless `keep`. */
void sg_make_remove(const char *path, bool keep);

#endif
