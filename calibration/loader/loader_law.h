/* loader_law.h: what a batch costs a loader worker on one host: a law of one data set where it was measured, or of the machine
 * in general; and what rate, how many workers and vCPUs follow from it. */
#ifndef SG_CALIBRATION_LOADER_LAW_H
#define SG_CALIBRATION_LOADER_LAW_H

#include "calibration/loader/loader_clock.h"
#include "kernels/virtual/machine.h"

#include <stddef.h>

/* Numbers of a law, with the names that they have in machine files. Seconds are of a worker that runs alone. */
#define SG_LOADER_NUMBERS(X)                                                                                           \
    X(frame_s)      /* processor seconds per frame that is asked for, of one camera */                                 \
    X(sample_s)     /* ... per sample beside its frames */                                                             \
    X(wait_s)       /* seconds per sample that the worker waits (a disk) */                                            \
    X(batch_log_sd) /* of a batch's work, from batch to batch */                                                       \
    X(sigma)        /* contention, see sg_loader_contention */                                                         \
    X(kappa)                                                                                                           \
    X(handover_s)         /* of the consumer per batch that is ready */                                                \
    X(handover_bandwidth) /* B/s of its bytes */                                                                       \
    X(step_weight)        /* share of a training thread / of a worker, where processors are short */                   \
    X(step_busy)          /* processors that a step keeps busy / its threads; 0: unknown, all of them */               \
    X(work_log_sd)        /* doubt of a batch's work */                                                                \
    X(contention_log_sd)  /* doubt of contention beyond 1 */                                                           \
    X(residual_log_sd)    /* of measured periods about the law's */                                                    \
    X(left_out_log_sd)    /* ... of worker counts that the fit had not seen; 0: too few of them */                     \
    X(cameras)            /* as measured */                                                                            \
    X(frames_per_camera)                                                                                               \
    X(processors) /* that it was measured with, of one process */                                                      \
    X(points)                                                                                                          \
    X(low_workers)                                                                                                     \
    X(high_workers)                                                                                                    \
    X(low_batch)                                                                                                       \
    X(high_batch)

typedef struct sg_loader_law {
    char dataset[160], layer[16]; /* as sg_point_config has them; "": of the machine in general */
#define X(name) double name;
    SG_LOADER_NUMBERS(X)
#undef X
    uint8_t evidence; /* sg_evidence */
    uint8_t told;     /* SG_LOADER_TOLD_*: what a fit's points told, of the rest it keeps the prior; not in files */
} sg_loader_law;

enum { SG_LOADER_TOLD_SAMPLE = 1, SG_LOADER_TOLD_SIGMA = 2, SG_LOADER_TOLD_KAPPA = 4, SG_LOADER_TOLD_HANDOVER = 8 };

/* The machine's parameters as a law of data whose frames cost `relative` x frame_s (sg_codec_frame_cost), with their doubt and
 * the codec's. Parameters that the machine lacks have priors. */
sg_loader_law sg_loader_law_of_machine(const sg_machine *machine, double relative, double relative_log_sd);
/* Priors of what few points leave open: sigma, kappa, sample_s, handover, as of a machine that states none. */
sg_loader_law sg_loader_law_prior(void);

/* Log sd of what a frame costs from one data set to another of its codec and size, on one host: contents differ (judgement). */
extern const double SG_LOADER_CONTENT_LOG_SD;
/* The same of rows and collation of data that nobody loaded on this host (judgement). */
extern const double SG_LOADER_SAMPLE_LOG_SD;

/* A training that loads. */
typedef struct sg_loader_load {
    int64_t batch, cameras, frames_per_camera; /* per process and micro-step; frames of one camera per sample */
    double batch_bytes;                        /* that travel, as uint8 */
    int workers, prefetch;                     /* of one process */
    double processors;                         /* that this process and its workers have */
    int64_t epoch;                             /* batches of an epoch, after which the queue runs dry; 0: no end */
    double step_s, step_threads;               /* preprocessing and update, when no worker runs */
    bool step_on_processors;
} sg_loader_load;

sg_loader_course sg_loader_course_of(const sg_loader_law *law, const sg_loader_load *load);

/* Batches per second that workers make when nobody has them wait: fair shares, contention, waits beside. In line: 1 / batch.
 * `processors`: those that are left for them. */
double sg_loader_rate(const sg_loader_course *course, int workers, double processors);
/* Of so many processors those that workers get beside the step's threads: what these leave, and half at least, which is
 * their fair part. */
double sg_loader_left(const sg_loader_course *course, double processors);
/* Fewest workers on the processors of the course, and fewest processors (each with a worker, beside the step's own threads),
 * that make `rate` batches per second; 0: no number does. Where workers on the processors of the course do, no more
 * processors than these are needed. */
int sg_loader_workers_for(const sg_loader_course *course, double rate);
int sg_loader_processors_for(const sg_loader_course *course, double rate);

/* "decode;CODEC;HxW;gop=N": a law of decoding alone, of which frame_s and work_log_sd count. */
void sg_loader_decode_text(const char *codec, int64_t height, int64_t width, int64_t gop, char text[160]);
/* Of the laws of decoding alone the one with this codec whose frames are nearest in pixels, then in the distance of their key
 * frames (0: 2); NULL: there is none. */
const sg_loader_law *sg_loader_law_of_codec(const sg_loader_law *laws, size_t n, const char *codec, int64_t height,
                                            int64_t width, int64_t gop);

/* The law of this data set among n, or of one that differs in its name alone (*other), or NULL. layer NULL: "cached" before any
 * other. */
const sg_loader_law *sg_loader_law_find(const sg_loader_law *laws, size_t n, const char *dataset, const char *layer,
                                        bool *other);

#endif
