/* fit.h: from measured points to a machine and laws of the step, by robust nonlinear least squares (GSL).
 *
 * Three things are fitted. The *machine*: efficiencies per op class and fixed times per kernel, from the class times that each
 * measured point carries, with the data sheet as prior; it predicts any policy. The *laws*: how one quantity of one measured
 * configuration goes with batch, ranks or workers; they predict that configuration, and better. */
#ifndef SG_CALIBRATION_FIT_FIT_H
#define SG_CALIBRATION_FIT_FIT_H

#include "calibration/loader/loader_law.h"
#include "calibration/statistics/figure.h"
#include "sim/files/run_file.h"

enum { SG_LAW_TERMS = 4 };

typedef enum sg_law_kind {
    SG_LAW_WALK,   /* c (w0 + w1 x): the walk of the step program on the fitted machine, scaled; only c is fitted */
    SG_LAW_AFFINE, /* a + b x */
    SG_LAW_KNEE,   /* (h^6 + (a + b x)^6)^(1/6): launch-bound, then throughput-bound */
    SG_LAW_LINEAR, /* b x */
    SG_LAW_KIND_COUNT
} sg_law_kind;

/* A fitted formula for one quantity of one configuration. x: samples per process and step (PPO: environments). */
typedef struct sg_law {
    char quantity[32];      /* "update_s" */
    sg_point_config config; /* of its points; batch, envs and key are those of the last */
    int32_t kind;           /* sg_law_kind */
    size_t n_terms, n_fitted, n_points;
    double value[SG_LAW_TERMS], error[SG_LAW_TERMS]; /* standard errors; 0 where not fitted */
    double covariance[SG_LAW_TERMS * SG_LAW_TERMS];
    double low_x, high_x;                    /* measured range */
    double residual_log_sd, left_out_log_sd; /* of the fit; leaving whole configurations out in turn */
    char next_point[96];                     /* the point most worth measuring next */
} sg_law;

typedef struct sg_fit_options {
    const char *probe_file;   /* written by bench/torch_probe.py; NULL = none */
    const sg_point *observed; /* points read from logs of the framework on this machine */
    size_t n_observed;
} sg_fit_options;

typedef struct sg_fit {
    sg_machine machine; /* this machine: parameters with covariance */
    sg_law *laws;
    size_t n_laws;
    sg_loader_law *loaders; /* of the data sets that were loaded here, one per data set and layer */
    size_t n_loaders;
    double *residuals; /* log(measured / fitted) of update_s (PPO: learning_s) by point of the run, NAN where unused */
    size_t n_residuals;
    char (*notes)[256]; /* what could not be fitted and why */
    size_t n_notes;
} sg_fit;

/* prior: a data sheet of the right class. SG_BAD_INPUT when nothing can be fitted (says which points are missing). */
sg_code sg_fit_run(const sg_run *run, const sg_machine *prior, const sg_fit_options *options, sg_fit *fit,
                   sg_status *status);
void sg_fit_clear(sg_fit *fit);

/* Machine file: the machine's parameters, the laws and the loaders (docs/run-file.md). */
sg_code sg_fit_save(const char *path, const sg_fit *fit, sg_status *status);
sg_code sg_fit_load(const char *path, sg_fit *fit, sg_status *status);
struct sg_h5tree; /* sim/files/hdf5_tree.h */
/* The same from the tree of a machine file; sg_fit_clear the fit. */
sg_code sg_fit_from_tree(const struct sg_h5tree *root, sg_fit *fit, sg_status *status);

const char *sg_law_formula(sg_law_kind kind);        /* "c (w0 + w1 x)" */
const char *sg_law_term(sg_law_kind kind, size_t i); /* "c" */
/* The law for this quantity and configuration (batch, envs, iterations apart; threads 0: any), or NULL. */
const sg_law *sg_law_find(const sg_fit *fit, const char *quantity, const sg_point_config *config);
/* Value at x, and its log sd from the covariance and the residuals, growing outside the measured range. */
void sg_law_at(const sg_law *law, double x, double *value, double *log_sd);

#endif
