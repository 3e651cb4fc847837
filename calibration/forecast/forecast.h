/* forecast.h: from the first windows of a training's log, what the rest of it will take.
 *
 * Nothing but those windows and the events between them is used, and what the head of the log or its configuration says:
 * steps, batch, frames, how often it saves. */
#ifndef SG_CALIBRATION_FORECAST_FORECAST_H
#define SG_CALIBRATION_FORECAST_FORECAST_H

#include "calibration/log/log.h"
#include "calibration/statistics/figure.h"

/* How fast a run went between its first window, which is warm-up, and the last of the evidence. Seconds per step; PPO: per
 * iteration. NAN: not told. */
typedef struct sg_pace {
    size_t windows;   /* of the evidence, the first included */
    size_t intervals; /* between two windows, usable */
    bool by_clock;    /* of the log; else by the times that its lines tell */
    double from, to;  /* steps */
    double steady_s;  /* without stalls and epochs' boundaries */
    double log_sd;    /* of steady_s over a long rest */
    double stall_s;   /* spread over all steps */
    double stalled;   /* intervals that took more than twice the typical pace */
    double epoch_s;   /* at each boundary; NAN: no interval was without one, or the log tells no epochs: in steady_s */
    double samples_per_step, frames; /* of boundaries; 0: not told */
    double drift;    /* log of the second half's pace over the first half's; NAN: fewer than 6 intervals */
    double warmup_s; /* what the first window took beyond its steps */
    double update_s, dataloading_s, preprocessing_s, collection_s, learning_s; /* medians of the lines */
} sg_pace;

typedef struct sg_forecast_options {
    size_t windows; /* evidence: the first so many; 0: all of the log's */
    double to_step; /* 0: the steps that the log or its configuration tells */
    bool to_line;   /* until the line of that step is printed: what follows it (the last checkpoint) is left out */
    int64_t
        save_every; /* 0: as the log tells, else from events, else LeRobot's default where the log is LeRobot's; < 0: the last state alone */
    double checkpoint_bytes; /* 0: from the parameters that the log tells */
    double interval;         /* 0 = 0.9 */
} sg_forecast_options;

typedef struct sg_forecast {
    sg_pace pace;
    double at_step, to_step;
    sg_figure rest_s;                                               /* all of it */
    sg_figure steps_s, stalls_s, epochs_s, checkpoints_s, others_s; /* its parts; others: evaluations, uploads */
    double loader_s;                 /* of steps_s, waiting for batches as the lines tell; NAN */
    double checkpoints, epochs;      /* how many are to come */
    double save_every, checkpoint_s; /* 0, NAN: none or not told */
    bool checkpoint_seen;            /* checkpoint_s is of this run, not a prior */
    char notes[6][200];
    size_t n_notes;
} sg_forecast;

/* Windows that make the evidence when a forecast is tried out on a whole log: up to `steps` steps (0: 200) and two windows
 * behind warm-up, but at most a third of what there is. Below 2: the log is too short. */
size_t sg_forecast_evidence(const sg_log *log, double steps);

/* SG_NO: the evidence tells no pace, with the reason. */
sg_code sg_pace_of(const sg_log *log, size_t windows, sg_pace *pace, sg_status *status);
/* SG_NO also: nothing tells how many steps there are, or they are over. */
sg_code sg_forecast_make(const sg_log *log, const sg_forecast_options *options, sg_forecast *forecast,
                         sg_status *status);

/* Step (PPO: iteration) of a window; NAN: not told. */
double sg_log_window_position(const sg_log_window *window);

/* Events that take time between a window and the one before it: how many, and their seconds (NAN: one does not tell). */
size_t sg_log_events_before(const sg_log *log, size_t window, double *seconds);

#endif
