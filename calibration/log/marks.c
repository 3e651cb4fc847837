#include "calibration/log/marks.h"

#include <math.h>
#include <string.h>

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* "280/100000" */
static bool read_position(sg_word word, sg_log_bar *bar) {
    size_t used;
    const char *slash = memchr(word.text, '/', word.n);
    if (!slash) return false;
    sg_word left = {word.text, (size_t)(slash - word.text)}, right = {slash + 1, word.n - left.n - 1};
    while (left.n && !is_digit(*left.text)) left = (sg_word){left.text + 1, left.n - 1}; /* "|280" */
    sg_counter position, total;
    if (!left.n || isnan(sg_word_leading_number(right, &used))) return false;
    if (!sg_word_counter(left, &position) || !sg_word_counter(right, &total)) return false;
    if (position.value > total.value) return false;
    bar->position = position.value;
    bar->total = total.value;
    return true;
}

/* "1.92step/s]", "2.27s/it]" as seconds per step; NAN: not known yet. */
static double read_rate(sg_word word) {
    size_t used;
    double value = sg_word_leading_number(word, &used);
    if (isnan(value) || value <= 0) return NAN;
    const char *end = memchr(word.text, ']', word.n);
    sg_word unit = {word.text + used, (end ? (size_t)(end - word.text) : word.n) - used};
    if (unit.n && unit.text[unit.n - 1] == ',') unit.n--;
    if (unit.n > 2 && unit.text[0] == 's' && unit.text[1] == '/') return value;
    if (unit.n > 2 && unit.text[unit.n - 1] == 's' && unit.text[unit.n - 2] == '/') return 1 / value;
    return NAN;
}

/* Steps, not files, examples or bytes: "1.92step/s]", "2.27s/it]", "?it/s]". */
static bool of_steps(sg_word word) {
    static const char *const units[] = {"it/s", "s/it", "step/s", "s/step", "steps/s", "s/steps"};
    const char *end = memchr(word.text, ']', word.n);
    sg_word unit = {word.text, end ? (size_t)(end - word.text) : word.n};
    if (unit.n && unit.text[unit.n - 1] == ',') unit.n--;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (sg_word_ends(unit, units[i])) return true;
    return false;
}

/* "[02:45<14:28:47," behind a position, the rate behind it. */
static void read_bar(sg_log_builder *b, const sg_words *words, size_t at) {
    sg_word clock = words->word[at];
    clock = (sg_word){clock.text + 1, clock.n - 1};
    const char *arrow = memchr(clock.text, '<', clock.n);
    if (!arrow) return;
    double elapsed = sg_word_duration((sg_word){clock.text, (size_t)(arrow - clock.text)});
    sg_log_bar bar = {.elapsed_s = elapsed, .rate_s = NAN, .fresh = true};
    if (isnan(elapsed) || !read_position(words->word[at - 1], &bar)) return;
    if (at + 1 < words->n) bar.rate_s = read_rate(words->word[at + 1]);
    if (at + 1 < words->n && !of_steps(words->word[at + 1])) return;
    b->bar = bar;
    b->bars++;
}

/* "Progress on: 53.0it/200it rate:1.6s/it": tqdm_loggable */
static void read_loggable(sg_log_builder *b, const sg_words *words, size_t at) {
    if (at + 3 >= words->n || !sg_word_is(words->word[at + 1], "on:")) return;
    sg_word place = words->word[at + 2], rate;
    size_t used, used_right;
    double position = sg_word_leading_number(place, &used);
    const char *slash = memchr(place.text, '/', place.n);
    if (isnan(position) || !slash || !sg_word_after(words->word[at + 3], "rate:", &rate)) return;
    double total =
        sg_word_leading_number((sg_word){slash + 1, place.n - (size_t)(slash + 1 - place.text)}, &used_right);
    if (place.text[used] == 'k') position *= 1000;
    if (!isnan(total) && slash + 1 + used_right < place.text + place.n && slash[1 + used_right] == 'k') total *= 1000;
    if (isnan(total) || position > total) return;
    b->bar = (sg_log_bar){position, total, NAN, read_rate(rate), true};
    b->bars++;
}

static void read_stamp(sg_log_builder *b, const sg_words *words, size_t at) {
    sg_word word = words->word[at];
    double time_s = NAN;
    if (word.n == 10 && at + 1 < words->n)
        time_s = sg_words_stamp(word, words->word[at + 1]);
    else if (word.n >= 19 && word.text[10] == 'T')
        time_s = sg_words_stamp((sg_word){word.text, 10}, (sg_word){word.text + 11, word.n - 11});
    if (!isnan(time_s)) b->time_s = time_s;
}

void sg_log_read_clock(sg_log_builder *b, const sg_words *words, size_t at) {
    sg_word word = words->word[at];
    switch (word.text[0]) {
    case '[':
        if (at > 0 && word.n > 1 && is_digit(word.text[1])) read_bar(b, words, at);
        break;
    case 'P':
        if (sg_word_is(word, "Progress")) read_loggable(b, words, at);
        break;
    case '1':
    case '2':
        if (word.n >= 10 && word.text[4] == '-') read_stamp(b, words, at);
        break;
    default: break;
    }
}

static bool event(sg_log_mark *mark, sg_log_event_kind kind, double step) {
    *mark = (sg_log_mark){kind, step};
    return true;
}

static double number_at(const sg_words *words, size_t at) {
    return at < words->n ? sg_word_number(words->word[at]) : NAN;
}

static bool starts(sg_word word, const char *text) {
    sg_word rest;
    return sg_word_after(word, text, &rest);
}

bool sg_log_read_event(const sg_words *words, size_t at, sg_log_mark *mark) {
    sg_word word = words->word[at];
    switch (word.text[0]) {
    case 'C':
        if (sg_words_are(words, at, "Checkpoint policy after step"))
            return event(mark, SG_LOG_CHECKPOINT, number_at(words, at + 4));
        if (sg_words_are(words, at, "CUDA out of memory") || sg_words_are(words, at, "CUDA out of memory."))
            return event(mark, SG_LOG_OUT_OF_MEMORY, NAN);
        return false;
    case 'E':
        if (sg_words_are(words, at, "Eval policy at step"))
            return event(mark, SG_LOG_EVALUATION, number_at(words, at + 4));
        if (sg_words_are(words, at, "End of training")) return event(mark, SG_LOG_END, NAN);
        if (sg_words_are(words, at, "Error executing job with overrides:")) return event(mark, SG_LOG_CRASH, NAN);
        return false;
    case 'D':
        if (sg_words_are(words, at, "DUE TO TIME LIMIT")) return event(mark, SG_LOG_CRASH, NAN); /* Slurm's */
        return false;
    case 'F':
        if (sg_word_is(word, "Found") && sg_words_are(words, at + 2, "files to upload"))
            return event(mark, SG_LOG_HUB_PUSH, NAN);
        return false;
    case 'U': return at == 0 && sg_word_is(word, "Uploading") ? event(mark, SG_LOG_HUB_PUSH, NAN) : false;
    case 'P':
        if (sg_words_are(words, at, "Push to hub") || sg_words_are(words, at, "Pushing to hub"))
            return event(mark, SG_LOG_HUB_PUSH, NAN);
        return false;
    case 'T':
        if (sg_words_are(words, at, "Traceback (most recent call last):")) return event(mark, SG_LOG_CRASH, NAN);
        return false;
    case 'S':
        if (sg_words_are(words, at, "Segmentation fault")) return event(mark, SG_LOG_CRASH, NAN);
        return false;
    case 'R':
        if (starts(word, "RESOURCE_EXHAUSTED")) return event(mark, SG_LOG_OUT_OF_MEMORY, NAN);
        return false;
    case 'K':
        if (at == 0 && words->n == 1 && sg_word_is(word, "Killed")) return event(mark, SG_LOG_CRASH, NAN);
        return false;
    case 'M':
        if (sg_words_are(words, at, "MPS backend out of memory")) return event(mark, SG_LOG_OUT_OF_MEMORY, NAN);
        return false;
    case 'o':
    case 'O':
        if (sg_words_are(words, at, "Out of memory: Killed process") || starts(word, "oom-kill") ||
            starts(word, "oom_kill") || starts(word, "OOMKilled") || starts(word, "OutOfMemoryError"))
            return event(mark, SG_LOG_OUT_OF_MEMORY, NAN);
        return false;
    case 't':
        if (starts(word, "torch.") && memmem(word.text, word.n, "OutOfMemoryError", 16))
            return event(mark, SG_LOG_OUT_OF_MEMORY, NAN);
        return false;
    case 'j':
        if (starts(word, "jax") && memmem(word.text, word.n, "XlaRuntimeError", 15))
            return event(mark, SG_LOG_CRASH, NAN);
        return false;
    default: return false;
    }
}
