/* machine_match.h: the data sheet of a device that is here, by the name and memory that its driver reports. */
#ifndef SG_CALIBRATION_MACHINE_MATCH_H
#define SG_CALIBRATION_MACHINE_MATCH_H

#include "kernels/virtual/machine.h"

/* The machine of configs/machines/ that `device_name` ("NVIDIA H100 80GB HBM3") with this memory means; sg_machine_clear it.
 * memory_bytes 0: unknown. SG_NO: there is no data sheet of it. Cut-down and laptop models, form factors and memory sizes are
 * told apart: none is better than a near one. */
sg_code sg_machine_match(const char *config_dir, const char *device_class, const char *device_name,
                         uint64_t memory_bytes, sg_machine *machine, sg_status *status);

/* How well the words of a sheet's name ("a100-sxm-80gb") fit a device's name: the number of words found, 0: another model. */
double sg_machine_name_fit(const char *sheet, const char *device_name);

#endif
