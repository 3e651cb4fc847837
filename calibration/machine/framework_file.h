/* framework_file.h: the numbers half of a framework's profile (configs/frameworks/): host costs, buckets, factors.
 *
 *   base: pytorch-eager                                # optional: what is not stated here is as there
 *   buckets: {first_bytes: 1048576, bytes: 26214400}   # of gradients in data-parallel training
 *   framework_factors: true                            # false: the machine's factors are not of this framework
 *   cuda: {host_op_s: {value: ..., log_sd: ..., source: ...}, ...}      # by device class; names of machine parameters
 *   cpu: {...} */
#ifndef SG_CALIBRATION_FRAMEWORK_FILE_H
#define SG_CALIBRATION_FRAMEWORK_FILE_H

#include "kernels/virtual/machine.h"
#include "sim/walk/walk.h"

typedef struct sg_framework_numbers {
    sg_bucket_options buckets;
    bool factors;
    sg_machine_parameter p[SG_M_COUNT]; /* value NAN: the framework says nothing of it */
} sg_framework_numbers;

/* name: "pytorch-eager"; device_class: "cuda", "cpu", "mps". */
sg_code sg_framework_load(const char *name, const char *device_class, const char *config_dir,
                          sg_framework_numbers *numbers, sg_status *status);

/* Fills what the machine does not know better: parameters that it lacks or has from a data sheet; what a compiler leaves of
 * host time and bytes (host_kept, fused_bytes) always. Without `factors` the
 * framework factors become 1. Rows of a covariance follow. */
void sg_framework_apply(const sg_framework_numbers *numbers, sg_machine *machine);
/* The same, but the framework's numbers win over whatever the machine has. */
void sg_framework_impose(const sg_framework_numbers *numbers, sg_machine *machine);

#endif
