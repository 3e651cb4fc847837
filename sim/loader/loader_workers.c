/* loader_workers.c: see loader_workers.h. Each worker has a socket of its own, over which it is asked for batches and says that
 * they are made; the batches themselves lie in one mapping that all share. */
#include "sim/loader/loader_workers.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "formats/child.h"
#include "kernels/clock.h"
#include "sim/loader/loader_worker.h"
#include "sim/measure/host_state.h"

typedef struct process {
    pid_t id; /* 0: none */
    int socket;
    int64_t read_before; /* samples read when its progress was looked at last */
    double moved_s;      /* when they changed */
} process;

struct sg_workers {
    sg_workers_options options;
    process *process;
    unsigned char *shared; /* boards, then places */
    size_t bytes, board_bytes, place_bytes;
    void ***places;
};

/* Reading nothing for so long is no slow disk. LeRobot's loader waits for ever; PyTorch's advice is a time-out of minutes. */
static const double HANG_S = 120;
/* How long one look at a socket waits: an interrupt is noticed so late. */
static const int LOOK_MS = 100;
/* A batch that is nearly there is waited for when an interrupt comes, a slow one is not. */
static const double PATIENCE_S = 0.5;

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

static size_t rounded(size_t bytes) {
    const size_t line = 64;
    return (bytes + line - 1) / line * line;
}

static const sg_desc *desc_of(const sg_training *t, size_t input) {
    return &t->tensors[t->inputs[input].tensor].desc;
}

static sg_worker_board *board_of(const sg_workers *w, int worker) {
    return (sg_worker_board *)(void *)(w->shared + (size_t)worker * rounded(sizeof(sg_worker_board)));
}

static sg_code lay_out(sg_workers *w, sg_status *status) {
    const sg_training *t = w->options.training;
    w->board_bytes = (size_t)w->options.processes * rounded(sizeof(sg_worker_board));
    for (size_t i = 0; i < t->n_inputs; i++)
        if (t->inputs[i].source != SG_INPUT_STORAGE) w->place_bytes += rounded(sg_desc_span_bytes(desc_of(t, i)));
    if (__builtin_mul_overflow(w->place_bytes, (size_t)w->options.places, &w->bytes) ||
        __builtin_add_overflow(w->bytes, w->board_bytes, &w->bytes))
        return sg_fail(status, SG_BAD_INPUT, "a loader's queue of %" PRId64 " batches of %zu bytes is too long",
                       w->options.places, w->place_bytes);
    uint64_t available = sg_host_available_bytes();
    if (available && w->bytes > available)
        return sg_fail(
            status, SG_NO,
            "%" PRId64 " batches of %.1f MiB under way need %.1f GiB of memory, %.1f GiB are free: take fewer "
            "loader workers or a smaller batch",
            w->options.places, (double)w->place_bytes / 0x1p20, (double)w->bytes / 0x1p30, (double)available / 0x1p30);
    /* its pages are there before a worker writes them: their first touch would be in the first batches' time */
    const int how = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE;
    void *memory = mmap(NULL, w->bytes, PROT_READ | PROT_WRITE, how, -1, 0);
    if (memory == MAP_FAILED) return sg_fail_memory(status, w->bytes, "the batches of a loader");
    w->shared = memory;
    return SG_OK;
}

static sg_code make_places(sg_workers *w, sg_status *status) {
    const sg_training *t = w->options.training;
    size_t n = (size_t)w->options.places;
    w->places = calloc(n, sizeof *w->places);
    if (!w->places) return sg_fail_memory(status, n * sizeof *w->places, "a loader's queue");
    for (size_t p = 0; p < n; p++) {
        w->places[p] = calloc(t->n_inputs + 1, sizeof **w->places);
        if (!w->places[p]) return sg_fail_memory(status, t->n_inputs * sizeof **w->places, "a loader's queue");
        unsigned char *at = w->shared + w->board_bytes + p * w->place_bytes;
        for (size_t i = 0; i < t->n_inputs; i++) {
            if (t->inputs[i].source == SG_INPUT_STORAGE) continue;
            w->places[p][i] = at;
            at += rounded(sg_desc_span_bytes(desc_of(t, i)));
        }
    }
    return SG_OK;
}

void *const *sg_workers_place(const sg_workers *w, int64_t place) {
    return w->places[place];
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* In whole pages: the first and the last may be another worker's as well. */
static void own_memory(const sg_workers *w, int worker, sg_worker_task *task) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE),
           bytes = (size_t)(w->options.places / w->options.processes) * w->place_bytes;
    size_t first = w->board_bytes + (size_t)worker * bytes, end = first + bytes;
    first = first / page * page;
    task->own = w->shared + first;
    task->own_bytes = end - first;
}

static sg_code start(sg_workers *w, int worker, sg_status *status) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return sg_fail(status, SG_MACHINE, "starting a loader's worker %d: no socket: %s", worker, strerror(errno));
    sg_worker_board *board = board_of(w, worker);
    atomic_store(&board->sample, -1);
    atomic_store(&board->read, 0);
    sg_worker_task task = {&w->options, (void *const *const *)w->places, .board = board, .socket = ends[1]};
    own_memory(w, worker, &task);
    pid_t parent = getpid(), id = fork();
    if (id == 0) sg_worker_run(&task, parent);
    int failure = errno;
    (void)close(ends[1]);
    if (id < 0) {
        (void)close(ends[0]);
        return sg_fail(status, SG_MACHINE, "starting a loader's worker %d: %s: take fewer (--workers)", worker,
                       strerror(failure));
    }
    w->process[worker] = (process){.id = id, .socket = ends[0], .moved_s = sg_clock_s()};
    return SG_OK;
}

sg_code sg_workers_open(const sg_workers_options *options, sg_workers **workers, sg_status *status) {
    *workers = NULL;
    sg_workers *w = calloc(1, sizeof *w);
    if (!w) return sg_fail_memory(status, sizeof *w, "a loader");
    w->options = *options;
    if (!(w->options.hang_s > 0)) w->options.hang_s = HANG_S;
    w->process = calloc((size_t)options->processes, sizeof *w->process);
    if (!w->process) {
        free(w);
        return sg_fail_memory(status, (size_t)options->processes * sizeof *w->process, "a loader");
    }
    sg_code code = lay_out(w, status);
    if (!code) code = make_places(w, status);
    for (int i = 0; i < options->processes && !code; i++) code = start(w, i, status);
    if (code) {
        sg_workers_close(w);
        return code;
    }
    *workers = w;
    return SG_OK;
}

static void end(process *p) {
    if (!p->id) return;
    char how[128];
    sg_child_reap(p->id, &(sg_child_limits){0}, how, sizeof how);
    (void)close(p->socket);
    p->id = 0;
}

void sg_workers_close(sg_workers *w) {
    if (!w) return;
    for (int i = 0; w->process && i < w->options.processes; i++) end(&w->process[i]);
    for (int64_t p = 0; w->places && p < w->options.places; p++) free(w->places[p]);
    if (w->shared) (void)munmap(w->shared, w->bytes);
    free(w->places);
    free(w->process);
    free(w);
}

/* ---- what becomes of them ---------------------------------------------------------------------------------------- */

/* "worker 2 of 4 (process 4711), at episode 3, frame 17: videos/x.mp4" */
static void name_worker(const sg_workers *w, int worker, char *text, size_t bytes) {
    const sg_sample_source *source = w->options.source;
    int64_t sample = atomic_load(&board_of(w, worker)->sample);
    int n = snprintf(text, bytes, "the data loader's worker %d of %d (process %d)", worker, w->options.processes,
                     (int)w->process[worker].id);
    if (sample < 0 || n < 0 || (size_t)n >= bytes) return;
    char where[512] = "";
    if (source->where) source->where(source->user, sample, where, sizeof where);
    (void)snprintf(text + n, bytes - (size_t)n, ", at sample %" PRId64 "%s%s", sample, where[0] ? ", " : "", where);
}

static sg_code tell_death(sg_workers *w, int worker, sg_status *status) {
    char name[768];
    name_worker(w, worker, name, sizeof name);
    process *p = &w->process[worker];
    char how[128];
    int killed_by = sg_child_reap(p->id, &(sg_child_limits){0}, how, sizeof how);
    (void)close(p->socket);
    p->id = 0;
    if (killed_by == SIGKILL)
        return sg_fail(status, SG_MACHINE, "%s %s: take fewer workers (--workers) or a smaller batch", name, how);
    return sg_fail(
        status, SG_MACHINE,
        "%s %s: where memory ran out, take fewer workers (--workers) or a smaller batch; where one file does "
        "it, leave that out of the data set",
        name, how);
}

static sg_code tell_hang(sg_workers *w, int worker, sg_status *status) {
    char name[768];
    name_worker(w, worker, name, sizeof name);
    return sg_fail(
        status, SG_MACHINE,
        "%s has read nothing for %.0f s: look whether the file can be read at all (a network disk?), or leave "
        "it out of the data set",
        name, w->options.hang_s);
}

static bool hangs(sg_workers *w, int worker) {
    process *p = &w->process[worker];
    int64_t read = atomic_load(&board_of(w, worker)->read);
    double now = sg_clock_s();
    if (read != p->read_before) {
        p->read_before = read;
        p->moved_s = now;
    }
    return now - p->moved_s > w->options.hang_s;
}

/* ---- asking and receiving ---------------------------------------------------------------------------------------- */

static int worker_of(const sg_workers *w, int64_t index) {
    return (int)(index % w->options.processes);
}

void sg_workers_ask(sg_workers *w, int64_t epoch, int64_t index, int64_t place) {
    const sg_worker_request request = {epoch, index, place};
    int socket = w->process[worker_of(w, index)].socket;
    while (send(socket, &request, sizeof request, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
}

/* A file may have got hold of the worker: what it says is looked at before it is counted. */
static bool is_sound(const sg_made_batch *made) {
    const sg_read_cost *c = &made->cost;
    const int64_t counts[] = {c->samples, c->frames, c->frames_decoded, c->seeks, c->opened, c->bytes_read};
    const double seconds[] = {made->start_s,   made->end_s,    made->cpu_s,    c->frame_cpu_s,
                              c->frame_wall_s, c->table_cpu_s, c->table_wall_s};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i] < 0 || counts[i] > INT64_C(1) << 50) return false;
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++)
        if (!(seconds[i] >= 0 && seconds[i] < 1e12)) return false;
    return true;
}

static sg_code take_answer(sg_workers *w, int worker, const sg_worker_answer *answer, int64_t index,
                           sg_made_batch *made, sg_status *status) {
    *made = answer->made;
    if (answer->status.code) {
        *status = answer->status;
        status->text[sizeof status->text - 1] = '\0';
        if (status->code != SG_MACHINE && status->code != SG_NO) status->code = SG_BAD_INPUT;
        return sg_fail_in(status, "the data loader's worker %d of %d", worker, w->options.processes);
    }
    if (made->index == index && is_sound(made)) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT,
                   "the data loader's worker %d does not answer as a worker does: a file of the data set is hostile",
                   worker);
}

sg_code sg_workers_receive(sg_workers *w, int64_t index, bool (*leave)(void *user), void *user, sg_made_batch *made,
                           sg_status *status) {
    int worker = worker_of(w, index);
    process *p = &w->process[worker];
    double start = p->moved_s = sg_clock_s();
    for (;;) {
        struct pollfd look = {.fd = p->socket, .events = POLLIN};
        int ready = poll(&look, 1, LOOK_MS);
        if (ready > 0) {
            sg_worker_answer answer;
            ssize_t n = recv(p->socket, &answer, sizeof answer, MSG_DONTWAIT);
            if (n == sizeof answer) return take_answer(w, worker, &answer, index, made, status);
            if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
            return tell_death(w, worker, status);
        }
        if (ready < 0 && errno != EINTR)
            return sg_fail(status, SG_MACHINE, "waiting for a loader's worker: %s", strerror(errno));
        if (leave && leave(user)) return sg_fail(status, SG_MACHINE, "the data loader was closed");
        if (w->options.stop && *w->options.stop && sg_clock_s() - start > PATIENCE_S)
            return sg_fail(status, SG_MACHINE, "interrupted");
        if (hangs(w, worker)) return tell_hang(w, worker, status);
    }
}

int sg_workers_process(const sg_workers *w, int worker) {
    return (int)w->process[worker].id;
}

double sg_workers_cpu_s(const sg_workers *w) {
    double sum = 0;
    for (int i = 0; i < w->options.processes; i++) {
        clockid_t clock;
        struct timespec t;
        if (!w->process[i].id || clock_getcpuclockid(w->process[i].id, &clock) != 0 || clock_gettime(clock, &t) != 0)
            continue;
        sum += (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    }
    return sum;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Private_Clean and Private_Dirty (Linux, proc(5)) of private mappings: pages of the shared places that one worker alone has
 * touched so far would count as its own. */
static int64_t private_by_smaps(pid_t id) {
    char path[64], line[512];
    (void)snprintf(path, sizeof path, "/proc/%d/smaps", (int)id);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    int64_t kib = 0;
    bool is_private = false;
    while (fgets(line, sizeof line, file)) {
        char rights[8];
        if (sscanf(line, "%*[0-9a-f]-%*[0-9a-f] %7s", rights) == 1) {
            is_private = strlen(rights) == 4 && rights[3] == 'p';
            continue;
        }
        if (!is_private || strncmp(line, "Private_", 8) != 0 || strncmp(line, "Private_Hugetlb", 15) == 0) continue;
        const char *colon = strchr(line, ':');
        kib += colon ? strtoll(colon + 1, NULL, 10) : 0;
    }
    (void)fclose(file);
    return kib * 1024;
}

/* Without it: what is resident and not of a shared mapping or file. Counts pages still shared since the fork, too. */
static int64_t private_by_statm(pid_t id) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/statm", (int)id);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    char line[256] = "", *at = line;
    if (!fgets(line, sizeof line, file)) line[0] = '\0';
    (void)fclose(file);
    (void)strtoll(at, &at, 10);
    int64_t resident = strtoll(at, &at, 10), shared = strtoll(at, &at, 10);
    return resident > shared ? (resident - shared) * (int64_t)sysconf(_SC_PAGESIZE) : 0;
}

int64_t sg_workers_private_bytes(const sg_workers *w) {
    int64_t largest = 0;
    for (int i = 0; i < w->options.processes; i++) {
        if (!w->process[i].id) continue;
        int64_t bytes = private_by_smaps(w->process[i].id);
        if (!bytes) bytes = private_by_statm(w->process[i].id);
        if (bytes > largest) largest = bytes;
    }
    return largest;
}
