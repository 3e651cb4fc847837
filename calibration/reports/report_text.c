#include "calibration/reports/report_text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_word(char c) {
    return isalnum((unsigned char)c) != 0;
}

/* UTF-8 of the two signs that this field writes sizes and ranges with: multiplication sign; en dash, em dash. */
static size_t fold_sign(const unsigned char *at, char *out) {
    if (at[0] == 0xC3 && at[1] == 0x97) return *out = 'x', 2;
    if (at[0] == 0xE2 && at[1] == 0x80 && (at[2] == 0x93 || at[2] == 0x94)) return *out = '-', 3;
    return *out = ' ', 1;
}

void sg_report_fold(const char *text, char *folded, size_t bytes) {
    size_t n = 0;
    const unsigned char *at = (const unsigned char *)text;
    while (*at && n + 1 < bytes) {
        if (*at >= 0x80)
            at += fold_sign(at, &folded[n++]);
        else
            folded[n++] = iscntrl(*at) ? ' ' : (char)tolower(*at), at++;
    }
    if (bytes) folded[n] = 0;
}

static bool same(char a, char b) {
    bool a_gap = a == ' ' || a == '_' || a == '-', b_gap = b == ' ' || b == '_' || b == '-';
    return a == b || (a_gap && b_gap);
}

static const char *match(const char *at, const char *phrase) {
    for (; *phrase; phrase++, at++)
        if (!*at || !same(*at, *phrase)) return NULL;
    return at;
}

const char *sg_report_find(const char *folded, const char *phrase) {
    for (const char *at = folded; *at; at++) {
        if (at > folded && is_word(at[-1]) && is_word(*phrase)) continue;
        const char *end = match(at, phrase);
        if (end && !(is_word(end[-1]) && is_word(*end))) return at;
    }
    return NULL;
}

/* The word before `at` is one of denial. */
static bool denied_before(const char *folded, const char *at) {
    static const char *const denials[] = {"no", "not", "without", "before", "non", "disable", "disabled"};
    const char *end = at;
    while (end > folded && !is_word(end[-1])) end--;
    const char *start = end;
    while (start > folded && is_word(start[-1])) start--;
    for (size_t i = 0; i < sizeof denials / sizeof *denials; i++)
        if (strlen(denials[i]) == (size_t)(end - start) && strncmp(start, denials[i], (size_t)(end - start)) == 0)
            return true;
    return false;
}

static bool denied_after(const char *end) {
    static const char *const denials[] = {"false", "off", "0", "no", "disabled", "ignored", "none"};
    while (*end == ' ' || *end == '=' || *end == ':') end++;
    for (size_t i = 0; i < sizeof denials / sizeof *denials; i++) {
        size_t n = strlen(denials[i]);
        if (strncmp(end, denials[i], n) == 0 && !is_word(end[n]) && end[n] != '.') return true;
    }
    return false;
}

int sg_report_option(const char *folded, const char *phrase) {
    const char *at = sg_report_find(folded, phrase);
    if (!at) return 0;
    return denied_before(folded, at) || denied_after(at + strlen(phrase)) ? -1 : 1;
}

bool sg_report_number(const char *text, bool suffixes, double *value, const char **end) {
    if (!isdigit((unsigned char)*text)) return false;
    double v = 0, scale = 1;
    const char *at = text;
    for (; isdigit((unsigned char)*at) || (*at == ',' && isdigit((unsigned char)at[1])); at++)
        if (*at != ',') v = 10 * v + (*at - '0');
    if (*at == '.' && isdigit((unsigned char)at[1]))
        for (at++; isdigit((unsigned char)*at); at++) v = 10 * v + (*at - '0'), scale *= 10;
    v /= scale;
    if (suffixes && !is_word(*at ? at[1] : 0)) {
        if (*at == 'k') v *= 1e3, at++;
        if (*at == 'm') v *= 1e6, at++;
        if (*at == 'b') v *= 1e9, at++;
    }
    if (!isfinite(v)) return false;
    *value = v;
    if (end) *end = at;
    return true;
}

/* The number that ends before `at` (blanks and marks between), or a number word. */
static bool number_ending(const char *folded, const char *at, double *value, const char **start) {
    static const char *const words[] = {"one", "two", "three", "four"};
    const char *end = at;
    while (end > folded && (end[-1] == ' ' || end[-1] == '-' || end[-1] == 'x')) end--;
    const char *from = end;
    while (from > folded && (is_word(from[-1]) || from[-1] == '.' || from[-1] == ',')) from--;
    if (start) *start = from;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == (size_t)(end - from) && strncmp(from, words[i], (size_t)(end - from)) == 0)
            return *value = (double)i + 1, true;
    const char *behind;
    return sg_report_number(from, true, value, &behind) && behind == end;
}

bool sg_report_number_before(const char *folded, const char *const *units, size_t n, double *value) {
    for (size_t i = 0; i < n; i++)
        for (const char *at = sg_report_find(folded, units[i]); at; at = sg_report_find(at + 1, units[i])) {
            const char *word;
            if (number_ending(folded, at, value, &word)) return true;
            /* one adjective may stand between: "4 aloha cameras" */
            if (word < at && isalpha((unsigned char)*word) && number_ending(folded, word, value, NULL)) return true;
        }
    return false;
}

bool sg_report_number_after(const char *folded, const char *phrase, double *value) {
    for (const char *at = sg_report_find(folded, phrase); at; at = sg_report_find(at + 1, phrase)) {
        const char *from = at + strlen(phrase);
        while (*from == ' ' || *from == '=' || *from == ':' || *from == '~') from++;
        if (sg_report_number(from, false, value, NULL)) return true;
    }
    return false;
}

static bool follows(const char *folded, const char *at, const char *word, size_t within) {
    const char *from = (size_t)(at - folded) > within ? at - within : folded;
    const char *found = sg_report_find(from, word);
    return found && found < at;
}

/* "640x480" at `at`, not inside a longer word or number. */
static const char *size_at(const char *folded, const char *at, int *first, int *second) {
    double a, b;
    const char *end;
    if ((at > folded && (is_word(at[-1]) || at[-1] == '.')) || !sg_report_number(at, false, &a, &end)) return NULL;
    while (*end == ' ') end++;
    if (*end != 'x') return NULL;
    end++;
    while (*end == ' ') end++;
    if (!sg_report_number(end, false, &b, &end) || is_word(*end)) return NULL;
    if (!(a >= 32 && a <= 8192 && b >= 32 && b <= 8192)) return NULL;
    *first = (int)a;
    *second = (int)b;
    return end;
}

bool sg_report_image_size(const char *folded, int *height, int *width, bool *cropped) {
    bool found = false;
    double most = 0;
    for (const char *at = folded; *at; at++) {
        int first, second;
        const char *end = size_at(folded, at, &first, &second);
        if (!end) continue;
        bool resized = follows(folded, at, "resize", 20) || follows(folded, at, "resize_with_pad", 20) ||
                       follows(folded, at, "resized to", 14) || follows(folded, at, "pad", 8);
        bool crop = follows(folded, at, "cropped to", 14) || follows(folded, at, "crop", 8);
        if (!resized && (crop || !found || (!*cropped && (double)first * second > most))) {
            /* frames of cameras are wider than high, whichever number comes first */
            *width = first > second ? first : second;
            *height = first > second ? second : first;
            *cropped = crop;
            most = (double)first * second;
            found = true;
            if (crop) return true;
        }
        at = end - 1;
    }
    return found;
}

/* ---- durations ----------------------------------------------------------------------------------------------------- */

static double unit_seconds(const char *at, const char **end) {
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"seconds", 1}, {"minutes", 60}, {"hours", 3600}, {"days", 86400}, {"day", 86400},
                 {"hour", 3600}, {"mins", 60},    {"min", 60},     {"sec", 1},      {"d", 86400},
                 {"h", 3600},    {"m", 60},       {"s", 1}};
    while (*at == ' ') at++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t n = strlen(units[i].name);
        if (strncmp(at, units[i].name, n) != 0 || isalpha((unsigned char)at[n])) continue;
        *end = at + n;
        return units[i].seconds;
    }
    return 0;
}

/* "9:36:02", "16:17" */
static bool clock_time(const char *at, double *seconds) {
    double part[3], total = 0;
    const char *end = at;
    int n = 0;
    while (n < 3 && sg_report_number(end, false, &part[n], &end)) {
        n++;
        if (*end != ':') break;
        end++;
    }
    if (n < 2) return false;
    for (int i = 0; i < n; i++) total = total * 60 + part[i];
    *seconds = total;
    return true;
}

static const char *skip_marks(const char *at) {
    while (*at == ' ' || *at == '~') at++;
    return at;
}

bool sg_report_duration(const char *folded, double *low, double *high) {
    double sum = 0, value, second;
    const char *at = skip_marks(folded), *end;
    if (strchr(at, ':') && clock_time(at, &sum) && sum > 0) return *low = *high = sum, true;
    sum = 0;
    bool found = false;
    while (sg_report_number(at, false, &value, &end)) {
        const char *behind = end;
        while (*behind == ' ') behind++;
        double unit;
        if (!found && *behind == '-' && sg_report_number(behind + 1, false, &second, &end) &&
            (unit = unit_seconds(end, &end)) > 0)
            return *low = value * unit, *high = second * unit, *low > 0 && *high >= *low && isfinite(*high);
        unit = unit_seconds(behind, &end);
        if (unit == 0) break;
        sum += value * unit;
        found = true;
        at = skip_marks(end);
    }
    *low = *high = sum;
    return found && sum > 0 && isfinite(sum);
}

bool sg_report_range(const char *folded, double *low, double *high) {
    const char *at = skip_marks(folded), *end;
    if (!sg_report_number(at, false, low, &end)) return false;
    *high = *low;
    if (*end == '-' && !sg_report_number(end + 1, false, high, &end)) return false;
    while (*end == ' ') end++;
    return !*end && *low > 0 && *high >= *low;
}
