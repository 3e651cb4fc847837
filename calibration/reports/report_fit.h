/* report_fit.h: priors of GPUs and hosts from published trainings.
 *
 * A handful of numbers that data sheets do not tell (what share of its peak a class of ops reaches inside a step, what the
 * host spends per call) are fitted to reports of whole steps: maximum a posteriori, with textbook values from kernel
 * measurements as the prior, through the walk's own derivatives. Reports of one GPU and policy count as two,
 * however many they are: they share their machine, their host and their author. */
#ifndef SG_CALIBRATION_REPORT_FIT_H
#define SG_CALIBRATION_REPORT_FIT_H

#include "calibration/machine/framework_file.h"
#include "calibration/reports/report_case.h"
#include "calibration/validate/validate.h"

#include <stdio.h>

enum { SG_REPORT_TERMS = 16 };

/* One fitted number: parameters of one file that move together. */
typedef struct sg_report_term {
    const char *file; /* configs/priors/<file>.yaml, or configs/frameworks/<file>.yaml */
    bool of_framework;
    sg_machine_id ids[8];
    size_t n_ids;
    double textbook, log_sd; /* prior: value and doubt */
    const char *source;
} sg_report_term;
const sg_report_term *sg_report_terms(size_t *n);

typedef struct sg_report_fit {
    double value[SG_REPORT_TERMS], log_sd[SG_REPORT_TERMS]; /* posterior; of host costs: of the next host */
    size_t rows, configurations;                            /* reports used; GPU and policy pairs among them */
    double rms_log;                                         /* of the reports used */
} sg_report_fit;

/* Fits to the cases on a named GPU with tf32 and with cameras known; `without` names a device to leave out (NULL:
 * none). Rows of cameras chosen by busy shares never take part. */
sg_code sg_report_fit_make(const sg_report_cases *cases, const char *config_dir, const char *without,
                           sg_report_fit *fit, sg_status *status);
/* The machine and the framework's numbers with the fitted values in place of those that come from the terms' files; what a
 * sheet or a calibration states itself stays. */
sg_code sg_report_fit_apply(const sg_report_fit *fit, const char *config_dir, sg_machine *machine,
                            sg_framework_numbers *framework, sg_status *status);

/* The fitted values as they stand in the files of configs/, one block a file; they are copied there when a release is made. */
sg_code sg_report_fit_save(FILE *file, const sg_report_fit *fit, sg_status *status);

/* Fits for a validation: one for every device that is left out, or none where nothing is. */
typedef struct sg_report_fits {
    sg_machine *machine; /* by case */
    sg_framework_numbers *framework;
    size_t n;
} sg_report_fits;
sg_code sg_report_fits_make(const sg_report_cases *cases, const sg_validate_options *options, sg_report_fits *fits,
                            sg_status *status);
void sg_report_fits_clear(sg_report_fits *fits);

#endif
