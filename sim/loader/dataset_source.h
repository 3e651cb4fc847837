/* dataset_source.h: samples of a data set on disk as the inputs of a training: frames of its cameras into the image inputs, rows
 * of state and action into the inputs of that name and size. */
#ifndef SG_SIM_LOADER_DATASET_SOURCE_H
#define SG_SIM_LOADER_DATASET_SOURCE_H

#include "models/training.h"
#include "sim/loader/sample_source.h"

typedef struct sg_dataset_source sg_dataset_source;

/* Image inputs get the data set's cameras in order; a camera of another size than the input's is cut, or has black beside it.
 * SG_BAD_INPUT: the policy looks at more cameras than there are, or at none. Catalogue and training must outlive it. */
sg_code sg_dataset_source_open(const sg_catalogue *catalogue, const sg_training *training, sg_dataset_source **source,
                               sg_status *status);
void sg_dataset_source_close(sg_dataset_source *source); /* NULL is allowed */
const sg_sample_source *sg_dataset_source_samples(const sg_dataset_source *source);

/* Reads every file that frames lie in once, so that they are in the page cache. SG_NO: they take more than what is free of
 * memory allows. Leaves early, SG_MACHINE "interrupted", when *stop (may be NULL) is set. */
sg_code sg_dataset_make_cached(const sg_catalogue *catalogue, volatile const int *stop, sg_status *status);

#endif
