/* widen.h: a training with every floating-point tensor in double, so that central differences are good to 1e-8.
 *
 * Entries, arguments, parameters, inputs and blocks stay; storages, tensors and ops are copied with F64 in the place of
 * F32, BF16 and F16. Casts between them become copies. */
#ifndef SG_TESTS_SUPPORT_WIDEN_H
#define SG_TESTS_SUPPORT_WIDEN_H

#include "models/training.h"

/* The original must outlive the copy. The result is for walking and reading; free it with sg_widen_free alone. */
sg_training *sg_widen(const sg_training *training);
void sg_widen_free(sg_training *wide);

#endif
