/* fit.h: from measured points to a machine and a law of the step, by GSL's robust nonlinear least squares. */
#ifndef SG_CALIBRATION_FIT_H
#define SG_CALIBRATION_FIT_H

#include "calibration/figure.h"
#include "sim/run_file.h"

enum { SG_FIT_MAX_TERMS = 8 };

/* A fitted formula for one quantity of one policy configuration over batch, ranks and workers. */
typedef struct sg_law {
    char quantity[32]; /* "update_s" */
    char policy[SG_NAME_BYTES], settings[512];
    char formula[160]; /* "(h^p + (a + b batch)^p)^(1/p), p = 6" */
    size_t n_terms;
    char term[SG_FIT_MAX_TERMS][24];
    double value[SG_FIT_MAX_TERMS], error[SG_FIT_MAX_TERMS]; /* error: standard error, same unit */
    double covariance[SG_FIT_MAX_TERMS * SG_FIT_MAX_TERMS];
    double residual_log_sd, left_out_log_sd; /* within the fit; leaving whole configurations out */
    size_t n_points;
    char next_point[96]; /* the point most worth measuring next: "batch 16, ranks 1" */
} sg_law;

typedef struct sg_fit_options {
    const char *probe_file; /* written by bench/torch_probe.py; NULL = none */
    const char *const *logs;
    size_t n_logs; /* LeRobot logs: observed evidence */
} sg_fit_options;

typedef struct sg_fit {
    sg_machine machine; /* parameters of this machine with covariance */
    sg_law *laws;
    size_t n_laws;
    double *residuals;
    size_t n_residuals; /* log(measured / fitted) per point of the run, NAN where unused */
    char notes[8][256];
    size_t n_notes; /* "not enough points for exposed_sync_s: 2, needs 4" */
} sg_fit;

/* SG_BAD_INPUT when no law has two points more than parameters (says which points are missing). */
sg_code sg_fit_run(const sg_run *run, const sg_machine *prior, const sg_fit_options *options, sg_fit *fit,
                   sg_status *status);
void sg_fit_clear(sg_fit *fit);
sg_code sg_fit_save(const char *path, const sg_fit *fit, sg_status *status); /* machine file (HDF5) */
sg_code sg_fit_load(const char *path, sg_fit *fit, sg_status *status);
/* Value of a law with log sd from its covariance and residual. */
sg_code sg_law_at(const sg_law *law, double batch, double ranks, double workers, double *value, double *log_sd,
                  sg_status *status);

#endif
