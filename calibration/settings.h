/* settings.h: policy settings from a YAML or JSON file, each with its file, line and column. */
#ifndef SG_CALIBRATION_SETTINGS_H
#define SG_CALIBRATION_SETTINGS_H

#include "kernels/status.h"
#include "models/policy.h"

typedef struct sg_settings {
    char policy[64];   /* value of the key `policy` (or `type`), "" when the file has none */
    sg_setting *items; /* scalars as text, lists of numbers joined by commas */
    size_t n;
} sg_settings;

/* A mapping of scalars and lists of scalars; .json is read as JSON, everything else as YAML. Nested mappings, duplicate
 * keys and other shapes are refused with line and column. */
sg_code sg_settings_read(const char *path, sg_settings *settings, sg_status *status);
void sg_settings_clear(sg_settings *settings);

#endif
