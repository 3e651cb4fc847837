#include "calibration/log/build.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is kept of one file, so that memory does not grow with it: about 20 MiB of windows, 15 MiB of events. */
enum { RUNS_MOST = 1024, WINDOWS_MOST = 1 << 17, EVENTS_MOST = 1 << 16, WARNINGS_MOST = 24 };

/* Two samples-per-step of one run differ by what rounding leaves; a factor of 1.5 is another batch. */
static const double OTHER_BATCH = 1.5;

sg_log_window sg_log_window_none(void) {
    sg_log_window w;
    memset(&w, 0, sizeof w);
    for (int i = 0; i < SG_LOG_FIELDS; i++) w.value[i] = NAN;
    w.step = w.step_low = w.step_high = w.samples_low = w.samples_high = NAN;
    w.iteration = w.env_steps = w.time_s = NAN;
    return w;
}

void sg_log_builder_start(sg_log_builder *b, sg_logs *logs) {
    memset(b, 0, sizeof *b);
    memset(logs, 0, sizeof *logs);
    b->logs = logs;
    b->time_s = NAN;
    b->last = sg_log_window_none();
}

static sg_log *last_run(sg_log_builder *b) {
    return b->logs->n ? &b->logs->logs[b->logs->n - 1] : NULL;
}

void sg_log_builder_finish(sg_log_builder *b) {
    sg_log *log = last_run(b);
    if (!log || b->out_of_memory) return;
    if (log->n_windows && log->n_windows < b->window_room) {
        sg_log_window *fitting = realloc(log->windows, log->n_windows * sizeof *fitting);
        if (fitting) log->windows = fitting;
        b->window_room = log->n_windows;
    }
    sg_log_end_run(log, b->family, &b->traits);
}

static void clear_run(sg_log *log) {
    free(log->windows);
    free(log->events);
    free(log->warnings);
    memset(log, 0, sizeof *log);
}

/* A run of no known format told nothing that is a log's. */
void sg_log_builder_drop_empty(sg_log_builder *b) {
    sg_log *log = last_run(b);
    if (!log || b->family != SG_LOG_NONE) return;
    b->events_kept -= log->n_events;
    clear_run(log);
    b->logs->n--;
}

static sg_log *new_run(sg_log_builder *b) {
    if (b->logs->n == RUNS_MOST) {
        b->runs_left_out++;
        b->ended = false;
        return last_run(b);
    }
    sg_log_builder_finish(b);
    sg_log_builder_drop_empty(b);
    if (b->logs->n == b->room || !b->logs->logs) {
        size_t room = b->room ? 2 * b->room : 4;
        sg_log *grown = realloc(b->logs->logs, room * sizeof *grown);
        if (!grown) {
            b->out_of_memory = true;
            return NULL;
        }
        b->logs->logs = grown;
        b->room = room;
    }
    sg_log *log = &b->logs->logs[b->logs->n++];
    memset(log, 0, sizeof *log);
    log->every = 1;
    log->jit_s = log->train_s = log->mean_step_s = NAN;
    for (int i = 0; i < SG_LOG_FIELDS; i++) log->steady[i] = NAN;
    b->family = SG_LOG_NONE;
    memset(&b->traits, 0, sizeof b->traits);
    b->traits.first_time_s = b->traits.steps_per_s = NAN;
    memset(&b->last_bar, 0, sizeof b->last_bar);
    b->window_room = b->event_room = 0;
    b->ended = b->event_open = false;
    b->last = sg_log_window_none();
    return log;
}

sg_log *sg_log_builder_run(sg_log_builder *b) {
    sg_log *log = last_run(b);
    return log && !b->ended ? log : new_run(b);
}

sg_log *sg_log_builder_fresh(sg_log_builder *b) {
    sg_log *log = last_run(b);
    return log && !b->ended && log->windows_seen == 0 ? log : new_run(b);
}

/* Samples per step as [low, high]; false where the counters are too coarse to tell. */
static bool by_counters(const sg_log_window *w, double *value) {
    if (!(w->step_low >= 1) || !(w->samples_low >= 1)) return false;
    double low = w->samples_low / w->step_high, high = w->samples_high / w->step_low;
    *value = sqrt(low * high);
    return high < 1.2 * low;
}

static bool by_rate(const sg_log_window *w, double *value) {
    double step_s = sg_log_window_step_s(w), rate = w->value[SG_LOG_SAMPLES_PER_S];
    *value = step_s * rate;
    return step_s >= 0.01 && rate >= 10; /* three decimals and whole samples: known to 5 % */
}

static bool contradicts(double known, double now) {
    return known > 0 && (now > OTHER_BATCH * known || known > OTHER_BATCH * now);
}

static bool other_batch(const sg_log_builder *b, const sg_log_window *w) {
    double value;
    if (by_counters(w, &value) && contradicts(b->traits.by_counters, value)) return true;
    return by_rate(w, &value) && contradicts(b->traits.by_rate, value);
}

static bool goes_back(const sg_log_window *last, const sg_log_window *w) {
    if (w->iteration < last->iteration || w->env_steps < last->env_steps) return true;
    if (w->step_high < last->step_low) return true;
    bool exact = w->step_low == w->step_high && last->step_low == last->step_high;
    if (exact && w->step <= last->step) return true;
    return w->samples_high < last->samples_low;
}

/* Another process of the same run printed the same counters. */
static bool repeats(const sg_log_window *last, const sg_log_window *w) {
    bool exact = w->step_low == w->step_high && last->step_low == last->step_high;
    return exact && w->step == last->step && w->samples_low == last->samples_low &&
           w->samples_high == last->samples_high;
}

/* Every second window of the longest run is given up. */
static void thin(sg_log_builder *b) {
    size_t most = 0;
    for (size_t i = 1; i < b->logs->n; i++)
        if (b->logs->logs[i].n_windows > b->logs->logs[most].n_windows) most = i;
    sg_log *log = &b->logs->logs[most];
    size_t kept = 0;
    for (size_t i = 0; i < log->n_windows; i += 2) log->windows[kept++] = log->windows[i];
    b->windows_kept -= log->n_windows - kept;
    log->n_windows = kept;
    log->every *= 2;
    if (most + 1 == b->logs->n || !kept) return;
    sg_log_window *fitting = realloc(log->windows, kept * sizeof *fitting);
    if (fitting) log->windows = fitting;
}

static void keep(sg_log_builder *b, sg_log *log, const sg_log_window *window) {
    uint64_t index = log->windows_seen++;
    if (index % log->every != 0 && !window->summary) return;
    if (b->windows_kept >= WINDOWS_MOST) thin(b);
    if (log->n_windows == b->window_room) {
        size_t room = b->window_room ? 2 * b->window_room : 16;
        sg_log_window *grown = realloc(log->windows, room * sizeof *grown);
        if (!grown) {
            b->out_of_memory = true;
            return;
        }
        log->windows = grown;
        b->window_room = room;
    }
    log->windows[log->n_windows++] = *window;
    b->windows_kept++;
}

/* Counters as they last stood: a window may lack them. */
static void remember(sg_log_builder *b, const sg_log_window *window) {
    sg_log_window before = b->last;
    b->last = *window;
    if (isnan(window->step)) {
        b->last.step = before.step;
        b->last.step_low = before.step_low;
        b->last.step_high = before.step_high;
    }
    if (isnan(window->iteration)) b->last.iteration = before.iteration;
    if (isnan(window->env_steps)) b->last.env_steps = before.env_steps;
}

void sg_log_builder_window(sg_log_builder *b, sg_log_family family, const sg_log_window *window) {
    sg_log *log = last_run(b);
    bool other = !log || b->ended || (b->family != SG_LOG_NONE && b->family != family);
    if (!other && log->windows_seen && repeats(&b->last, window)) {
        b->traits.repeated++;
        return;
    }
    if (!other && log->windows_seen && !window->summary) other = goes_back(&b->last, window) || other_batch(b, window);
    if (other) log = new_run(b);
    if (!log) return;
    b->family = family;
    b->event_open = false;
    double value;
    if (!b->traits.by_counters && by_counters(window, &value)) b->traits.by_counters = value;
    if (!b->traits.by_rate && by_rate(window, &value)) b->traits.by_rate = value;
    if (isnan(b->traits.first_time_s)) b->traits.first_time_s = window->time_s;
    if (!window->summary) remember(b, window);
    keep(b, log, window);
}

/* Bytes of the UTF-8 character at text, 0: none that JSON may hold. */
static size_t character(const char *text, size_t bytes) {
    unsigned char c = (unsigned char)text[0];
    size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    if (n == 0 || n > bytes || c == 0x7f) return 0;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80) return 0;
    unsigned char second = n > 1 ? (unsigned char)text[1] : 0;
    bool overlong = (c == 0xe0 && second < 0xa0) || (c == 0xf0 && second < 0x90);
    bool beyond = (c == 0xed && second >= 0xa0) || (c == 0xf4 && second >= 0x90); /* surrogates, past U+10FFFF */
    return overlong || beyond ? 0 : n;
}

void sg_log_copy_text(char *to, size_t room, const char *text, size_t bytes) {
    size_t used = 0, i = 0;
    while (i < bytes && text[i] == ' ') i++;
    while (i < bytes) {
        size_t n = (unsigned char)text[i] < ' ' ? 0 : character(text + i, bytes - i);
        if (used + (n ? n : 1) >= room) break;
        if (n) memcpy(to + used, text + i, n);
        if (!n) to[used] = (unsigned char)text[i] < ' ' ? ' ' : '?';
        used += n ? n : 1;
        i += n ? n : 1;
    }
    to[used] = '\0';
}

/* A traceback, and the error that it ends with, are one event. */
static bool same_death(sg_log_builder *b, sg_log *log, sg_log_event_kind kind, const sg_line *line) {
    if (!b->event_open || !log->n_events) return false;
    sg_log_event *last = &log->events[log->n_events - 1];
    if (kind != SG_LOG_CRASH && kind != SG_LOG_OUT_OF_MEMORY) return false;
    if (last->kind == SG_LOG_CRASH && kind == SG_LOG_OUT_OF_MEMORY) {
        last->kind = kind;
        sg_log_copy_text(last->text, sizeof last->text, line->text, line->bytes);
        b->ended = true;
    }
    return true;
}

/* Uploads draw themselves in many lines: one event until the next window. */
static bool same_push(const sg_log *log, sg_log_event_kind kind) {
    const sg_log_event *last = log->n_events ? &log->events[log->n_events - 1] : NULL;
    return kind == SG_LOG_HUB_PUSH && last && last->kind == kind && last->windows == log->windows_seen;
}

void sg_log_builder_event(sg_log_builder *b, sg_log_event_kind kind, double step, double seconds, const sg_line *line) {
    sg_log *log = last_run(b);
    if (!log) log = new_run(b);
    if (!log || same_death(b, log, kind, line) || same_push(log, kind)) return;
    log->events_seen++;
    if (kind == SG_LOG_END || kind == SG_LOG_OUT_OF_MEMORY) b->ended = true;
    b->event_open = kind == SG_LOG_CRASH || kind == SG_LOG_OUT_OF_MEMORY;
    if (b->events_kept == EVENTS_MOST) return;
    if (log->n_events == b->event_room) {
        size_t room = b->event_room ? 2 * b->event_room : 8;
        sg_log_event *grown = realloc(log->events, room * sizeof *grown);
        if (!grown) {
            b->out_of_memory = true;
            return;
        }
        log->events = grown;
        b->event_room = room;
    }
    sg_log_event *event = &log->events[log->n_events++];
    *event = (sg_log_event){kind, step, seconds, b->time_s, log->windows_seen, ""};
    sg_log_copy_text(event->text, sizeof event->text, line->text, line->bytes);
    b->events_kept++;
}

void sg_log_warn(sg_log *log, const char *format, ...) {
    if (log->n_warnings == WARNINGS_MOST) return;
    if (!log->warnings) log->warnings = calloc(WARNINGS_MOST, sizeof *log->warnings);
    if (!log->warnings) return;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(log->warnings[log->n_warnings++], sizeof *log->warnings, format, arguments);
    va_end(arguments);
}

void sg_logs_clear(sg_logs *logs) {
    for (size_t i = 0; i < logs->n; i++) clear_run(&logs->logs[i]);
    free(logs->logs);
    memset(logs, 0, sizeof *logs);
}
