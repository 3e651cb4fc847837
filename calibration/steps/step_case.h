/* step_case.h: rows of whole transformer steps, measured on named GPUs, made ready to be predicted.
 *
 * How such rows were measured (the scripts of the tables' authors, NeuSight, neusight/Tracing/trace.py, 2026-11): eager
 * attention, fp32 products without TF32, constant token ids; memory given back to the driver before each iteration; the
 * mean of the fastest 5 of 25. Inference of BERT is that of a sequence classifier, its training that of BertForPreTraining.
 * A training row is forward plus backward: the loss's forward lies between the two, gradients are added to ones that exist,
 * there is no optimizer. Constant tokens all choose the same expert. */
#ifndef SG_CALIBRATION_STEP_CASE_H
#define SG_CALIBRATION_STEP_CASE_H

#include "calibration/predict/predict_walk.h"
#include "formats/csv_table.h"

typedef struct sg_step_case {
    char model[48], device[64]; /* as the file has them */
    char row[96];               /* "bert_large train 512 x 2" */
    char skipped[160];          /* why it cannot be predicted; "": it can, and what follows is there */
    size_t line;                /* of the file, from 2 */
    bool train;
    int64_t tokens, batch, ranks; /* batch: sequences of one process */
    double measured_s;
    double forward_share; /* of a training step: forward over forward and backward; NAN: the row does not say */
    sg_machine machine;   /* as its sheet and the framework's numbers have it */
    sg_training *training;
    sg_course *course;
} sg_step_case;

typedef struct sg_step_cases {
    sg_step_case *items;
    size_t n;
} sg_step_cases;

/* steps: columns device, model, mode (inf, train), seq_len, batch, parallel, step_ms, and where known forward_ms and
 * backward_ms; configs: model, config_json. Fails where
 * a table is none of its kind; a row that cannot be set up says why. */
sg_code sg_step_cases_open(const sg_csv_table *steps, const sg_csv_table *configs, const char *config_dir,
                           sg_step_cases *cases, sg_status *status);
void sg_step_cases_close(sg_step_cases *cases);

/* Seconds of the measured part on this machine, and d seconds / d log parameter (by_log[SG_M_COUNT] or NULL). */
sg_code sg_step_case_predict(sg_step_case *one, const sg_machine *machine, double *seconds, double *by_log,
                             sg_status *status);
/* The larger of FLOPs over the fp32 peak and bytes over the bandwidth, of each op by itself, all of one process; nothing
 * fitted. */
double sg_step_case_roofline(const sg_step_case *one);

#endif
