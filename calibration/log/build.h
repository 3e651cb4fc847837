/* build.h: what the readers of the formats tell, gathered into runs. */
#ifndef SG_CALIBRATION_LOG_BUILD_H
#define SG_CALIBRATION_LOG_BUILD_H

#include "calibration/log/log.h"
#include "calibration/log/words.h"

/* Formats that come in the same lines are one family: a run holds windows of one family. */
typedef enum sg_log_family {
    SG_LOG_NONE,
    SG_LOG_LEROBOT,
    SG_LOG_WANDB,
    SG_LOG_RSL_RL,
    SG_LOG_RL_GAMES,
    SG_LOG_OPENPI,
    SG_LOG_HF,
    SG_LOG_BRAX,
    SG_LOG_FAMILIES
} sg_log_family;

/* The last frame of a tqdm bar. */
typedef struct sg_log_bar {
    double position, total, elapsed_s;
    double rate_s; /* seconds per step as the bar says */
    bool fresh;    /* since the last window */
} sg_log_bar;

/* What a run's windows have shown, beside their values. */
typedef struct sg_log_traits {
    bool smp_s, mem_gb, prep_s, step_s; /* LeRobot's fields: which era */
    bool hydra;                         /* settings printed as they were until January 2025 */
    bool computation;                   /* rsl_rl's old line */
    bool negative_eta, not_finite;
    bool json;    /* W&B: as JSON */
    char run[96]; /* W&B: its name, where columns tell it */
    double first_time_s;
    double steps_per_s;          /* Trainer's own mean */
    uint64_t repeated;           /* lines of further processes, left out */
    double by_counters, by_rate; /* samples per step: of the counters, of smp/s x step time; 0: not told */
} sg_log_traits;

typedef struct sg_log_builder {
    sg_logs *logs;
    size_t room;
    sg_log_family family; /* of the run that is being read */
    sg_log_traits traits;
    sg_log_window last;               /* window of this run */
    size_t windows_kept, events_kept; /* of all runs */
    size_t window_room, event_room;
    bool ended;      /* the run said that it is over, or memory ran out: what follows is another one's */
    bool event_open; /* a crash whose lines are still coming */
    double time_s;   /* the last time stamp, NAN: none */
    sg_log_bar bar;
    sg_log_bar last_bar;    /* as it stood at the last window that took its time from a bar */
    uint64_t bars;          /* frames seen */
    uint64_t runs_left_out; /* beyond those that are kept */
    bool out_of_memory;
} sg_log_builder;

void sg_log_builder_start(sg_log_builder *builder, sg_logs *logs);
/* The run that facts belong to: that of the last window, or a new one when that is over. NULL: no memory. */
sg_log *sg_log_builder_run(sg_log_builder *builder);
/* A banner was seen: facts from now on are of a run that has no windows yet. */
sg_log *sg_log_builder_fresh(sg_log_builder *builder);
/* Begins another run when the window cannot be of the present one: another family, counters that went back, other samples
 * per step. */
void sg_log_builder_window(sg_log_builder *builder, sg_log_family family, const sg_log_window *window);
/* seconds, step: NAN when not told. */
void sg_log_builder_event(sg_log_builder *builder, sg_log_event_kind kind, double step, double seconds,
                          const sg_line *line);
/* Formats, steps, steady values and warnings of the last run. */
void sg_log_builder_finish(sg_log_builder *builder);

/* Takes the last run away when no format was seen in it. */
void sg_log_builder_drop_empty(sg_log_builder *builder);

sg_log_window sg_log_window_none(void);
/* Text as UTF-8 that JSON may hold: other bytes become "?", leading blanks go. */
void sg_log_copy_text(char *to, size_t room, const char *text, size_t bytes);
void sg_log_warn(sg_log *log, const char *format, ...) SG_PRINTF(2, 3);

/* run_end.c: format, configuration and warnings of a run that has all its windows. */
void sg_log_end_run(sg_log *log, sg_log_family family, const sg_log_traits *traits);
/* steps.c: what rounded counters stand for, by bars, samples, and the rhythm of the lines. */
void sg_log_resolve_steps(sg_log *log);
/* steady.c */
void sg_log_steady(sg_log *log);
/* What events took, by the log's clock. */
void sg_log_time_events(sg_log *log);

#endif
