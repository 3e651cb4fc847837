/* loader_clock.h: the trainer's loader as a producer clock: a discrete-event simulation of workers that make batches ahead of
 * a step, on processors that they share with it.
 *
 * As PyTorch's DataLoader: batch i is made whole by worker i mod W, at most prefetch x W batches are under way or ready, they
 * are delivered in order; without workers the consumer makes each batch itself, between its steps. Threads that run at once
 * share the processors fairly and slow each other by the contention law. Takes microseconds and gives the same result each
 * time: what differs from batch to batch follows a fixed sequence. */
#ifndef SG_CALIBRATION_LOADER_CLOCK_H
#define SG_CALIBRATION_LOADER_CLOCK_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { SG_LOADER_WORKERS_MAX = 1024, SG_LOADER_PREFETCH = 4 /* LeRobot's prefetch_factor (LeRobot 0.4, 2025) */ };

/* Contention of n threads on C processors: the time of each alone times 1 + sigma (m - 1) + kappa m (m - 1), m = min(n, C) of
 * which run at once, after Gunther's universal scalability law (N. J. Gunther, "Guerrilla Capacity Planning", 2007). What only
 * waits for its turn slows nobody: measured here, 8 decoding workers on 2 processors make as much as 3. At least 1. */
double sg_loader_contention(double sigma, double kappa, double threads, double processors);

typedef struct sg_loader_course {
    int workers;         /* 0: in line */
    int prefetch;        /* batches per worker; 0 = SG_LOADER_PREFETCH */
    double processors;   /* that workers and the training process share; > 0 */
    double batch_cpu_s;  /* processor seconds of a batch, of a worker alone */
    double batch_wait_s; /* seconds that it waits in between (a disk) */
    double batch_log_sd; /* of batch_cpu_s from batch to batch */
    double slowest;      /* batch_cpu_s of worker 0 / of the others; 0 = 1 */
    double sigma, kappa; /* contention law */
    double step_s;       /* of the consumer when no worker runs: preprocessing and update */
    double step_threads; /* processors that it keeps busy meanwhile */
    double step_weight;  /* share of one of these threads / of a worker, where there are too few processors; 0 = 1 */
    bool step_on_processors; /* the step itself is made by these threads (a CPU), and slows with them; false: a GPU */
    double handover_s;       /* of the consumer for each batch that is ready, on one processor */
    int64_t epoch;           /* batches of an epoch, after which workers start anew; 0: no end */
    int64_t steps;           /* that are looked at; 0: as many as a mean takes */
} sg_loader_course;

typedef struct sg_loader_waits {
    double period_s;                           /* mean from step to step */
    double step_s;                             /* mean of the step alone, stretched by workers */
    double mean_s, p50_s, p90_s, p99_s, max_s; /* dataloading_s: waiting and handing over */
    double stalled_share;                      /* of steps: waited longer than a tenth of the period */
    double stall_every;                        /* steps from one stall to the next; 0: none. W: bursts */
    double first_batch_s;                      /* from the start of the workers */
    double batch_s;     /* mean of a worker for one batch, wall-clock; in line: of the consumer */
    double batch_cpu_s; /* ... of which it had a processor: with contention */
} sg_loader_waits;

/* SG_BAD_INPUT: a course that is none (no processors, negative or infinite times, too many workers). */
sg_code sg_loader_clock(const sg_loader_course *course, sg_loader_waits *waits, sg_status *status);

/* Seconds that the end of an epoch costs: queues run dry and fill again. */
sg_code sg_loader_epoch_end(const sg_loader_course *course, double *seconds, sg_status *status);

#endif
