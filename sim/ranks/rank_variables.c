#include "sim/ranks/rank_variables.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ports that rank 0 may choose from where a launcher gives only a number for all jobs. */
enum { PORTS = 8, SLURM_PORT = 20000, SLURM_PLACES = 1250 };

static const char *set(const char *name) {
    const char *value = name ? getenv(name) : NULL;
    return value && *value ? value : NULL;
}

/* Leaves *value alone when the variable is not set. */
static sg_code read_number(const char *name, int *value, sg_status *status) {
    const char *text = set(name);
    if (!text) return SG_OK;
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (*end || errno || number < 0 || number > 1 << 20)
        return sg_fail(status, SG_BAD_INPUT, "%s=%.40s is no number of a rank: unset it or start with --ranks N", name,
                       text);
    *value = (int)number;
    return SG_OK;
}

/* ---- where ranks meet over TCP ---------------------------------------------------------------------------------------- */

bool sg_slurm_first_host(const char *list, char *host, size_t bytes) {
    size_t used = 0;
    const char *at = list;
    while (*at && *at != ',') {
        if (used + 1 >= bytes) return false;
        if (*at != '[') {
            host[used++] = *at++;
            continue;
        }
        const char *close = strchr(at, ']');
        size_t digits = strspn(at + 1, "0123456789");
        if (!close || digits == 0 || used + digits >= bytes) return false;
        memcpy(host + used, at + 1, digits);
        used += digits;
        at = close + 1;
    }
    host[used] = 0;
    return used > 0;
}

static sg_code copy(const char *name, const char *text, char *to, size_t bytes, sg_status *status) {
    int n = snprintf(to, bytes, "%s", text);
    if (n >= 0 && (size_t)n < bytes) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "%s=%.40s... is longer than %zu characters", name, text, bytes - 1);
}

/* STEPGAUGE_* for ranks that are started by hand win over what a launcher implies. */
static sg_code meet_by_own(sg_rank_variables *v, sg_status *status) {
    sg_code code = SG_OK;
    if (set("STEPGAUGE_ADDRESS"))
        code = copy("STEPGAUGE_ADDRESS", set("STEPGAUGE_ADDRESS"), v->address, sizeof v->address, status);
    if (code == SG_OK && set("STEPGAUGE_SECRET"))
        code = copy("STEPGAUGE_SECRET", set("STEPGAUGE_SECRET"), v->secret, sizeof v->secret, status);
    if (code == SG_OK && set("STEPGAUGE_PORT")) {
        code = read_number("STEPGAUGE_PORT", &v->port, status);
        v->ports = 1;
    }
    if (code != SG_OK) return code;
    if (!v->address[0] || !v->secret[0] || v->port < 1 || v->port > 65535)
        return sg_fail(status, SG_BAD_INPUT,
                       "this is rank %d of those that %s started, but not where they meet: set STEPGAUGE_ADDRESS (the "
                       "host of rank 0), STEPGAUGE_PORT (1 to 65535) and STEPGAUGE_SECRET, the same for all of them",
                       v->rank, v->launcher);
    return SG_OK;
}

/* The store of torchrun itself is at MASTER_PORT; the ports behind it are ours. */
static sg_code meet_by_torchrun(sg_rank_variables *v, sg_status *status) {
    int port = 0;
    sg_code code = SG_OK;
    if (set("MASTER_ADDR")) code = copy("MASTER_ADDR", set("MASTER_ADDR"), v->address, sizeof v->address, status);
    if (code == SG_OK) code = read_number("MASTER_PORT", &port, status);
    if (code != SG_OK) return code;
    if (port > 0) v->port = port + PORTS < 65535 ? port + 1 : port - PORTS - 1;
    v->ports = PORTS;
    const char *run = set("TORCHELASTIC_RUN_ID"), *again = set("TORCHELASTIC_RESTART_COUNT");
    (void)snprintf(v->secret, sizeof v->secret, "torchrun %.200s %d %.40s", run ? run : "", port, again ? again : "");
    return SG_OK;
}

static sg_code meet_by_slurm(sg_rank_variables *v, sg_status *status) {
    const char *job = set("SLURM_JOB_ID"), *step = set("SLURM_STEP_ID"), *list = set("SLURM_STEP_NODELIST");
    if (!list) list = set("SLURM_NODELIST");
    sg_code code = SG_OK;
    if (set("MASTER_ADDR"))
        code = copy("MASTER_ADDR", set("MASTER_ADDR"), v->address, sizeof v->address, status);
    else if (list && !sg_slurm_first_host(list, v->address, sizeof v->address))
        code = sg_fail(status, SG_BAD_INPUT, "cannot find a host in the node list %.100s: set MASTER_ADDR", list);
    if (code == SG_OK) code = read_number("MASTER_PORT", &v->port, status);
    if (code != SG_OK) return code;
    v->ports = v->port ? 1 : PORTS;
    uint64_t number = (job ? strtoull(job, NULL, 10) : 0) * 31 + (step ? strtoull(step, NULL, 10) : 0);
    if (!v->port) v->port = SLURM_PORT + (int)(number % SLURM_PLACES) * PORTS;
    (void)snprintf(v->secret, sizeof v->secret, "slurm %.40s %.40s", job ? job : "", step ? step : "");
    return SG_OK;
}

/* ---- who started this process -------------------------------------------------------------------------------------------- */

typedef struct sg_launcher {
    const char *name, *rank, *ranks, *ranks_else, *local_rank, *local_ranks;
    const char *also;                                                 /* must be set too */
    sg_code (*meet)(sg_rank_variables *variables, sg_status *status); /* NULL: over MPI */
} launcher;

static const launcher known[] = {
    {"stepgauge", "STEPGAUGE_RANK", "STEPGAUGE_RANKS", NULL, "STEPGAUGE_LOCAL_RANK", "STEPGAUGE_LOCAL_RANKS", NULL,
     meet_by_own},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, NULL},
    /* Before Slurm's: srun may have started torchrun, which started this. */
    {"torchrun", "RANK", "WORLD_SIZE", NULL, "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID", meet_by_torchrun},
    {"a PMI launcher", "PMI_RANK", "PMI_SIZE", NULL, "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, NULL},
    /* A batch script has SLURM_PROCID too; only a step that srun started is a rank. */
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_LOCALID", NULL, "SLURM_STEP_ID",
     meet_by_slurm},
    {"a PMIx launcher", "PMIX_RANK", NULL, NULL, NULL, NULL, NULL, NULL},
    {"torchrun", "RANK", "WORLD_SIZE", NULL, "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", meet_by_torchrun},
};

/* srun --gpus-per-task=1 shows every rank a GPU of its own, and only that one: number 0, whichever it is. Other launchers show
 * all ranks the same GPUs; one alone for two ranks must then be an error, not shared. */
static bool gave_one_gpu(const launcher *l) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return strcmp(l->name, "srun") == 0 && visible && *visible && !strchr(visible, ',');
}

static sg_code read_places(const launcher *l, sg_rank_variables *v, sg_status *status) {
    v->local_rank = -1;
    sg_code code = read_number(l->rank, &v->rank, status);
    if (code == SG_OK) code = read_number(set(l->ranks) ? l->ranks : l->ranks_else, &v->ranks, status);
    if (code == SG_OK) code = read_number(l->local_rank, &v->local_rank, status);
    if (code == SG_OK) code = read_number(l->local_ranks, &v->local_ranks, status);
    if (code == SG_OK && v->ranks > 0 && v->rank >= v->ranks)
        code = sg_fail(status, SG_BAD_INPUT, "%s says this is rank %d of %d ranks: there is none: unset %s", l->name,
                       v->rank, v->ranks, l->rank);
    if (v->local_rank < 0) v->local_rank = v->local_ranks > 0 ? v->rank % v->local_ranks : v->rank;
    if (gave_one_gpu(l)) v->local_rank = 0;
    return code;
}

static sg_code read_meeting(const launcher *l, sg_rank_variables *v, sg_status *status) {
    if (!l->meet || v->ranks == 1) return SG_OK;
    if (v->ranks == 0)
        return sg_fail(status, SG_BAD_INPUT, "%s is set, but %s is not: how many ranks are there?", l->rank, l->ranks);
    /* srun --mpi=pmix made the ranks for MPI, but they can meet over TCP all the same */
    bool pmix = l->meet == meet_by_slurm && set("PMIX_RANK") && set("PMIX_NAMESPACE");
    v->meeting = pmix ? SG_MEET_EITHER : SG_MEET_TCP;
    sg_code code = l->meet(v, status);
    /* a socket that this rank inherited; only its own launcher gives it one */
    if (code == SG_OK && l->meet == meet_by_own && v->rank == 0)
        code = read_number("STEPGAUGE_LISTENER", &v->listener, status);
    return code == SG_OK && l->meet != meet_by_own ? meet_by_own(v, status) : code;
}

sg_code sg_rank_variables_read(sg_rank_variables *variables, sg_status *status) {
    *variables = (sg_rank_variables){0};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const launcher *l = &known[i];
        bool has_rank = getenv(l->rank) != NULL, has_ranks = l->ranks && getenv(l->ranks);
        if ((!has_rank && !has_ranks) || (l->also && !getenv(l->also))) continue;
        if (!has_rank)
            return sg_fail(status, SG_BAD_INPUT,
                           "%s is set, but %s is not, so this process has no place among the "
                           "ranks: unset it or start with --ranks N",
                           l->ranks, l->rank);
        variables->found = true;
        variables->launcher = l->name;
        sg_code code = read_places(l, variables, status);
        return code == SG_OK ? read_meeting(l, variables, status) : code;
    }
    return SG_OK;
}
