/* spawn_ranks.h: starts a program as N ranks on this machine without any launcher; they meet over TCP.
 *
 * Each rank gets the variables STEPGAUGE_RANK, STEPGAUGE_RANKS, STEPGAUGE_LOCAL_RANK, STEPGAUGE_LOCAL_RANKS,
 * STEPGAUGE_ADDRESS, STEPGAUGE_PORT and STEPGAUGE_SECRET, and rank 0 the listening socket STEPGAUGE_LISTENER, so that
 * nobody else can take the port (rank_variables.h reads them). */
#ifndef SG_SIM_RANKS_SPAWN_RANKS_H
#define SG_SIM_RANKS_SPAWN_RANKS_H

#include "sim/ranks/launch_ranks.h"

/* As sg_launch_ranks. The status names the first rank that was killed, and its signal. When a rank fails, the others have
 * a few seconds to say what they know, and are ended then. */
sg_code sg_spawn_ranks(int ranks, char *const argv[], const sg_launch_ranks_options *options, int *exit_status,
                       sg_status *status);

#endif
