/* settings.h: policy settings from a YAML or JSON file, each with its file, line and column. */
#ifndef SG_CALIBRATION_CONFIG_SETTINGS_H
#define SG_CALIBRATION_CONFIG_SETTINGS_H

#include "kernels/status.h"
#include "models/policy.h"

typedef struct sg_settings {
    char policy[64];   /* value of the key `policy` (or `type`), or follows from `model_type`; "" when there is none */
    sg_setting *items; /* scalars as text, lists of numbers joined by commas */
    size_t n;
} sg_settings;

/* A mapping of scalars and lists of scalars; .json is read as JSON, everything else as YAML. Nested mappings, duplicate
 * keys and other shapes are refused with line and column.
 *
 * A Hugging Face configuration (config.json of a checkpoint: it has a `model_type`) names the policy by its model type, and
 * only what sizes that policy is taken: it has dozens of keys that do not change a step. SG_BAD_INPUT: a model type that is
 * not one of bert, gpt2, opt, switch_transformers. */
sg_code sg_settings_read(const char *path, sg_settings *settings, sg_status *status);
/* The same for JSON text; `name` stands for the path in messages. */
sg_code sg_settings_parse_json(const char *name, const char *text, sg_settings *settings, sg_status *status);
void sg_settings_clear(sg_settings *settings);

#endif
