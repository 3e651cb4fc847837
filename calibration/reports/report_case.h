/* report_case.h: the rows of a table of published trainings, made ready to be predicted.
 *
 * What one row does not say, another row of the same source about the same policy on the same GPU may: cameras and image
 * sizes are taken over from it. Where the cameras stay unknown, one, two and three are candidates; parameter counts that
 * the row states rule out candidates and variants of the policy. */
#ifndef SG_CALIBRATION_REPORT_CASE_H
#define SG_CALIBRATION_REPORT_CASE_H

#include "calibration/machine/framework_file.h"
#include "calibration/predict/predict.h"
#include "calibration/reports/report_row.h"

enum { SG_REPORT_CANDIDATES = 3 };

typedef struct sg_report_candidate {
    int cameras; /* 0: the policy has none, or the row states them and nothing is to be chosen */
    sg_report_row row;
    sg_predictor *predictor; /* NULL: ruled out */
} sg_report_candidate;

typedef struct sg_report_case {
    sg_report_row row;
    char source[SG_REPORT_TEXT], dataset[SG_REPORT_TEXT]; /* folded */
    size_t line;                                          /* of the file, from 2 */
    bool has_machine; /* else machine is a stand-in, good for memory alone: another GPU of the same device class */
    sg_machine machine;
    sg_report_candidate *candidate; /* n_candidates of them; NULL where the training cannot be set up */
    size_t n_candidates;
    bool cameras_known; /* stated by the row or by another of its source, or left over by the parameter count */
} sg_report_case;

typedef struct sg_report_cases {
    sg_report_case *items;
    size_t n;
} sg_report_cases;

/* Reads and sets up every row of a table beside those that *cases (zeros at first) already has; what a row lacks is in its
 * reasons. Fails where the table has none of the columns, or a configuration file is damaged; *cases is then closed. */
sg_code sg_report_cases_add(const sg_csv_table *table, const char *config_dir, sg_report_cases *cases,
                            sg_status *status);
void sg_report_cases_close(sg_report_cases *cases);

/* Prediction of one candidate on this machine (usually the case's own), cameras taken as known: interval is that of the
 * training as set up. framework: numbers of the row's profile, or NULL: those of the configuration. */
sg_code sg_report_case_predict(const sg_report_case *one, size_t candidate, const sg_machine *machine,
                               const sg_framework_numbers *framework, const char *config_dir, double interval,
                               sg_prediction *prediction, sg_status *status);

/* Floating point operations of one step on one rank, and the larger of FLOP/peak and bytes/bandwidth on the machine:
 * nothing fitted. NAN where the machine lacks a peak. */
sg_code sg_report_case_roofline(const sg_report_case *one, size_t candidate, double *flops, double *seconds,
                                double *peak_flops_s, sg_status *status);

#endif
