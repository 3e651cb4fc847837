/* phases.h: the clock readings of one training iteration (docs/design.md, "Phases").
 *
 * Host intervals are read where the framework reads its clock; device intervals come from events recorded on the compute
 * stream at the marks and are read when the iteration is over, so that measuring adds no synchronisation. */
#ifndef SG_SIM_WALK_PHASES_H
#define SG_SIM_WALK_PHASES_H

#include "sim/walk/walk.h"

typedef enum sg_phase {
    SG_PHASE_OTHER,
    SG_PHASE_DATALOADING,
    SG_PHASE_PREPROCESSING,
    SG_PHASE_UPDATE,
    SG_PHASE_INFERENCE,
    SG_PHASE_ENVIRONMENT,
    SG_PHASE_COUNT
} sg_phase;

/* Beyond sg_mark: around the wait for gradient buckets; where the replay of a whole update begins. */
enum { SG_MARK_SYNC_BEGIN = SG_MARK_COUNT, SG_MARK_SYNC_END, SG_MARK_REPLAY };

typedef struct sg_mark_event {
    int mark;
    sg_event *event;
} sg_mark_event;

/* Host seconds between readings of the clock, summed up: by phase, and by whether the schedule's block collects. */
typedef struct sg_phase_sums {
    double host_s[SG_PHASE_COUNT];
    double learning_s, collection_s;
} sg_phase_sums;

/* phase: an sg_phase; -1: the interval belongs to none. */
static inline void sg_phase_sums_add(sg_phase_sums *sums, int phase, bool collecting, double seconds) {
    if (phase < 0) return;
    sums->host_s[phase] += seconds;
    *(collecting ? &sums->collection_s : &sums->learning_s) += seconds;
}

/* Times of an iteration from its host intervals and from when its marks happened, in the order of marking. */
void sg_phase_sums_finish(const sg_phase_sums *sums, const sg_mark_event *marks, const double *at, size_t n,
                          sg_step_times *times);

typedef struct sg_phases {
    const sg_device_api *api;
    sg_device *device;
    sg_phase phase;
    bool collecting;
    double last; /* host clock at the last reading */
    sg_phase_sums sums;
    sg_mark_event *events; /* reused from iteration to iteration */
    double *at;            /* when they happened, parallel to events */
    size_t n_events, n_created, room;
    void (*passed)(void *user, int phase, bool collecting); /* sg_walk_options */
    void *user;
} sg_phases;

void sg_phases_init(sg_phases *phases, const sg_device_api *api, sg_device *device);
void sg_phases_clear(sg_phases *phases);
/* A new iteration: all sums are zero. */
void sg_phases_start(sg_phases *phases);
/* Reads the host clock: the time since the last reading belongs to the phase before. */
void sg_phases_enter(sg_phases *phases, sg_phase phase);
/* What happens between pause and resume belongs to no phase. */
void sg_phases_pause(sg_phases *phases);
void sg_phases_resume(sg_phases *phases);
/* A mark of a program: host phase and an event. */
sg_code sg_phases_mark(sg_phases *phases, int mark, sg_status *status);
/* Sums into *times; all recorded events must have happened. */
sg_code sg_phases_finish(sg_phases *phases, sg_step_times *times, sg_status *status);

#endif
