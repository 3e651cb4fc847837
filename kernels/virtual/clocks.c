#include "kernels/virtual/clocks.h"

/* Which moment a clock stands at: the one that the launch started from, or an end of an interval. */
typedef struct moment {
    bool of_interval;
    size_t interval;
    int end;
} moment;

static void depends(sg_stretched *d, const moment *on, double by) {
    if (!d) return;
    if (!on->of_interval) {
        d->of_clock += by;
        return;
    }
    while (d->n <= on->interval - d->first) {
        d->coefficient[2 * d->n] = d->coefficient[2 * d->n + 1] = 0;
        d->n++;
    }
    d->coefficient[2 * (on->interval - d->first) + (size_t)on->end] += by;
}

/* Derivatives of at + speed x left, of which those of `left` are in *d. */
static double finish(sg_stretched *d, const moment *at, double clock, double speed, double left, double slowed) {
    if (d) {
        for (size_t i = 0; i < 2 * d->n; i++) d->coefficient[i] *= speed;
        d->of_clock *= speed;
        d->of_work = speed;
        d->of_log_stretch = speed * slowed + (speed > 1 ? speed * left : 0);
        depends(d, at, 1);
    }
    return clock + speed * left;
}

double sg_clocks_beside(const sg_clocks *c, double clock, double work, sg_stretched *d) {
    double left = work, slowed = 0; /* of `left`: done under collectives; d left / d log stretch */
    moment at = {0};
    if (d) {
        d->of_clock = 0;
        d->first = c->first;
        d->n = 0;
    }
    for (size_t i = c->first; i < c->n_active; i++) {
        const sg_interval *a = &c->active[i];
        const moment start = {true, i, 0}, end = {true, i, 1};
        if (clock < a->start) {
            double gap = a->start - clock;
            if (left <= gap) break;
            left -= gap;
            depends(d, &start, -1);
            depends(d, &at, 1);
            clock = a->start;
            at = start;
        }
        double capacity = (a->end - clock) / c->stretch;
        if (left <= capacity) return finish(d, &at, clock, c->stretch, left, slowed);
        left -= capacity;
        slowed += capacity;
        depends(d, &end, -1 / c->stretch);
        depends(d, &at, 1 / c->stretch);
        clock = a->end;
        at = end;
    }
    return finish(d, &at, clock, 1, left, slowed);
}
