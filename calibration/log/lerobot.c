#include "calibration/log/lerobot.h"

#include "calibration/log/marks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double GIB = 1024.0 * 1024.0 * 1024.0;

/* tqdm draws at most every 0.1 s (its mininterval): its position may lag by the steps of that time. */
static const double BAR_LAG_S = 0.1;

void sg_lerobot_start(sg_lerobot *r) {
    memset(r, 0, sizeof *r);
}

/* The position of the bar on the same line, where the counter is rounded. */
static void step_by_bar(sg_log_window *w, const sg_log_bar *bar) {
    if (!bar->fresh || w->step_low == w->step_high) return;
    double step_s = sg_log_window_step_s(w), lag = step_s > 0 ? floor(BAR_LAG_S / step_s) : 0;
    if (bar->position < w->step_low || bar->position > w->step_high) return;
    w->step_low = bar->position;
    w->step_high = fmin(w->step_high, bar->position + lag);
    w->step = bar->position;
}

static bool has_time(const sg_log_window *w) {
    for (int i = 0; i < SG_LOG_FIELDS; i++)
        if (!isnan(w->value[i])) return true;
    return false;
}

/* "Eval policy at step 10000" was there before, the line of its result says how long it took. */
static void evaluated(sg_lerobot *r, sg_log_builder *b) {
    sg_log *log = b->logs->n ? &b->logs->logs[b->logs->n - 1] : NULL;
    sg_log_event *last = log && log->n_events ? &log->events[log->n_events - 1] : NULL;
    if (last && last->kind == SG_LOG_EVALUATION && last->windows == log->windows_seen && isnan(last->seconds)) {
        last->seconds = r->eval_s;
        return;
    }
    sg_line line = {r->text, r->n, false};
    sg_log_builder_event(b, SG_LOG_EVALUATION, r->window.step, r->eval_s, &line);
    if (b->family == SG_LOG_NONE) b->family = SG_LOG_LEROBOT;
}

void sg_lerobot_close(sg_lerobot *r, sg_log_builder *b) {
    if (!r->open) return;
    r->open = false;
    if (r->evaluation) {
        evaluated(r, b);
        return;
    }
    if (!has_time(&r->window)) return;
    step_by_bar(&r->window, &r->bar);
    double total = r->bar.fresh ? r->bar.total : 0;
    sg_log_builder_window(b, SG_LOG_LEROBOT, &r->window);
    sg_log *log = b->logs->n ? &b->logs->logs[b->logs->n - 1] : NULL;
    if (!log) return;
    if (log->config.steps == 0 && total >= 1 && total < 9e15) log->config.steps = (int64_t)total;
    b->traits.smp_s |= !isnan(r->window.value[SG_LOG_SAMPLES_PER_S]);
    b->traits.mem_gb |= !isnan(r->window.value[SG_LOG_PEAK_BYTES]);
    b->traits.prep_s |= !isnan(r->window.value[SG_LOG_PREPROCESSING_S]);
    b->traits.step_s |= !isnan(r->window.value[SG_LOG_STEP_S]);
}

static void open_record(sg_lerobot *r, sg_log_builder *b, const sg_words *words, size_t at, const sg_counter *step) {
    sg_lerobot_close(r, b);
    r->open = true;
    r->evaluation = false;
    r->eval_s = NAN;
    r->window = sg_log_window_none();
    r->window.step = step->value;
    r->window.step_low = step->low;
    r->window.step_high = step->high;
    r->window.time_s = b->time_s;
    r->bar = b->bar;
    b->bar.fresh = false; /* of this record alone */
    const char *from = words->word[at].text;
    size_t n = (size_t)(words->line.text + words->line.bytes - from);
    r->n = n < sizeof r->text ? n : sizeof r->text;
    memcpy(r->text, from, r->n);
}

static void take(sg_lerobot *r, sg_log_field field, sg_word text, double unit) {
    double value = sg_word_number(text);
    if (!isnan(value) && isnan(r->window.value[field])) r->window.value[field] = unit * value;
}

static void take_samples(sg_lerobot *r, sg_word text) {
    sg_counter samples;
    if (!isnan(r->window.samples_low) || !sg_word_counter(text, &samples)) return;
    r->window.samples_low = samples.low;
    r->window.samples_high = samples.high;
}

static void field(sg_lerobot *r, sg_log_builder *b, sg_word word) {
    sg_word rest;
    switch (word.text[0]) {
    case 'u':
        if (sg_word_after(word, "updt_s:", &rest)) take(r, SG_LOG_UPDATE_S, rest, 1);
        break;
    case 'd':
        if (sg_word_after(word, "data_s:", &rest)) {
            take(r, SG_LOG_DATALOADING_S, rest, 1);
        }
        break;
    case 'p':
        if (sg_word_after(word, "prep_s:", &rest)) take(r, SG_LOG_PREPROCESSING_S, rest, 1);
        break;
    case 's':
        if (sg_word_after(word, "step_s:", &rest)) take(r, SG_LOG_STEP_S, rest, 1);
        if (sg_word_after(word, "smp/s:", &rest)) take(r, SG_LOG_SAMPLES_PER_S, rest, 1);
        if (sg_word_after(word, "smpl:", &rest)) take_samples(r, rest);
        break;
    case 'm':
        if (sg_word_after(word, "mem_gb:", &rest)) take(r, SG_LOG_PEAK_BYTES, rest, GIB);
        break;
    case 'e':
        if (!sg_word_after(word, "eval_s:", &rest)) break;
        r->eval_s = sg_word_number(rest);
        r->evaluation = true;
        break;
    case 'l':
        if (sg_word_after(word, "loss:", &rest) && (sg_word_is(rest, "nan") || sg_word_is(rest, "inf")))
            b->traits.not_finite = true;
        break;
    default: break;
    }
}

/* "INFO:root:step:200": Python's own prefix is no part of the word. */
static sg_word without_prefix(sg_word word) {
    sg_word rest;
    if (!sg_word_after(word, "INFO:", &rest)) return word;
    const char *colon = memchr(rest.text, ':', rest.n);
    return colon ? (sg_word){colon + 1, rest.n - (size_t)(colon + 1 - rest.text)} : word;
}

void sg_lerobot_word(sg_lerobot *r, sg_log_builder *b, const sg_words *words, size_t at) {
    sg_word word = words->word[at], rest;
    if (word.n < 4) return;
    if (word.text[0] == 'I') word = without_prefix(word);
    sg_counter step;
    if (sg_word_after(word, "step:", &rest) && sg_word_counter(rest, &step)) {
        open_record(r, b, words, at, &step);
        return;
    }
    bool another = r->open && at == 0 && (sg_word_is(word, "INFO") || sg_word_is(word, "WARNING"));
    if (another) sg_lerobot_close(r, b);
    if (r->open && memchr(word.text, ':', word.n)) {
        field(r, b, word);
        return;
    }
    if (sg_lerobot_fact(b, words, at)) sg_lerobot_close(r, b);
}
