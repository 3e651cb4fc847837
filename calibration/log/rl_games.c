/* rl_games.c: lines of rl_games, which Isaac Lab runs too: "fps step: 122338 fps step and policy inference: 113483 fps total:
 * 71426 epoch: 2/500 frames: 131072". The total counts learning as well. */
#include "calibration/log/rsl_rl.h"

#include <math.h>
#include <stdio.h>

void sg_rl_games_word(sg_log_builder *b, const sg_words *words, size_t at) {
    if (words->word[at].text[0] != 'f' || !sg_words_are(words, at, "fps step:")) return;
    sg_log_window w = sg_log_window_none();
    double total = NAN;
    for (size_t i = at; i + 1 < words->n && i < at + 24; i++) {
        size_t used, used_right;
        sg_word value = words->word[i + 1];
        if (sg_words_are(words, i, "fps total:") && i + 2 < words->n)
            w.value[SG_LOG_ENV_STEPS_PER_S] = sg_word_number(words->word[i + 2]);
        if (sg_word_is(words->word[i], "frames:")) w.env_steps = sg_word_number(value);
        if (!sg_word_is(words->word[i], "epoch:")) continue;
        w.iteration = sg_word_leading_number(value, &used);
        if (used < value.n && value.text[used] == '/')
            total = sg_word_leading_number((sg_word){value.text + used + 1, value.n - used - 1}, &used_right);
    }
    if (isnan(w.value[SG_LOG_ENV_STEPS_PER_S])) return;
    w.time_s = b->time_s;
    sg_log_builder_window(b, SG_LOG_RL_GAMES, &w);
    sg_log *log = b->logs->n ? &b->logs->logs[b->logs->n - 1] : NULL;
    if (log && total >= 1 && total < 9e15) log->config.steps = (int64_t)total;
}
