/* real_data.h: whether --dataset holds samples that can be loaded, and which layers of loading are measured. */
#ifndef SG_CLI_REAL_DATA_H
#define SG_CLI_REAL_DATA_H

#include "cli/args.h"
#include "datasets/catalogue/catalogue.h"
#include "models/policy.h"

/* The layers of a pipeline, told apart: frames decoded from memory (synthetic), files in the page cache, files on the disk. */
enum { SG_LAYER_SYNTHETIC, SG_LAYER_CACHED, SG_LAYER_COLD, SG_LAYER_COUNT };

typedef struct sg_real_data {
    sg_catalogue *catalogue; /* NULL: synthetic batches alone */
    bool layer[SG_LAYER_COUNT];
    bool is_cached; /* its files were read, and not dropped since */
} sg_real_data;

/* "synthetic", "cached", "cold" */
const char *sg_layer_name(int layer);
/* Opens the data set that --dataset names where it holds data, not sizes alone, and takes --layers: by default cached, with the
 * two others beside it where `all`. Without data, and for a policy that looks at no camera, the synthetic layer alone.
 * SG_BAD_INPUT: an unknown layer; layers of files where there are none. */
sg_code sg_real_data_open(const sg_args *args, const sg_policy_request *policy, bool all, sg_real_data *data,
                          sg_status *status);
void sg_real_data_close(sg_real_data *data);
/* Brings the files into the state that a layer stands for. SG_NO, with the reason: not possible here, leave the layer out. */
sg_code sg_real_data_prepare(sg_real_data *data, int layer, const volatile int *stop, sg_status *status);

#endif
