/* rank_processes.h: child processes that are ranks, or start them: signals, patience, and nothing left behind. */
#ifndef SG_SIM_RANKS_RANK_PROCESSES_H
#define SG_SIM_RANKS_RANK_PROCESSES_H

#include "kernels/status.h"
#include "sim/ranks/launch_ranks.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { SG_CHILDREN_MOST = 4200 };

/* From begin to end the calling thread takes the signals, and orphans of its children become its own. */
typedef struct sg_rank_guard {
    sigset_t before;
    int was_reaper, signals; /* signalfd */
    pid_t *children;         /* that the caller had before: they stay */
    size_t n_children;
} sg_rank_guard;

sg_code sg_rank_guard_begin(sg_rank_guard *guard, sg_status *status);
/* Also ends what the ranks left behind. */
void sg_rank_guard_end(sg_rank_guard *guard);

typedef struct sg_rank_child {
    pid_t pid; /* 0: never started */
    bool ended;
    int how;    /* wait status */
    int weight; /* how much it tells of why the ranks failed */
} sg_rank_child;

typedef struct sg_rank_program {
    const char *const *names; /* tried one after the other, as a shell finds programs; NULL at the end */
    char *const *argv, *const *environment;
    int keep_fd;      /* stays open in the program; -1: none */
    int death_signal; /* that it gets when the calling thread ends */
} sg_rank_program;

/* 0 or the errno of the failure. The program is in a process group of its own, so that a terminal's Ctrl-C reaches it once,
 * through us; standard input is empty. */
int sg_rank_start(const sg_rank_program *program, sg_rank_child *child);

/* What became of a group of children. */
typedef struct sg_rank_outcome {
    int first_failed; /* the child that failed first, as far as that can be known; -1: none */
    int passed_on;    /* the signal that was passed on to them, 0: none */
    bool timed_out;
} sg_rank_outcome;

/* How to tell the children to finish; SIGTERM tells them to end. */
typedef struct sg_rank_manners {
    int finish_signal;
    double
        after_failure_s; /* until the rest is told to end when one has failed; 0: the children see to that themselves */
} sg_rank_manners;

/* Waits until every started child has ended. */
sg_rank_outcome sg_rank_wait(const sg_rank_guard *guard, sg_rank_child *child, int n,
                             const sg_launch_ranks_options *options, const sg_rank_manners *manners);

/* Exit status as a shell tells it, of a wait status. */
int sg_shell_status(int how);
/* "SIGKILL"; "signal 77" where it has no name. */
typedef struct sg_signal_name {
    char text[24];
} sg_signal_name;
sg_signal_name sg_signal_name_of(int number);

/* The environment without variables of jobs that this process itself belongs to, and room for `more`. The strings are the
 * environment's own; free the array. */
char **sg_rank_environment(size_t more, size_t *n);

#endif
