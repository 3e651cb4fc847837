/* rules.h: the rules behind explain.h, one function each: true and *d where the facts support it.
 *
 * Sources of their bounds and remedies: reports of trainings published by their users, cited as project#issue. */
#ifndef SG_CALIBRATION_EXPLAIN_RULES_H
#define SG_CALIBRATION_EXPLAIN_RULES_H

#include "calibration/explain/explain.h"

/* What most rules need of a run, once. NAN: the log does not tell. */
typedef struct sg_explain_run {
    const sg_explain_facts *facts;
    const sg_log *log;
    const sg_log_config *config;
    double step_s, update_s, data_s, prep_s;    /* medians of the steady windows; PPO: step_s of an iteration */
    double collection_s, learning_s, env_steps; /* env_steps: of an iteration, over all processes */
    double peak_bytes;                          /* largest of any window */
    double line_step_s;        /* as the lines have it; step_s is the clock's where the lines are of single steps */
    double save_interval;      /* steps between two checkpoints, at most; NAN: none was seen */
    double interval;           /* steps between two lines */
    double wall_s, wall_steps; /* from the first exact window to the last one, by the log's clock */
    double paused_s, checkpoint_s, evaluate_s, push_s; /* told or shown by the clock */
    size_t checkpoints, evaluations, pushes;           /* all that were seen */
    size_t timed_checkpoints, timed_pushes;
    bool lerobot, ppo, means; /* means: a line is the mean of its window */
    const char *note;         /* behind a number: "", or that it is of the only window, with the warm-up in it */
} sg_explain_run;

typedef bool (*sg_explain_rule)(const sg_explain_run *run, sg_diagnosis *d);

void sg_say_text(sg_diagnosis *d, const char *format, ...) SG_PRINTF(2, 3);
void sg_say_evidence(sg_diagnosis *d, const char *format, ...) SG_PRINTF(2, 3);
void sg_say_remedy(sg_diagnosis *d, const char *format, ...) SG_PRINTF(2, 3);
/* Speed gained when a share of the time goes away. */
double sg_gain_without(double share);
/* Values of one field of the windows from `first` on, as told; n of them in values (room for all windows). */
size_t sg_explain_values(const sg_log *log, sg_log_field field, size_t first, double *values);
/* Median, NAN of none; sorts. */
double sg_explain_median(double *values, size_t n);
/* "3 h 05 min", "12 s" */
typedef struct sg_explain_time {
    char s[32];
} sg_explain_time;
sg_explain_time sg_explain_time_of(double seconds);

/* loader_rules.c */
bool sg_rule_loader_wait(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_loader_bursts(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_loader_epochs(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_loader_drift(const sg_explain_run *run, sg_diagnosis *d);
/* line_rules.c: what the lines mean */
bool sg_rule_first_window(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_single_steps(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_rounded_counters(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_rank_counters(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_compilation(const sg_explain_run *run, sg_diagnosis *d);
/* pause_rules.c */
bool sg_rule_checkpoints(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_hub_pushes(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_evaluation(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_unaccounted(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_crash(const sg_explain_run *run, sg_diagnosis *d);
/* step_rules.c */
bool sg_rule_update(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_batch_flat(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_step_flat(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_update_drift(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_gpus_flat(const sg_explain_run *run, sg_diagnosis *d);
/* machine_rules.c: against the prediction for the machine */
bool sg_rule_limit(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_slower(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_precision_ignored(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_communication(const sg_explain_run *run, sg_diagnosis *d);
/* memory_rules.c */
bool sg_rule_out_of_memory(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_memory_reading(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_memory_room(const sg_explain_run *run, sg_diagnosis *d);
/* length_rules.c */
bool sg_rule_time_left(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_passes(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_default_iterations(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_ranks_same_steps(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_checkpoint_storage(const sg_explain_run *run, sg_diagnosis *d);
/* ppo_rules.c */
bool sg_rule_collection(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_learning(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_slow_simulator(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_few_environments(const sg_explain_run *run, sg_diagnosis *d);
bool sg_rule_rollout_length(const sg_explain_run *run, sg_diagnosis *d);

#endif
