/* words.h: a line as its words, and the numbers that words hold. */
#ifndef SG_CALIBRATION_LOG_WORDS_H
#define SG_CALIBRATION_LOG_WORDS_H

#include "calibration/log/line_source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct sg_word {
    const char *text; /* not NUL-terminated */
    size_t n;
} sg_word;

typedef struct sg_words {
    sg_line line;
    size_t n;
    sg_word word[SG_LINE_MOST / 2 + 1];
} sg_words;

/* Words stand between blanks and control characters. */
void sg_words_split(sg_words *words, const sg_line *line);

/* Here because every word of a log is compared with constants: their lengths are known where this is compiled in. */
static inline bool sg_word_is(sg_word word, const char *text) {
    size_t n = strlen(text);
    return word.n == n && memcmp(word.text, text, n) == 0;
}

/* True when the word begins with `prefix`; *rest is what follows it. */
static inline bool sg_word_after(sg_word word, const char *prefix, sg_word *rest) {
    size_t n = strlen(prefix);
    if (word.n < n || memcmp(word.text, prefix, n) != 0) return false;
    *rest = (sg_word){word.text + n, word.n - n};
    return true;
}

static inline bool sg_word_ends(sg_word word, const char *suffix) {
    size_t n = strlen(suffix);
    return word.n >= n && memcmp(word.text + word.n - n, suffix, n) == 0;
}

/* Words from `at` on are those of `phrase`, which single blanks separate. */
bool sg_words_are(const sg_words *words, size_t at, const char *phrase);

/* The number that fills the word ("0.142", "1.0e-05"), NAN when it is none, is negative or infinite. */
double sg_word_number(sg_word word);
/* The number that the word begins with, NAN when there is none; *used bytes of it. */
double sg_word_leading_number(sg_word word, size_t *used);

/* A counter that may be rounded: "250", "1.0K", "71K", "4B". low and high are what it may stand for: the same for a plain
 * whole number, half of the last printed digit to either side otherwise. False when it is no counter. */
typedef struct sg_counter {
    double value, low, high;
} sg_counter;
bool sg_word_counter(sg_word word, sg_counter *counter);

/* "02:45", "1:18:28", "0:00:31.316263", "2 days"-less durations in seconds; NAN when it is none. */
double sg_word_duration(sg_word word);
/* Seconds since 1970 of "2026-08-01" and "15:50:31" (fractions allowed) as one clock without time zone; NAN: none. */
double sg_words_stamp(sg_word date, sg_word time);

#endif
