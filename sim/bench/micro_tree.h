/* micro_tree.h: micro-benchmarks as groups of a run file (docs/run-file.md). */
#ifndef SG_SIM_BENCH_MICRO_TREE_H
#define SG_SIM_BENCH_MICRO_TREE_H

#include "sim/bench/micro.h"
#include "sim/files/hdf5_tree.h"
#include "sim/measure/point_fields.h"

sg_fields sg_micro_config_fields(void); /* of sg_micro_config, by name: the order of the canonical JSON */
sg_fields sg_micro_fields(void);        /* of sg_micro, without config and key */

/* SG_BAD_INPUT names the field that a file cannot hold (infinite, negative count, text that is not clean). */
sg_code sg_micro_to_tree(const sg_micro *micro, int64_t sequence, sg_h5tree *group, sg_status *status);
sg_code sg_micro_from_tree(const sg_h5tree *group, sg_micro *micro, int64_t *sequence, sg_status *status);

#endif
