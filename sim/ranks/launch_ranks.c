#include "sim/ranks/launch_ranks.h"

#include "sim/ranks/rank_processes.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the command ----------------------------------------------------------------------------------------------------- */

/* True where the kernel lets one process read another's memory. Containers often forbid it, and Open MPI's shared memory
 * then fails in the middle of a message instead of copying twice. */
static bool cross_memory_works(void) {
    char from = 1, to = 0;
    struct iovec local = {&to, 1}, remote = {&from, 1};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

static int usable_cores(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

enum { MAX_OPTIONS = 48 };

/* mpirun's arguments before the program's. Everything stays on this machine: shared memory between ranks, the loopback
 * device to mpirun, no remote shell. Ranks are not bound, because their threads share the cores that are there. */
static int mpirun_options(int ranks, char ranks_text[16], const char *option[MAX_OPTIONS]) {
    int n = 0;
    (void)snprintf(ranks_text, 16, "%d", ranks);
    static const char *const always[] = {"mpirun",
                                         "--bind-to",
                                         "none",
                                         "--mca",
                                         "btl",
                                         "self,vader",
                                         "--mca",
                                         "pml",
                                         "ob1",
                                         "--mca",
                                         "plm",
                                         "isolated",
                                         "--mca",
                                         "oob_tcp_if_include",
                                         "lo",
                                         "--mca",
                                         "orte_base_help_aggregate",
                                         "0",
                                         "--quiet"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) option[n++] = always[i];
    if (geteuid() == 0) option[n++] = "--allow-run-as-root";
    if (ranks > usable_cores()) option[n++] = "--oversubscribe";
    if (!cross_memory_works()) {
        option[n++] = "--mca";
        option[n++] = "btl_vader_single_copy_mechanism";
        option[n++] = "none";
    }
    option[n++] = "-n";
    option[n++] = ranks_text;
    return n;
}

/* ---- starting and waiting ---------------------------------------------------------------------------------------------- */

static sg_code cannot_start(int error, sg_status *status) {
    if (error == ENOENT)
        return sg_fail(status, SG_MACHINE,
                       "mpirun is not installed: install Open MPI (Debian: apt install openmpi-bin) or use one rank");
    return sg_fail(status, SG_MACHINE, "cannot start mpirun: %s", strerror(error));
}

/* mpirun tells a rank's death by its own exit status, as a shell does. */
static sg_code judge(const sg_rank_outcome *outcome, int how, const sg_launch_ranks_options *options, int *exit_status,
                     sg_status *status) {
    *exit_status = outcome->passed_on ? 128 + outcome->passed_on : sg_shell_status(how);
    if (outcome->timed_out)
        return sg_fail(status, SG_MACHINE, "the ranks did not end within %g s and were killed", options->timeout_s);
    if (outcome->passed_on || *exit_status <= 128 || *exit_status > 128 + 64 || *exit_status == 130) return SG_OK;
    sg_signal_name name = sg_signal_name_of(*exit_status - 128);
    return sg_fail(status, SG_MACHINE,
                   WIFSIGNALED(how)
                       ? "mpirun was killed by %s, and its ranks with it: see the system's log"
                       : "a rank was killed by %s (out of memory? see the system's log): the others were ended",
                   name.text);
}

static sg_code run_mpirun(char *const command[], const sg_launch_ranks_options *options, int *exit_status,
                          sg_status *status) {
    /* Debian's other name first: `mpirun` may be another library's. */
    static const char *const names[] = {"mpirun.openmpi", "mpirun", NULL};
    /* mpirun passes SIGUSR1 on to its ranks, but kills them on SIGINT. */
    static const sg_rank_manners manners = {.finish_signal = SIGUSR1};
    size_t n;
    char **environment = sg_rank_environment(0, &n);
    if (!environment) return sg_fail_memory(status, sizeof *environment, "the environment of the ranks");
    /* gone when we are: mpirun ends its ranks on SIGTERM */
    const sg_rank_program program = {names, command, environment, -1, SIGTERM};
    sg_rank_guard guard;
    sg_code code = sg_rank_guard_begin(&guard, status);
    if (code == SG_OK) {
        sg_rank_child child;
        int error = sg_rank_start(&program, &child);
        sg_rank_outcome outcome = {0};
        if (!error) outcome = sg_rank_wait(&guard, &child, 1, options, &manners);
        sg_rank_guard_end(&guard);
        code = error ? cannot_start(error, status) : judge(&outcome, child.how, options, exit_status, status);
    }
    free((void *)environment);
    return code;
}

sg_code sg_launch_ranks(int ranks, char *const argv[], const sg_launch_ranks_options *options, int *exit_status,
                        sg_status *status) {
    static const sg_launch_ranks_options defaults = {0};
    *exit_status = SG_MACHINE;
    size_t n_arguments = 0;
    while (argv[n_arguments]) n_arguments++;
    if (ranks < 1 || ranks > 4096 || n_arguments == 0)
        return sg_fail(status, SG_BAD_INPUT, "cannot start %d ranks: give 1 to 4096", ranks);
    const char **command = calloc(MAX_OPTIONS + n_arguments + 1, sizeof *command);
    if (!command) return sg_fail_memory(status, (MAX_OPTIONS + n_arguments) * sizeof *command, "a command line");
    char ranks_text[16];
    int n = mpirun_options(ranks, ranks_text, command);
    for (size_t i = 0; i < n_arguments; i++) command[n++] = argv[i];
    sg_code code = run_mpirun((char *const *)command, options ? options : &defaults, exit_status, status);
    free((void *)command);
    return code;
}

bool sg_launch_ranks_possible(void) {
    const char *path = getenv("PATH");
    char file[4096];
    while (path && *path) {
        size_t length = strcspn(path, ":");
        for (int i = 0; i < 2; i++) {
            int n = snprintf(file, sizeof file, "%.*s/%s", (int)length, path, i ? "mpirun" : "mpirun.openmpi");
            if (length && n > 0 && (size_t)n < sizeof file && access(file, X_OK) == 0) return true;
        }
        path += length + (path[length] == ':');
    }
    return false;
}
