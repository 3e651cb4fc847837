/* graph_device.h: the reference device with recorded graphs: launches and all-reduces between begin and end are kept and made
 * again by each replay, with its step. Between them nothing may wait, allocate, or copy to or from the host. One recording at a time on
 * each thread. */
#ifndef SG_TESTS_SUPPORT_GRAPH_DEVICE_H
#define SG_TESTS_SUPPORT_GRAPH_DEVICE_H

#include "kernels/device.h"

/* The device itself is that of sg_thread_ranks_api(), so that ranks can record too. */
const sg_device_api *sg_graph_device_api(void);
/* Recordings of this thread that were made and not destroyed. */
int64_t sg_graph_device_live(void);

#endif
