/* rank_variables.h: is this process one of several ranks that somebody started, and where do they meet? */
#ifndef SG_SIM_RANKS_RANK_VARIABLES_H
#define SG_SIM_RANKS_RANK_VARIABLES_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum sg_rank_meeting {
    SG_MEET_MPI, /* the launcher brings them together: kernels/mpi */
    SG_MEET_TCP, /* at an address and port: kernels/tcp */
    SG_MEET_EITHER
} sg_rank_meeting;

typedef struct sg_rank_variables {
    bool found;
    int rank, ranks;      /* ranks 0: the launcher does not tell */
    int local_rank;       /* among those on this machine: which of the GPUs that it sees is its */
    int local_ranks;      /* on this machine; 0: the launcher does not tell */
    const char *launcher; /* "mpirun", "srun", "torchrun" ... */
    sg_rank_meeting meeting;
    /* but for SG_MEET_MPI: what sg_tcp_options wants */
    char address[256], secret[512];
    int port, ports, listener;
} sg_rank_variables;

/* Reads the variables that launchers set, in this order: our own (STEPGAUGE_RANK ..., see spawn_ranks.h), mpirun's
 * (OMPI_COMM_WORLD_RANK), torchrun's (RANK beside TORCHELASTIC_RUN_ID), PMI_RANK, those of a Slurm step (SLURM_PROCID),
 * PMIX_RANK, and RANK with MASTER_ADDR. They only tell what is claimed: joining finds out whether the peers are there.
 * SG_BAD_INPUT: nonsense in one of them, or some are missing. */
sg_code sg_rank_variables_read(sg_rank_variables *variables, sg_status *status);

/* First host of a Slurm node list: "node[07-09,12],other" is "node07". False when it is none, or longer than `bytes`. */
bool sg_slurm_first_host(const char *list, char *host, size_t bytes);

#endif
