/* agree.h: ranks that found out something each for itself go on, or stop, together. */
#ifndef SG_SIM_MEASURE_AGREE_H
#define SG_SIM_MEASURE_AGREE_H

#include "kernels/transport.h"

/* Every rank calls it with its own code and status; every rank gets the worst code of all, in the words of the first rank that
 * has it: a fault (SG_MACHINE, SG_BAD_INPUT) is worse than "no". Without a transport, or with one that cannot broadcast, the
 * own code comes back. */
sg_code sg_ranks_agree(sg_transport *transport, sg_code code, sg_status *status);

#endif
