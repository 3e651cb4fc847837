/* gpu_state.h: what the driver tells of the GPU while it is measured, as host_state.h is for the processors.
 *
 * A thread asks NVML every fifth of a second: clocks and power between iterations would be those of a GPU at rest. A call
 * takes the driver a millisecond or less, of a processor that trains nothing. */
#ifndef SG_SIM_MEASURE_GPU_STATE_H
#define SG_SIM_MEASURE_GPU_STATE_H

#include "kernels/device.h"
#include "sim/measure/point.h"

typedef struct sg_gpu_watch sg_gpu_watch;

/* Starts to watch the GPU that `info` names by its PCI bus id. NULL when there is nothing to watch: no GPU, no NVML, no such
 * GPU in it, no memory for it. Nothing else depends on it, so that is no error. */
sg_gpu_watch *sg_gpu_watch_start(const sg_device_info *info);
/* Ends it and frees it; NULL is fine. What `info` says of the GPU is in *conditions in any case. SG_MACHINE: the GPU fell
 * off the bus in the meantime; *conditions holds what was seen before. */
sg_code sg_gpu_watch_stop(sg_gpu_watch *watch, const sg_device_info *info, sg_gpu_conditions *conditions,
                          sg_status *status);

/* Why a measurement under these conditions is suspect: heat, power brake, others on the GPU. Appends sentences separated by
 * "; " and returns how many. */
int sg_gpu_conditions_judge(const sg_gpu_conditions *conditions, char *why, size_t bytes);

#endif
