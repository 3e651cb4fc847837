/* experts.h: a mixture of feed-forward experts with top-1 routing and a capacity, as Hugging Face's
 * SwitchTransformersSparseMLP: each expert in turn gathers its tokens, works on them and puts them back.
 *
 * A program's sizes are fixed, so how many tokens an expert gets does not follow the router: tokens are spread evenly
 * (token i of a sequence goes to expert i mod experts), or all choose the first expert (they are alike, as in a benchmark
 * on constant input); at most `capacity` of a sequence go to an expert, the rest stay as they are. The router's own work is
 * done all the same, and its probability scales the result. */
#ifndef SG_MODELS_LAYERS_EXPERTS_H
#define SG_MODELS_LAYERS_EXPERTS_H

#include "models/layers/gelu.h"
#include "models/layers/linear.h"

enum { SG_EXPERTS_MAX = 4096 };

typedef struct sg_experts_config {
    int64_t width, feedforward, experts, capacity; /* at most SG_EXPERTS_MAX experts; tokens >= experts */
    bool alike;                                    /* all tokens choose the same expert */
    sg_activation activation;
    double dropout, jitter; /* jitter: half width of the noise on the router's input; 0: none */
} sg_experts_config;

typedef struct sg_expert {
    sg_linear_layer up, down;
} sg_expert;

typedef struct sg_experts {
    sg_linear_layer router;
    const char *name;
    sg_expert *expert; /* [experts]; with the graph's names, not its owner: the family frees it */
} sg_experts;

/* expert: room for config->experts. */
sg_experts sg_experts_make(sg_graph *g, const char *name, const sg_experts_config *config, sg_expert *expert);
/* x[b, t, width] -> [b, t, width]. Two blocking reads per expert: the number of its tokens, before gathering them and
 * before putting them back. */
sg_tid sg_experts_apply(sg_graph *g, const sg_experts *experts, const sg_experts_config *config, sg_tid x);

/* width -> feedforward -> width without biases, dropout between, one such layer of an expert or a dense layer. */
sg_expert sg_expert_make(sg_graph *g, const char *name, const sg_experts_config *config);
sg_tid sg_expert_apply(sg_graph *g, const sg_expert *expert, const sg_experts_config *config, sg_tid x);

#endif
