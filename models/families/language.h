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

typedef struct sg_language_policy {
    void *policy;                                  /* handed to the functions below; both run inside module "model" */
    void (*parameters)(sg_graph *g, void *policy); /* called once */
    sg_tid (*logits)(sg_graph *g, void *policy);   /* -> [b, t, vocabulary] */
} sg_language_policy;
/* The training. Nothing of it in a graph that has failed already. */
void sg_language_build(sg_graph *g, const sg_family_build *build, const sg_language *language,
                       const sg_language_policy *policy);

/* Fail the graph unless heads divide the width, or tokens have positions enough; the names are the configuration's. */
void sg_language_check_heads(sg_graph *g, const char *width_key, int64_t width, const char *heads_key, int64_t heads);
void sg_language_check_positions(sg_graph *g, const sg_language *language, const char *key, int64_t positions);

/* Normal with this sd, as Hugging Face initialises; zero bias. weight[out, in]. */
sg_linear_layer sg_language_linear(sg_graph *g, const char *name, int64_t in, int64_t out, bool bias);
/* "weight"[rows, width] of an embedding module */
sg_tid sg_language_embedding(sg_graph *g, const char *name, int64_t rows, int64_t width);

/* i64[1, t]: the tokens' numbers from 0. */
sg_tid sg_language_places(sg_graph *g, const sg_language *language);
/* What scores are added to, 0 where a token is seen and else the least number: [b, 1, 1, t], or causal [b, 1, t, t] where
 * tokens see only those before them. No token is padding. */
sg_tid sg_language_mask(sg_graph *g, const sg_language *language, bool causal);

#endif
