/* replay.h: a tape on a machine: prices of its durations, one pass over its moves, and one pass back along the critical
 * path, which counts what it is made of; from the counts follow the derivatives by log parameter. */
#ifndef SG_KERNELS_VIRTUAL_REPLAY_H
#define SG_KERNELS_VIRTUAL_REPLAY_H

#include "kernels/virtual/clocks.h"
#include "kernels/virtual/tape.h"

/* A tape's durations on one machine; collectives, which depend on the number of ranks, are priced by each replay. */
typedef struct sg_tape_prices {
    sg_machine machine; /* without its covariance */
    double *seconds;    /* [n_durations] */
    uint32_t *first;    /* [n_durations + 1] into id and by_log: d seconds / d log parameter, where it is not zero */
    uint8_t *id;
    double *by_log;
    double host_by_log[SG_M_COUNT], device_by_log[SG_M_COUNT]; /* of the tape's host time and of its compute stream's,
                                                                   without stretch */
} sg_tape_prices;

/* SG_NO: the machine lacks a parameter that a duration needs. The tape must outlive its prices. */
sg_code sg_tape_price(const sg_tape *tape, const sg_machine *machine, sg_tape_prices **prices, sg_status *status);
void sg_tape_prices_close(sg_tape_prices *prices);

/* Seconds from empty streams and a host clock of zero on. */
typedef struct sg_replayed {
    sg_virtual_report report;
    const double *reading;                    /* host clock at each reading of the tape */
    const double *event;                      /* by index: when it happened last */
    double by_log[SG_TAPE_PARTS][SG_M_COUNT]; /* of the time that each part takes */
} sg_replayed;

/* Working memory of one replay at a time. */
typedef struct sg_replay sg_replay;
sg_code sg_replay_open(const sg_tape *tape, sg_replay **replay, sg_status *status);
void sg_replay_close(sg_replay *replay);
/* ranks behind every communicator (>= 1); idle_scale: multiplies the seconds that pass idly. *replayed points into the
 * replay until its next run. */
sg_code sg_replay_run(sg_replay *replay, const sg_tape_prices *prices, int ranks, double idle_scale,
                      sg_replayed *replayed, sg_status *status);
/* The same without derivatives, which stay zero. */
sg_code sg_replay_times(sg_replay *replay, const sg_tape_prices *prices, int ranks, double idle_scale,
                        sg_replayed *replayed, sg_status *status);

#endif
