/* dataset.h: facts that a data set on disk states about itself. */
#ifndef SG_DATASETS_CATALOGUE_DATASET_H
#define SG_DATASETS_CATALOGUE_DATASET_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stdint.h>

/* LeRobot: meta/info.json of v2.0, v2.1, v3.0. Folders of images and HDF5 demonstrations: what is found in them; version and
 * robot are "". */
typedef struct sg_dataset {
    char path[512], version[16], robot[64];
    int64_t frames, episodes, tasks;
    double fps;
    int64_t cameras, image_height, image_width; /* of the first camera; `mixed_sizes` when they differ */
    bool mixed_sizes;
    int64_t state_dim, action_dim;
    char codec[24];
} sg_dataset;

/* path: a data set folder, its meta folder, an info.json, or an HDF5 file. Bad JSON: line and column. */
sg_code sg_dataset_read(const char *path, sg_dataset *dataset, sg_status *status);

#endif
