/* heads.c: attention as the separate framework calls of Hugging Face's eager code. */
#include "models/layers/heads.h"

sg_tid sg_heads_split(sg_graph *g, sg_tid x, int64_t heads) {
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    const sg_desc d = *sg_desc_of(g, x);
    x = sg_view(g, x, 4, (int64_t[]){d.size[0], d.size[1], heads, d.size[2] / heads});
    return sg_transpose(g, x, 1, 2);
}

sg_tid sg_heads_join(sg_graph *g, sg_tid x) {
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    const sg_desc d = *sg_desc_of(g, x);
    x = sg_contiguous(g, sg_transpose(g, x, 1, 2));
    return sg_view(g, x, 3, (int64_t[]){d.size[0], d.size[2], d.size[1] * d.size[3]});
}

sg_tid sg_heads_scores(sg_graph *g, sg_tid query, sg_tid key) {
    return sg_matmul(g, query, sg_transpose(g, key, -2, -1));
}

sg_tid sg_heads_mix(sg_graph *g, sg_tid scores, sg_tid value, double dropout) {
    return sg_matmul(g, sg_dropout(g, sg_softmax(g, scores), dropout, 0, 1), value);
}

double sg_least_score(const sg_graph *g) {
    switch (sg_float(g)) {
    case SG_BF16: return -3.3895313892515355e38;
    case SG_F16: return -65504;
    default: return -3.4028234663852886e38;
    }
}

sg_tid sg_causal_mask(sg_graph *g, int64_t tokens) {
    sg_tid index = sg_arange(g, sg_float(g), 0, 1, tokens);
    sg_tid column = sg_view(g, index, 4, (int64_t[]){1, 1, 1, tokens});
    sg_tid row = sg_view(g, index, 4, (int64_t[]){1, 1, tokens, 1});
    return sg_binary(g, SG_FN_LE, column, row, 0);
}
