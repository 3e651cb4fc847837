/* queue.h: the collective stream: a thread that takes jobs in order, so that communication overlaps compute. */
#ifndef SG_KERNELS_CPU_QUEUE_H
#define SG_KERNELS_CPU_QUEUE_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sg_queue sg_queue;

/* A job: a function and the bytes it needs, copied into the queue. Runs on the queue's thread. */
enum { SG_JOB_BYTES = 64 };
typedef sg_code (*sg_job)(void *bytes, sg_status *status);

sg_code sg_queue_open(sg_queue **queue, sg_status *status);
/* Drops jobs not yet begun and waits for the one that runs. One that hangs (a dead peer) is given up after 2 s: its thread
 * and the queue stay behind until the process ends. */
void sg_queue_close(sg_queue *queue);
/* Appends a job and gives its ticket. Waits while the queue is full. Fails with the text of a job that failed before. */
sg_code sg_queue_push(sg_queue *queue, sg_job job, const void *bytes, size_t n, uint64_t *ticket, sg_status *status);
/* The ticket of the last job pushed; 0 before the first. */
uint64_t sg_queue_last(sg_queue *queue);
/* Waits until the job with this ticket and all before it are done, at most timeout_s (<= 0: for ever). */
sg_code sg_queue_wait(sg_queue *queue, uint64_t ticket, double timeout_s, sg_status *status);
bool sg_queue_is_done(sg_queue *queue, uint64_t ticket);
/* Waits at most timeout_s until the job with this ticket is done or dropped, whether the queue has failed or not. */
bool sg_queue_drain(sg_queue *queue, uint64_t ticket, double timeout_s);
/* From now on every wait and push fails with this text; jobs not yet begun are dropped. */
void sg_queue_fail(sg_queue *queue, const char *why);

#endif
