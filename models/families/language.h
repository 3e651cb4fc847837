/* language.h: what transformers described by a Hugging Face configuration share: token ids, the loss over the
 * vocabulary, and the programs of a whole training step, of its gradients alone, or of inference. */
#ifndef SG_MODELS_FAMILIES_LANGUAGE_H
#define SG_MODELS_FAMILIES_LANGUAGE_H

#include "models/families/supervised.h"

typedef enum sg_language_step {
    SG_LANGUAGE_TRAIN,     /* forward, loss, backward, AdamW */
    SG_LANGUAGE_GRADIENTS, /* forward, loss, backward into gradients that exist already; no optimizer */
    SG_LANGUAGE_INFERENCE  /* forward alone, without dropout */
} sg_language_step;

typedef struct sg_language {
    sg_language_step step;
    int64_t batch, tokens, vocabulary;
    sg_tid ids, labels; /* i64[b, t] below vocabulary; labels SG_NO_TENSOR in inference */
} sg_language;

/* Reads the keys step, sequence_length and vocab_size. */
sg_language sg_language_make(sg_graph *g, const sg_family_build *build);
/* The probability itself, or 0 where dropout is off. */
double sg_language_dropout(const sg_language *language, double probability);
/* The training: logits(g, policy) -> [b, t, vocabulary]. */
void sg_language_build(sg_graph *g, const sg_family_build *build, const sg_language *language, void *policy,
                       sg_tid (*logits)(sg_graph *g, void *policy));
/* Fails the graph and returns false unless heads divide the width; the names are the configuration's. */
bool sg_language_check_heads(sg_graph *g, const char *width_key, int64_t width, const char *heads_key, int64_t heads);

/* Normal with this sd, as Hugging Face initialises; zero bias. weight[out, in]. */
sg_linear_layer sg_language_linear(sg_graph *g, const char *name, int64_t in, int64_t out, bool bias);
/* "weight"[rows, width] of an embedding module */
sg_tid sg_language_embedding(sg_graph *g, const char *name, int64_t rows, int64_t width);

#endif
