/* gpt_step.h: one optimizer step of a GPT trained data-parallel by Megatron-LM on A100s, as a closed form.
 *
 * Why not the walk: a walk of the same program (policy megatron, bf16) is within 1 to 8 % of rows that keep the GPU busy with
 * nothing fitted, but misses 2.9 % in the mean with five parameters fitted, because its host and its GPU meet as a hard maximum
 * where the rows show a smooth one, and because what the tables call a step is itself a model's (their single-node rows are
 * linear in the layers to five digits). This form has seven parameters and misses 1.3 % (1.9 % with configurations left out).
 *
 * Per micro-batch of b sequences of s tokens (tok = b s), h hidden, a heads, V tokens known, P peak and W bandwidth:
 *   products   72 tok h^2 w / (P e): forward and backward of the four products of a layer, w what whole waves of 256 x 128
 *              tiles over the SMs take more
 *   attention  r (12 tok s h / (P e) + b a s^2 c_a / W)
 *   layer      (( products + attention )^q + h0^q )^(1/q), h0 the host's time
 *   head       (( 6 tok h V / (P e_h) + 16 tok V / W )^q + hd^q )^(1/q)
 *   step = m (layers x layer + head) + parameters x c_o / W + exchange
 * r = 4/3 where activations and state would not fit the memory: attention is then computed again in backward (selective
 * recomputation). Gradients are exchanged beside the backward within a node; across nodes the exchange comes on top. */
#ifndef SG_CALIBRATION_GPT_STEP_H
#define SG_CALIBRATION_GPT_STEP_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct sg_gpt_training {
    double micro, accumulation, ranks, hidden, heads, layers, tokens;
} sg_gpt_training;

/* What a GPU is, from its sheet. */
typedef struct sg_gpt_machine {
    double peak_flops, bandwidth, memory_bytes;
    int units;
} sg_gpt_machine;

enum { SG_GPT_TERMS = 7 };
typedef struct sg_gpt_numbers {
    double value[SG_GPT_TERMS]; /* e, c_a (bytes), h0 (s), q, c_o (bytes), hd (s), e_h */
} sg_gpt_numbers;

/* Fitted to 111 single-node rows of the vTrain tables. */
extern const sg_gpt_numbers SG_GPT_FITTED;

double sg_gpt_step_s(const sg_gpt_training *training, const sg_gpt_machine *machine, const sg_gpt_numbers *numbers);
/* True where attention is computed again because memory does not hold what it makes. */
bool sg_gpt_recomputes(const sg_gpt_training *training, const sg_gpt_machine *machine);

/* Robust least squares on ln(predicted / measured) over n trainings; the fitted numbers are the start and, weakly, the
 * prior. SG_BAD_INPUT: fewer rows than numbers. */
sg_code sg_gpt_fit(const sg_gpt_training *trainings, const double *measured_s, size_t n, const sg_gpt_machine *machine,
                   sg_gpt_numbers *numbers, sg_status *status);

#endif
