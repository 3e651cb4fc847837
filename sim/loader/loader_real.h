/* loader_real.h: batches of real samples, made by worker processes, delivered in order. The part of the loader that has a
 * sg_sample_source; options and functions mean what sim/loader/loader.h says. */
#ifndef SG_SIM_LOADER_LOADER_REAL_H
#define SG_SIM_LOADER_LOADER_REAL_H

#include "sim/loader/loader.h"
#include "sim/loader/loader_workers.h"
#include "sim/measure/point.h"

typedef struct sg_real_loader sg_real_loader;

sg_code sg_real_loader_open(const sg_loader_options *options, sg_real_loader **loader, sg_status *status);
void sg_real_loader_close(sg_real_loader *loader); /* NULL is allowed */
sg_code sg_real_loader_use_device(sg_real_loader *loader, const sg_device_api *api, sg_device *device,
                                  sg_status *status);
sg_code sg_real_loader_next(sg_real_loader *loader, void *const **data, sg_status *status);
int64_t sg_real_loader_epoch(const sg_real_loader *loader);
void sg_real_loader_count_from_here(sg_real_loader *loader);
void sg_real_loader_tell(const sg_real_loader *loader, sg_loader_record *record);
const sg_workers *sg_real_loader_workers(const sg_real_loader *loader);

#endif
