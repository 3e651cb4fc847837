/* tape.h: the moves of a walk's clocks, whatever the machine: recorded once, replayed (replay.h) on any number of machines.
 *
 * Durations are told apart, so that each is priced once per machine: host classes, unique ops, copies and collectives. */
#ifndef SG_KERNELS_VIRTUAL_TAPE_H
#define SG_KERNELS_VIRTUAL_TAPE_H

#include "kernels/virtual/machine.h"

typedef enum sg_duration_kind {
    SG_DURATION_HOST, /* which: sg_host_class; SG_HOST_CLASS_COUNT: the optimizer's bookkeeping beside its tensors */
    SG_DURATION_OP,
    SG_DURATION_COPY,      /* which: sg_copy_kind */
    SG_DURATION_COLLECTIVE /* which: sg_collective_kind */
} sg_duration_kind;

typedef struct sg_duration {
    uint8_t kind, which;
    const sg_op *op;
    double bytes;                    /* copies; collectives: of the whole */
    double host_times, device_times; /* on the tape: on the host, on the compute stream */
} sg_duration;

/* Durations 0 .. SG_HOST_CLASS_COUNT are the host's, by class. */
enum { SG_TAPE_HOST_DURATIONS = SG_HOST_CLASS_COUNT + 1 };

typedef enum sg_move_kind {
    SG_MOVE_HOST,   /* the host works `times` times duration `index` */
    SG_MOVE_LAUNCH, /* duration `index` on a stream, behind the host, which works `times` times duration `host` first */
    SG_MOVE_COLLECTIVE, /* the same on the stream of collectives, beside which compute is slower */
    SG_MOVE_RECORD,     /* event `index` on a stream */
    SG_MOVE_WAIT,       /* a stream waits for event `index` */
    SG_MOVE_SYNC,       /* the host waits for a stream */
    SG_MOVE_IDLE,       /* the host's clock passes idle[index] seconds */
    SG_MOVE_READ        /* the host's clock is read: reading `index` */
} sg_move_kind;

typedef struct sg_move {
    uint8_t kind, stream, host;
    uint32_t index;
    int64_t times;
} sg_move;

/* Parts that the time between two readings can belong to. */
enum { SG_TAPE_PARTS = 8, SG_TAPE_NO_PART = -1 };

typedef struct sg_tape {
    sg_move *moves;
    sg_duration *durations;
    double *idle;
    int16_t *part; /* per reading: what the time since the reading before belongs to */
    size_t n_moves, n_durations, n_idle, n_readings;
    size_t moves_room, durations_room, idle_room, readings_room;
    size_t n_events, n_launches, n_collectives;
} sg_tape;

sg_code sg_tape_open(sg_tape **tape, sg_status *status);
void sg_tape_close(sg_tape *tape);
/* Nothing is on it any more. */
void sg_tape_clear(sg_tape *tape);
/* Host work right before a launch becomes part of it. */
sg_code sg_tape_move(sg_tape *tape, sg_move move, sg_status *status);
sg_code sg_tape_idle(sg_tape *tape, double seconds, sg_status *status);
/* A reading of the host's clock. part: < SG_TAPE_PARTS, or SG_TAPE_NO_PART. */
sg_code sg_tape_read(sg_tape *tape, int part, sg_status *status);
/* Index of a duration like this one: of a new one for each op. */
sg_code sg_tape_duration(sg_tape *tape, const sg_duration *duration, uint32_t *index, sg_status *status);

/* While a tape is there, calls of the device go on it and its clocks stand still; what is prepared is not priced, so the
 * machine need state nothing. Ops that were launched must outlive the tape. NULL: clocks move again. */
void sg_virtual_record_on(sg_device *device, sg_tape *tape);
/* Whether allocations from the driver take no time: the second iteration of a walk still makes a few, later ones none. */
void sg_virtual_free_segments(sg_device *device, bool are_free);
/* Index on tapes, and in sg_replay.clocks.event. */
size_t sg_virtual_event_index(const sg_event *event);

#endif
