/* scalar.h: the slow, general road: any dtype as double, one element at a time. Taken by fp64 and by integers that fp32
 * cannot carry (i32, i64; exact up to 2^53). */
#ifndef SG_KERNELS_CPU_SCALAR_H
#define SG_KERNELS_CPU_SCALAR_H

#include "kernels/op.h"

/* Element of any dtype; stores round once (integers truncate and saturate, NaN to 0; bool: x != 0). */
double sg_scalar_load(sg_dtype dtype, const void *at);
void sg_scalar_store(sg_dtype dtype, void *at, double value);
/* n elements, `stride` elements apart. */
void sg_scalar_load_run(sg_dtype dtype, double *to, const void *from, int64_t n, int64_t stride);
void sg_scalar_store_run(sg_dtype dtype, void *to, const double *from, int64_t n, int64_t stride);

double sg_scalar_unary(sg_fn fn, double x, double a, double b);
double sg_scalar_slope(sg_fn fn, double s, double a, double b); /* derivative; s as in UNARY_BWD */
double sg_scalar_binary(sg_fn fn, double x, double y, double a);
double sg_scalar_ternary(sg_fn fn, double x, double y, double z, double a, double b);

#endif
