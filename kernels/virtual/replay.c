#include "kernels/virtual/replay.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/virtual/price.h"

/* What a move did, for the way back. */
enum { LATER = 1, BESIDE = 2 };

/* A number for each part, in vectors of two that any processor adds at once. */
enum { PAIRS = SG_TAPE_PARTS / 2 };
typedef double sg_pair __attribute__((vector_size(2 * sizeof(double))));
typedef struct sg_parts {
    sg_pair pair[PAIRS];
} sg_parts;

struct sg_replay {
    const sg_tape *tape;
    sg_clocks clocks;
    double *seconds;       /* per duration */
    sg_priced *collective; /* of durations that are collectives, in their order */
    double *reading;
    uint8_t *did;            /* per move */
    sg_stretched *stretched; /* of launches beside collectives, in order */
    double *coefficient;
    size_t n_stretched, n_coefficients;
    int n_parts; /* of the tape, the highest + 1 */
    /* Of the way back: derivatives of the parts by a moment of an event, by start and end of a collective, and how often a
     * duration lies on the parts' critical paths. */
    sg_parts *of_event, *of_interval, *weight;
    sg_virtual_report sums;
};

sg_code sg_replay_open(const sg_tape *tape, sg_replay **replay, sg_status *status) {
    sg_replay *r = *replay = calloc(1, sizeof *r);
    if (!r) return sg_fail_memory(status, sizeof *r, "a replay");
    r->tape = tape;
    size_t collectives = 0;
    for (size_t i = 0; i < tape->n_durations; i++) collectives += tape->durations[i].kind == SG_DURATION_COLLECTIVE;
    r->seconds = calloc(tape->n_durations + 1, sizeof *r->seconds);
    r->collective = calloc(collectives + 1, sizeof *r->collective);
    r->reading = calloc(tape->n_readings + 1, sizeof *r->reading);
    r->did = calloc(tape->n_moves + 1, sizeof *r->did);
    r->stretched = calloc(tape->n_launches + 1, sizeof *r->stretched);
    /* a launch passes the end of intervals that no later launch sees again, and ends before that of one more */
    r->coefficient = calloc(2 * (tape->n_launches + tape->n_collectives) + 1, sizeof *r->coefficient);
    r->clocks.event = calloc(tape->n_events + 1, sizeof *r->clocks.event);
    r->clocks.active = calloc(tape->n_collectives + 1, sizeof *r->clocks.active);
    r->of_event = calloc(tape->n_events + 1, sizeof *r->of_event);
    r->of_interval = calloc(2 * tape->n_collectives + 1, sizeof *r->of_interval);
    r->weight = calloc(tape->n_durations + 1, sizeof *r->weight);
    for (size_t i = 0; i < tape->n_readings; i++)
        if ((int)tape->part[i] >= r->n_parts) r->n_parts = (int)tape->part[i] + 1;
    if (r->seconds && r->collective && r->reading && r->did && r->stretched && r->coefficient && r->clocks.event &&
        r->clocks.active && r->of_event && r->of_interval && r->weight)
        return SG_OK;
    sg_replay_close(r);
    *replay = NULL;
    return sg_fail_memory(status, tape->n_moves * sizeof(double), "a replay");
}

void sg_replay_close(sg_replay *r) {
    if (!r) return;
    free(r->seconds);
    free(r->collective);
    free(r->reading);
    free(r->did);
    free(r->stretched);
    free(r->coefficient);
    free(r->clocks.event);
    free(r->clocks.active);
    free(r->of_event);
    free(r->of_interval);
    free(r->weight);
    free(r);
}

static sg_code price_collectives(sg_replay *r, const sg_tape_prices *prices, int ranks, sg_status *status) {
    const sg_tape *t = r->tape;
    sg_priced *price = r->collective;
    memcpy(r->seconds, prices->seconds, t->n_durations * sizeof *r->seconds);
    for (size_t i = SG_TAPE_HOST_DURATIONS; i < t->n_durations && t->n_collectives; i++) {
        const sg_duration *d = &t->durations[i];
        if (d->kind != SG_DURATION_COLLECTIVE) continue;
        sg_code code =
            sg_price_collective(&prices->machine, (sg_collective_kind)d->which, d->bytes, ranks, price, status);
        if (code) return code;
        r->seconds[i] = price++->seconds;
    }
    return SG_OK;
}

/* ---- forward ------------------------------------------------------------------------------------------------------- */

static inline void host(sg_replay *r, size_t duration, int64_t times) {
    sg_clocks_host(&r->clocks, r->seconds[duration], (double)times);
    r->sums.host_busy_s += (double)times * r->seconds[duration];
}

static inline uint8_t launch(sg_replay *r, const sg_move *m) {
    double start;
    bool beside;
    sg_stretched *s = &r->stretched[r->n_stretched];
    s->coefficient = r->coefficient + r->n_coefficients;
    if (m->times) host(r, m->host, m->times);
    bool later = sg_clocks_launch(&r->clocks, (sg_stream)m->stream, r->seconds[m->index], &start, &beside, s);
    if (beside) {
        r->n_stretched++;
        r->n_coefficients += 2 * s->n;
    }
    if (m->stream == SG_STREAM_COMPUTE) {
        const sg_duration *d = &r->tape->durations[m->index];
        double busy = r->clocks.stream[SG_STREAM_COMPUTE] - start;
        r->sums.device_busy_s += busy;
        r->sums.class_s[d->kind == SG_DURATION_OP ? d->which : SG_CLASS_COPY] += busy;
    }
    return (uint8_t)((later ? LATER : 0) | (beside ? BESIDE : 0));
}

static uint8_t collective(sg_replay *r, const sg_move *m) {
    bool beside;
    double seconds = r->seconds[m->index];
    bool later = sg_clocks_collective(&r->clocks, seconds, &beside);
    r->sums.collective_busy_s += beside ? r->clocks.collective_stretch * seconds : seconds;
    return (uint8_t)((later ? LATER : 0) | (beside ? BESIDE : 0));
}

static void forward(sg_replay *r, double idle_scale) {
    sg_clocks *c = &r->clocks;
    const sg_tape *t = r->tape;
    for (size_t i = 0; i < t->n_moves; i++) {
        const sg_move *m = &t->moves[i];
        uint8_t did = 0;
        switch (m->kind) {
        case SG_MOVE_HOST: host(r, m->index, m->times); break;
        case SG_MOVE_LAUNCH: did = launch(r, m); break;
        case SG_MOVE_COLLECTIVE: did = collective(r, m); break;
        case SG_MOVE_RECORD: did = sg_clocks_record(c, m->index, (sg_stream)m->stream); break;
        case SG_MOVE_WAIT: did = sg_clocks_wait(c, m->index, (sg_stream)m->stream); break;
        case SG_MOVE_SYNC: did = sg_clocks_sync(c, (sg_stream)m->stream); break;
        case SG_MOVE_IDLE: c->host += idle_scale * t->idle[m->index]; break;
        default: r->reading[m->index] = c->host; break;
        }
        r->did[i] = did;
    }
    r->sums.host_s = c->host;
}

/* ---- back ---------------------------------------------------------------------------------------------------------- */

/* Derivatives of the parts by the clocks as they stand where the way back has come to. Of the SG_TAPE_PARTS there can be, the
 * first half are looked at where a tape has no others: `pairs` is a constant wherever these are inlined. */
typedef struct back {
    sg_parts host, stream[SG_STREAM_COUNT];
    sg_parts log_stretch, log_collective_stretch;
    size_t n_stretched, collective;
    int after; /* part of the time behind the reading */
} back;

#define INLINE static inline __attribute__((always_inline))

INLINE void add(sg_parts *to, const sg_parts *from, double times, int pairs) {
    const sg_pair both = {times, times};
    for (int i = 0; i < pairs; i++) to->pair[i] += both * from->pair[i];
}

/* The later one alone has a say. */
INLINE void pass(sg_parts *to, sg_parts *from, int pairs) {
    for (int i = 0; i < pairs; i++) {
        to->pair[i] += from->pair[i];
        from->pair[i] = (sg_pair){0};
    }
}

INLINE void back_launch(sg_replay *r, back *b, const sg_move *m, uint8_t did, int pairs) {
    sg_parts *stream = &b->stream[m->stream];
    if (r->clocks.in_line) pass(stream, &b->host, pairs);
    if (did & BESIDE) {
        const sg_stretched *s = &r->stretched[--b->n_stretched];
        for (size_t k = 0; k < 2 * s->n; k++) add(&r->of_interval[2 * s->first + k], stream, s->coefficient[k], pairs);
        add(&b->log_stretch, stream, s->of_log_stretch, pairs);
        add(&r->weight[m->index], stream, s->of_work, pairs);
        for (int i = 0; i < pairs; i++) stream->pair[i] *= (sg_pair){s->of_clock, s->of_clock};
    } else {
        add(&r->weight[m->index], stream, 1, pairs);
    }
    if (did & LATER) pass(&b->host, stream, pairs);
    if (m->times) add(&r->weight[m->host], &b->host, (double)m->times, pairs);
}

INLINE void back_collective(sg_replay *r, back *b, const sg_move *m, uint8_t did, int pairs) {
    sg_parts *stream = &b->stream[SG_STREAM_COLLECTIVE];
    const sg_parts *interval = &r->of_interval[2 * --b->collective];
    add(stream, interval + 1, 1, pairs);
    double slowed = did & BESIDE ? r->clocks.collective_stretch : 1;
    add(&r->weight[m->index], stream, slowed, pairs);
    if (did & BESIDE) add(&b->log_collective_stretch, stream, slowed * r->seconds[m->index], pairs);
    add(stream, interval, 1, pairs);
    if (did & LATER) pass(&b->host, stream, pairs);
}

static void back_read(const sg_replay *r, back *b, const sg_move *m) {
    int part = r->tape->part[m->index];
    if (b->after >= 0) b->host.pair[b->after / 2][b->after % 2] -= 1;
    if (part >= 0) b->host.pair[part / 2][part % 2] += 1;
    b->after = part;
}

INLINE void go_back(sg_replay *r, back *b, int pairs) {
    for (size_t i = r->tape->n_moves; i-- > 0;) {
        const sg_move *m = &r->tape->moves[i];
        uint8_t did = r->did[i];
        switch (m->kind) {
        case SG_MOVE_HOST: add(&r->weight[m->index], &b->host, (double)m->times, pairs); break;
        case SG_MOVE_LAUNCH: back_launch(r, b, m, did, pairs); break;
        case SG_MOVE_COLLECTIVE: back_collective(r, b, m, did, pairs); break;
        case SG_MOVE_RECORD: pass(did ? &b->host : &b->stream[m->stream], &r->of_event[m->index], pairs); break;
        case SG_MOVE_WAIT:
            if (did) pass(&r->of_event[m->index], &b->stream[m->stream], pairs);
            break;
        case SG_MOVE_SYNC:
            if (did) pass(&b->stream[m->stream], &b->host, pairs);
            break;
        case SG_MOVE_READ: back_read(r, b, m); break;
        default: break;
        }
    }
}

static double part_of(const sg_parts *parts, int p) {
    return parts->pair[p / 2][p % 2];
}

/* d part / d log parameter of one duration's derivatives. */
static void spread(const sg_replay *r, size_t duration, int id, double by_log, sg_replayed *out) {
    for (int p = 0; p < r->n_parts; p++) out->by_log[p][id] += part_of(&r->weight[duration], p) * by_log;
}

static bool weighs(const sg_replay *r, size_t duration) {
    for (int p = 0; p < r->n_parts; p++)
        if (part_of(&r->weight[duration], p) != 0) return true;
    return false;
}

static void sum_up(const sg_replay *r, const sg_tape_prices *prices, const back *b, sg_replayed *out) {
    const sg_priced *collective = r->collective;
    for (size_t i = 0; i < r->tape->n_durations; i++) {
        bool exchange = r->tape->durations[i].kind == SG_DURATION_COLLECTIVE;
        const double *by_log = exchange ? collective++->by_log : NULL;
        if (!weighs(r, i)) continue;
        for (uint32_t k = prices->first[i]; k < prices->first[i + 1]; k++)
            spread(r, i, prices->id[k], prices->by_log[k], out);
        for (int id = 0; exchange && id < SG_M_COUNT; id++)
            if (by_log[id] != 0) spread(r, i, id, by_log[id], out);
    }
    for (int p = 0; p < r->n_parts; p++) {
        out->by_log[p][SG_M_OVERLAP_STRETCH] += part_of(&b->log_stretch, p);
        out->by_log[p][SG_M_COLLECTIVE_STRETCH] += part_of(&b->log_collective_stretch, p);
    }
}

static void backward(sg_replay *r, back *b) {
    const sg_tape *t = r->tape;
    memset(r->of_event, 0, t->n_events * sizeof *r->of_event);
    memset(r->of_interval, 0, 2 * t->n_collectives * sizeof *r->of_interval);
    memset(r->weight, 0, t->n_durations * sizeof *r->weight);
    *b = (back){.after = SG_TAPE_NO_PART, .n_stretched = r->n_stretched, .collective = r->clocks.n_active};
    if (r->n_parts <= SG_TAPE_PARTS / 2)
        go_back(r, b, PAIRS / 2);
    else
        go_back(r, b, PAIRS);
}

/* ---- both ---------------------------------------------------------------------------------------------------------- */

static void rewind_clocks(sg_replay *r, const sg_machine *machine) {
    sg_clocks *c = &r->clocks;
    c->host = 0;
    memset(c->stream, 0, sizeof c->stream);
    memset(c->event, 0, r->tape->n_events * sizeof *c->event);
    c->first = c->n_active = 0;
    c->in_line = strcmp(machine->device_class, "cpu") == 0;
    c->stretch = machine->p[SG_M_OVERLAP_STRETCH].value;
    c->collective_stretch = machine->p[SG_M_COLLECTIVE_STRETCH].value;
    r->n_stretched = r->n_coefficients = 0;
    r->sums = (sg_virtual_report){0};
}

sg_code sg_replay_times(sg_replay *r, const sg_tape_prices *prices, int ranks, double idle_scale, sg_replayed *replayed,
                        sg_status *status) {
    sg_code code = price_collectives(r, prices, ranks, status);
    if (code) return code;
    rewind_clocks(r, &prices->machine);
    forward(r, idle_scale);
    replayed->report = r->sums;
    replayed->reading = r->reading;
    replayed->event = r->clocks.event;
    memset(replayed->by_log, 0, sizeof replayed->by_log);
    return SG_OK;
}

sg_code sg_replay_run(sg_replay *r, const sg_tape_prices *prices, int ranks, double idle_scale, sg_replayed *replayed,
                      sg_status *status) {
    sg_code code = sg_replay_times(r, prices, ranks, idle_scale, replayed, status);
    if (code) return code;
    back b;
    backward(r, &b);
    sum_up(r, prices, &b, replayed);
    return SG_OK;
}
