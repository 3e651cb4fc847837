/* round_machine.h: a machine of round numbers, and ops whose prices on it follow by hand. */
#ifndef SG_TESTS_SUPPORT_ROUND_MACHINE_H
#define SG_TESTS_SUPPORT_ROUND_MACHINE_H

#include "kernels/virtual/machine.h"

typedef struct sg_sample_op {
    sg_op op;
    sg_desc desc[16];
} sg_sample_op;

/* Group 0, log sd 0; nothing in it needs to be freed. */
sg_machine sg_round_machine(void);

/* Failures of all of these end the running test; op.desc points into the sample. */
void sg_make_matmul(sg_sample_op *s, int64_t m, int64_t k, int64_t n, sg_compute compute);
void sg_make_conv(sg_sample_op *s, int64_t channels);
void sg_make_unary(sg_sample_op *s, int64_t n);
void sg_make_foreach(sg_sample_op *s, int64_t n);

#endif
