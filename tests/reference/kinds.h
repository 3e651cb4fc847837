/* kinds.h: one function per op kind. Inputs and outputs are dense row-major doubles of the shapes in op->desc; outputs
 * arrive as zeros. They return SG_OK, or SG_BAD_INPUT where data (an index) is out of range, SG_MACHINE without memory. */
#ifndef SG_TESTS_REFERENCE_KINDS_H
#define SG_TESTS_REFERENCE_KINDS_H

#include "kernels/device.h"

typedef struct ref_call {
    const sg_op *op;
    const double *const *in;
    double *const *out;
    const sg_launch *launch;
    sg_status *status;
} ref_call;

typedef sg_code (*ref_kind)(const ref_call *call);

#define X(name, cls) sg_code ref_##name(const ref_call *call);
SG_OP_LIST(X)
#undef X

/* Descriptor of input or output i. */
const sg_desc *ref_in(const ref_call *call, int i);
const sg_desc *ref_out(const ref_call *call, int i);
/* Product of sizes of dims first..last-1. */
int64_t ref_extent(const sg_desc *desc, int first, int last);
/* Product of all dims but the last, and the last (1 for a scalar). */
int64_t ref_rows(const sg_desc *desc);
int64_t ref_last(const sg_desc *desc);
bool ref_flag(const ref_call *call, uint32_t flag);

/* elementwise.c. alpha with the Adam bias corrections of SG_STEP_SIZE and SG_STEP_SQRT applied. */
double ref_alpha(const sg_attrs *attrs, const sg_launch *launch);
double ref_unary_value(sg_fn fn, double x, double alpha, double beta);
double ref_binary_value(sg_fn fn, double x, double y, double alpha);
double ref_ternary_value(sg_fn fn, double x, double y, double z, double alpha, double beta);

#endif
