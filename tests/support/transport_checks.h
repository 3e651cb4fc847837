/* transport_checks.h: what every transport must do, whatever carries the data. Called by one rank; a rank that finds something
 * wrong says so and ends its process with status 9. */
#ifndef SG_TESTS_SUPPORT_TRANSPORT_CHECKS_H
#define SG_TESTS_SUPPORT_TRANSPORT_CHECKS_H

#include "kernels/transport.h"

#include <stdio.h>
#include <unistd.h>

/* For a rank, in a function that has the sg_transport *transport. */
#define NEED(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "rank %d, %s:%d: %s\n", transport ? transport->rank : -1, __FILE__, __LINE__,        \
                          #condition);                                                                                 \
            _exit(9);                                                                                                  \
        }                                                                                                              \
    } while (0)
#define NEED_OK(call)                                                                                                  \
    do {                                                                                                               \
        sg_status status_ = {0};                                                                                       \
        if ((call) != SG_OK) {                                                                                         \
            (void)fprintf(stderr, "rank %d, %s:%d: %s\n", transport ? transport->rank : -1, __FILE__, __LINE__,        \
                          status_.text);                                                                               \
            _exit(9);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Means of any sign and size within rounding, the same bits on every rank, up to `most` elements. */
void sg_check_reductions(sg_transport *transport, int64_t most);
/* Reduce-scatter and all-gather of `part` elements per rank. */
void sg_check_parts(sg_transport *transport, int64_t part);
/* Gathered figures, barriers, broadcasts from every root. */
void sg_check_control(sg_transport *transport);
/* Arguments that no call can take. */
void sg_check_refusals(sg_transport *transport);
/* Two threads of each rank at once: tensors and control. */
void sg_check_two_threads(sg_transport *transport);

#endif
