/* measure_loader.h: what measuring has to do about loaders: opening the one that is asked for, getting past its start, and
 * recording what it did. For measure.c and measure_pause.c. */
#ifndef SG_SIM_MEASURE_MEASURE_LOADER_H
#define SG_SIM_MEASURE_MEASURE_LOADER_H

#include "sim/loader/dataset_source.h"
#include "sim/loader/loader.h"
#include "sim/measure/measure.h"
#include "sim/measure/measure_record.h"

/* A loader of real batches and what it needs; all NULL with synthetic ones. */
typedef struct sg_measured_loader {
    const sg_measure_options *options;
    sg_dataset_source *source;
    sg_loader *loader;
    int64_t cold_epoch; /* whose files were dropped from the page cache */
    double own_cpu_s;   /* processor seconds of this process when counting began */
} sg_measured_loader;

/* Options of the loader that a training is measured with; the device and real samples are not in them. */
sg_loader_options sg_loader_options_of(const sg_training *training, const sg_measure_options *options);

/* Starts the workers of a real loader; nothing without options->catalogue. Before a device is opened: a process that holds
 * little is forked quickly. */
sg_code sg_measured_loader_open(const sg_training *training, const sg_measure_options *options,
                                sg_measured_loader *measured, sg_status *status);
void sg_measured_loader_close(sg_measured_loader *measured);

/* Behind the warm-up. A loader that is slower than the step (step_s: without waiting) has a full queue only because the start
 * took long: it is emptied, by at most one queue of batches. */
sg_code sg_measured_loader_settle(sg_measured_loader *measured, double step_s, sg_status *status);
/* Counting begins. */
void sg_measured_loader_count(sg_measured_loader *measured);
/* Between iterations: files of a cold layer leave the page cache when an epoch has ended. */
sg_code sg_measured_loader_between(sg_measured_loader *measured, sg_status *status);
/* Iterations that a real loader is watched for at least, as long as there is time: a few rounds of its workers. */
int64_t sg_measured_loader_least(const sg_measured_loader *measured);
/* After the last counted iteration: fills point->loader but for the waits, which sg_measured_loader_waits reads off the finished
 * point: of real batches, and of any loader by itself. */
void sg_measured_loader_tell(const sg_measured_loader *measured, int64_t iterations, sg_point *point);
void sg_measured_loader_waits(sg_point *point);

#endif
