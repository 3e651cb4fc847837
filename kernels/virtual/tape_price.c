/* tape_price.c: the durations of a tape on one machine. */
#include <stdlib.h>

#include "kernels/virtual/price.h"
#include "kernels/virtual/replay.h"

static bool occurs(const sg_duration *d) {
    return d->kind != SG_DURATION_HOST || d->host_times > 0;
}

static sg_code price(const sg_machine *m, const sg_duration *d, sg_priced *p, sg_status *status) {
    *p = (sg_priced){0};
    switch (d->kind) {
    case SG_DURATION_HOST: return occurs(d) ? sg_price_host(m, d->which, p, status) : SG_OK;
    case SG_DURATION_OP: return sg_machine_step_price(m, d->op, &p->seconds, p->by_log, status);
    case SG_DURATION_COPY: return sg_price_copy(m, (sg_copy_kind)d->which, d->bytes, p, status);
    default: return SG_OK; /* by ranks */
    }
}

typedef struct terms {
    size_t n, room;
} terms;

static sg_code keep(sg_tape_prices *prices, terms *t, const double *by_log, sg_status *status) {
    if (t->n + SG_M_COUNT > t->room) {
        size_t room = 2 * t->room + 64 * SG_M_COUNT;
        uint8_t *id = realloc(prices->id, room);
        if (id) prices->id = id;
        double *value = realloc(prices->by_log, room * sizeof *value);
        if (value) prices->by_log = value;
        if (!id || !value) return sg_fail_memory(status, room * sizeof *value, "the prices of a tape");
        t->room = room;
    }
    for (int i = 0; i < SG_M_COUNT; i++) {
        if (by_log[i] == 0) continue;
        prices->id[t->n] = (uint8_t)i;
        prices->by_log[t->n++] = by_log[i];
    }
    return SG_OK;
}

static sg_code price_all(const sg_tape *tape, sg_tape_prices *prices, sg_status *status) {
    terms t = {0};
    for (size_t i = 0; i < tape->n_durations; i++) {
        const sg_duration *d = &tape->durations[i];
        sg_priced p;
        sg_code code = price(&prices->machine, d, &p, status);
        if (!code) code = keep(prices, &t, p.by_log, status);
        if (code) return code;
        prices->seconds[i] = p.seconds;
        prices->first[i + 1] = (uint32_t)t.n;
        for (size_t k = prices->first[i]; k < t.n; k++) {
            prices->host_by_log[prices->id[k]] += d->host_times * prices->by_log[k];
            prices->device_by_log[prices->id[k]] += d->device_times * prices->by_log[k];
        }
    }
    return SG_OK;
}

sg_code sg_tape_price(const sg_tape *tape, const sg_machine *machine, sg_tape_prices **prices, sg_status *status) {
    size_t n = tape->n_durations;
    sg_tape_prices *p = *prices = calloc(1, sizeof *p);
    if (p) p->seconds = calloc(n, sizeof *p->seconds);
    if (p) p->first = calloc(n + 1, sizeof *p->first);
    sg_code code = SG_OK;
    if (!p || !p->seconds || !p->first) {
        code = sg_fail_memory(status, sizeof *p + n * sizeof(double), "the prices of a tape");
    } else {
        p->machine = *machine;
        p->machine.covariance = NULL;
        p->machine.measured = sg_measured_share(machine->measured); /* whoever compares machines compares its address */
        code = price_all(tape, p, status);
    }
    if (!code) return SG_OK;
    sg_tape_prices_close(p);
    *prices = NULL;
    return code;
}

void sg_tape_prices_close(sg_tape_prices *prices) {
    if (!prices) return;
    free(prices->seconds);
    free(prices->first);
    free(prices->id);
    free(prices->by_log);
    sg_measured_release(prices->machine.measured);
    free(prices);
}
