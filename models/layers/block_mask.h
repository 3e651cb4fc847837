/* block_mask.h: which tokens of a prefix and an action chunk see each other (big_vision's make_attn_mask). */
#ifndef SG_MODELS_LAYERS_BLOCK_MASK_H
#define SG_MODELS_LAYERS_BLOCK_MASK_H

#include "models/ops.h"

/* bool[b, t, t]: a token sees the valid tokens of the blocks up to its own. start[b, t]: 1 where a block begins (numbers);
 * valid: bool[b, t]. rows_too: tokens that are not valid see nothing, as openpi has it; else what the valid ones of their block
 * see, which changes nothing for those and leaves fused attention no row without a sum. */
sg_tid sg_block_mask(sg_graph *g, sg_tid start, sg_tid valid, bool rows_too);

#endif
