#include "sim/loader/loader_worker.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "formats/child.h"
#include "kernels/clock.h"
#include "sim/walk/synthetic.h"

typedef struct worker {
    sg_worker_task task;
    void *hand;
    bool opened;
} worker;

static double process_cpu_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What the data set does not hold (tokens, padding) is drawn, as the synthetic loader does. */
static void draw_rest(const worker *w, const sg_worker_request *asked, void *const *data) {
    const sg_workers_options *o = w->task.options;
    int64_t batch = asked->epoch * sg_order_batches(&o->order) + asked->index;
    for (size_t i = 0; i < o->training->n_inputs; i++) {
        if (!data[i] || o->source->fills[i]) continue;
        sg_synthetic what =
            sg_synthetic_input(o->training, i, o->order.seed, (uint64_t)batch + 1, 0, o->order.rank, o->order.ranks);
        sg_synthetic_fill(data[i], &o->training->tensors[o->training->inputs[i].tensor].desc, &what);
    }
}

static sg_code read_batch(worker *w, const sg_worker_request *asked, sg_made_batch *made, sg_status *status) {
    const sg_workers_options *o = w->task.options;
    sg_code code = w->opened ? SG_OK : o->source->open(o->source->user, &w->hand, status);
    if (code) return code;
    w->opened = true;
    void *const *data = w->task.places[asked->place];
    for (int64_t row = 0; row < o->order.batch && !code; row++) {
        int64_t sample = sg_order_sample(&o->order, asked->epoch, asked->index, row);
        atomic_store(&w->task.board->sample, sample);
        code = o->source->read(w->hand, sample, row, data, &made->cost, status);
        atomic_fetch_add(&w->task.board->read, 1);
    }
    if (!code) {
        atomic_store(&w->task.board->sample, -1);
        draw_rest(w, asked, data);
    }
    return code;
}

static void make_batch(worker *w, const sg_worker_request *asked, sg_worker_answer *answer) {
    memset(answer, 0, sizeof *answer); /* padding too: all of it is sent */
    answer->made.index = asked->index;
    answer->made.start_s = sg_clock_s();
    double cpu_s = process_cpu_s();
    answer->status.code = read_batch(w, asked, &answer->made, &answer->status);
    answer->made.cpu_s = process_cpu_s() - cpu_s;
    answer->made.end_s = sg_clock_s();
}

void sg_worker_run(const sg_worker_task *task, pid_t parent) {
    worker w = {.task = *task};
    const sg_child_limits limits = {.memory_bytes = task->options->source->memory_bytes};
    sg_child_confine(parent, &limits, &task->socket, 1);
    w.task.socket = 3;
#ifdef MADV_POPULATE_WRITE
    /* faults of the first batches would be in their time; where the kernel is older, they are */
    (void)madvise(w.task.own, w.task.own_bytes, MADV_POPULATE_WRITE);
#endif
    (void)signal(SIGINT, SIG_IGN); /* Ctrl-C reaches the whole group: the training process ends its iteration first */
    for (;;) {
        sg_worker_request asked;
        ssize_t n = recv(w.task.socket, &asked, sizeof asked, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n != sizeof asked) break; /* the training process has gone, or wants no more */
        sg_worker_answer answer;
        make_batch(&w, &asked, &answer);
        if (send(w.task.socket, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) break;
    }
    _exit(0);
}
