/* machine_group.h: a machine as a group of a machine file (HDF5; docs/run-file.md).
 *
 * Group "machine": text name, title, device_class, fitted_from; integers bf16, fp16, tf32, caching_allocator, units,
 * memory_bytes; vcpus. Parameters by name, so that files of other versions with more or fewer are read: text "parameters"
 * and "sources" (one per line), datasets value, log_sd, evidence, group, and covariance (n x n) where a fit made one;
 * tiles_linear and tiles_batched (pairs of rows and columns) where the machine has any. */
#ifndef SG_CALIBRATION_MACHINE_GROUP_H
#define SG_CALIBRATION_MACHINE_GROUP_H

#include "kernels/virtual/machine.h"
#include "sim/files/hdf5_tree.h"

extern const sg_file_format sg_machine_format;

sg_code sg_machine_to_group(const sg_machine *machine, sg_h5tree *root, sg_status *status);
/* Every field is checked; parameters that this program does not know are dropped, those the file lacks stay unknown.
 * sg_machine_clear the machine. */
sg_code sg_machine_from_group(const sg_h5tree *root, sg_machine *machine, sg_status *status);

#endif
