/* products.h: matrix products with a scale, an added matrix or a chosen memory order, as our own attention uses
 * them. */
#ifndef SG_MODELS_LAYERS_PRODUCTS_H
#define SG_MODELS_LAYERS_PRODUCTS_H

#include "models/ops.h"

/* alpha a b + added in one op; a[..,m,k] b[..,k,n]; added broadcasts to [..,m,n], or SG_NO_TENSOR. */
sg_tid sg_matmul_scaled(sg_graph *g, sg_tid a, sg_tid b, double alpha, sg_tid added);
/* a[b,h,t,s] b[b,h,s,d] -> [b,h,t,d] whose memory is [b,t,h,d], so that joining heads again is a view. */
sg_tid sg_matmul_heads(sg_graph *g, sg_tid a, sg_tid b);

#endif
