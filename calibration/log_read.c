#include "calibration/log_read.h"

#include "sim/durable_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 96, MAX_LOG_BYTES = 1 << 30 };

typedef struct reader {
    sg_log *log;
    size_t room;
    char word[WORD_MAX];
    size_t length;
    bool overlong;
    sg_log_window open; /* the record being collected */
    bool is_open;
    size_t closed;            /* records so far, the dropped first one included */
    double step, samples;     /* plain counters of the open record, NAN when rounded ("2K") */
    char before[3][WORD_MAX]; /* the last words: a banner is recognised by several */
    bool out_of_memory;
} reader;

static void close_record(reader *r) {
    if (!r->is_open) return;
    r->is_open = false;
    if (isnan(r->open.update_s)) return;
    r->closed++;
    if (r->log->batch == 0 && r->step >= 1 && r->samples >= r->step && fmod(r->samples, r->step) == 0)
        r->log->batch = (int64_t)(r->samples / r->step);
    if (r->closed == 1) return; /* warm-up window */
    if (r->log->n_windows == r->room) {
        size_t room = r->room ? 2 * r->room : 64;
        sg_log_window *grown = realloc(r->log->windows, room * sizeof *grown);
        if (!grown) {
            r->out_of_memory = true;
            return;
        }
        r->log->windows = grown;
        r->room = room;
    }
    r->log->windows[r->log->n_windows++] = r->open;
}

/* A finite number >= 0 that fills the whole text, else NAN. */
static double number(const char *text) {
    char *end;
    double value = strtod(text, &end);
    return end == text || *end || !isfinite(value) || value < 0 ? NAN : value;
}

static const char *after(const char *word, const char *prefix) {
    size_t n = strlen(prefix);
    return strncmp(word, prefix, n) == 0 ? word + n : NULL;
}

static void open_record(reader *r, const char *step) {
    close_record(r);
    r->is_open = true;
    r->open = (sg_log_window){NAN, NAN, NAN, NAN, NAN};
    r->step = number(step);
    r->samples = NAN;
}

static void take_field(reader *r, const char *word) {
    const struct {
        const char *prefix;
        double *into;
    } fields[] = {{"data_s:", &r->open.data_s}, {"prep_s:", &r->open.prep_s},     {"updt_s:", &r->open.update_s},
                  {"step_s:", &r->open.step_s}, {"mem_gb:", &r->open.memory_gib}, {"smpl:", &r->samples}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const char *value = after(word, fields[i].prefix);
        if (value) *fields[i].into = number(value);
    }
}

/* "cfg.steps=20000", "dataset.num_frames=71471", "num_learnable_params=51597190" */
static void take_banner(reader *r, const char *word) {
    const struct {
        const char *prefix;
        int64_t *into;
    } facts[] = {{"cfg.steps=", &r->log->steps},
                 {"dataset.num_frames=", &r->log->frames},
                 {"num_learnable_params=", &r->log->learnable_parameters}};
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        const char *value = after(word, facts[i].prefix);
        double n = value ? number(value) : NAN;
        if (n >= 1 && n < 9e15) *facts[i].into = (int64_t)n;
    }
    /* "... batch size: 32 x 2": the words before are kept, so that the batch is seen when `x` is followed by the ranks. */
    double batch = number(r->before[1]), ranks = number(word);
    if (strcmp(r->before[0], "x") == 0 && strcmp(r->before[2], "size:") == 0 && batch >= 1 && batch < 1e12 &&
        ranks >= 1 && ranks < 1e6) {
        r->log->batch = (int64_t)batch;
        r->log->ranks = (int64_t)ranks;
    }
}

static void end_word(reader *r) {
    if (r->length == 0 && !r->overlong) return;
    r->word[r->length] = '\0';
    if (!r->overlong) {
        const char *step = after(r->word, "step:");
        if (step)
            open_record(r, step);
        else if (r->is_open && strchr(r->word, ':'))
            take_field(r, r->word);
        take_banner(r, r->word);
        memcpy(r->before[2], r->before[1], WORD_MAX);
        memcpy(r->before[1], r->before[0], WORD_MAX);
        memcpy(r->before[0], r->word, WORD_MAX);
    }
    r->length = 0;
    r->overlong = false;
}

static void feed(reader *r, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c <= ' ')
            end_word(r);
        else if (r->length + 1 < WORD_MAX)
            r->word[r->length++] = (char)c;
        else
            r->overlong = true;
    }
}

static sg_code finish(reader *r, const char *name, sg_status *status) {
    end_word(r);
    close_record(r);
    if (r->out_of_memory) {
        sg_log_clear(r->log);
        return sg_fail_memory(status, r->room * sizeof(sg_log_window), "windows of a training log");
    }
    if (r->log->n_windows >= 1) return SG_OK;
    size_t seen = r->closed;
    sg_log_clear(r->log);
    return sg_fail(
        status, SG_BAD_INPUT,
        "%s: %zu LeRobot log line(s) with 'step:' and 'updt_s:' were found, at least two are needed (the first window "
        "is warm-up); give the console log of lerobot-train",
        name, seen);
}

static void start(reader *r, sg_log *log) {
    memset(r, 0, sizeof *r);
    memset(log, 0, sizeof *log);
    r->log = log;
    r->step = r->samples = NAN;
}

sg_code sg_log_parse(const char *text, size_t bytes, const char *name, sg_log *log, sg_status *status) {
    reader r;
    start(&r, log);
    feed(&r, text, bytes);
    return finish(&r, name, status);
}

sg_code sg_log_read(const char *path, sg_log *log, sg_status *status) {
    reader r;
    start(&r, log);
    unsigned char *bytes;
    size_t n;
    sg_code code = sg_file_read(path, MAX_LOG_BYTES, &bytes, &n, status);
    if (code != SG_OK) return sg_fail_in(status, "reading a log");
    feed(&r, (const char *)bytes, n);
    free(bytes);
    return finish(&r, path, status);
}

void sg_log_clear(sg_log *log) {
    free(log->windows);
    log->windows = NULL;
    log->n_windows = 0;
}

static double phase(const sg_log_window *w, sg_quantity q) {
    double data = isnan(w->data_s) ? 0 : w->data_s, prep = isnan(w->prep_s) ? 0 : w->prep_s;
    switch (q) {
    case SG_Q_DATALOADING: return data;
    case SG_Q_PREPROCESSING: return prep;
    case SG_Q_UPDATE: return w->update_s;
    default: return isnan(w->step_s) ? data + prep + w->update_s : w->step_s;
    }
}

sg_code sg_log_point(const sg_log *log, const sg_point_config *config, const char *origin, sg_point *point,
                     sg_status *status) {
    memset(point, 0, sizeof *point);
    double *values = calloc(log->n_windows ? log->n_windows : 1, sizeof *values);
    if (!values) return sg_fail_memory(status, log->n_windows * sizeof *values, "log windows");
    static const sg_quantity kept[] = {SG_Q_DATALOADING, SG_Q_PREPROCESSING, SG_Q_UPDATE, SG_Q_STEP};
    for (size_t k = 0; k < sizeof kept / sizeof kept[0]; k++) {
        for (size_t i = 0; i < log->n_windows; i++) values[i] = phase(&log->windows[i], kept[k]);
        point->q[kept[k]] = sg_statistic_of(values, log->n_windows);
    }
    double most_gib = 0;
    for (size_t i = 0; i < log->n_windows; i++)
        if (log->windows[i].memory_gib > most_gib && log->windows[i].memory_gib < 1e6)
            most_gib = log->windows[i].memory_gib;
    free(values);
    point->config = *config;
    point->key = sg_point_key(config);
    point->iterations = (int64_t)log->n_windows;
    point->peak_allocated_bytes = (uint64_t)(most_gib * 1024 * 1024 * 1024);
    double step_s = point->q[SG_Q_STEP].median;
    point->samples_per_s = step_s > 0 ? (double)(config->batch * config->ranks) / step_s : 0;
    point->fits_rates = true;
    (void)snprintf(point->source, sizeof point->source, "observed");
    (void)snprintf(point->origin, sizeof point->origin, "%.255s", origin);
    return SG_OK;
}
