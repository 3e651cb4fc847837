/* lerobot.h: the training lines of lerobot-train, of every era (log.h), and the banner before them. */
#ifndef SG_CALIBRATION_LOG_LEROBOT_H
#define SG_CALIBRATION_LOG_LEROBOT_H

#include "calibration/log/build.h"

typedef struct sg_lerobot {
    sg_log_window window; /* the record that is being read: "step:.." up to what is no field of it */
    bool open;
    double eval_s;
    bool evaluation;
    sg_log_bar bar; /* as it stood where the record began */
    char text[200]; /* of that line, n bytes */
    size_t n;
} sg_lerobot;

void sg_lerobot_start(sg_lerobot *reader);
/* Word by word: records may be wrapped over lines, or stand behind a bar. */
void sg_lerobot_word(sg_lerobot *reader, sg_log_builder *builder, const sg_words *words, size_t at);
/* Ends the record that is open, if any. */
void sg_lerobot_close(sg_lerobot *reader, sg_log_builder *builder);

/* lerobot_facts.c: the banner ("cfg.steps=20000 (20K)", "Effective batch size: 32 x 2 = 64", printed settings). */
bool sg_lerobot_fact(sg_log_builder *builder, const sg_words *words, size_t at);

#endif
