/* marks.h: what lines of every format may carry: time stamps, bars, checkpoints, deaths. */
#ifndef SG_CALIBRATION_LOG_MARKS_H
#define SG_CALIBRATION_LOG_MARKS_H

#include "calibration/log/build.h"

/* A stamp or a bar that begins with the word at `at`: into builder->time_s and builder->bar. */
void sg_log_read_clock(sg_log_builder *builder, const sg_words *words, size_t at);
typedef struct sg_log_mark {
    sg_log_event_kind kind;
    double step; /* NAN: not told */
} sg_log_mark;
/* Whether a phrase that is an event begins with the word at `at` ("Checkpoint policy after step 1000"). */
bool sg_log_read_event(const sg_words *words, size_t at, sg_log_mark *mark);

#endif
