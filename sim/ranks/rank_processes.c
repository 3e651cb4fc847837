#include "sim/ranks/rank_processes.h"

#include "kernels/clock.h"
#include "sim/ranks/process_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- signals and orphans ---------------------------------------------------------------------------------------------- */

static void watched_signals(sigset_t *set) {
    (void)sigemptyset(set);
    static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++) (void)sigaddset(set, watched[i]);
}

sg_code sg_rank_guard_begin(sg_rank_guard *guard, sg_status *status) {
    sigset_t watched;
    *guard = (sg_rank_guard){.signals = -1};
    guard->children = calloc(SG_CHILDREN_MOST, sizeof *guard->children);
    if (!guard->children) return sg_fail_memory(status, SG_CHILDREN_MOST * sizeof *guard->children, "starting ranks");
    guard->n_children = sg_process_children(getpid(), guard->children, SG_CHILDREN_MOST);
    watched_signals(&watched);
    guard->signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (guard->signals < 0) {
        free(guard->children);
        return sg_fail(status, SG_MACHINE, "cannot watch signals: %s", strerror(errno));
    }
    (void)prctl(PR_GET_CHILD_SUBREAPER, &guard->was_reaper);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)pthread_sigmask(SIG_BLOCK, &watched, &guard->before);
    return SG_OK;
}

static bool is_among(const pid_t *list, size_t n, pid_t pid) {
    for (size_t i = 0; i < n; i++)
        if (list[i] == pid) return true;
    return false;
}

/* Processes whose parent ended became our children, because we are their reaper: ends them. */
static void end_orphans(const sg_rank_guard *guard) {
    pid_t *now = calloc(SG_CHILDREN_MOST, sizeof *now);
    for (int attempt = 0; now && attempt < 100; attempt++) {
        size_t n = sg_process_children(getpid(), now, SG_CHILDREN_MOST), orphans = 0;
        for (size_t i = 0; i < n; i++) {
            if (is_among(guard->children, guard->n_children, now[i])) continue;
            orphans++;
            (void)sg_process_tree_signal(now[i], SIGKILL);
            (void)kill(now[i], SIGKILL);
            (void)waitpid(now[i], NULL, 0);
        }
        if (orphans == 0) break;
    }
    free(now);
}

void sg_rank_guard_end(sg_rank_guard *guard) {
    end_orphans(guard);
    (void)close(guard->signals);
    (void)pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
    (void)prctl(PR_SET_CHILD_SUBREAPER, guard->was_reaper);
    free(guard->children);
}

/* ---- starting ------------------------------------------------------------------------------------------------------------ */

/* A launcher would take itself for a rank of these. */
static bool is_of_a_job(const char *variable) {
    static const char *const prefixes[] = {"OMPI_COMM_WORLD_",
                                           "OMPI_MCA_orte_",
                                           "OMPI_MCA_ess",
                                           "OMPI_MCA_pmix",
                                           "OMPI_APP_CTX",
                                           "OMPI_FILE_LOC",
                                           "PMIX_",
                                           "PMI_",
                                           "SLURM_",
                                           "STEPGAUGE_RANK=",
                                           "STEPGAUGE_RANKS=",
                                           "STEPGAUGE_LOCAL_RANK",
                                           "STEPGAUGE_ADDRESS=",
                                           "STEPGAUGE_PORT=",
                                           "STEPGAUGE_SECRET=",
                                           "STEPGAUGE_LISTENER="};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

char **sg_rank_environment(size_t more, size_t *n) {
    size_t all = 0;
    *n = 0;
    while (environ[all]) all++;
    char **clean = calloc(all + more + 1, sizeof *clean);
    for (size_t i = 0; clean && i < all; i++)
        if (!is_of_a_job(environ[i])) clean[(*n)++] = environ[i];
    return clean;
}

/* The new process before it becomes the program. Only returns, with errno, when that does not start. */
static void become(const sg_rank_program *program, pid_t parent) {
    sigset_t none;
    (void)sigemptyset(&none);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, program->death_signal);
    if (getppid() != parent) _exit(SG_MACHINE);
    static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE};
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) (void)signal(handled[i], SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0 && nothing != STDIN_FILENO) {
        (void)dup2(nothing, STDIN_FILENO);
        (void)close(nothing);
    }
    if (program->keep_fd >= 0) (void)fcntl(program->keep_fd, F_SETFD, 0);
    errno = ENOENT;
    for (size_t i = 0; program->names[i] && errno == ENOENT; i++)
        (void)execvpe(program->names[i], program->argv, program->environment);
}

int sg_rank_start(const sg_rank_program *program, sg_rank_child *child) {
    int ends[2]; /* brings back the errno of a failure; a successful exec closes it */
    *child = (sg_rank_child){0};
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        become(program, parent);
        int error = errno;
        (void)!write(ends[1], &error, sizeof error);
        _exit(SG_MACHINE);
    }
    int error = pid < 0 ? errno : 0;
    (void)close(ends[1]);
    while (pid > 0 && read(ends[0], &error, sizeof error) < 0 && errno == EINTR) {
    }
    (void)close(ends[0]);
    if (error && pid > 0)
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
    if (!error) child->pid = pid;
    return error;
}

/* ---- waiting --------------------------------------------------------------------------------------------------------------- */

typedef struct sg_rank_group {
    const sg_rank_guard *guard;
    const sg_rank_manners *manners;
    sg_rank_child *child;
    int n;
    double end_s;  /* when the time is over; 0: never */
    double term_s; /* when the rest is told to end, because one has failed; 0: never */
    double kill_s; /* when patience is over; 0: nobody was told to end */
    double grace_s, finish_s;
    bool ending; /* they were told to end, not only to finish */
    sg_rank_outcome outcome;
} group;

static void signal_all(const group *g, int number, bool tree) {
    for (int i = 0; i < g->n; i++) {
        if (g->child[i].pid == 0 || g->child[i].ended) continue;
        if (tree) (void)sg_process_tree_signal(g->child[i].pid, number);
        (void)kill(g->child[i].pid, number);
        /* a stopped process does not end before it goes on */
        if (number == SIGTERM) (void)kill(g->child[i].pid, SIGCONT);
    }
}

static void tell_to_end(group *g) {
    signal_all(g, SIGTERM, false);
    g->ending = true;
    g->kill_s = sg_clock_s() + g->grace_s;
}

static void tell_to_finish(group *g) {
    signal_all(g, g->manners->finish_signal, false);
    g->kill_s = sg_clock_s() + g->finish_s;
}

static void take_signals(group *g) {
    struct signalfd_siginfo info;
    while (read(g->guard->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) continue;
        bool first = g->outcome.passed_on == 0;
        g->outcome.passed_on = (int)info.ssi_signo;
        if (first && g->outcome.passed_on == SIGINT)
            tell_to_finish(g);
        else if (!g->ending)
            tell_to_end(g);
    }
}

/* "No" and "interrupted" are answers that every rank gives, each in its time. */
static bool is_failure(int how) {
    enum { INTERRUPTED = 128 + SIGINT };
    return !WIFEXITED(how) ||
           (WEXITSTATUS(how) != SG_OK && WEXITSTATUS(how) != SG_NO && WEXITSTATUS(how) != INTERRUPTED);
}

/* How much an end tells of the reason. A killed process closes its connections before it can be waited for, so the others,
 * who end with SG_MACHINE because of that, may come first. */
static int weight(const group *g, int how) {
    if (WIFEXITED(how) && WEXITSTATUS(how) == SG_OK) return 0;
    if (!is_failure(how)) return 1;
    if (WIFSIGNALED(how)) return g->ending ? 2 : 5;
    return WEXITSTATUS(how) == SG_MACHINE ? 3 : 4;
}

static void note_end(group *g, int i) {
    sg_rank_child *c = &g->child[i];
    int *first = &g->outcome.first_failed;
    c->weight = weight(g, c->how);
    if (c->weight > (*first < 0 ? 0 : g->child[*first].weight)) *first = i;
    if (is_failure(c->how) && g->term_s == 0 && g->manners->after_failure_s > 0)
        g->term_s = sg_clock_s() + g->manners->after_failure_s;
}

/* Takes the status of all that ended; false when nobody is left. */
static bool reap(group *g) {
    int left = 0;
    for (int i = 0; i < g->n; i++) {
        sg_rank_child *c = &g->child[i];
        if (c->pid == 0 || c->ended) continue;
        pid_t ended = waitpid(c->pid, &c->how, WNOHANG);
        bool taken = ended < 0 && errno != EINTR; /* someone else took its status */
        if (taken) c->how = SG_MACHINE << 8;
        c->ended = ended == c->pid || taken;
        left += !c->ended;
        if (c->ended) note_end(g, i);
    }
    return left > 0;
}

static void keep_time(group *g) {
    double now = sg_clock_s();
    if (g->end_s > 0 && now > g->end_s && !g->ending) {
        g->outcome.timed_out = true;
        tell_to_end(g);
    }
    if (g->term_s > 0 && now > g->term_s && !g->ending) tell_to_end(g);
    if (g->kill_s > 0 && now > g->kill_s) signal_all(g, SIGKILL, true);
}

sg_rank_outcome sg_rank_wait(const sg_rank_guard *guard, sg_rank_child *child, int n,
                             const sg_launch_ranks_options *options, const sg_rank_manners *manners) {
    group g = {.guard = guard,
               .manners = manners,
               .child = child,
               .n = n,
               .grace_s = options->grace_s > 0 ? options->grace_s : 5,
               .finish_s = options->finish_s > 0 ? options->finish_s : 120,
               .end_s = options->timeout_s > 0 ? sg_clock_s() + options->timeout_s : 0,
               .outcome = {.first_failed = -1}};
    while (reap(&g)) {
        keep_time(&g);
        struct pollfd ready = {.fd = guard->signals, .events = POLLIN};
        (void)poll(&ready, 1, g.end_s > 0 || g.kill_s > 0 || g.term_s > 0 ? 50 : 1000);
        take_signals(&g);
    }
    return g.outcome;
}

int sg_shell_status(int how) {
    if (WIFSIGNALED(how)) return 128 + WTERMSIG(how);
    return WIFEXITED(how) ? WEXITSTATUS(how) : SG_MACHINE;
}

sg_signal_name sg_signal_name_of(int number) {
    sg_signal_name name;
    const char *known = sigabbrev_np(number);
    if (known)
        (void)snprintf(name.text, sizeof name.text, "SIG%s", known);
    else
        (void)snprintf(name.text, sizeof name.text, "signal %d", number);
    return name;
}
