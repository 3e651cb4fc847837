#include "calibration/log/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void sg_words_split(sg_words *words, const sg_line *line) {
    words->line = *line;
    words->n = 0;
    const char *at = line->text, *end = line->text + line->bytes;
    while (at < end) {
        while (at < end && (unsigned char)*at <= ' ') at++;
        const char *start = at;
        while (at < end && (unsigned char)*at > ' ') at++;
        if (at > start) words->word[words->n++] = (sg_word){start, (size_t)(at - start)};
    }
}

bool sg_words_are(const sg_words *words, size_t at, const char *phrase) {
    for (;; at++) {
        const char *blank = strchr(phrase, ' ');
        size_t n = blank ? (size_t)(blank - phrase) : strlen(phrase);
        if (at >= words->n || words->word[at].n != n || memcmp(words->word[at].text, phrase, n) != 0) return false;
        if (!blank) return true;
        phrase = blank + 1;
    }
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Numbers that a double's mantissa and an exact power of ten cannot give: as the C library reads them. */
static double slow_number(const char *text, size_t n, size_t *used) {
    char copy[64], *end;
    size_t kept = n < sizeof copy - 1 ? n : sizeof copy - 1;
    memcpy(copy, text, kept);
    copy[kept] = '\0';
    double value = strtod(copy, &end);
    *used = (size_t)(end - copy);
    return value;
}

double sg_word_leading_number(sg_word word, size_t *used) {
    static const double power[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const char *t = word.text;
    size_t i = 0, digits = 0, decimals = 0;
    uint64_t mantissa = 0;
    *used = 0;
    for (; i < word.n && is_digit(t[i]); i++, digits++)
        if (digits < 16) mantissa = 10 * mantissa + (uint64_t)(t[i] - '0');
    if (i < word.n && t[i] == '.') {
        for (i++; i < word.n && is_digit(t[i]); i++, digits++, decimals++)
            if (digits < 16) mantissa = 10 * mantissa + (uint64_t)(t[i] - '0');
    }
    if (digits == 0) return NAN;
    bool power_follows = i + 1 < word.n && (t[i] == 'e' || t[i] == 'E') &&
                         (is_digit(t[i + 1]) || ((t[i + 1] == '-' || t[i + 1] == '+') && i + 2 < word.n));
    if (digits > 15 || power_follows) {
        double value = slow_number(t, word.n, used);
        return isfinite(value) ? value : NAN;
    }
    *used = i;
    return (double)mantissa / power[decimals];
}

double sg_word_number(sg_word word) {
    size_t used;
    double value = sg_word_leading_number(word, &used);
    return used == word.n ? value : NAN;
}

bool sg_word_counter(sg_word word, sg_counter *counter) {
    static const char suffix[] = "KMBTQ";
    size_t used;
    double value = sg_word_leading_number(word, &used);
    if (isnan(value) || used + 1 < word.n) return false;
    const char *dot = memchr(word.text, '.', used);
    double unit = 1, last = dot ? pow(10, -(double)(word.text + used - dot - 1)) : 1;
    if (used < word.n) {
        const char *letter = strchr(suffix, word.text[used] == 'k' ? 'K' : word.text[used]);
        if (!letter || !*letter) return false;
        unit = pow(1000, (double)(letter - suffix + 1));
    }
    /* "50.0" counts whole things: only a suffix rounds them. */
    double half = unit > 1 ? 0.5 * last * unit : 0;
    double whole = unit > 1 ? value * unit : floor(value + 0.5);
    *counter = (sg_counter){whole, half > 0 ? ceil(whole - half) : whole, half > 0 ? floor(whole + half) : whole};
    if (counter->low < 0) counter->low = 0;
    return whole < 9e15;
}

double sg_word_duration(sg_word word) {
    double seconds = 0;
    int parts = 0;
    for (size_t at = 0; parts < 4;) {
        size_t used;
        double value = sg_word_leading_number((sg_word){word.text + at, word.n - at}, &used);
        if (isnan(value)) return NAN;
        seconds = 60 * seconds + value;
        parts++;
        at += used;
        if (at == word.n) return parts >= 2 && parts <= 3 ? seconds : NAN;
        if (word.text[at] != ':') return NAN;
        at++;
    }
    return NAN;
}

static int two(const char *t) {
    return is_digit(t[0]) && is_digit(t[1]) ? 10 * (t[0] - '0') + (t[1] - '0') : -1;
}

/* Days since 1970 in the Gregorian calendar, with March as the first month of a year. */
static double days(int year, int month, int day) {
    int y = month <= 2 ? year - 1 : year, m = month <= 2 ? month + 9 : month - 3;
    long long whole = 365LL * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
    return (double)whole;
}

double sg_words_stamp(sg_word date, sg_word time) {
    const char *d = date.text, *t = time.text;
    if (date.n != 10 || time.n < 8 || d[4] != '-' || d[7] != '-' || t[2] != ':' || t[5] != ':') return NAN;
    int century = two(d), year = two(d + 2), month = two(d + 5), day = two(d + 8);
    int hour = two(t), minute = two(t + 3), second = two(t + 6);
    if (century < 19 || year < 0 || month < 1 || month > 12 || day < 1 || day > 31) return NAN;
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) return NAN;
    double fraction = 0;
    if (time.n > 9 && (t[8] == '.' || t[8] == ',')) {
        double scale = 0.1;
        for (size_t i = 9; i < time.n && i < 15 && is_digit(t[i]); i++, scale /= 10) fraction += scale * (t[i] - '0');
    }
    return 86400 * days(100 * century + year, month, day) + 3600.0 * hour + 60.0 * minute + second + fraction;
}
