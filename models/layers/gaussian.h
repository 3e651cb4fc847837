/* gaussian.h: a diagonal normal distribution over actions, as torch.distributions.Normal computes it. */
#ifndef SG_MODELS_LAYERS_GAUSSIAN_H
#define SG_MODELS_LAYERS_GAUSSIAN_H

#include "models/ops.h"

typedef struct sg_gaussian {
    sg_tid mean, deviation; /* [b, a] */
} sg_gaussian;

/* deviation[a], kept from vanishing, for each row of mean[b, a]: 1 op. */
sg_gaussian sg_gaussian_make(sg_graph *g, sg_tid mean, sg_tid deviation);
/* A draw [b, a] without gradient: one framework call. */
sg_tid sg_gaussian_sample(sg_graph *g, const sg_gaussian *d);
/* Sum over a of the log density at action[b, a]: [b]; 10 ops. */
sg_tid sg_gaussian_log_density(sg_graph *g, const sg_gaussian *d, sg_tid action);
/* Sum over a of the entropy: [b]; 3 ops. */
sg_tid sg_gaussian_entropy(sg_graph *g, const sg_gaussian *d);
/* Mean over b of the divergence of d from `old`: scalar; 13 ops (rsl_rl's formula). */
sg_tid sg_gaussian_mean_kl(sg_graph *g, const sg_gaussian *d, const sg_gaussian *old);

#endif
