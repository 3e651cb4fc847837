/* loader_count.h: what batches cost that workers made, summed up over those that were delivered. For loader_real.c. */
#ifndef SG_SIM_LOADER_LOADER_COUNT_H
#define SG_SIM_LOADER_LOADER_COUNT_H

#include "sim/loader/loader_workers.h"
#include "sim/measure/point.h"

enum { SG_LOADER_BATCHES_KEPT = 256 };

typedef struct sg_loader_count {
    int64_t batches, epochs;
    sg_read_cost cost;
    double batch_s, batch_cpu_s, log_s, log_s_squared, epoch_wait_s;
    /* of the latest batches, a ring: mean seconds of a frame in each */
    double frame_cpu_s[SG_LOADER_BATCHES_KEPT], frame_wall_s[SG_LOADER_BATCHES_KEPT];
    int64_t with_frames;
} sg_loader_count;

void sg_loader_count_batch(sg_loader_count *count, const sg_made_batch *made);
/* Fills what these figures tell of the record. */
void sg_loader_count_tell(const sg_loader_count *count, sg_loader_record *record);

#endif
