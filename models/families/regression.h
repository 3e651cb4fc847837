/* regression.h: batch, loss and training of the generic families: inputs, targets, mean squared or absolute error. */
#ifndef SG_MODELS_FAMILIES_REGRESSION_H
#define SG_MODELS_FAMILIES_REGRESSION_H

#include "models/families/supervised.h"

typedef struct sg_regression {
    sg_tid raw_input, raw_target; /* from the loader */
    sg_tid input, target;         /* normalised; token ids as they came */
    sg_statistics input_statistics, target_statistics;
    bool tokens, absolute;
} sg_regression;

/* Inputs in [0, high) (i64: token ids below high). Reads the key "loss". */
sg_regression sg_regression_make(sg_graph *g, const sg_options *options, const sg_desc *input, double high,
                                 const sg_desc *target);
void sg_regression_preprocess(sg_graph *g, const sg_regression *regression);
/* y like the target -> scalar */
sg_tid sg_regression_loss(sg_graph *g, const sg_regression *regression, sg_tid y);
/* The training, with AdamW by the common optimizer keys. */
void sg_regression_build(sg_graph *g, const sg_family_build *build, void *policy,
                         void (*preprocess)(sg_graph *g, void *policy), sg_tid (*forward)(sg_graph *g, void *policy));

#endif
