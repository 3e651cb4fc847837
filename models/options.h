/* options.h: a policy's configuration, from text to typed values within bounds. */
#ifndef SG_MODELS_OPTIONS_H
#define SG_MODELS_OPTIONS_H

#include "models/policy.h"

enum { SG_OPTION_LIST_MAX = 16 }; /* members of a SG_KEY_INT_LIST */

typedef struct sg_options sg_options;

/* Defaults of `family`, then the settings in order (the last one of a key wins). SG_BAD_INPUT names the key, where the
 * value came from, what is allowed and, for an unknown key, the nearest known one. The texts of `settings` must outlive
 * the options. */
sg_code sg_options_make(const sg_family *family, const sg_setting *settings, size_t n_settings, sg_options **options,
                        sg_status *status);
void sg_options_free(sg_options *options);

/* Values by the key's own name (not an alias), which must be one of the family's and of that type. */
int64_t sg_option_int(const sg_options *options, const char *key);
double sg_option_real(const sg_options *options, const char *key);
bool sg_option_bool(const sg_options *options, const char *key);
const char *sg_option_text(const sg_options *options, const char *key);
const int64_t *sg_option_list(const sg_options *options, const char *key, size_t *count);
/* True when the user set it, false when it is the default. */
bool sg_option_given(const sg_options *options, const char *key);
/* Where the value came from: "--set", "policy.yaml:3:5", or "default". */
const char *sg_option_origin(const sg_options *options, const char *key);

#endif
