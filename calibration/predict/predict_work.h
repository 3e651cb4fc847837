/* predict_work.h: what predict.c (walking) hands to predict_figures.c (intervals). */
#ifndef SG_CALIBRATION_PREDICT_PREDICT_WORK_H
#define SG_CALIBRATION_PREDICT_PREDICT_WORK_H

#include "calibration/loader/codec_table.h"
#include "calibration/predict/predict.h"
#include "calibration/predict/predict_law.h"
#include "calibration/predict/predict_walk.h"
#include "calibration/statistics/width.h"

/* One prediction under way. */
typedef struct sg_predict_work {
    const sg_policy_request *request;
    const sg_predict_options *options;
    sg_machine machine; /* with the framework's numbers; its covariance is this struct's own */
    sg_bucket_options buckets;
    const sg_training *training;
    const sg_codec_table *codecs; /* NULL where nothing is decoded */
    int ranks;
    double interval;
    sg_walked walked;
    sg_law_answer law; /* found: stands instead of the walk's update time */
    sg_limit limit;    /* what decides the step's time; with the figures */
    sg_prediction *out;
} sg_predict_work;

/* Seconds of one environment step: the request's when it sets env_step_us, else the machine's. */
double sg_predict_env_step_s(const sg_predict_work *w);
/* Writes options->trace; after the figures. */
sg_code sg_predict_trace(const sg_predict_work *w, sg_status *status);
/* "launch-bound: the GPU idles 70 % of the step"; after the times. */
void sg_limit_text(const sg_predict_work *w, sg_limit limit, char *text, size_t bytes);
/* From w->walked to all figures of w->out. */
sg_code sg_predict_figures(sg_predict_work *w, sg_status *status);
/* Step, update, dataloading and the loader's outlook, from the times of a step that no worker disturbs (update_s and
 * preprocessing_s of w->out) and `compute`, their sum. *limits: the loader decides. */
sg_code sg_predict_loader(sg_predict_work *w, const sg_figure *compute, bool *limits, sg_status *status);
/* Processes that share the processors of a host. */
int sg_ranks_of_node(const sg_predict_work *w);
/* One more warning, while there is room. */
void sg_predict_warn(sg_prediction *p, const char *format, ...) SG_PRINTF(2, 3);
/* Log sd of what a wrong number of cameras does to what is proportional to them. */
double sg_cameras_log_sd(const sg_predict_work *w);

#endif
