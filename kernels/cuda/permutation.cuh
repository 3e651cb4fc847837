/* permutation.cuh: RANDOM PERMUTATION, in a file of its own. */
#ifndef SG_KERNELS_CUDA_PERMUTATION_CUH
#define SG_KERNELS_CUDA_PERMUTATION_CUH

#include "kernels/cuda/cuda.h"

/* Sets run and workspace_bytes. */
void sg_permutation_prepare(sg_plan *plan);

#endif
