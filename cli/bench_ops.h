/* bench_ops.h: `bench ops`: times of operations as robot-learning policies shape them. */
#ifndef SG_CLI_BENCH_OPS_H
#define SG_CLI_BENCH_OPS_H

#include "cli/args.h"

/* Runs short training steps of policies with few layers, each operation timed by itself, and records them as points: what
 * `fit` learns shapes from. Returns the exit status. */
int sg_bench_ops(const sg_args *args);

#endif
