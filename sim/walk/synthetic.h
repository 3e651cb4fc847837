/* synthetic.h: tensor contents that are functions of (key, sample, element in the sample) alone.
 *
 * A counter-based generator: element e of sample s is SplitMix64 (Steele, Lea, Flood, 2014) of (key, s, e). So N ranks
 * hold exactly the samples that one process with the N-fold batch holds, and every rank starts with equal weights. */
#ifndef SG_SIM_WALK_SYNTHETIC_H
#define SG_SIM_WALK_SYNTHETIC_H

#include "models/training.h"

typedef enum sg_synthetic_kind {
    SG_SYNTHETIC_UNIFORM, /* low .. high; integer dtypes: low .. high - 1 */
    SG_SYNTHETIC_NORMAL,  /* mean low, standard deviation high: sum of four uniforms, so within 3.5 deviations */
    SG_SYNTHETIC_CONSTANT /* low */
} sg_synthetic_kind;

typedef struct sg_synthetic {
    sg_synthetic_kind kind;
    double low, high;
    uint64_t key;
    int64_t first_sample; /* dim 0 counts samples from here; < 0: the whole tensor is one sample */
} sg_synthetic;

/* Mixes a key from parts: seed, step, tensor ... */
uint64_t sg_synthetic_key(uint64_t a, uint64_t b, uint64_t c);

/* Values of input `index` of a training in draw number `draw` of a step (micro-steps, environment steps): draws are laid
 * end to end, the ranks' samples side by side in each. */
sg_synthetic sg_synthetic_input(const sg_training *training, size_t index, uint64_t seed, uint64_t step, int64_t draw,
                                int rank, int ranks);

/* Fills the strided tensor that starts at `first`, in host memory. Values do not depend on strides. */
void sg_synthetic_fill(void *first, const sg_desc *desc, const sg_synthetic *what);

#endif
