/* probe_loader.h: the loader's part of the probe's file (bench/README.md): the framework's own loader on this machine, beside
 * the laws of ours. */
#ifndef SG_CALIBRATION_PROBE_LOADER_H
#define SG_CALIBRATION_PROBE_LOADER_H

#include "calibration/fit/fit.h"
#include "formats/tree.h"

/* "loader" of the probe's root, which may be absent. Sets the machine's loader_ parameters, observed; parts of data sets that
 * this machine's runs did not measure are left out, and that is noted. */
sg_code sg_probe_loader(const sg_tree *tree, const char *origin, sg_fit *fit, sg_status *status);

#endif
