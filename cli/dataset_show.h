/* dataset_show.h: what a data set holds, shown. */
#ifndef SG_CLI_DATASET_SHOW_H
#define SG_CLI_DATASET_SHOW_H

#include "cli/show.h"
#include "datasets/catalogue.h"

void sg_print_dataset(const sg_catalogue *catalogue);
/* {path, name, kind, version, episodes, frames, fps, state_dim, action_dim, tables, tables_why, cameras, loading}; what is
 * not known is null. */
json_t *sg_json_dataset(const sg_catalogue *catalogue);

#endif
