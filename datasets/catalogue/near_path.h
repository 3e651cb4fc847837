/* near_path.h: what stands beside a path that does not exist. */
#ifndef SG_DATASETS_CATALOGUE_NEAR_PATH_H
#define SG_DATASETS_CATALOGUE_NEAR_PATH_H

#include <stddef.h>

enum { SG_NEAR_BYTES = 320 };

/* The path whose last part is the nearest of the names in the same folder (hidden ones aside); "" when none is near, or there
 * is no such folder, or it has no room in `bytes`. */
void sg_near_path(const char *path, char *near, size_t bytes);

#endif
