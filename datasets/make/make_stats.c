/* Statistics of a data set in LeRobot's form: what normalisation reads. */
#include "datasets/make/make_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUANTILES = 5, CHANNELS = 3, LEVELS = 256 };
static const char *const quantile_name[QUANTILES] = {"q01", "q10", "q50", "q90", "q99"};
static const double quantile_at[QUANTILES] = {0.01, 0.10, 0.50, 0.90, 0.99};

typedef struct summary {
    double min, max, mean, sd, quantile[QUANTILES];
} summary;

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Linear between neighbours, as numpy does it; `sorted` is sorted by this. */
static summary summarise(double *sorted, int64_t n) {
    summary s = {0};
    double sum = 0, squares = 0;
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    for (int64_t i = 0; i < n; i++) sum += sorted[i];
    s.mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) squares += (sorted[i] - s.mean) * (sorted[i] - s.mean);
    s.sd = sqrt(squares / (double)n);
    s.min = sorted[0];
    s.max = sorted[n - 1];
    for (int q = 0; q < QUANTILES; q++) {
        double place = quantile_at[q] * (double)(n - 1), whole = floor(place);
        int64_t low = (int64_t)whole, high = low + 1 < n ? low + 1 : low;
        s.quantile[q] = sorted[low] + (sorted[high] - sorted[low]) * (place - whole);
    }
    return s;
}

/* Level at which the share `at` of the channel's pixels is reached. */
static double level_at(const uint64_t *count, uint64_t total, double at) {
    uint64_t wanted = (uint64_t)ceil(at * (double)total), seen = 0;
    for (int level = 0; level < LEVELS; level++) {
        seen += count[level];
        if (seen >= wanted && seen > 0) return level / 255.0;
    }
    return 1;
}

static summary summarise_levels(const uint64_t *count) {
    summary s = {0};
    uint64_t total = 0;
    double sum = 0, squares = 0;
    for (int level = 0; level < LEVELS; level++) {
        total += count[level];
        sum += (double)count[level] * (level / 255.0);
    }
    if (total == 0) return s;
    s.mean = sum / (double)total;
    for (int level = 0; level < LEVELS; level++) {
        double off = level / 255.0 - s.mean;
        squares += (double)count[level] * off * off;
    }
    s.sd = sqrt(squares / (double)total);
    s.min = level_at(count, total, 0);
    s.max = level_at(count, total, 1);
    for (int q = 0; q < QUANTILES; q++) s.quantile[q] = level_at(count, total, quantile_at[q]);
    return s;
}

/* Appends one number, wrapped as [[x]] where `nested`, to the list of that name. */
static void append(json_t *stats, const char *name, double value, bool nested) {
    json_t *list = json_object_get(stats, name);
    if (!list) {
        list = json_array();
        (void)json_object_set_new(stats, name, list);
    }
    (void)json_array_append_new(list, nested ? json_pack("[[f]]", value) : json_real(value));
}

static void append_all(json_t *stats, const summary *s, bool nested) {
    append(stats, "min", s->min, nested);
    append(stats, "max", s->max, nested);
    append(stats, "mean", s->mean, nested);
    append(stats, "std", s->sd, nested);
    for (int q = 0; q < QUANTILES; q++) append(stats, quantile_name[q], s->quantile[q], nested);
}

json_t *sg_make_numbers_stats(const double *numbers, int64_t rows, int64_t width) {
    json_t *stats = json_object();
    double *column = malloc((size_t)rows * sizeof *column);
    for (int64_t c = 0; stats && column && c < width; c++) {
        for (int64_t r = 0; r < rows; r++) column[r] = numbers[r * width + c];
        summary s = summarise(column, rows);
        append_all(stats, &s, false);
    }
    bool done = stats && column;
    free(column);
    if (done) (void)json_object_set_new(stats, "count", json_pack("[I]", (json_int_t)rows));
    if (done) return stats;
    json_decref(stats);
    return NULL;
}

json_t *sg_make_frames_stats(const sg_level_counts *counts, int64_t frames) {
    json_t *stats = json_object();
    for (int c = 0; stats && c < CHANNELS; c++) {
        summary s = summarise_levels(counts->count[c]);
        append_all(stats, &s, true);
    }
    if (stats) (void)json_object_set_new(stats, "count", json_pack("[I]", (json_int_t)frames));
    return stats;
}
