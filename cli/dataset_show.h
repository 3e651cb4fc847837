/* dataset_show.h: what a data set holds, shown. */
#ifndef SG_CLI_DATASET_SHOW_H
#define SG_CLI_DATASET_SHOW_H

#include "cli/show.h"
#include "datasets/catalogue/catalogue.h"

/* What the first video of a camera holds, beside what the data set says of it. */
typedef struct sg_seen_camera {
    int64_t gop;       /* 0: no video, not known, or only one key frame */
    char warning[512]; /* why it cannot be read, or how it differs; "" none */
} sg_seen_camera;

/* A camera's videos are looked into by a child process. seen: one per camera. */
void sg_dataset_look(const sg_catalogue *catalogue, sg_seen_camera *seen);
/* Warnings go to stderr. */
void sg_print_dataset(const sg_catalogue *catalogue, const sg_seen_camera *seen);
/* {path, name, kind, version, episodes, frames, fps, state_dim, action_dim, tables, tables_why, cameras, loading, warnings}; what is
 * not known is null. */
json_t *sg_json_dataset(const sg_catalogue *catalogue, const sg_seen_camera *seen);

#endif
