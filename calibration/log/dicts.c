/* dicts.c: Python dictionaries in a log: the Hugging Face Trainer's records, and Brax's metrics. */
#include "calibration/log/bars.h"

#include <math.h>
#include <string.h>

void sg_dicts_start(sg_dicts *r) {
    memset(r, 0, sizeof *r);
    r->loss = r->epoch = r->rate = r->learning_rate = r->runtime = r->samples_per_s = r->steps_per_s = NAN;
    r->eval_runtime = r->env_steps_per_s = NAN;
}

static sg_log *last_run(const sg_log_builder *b) {
    return b->logs->n ? &b->logs->logs[b->logs->n - 1] : NULL;
}

/* {'train_runtime': 8418.1, 'train_samples_per_second': 2.298, 'train_steps_per_second': 0.574, ..}: the whole run. */
static void summary(sg_dicts *r, sg_log_builder *b) {
    sg_log_flush_bar(b);
    sg_log_window w = sg_log_window_none();
    w.summary = true;
    w.time_s = b->time_s;
    w.value[SG_LOG_SAMPLES_PER_S] = r->samples_per_s;
    if (r->steps_per_s > 0) w.value[SG_LOG_STEP_S] = 1 / r->steps_per_s;
    sg_log_builder_window(b, SG_LOG_HF, &w);
    sg_log *log = last_run(b);
    if (!log) return;
    log->train_s = r->runtime;
    b->traits.steps_per_s = r->steps_per_s;
}

static void close(sg_dicts *r, sg_log_builder *b, const sg_line *line) {
    bool of_trainer = !isnan(r->epoch) && (!isnan(r->learning_rate) || !isnan(r->rate));
    if (!isnan(r->runtime)) {
        summary(r, b);
    } else if (!isnan(r->eval_runtime) && b->family == SG_LOG_HF) {
        sg_log_builder_event(b, SG_LOG_EVALUATION, NAN, r->eval_runtime, line);
    } else if ((!isnan(r->loss) || r->not_finite) && of_trainer) {
        sg_log_window w = sg_log_window_none();
        sg_log_window_by_bar(b, SG_LOG_HF, &w);
        b->traits.not_finite |= r->not_finite;
    } else if (!isnan(r->env_steps_per_s)) {
        sg_log_window w = sg_log_window_none();
        w.time_s = b->time_s;
        w.value[SG_LOG_ENV_STEPS_PER_S] = r->env_steps_per_s;
        sg_log_builder_window(b, SG_LOG_BRAX, &w);
    }
    sg_dicts_start(r);
}

/* The number in "0.0275,", "'0.0275'}", "Array(123.4,". */
static double value_of(sg_word word) {
    sg_word rest;
    size_t used;
    if (sg_word_after(word, "Array(", &rest) || sg_word_after(word, "np.float64(", &rest)) word = rest;
    while (word.n && (*word.text == '\'' || *word.text == '"')) word = (sg_word){word.text + 1, word.n - 1};
    return sg_word_leading_number(word, &used);
}

static void take(sg_dicts *r, sg_word key, sg_word value) {
    const struct {
        const char *key;
        double *into;
    } keys[] = {{"loss", &r->loss},
                {"epoch", &r->epoch},
                {"grad_norm", &r->rate},
                {"learning_rate", &r->learning_rate},
                {"train_runtime", &r->runtime},
                {"train_samples_per_second", &r->samples_per_s},
                {"train_steps_per_second", &r->steps_per_s},
                {"eval_runtime", &r->eval_runtime},
                {"training/sps", &r->env_steps_per_s}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!sg_word_is(key, keys[i].key)) continue;
        *keys[i].into = value_of(value);
        sg_word bare = value;
        while (bare.n && *bare.text == '\'') bare = (sg_word){bare.text + 1, bare.n - 1};
        if (i == 0 && bare.n >= 3 && (memcmp(bare.text, "nan", 3) == 0 || memcmp(bare.text, "inf", 3) == 0))
            r->not_finite = true;
    }
}

void sg_dicts_word(sg_dicts *r, sg_log_builder *b, const sg_words *words, size_t at) {
    sg_word word = words->word[at];
    if (at == 0) r->possible = memchr(words->line.text, '{', words->line.bytes);
    if (!r->open) {
        if (!r->possible) return;
        const char *brace = word.text[0] == '{' ? word.text : memchr(word.text, '{', word.n);
        if (!brace || brace + 2 >= word.text + word.n || brace[1] != '\'') return;
        r->open = true;
        word = (sg_word){brace + 1, (size_t)(word.text + word.n - brace - 1)};
    }
    if (word.n > 3 && word.text[0] == '\'' && sg_word_ends(word, "':") && at + 1 < words->n)
        take(r, (sg_word){word.text + 1, word.n - 3}, words->word[at + 1]);
    if (word.text[word.n - 1] == '}') close(r, b, &words->line);
}

void sg_dicts_facts(sg_log *log, const sg_log_traits *t) {
    double steps = (double)log->config.steps, samples_per_s = NAN;
    /* Three decimals: the total of the last bar is this training's when it gives the same speed. */
    bool agrees = steps >= 1 && fabs(steps / log->train_s - t->steps_per_s) <= 0.0006 + 0.01 * t->steps_per_s;
    for (size_t i = 0; i < log->n_windows; i++) {
        sg_log_window *w = &log->windows[i];
        if (!w->summary) continue;
        samples_per_s = w->value[SG_LOG_SAMPLES_PER_S];
        if (agrees) {
            w->value[SG_LOG_STEP_S] = log->train_s / steps;
            w->step = w->step_low = w->step_high = steps;
        }
    }
    double low = (samples_per_s - 0.0005) / (t->steps_per_s + 0.0005);
    double high = (samples_per_s + 0.0005) / (t->steps_per_s - 0.0005), whole = ceil(low);
    if (t->steps_per_s > 0.01 && whole >= 1 && whole <= high && whole + 1 > high && whole < 1e12)
        log->config.samples_per_step = (int64_t)whole;
}
