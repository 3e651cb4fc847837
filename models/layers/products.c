/* products.c: matrix products with a scale, an added matrix or a chosen memory order, as attention needs them. */
#include "models/layers/products.h"

/* Under autocast products take the narrow dtype; activations are cast each time (only weights' casts are kept). */
static sg_tid narrowed(sg_graph *g, sg_tid x) {
    const sg_profile *profile = sg_graph_profile(g);
    return profile->autocast ? sg_to(g, x, profile->autocast_dtype) : x;
}

/* Descriptor of a b, in row-major order of sizes. False once the graph has failed. */
static bool product_desc(const sg_graph *g, sg_tid a, sg_tid b, sg_desc *out) {
    if (sg_graph_failed(g)) return false;
    const sg_desc *left = sg_desc_of(g, a), *right = sg_desc_of(g, b);
    int64_t size[SG_MAX_DIMS];
    for (int d = 0; d < left->ndim; d++) size[d] = left->size[d];
    size[left->ndim - 1] = right->size[right->ndim - 1];
    *out = sg_desc_make((sg_dtype)left->dtype, left->ndim, size);
    return true;
}

static sg_tid product(sg_graph *g, sg_tid a, sg_tid b, double alpha, sg_tid added, const sg_desc *desc) {
    sg_attrs attrs = {.compute = sg_compute_of(sg_graph_profile(g), (sg_dtype)desc->dtype, false), .alpha = alpha};
    sg_tid in[3] = {a, b, added}, out = SG_NO_TENSOR;
    if (added != SG_NO_TENSOR) attrs.flags = SG_HAS_RESIDUAL;
    sg_emit(g, SG_OP_MATMUL, &attrs, in, added == SG_NO_TENSOR ? 2 : 3, desc, &out, 1);
    return out;
}

sg_tid sg_matmul_scaled(sg_graph *g, sg_tid a, sg_tid b, double alpha, sg_tid added) {
    sg_desc desc;
    a = narrowed(g, a);
    b = narrowed(g, b);
    if (!product_desc(g, a, b, &desc)) return SG_NO_TENSOR;
    if (added != SG_NO_TENSOR) added = sg_expand(g, narrowed(g, added), desc.ndim, desc.size);
    return product(g, a, b, alpha, added, &desc);
}

sg_tid sg_matmul_heads(sg_graph *g, sg_tid a, sg_tid b) {
    sg_desc desc;
    a = narrowed(g, a);
    b = narrowed(g, b);
    if (!product_desc(g, a, b, &desc)) return SG_NO_TENSOR;
    int64_t heads = desc.size[1], tokens = desc.size[2], head = desc.size[3];
    desc.stride[0] = tokens * heads * head;
    desc.stride[1] = head;
    desc.stride[2] = heads * head;
    return product(g, a, b, 1.0, SG_NO_TENSOR, &desc);
}
