/* launch_ranks.h: starts a program as N ranks on this machine with Open MPI's mpirun. */
#ifndef SG_SIM_RANKS_LAUNCH_RANKS_H
#define SG_SIM_RANKS_LAUNCH_RANKS_H

#include "kernels/status.h"

#include <stdbool.h>

typedef struct sg_launch_ranks_options {
    double timeout_s; /* ends all ranks after this time; 0: none */
    double grace_s;   /* how long ranks may take to end when told to; 0: 5 s */
    double finish_s;  /* how long they may take to finish what they are at after the first SIGINT; 0: 120 s */
} sg_launch_ranks_options;

/* Runs argv (argv[0]: the program; NULL at the end) as `ranks` processes and waits for them. Standard output and error are
 * theirs, standard input is empty. The first SIGINT that reaches this process meanwhile becomes SIGUSR1 for every rank: finish
 * the iteration together, keep what was measured. A second one, SIGTERM and SIGHUP end them. Nothing of the tree outlives this
 * call. *exit_status: that of the first rank that failed, 0 when none did, 128 + signal when a signal
 * ended them (130: SIGINT). SG_MACHINE: mpirun is missing or cannot be started, or the time was over, or a rank was killed by
 * a signal that did not come from here, which the status names. options may be NULL. */
sg_code sg_launch_ranks(int ranks, char *const argv[], const sg_launch_ranks_options *options, int *exit_status,
                        sg_status *status);

/* Whether there is an mpirun. */
bool sg_launch_ranks_possible(void);

#endif
