#include "sim/ranks/spawn_ranks.h"

#include "kernels/tcp/tcp.h"
#include "sim/ranks/rank_processes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ranks hear of each other's end within a second and have something to say about it. */
static const double AFTER_FAILURE_S = 4;

enum { N_VARIABLES = 8, VARIABLE_BYTES = 96 };

/* One launch: what the ranks share. */
typedef struct sg_spawn {
    int ranks, listener, port;
    uint64_t secret[2];
    char *const *argv;
    char **environment; /* ours come behind what all have */
    size_t n_environment;
    char variable[N_VARIABLES][VARIABLE_BYTES];
    sg_rank_child *child;
} spawn;

static const char ADDRESS[] = "127.0.0.1";

static void set(spawn *s, int i, const char *name, const char *value) {
    (void)snprintf(s->variable[i], VARIABLE_BYTES, "STEPGAUGE_%s=%s", name, value);
    s->environment[s->n_environment + (size_t)i] = s->variable[i];
}

static void set_number(spawn *s, int i, const char *name, int value) {
    char text[16];
    (void)snprintf(text, sizeof text, "%d", value);
    set(s, i, name, text);
}

static void set_variables(spawn *s, int rank) {
    char secret[40];
    (void)snprintf(secret, sizeof secret, "%016" PRIx64 "%016" PRIx64, s->secret[0], s->secret[1]);
    set_number(s, 0, "RANK", rank);
    set_number(s, 1, "RANKS", s->ranks);
    set_number(s, 2, "LOCAL_RANK", rank);
    set_number(s, 3, "LOCAL_RANKS", s->ranks);
    set(s, 4, "ADDRESS", ADDRESS);
    set_number(s, 5, "PORT", s->port);
    set(s, 6, "SECRET", secret);
    set_number(s, 7, "LISTENER", s->listener);
    if (rank != 0) s->environment[s->n_environment + 7] = NULL;
}

static sg_code prepare(spawn *s, sg_status *status) {
    s->environment = sg_rank_environment(N_VARIABLES, &s->n_environment);
    s->child = calloc((size_t)s->ranks, sizeof *s->child);
    if (!s->environment || !s->child)
        return sg_fail_memory(status, (size_t)s->ranks * sizeof *s->child, "starting ranks");
    if (getrandom(s->secret, sizeof s->secret, 0) != (ssize_t)sizeof s->secret)
        return sg_fail(status, SG_MACHINE, "the system gives no random numbers: %s", strerror(errno));
    return sg_tcp_listen(ADDRESS, 0, &s->listener, &s->port, status);
}

static sg_code start_all(spawn *s, sg_status *status) {
    for (int rank = 0; rank < s->ranks; rank++) {
        set_variables(s, rank);
        const char *const names[] = {s->argv[0], NULL};
        const sg_rank_program program = {names, s->argv, s->environment, rank == 0 ? s->listener : -1, SIGKILL};
        int error = sg_rank_start(&program, &s->child[rank]);
        if (error)
            return sg_fail(status, SG_MACHINE, "cannot start rank %d of %d (%.300s): %s", rank, s->ranks, s->argv[0],
                           strerror(error));
    }
    return SG_OK;
}

static void kill_started(spawn *s) {
    for (int rank = 0; rank < s->ranks; rank++)
        if (s->child[rank].pid > 0) (void)kill(s->child[rank].pid, SIGKILL);
}

static sg_code judge(const spawn *s, const sg_rank_outcome *outcome, const sg_launch_ranks_options *options,
                     int *exit_status, sg_status *status) {
    int how = outcome->first_failed >= 0 ? s->child[outcome->first_failed].how : 0;
    *exit_status = outcome->passed_on ? 128 + outcome->passed_on : sg_shell_status(how);
    if (outcome->timed_out)
        return sg_fail(status, SG_MACHINE, "the ranks did not end within %g s and were killed", options->timeout_s);
    if (outcome->passed_on || !WIFSIGNALED(how)) return SG_OK;
    return sg_fail(status, SG_MACHINE, "rank %d was killed by %s%s", outcome->first_failed,
                   sg_signal_name_of(WTERMSIG(how)).text,
                   WTERMSIG(how) == SIGKILL ? ": see the system's log, the machine may be out of memory" : "");
}

static sg_code run(spawn *s, const sg_launch_ranks_options *options, int *exit_status, sg_status *status) {
    static const sg_rank_manners manners = {.finish_signal = SIGUSR1, .after_failure_s = AFTER_FAILURE_S};
    sg_rank_guard guard;
    sg_code code = sg_rank_guard_begin(&guard, status);
    if (code != SG_OK) return code;
    code = start_all(s, status);
    if (code != SG_OK) kill_started(s);
    (void)close(s->listener);
    s->listener = -1;
    sg_rank_outcome outcome = sg_rank_wait(&guard, s->child, s->ranks, options, &manners);
    sg_rank_guard_end(&guard);
    return code == SG_OK ? judge(s, &outcome, options, exit_status, status) : code;
}

sg_code sg_spawn_ranks(int ranks, char *const argv[], const sg_launch_ranks_options *options, int *exit_status,
                       sg_status *status) {
    static const sg_launch_ranks_options defaults = {0};
    spawn s = {.ranks = ranks, .listener = -1, .argv = argv};
    *exit_status = SG_MACHINE;
    if (ranks < 1 || ranks > 4096 || !argv[0])
        return sg_fail(status, SG_BAD_INPUT, "cannot start %d ranks: give 1 to 4096", ranks);
    sg_code code = prepare(&s, status);
    if (code == SG_OK) code = run(&s, options ? options : &defaults, exit_status, status);
    if (s.listener >= 0) (void)close(s.listener);
    free((void *)s.environment);
    free(s.child);
    return code;
}
