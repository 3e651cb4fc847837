/* json_file.h: a JSON file as a jansson tree, with bounds, and lookups that name file and key when something is off. */
#ifndef SG_CALIBRATION_JSON_FILE_H
#define SG_CALIBRATION_JSON_FILE_H

#include "kernels/status.h"

#include <jansson.h>
#include <stdint.h>

/* An object at the top is required. Malformed text: file, line and column. Files over 64 MiB are refused. */
sg_code sg_json_file_read(const char *path, json_t **root, sg_status *status);

/* Each reads `key` of `object` when it is there (null counts as absent) and leaves *out alone when it is not. */
sg_code sg_json_int(const char *path, const json_t *object, const char *key, int64_t low, int64_t high, int64_t *out,
                    sg_status *status);
sg_code sg_json_real(const char *path, const json_t *object, const char *key, double *out, sg_status *status);
sg_code sg_json_text(const char *path, const json_t *object, const char *key, char *out, size_t room,
                     sg_status *status);

#endif
