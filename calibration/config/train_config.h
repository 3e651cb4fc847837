/* train_config.h: what LeRobot's train_config.json says of a training. */
#ifndef SG_CALIBRATION_CONFIG_TRAIN_CONFIG_H
#define SG_CALIBRATION_CONFIG_TRAIN_CONFIG_H

#include "kernels/status.h"
#include "models/policy.h"

/* train_config.json: policy type and fields as settings. */
typedef struct sg_train_config {
    char policy[64];
    int64_t batch, steps, workers, save_freq, evaluate_freq, accumulation;
    bool environment; /* it evaluates in one */
    char precision[16];
    sg_setting *settings;
    size_t n_settings; /* policy fields that are known keys of the family */
    char dataset_repo[256];
} sg_train_config;
sg_code sg_train_config_read(const char *path, sg_train_config *config, sg_status *status);
void sg_train_config_clear(sg_train_config *config);

#endif
