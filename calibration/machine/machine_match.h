/* machine_match.h: which data sheet a name means: what a driver reports of a device, or what people write.
 *
 * Both compare words of letters and digits. A vendor's words ("NVIDIA", "Tesla", "GeForce"), the type of the memory and the
 * like say nothing about the model; "80GB" is compared with the memory of the sheet. */
#ifndef SG_CALIBRATION_MACHINE_MATCH_H
#define SG_CALIBRATION_MACHINE_MATCH_H

#include "kernels/virtual/machine.h"

/* The machine of configs/machines/ that `device_name` ("NVIDIA H100 80GB HBM3") with this memory means; sg_machine_clear it.
 * memory_bytes 0: unknown. SG_NO: there is no data sheet of it. Cut-down and laptop models, form factors and memory sizes are
 * told apart: none is better than a near one. */
sg_code sg_machine_match(const char *config_dir, const char *device_class, const char *device_name,
                         uint64_t memory_bytes, sg_machine *machine, sg_status *status);

/* The name of the sheet that `name` means: the sheet's own name however it is written ("RTX 4090"), a driver's or a
 * product's name ("Tesla V100-PCIE-32GB", "H100 SXM5 80GB"), or a part of a sheet's name that means one sheet alone ("4090":
 * rtx-4090 and no laptop). SG_BAD_INPUT: none, with the nearest names, or several, with all of them ("h100"). */
sg_code sg_machine_name_find(const char *config_dir, const char *name, char *sheet, size_t bytes, sg_status *status);

/* How well the words of a sheet's name ("a100-sxm-80gb") fit a device's name: the number of words found, 0: another model. */
double sg_machine_name_fit(const char *sheet, const char *device_name);

#endif
