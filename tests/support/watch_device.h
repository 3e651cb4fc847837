/* watch_device.h: a device in front of another: counts what is asked of it and fails where it is told to. */
#ifndef SG_TESTS_SUPPORT_WATCH_DEVICE_H
#define SG_TESTS_SUPPORT_WATCH_DEVICE_H

#include "kernels/device.h"

typedef enum sg_watch_call {
    SG_WATCH_SEGMENT_ALLOC,
    SG_WATCH_PREPARE,
    SG_WATCH_LAUNCH,
    SG_WATCH_EVENT_CREATE,
    SG_WATCH_EVENT_RECORD,
    SG_WATCH_COPY,
    SG_WATCH_STREAM_WAIT,
    SG_WATCH_HOST_WORK,
    SG_WATCH_GRAPH, /* begin, end and launch */
    SG_WATCH_ALL_REDUCE,
    SG_WATCH_CALL_COUNT
} sg_watch_call;

typedef struct sg_watch {
    const sg_device_api *api; /* of the device behind */
    sg_device *device;
    int64_t calls[SG_WATCH_CALL_COUNT];
    int64_t host_work[SG_HOST_CLASS_COUNT]; /* dispatches */
    sg_watch_call fail_call;
    int64_t fail_at; /* the 1-based call that fails; 0: none. From then on calls work again. */
    sg_code fail_code;
    int64_t segments, events, plans; /* live */
    uint64_t segment_bytes;
    uint64_t limit_bytes; /* > 0: more than this is out of memory */
} sg_watch;

/* api to use with the device that sg_watch_open returns; `watch` must outlive it. */
const sg_device_api *sg_watch_api(void);
sg_device *sg_watch_open(sg_watch *watch, const sg_device_api *api, sg_device *device);
void sg_watch_close(sg_device *device); /* the device behind stays open */

#endif
