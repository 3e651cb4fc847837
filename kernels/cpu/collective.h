/* collective.h: streams' events and the communicator of the cpu device. */
#ifndef SG_KERNELS_CPU_COLLECTIVE_H
#define SG_KERNELS_CPU_COLLECTIVE_H

#include "kernels/cpu/cpu.h"

double sg_cpu_now(sg_device *device);
sg_code sg_cpu_event_create(sg_device *device, sg_event **event, sg_status *status);
void sg_cpu_event_destroy(sg_device *device, sg_event *event);
sg_code sg_cpu_event_record(sg_device *device, sg_event *event, sg_stream stream, sg_status *status);
sg_code sg_cpu_event_wait(sg_device *device, sg_event *event, sg_stream stream, sg_status *status);
sg_code sg_cpu_event_seconds(sg_device *device, sg_event *event, double *seconds, sg_status *status);
sg_code sg_cpu_stream_wait(sg_device *device, sg_stream stream, sg_status *status);

sg_code sg_cpu_comm_create(sg_device *device, const sg_comm_options *options, sg_comm **comm, sg_status *status);
void sg_cpu_comm_destroy(sg_device *device, sg_comm *comm);
sg_code sg_cpu_all_reduce_mean(sg_device *device, sg_comm *comm, void *buffer, int64_t count, sg_dtype dtype,
                               sg_status *status);
sg_code sg_cpu_all_gather(sg_device *device, sg_comm *comm, const void *part, void *whole, int64_t part_count,
                          sg_dtype dtype, sg_status *status);
sg_code sg_cpu_reduce_scatter_mean(sg_device *device, sg_comm *comm, const void *whole, void *part, int64_t part_count,
                                   sg_dtype dtype, sg_status *status);
void sg_cpu_comm_abort(sg_device *device, sg_comm *comm);

#endif
