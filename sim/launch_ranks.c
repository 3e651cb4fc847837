#include "sim/launch_ranks.h"
#include "sim/process_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* ---- am I a rank? -------------------------------------------------------------------------------------------------- */

static sg_code read_number(const char *name, int *value, sg_status *status) {
    const char *text = getenv(name);
    if (!text || !*text) return SG_OK;
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (*end || errno || number < 0 || number > 1 << 20)
        return sg_fail(status, SG_BAD_INPUT, "%s=%.40s is no number of a rank: unset it or start with --ranks N", name,
                       text);
    *value = (int)number;
    return SG_OK;
}

sg_code sg_rank_variables_read(sg_rank_variables *variables, sg_status *status) {
    static const struct {
        const char *launcher, *rank, *ranks, *local, *also;
    } known[] = {
        {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL},
        {"a PMI launcher", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", NULL},
        /* A batch script has SLURM_PROCID too; only a step that srun started is a rank. */
        {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "", "SLURM_STEP_ID"},
        {"a PMIx launcher", "PMIX_RANK", "", "", NULL},
        {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR"},
    };
    *variables = (sg_rank_variables){0};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        bool has_rank = getenv(known[i].rank) != NULL, has_ranks = *known[i].ranks && getenv(known[i].ranks);
        if ((!has_rank && !has_ranks) || (known[i].also && !getenv(known[i].also))) continue;
        if (!has_rank)
            return sg_fail(status, SG_BAD_INPUT,
                           "%s is set, but %s is not, so this process has no place among the "
                           "ranks: unset it or start with --ranks N",
                           known[i].ranks, known[i].rank);
        *variables = (sg_rank_variables){.found = true, .launcher = known[i].launcher};
        sg_code code = read_number(known[i].rank, &variables->rank, status);
        if (code == SG_OK) code = read_number(known[i].local, &variables->local_ranks, status);
        return code == SG_OK ? read_number(known[i].ranks, &variables->ranks, status) : code;
    }
    return SG_OK;
}

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

/* Variables of a job that this process itself belongs to: mpirun would take itself for a rank of that. */
static bool is_foreign_job(const char *variable) {
    static const char *const prefixes[] = {
        "OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_APP_CTX",
        "OMPI_FILE_LOC",    "PMIX_",          "PMI_",         "SLURM_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

static char **clean_environment(void) {
    size_t n = 0, kept = 0;
    while (environ[n]) n++;
    char **clean = calloc(n + 1, sizeof *clean);
    for (size_t i = 0; clean && i < n; i++)
        if (!is_foreign_job(environ[i])) clean[kept++] = environ[i];
    return clean;
}

/* ---- starting and waiting ---------------------------------------------------------------------------------------------- */

static void watched_signals(sigset_t *set) {
    (void)sigemptyset(set);
    static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++) (void)sigaddset(set, watched[i]);
}

static sg_code cannot_start(int error, sg_status *status) {
    if (error == ENOENT)
        return sg_fail(status, SG_MACHINE,
                       "mpirun is not installed: install Open MPI (Debian: apt install openmpi-bin) or use one rank");
    return sg_fail(status, SG_MACHINE, "cannot start mpirun: %s", strerror(error));
}

/* The new process before it becomes mpirun: a process group of its own, so that a terminal's Ctrl-C reaches the ranks once,
 * through us; gone when we are (mpirun ends its ranks on SIGTERM). Only returns, with errno, when mpirun does not start. */
static void become_mpirun(char *const command[], char *const environment[], pid_t parent) {
    sigset_t none;
    (void)sigemptyset(&none);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(SG_MACHINE);
    static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE};
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) (void)signal(handled[i], SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0 && nothing != STDIN_FILENO) {
        (void)dup2(nothing, STDIN_FILENO);
        (void)close(nothing);
    }
    /* Debian's other name first: `mpirun` may be another library's. */
    (void)execvpe("mpirun.openmpi", command, environment);
    if (errno == ENOENT) (void)execvpe("mpirun", command, environment);
}

/* Starts mpirun; 0 or the errno of the failure, which a pipe brings back that a successful exec closes. */
static int spawn_mpirun(char *const command[], char *const environment[], pid_t *child) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    pid_t parent = getpid();
    *child = fork();
    if (*child == 0) {
        become_mpirun(command, environment, parent);
        int error = errno;
        (void)!write(ends[1], &error, sizeof error);
        _exit(SG_MACHINE);
    }
    int error = *child < 0 ? errno : 0;
    (void)close(ends[1]);
    while (*child > 0 && read(ends[0], &error, sizeof error) < 0 && errno == EINTR) {
    }
    (void)close(ends[0]);
    if (error && *child > 0)
        while (waitpid(*child, NULL, 0) < 0 && errno == EINTR) {
        }
    return error;
}

static double now_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What happened to a launch. */
typedef struct sg_rank_launch {
    pid_t mpirun;
    int signals;   /* signalfd of watched_signals */
    int passed_on; /* signal that was passed on to mpirun, 0: none */
    double end_s;  /* when the time is over; 0: never */
    double kill_s; /* when patience with an ending mpirun is over; 0: it was not told to end */
    double grace_s, finish_s;
    bool ending; /* it was told to end its ranks, not only to let them finish */
    bool timed_out;
} rank_launch;

static void tell_to_end(rank_launch *launch, int signal) {
    (void)kill(launch->mpirun, signal);
    launch->ending = true;
    launch->kill_s = now_s() + launch->grace_s;
}

/* mpirun passes SIGUSR1 on to its ranks, but kills them on SIGINT. */
static void tell_to_finish(rank_launch *launch) {
    (void)kill(launch->mpirun, SIGUSR1);
    launch->kill_s = now_s() + launch->finish_s;
}

static void take_signals(rank_launch *launch) {
    struct signalfd_siginfo info;
    while (read(launch->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) continue;
        bool first = launch->passed_on == 0;
        launch->passed_on = (int)info.ssi_signo;
        if (first && launch->passed_on == SIGINT)
            tell_to_finish(launch);
        else if (!launch->ending)
            tell_to_end(launch, SIGTERM);
    }
}

/* Waits for mpirun; returns its wait status. */
static int wait_for_mpirun(rank_launch *launch) {
    for (;;) {
        int how = 0;
        pid_t ended = waitpid(launch->mpirun, &how, WNOHANG);
        if (ended == launch->mpirun) return how;
        if (ended < 0 && errno != EINTR) return SG_MACHINE << 8; /* someone else took its status */
        double now = now_s();
        if (launch->end_s > 0 && now > launch->end_s && !launch->ending) {
            launch->timed_out = true;
            tell_to_end(launch, SIGTERM);
        }
        if (launch->kill_s > 0 && now > launch->kill_s) {
            (void)sg_process_tree_signal(launch->mpirun, SIGKILL);
            (void)kill(launch->mpirun, SIGKILL);
        }
        struct pollfd ready = {.fd = launch->signals, .events = POLLIN};
        (void)poll(&ready, 1, launch->end_s > 0 || launch->kill_s > 0 ? 50 : 1000);
        take_signals(launch);
    }
}

enum { MAX_CHILDREN = 1024 };

static bool is_among(const pid_t *list, size_t n, pid_t pid) {
    for (size_t i = 0; i < n; i++)
        if (list[i] == pid) return true;
    return false;
}

/* Ranks whose mpirun was killed became our children, because we are their reaper: ends them. Children that the caller had
 * before stay. */
static void end_orphans(const pid_t *before, size_t n_before) {
    for (int attempt = 0; attempt < 100; attempt++) {
        pid_t now[MAX_CHILDREN];
        size_t n = sg_process_children(getpid(), now, MAX_CHILDREN), orphans = 0;
        for (size_t i = 0; i < n; i++) {
            if (is_among(before, n_before, now[i])) continue;
            orphans++;
            (void)sg_process_tree_signal(now[i], SIGKILL);
            (void)kill(now[i], SIGKILL);
            (void)waitpid(now[i], NULL, 0);
        }
        if (orphans == 0) return;
    }
}

/* Exit status as a shell tells it. */
static int shell_status(const rank_launch *launch, int how) {
    if (launch->passed_on) return 128 + launch->passed_on;
    if (WIFSIGNALED(how)) return 128 + WTERMSIG(how);
    return WIFEXITED(how) ? WEXITSTATUS(how) : SG_MACHINE;
}

static sg_code run_mpirun(char *const command[], const sg_launch_ranks_options *options, int signals, int *exit_status,
                          sg_status *status) {
    pid_t before[MAX_CHILDREN];
    size_t n_before = sg_process_children(getpid(), before, MAX_CHILDREN);
    char **environment = clean_environment();
    if (!environment) return sg_fail_memory(status, sizeof *environment, "the environment of the ranks");
    rank_launch launch = {.signals = signals,
                          .grace_s = options->grace_s > 0 ? options->grace_s : 5,
                          .finish_s = options->finish_s > 0 ? options->finish_s : 120};
    int error = spawn_mpirun(command, environment, &launch.mpirun);
    free((void *)environment);
    if (error) return cannot_start(error, status);
    if (options->timeout_s > 0) launch.end_s = now_s() + options->timeout_s;
    int how = wait_for_mpirun(&launch);
    end_orphans(before, n_before);
    *exit_status = shell_status(&launch, how);
    if (!launch.timed_out) return SG_OK;
    return sg_fail(status, SG_MACHINE, "the ranks did not end within %g s and were killed", options->timeout_s);
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

    sigset_t watched, before;
    watched_signals(&watched);
    int was_reaper = 0;
    (void)prctl(PR_GET_CHILD_SUBREAPER, &was_reaper);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)pthread_sigmask(SIG_BLOCK, &watched, &before);
    int signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    sg_code code = signals >= 0
                       ? run_mpirun((char *const *)command, options ? options : &defaults, signals, exit_status, status)
                       : sg_fail(status, SG_MACHINE, "cannot watch signals: %s", strerror(errno));
    if (signals >= 0) (void)close(signals);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)prctl(PR_SET_CHILD_SUBREAPER, was_reaper);
    free((void *)command);
    return code;
}
