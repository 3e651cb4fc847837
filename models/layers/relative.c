/* relative.c: T5's relative positions (Raffel et al. 2020; transformers, _relative_position_bucket). */
#include "models/layers/relative.h"

#include <math.h>

/* Distances below half the buckets have one each, larger ones share buckets that grow with the logarithm. */
static sg_tid bucket_of(sg_graph *g, int64_t buckets, int64_t max_distance, sg_tid distance) {
    double exact = (double)(buckets / 2), rest = (double)buckets - exact;
    sg_tid near = sg_compare_scalar(g, SG_FN_LT, distance, exact);
    sg_tid far = sg_unary(g, SG_FN_CLAMP, distance, 1, INFINITY);
    far = sg_unary(g, SG_FN_LOG, sg_unary(g, SG_FN_DIV_SCALAR, far, exact, 0), 0, 0);
    far = sg_unary(g, SG_FN_AFFINE, far, rest / log((double)max_distance / exact), exact);
    far = sg_unary(g, SG_FN_CLAMP, sg_unary(g, SG_FN_FLOOR, far, 0, 0), 0, (double)(buckets - 1));
    return sg_where(g, near, distance, far);
}

sg_tid sg_relative_bias(sg_graph *g, const sg_relative *relative, sg_tid table, int64_t tokens) {
    sg_no_grad_begin(g);
    sg_tid index = sg_arange(g, SG_F32, 0, 1, tokens);
    sg_tid key = sg_view(g, index, 2, (int64_t[]){1, tokens}), query = sg_view(g, index, 2, (int64_t[]){tokens, 1});
    sg_tid distance = sg_sub(g, key, query), bucket;
    if (relative->both_sides) {
        sg_tid behind = sg_to(g, sg_compare_scalar(g, SG_FN_GT, distance, 0), SG_F32);
        bucket = bucket_of(g, relative->buckets / 2, relative->max_distance, sg_unary(g, SG_FN_ABS, distance, 0, 0));
        bucket = sg_add(g, bucket, sg_scale(g, behind, (double)(relative->buckets / 2)));
    } else {
        distance = sg_unary(g, SG_FN_CLAMP, sg_unary(g, SG_FN_NEG, distance, 0, 0), 0, INFINITY);
        bucket = bucket_of(g, relative->buckets, relative->max_distance, distance);
    }
    bucket = sg_to(g, bucket, SG_I64);
    sg_no_grad_end(g);
    sg_tid bias = sg_permute(g, sg_embedding(g, table, bucket), (const int[]){2, 0, 1});
    return sg_unsqueeze(g, bias, 0);
}
