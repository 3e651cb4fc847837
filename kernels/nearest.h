/* nearest.h: which known name a mistyped one may have meant. */
#ifndef SG_KERNELS_NEAREST_H
#define SG_KERNELS_NEAREST_H

#include <stddef.h>

/* The nearest of the known names by edit distance, or NULL when none is near. */
const char *sg_nearest(const char *name, const char *const *known, size_t count);

#endif
