/* module.h: opens modules (shared objects with heavy dependencies) on first need; a missing one is an answer.
 *
 * Searched in this order: $STEPGAUGE_MODULES, <folder of the program>/modules, <folder of the program>/../lib/stepgauge. */
#ifndef SG_KERNELS_MODULE_H
#define SG_KERNELS_MODULE_H

#include "kernels/device.h"
#include "kernels/transport.h"

/* The device of module stepgauge_<name>.so ("cpu"). Opened once per process and never closed. SG_MACHINE with the places
 * searched and the remedy when it is missing, its libraries are, or its ABI differs. */
sg_code sg_module_device(const char *name, const sg_device_api **api, sg_status *status);
/* The transport of module stepgauge_<name>.so ("mpi"). */
sg_code sg_module_transport(const char *name, const sg_transport_api **api, sg_status *status);

#endif
