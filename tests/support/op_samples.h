/* op_samples.h: one small sound op of every kind. */
#ifndef SG_TESTS_SUPPORT_OP_SAMPLES_H
#define SG_TESTS_SUPPORT_OP_SAMPLES_H

#include "tests/support/op_case.h"

/* Begins a case of this kind with inputs that fit each other in fp32. False for a kind without a sample. */
bool op_sample(op_case *c, sg_op_kind kind);

#endif
