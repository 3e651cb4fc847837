/* op_trainings.h: one small training per differentiable op: weights go through the op, a fixed random weighting of the
 * result is the loss. */
#ifndef SG_TESTS_SUPPORT_OP_TRAININGS_H
#define SG_TESTS_SUPPORT_OP_TRAININGS_H

#include "models/ops.h"

typedef struct sg_op_training {
    const char *name;
    /* Builds the differentiable part and returns its result, of any shape. */
    sg_tid (*build)(sg_graph *g, const struct sg_op_training *self);
    sg_fn fn;
    double alpha, beta; /* of fn */
    double centre;      /* of the weights that fn takes; 0: spread widely around zero */
} sg_op_training;

extern const sg_op_training SG_OP_TRAININGS[];
extern const size_t SG_N_OP_TRAININGS;
/* Ops that have no gradient: a loss that depends on a weight through one of them must be refused. */
extern const sg_op_training SG_OP_REFUSALS[];
extern const size_t SG_N_OP_REFUSALS;

/* Free with sg_training_free. */
sg_code sg_op_training_build(const sg_op_training *one, const sg_profile *profile, sg_training **training,
                             sg_status *status);

#endif
