/* loader_worker.h: one worker process of the loader, and what it and the training process say to each other. For
 * loader_workers.c. */
#ifndef SG_SIM_LOADER_LOADER_WORKER_H
#define SG_SIM_LOADER_LOADER_WORKER_H

#include <stdatomic.h>
#include <sys/types.h>

#include "sim/loader/loader_workers.h"

/* Messages keep their bounds (SOCK_SEQPACKET). */
typedef struct sg_worker_request {
    int64_t epoch, index, place;
} sg_worker_request;

typedef struct sg_worker_answer {
    sg_made_batch made;
    sg_status status; /* of the reading */
} sg_worker_answer;

/* In shared memory: what a worker is at, so that its death or silence can be explained. */
typedef struct sg_worker_board {
    _Atomic int64_t sample; /* -1: none */
    _Atomic int64_t read;   /* samples read so far */
} sg_worker_board;

typedef struct sg_worker_task {
    const sg_workers_options *options;
    void *const *const *places; /* [place][input] */
    void *own;                  /* its places: one piece of the shared memory, page by page */
    size_t own_bytes;
    sg_worker_board *board;
    int socket;
} sg_worker_task;

/* The whole life of the process: never returns. `parent`: the training process. */
_Noreturn void sg_worker_run(const sg_worker_task *task, pid_t parent);

#endif
