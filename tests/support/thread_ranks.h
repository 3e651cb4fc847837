/* thread_ranks.h: ranks as threads of one process: a reference device with collectives between them, and the transport's
 * control calls. Every rank runs on a thread of its own. */
#ifndef SG_TESTS_SUPPORT_THREAD_RANKS_H
#define SG_TESTS_SUPPORT_THREAD_RANKS_H

#include "kernels/device.h"
#include "kernels/transport.h"

enum { SG_THREAD_RANKS_MOST = 4 };

/* Runs body(user, rank) on `ranks` threads and joins them. One world at a time. */
void sg_thread_ranks_run(int ranks, void (*body)(void *user, int rank), void *user);
/* The reference device with communicators; options->index as there. */
const sg_device_api *sg_thread_ranks_api(void);
/* The calling thread's; broadcast and gather_doubles. */
sg_transport *sg_thread_ranks_transport(void);

#endif
