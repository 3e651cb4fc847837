/* validating.h: what `validate` shows: tables, JSON, and the file of rows. */
#ifndef SG_CLI_VALIDATING_H
#define SG_CLI_VALIDATING_H

#include "calibration/validate/validate.h"
#include "cli/args.h"

#include <jansson.h>

typedef struct sg_validating {
    sg_validation validation;
    sg_validate_summary *summary;
    size_t n_summaries;
    sg_validate_options options;
} sg_validating;

/* Every row that was not predicted counts under its reason: rows of one reason lie together, the first stands for all. */
typedef struct sg_skipped {
    const sg_validated *first;
    size_t n;
} sg_skipped;
/* Ordered by class, then by number. Caller frees; NULL with *n 0 where nothing was skipped. */
sg_code sg_validating_skipped(const sg_validating *v, sg_skipped **skipped, size_t *n, sg_status *status);

/* A table, or the same in Markdown. */
sg_code sg_validating_print(const sg_validating *v, bool markdown, sg_status *status);
json_t *sg_validating_json(const sg_validating *v);
/* One CSV line per row: class, device, part, row, file, line, measured, predicted, low, high, roofline (seconds; bytes of
 * reports_memory), skipped, cause. */
sg_code sg_validating_write_rows(const sg_validating *v, const char *path, sg_status *status);

#endif
