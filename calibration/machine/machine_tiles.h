/* machine_tiles.h: a machine's tiles in data sheets and machine files.
 *
 * In a data sheet or a prior: tiles: {linear: [128x128, 64x128], batched: [128x128]}, rows of the output x columns;
 * beside them capability_8: {linear: ..., batched: ...} for machines of compute capability 8.x alone. In the
 * group "machine" of a machine file: datasets tiles_linear and tiles_batched, pairs of rows and columns. Both may be missing. */
#ifndef SG_CALIBRATION_MACHINE_TILES_H
#define SG_CALIBRATION_MACHINE_TILES_H

#include "formats/tree.h"
#include "kernels/virtual/machine.h"
#include "sim/files/hdf5_tree.h"

/* The child "tiles" of a map, where there is one. */
sg_code sg_machine_tiles_read(const sg_tree *tree, const sg_node *map, sg_machine *machine, sg_status *status);
sg_code sg_machine_tiles_to_group(const sg_machine *machine, sg_h5tree *group, sg_status *status);
sg_code sg_machine_tiles_from_group(const sg_h5tree *group, sg_machine *machine, sg_status *status);

#endif
