/* rsl_rl.h: blocks of rsl_rl's console, old and new (log.h), as Isaac Lab, legged_gym and mjlab print them. */
#ifndef SG_CALIBRATION_LOG_RSL_RL_H
#define SG_CALIBRATION_LOG_RSL_RL_H

#include "calibration/log/build.h"

typedef struct sg_rsl_rl {
    sg_log_window window; /* of the block that is being read */
    double iterations;    /* of the whole training, NAN: not told */
    bool computation, negative_eta, not_finite, surrogate;
} sg_rsl_rl;

void sg_rsl_rl_start(sg_rsl_rl *reader);
void sg_rsl_rl_line(sg_rsl_rl *reader, sg_log_builder *builder, const sg_words *words);
/* Ends the block that is open, if any. */
void sg_rsl_rl_close(sg_rsl_rl *reader, sg_log_builder *builder);
/* At the end of a run: environment steps of an iteration, where the counters tell them exactly. */
void sg_rsl_rl_facts(sg_log *log);

/* rl_games.c */
void sg_rl_games_word(sg_log_builder *builder, const sg_words *words, size_t at);

#endif
