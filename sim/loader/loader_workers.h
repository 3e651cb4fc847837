/* loader_workers.h: processes that make batches of real samples in memory shared with the training process. */
#ifndef SG_SIM_LOADER_LOADER_WORKERS_H
#define SG_SIM_LOADER_LOADER_WORKERS_H

#include "models/training.h"
#include "sim/loader/sample_order.h"
#include "sim/loader/sample_source.h"

typedef struct sg_workers_options {
    const sg_training *training;
    const sg_sample_source *source;
    int processes;  /* >= 1 */
    int64_t places; /* batches that the shared memory holds: as many of each process, one process after the other */
    sg_sample_order order;
    double hang_s;            /* a worker that reads nothing for so long is given up; 0 = 120 */
    volatile const int *stop; /* set by a signal handler; may be NULL */
} sg_workers_options;

/* One batch, as its worker tells of it. Seconds of sg_clock_s, which all processes share. */
typedef struct sg_made_batch {
    int64_t index;
    double start_s, end_s, cpu_s; /* cpu: of the whole process */
    sg_read_cost cost;
} sg_made_batch;

typedef struct sg_workers sg_workers;

/* SG_NO: so many batches do not fit in memory. Forks the workers, which wait for what they are asked for. The source and the training must outlive them. */
sg_code sg_workers_open(const sg_workers_options *options, sg_workers **workers, sg_status *status);
/* Ends them at once, whatever they do. NULL is allowed. */
void sg_workers_close(sg_workers *workers);

/* Has batch `index` of an epoch made in a place, by worker (index mod processes). A worker that is dead is told of by receiving.
 */
void sg_workers_ask(sg_workers *workers, int64_t epoch, int64_t index, int64_t place);
/* Waits for batch `index`: each worker's batches are received in the order in which they were asked for. Ends early,
 * SG_MACHINE, when *leave becomes true (may be NULL) or the options' stop is set. SG_BAD_INPUT: a file cannot be read; SG_MACHINE:
 * the worker died or hangs. Messages name worker, file and remedy. */
sg_code sg_workers_receive(sg_workers *workers, int64_t index, bool (*leave)(void *user), void *user,
                           sg_made_batch *made, sg_status *status);
/* Memory of a place: per input of the training; NULL where the input stays on the device. */
void *const *sg_workers_place(const sg_workers *workers, int64_t place);
/* Memory of a worker that it shares with no other process: the largest. 0: not told here. */
int64_t sg_workers_private_bytes(const sg_workers *workers);
/* Processor seconds that the workers have taken so far, together. */
double sg_workers_cpu_s(const sg_workers *workers);
/* Process id of a worker (tests). */
int sg_workers_process(const sg_workers *workers, int worker);

#endif
