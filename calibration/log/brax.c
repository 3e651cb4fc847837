/* brax.c: what Brax's and MuJoCo Playground's training scripts print of time. */
#include "calibration/log/bars.h"

#include <math.h>
#include <string.h>

/* "0:00:31.316263", "31.3", "31.3s", "31.3 seconds" */
static double seconds(sg_word word) {
    size_t used;
    double clock = sg_word_duration(word);
    if (!isnan(clock)) return clock;
    double value = sg_word_leading_number(word, &used);
    return used == word.n || (used + 1 == word.n && word.text[used] == 's') ? value : NAN;
}

/* A run that both times are told of is over. */
static sg_log *run_for(sg_log_builder *b, bool jit) {
    sg_log *log = b->logs->n ? &b->logs->logs[b->logs->n - 1] : NULL;
    bool told = log && b->family == SG_LOG_BRAX && !isnan(jit ? log->jit_s : log->train_s);
    bool other = log && b->family != SG_LOG_BRAX && b->family != SG_LOG_NONE;
    if (told || other) b->ended = true;
    log = sg_log_builder_run(b);
    if (log) b->family = SG_LOG_BRAX;
    return log;
}

static void take(sg_log_builder *b, const sg_words *words, size_t at, bool jit) {
    double value = at < words->n ? seconds(words->word[at]) : NAN;
    if (isnan(value)) return;
    sg_log *log = run_for(b, jit);
    if (!log) return;
    *(jit ? &log->jit_s : &log->train_s) = value;
}

/* "1234567: reward=12.3": environment steps so far */
static void progress(sg_log_builder *b, const sg_words *words) {
    sg_word place = words->word[0], rest;
    if (words->n < 2 || place.text[place.n - 1] != ':' || !sg_word_after(words->word[1], "reward=", &rest)) return;
    sg_log_window w = sg_log_window_none();
    w.env_steps = sg_word_number((sg_word){place.text, place.n - 1});
    w.time_s = b->time_s;
    if (!isnan(w.env_steps)) sg_log_builder_window(b, SG_LOG_BRAX, &w);
}

void sg_brax_line(sg_log_builder *b, const sg_words *words) {
    if (words->n < 2) return;
    char first = words->word[0].text[0];
    if (first >= '0' && first <= '9') progress(b, words);
    if (first != 't' && first != 'T') return;
    if (sg_words_are(words, 0, "time to jit:") || sg_words_are(words, 0, "Time to jit:")) take(b, words, 3, true);
    if (sg_words_are(words, 0, "Time to JIT compile:")) take(b, words, 4, true);
    if (sg_words_are(words, 0, "time to train:") || sg_words_are(words, 0, "Time to train:")) take(b, words, 3, false);
}
