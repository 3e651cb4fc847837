/* reader_keep.h: things kept open under a name, the least recently used goes first. For reader*.c alone. */
#ifndef SG_DATASETS_READER_READER_KEEP_H
#define SG_DATASETS_READER_READER_KEEP_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sg_kept {
    char *name;
    void *value;
    uint64_t used; /* when, counted in uses */
} sg_kept;

typedef struct sg_keep {
    void (*close)(void *value);
    sg_kept *kept; /* [most] */
    size_t n, most;
    uint64_t uses;
} sg_keep;

/* most: 1 or more. */
sg_code sg_keep_start(sg_keep *keep, size_t most, void (*close)(void *value), sg_status *status);
void sg_keep_end(sg_keep *keep); /* zeros are allowed */
/* NULL: not kept. */
void *sg_keep_get(sg_keep *keep, const char *name);
/* Takes `value` in (on failure it is closed), and closes another where there is no room. */
sg_code sg_keep_put(sg_keep *keep, const char *name, void *value, sg_status *status);
/* Closes what has this name, if anything has. */
void sg_keep_drop(sg_keep *keep, const char *name);
/* Closes the least recently used, but never the last one. false: there was none to close. */
bool sg_keep_drop_oldest(sg_keep *keep);

#endif
