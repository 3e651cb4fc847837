/* predict_walk.h: one steady iteration of a training, recorded on the virtual device, and what it takes on machines. */
#ifndef SG_CALIBRATION_PREDICT_PREDICT_WALK_H
#define SG_CALIBRATION_PREDICT_PREDICT_WALK_H

#include "kernels/virtual/replay.h"
#include "models/training.h"
#include "sim/walk/phases.h"
#include "sim/walk/walk.h"

typedef struct sg_walked {
    sg_step_times times; /* of one iteration */
    sg_virtual_report report;
    double by_log[SG_PHASE_COUNT][SG_M_COUNT]; /* d host seconds of the phase / d log parameter */
    double host_by_log[SG_M_COUNT],
        device_by_log[SG_M_COUNT]; /* of the host's work; of the device's, without stretch */
    sg_memory_peak peak;           /* of a steady iteration; everything fits while walking */
} sg_walked;

/* What the course of an iteration depends on, beside its training. */
typedef struct sg_course_options {
    bool processor; /* a CPU: its host computes itself, and records no graphs */
    bool several;   /* ranks exchange gradients */
    bool caching;   /* the framework's allocator keeps what it frees */
    bool graph;     /* the update is captured and replayed (CUDA graphs) */
    bool trimmed;   /* cached memory was given back before the iteration: it allocates from the driver again */
    sg_bucket_options buckets;
} sg_course_options;

/* The second iteration of a walk, when the optimizer's state exists: its moves, its marks and its peaks are those of every
 * later iteration, on any machine of the training's device class. The training must outlive it. */
typedef struct sg_course sg_course;
sg_code sg_course_open(const sg_training *training, const sg_course_options *options, sg_course **course,
                       sg_status *status);
void sg_course_close(sg_course *course);
const sg_tape *sg_course_tape(const sg_course *course);
/* One iteration on the machine of these prices, with so many ranks (1 unless the course is of several); seconds of one
 * environment step (PPO). */
sg_code sg_course_walk(sg_course *course, const sg_tape_prices *prices, int ranks, double env_step_s, sg_walked *walked,
                       sg_status *status);

#endif
