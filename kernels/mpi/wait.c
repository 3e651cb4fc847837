#include "kernels/mpi/world.h"

#include <sched.h>
#include <string.h>
#include <time.h>

double sg_mpi_now_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

sg_code sg_mpi_check(sg_mpi_world *world, int result, const char *what, sg_status *status) {
    if (result == MPI_SUCCESS) return SG_OK;
    char text[MPI_MAX_ERROR_STRING] = "no reason given";
    int length = 0;
    (void)MPI_Error_string(result, text, &length);
    sg_status why;
    (void)sg_fail(&why, SG_MACHINE, "%s failed: %.300s", what, text);
    sg_mpi_break(world, why.text);
    if (status) *status = why;
    return SG_MACHINE;
}

/* Withdraws what has not been received: nothing may write into the caller's memory after an error. */
static void withdraw(MPI_Request *requests, int n) {
    for (int i = 0; i < n; i++)
        if (requests[i] != MPI_REQUEST_NULL) (void)MPI_Cancel(&requests[i]);
}

/* The first polls of a wait only yield: peers that are on time answer within microseconds. */
enum { POLLS_BEFORE_SLEEP = 64, POLLS_PER_CLOCK = 64 };

static void pause_between_polls(bool eager, long polls) {
    static const struct timespec nap = {0, 50000};
    if (eager || polls < POLLS_BEFORE_SLEEP)
        (void)sched_yield();
    else
        (void)nanosleep(&nap, NULL);
}

sg_code sg_mpi_wait(sg_mpi_world *world, MPI_Request *requests, int n, bool eager, const char *what,
                    sg_status *status) {
    double end = 0;
    int done = 0;
    for (long polls = 0;; polls++) {
        sg_code code = sg_mpi_check(world, MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE), what, status);
        if (code != SG_OK) withdraw(requests, n);
        if (code != SG_OK || done) return code;
        pause_between_polls(eager, polls);
        if (polls % POLLS_PER_CLOCK != 0) continue;
        double now = sg_mpi_now_s();
        if (end == 0) end = now + world->patience_s;
        if (now < end) continue;
        withdraw(requests, n);
        sg_status why;
        (void)sg_fail(&why, SG_MACHINE,
                      "rank %d of %d: %s took longer than %.0f s: another rank hangs or is gone; start again",
                      world->base.rank, world->base.ranks, what, world->patience_s);
        sg_mpi_break(world, why.text);
        if (status) *status = why;
        return SG_MACHINE;
    }
}
