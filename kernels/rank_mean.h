/* rank_mean.h: the element-wise mean of one slice of every rank, in rank order, whoever computes it. */
#ifndef SG_KERNELS_RANK_MEAN_H
#define SG_KERNELS_RANK_MEAN_H

#include "kernels/op.h"

/* out[i] = mean over r of part[r][i]. fp32: summed in double and rounded once, so the result is the mean to fp32 rounding;
 * bf16: summed in fp32 and rounded to nearest even. out may be one of the parts. */
void sg_rank_mean(sg_dtype dtype, const void *const *part, int parts, int64_t count, void *out);

#endif
