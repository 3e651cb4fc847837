#include "sim/bench/decode_workers.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "formats/child.h"
#include "kernels/clock.h"

/* A timed value: this many frames, so that key frames and those behind them are mixed in each; more of quick ones. */
enum { FRAMES_A_VALUE = 8, MOST_FRAMES_A_VALUE = 256, MOST_VALUES = 1000, LIBRARY_BYTES = 160 };
static const double VALUE_S = 5e-3;
/* At the longest until every process has opened its clip, and beyond the time that they decode. */
static const double START_S = 30, GRACE_S = 30;
static const double LOOK_S = 2e-3; /* between two looks at the others */
static const sg_child_limits LIMITS = {.memory_bytes = 4ull << 30};

/* What one process leaves behind, in memory that is shared with it. */
typedef struct lane {
    double value[MOST_VALUES];
    size_t n;
    int64_t warmup, calls;
    sg_decode_count count;
    sg_host_state before, after;
    char library[LIBRARY_BYTES];
    bool done; /* it came to its end, with this code */
    sg_code code;
    sg_status status;
} lane;

typedef struct board {
    atomic_int ready, stop;
    lane lanes[];
} board;

const char *sg_decode_access_name(sg_decode_access access) {
    static const char *const names[SG_DECODE_ACCESSES] = {"shuffled", "sequential", "history"};
    return names[access];
}

static void wait_a_moment(void) {
    const struct timespec pause = {.tv_nsec = (long)(1e9 * LOOK_S)};
    (void)nanosleep(&pause, NULL);
}

/* ---- one process -------------------------------------------------------------------------------------------------- */

typedef struct worker {
    const sg_decode_job *job;
    lane *lane;
    board *board;
    sg_decode_source *source;
    int64_t step;
} worker;

/* Frame of the i-th sample. Shuffled ones advance by the golden section of the clip: spread evenly over it and over the
 * places in a group of pictures, however few are read, and never in order. */
static int64_t frame_of(const worker *w, int64_t i) {
    const double golden = 0.6180339887498949;
    int64_t frames = w->job->clip->frames;
    if (w->job->access == SG_DECODE_SEQUENTIAL) return i % frames;
    double at = (double)i * golden;
    return (int64_t)((at - floor(at)) * (double)frames) % frames;
}

/* Frames of the next sample; *asked: how many. */
static sg_code read_sample(worker *w, sg_decode_count *count, int64_t *asked, sg_status *status) {
    int64_t frame = frame_of(w, w->step++);
    *asked = 1;
    if (w->job->access != SG_DECODE_HISTORY) return sg_decode_source_frame(w->source, frame, count, status);
    *asked = 2;
    sg_code code = sg_decode_source_frame(w->source, frame > 0 ? frame - 1 : 0, count, status);
    return code ? code : sg_decode_source_frame(w->source, frame, count, status);
}

/* Seconds per frame over `frames` frames (or one more). */
static sg_code timed(worker *w, int64_t frames, double *seconds, sg_decode_count *count, sg_status *status) {
    double start = sg_clock_s();
    int64_t asked = 0, n;
    while (asked < frames) {
        sg_code code = read_sample(w, count, &n, status);
        if (code) return code;
        asked += n;
    }
    *seconds = (sg_clock_s() - start) / (double)asked;
    return SG_OK;
}

static sg_code warm_up(worker *w, sg_status *status) {
    sg_decode_count uncounted = {0};
    double seconds = 0;
    sg_code code = SG_OK;
    for (int i = 0; i < 2 && !code; i++) code = timed(w, FRAMES_A_VALUE, &seconds, &uncounted, status);
    if (code) return code;
    w->lane->warmup = 2 * FRAMES_A_VALUE;
    double frames = ceil(VALUE_S / fmax(seconds, 1e-9));
    w->lane->calls = (int64_t)fmin(fmax(frames, FRAMES_A_VALUE), MOST_FRAMES_A_VALUE);
    return SG_OK;
}

static sg_code wait_for_others(worker *w, sg_status *status) {
    double start = sg_clock_s();
    (void)atomic_fetch_add(&w->board->ready, 1);
    while (atomic_load(&w->board->ready) < w->job->processes && !atomic_load(&w->board->stop)) {
        if (sg_clock_s() - start > START_S) return sg_fail(status, SG_MACHINE, "the other processes do not start");
        wait_a_moment();
    }
    return SG_OK;
}

static sg_code measure(worker *w, sg_status *status) {
    const sg_decode_job *job = w->job;
    sg_bench_samples samples = {0};
    sg_code code = SG_OK;
    sg_bench options = *job->bench;
    if (job->processes > 1) options.options.tight = 0; /* one that ends early would leave the others more */
    sg_host_state_read(&w->lane->before);
    double start = sg_clock_s();
    while (!code && !atomic_load(&w->board->stop) && samples.n < MOST_VALUES) {
        if (sg_bench_enough(&options, &samples, start, job->allowed_s)) break;
        double seconds = 0;
        code = timed(w, w->lane->calls, &seconds, &w->lane->count, status);
        if (!code) code = sg_bench_sample_add(&samples, seconds, status);
    }
    sg_host_state_read(&w->lane->after);
    if (!code && samples.n) memcpy(w->lane->value, samples.value, samples.n * sizeof *samples.value);
    w->lane->n = code ? 0 : samples.n;
    sg_bench_samples_clear(&samples);
    return code;
}

static void work(worker *w) {
    lane *l = w->lane;
    sg_code code = sg_decode_source_open(w->job->clip, &w->source, &l->status);
    if (!code) (void)snprintf(l->library, sizeof l->library, "%s", sg_decode_source_library(w->source));
    if (!code) code = warm_up(w, &l->status);
    if (!code) code = wait_for_others(w, &l->status);
    if (!code) code = measure(w, &l->status);
    if (code) atomic_store(&w->board->stop, 1);
    sg_decode_source_close(w->source);
    l->code = code;
    l->done = true;
}

static pid_t start(const sg_decode_job *job, board *b, int number) {
    pid_t parent = getpid(), child = fork();
    if (child != 0) return child;
    sg_child_confine(parent, &LIMITS, NULL, 0);
    worker w = {.job = job, .lane = &b->lanes[number], .board = b, .step = number};
    work(&w);
    _exit(0);
}

/* ---- all of them -------------------------------------------------------------------------------------------------- */

static bool has_ended(pid_t child) {
    siginfo_t info = {0};
    int result = waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT);
    return (result < 0 && errno != EINTR) || (result == 0 && info.si_pid == child);
}

/* Until all have ended, or are late. One that dies takes the others' measurement with it. */
static void wait_for_all(const sg_decode_job *job, board *b, const pid_t *child, int n) {
    double end = sg_clock_s() + START_S + job->allowed_s + GRACE_S;
    for (int left = n; left > 0 && sg_clock_s() < end;) {
        wait_a_moment();
        if (sg_bench_stopped(job->bench)) atomic_store(&b->stop, 1);
        left = 0;
        for (int i = 0; i < n; i++)
            if (!has_ended(child[i]))
                left++;
            else if (!b->lanes[i].done)
                atomic_store(&b->stop, 1);
    }
}

static sg_code collect(const board *b, int n, sg_bench_samples *samples, sg_decode_count *count, sg_status *status) {
    sg_code code = SG_OK;
    for (int i = 0; i < n && !code; i++) {
        const lane *l = &b->lanes[i];
        for (size_t k = 0; k < l->n && !code; k++) code = sg_bench_sample_add(samples, l->value[k], status);
        samples->warmup += l->warmup;
        count->frames += l->count.frames;
        count->frames_decoded += l->count.frames_decoded;
        count->seeks += l->count.seeks;
    }
    samples->calls = b->lanes[0].calls;
    samples->before = b->lanes[0].before;
    samples->after = b->lanes[0].after;
    return code;
}

/* The first failure in words. */
static sg_code judge(const sg_decode_job *job, const board *b, int i, const char *how, sg_status *status) {
    const lane *l = &b->lanes[i];
    if (!l->done) return sg_fail(status, SG_MACHINE, "a process that decoded %s %s", job->clip->path, how);
    return l->code ? sg_fail(status, l->code, "%s", l->status.text) : SG_OK;
}

sg_code sg_decode_run(const sg_decode_job *job, sg_bench_samples *samples, sg_decode_count *count, char *library,
                      size_t library_bytes, sg_status *status) {
    *samples = (sg_bench_samples){0};
    *count = (sg_decode_count){0};
    size_t bytes = sizeof(board) + (size_t)job->processes * sizeof(lane);
    pid_t *child = calloc((size_t)job->processes, sizeof *child);
    board *b = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!child || b == MAP_FAILED) {
        if (b != MAP_FAILED) (void)munmap(b, bytes);
        free(child);
        return sg_fail_memory(status, bytes, "measured times");
    }
    sg_code code = SG_OK;
    int n = 0;
    for (; n < job->processes && !code; n++) {
        child[n] = start(job, b, n);
        if (child[n] < 0) {
            code = sg_fail(status, SG_MACHINE, "cannot start a process that decodes: %s", strerror(errno));
            atomic_store(&b->stop, 1);
            break;
        }
    }
    wait_for_all(job, b, child, n);
    for (int i = 0; i < n; i++) {
        char how[128];
        (void)sg_child_reap(child[i], &LIMITS, how, sizeof how);
        if (!code) code = judge(job, b, i, how, status);
    }
    if (!code && !sg_bench_stopped(job->bench)) code = collect(b, n, samples, count, status);
    if (!code) (void)snprintf(library, library_bytes, "%s", b->lanes[0].library);
    if (code) sg_bench_samples_clear(samples);
    (void)munmap(b, bytes);
    free(child);
    return code;
}
