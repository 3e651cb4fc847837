/* request.h: from the command line (and the files it names) to a policy request. */
#ifndef SG_CLI_REQUEST_H
#define SG_CLI_REQUEST_H

#include "calibration/config/settings.h"
#include "calibration/config/train_config.h"
#include "cli/args.h"
#include "datasets/catalogue/dataset.h"

typedef struct sg_request {
    sg_policy_request policy; /* batch: the first of --batch */
    bool has_dataset, has_train_config;
    sg_dataset dataset;
    sg_train_config train_config;
    sg_settings config;
    sg_setting *settings; /* what policy.settings points to */
    size_t n_settings, room;
    char name[64];
    char text[32][64]; /* values of numeric options */
    size_t n_text;
} sg_request;

/* Later wins: train_config.json, data set, --config, options, --set. The device class is that of the machine walked on. */
sg_code sg_request_make(const sg_args *args, sg_device_class device_class, sg_request *request, sg_status *status);
void sg_request_clear(sg_request *request);

#endif
