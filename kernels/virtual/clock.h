/* clock.h: a clock of the virtual device: seconds and their derivatives by the log parameters of a machine. */
#ifndef SG_KERNELS_VIRTUAL_CLOCK_H
#define SG_KERNELS_VIRTUAL_CLOCK_H

#include "kernels/virtual/machine.h"

typedef struct sg_vclock {
    double s;
    double by_log[SG_M_COUNT];
} sg_vclock;

/* A duration depends on few parameters: only those are kept. */
enum { SG_VSPAN_TERMS = 12 };
typedef struct sg_vspan {
    double s;
    int n;
    uint8_t id[SG_VSPAN_TERMS];
    double by_log[SG_VSPAN_TERMS];
} sg_vspan;

static inline void sg_vclock_join(sg_vclock *clock, const sg_vclock *other) {
    if (other->s > clock->s) *clock = *other;
}

static inline void sg_vclock_add(sg_vclock *clock, const sg_vspan *d, double times) {
    clock->s += times * d->s;
    for (int i = 0; i < d->n; i++) clock->by_log[d->id[i]] += times * d->by_log[i];
}

static inline void sg_vspan_sum(double *by_log, const sg_vspan *d, double times) {
    for (int i = 0; i < d->n; i++) by_log[d->id[i]] += times * d->by_log[i];
}

/* Adds d seconds / d log parameter `id`. */
static inline void sg_vspan_depends(sg_vspan *d, sg_machine_id id, double by_log) {
    for (int i = 0; i < d->n; i++) {
        if (d->id[i] == (uint8_t)id) {
            d->by_log[i] += by_log;
            return;
        }
    }
    d->id[d->n] = (uint8_t)id;
    d->by_log[d->n++] = by_log;
}

#endif
