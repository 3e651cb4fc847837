/* machine_link.h: how a machine's GPUs are joined, in files: configs/links/, a part of a data sheet, a part of a machine
 * file. */
#ifndef SG_CALIBRATION_MACHINE_LINK_H
#define SG_CALIBRATION_MACHINE_LINK_H

#include "formats/tree.h"
#include "kernels/virtual/machine.h"
#include "sim/files/hdf5_tree.h"

/* The key "link" of a data sheet: the name of a file in configs/links/, or what such a file holds. Sets the link and the
 * parameters that it states. */
sg_code sg_machine_link_read(const sg_tree *tree, const sg_node *at, const char *config_dir, sg_machine *machine,
                             sg_status *status);

sg_code sg_machine_link_to_group(const sg_link *link, sg_h5tree *group, sg_status *status);
/* Files of earlier versions hold none: the link then stays as it is. */
sg_code sg_machine_link_from_group(const sg_h5tree *group, sg_link *link, sg_status *status);

#endif
