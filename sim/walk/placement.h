/* placement.h: fixed places for all storages that come and go, in one segment: what an engine does that knows its programs.
 *
 * Lifetimes are read from the entries once; storages that never live together may share bytes. No allocation happens while
 * the programs run, pages are touched once, addresses stay. */
#ifndef SG_SIM_WALK_PLACEMENT_H
#define SG_SIM_WALK_PLACEMENT_H

#include "models/training.h"

typedef struct sg_placement {
    uint64_t bytes; /* of the segment; 0: none */
    uint64_t *
        offset; /* per storage; UINT64_MAX: it has no place (it persists, or no program of the schedule allocates it) */
} sg_placement;

/* Valid as long as programs run in the order of the schedule. Largest storages first, each at the lowest offset that is free
 * during its life (greedy by size: Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020). */
sg_code sg_placement_make(const sg_training *training, sg_placement *placement, sg_status *status);
void sg_placement_clear(sg_placement *placement);

#endif
