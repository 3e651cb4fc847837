/* trace_write.c: a traced iteration as JSON in the Trace Event Format. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/durable_file.h"
#include "sim/walk/phases.h"
#include "sim/walk/trace_internal.h"

/* Threads of the one process that is shown. */
enum { TRACK_PHASES, TRACK_PARTS, TRACK_HOST, TRACK_STREAMS, TRACK_COUNT = TRACK_STREAMS + SG_STREAM_COUNT };

typedef struct writer {
    FILE *out;
    const sg_trace *trace;
    const sg_training *training;
    const sg_op *ops;
    size_t n_ops;
    double zero_s; /* host clock where the trace begins */
    bool first;
} writer;

/* ---- JSON ----------------------------------------------------------------------------------------------------------- */

static void text(const writer *w, const char *s) {
    (void)fputc('"', w->out);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            (void)fprintf(w->out, "\\%c", c);
        else if (c < 0x20)
            (void)fprintf(w->out, "\\u%04x", c);
        else
            (void)fputc(c, w->out);
    }
    (void)fputc('"', w->out);
}

/* Whole nanoseconds, so that spans that touch do not overlap. */
static int64_t nanoseconds(const writer *w, double at_s) {
    double ns = 1e9 * (at_s - w->zero_s);
    return ns > 0 && ns < 9e18 ? llround(ns) : 0;
}

static void microseconds(const writer *w, const char *key, int64_t ns) {
    (void)fprintf(w->out, ",\"%s\":%lld.%03lld", key, (long long)(ns / 1000), (long long)(ns % 1000));
}

static void open_event(writer *w, const char *kind, int track, const char *name) {
    (void)fputs(w->first ? "\n" : ",\n", w->out);
    w->first = false;
    (void)fprintf(w->out, "{\"ph\":\"%s\",\"pid\":1,\"tid\":%d,\"name\":", kind, track);
    text(w, name);
}

static void open_span(writer *w, int track, const char *name, const char *category, const double at[2]) {
    int64_t start = nanoseconds(w, at[0]), end = nanoseconds(w, at[1]);
    open_event(w, "X", track, name);
    (void)fputs(",\"cat\":", w->out);
    text(w, category);
    microseconds(w, "ts", start);
    microseconds(w, "dur", end > start ? end - start : 0);
}

static void close_event(const writer *w) {
    (void)fputc('}', w->out);
}

static void span(writer *w, int track, const char *name, const char *category, double start, double end) {
    const double at[2] = {start, end};
    open_span(w, track, name, category, at);
    close_event(w);
}

/* ---- names ---------------------------------------------------------------------------------------------------------- */

static const char *host_name(int32_t host_class) {
    static const char *const names[SG_HOST_CLASS_COUNT] = {"forward op", "backward op", "view",
                                                           "view",       "optimizer",   "blocking read"};
    return host_class >= 0 && host_class < SG_HOST_CLASS_COUNT ? names[host_class] : "host work";
}

static const char *name_of(const writer *w, const sg_trace_call *c) {
    switch (c->what) {
    case SG_TRACE_OP:
        return c->index >= 0 && (size_t)c->index < w->n_ops ? sg_op_kind_name((sg_op_kind)w->ops[c->index].kind) : "op";
    case SG_TRACE_COPY: return w->training->inputs[c->index].name;
    case SG_TRACE_ALL_REDUCE: return "all-reduce";
    case SG_TRACE_ALL_GATHER: return "all-gather";
    case SG_TRACE_REDUCE_SCATTER: return "reduce-scatter";
    case SG_TRACE_GRAPH: return "replayed update";
    case SG_TRACE_WAIT: return "wait for the device";
    default: return host_name(c->index);
    }
}

static const char *category_of(const writer *w, const sg_trace_call *c) {
    switch (c->what) {
    case SG_TRACE_OP: return sg_op_class_name(sg_op_class_of(&w->ops[c->index]));
    case SG_TRACE_COPY: return "copy";
    case SG_TRACE_ALL_REDUCE:
    case SG_TRACE_ALL_GATHER:
    case SG_TRACE_REDUCE_SCATTER: return "collective";
    default: return "host";
    }
}

static const char *phase_name(int phase) {
    static const char *const names[SG_PHASE_COUNT] = {"other",  "dataloading", "preprocessing",
                                                      "update", "inference",   "environment"};
    return phase >= 0 && phase < SG_PHASE_COUNT ? names[phase] : "";
}

static const char *part_name(int mark) {
    switch (mark) {
    case SG_MARK_PREPROCESS: return "preprocess";
    case SG_MARK_FORWARD: return "forward";
    case SG_MARK_BACKWARD: return "backward";
    case SG_MARK_CLIP: return "clip";
    case SG_MARK_OPTIMIZER: return "optimizer";
    case SG_MARK_ZERO_GRAD: return "zero grad";
    case SG_MARK_REPLAY: return "replayed update";
    default: return "";
    }
}

static const char *pass_name(int pass) {
    static const char *const names[SG_PASS_COUNT] = {"preprocess", "forward", "backward", "optimizer"};
    return pass >= 0 && pass < SG_PASS_COUNT ? names[pass] : "";
}

/* ---- events --------------------------------------------------------------------------------------------------------- */

static void metadata(writer *w, const char *title) {
    static const char *const names[TRACK_COUNT] = {"phases",         "parts of the update", "host",
                                                   "compute stream", "copy stream",         "collective stream"};
    open_event(w, "M", 0, "process_name");
    (void)fputs(",\"args\":{\"name\":", w->out);
    text(w, title);
    (void)fputs("}}", w->out);
    for (int i = 0; i < TRACK_COUNT; i++) {
        open_event(w, "M", i, "thread_name");
        (void)fprintf(w->out, ",\"args\":{\"name\":\"%s\"}}", names[i]);
        open_event(w, "M", i, "thread_sort_index");
        (void)fprintf(w->out, ",\"args\":{\"sort_index\":%d}}", i);
    }
}

static void phases(writer *w, double dataloading_s) {
    const sg_trace *t = w->trace;
    if (dataloading_s > 0)
        span(w, TRACK_PHASES, phase_name(SG_PHASE_DATALOADING), "phase", w->zero_s, w->zero_s + dataloading_s);
    for (size_t i = 1; i < t->n_phases;) {
        size_t start = i - 1; /* readings inside one phase are one span */
        while (i + 1 < t->n_phases && t->phases[i + 1].what == t->phases[i].what) i++;
        if (t->phases[i].what >= 0 && nanoseconds(w, t->phases[i].at) > nanoseconds(w, t->phases[start].at))
            span(w, TRACK_PHASES, phase_name(t->phases[i].what), "phase", t->phases[start].at, t->phases[i].at);
        i++;
    }
}

static void parts(writer *w) {
    const sg_trace *t = w->trace;
    size_t open = 0, sync = 0;
    for (size_t i = 0; i < t->n_marks; i++) {
        int mark = t->marks[i].what;
        if (mark == SG_MARK_SYNC_BEGIN) {
            sync = i;
        } else if (mark == SG_MARK_SYNC_END) {
            span(w, TRACK_PARTS, "exposed sync", "part", t->marks[sync].at, t->marks[i].at);
        } else {
            if (i > open && t->marks[open].what != SG_MARK_END)
                span(w, TRACK_PARTS, part_name(t->marks[open].what), "part", t->marks[open].at, t->marks[i].at);
            open = i;
        }
    }
}

static void where(const writer *w, const sg_trace_call *c) {
    if (c->program < 0) return;
    const sg_program *p = &w->training->programs[c->program];
    const sg_entry *e = &p->entries[c->entry];
    (void)fprintf(w->out, "\"pass\":\"%s\",\"program\":", pass_name(e->pass));
    text(w, p->name);
    (void)fprintf(w->out, ",\"entry\":%d,\"module\":", c->entry);
    text(w, e->module >= 0 && (size_t)e->module < w->training->n_modules ? w->training->modules[e->module].name : "");
}

static void call(writer *w, const sg_trace_call *c, char *const *texts) {
    if (nanoseconds(w, c->host[1]) > nanoseconds(w, c->host[0])) {
        const char *name = c->stream < 0 ? name_of(w, c) : "launch";
        open_span(w, TRACK_HOST, name, "host", c->host);
        (void)fputs(",\"args\":{", w->out);
        where(w, c);
        (void)fputs("}}", w->out);
    }
    if (c->stream < 0) return;
    open_span(w, TRACK_STREAMS + c->stream, name_of(w, c), category_of(w, c), c->device);
    (void)fputs(",\"args\":{", w->out);
    if (c->what == SG_TRACE_OP) {
        (void)fputs("\"op\":", w->out);
        text(w, texts[c->index]);
        if (c->program >= 0) (void)fputc(',', w->out);
    }
    where(w, c);
    (void)fputs("}}", w->out);
}

static void memory(writer *w) {
    for (size_t i = 0; i < w->trace->n_memory; i++) {
        open_event(w, "C", TRACK_HOST, "allocated bytes");
        microseconds(w, "ts", nanoseconds(w, w->trace->memory[i].at));
        (void)fprintf(w->out, ",\"args\":{\"allocated\":%llu}}", (unsigned long long)w->trace->memory[i].bytes);
    }
}

/* ---- the file ------------------------------------------------------------------------------------------------------- */

/* What each op is, in words. One allocation. */
static char **texts_of(const sg_op *ops, size_t n, sg_status *status) {
    enum { MOST = 256 };
    char **texts = calloc(n + 1, sizeof(char *));
    char *all = calloc(n + 1, MOST);
    if (!texts || !all) {
        free(texts);
        free(all);
        (void)sg_fail_memory(status, n * (MOST + sizeof(char *)), "the names of ops");
        return NULL;
    }
    texts[0] = all; /* by which it is freed */
    for (size_t i = 0; i < n; i++) {
        texts[i] = all + i * MOST;
        sg_op_text(&ops[i], texts[i], MOST);
    }
    return texts;
}

static void write_all(writer *w, const sg_trace_request *request, char *const *texts) {
    (void)fputs("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"policy\":", w->out);
    text(w, w->training->policy);
    (void)fputs(",\"framework\":", w->out);
    text(w, w->training->framework);
    (void)fputs("},\"traceEvents\":[", w->out);
    metadata(w, request->title ? request->title : w->training->policy);
    phases(w, request->dataloading_s);
    parts(w);
    for (size_t i = 0; i < w->trace->n_calls; i++) call(w, &w->trace->calls[i], texts);
    memory(w);
    (void)fputs("\n]}\n", w->out);
}

static sg_code save(const char *path, const char *bytes, size_t n, sg_status *status) {
    sg_file_lock lock;
    sg_code code = sg_file_lock_take(path, &lock, status);
    if (code) return code;
    code = sg_file_replace(path, "", 0, bytes, n, status);
    sg_file_lock_release(&lock);
    return code;
}

sg_code sg_trace_write(const sg_trace *trace, const sg_training *training, const sg_op *ops, size_t n_ops,
                       const sg_trace_request *request, sg_status *status) {
    char *bytes = NULL, **texts = texts_of(ops, n_ops, status);
    size_t n = 0;
    if (!texts) return SG_MACHINE;
    double start_s = trace->n_phases ? trace->phases[0].at : 0;
    double before_s = request->dataloading_s > 0 ? request->dataloading_s : 0;
    writer w = {.out = open_memstream(&bytes, &n),
                .trace = trace,
                .training = training,
                .ops = ops,
                .n_ops = n_ops,
                .zero_s = start_s - before_s,
                .first = true};
    sg_code code = SG_OK;
    bool failed = !w.out;
    if (w.out) {
        write_all(&w, request, texts);
        failed = ferror(w.out) != 0;
        failed |= fclose(w.out) != 0;
    }
    if (failed) code = sg_fail_memory(status, n, "the text of a trace");
    if (!code) code = save(request->path, bytes, n, status);
    free(bytes);
    free(texts[0]);
    free(texts);
    return code ? sg_fail_in(status, "writing the trace %s", request->path) : SG_OK;
}
