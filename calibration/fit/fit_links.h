/* fit_links.h: what exchanges among the ranks of this machine take, from its benchmarks of collectives; used by fit.c. */
#ifndef SG_CALIBRATION_FIT_FIT_LINKS_H
#define SG_CALIBRATION_FIT_FIT_LINKS_H

#include "kernels/virtual/machine.h"
#include "sim/files/run_file.h"

/* All-reduces timed alone give the law of the machine's links (collective_fit.h), those beside products and products beside
 * them how far each slows the other. Records of another device, disturbed ones and files without any change nothing. */
sg_code sg_fit_links(const sg_run *run, const char *origin, sg_machine *machine, sg_status *status);

#endif
