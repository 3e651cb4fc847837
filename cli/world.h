/* world.h: is this process one rank of several, and starting ranks for `measure --ranks N`. */
#ifndef SG_CLI_WORLD_H
#define SG_CLI_WORLD_H

#include "cli/args.h"
#include "kernels/module.h"
#include "sim/files/run_file.h"

typedef struct sg_world {
    int rank, ranks;
    int local_rank;          /* among those on this machine: which of its GPUs is this rank's */
    sg_transport *transport; /* NULL with one rank */
    bool must_launch;        /* more than one rank was asked for and nobody has started them yet */
} sg_world;

/* Started as a rank by mpirun, srun, torchrun or this program: joins the peers (an error within 30 s when they cannot be
 * reached). Else: one rank, or must_launch when --ranks or --gpus asks for more. */
sg_code sg_world_join(const sg_args *args, sg_world *world, sg_status *status);
void sg_world_leave(sg_world *world);
/* This rank cannot go on: the others are told why and end too. */
void sg_world_fail(sg_world *world, const char *why);
/* Whether this rank should tell of a failure: what all ranks learn of one of them is not told by all. */
bool sg_world_speaks(const sg_world *world);

/* Shows what the ranks of this command left in the run file; returns the exit status, `result` unless showing failed. */
typedef int (*sg_world_show)(const sg_args *args, const sg_run *run, int result);
int sg_world_show_points(const sg_args *args, const sg_run *run, int result);

/* Runs this command again as each of the rank counts asked for, and shows what they measured. Returns the exit status. */
int sg_world_launch(const sg_args *args, const volatile int *stop, sg_world_show show);

#endif
