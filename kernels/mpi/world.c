#include "kernels/mpi/world.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* A collective waits for the slowest rank's whole step; joining only for its start. */
enum { PATIENCE_PER_JOIN_TIMEOUT = 10 };

typedef enum sg_mpi_stage { STAGE_APART, STAGE_JOINING, STAGE_JOINED, STAGE_FAILED, STAGE_LEAVING, STAGE_LEFT } stage;

/* MPI wants the thread that starts it to end it, and MPI_Init can wait for ever for a peer that never comes. So a thread of
 * its own starts it, rests, and ends it; the caller waits for that thread with a limit. */
static struct sg_mpi_process {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    stage stage;
    double timeout_s;
    sg_mpi_world world;
    sg_status failure;
    char lost[512]; /* why the world is broken */
} process = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void enter(stage next) {
    (void)pthread_mutex_lock(&process.mutex);
    process.stage = next;
    (void)pthread_cond_broadcast(&process.changed);
    (void)pthread_mutex_unlock(&process.mutex);
}

static stage stage_now(void) {
    (void)pthread_mutex_lock(&process.mutex);
    stage now = process.stage;
    (void)pthread_mutex_unlock(&process.mutex);
    return now;
}

/* Waits until the stage is no longer `from`; the stage then. */
static stage wait_while(stage from, double limit_s) {
    struct timespec end;
    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)limit_s + 1;
    (void)pthread_mutex_lock(&process.mutex);
    int late = 0;
    while (process.stage == from && late != ETIMEDOUT)
        late = limit_s > 0 ? pthread_cond_timedwait(&process.changed, &process.mutex, &end)
                           : pthread_cond_wait(&process.changed, &process.mutex);
    stage now = process.stage;
    (void)pthread_mutex_unlock(&process.mutex);
    return now;
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */

/* Open MPI opens its plug-ins with dlopen; they expect its symbols in the global scope, but this module (and libmpi with
 * it) was opened with RTLD_LOCAL. */
static void make_mpi_global(void) {
    Dl_info info;
    void *address;
    int (*function)(int *, char ***, int, int *) = MPI_Init_thread;
    memcpy(&address, &function, sizeof address);
    if (dladdr(address, &info) != 0 && info.dli_fname)
        (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

static sg_code start_mpi(sg_mpi_world *world, sg_status *status) {
    int level = 0;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS || level < MPI_THREAD_MULTIPLE)
        return sg_fail(status, SG_MACHINE, "MPI does not start with several threads (level %d): install Open MPI 4",
                       level);
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &world->base.rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &world->base.ranks);
    if (MPI_Comm_dup(MPI_COMM_WORLD, &world->data) != MPI_SUCCESS ||
        MPI_Comm_dup(MPI_COMM_WORLD, &world->control) != MPI_SUCCESS || MPI_Barrier(world->control) != MPI_SUCCESS)
        return sg_fail(status, SG_MACHINE, "rank %d cannot reach the other ranks", world->base.rank);
    return SG_OK;
}

static void *mpi_thread(void *unused) {
    (void)unused;
    /* Signals are for the threads that know what to do with them. */
    sigset_t all;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
    sg_code code = start_mpi(&process.world, &process.failure);
    enter(code == SG_OK ? STAGE_JOINED : STAGE_FAILED);
    if (code == SG_OK && wait_while(STAGE_JOINED, 0) == STAGE_LEAVING) {
        (void)MPI_Finalize();
        enter(STAGE_LEFT);
    }
    return NULL;
}

static void library_name(char *text, size_t bytes) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    (void)MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = 0;
    if (bytes) (void)snprintf(text, bytes, "%s", version);
}

/* ---- the transport's functions ---------------------------------------------------------------------------------------- */

static sg_code begin_joining(double timeout_s, sg_status *status) {
    if (stage_now() != STAGE_APART) return sg_fail(status, SG_BAD_INPUT, "a process joins the ranks only once");
    process.timeout_s = timeout_s;
    process.world.patience_s = timeout_s * PATIENCE_PER_JOIN_TIMEOUT;
    enter(STAGE_JOINING);
    make_mpi_global();
    if (pthread_create(&process.thread, NULL, mpi_thread, NULL) != 0) {
        enter(STAGE_FAILED);
        return sg_fail(status, SG_MACHINE, "cannot start the thread that MPI runs on: close other programs");
    }
    (void)pthread_detach(process.thread);
    return SG_OK;
}

sg_code sg_mpi_join(int expected, double timeout_s, sg_transport **self, char *library, size_t library_bytes,
                    sg_status *status) {
    *self = NULL;
    if (library_bytes) *library = 0;
    if (expected < 1 || !(timeout_s > 0 && timeout_s < 1e6))
        return sg_fail(status, SG_BAD_INPUT, "cannot join %d ranks within %g s: give at least 1 of both", expected,
                       timeout_s);
    sg_code code = expected > 1 ? sg_mpi_check_launcher(expected, status) : SG_OK;
    /* Ranks end with whoever started them, also when that is killed without a chance to say so. */
    if (code == SG_OK && expected > 1) (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (code == SG_OK) code = begin_joining(timeout_s, status);
    if (code != SG_OK) return code;
    stage reached = wait_while(STAGE_JOINING, timeout_s);
    if (reached == STAGE_JOINING)
        return sg_fail(status, SG_MACHINE,
                       "no answer from the other ranks within %g s (%d are expected): is every one of them running?",
                       timeout_s, expected);
    if (reached != STAGE_JOINED) {
        if (status) *status = process.failure;
        return SG_MACHINE;
    }
    if (process.world.base.ranks != expected)
        return sg_fail(status, SG_MACHINE,
                       "%d ranks are expected, but %d are there: start with --ranks %d or mpirun -n %d", expected,
                       process.world.base.ranks, expected, expected);
    process.world.base.api = sg_mpi_transport();
    *self = &process.world.base;
    library_name(library, library_bytes);
    return SG_OK;
}

sg_mpi_world *sg_mpi_world_of(sg_transport *self, sg_status *status) {
    stage now = stage_now();
    if (self == &process.world.base && now == STAGE_JOINED && !process.world.broken) return &process.world;
    (void)sg_fail(status, SG_MACHINE,
                  now == STAGE_JOINED ? "the ranks lost each other in an earlier step: start again"
                                      : "this process has not joined any ranks");
    return NULL;
}

void sg_mpi_break(sg_mpi_world *world, const char *why) {
    (void)pthread_mutex_lock(&process.mutex);
    if (!process.lost[0]) (void)snprintf(process.lost, sizeof process.lost, "%s", why);
    (void)pthread_mutex_unlock(&process.mutex);
    world->broken = true;
}

/* A collective finds out by its patience; mpirun itself ends all ranks when one of them dies. */
bool sg_mpi_lost(sg_transport *self, char *why, size_t bytes) {
    (void)self;
    if (!process.world.broken) return false;
    (void)pthread_mutex_lock(&process.mutex);
    if (bytes) (void)snprintf(why, bytes, "%s", process.lost);
    (void)pthread_mutex_unlock(&process.mutex);
    return true;
}

void sg_mpi_abort(sg_transport *self, const char *why) {
    (void)self;
    char text[512];
    int n = snprintf(text, sizeof text, "stepgauge: rank %d ends all ranks: %s\n", process.world.base.rank,
                     why ? why : "no reason given");
    if (n > 0) (void)!write(STDERR_FILENO, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
    if (stage_now() == STAGE_JOINED) (void)MPI_Abort(MPI_COMM_WORLD, SG_MACHINE);
    _exit(SG_MACHINE);
}

void sg_mpi_leave(sg_transport *self) {
    (void)self;
    /* Ending MPI waits for everyone; with a broken world someone never comes. */
    if (stage_now() != STAGE_JOINED || process.world.broken) return;
    enter(STAGE_LEAVING);
    (void)wait_while(STAGE_LEAVING, process.timeout_s);
    free(process.world.scratch);
    process.world.scratch = NULL;
    process.world.scratch_bytes = 0;
}
