/* compare.h: a training as its log shows it beside what was measured here and what is predicted, phase by phase, and what the
 * differences point to. */
#ifndef SG_CALIBRATION_COMPARE_COMPARE_H
#define SG_CALIBRATION_COMPARE_COMPARE_H

#include "calibration/log/log.h"
#include "calibration/predict/predict.h"
#include "sim/measure/point.h"

/* The same training told differently: what would be predicted with another camera, batch, precision. */
typedef struct sg_compare_alternative {
    char what[64]; /* "3 cameras" */
    sg_prediction predicted;
} sg_compare_alternative;

typedef struct sg_compare_facts {
    const sg_log *log;
    const sg_point_config *config;  /* what the log is of */
    const sg_point *measured;       /* the nearest point, or NULL */
    bool exact;                     /* its configuration is the log's */
    const sg_prediction *predicted; /* or NULL */
    const sg_compare_alternative *alternatives;
    size_t n_alternatives;
    double capacity_bytes; /* of the machine; 0: not told */
} sg_compare_facts;

/* One quantity. NAN: not told, not measured, not predicted. */
typedef struct sg_compared {
    const char *name; /* "update_s" */
    double log, measured;
    sg_figure predicted;
    double by_measured, by_predicted; /* log / ours */
    bool inside;                      /* the log lies in the prediction's interval */
} sg_compared;

enum { SG_COMPARED_MOST = 12, SG_FINDINGS_MOST = 12 };
typedef struct sg_comparison {
    sg_compared phase[SG_COMPARED_MOST];
    size_t n;
    bool only_window; /* the log has no steady windows: its only one, warm-up included */
    char findings[SG_FINDINGS_MOST][320];
    size_t n_findings;
} sg_comparison;

/* SG_BAD_INPUT: the log has no time that could be compared. */
sg_code sg_compare(const sg_compare_facts *facts, sg_comparison *comparison, sg_status *status);

/* The point of the same policy whose configuration is nearest; NULL: none. *exact: it is the same in all that decides a step
 * (policy, framework, precision, settings, batch, ranks, environments, cameras); threads, workers, host and seed are not
 * compared. *differs: what is not the same ("batch 16, 1 camera"). */
const sg_point *sg_compare_nearest(const sg_point *points, size_t n, const sg_point_config *config, bool *exact,
                                   char *differs, size_t bytes);

#endif
