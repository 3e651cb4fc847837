/* bars.h: logs whose times are in their progress bars: openpi's loops and the Hugging Face Trainer. */
#ifndef SG_CALIBRATION_LOG_BARS_H
#define SG_CALIBRATION_LOG_BARS_H

#include "calibration/log/build.h"

/* Puts the time of a step since the last record into the window, and the step where the window has none. A bar that is not
 * of this record becomes a window of its own. */
void sg_log_window_by_bar(sg_log_builder *builder, sg_log_family family, sg_log_window *window);
/* What the bar has shown since the last record of a run, as a window. */
void sg_log_flush_bar(sg_log_builder *builder);

/* openpi.c: "Step 100: grad_norm=.., loss=.." and "[1831] steps_per_sec=2.29745". */
void sg_openpi_word(sg_log_builder *builder, const sg_words *words, size_t at);

/* dicts.c: Python dictionaries: the Trainer's {'loss': .., 'epoch': ..}, {'train_runtime': ..}, Brax's metrics. */
typedef struct sg_dicts {
    bool open, possible; /* possible: the line has a brace */
    double loss, epoch, rate, learning_rate, runtime, samples_per_s, steps_per_s, eval_runtime, env_steps_per_s;
    bool not_finite;
} sg_dicts;
void sg_dicts_start(sg_dicts *reader);
void sg_dicts_word(sg_dicts *reader, sg_log_builder *builder, const sg_words *words, size_t at);
/* At the end of a run: steps and samples of a step, where total times tell them. */
void sg_dicts_facts(sg_log *log, const sg_log_traits *traits);

/* brax.c: "time to jit: 0:00:31.3", "time to train: 0:01:54.5" and the lines "1234: reward=..". */
void sg_brax_line(sg_log_builder *builder, const sg_words *words);

#endif
