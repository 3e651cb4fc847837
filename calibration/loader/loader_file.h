/* loader_file.h: loader laws in a machine file: group "loaders", one group each (docs/run-file.md). */
#ifndef SG_CALIBRATION_LOADER_FILE_H
#define SG_CALIBRATION_LOADER_FILE_H

#include "calibration/loader/loader_law.h"
#include "sim/files/hdf5_tree.h"

sg_code sg_loaders_to_tree(const sg_loader_law *laws, size_t n, sg_h5tree *root, sg_status *status);
/* *laws: freed by the caller; NULL and 0 where the file, of an earlier version, has none. */
sg_code sg_loaders_from_tree(const sg_h5tree *root, sg_loader_law **laws, size_t *n, sg_status *status);

#endif
