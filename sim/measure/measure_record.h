/* measure_record.h: the times of iterations as they are measured, and the point that they become. For measure.c. */
#ifndef SG_SIM_MEASURE_MEASURE_RECORD_H
#define SG_SIM_MEASURE_MEASURE_RECORD_H

#include "models/training.h"
#include "sim/measure/host_state.h"
#include "sim/measure/point.h"
#include "sim/walk/walk.h"

typedef struct sg_record {
    const sg_training *training;
    double *raw[SG_Q_COUNT]; /* NULL: this kind of training has no such quantity */
    size_t n, room;
} sg_record;

void sg_record_start(sg_record *record, const sg_training *training);
void sg_record_clear(sg_record *record);
/* local_update_s: the update of the same iteration without the exchange of gradients, or NAN: then the time that compute
 * waited for gradients stands for what the exchange costs. */
sg_code sg_record_add(sg_record *record, const sg_step_times *times, double local_update_s, sg_status *status);
/* The quantity whose confidence interval decides when to stop: update_s, with environments iteration_s. */
sg_quantity sg_record_main(const sg_record *record);
/* Half the width of the main quantity's 95 % interval over its median; infinite before six iterations: fewer hold no
 * such interval. */
double sg_record_spread(const sg_record *record);
double sg_record_spread_of(const sg_record *record, sg_quantity quantity);

/* Moves the times into the point and fills its statistics, rates and work counts. */
void sg_record_finish(sg_record *record, sg_point *point);
/* Says in the finished point why its times are suspect, if they are: host, GPU (point->gpu), spread. */
void sg_record_judge(sg_point *point, const sg_host_state *before, const sg_host_state *after, int own_processes);

#endif
