/* make_lerobot.h: a LeRobot data set under way, for make_lerobot*.c alone. */
#ifndef SG_DATASETS_MAKE_MAKE_LEROBOT_H
#define SG_DATASETS_MAKE_MAKE_LEROBOT_H

#include "datasets/make/make_internal.h"

/* Files hold spans of episodes: one each in v2.0 and v2.1, several in v3.0. */
typedef struct sg_make_lerobot {
    sg_make *make;
    bool v3, video;
    int64_t span; /* episodes of a file; the last may hold fewer */
    /* levels of each camera, [cameras]: of the whole, and (v2.1) of the episode under way */
    sg_level_counts *total, *episode;
    json_t *episodes_stats; /* v2.1: what episodes_stats.jsonl tells */
} sg_make_lerobot_set;

/* "observation.images.top". */
void sg_lerobot_camera(int64_t camera, char name[SG_MAKE_NAME_BYTES]);
/* Episodes of the file that begins with episode `first`. */
int64_t sg_lerobot_span(const sg_make_lerobot_set *set, int64_t first);

/* The table of the episodes first .. first + n - 1, with their images where there is no video. */
sg_code sg_lerobot_data(sg_make_lerobot_set *set, int64_t first, int64_t n, sg_status *status);
/* One camera's video of these episodes. */
sg_code sg_lerobot_video(sg_make_lerobot_set *set, int64_t camera, int64_t first, int64_t n, sg_status *status);
/* Statistics over `rows` rows from row `first` on; NULL: no memory. */
json_t *sg_lerobot_stats(const sg_make_lerobot_set *set, int64_t first, int64_t rows, const sg_level_counts *levels);
/* What lies in meta/, info.json last: without it the folder is no data set. */
sg_code sg_lerobot_meta(sg_make_lerobot_set *set, sg_status *status);

#endif
