/* sample_order.h: in which order the samples of a data set are read: every epoch a shuffle of all of them, dealt to ranks batch
 * by batch. */
#ifndef SG_SIM_LOADER_SAMPLE_ORDER_H
#define SG_SIM_LOADER_SAMPLE_ORDER_H

#include <stdint.h>

/* Where `position` of 0 .. n - 1 comes to lie when 0 .. n - 1 are shuffled by (seed, epoch): a permutation computed place by
 * place, so that no worker holds a list. n >= 1. */
int64_t sg_shuffled(uint64_t seed, int64_t epoch, int64_t n, int64_t position);

typedef struct sg_sample_order {
    int64_t samples, batch;
    uint64_t seed;
    int rank, ranks;
} sg_sample_order;

/* Batches of this rank in an epoch. Nothing is dropped (LeRobot: drop_last false); the last batches are completed from the
 * epoch's beginning, as Hugging Face accelerate does for several ranks, because a step program's batch is of one size. */
int64_t sg_order_batches(const sg_sample_order *order);
/* Sample of row `row` of batch `index` of an epoch of this rank: batches go round the ranks. */
int64_t sg_order_sample(const sg_sample_order *order, int64_t epoch, int64_t index, int64_t row);

#endif
