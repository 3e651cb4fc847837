#include "kernels/virtual/tape.h"

#include <stdlib.h>

/* Room for one more of them. */
static sg_code grow(void **items, size_t n, size_t *room, size_t item_bytes, sg_status *status) {
    if (n < *room) return SG_OK;
    size_t wanted = *room ? 2 * *room : 64, bytes;
    void *grown = NULL;
    if (!__builtin_mul_overflow(wanted, item_bytes, &bytes)) grown = realloc(*items, bytes);
    if (!grown) return sg_fail_memory(status, wanted * item_bytes, "the tape of a walk");
    *items = grown;
    *room = wanted;
    return SG_OK;
}

#define GROW(tape, items, n, room, status)                                                                             \
    grow((void **)&(tape)->items, (tape)->n, &(tape)->room, sizeof *(tape)->items, status)

static sg_code add_duration(sg_tape *tape, const sg_duration *duration, sg_status *status) {
    sg_code code = GROW(tape, durations, n_durations, durations_room, status);
    if (!code) tape->durations[tape->n_durations++] = *duration;
    return code;
}

sg_code sg_tape_open(sg_tape **tape, sg_status *status) {
    sg_tape *t = *tape = calloc(1, sizeof *t);
    if (!t) return sg_fail_memory(status, sizeof *t, "the tape of a walk");
    sg_code code = SG_OK;
    for (int c = 0; c < SG_TAPE_HOST_DURATIONS && !code; c++)
        code = add_duration(t, &(sg_duration){.kind = SG_DURATION_HOST, .which = (uint8_t)c}, status);
    if (!code) return SG_OK;
    sg_tape_close(t);
    *tape = NULL;
    return code;
}

void sg_tape_close(sg_tape *tape) {
    if (!tape) return;
    free(tape->moves);
    free(tape->durations);
    free(tape->idle);
    free(tape->part);
    free(tape);
}

void sg_tape_clear(sg_tape *tape) {
    tape->n_moves = tape->n_idle = tape->n_readings = 0;
    tape->n_events = tape->n_launches = tape->n_collectives = 0;
    for (size_t i = 0; i < tape->n_durations; i++) tape->durations[i].host_times = tape->durations[i].device_times = 0;
}

static void count(sg_tape *tape, const sg_move *move) {
    switch (move->kind) {
    case SG_MOVE_HOST: tape->durations[move->index].host_times += (double)move->times; return;
    case SG_MOVE_LAUNCH:
        if (move->stream == SG_STREAM_COMPUTE) tape->durations[move->index].device_times++;
        tape->n_launches++;
        return;
    case SG_MOVE_COLLECTIVE: tape->n_collectives++; return;
    case SG_MOVE_RECORD:
    case SG_MOVE_WAIT:
        if (move->index >= tape->n_events) tape->n_events = (size_t)move->index + 1;
        return;
    default: return;
    }
}

sg_code sg_tape_move(sg_tape *tape, sg_move move, sg_status *status) {
    sg_code code = GROW(tape, moves, n_moves, moves_room, status);
    if (code) return code;
    count(tape, &move);
    const sg_move *last = tape->n_moves ? &tape->moves[tape->n_moves - 1] : NULL;
    if (move.kind == SG_MOVE_LAUNCH && last && last->kind == SG_MOVE_HOST) {
        move.host = (uint8_t)last->index;
        move.times = last->times;
        tape->n_moves--;
    }
    tape->moves[tape->n_moves++] = move;
    return SG_OK;
}

sg_code sg_tape_idle(sg_tape *tape, double seconds, sg_status *status) {
    sg_code code = GROW(tape, idle, n_idle, idle_room, status);
    if (!code) code = sg_tape_move(tape, (sg_move){.kind = SG_MOVE_IDLE, .index = (uint32_t)tape->n_idle}, status);
    if (!code) tape->idle[tape->n_idle++] = seconds;
    return code;
}

sg_code sg_tape_read(sg_tape *tape, int part, sg_status *status) {
    if (part >= SG_TAPE_PARTS) return sg_fail(status, SG_BAD_INPUT, "part %d of a tape's %d", part, SG_TAPE_PARTS);
    sg_code code = GROW(tape, part, n_readings, readings_room, status);
    if (!code) code = sg_tape_move(tape, (sg_move){.kind = SG_MOVE_READ, .index = (uint32_t)tape->n_readings}, status);
    if (!code) tape->part[tape->n_readings++] = (int16_t)(part < 0 ? SG_TAPE_NO_PART : part);
    return code;
}

sg_code sg_tape_duration(sg_tape *tape, const sg_duration *duration, uint32_t *index, sg_status *status) {
    size_t i = duration->op ? tape->n_durations : SG_TAPE_HOST_DURATIONS; /* whoever has an op remembers its index */
    for (; i < tape->n_durations; i++) {
        const sg_duration *d = &tape->durations[i];
        if (d->kind == duration->kind && d->which == duration->which && d->bytes == duration->bytes) break;
    }
    sg_code code = i < tape->n_durations ? SG_OK : add_duration(tape, duration, status);
    if (!code) *index = (uint32_t)i;
    return code;
}
