/* block_mask.c: which tokens of a prefix and an action chunk see each other. */
#include "models/layers/block_mask.h"

sg_tid sg_block_mask(sg_graph *g, sg_tid start, sg_tid valid, bool rows_too) {
    sg_tid block = sg_cumsum(g, start, 1);
    sg_tid columns = sg_unsqueeze(g, block, 1), rows = sg_unsqueeze(g, block, 2);
    sg_tid mask = sg_binary(g, SG_FN_LE, columns, rows, 0);
    columns = sg_unsqueeze(g, valid, 1);
    if (!rows_too) return sg_binary(g, SG_FN_AND, mask, columns, 0);
    rows = sg_unsqueeze(g, valid, 2);
    sg_tid both = sg_mul(g, columns, rows);
    return sg_binary(g, SG_FN_AND, mask, both, 0);
}
