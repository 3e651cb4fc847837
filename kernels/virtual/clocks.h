/* clocks.h: the clocks of the virtual device and what moves them: one for the host, one per stream, one per event.
 *
 * One place says what a move means: the device moves its clocks by it as calls arrive, a replay (replay.h) by a whole tape
 * of them. Each function returns whether the second of the clocks that it joins was the later one: derivatives of the result
 * are then that one's. */
#ifndef SG_KERNELS_VIRTUAL_CLOCKS_H
#define SG_KERNELS_VIRTUAL_CLOCKS_H

#include "kernels/device.h"

/* A collective slows the compute that runs beside it. */
typedef struct sg_interval {
    double start, end;
} sg_interval;

typedef struct sg_clocks {
    double host, stream[SG_STREAM_COUNT];
    double *event; /* when each happened; memory is the owner's */
    bool in_line;  /* the host computes itself: it waits for each launch */
    double stretch, collective_stretch;
    /* Collectives in the order of their stream. Those before `first` ended before the compute stream's clock. The owner makes
     * room before sg_clocks_collective. */
    sg_interval *active;
    size_t first, n_active;
} sg_clocks;

/* Derivatives of the end of a launch that ran beside collectives: by the clock it started from, by its own seconds, by the
 * logarithm of the stretch, and by start and end of the active intervals from `first` on. coefficient: room for two doubles
 * for each interval that has not ended. */
typedef struct sg_stretched {
    double of_clock, of_work, of_log_stretch;
    size_t first, n;
    double *coefficient;
} sg_stretched;

/* The end of `work` seconds of compute that start at `clock` while collectives are active; derivatives may be NULL. */
double sg_clocks_beside(const sg_clocks *clocks, double clock, double work, sg_stretched *derivatives);

static inline bool sg_clock_join(double *clock, double other) {
    bool later = other > *clock;
    if (later) *clock = other;
    return later;
}

static inline void sg_clocks_host(sg_clocks *c, double seconds, double times) {
    c->host += times * seconds;
}

/* *stretched (or NULL) is filled and *beside true where collectives were active. */
static inline bool sg_clocks_launch(sg_clocks *c, sg_stream stream, double seconds, double *start, bool *beside,
                                    sg_stretched *stretched) {
    double *clock = &c->stream[stream];
    bool host_later = sg_clock_join(clock, c->host);
    *start = *clock;
    *beside = false;
    if (stream == SG_STREAM_COMPUTE) {
        while (c->first < c->n_active && c->active[c->first].end <= *clock) c->first++;
        *beside = c->first < c->n_active && c->stretch > 1;
    }
    *clock = *beside ? sg_clocks_beside(c, *clock, seconds, stretched) : *clock + seconds;
    if (c->in_line) c->host = *clock;
    return host_later;
}

/* Compute has work to go on with while the host is ahead of it: then *beside, and each slows the other. What compute will
 * get later is not known yet, so a collective behind the last of it is taken as slowed too. */
static inline bool sg_clocks_collective(sg_clocks *c, double seconds, bool *beside) {
    double *clock = &c->stream[SG_STREAM_COLLECTIVE];
    *beside = c->stream[SG_STREAM_COMPUTE] > c->host && c->collective_stretch > 1;
    bool host_later = sg_clock_join(clock, c->host);
    sg_interval *a = &c->active[c->n_active++];
    a->start = *clock;
    *clock += *beside ? c->collective_stretch * seconds : seconds;
    a->end = *clock;
    return host_later;
}

/* An event in an empty stream happens when the host records it. */
static inline bool sg_clocks_record(sg_clocks *c, size_t event, sg_stream stream) {
    c->event[event] = c->stream[stream];
    return sg_clock_join(&c->event[event], c->host);
}

static inline bool sg_clocks_wait(sg_clocks *c, size_t event, sg_stream stream) {
    return sg_clock_join(&c->stream[stream], c->event[event]);
}

static inline bool sg_clocks_sync(sg_clocks *c, sg_stream stream) {
    return sg_clock_join(&c->host, c->stream[stream]);
}

#endif
