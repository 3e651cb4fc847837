/* dataset.h: facts that LeRobot's own files state: data set metadata, train_config.json, log lines. */
#ifndef SG_CALIBRATION_DATASET_H
#define SG_CALIBRATION_DATASET_H

#include "kernels/status.h"
#include "models/policy.h"

/* meta/info.json of v2.0, v2.1, v3.0. */
typedef struct sg_dataset {
    char path[512], version[16], robot[64];
    int64_t frames, episodes, tasks;
    double fps;
    int64_t cameras, image_height, image_width; /* of the first camera; `mixed_sizes` when they differ */
    bool mixed_sizes;
    int64_t state_dim, action_dim;
    char codec[24];
} sg_dataset;

/* path: a data set folder, its meta folder, or an info.json. Bad JSON: line and column. */
sg_code sg_dataset_read(const char *path, sg_dataset *dataset, sg_status *status);

/* train_config.json: policy type and fields as settings. */
typedef struct sg_train_config {
    char policy[64];
    int64_t batch, steps, workers, save_freq, accumulation;
    char precision[16];
    sg_setting *settings;
    size_t n_settings; /* policy fields that are known keys of the family */
    char dataset_repo[256];
} sg_train_config;
sg_code sg_train_config_read(const char *path, sg_train_config *config, sg_status *status);
void sg_train_config_clear(sg_train_config *config);

#endif
