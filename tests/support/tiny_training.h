/* tiny_training.h: a linear regression written out by hand as a training: what a walker must run, on one page.
 *
 * y = x w + noise-free target; loss = mean (x w - y)^2; AdamW. Programs: preprocess (copies), update; with accumulation
 * also a first micro-step that leaves its gradient. */
#ifndef SG_TESTS_SUPPORT_TINY_TRAINING_H
#define SG_TESTS_SUPPORT_TINY_TRAINING_H

#include "models/training.h"

typedef struct sg_tiny_options {
    int64_t batch, features, outputs;
    bool sync;    /* GRAD_READY and SYNC_GRADS entries */
    bool dropout; /* on x, so that randomness has a part */
    double lr;
} sg_tiny_options;

typedef struct sg_tiny {
    sg_training training;
    /* tensors of interest */
    int32_t x, y, w, prediction, loss, gradient, exp_avg, mask;
    int32_t preprocess, update; /* programs */
} sg_tiny;

/* Aborts when memory is wanting: tests have no use for less. */
sg_tiny *sg_tiny_new(const sg_tiny_options *options);
void sg_tiny_free(sg_tiny *tiny);

#endif
