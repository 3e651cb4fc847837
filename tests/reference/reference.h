/* reference.h: the device that judges the others: plain double loops, one file per group of kinds.
 *
 * Every op reads its inputs as row-major doubles whatever their dtype and strides, computes in double, and rounds once to
 * the dtype of its outputs. Integers are exact up to 2^53. Nothing is shared with kernels/cpu except the mapping from
 * (seed, step, salt, sample) to random numbers in kernels/philox.h. */
#ifndef SG_TESTS_REFERENCE_REFERENCE_H
#define SG_TESTS_REFERENCE_REFERENCE_H

#include "kernels/device.h"

/* options->index 0: frameworks allocate as on a CPU; 1: through a caching allocator, as on CUDA. Fresh memory is filled
 * with NaNs (integers: -1), so that a result made of unwritten memory shows. One host thread, streams run in line. */
enum { SG_REFERENCE_CPU, SG_REFERENCE_CACHING };
const sg_device_api *sg_reference_device(void);
/* Launch number `at` from now on (the next is 0) makes factor * x + offset of every x of output `output`, once; at < 0: none
 * does. With it tests prove that they would notice a wrong gradient. */
void sg_reference_disturb(sg_device *device, int64_t at, int output, double factor, double offset);

/* Row-major doubles of a tensor at `at` (its first element), and back with one rounding (to nearest, ties to even;
 * integers: truncated and saturated, NaN to 0; bool: x != 0). A stride of 0 is written more than once: the last wins. */
void sg_reference_read(const sg_desc *desc, const void *at, double *out);
void sg_reference_write(const sg_desc *desc, void *at, const double *values);
/* `value` as dtype would hold it. */
double sg_reference_round(sg_dtype dtype, double value);
/* One op on dense row-major doubles, without rounding: in[n_in], out[n_out]; out need not be cleared. */
sg_code sg_reference_compute(const sg_op *op, const double *const *in, double *const *out, const sg_launch *launch,
                             sg_status *status);
/* Whether the device computes this kind. */
bool sg_reference_has(sg_op_kind kind);

#endif
