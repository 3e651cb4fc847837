/* openpi.c: openpi's JAX loop: a line of metrics every few steps, the times in a bar; its early loop by CLU's periodic
 * actions. */
#include "calibration/log/bars.h"

#include <math.h>
#include <string.h>

static bool metrics(const sg_words *words, size_t from, bool *not_finite) {
    bool found = false;
    for (size_t i = from; i < words->n; i++) {
        sg_word rest;
        if (sg_word_after(words->word[i], "loss=", &rest)) {
            found = true;
            *not_finite = rest.n >= 3 && (memcmp(rest.text, "nan", 3) == 0 || memcmp(rest.text, "inf", 3) == 0);
        }
        found |= sg_word_after(words->word[i], "grad_norm=", &rest);
    }
    return found;
}

/* "Step 100: grad_norm=0.0677, loss=0.0212" */
static void step_line(sg_log_builder *b, const sg_words *words, size_t at) {
    sg_word place = words->word[at + 1];
    bool not_finite = false;
    if (place.n < 2 || place.text[place.n - 1] != ':') return;
    double step = sg_word_number((sg_word){place.text, place.n - 1});
    if (isnan(step) || !metrics(words, at + 2, &not_finite)) return;
    sg_log_window w = sg_log_window_none();
    w.step = w.step_low = w.step_high = step;
    sg_log_window_by_bar(b, SG_LOG_OPENPI, &w);
    b->traits.not_finite |= not_finite;
}

/* "INFO:absl:[1831] steps_per_sec=2.29745" */
static void rate_line(sg_log_builder *b, const sg_words *words, size_t at, sg_word rate) {
    sg_word place = words->word[at - 1];
    const char *bracket = memchr(place.text, '[', place.n);
    if (!bracket || place.text[place.n - 1] != ']') return;
    double step = sg_word_number((sg_word){bracket + 1, (size_t)(place.text + place.n - 2 - bracket)});
    double per_s = sg_word_number(rate);
    if (isnan(step) || !(per_s > 0)) return;
    sg_log_window w = sg_log_window_none();
    w.step = w.step_low = w.step_high = step;
    w.value[SG_LOG_STEP_S] = 1 / per_s;
    w.time_s = b->time_s;
    sg_log_builder_window(b, SG_LOG_OPENPI, &w);
}

/* "Setting work unit notes: 2.3 steps/s, 0.1% (1831/2000000), ETA: .." */
static void notes_line(sg_log_builder *b, const sg_words *words, size_t at) {
    if (!sg_words_are(words, at, "Setting work unit notes:") || at + 7 >= words->n) return;
    sg_word place = words->word[at + 7];
    const char *slash = memchr(place.text, '/', place.n);
    size_t used;
    sg_log *log = b->logs->n ? &b->logs->logs[b->logs->n - 1] : NULL;
    if (!slash || place.text[0] != '(' || !log || b->family != SG_LOG_OPENPI) return;
    double total = sg_word_leading_number((sg_word){slash + 1, place.n - (size_t)(slash + 1 - place.text)}, &used);
    if (total >= 1 && total < 9e15) log->config.steps = (int64_t)total;
}

/* "step=100 loss=0.0212 lr=2.5e-05 grad_norm=0.07 time=227.1s": of the PyTorch loop; the time since the line before. */
static void torch_line(sg_log_builder *b, const sg_words *words, size_t at, sg_word place) {
    double step = sg_word_number(place), time_s = NAN;
    bool not_finite = false;
    if (isnan(step) || !metrics(words, at + 1, &not_finite)) return;
    for (size_t i = at + 1; i < words->n; i++) {
        sg_word rest;
        size_t used;
        if (!sg_word_after(words->word[i], "time=", &rest)) continue;
        double value = sg_word_leading_number(rest, &used);
        if (used + 1 == rest.n && rest.text[used] == 's') time_s = value;
    }
    if (isnan(time_s)) return;
    sg_log_window w = sg_log_window_none();
    w.step = w.step_low = w.step_high = step;
    bool follows = b->family == SG_LOG_OPENPI && !b->ended && step > b->last.step;
    if (follows) w.value[SG_LOG_STEP_S] = time_s / (step - b->last.step);
    w.time_s = b->time_s;
    b->bar.fresh = false; /* the line tells more exactly */
    sg_log_builder_window(b, SG_LOG_OPENPI, &w);
    b->traits.not_finite |= not_finite;
}

void sg_openpi_word(sg_log_builder *b, const sg_words *words, size_t at) {
    sg_word word = words->word[at], rest;
    if (word.n < 4) return;
    if (word.text[0] == 'S') {
        if (sg_word_is(word, "Step") && at + 2 < words->n) step_line(b, words, at);
        if (sg_word_is(word, "Setting")) notes_line(b, words, at);
    } else if (word.text[0] == 's' && at > 0 && sg_word_after(word, "steps_per_sec=", &rest)) {
        rate_line(b, words, at, rest);
    } else if (word.text[0] == 's' && at + 2 < words->n && sg_word_after(word, "step=", &rest)) {
        torch_line(b, words, at, rest);
    } else if (word.text[word.n - 1] == 'p' && sg_word_ends(word, "]Step") && at + 2 < words->n) {
        step_line(b, words, at);
    }
}
