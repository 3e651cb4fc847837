#include "calibration/log/rsl_rl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void sg_rsl_rl_start(sg_rsl_rl *r) {
    memset(r, 0, sizeof *r);
    r->window = sg_log_window_none();
    r->iterations = NAN;
}

void sg_rsl_rl_close(sg_rsl_rl *r, sg_log_builder *b) {
    const double *v = r->window.value;
    if (!isnan(v[SG_LOG_COLLECTION_S]) || !isnan(v[SG_LOG_LEARNING_S])) {
        r->window.time_s = b->time_s;
        sg_log_builder_window(b, SG_LOG_RSL_RL, &r->window);
        sg_log *log = b->logs->n ? &b->logs->logs[b->logs->n - 1] : NULL;
        b->traits.computation |= r->computation;
        b->traits.negative_eta |= r->negative_eta;
        b->traits.not_finite |= r->not_finite;
        if (log && r->iterations >= 1 && r->iterations < 9e15) log->config.steps = (int64_t)r->iterations;
        if (log && r->surrogate) (void)snprintf(log->config.policy, sizeof log->config.policy, "ppo");
    }
    sg_rsl_rl_start(r);
}

static sg_word word_at(const sg_words *words, size_t at) {
    return at < words->n ? words->word[at] : (sg_word){"", 0};
}

/* "1.622s", "1.622s,", "58702", "21,796": what the word says in front. */
static double number(sg_word word) {
    char digits[32];
    size_t n = 0;
    for (size_t i = 0; i < word.n && n < sizeof digits; i++) {
        char c = word.text[i];
        if (c == ',' && i + 1 < word.n) continue;
        if (!((c >= '0' && c <= '9') || c == '.')) break;
        digits[n++] = c;
    }
    return sg_word_number((sg_word){digits, n});
}

/* A label that comes again begins another block where no header does. */
static void take(sg_rsl_rl *r, sg_log_builder *b, sg_log_field field, sg_word word) {
    double value = number(word);
    if (isnan(value)) return;
    if (!isnan(r->window.value[field])) sg_rsl_rl_close(r, b);
    r->window.value[field] = value;
}

/* "Learning iteration 66/30000" */
static void header(sg_rsl_rl *r, sg_log_builder *b, sg_word place) {
    size_t used, used_right;
    double iteration = sg_word_leading_number(place, &used);
    if (isnan(iteration) || used >= place.n || place.text[used] != '/') return;
    double total = sg_word_leading_number((sg_word){place.text + used + 1, place.n - used - 1}, &used_right);
    if (isnan(total)) return;
    sg_rsl_rl_close(r, b);
    r->window.iteration = iteration;
    r->iterations = total;
}

/* "Computation: 58702 steps/s (collection: 1.622s, learning 0.053s)" */
static void computation(sg_rsl_rl *r, sg_log_builder *b, const sg_words *words, size_t at) {
    if (!sg_word_is(word_at(words, at + 2), "steps/s") || !sg_word_is(word_at(words, at + 3), "(collection:") ||
        !sg_word_is(word_at(words, at + 5), "learning"))
        return;
    take(r, b, SG_LOG_ENV_STEPS_PER_S, word_at(words, at + 1));
    take(r, b, SG_LOG_COLLECTION_S, word_at(words, at + 4));
    take(r, b, SG_LOG_LEARNING_S, word_at(words, at + 6));
    r->computation = true;
}

static void loss(sg_rsl_rl *r, const sg_words *words, size_t at) {
    for (size_t i = at; i + 1 < words->n && i < at + 4; i++) {
        if (sg_word_is(words->word[i], "surrogate") || sg_word_is(words->word[i], "Surrogate")) r->surrogate = true;
        if (sg_word_is(words->word[i], "loss:") && sg_word_is(words->word[i + 1], "nan")) r->not_finite = true;
    }
}

void sg_rsl_rl_line(sg_rsl_rl *r, sg_log_builder *b, const sg_words *words) {
    size_t at = 0;
    /* Stamps and levels that a launcher puts before each line. */
    while (at < words->n && at < 4 &&
           (words->word[at].text[0] == '[' || (words->word[at].text[0] >= '0' && words->word[at].text[0] <= '9')))
        at++;
    sg_word first = word_at(words, at), second = word_at(words, at + 1), third = word_at(words, at + 2);
    if (first.n < 3) return;
    switch (first.text[0]) {
    case 'L':
        if (sg_word_is(first, "Learning") && sg_word_is(second, "iteration")) header(r, b, third);
        if ((sg_word_is(first, "Learning") || sg_word_is(first, "Learn")) && sg_word_is(second, "time:"))
            take(r, b, SG_LOG_LEARNING_S, third);
        break;
    case 'C':
        if (sg_word_is(first, "Computation:")) computation(r, b, words, at);
        if (sg_word_is(first, "Collection") && sg_word_is(second, "time:")) take(r, b, SG_LOG_COLLECTION_S, third);
        break;
    case 'I':
        if (sg_word_is(first, "Iteration") && sg_word_is(second, "time:")) take(r, b, SG_LOG_ITERATION_S, third);
        break;
    case 'S':
        if (sg_words_are(words, at, "Steps per second:")) take(r, b, SG_LOG_ENV_STEPS_PER_S, word_at(words, at + 3));
        if (sg_word_is(first, "Surrogate")) loss(r, words, at);
        break;
    case 'F':
        if (sg_word_is(first, "FPS:")) take(r, b, SG_LOG_ENV_STEPS_PER_S, second);
        break;
    case 'T':
        if (sg_word_is(first, "Total") && (sg_word_is(second, "steps:") || sg_word_is(second, "timesteps:")))
            r->window.env_steps = number(third);
        break;
    case 'E':
        if (sg_word_is(first, "ETA:") && second.n > 1 && second.text[0] == '-') r->negative_eta = true;
        break;
    case 'M':
        if (sg_word_is(first, "Mean")) loss(r, words, at);
        break;
    default: break;
    }
}

/* total = iterations so far x environment steps of one, which speed x time give to a few digits. */
static double exact_steps(const sg_log_window *w) {
    double time_s = w->value[SG_LOG_COLLECTION_S] + w->value[SG_LOG_LEARNING_S];
    double about = time_s * w->value[SG_LOG_ENV_STEPS_PER_S], iterations = floor(w->env_steps / about + 0.5);
    if (!(iterations >= 1) || fmod(w->env_steps, iterations) != 0) return 0;
    double steps = w->env_steps / iterations, error = 0.001 / time_s + 0.5 / w->value[SG_LOG_ENV_STEPS_PER_S] + 1e-4;
    return fabs(steps / about - 1) <= error ? steps : 0;
}

void sg_rsl_rl_facts(sg_log *log) {
    for (size_t i = 0; i < log->n_windows; i++) {
        double steps = exact_steps(&log->windows[i]);
        if (!(steps >= 1)) continue;
        log->config.env_steps_per_iteration = (int64_t)steps;
        return;
    }
}
