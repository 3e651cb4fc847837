/* config_dir.h: where the data files of the program are (configs/: machines, frameworks, offers, policies, datasets).
 *
 * Searched in this order: the folder given, $STEPGAUGE_CONFIGS, <folder of the program>/../share/stepgauge/configs, and
 * configs/ in the folders above the program (a build inside the source tree). */
#ifndef SG_CALIBRATION_CONFIG_CONFIG_DIR_H
#define SG_CALIBRATION_CONFIG_CONFIG_DIR_H

#include <stddef.h>

#include "kernels/status.h"

enum { SG_PATH_BYTES = 4096 };

/* `given` may be NULL. SG_BAD_INPUT names the places searched. */
sg_code sg_config_dir(const char *given, char *path, size_t bytes, sg_status *status);

/* Names (without ".yaml" and the like) of the files of one kind, sorted. */
typedef struct sg_names {
    char **name;
    size_t count;
} sg_names;
sg_code sg_config_list(const char *config_dir, const char *kind, const char *ending, sg_names *names,
                       sg_status *status);
void sg_names_clear(sg_names *names);

/* Path of configs/<kind>/<name><ending>. Case and what is neither letter nor digit do not count where one name is meant
 * ("RTX 4090"). SG_BAD_INPUT when there is none; the message lists the names that hold it, or the nearest, and all or where they are. */
sg_code sg_config_find(const char *config_dir, const char *kind, const char *name, const char *ending, char *path,
                       size_t bytes, sg_status *status);

#endif
