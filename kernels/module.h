/* module.h: opens modules (shared objects with heavy dependencies) on first need; a missing one is an answer.
 *
 * Searched in this order: $STEPGAUGE_MODULES, <folder of the program>/modules, <folder of the program>/../lib/stepgauge. */
#ifndef SG_KERNELS_MODULE_H
#define SG_KERNELS_MODULE_H

#include "kernels/device.h"
#include "kernels/transport.h"

enum { SG_MODULE_PATH_BYTES = 1088 };
typedef struct sg_module_place {
    char path[SG_MODULE_PATH_BYTES]; /* of the module's file */
} sg_module_place;

/* Opens module stepgauge_<name>.so (once per process; it is never closed) and calls its function `symbol`, which takes
 * nothing and returns its table of functions. *table stays valid; whether its ABI fits is for the caller to see. SG_MACHINE
 * with the places searched and the remedy: it or its libraries are missing. */
sg_code sg_module_table(const char *name, const char *symbol, sg_module_place *place, const void **table,
                        sg_status *status);

/* The device of module stepgauge_<name>.so ("cpu"). Opened once per process and never closed. SG_MACHINE with the places
 * searched and the remedy when it is missing, its libraries are, or its ABI differs. */
sg_code sg_module_device(const char *name, const sg_device_api **api, sg_status *status);
/* The transport of module stepgauge_<name>.so ("mpi"). */
sg_code sg_module_transport(const char *name, const sg_transport_api **api, sg_status *status);

#endif
