/* measure_ranks.h: what the ranks of one measurement tell rank 0. */
#ifndef SG_SIM_MEASURE_MEASURE_RANKS_H
#define SG_SIM_MEASURE_MEASURE_RANKS_H

#include "kernels/transport.h"
#include "sim/measure/point.h"

/* Every rank calls it with its own point. On rank 0 the point then has update_s of all ranks, their spread, and, where the
 * ranks have GPUs of different models, the names of all: such a point says so and fits no rates. transport may be NULL: one
 * rank alone. */
sg_code sg_measure_gather(sg_transport *transport, sg_point *point, sg_status *status);
/* The models of all ranks' GPUs, "1 x NVIDIA L4 + 1 x NVIDIA T4", and how many different ones, on every rank; every rank calls
 * it with its own GPU's name. */
sg_code sg_rank_models(sg_transport *transport, const char *name, char *models, size_t bytes, size_t *count,
                       sg_status *status);

#endif
