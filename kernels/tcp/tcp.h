/* tcp.h: ranks that talk over TCP, without any library: on one host or across hosts, as processes or as threads.
 *
 * A star: rank 0 listens, the others connect to it, and every collective goes through it. That is simple, and enough for
 * control data and for CPU ranks where MPI is missing. A thread of each rank watches the connections, so that everyone learns
 * within a second which rank died, aborted or hangs, and no call waits for it any longer. */
#ifndef SG_KERNELS_TCP_TCP_H
#define SG_KERNELS_TCP_TCP_H

#include "kernels/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero means the default, except where it says otherwise. */
typedef struct sg_tcp_options {
    int rank, ranks;
    const char *address; /* where rank 0 listens: a host's name, IPv4 or IPv6 address */
    int port, ports; /* rank 0 takes the first free one of `ports` (1) ports from `port` on; the others try them all */
    int listener;    /* rank 0: a listening socket (sg_tcp_listen), whatever `port` says; join takes it over */
    const char *secret; /* what only the ranks of this job know, of any length; required */
    double timeout_s;   /* everyone must have joined by then; required */
    double patience_s;  /* how long a call waits for slower ranks; ten times timeout_s */
    double silence_s;   /* a rank that has not been heard of for so long hangs; 30 s */
} sg_tcp_options;

/* Joins the other ranks. Connections that cannot show the secret, and ranks that do not fit, are refused without harm to the
 * others. SG_MACHINE: not everyone came in time (rank 0 names the missing, and tells them that came). */
sg_code sg_tcp_join(const sg_tcp_options *options, sg_transport **self, sg_status *status);

/* The functions of transports that sg_tcp_join makes (`join` is NULL). `abort` returns: it has told the others why, and their
 * calls and this rank's fail from then on with that reason. */
const sg_transport_api *sg_tcp_transport(void);

/* A listening socket on `address` (NULL: every address of this host) and `port` (0: any free one), close-on-exec. *bound: its
 * port. */
sg_code sg_tcp_listen(const char *address, int port, int *listener, int *bound, sg_status *status);

#ifdef __cplusplus
}
#endif
#endif
