/* Traces: what a reader of the JSON finds: spans that nest, streams on which nothing overlaps, sums that are the step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/virtual/machine.h"
#include "sim/walk/trace.h"
#include "tests/reference/reference.h"
#include "tests/support/scratch.h"
#include "tests/support/small_policies.h"
#include "tests/support/watch_device.h"

enum { PHASES, PARTS, HOST, COMPUTE, COPY, COLLECTIVE, TRACKS };

typedef struct traced_span {
    int64_t start, end; /* nanoseconds */
} traced_span;

typedef struct track {
    traced_span *spans;
    size_t n;
    int64_t sum;
} track;

typedef struct reading {
    track tracks[TRACKS];
    int64_t most_bytes;
    size_t ops, with_module;
} reading;

static int64_t ns(const json_t *microseconds) {
    return llround(1000 * json_number_value(microseconds));
}

static void take_span(reading *r, const json_t *event) {
    json_int_t tid = json_integer_value(json_object_get(event, "tid"));
    assert_in_range(tid, 0, TRACKS - 1);
    track *t = &r->tracks[tid];
    t->spans = realloc(t->spans, (t->n + 1) * sizeof *t->spans);
    assert_non_null(t->spans);
    int64_t start = ns(json_object_get(event, "ts")), length = ns(json_object_get(event, "dur"));
    assert_true(start >= 0 && length >= 0);
    t->spans[t->n++] = (traced_span){start, start + length};
    t->sum += length;
    assert_true(json_string_length(json_object_get(event, "name")) > 0);
    const json_t *args = json_object_get(event, "args");
    if (tid != COMPUTE) return;
    r->ops += json_string_length(json_object_get(args, "op")) > 0;
    r->with_module += json_string_length(json_object_get(args, "module")) > 0;
}

static int by_start(const void *x, const void *y) {
    const traced_span *a = x, *b = y;
    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    return (a->end < b->end) - (a->end > b->end);
}

/* Sorted by start, longer first: each span lies inside the one that is open, or behind it. */
static void check_nesting(const track *t, bool may_nest) {
    int64_t open[16], depth = 0;
    if (t->n) qsort(t->spans, t->n, sizeof *t->spans, by_start);
    for (size_t i = 0; i < t->n; i++) {
        while (depth > 0 && open[depth - 1] <= t->spans[i].start) depth--;
        if (t->spans[i].start == t->spans[i].end) continue;
        if (depth > 0) assert_true(may_nest && t->spans[i].end <= open[depth - 1]);
        assert_true(depth < 16);
        open[depth++] = t->spans[i].end;
    }
}

static void read_trace(const char *path, reading *r) {
    *r = (reading){0};
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("%s", error.text);
    const json_t *events = json_object_get(root, "traceEvents");
    size_t i, named = 0;
    json_t *event;
    json_array_foreach(events, i, event) {
        const char *kind = json_string_value(json_object_get(event, "ph"));
        assert_non_null(kind);
        if (*kind == 'X') take_span(r, event);
        if (*kind == 'M') named += strcmp(json_string_value(json_object_get(event, "name")), "thread_name") == 0;
        if (*kind == 'C') {
            int64_t bytes = json_integer_value(json_object_get(json_object_get(event, "args"), "allocated"));
            if (bytes > r->most_bytes) r->most_bytes = bytes;
        }
    }
    assert_int_equal(named, TRACKS);
    json_decref(root);
    for (int t = 0; t < TRACKS; t++) check_nesting(&r->tracks[t], t == PARTS);
}

static void clear(reading *r) {
    for (int t = 0; t < TRACKS; t++) free(r->tracks[t].spans);
}

static int64_t last_end(const track *t) {
    int64_t end = 0;
    for (size_t i = 0; i < t->n; i++)
        if (t->spans[i].end > end) end = t->spans[i].end;
    return end;
}

static sg_machine machine_of(const char *device_class) {
    sg_machine m;
    sg_machine_init(&m);
    (void)snprintf(m.name, sizeof m.name, "made-up");
    (void)snprintf(m.device_class, sizeof m.device_class, "%s", device_class);
    m.caching_allocator = m.bf16 = m.fp16 = m.tf32 = true;
    for (int i = SG_M_PEAK_F32; i <= SG_M_BANDWIDTH; i++) m.p[i].value = 1e12;
    for (int i = SG_M_EFF_GEMM; i <= SG_M_EFF_OPTIMIZER; i++) m.p[i].value = 0.7;
    m.p[SG_M_HOST_BACKWARD].value = m.p[SG_M_HOST_VIEW].value = m.p[SG_M_HOST_OPTIMIZER_OPS].value = 0.5;
    m.p[SG_M_KERNEL_START_S].value = m.p[SG_M_KERNEL_FLOOR_S].value = 3e-6;
    m.p[SG_M_HOST_OP_S].value = 5e-6;
    m.p[SG_M_HOST_OPTIMIZER_S].value = m.p[SG_M_HOST_SYNC_S].value = 1e-5;
    m.p[SG_M_COPY_BANDWIDTH].value = m.p[SG_M_COLLECTIVE_BUSBW].value = 1e9;
    m.p[SG_M_COLLECTIVE_LATENCY_S].value = 1e-5;
    return m;
}

static int64_t launches_of(const sg_training *t) {
    int64_t n = 0;
    for (size_t p = 0; p < t->n_programs; p++)
        for (size_t i = 0; i < t->programs[p].n_entries; i++) n += t->programs[p].entries[i].kind == SG_ENTRY_OP;
    return n;
}

typedef struct predicted {
    sg_step_times times;
    sg_virtual_report report;
    sg_memory_peak peak;
} predicted;

/* Traces the small policy on the virtual device; what an untraced iteration takes comes along. */
static void trace_on(const sg_machine *m, const sg_training *t, int ranks, bool graph, const sg_trace_request *request,
                     predicted *p) {
    sg_walk_options o = {.api = sg_virtual_device(), .seed = 1, .ranks = ranks, .graph = graph};
    sg_walker *w;
    sg_status status;
    assert_int_equal(o.api->open(&(sg_device_options){.machine = m}, &o.device, NULL), SG_OK);
    if (ranks > 1) assert_int_equal(o.api->comm_create(o.device, &(sg_comm_options){.ranks = ranks}, &o.comm, NULL), 0);
    if (sg_walker_open(t, &o, &w, &status)) fail_msg("%s", status.text);
    for (int i = 0; i < 3; i++) {
        sg_virtual_reset(o.device);
        assert_int_equal(sg_walker_iteration(w, &p->times, NULL), SG_OK);
    }
    sg_virtual_read(o.device, &p->report);
    if (sg_walker_trace(w, request, &status)) fail_msg("%s", status.text);
    sg_walker_peak(w, &p->peak);
    sg_step_times again;
    assert_int_equal(sg_walker_iteration(w, &again, NULL), SG_OK); /* and walks on as before */
    if (fabs(again.step_s - p->times.step_s) > 1e-9) fail_msg("%.12g s, then %.12g s", p->times.step_s, again.step_s);
    sg_walker_close(w);
    if (o.comm) o.api->comm_destroy(o.device, o.comm);
    o.api->close(o.device);
}

static sg_training *small(sg_small policy, sg_device_class device_class, int ranks) {
    sg_small_setting setting = SG_SMALL_SETTING[0];
    setting.device_class = device_class;
    return sg_small_build(policy, &setting, &(sg_small_options){.ranks = ranks, .clip = true});
}

static void assert_ns(int64_t got, double seconds, size_t n) {
    if (llabs(got - llround(1e9 * seconds)) > (int64_t)n + 2)
        fail_msg("%lld ns are not %.9g s", (long long)got, seconds);
}

/* Host spans and waits are all that a virtual host's time consists of, and the streams' spans all that keeps them busy. */
static void test_predicted_sums(void **state) {
    (void)state;
    static const sg_small policies[] = {SG_SMALL_ACT, SG_SMALL_SMOLVLA, SG_SMALL_MLP};
    sg_scratch scratch = sg_scratch_new();
    char path[128];
    (void)snprintf(path, sizeof path, "%s/trace.json", scratch.path);
    for (int k = 0; k < 9; k++) {
        bool cpu = k % 3 == 2;
        int ranks = k % 3 == 1 ? 4 : 1;
        sg_training *t = small(policies[k / 3], cpu ? SG_DEVICE_CLASS_CPU : SG_DEVICE_CLASS_CUDA, ranks);
        sg_machine m = machine_of(cpu ? "cpu" : "cuda");
        predicted p;
        trace_on(&m, t, ranks, false, &(sg_trace_request){path, "a \"title\"\n", 0.25}, &p);
        reading r;
        read_trace(path, &r);
        assert_ns(r.tracks[PHASES].sum, 0.25 + p.times.step_s, r.tracks[PHASES].n);
        assert_int_equal(last_end(&r.tracks[PHASES]), r.tracks[PHASES].sum);
        if (!cpu) assert_ns(r.tracks[HOST].sum, p.times.step_s, r.tracks[HOST].n);
        assert_ns(r.tracks[COMPUTE].sum, p.report.device_busy_s, r.tracks[COMPUTE].n);
        assert_ns(r.tracks[COLLECTIVE].sum, p.report.collective_busy_s, r.tracks[COLLECTIVE].n);
        assert_true((r.tracks[COLLECTIVE].n > 0) == (ranks > 1));
        assert_true(r.ops >= (size_t)launches_of(t) && r.with_module > 0);
        if (ranks == 1) assert_int_equal(r.ops, launches_of(t));
        assert_int_equal(r.most_bytes, p.peak.allocated_bytes);
        clear(&r);
        sg_training_free(t);
    }
    (void)remove(path);
    sg_scratch_free(&scratch);
}

/* A captured update is one span of its own. */
static void test_captured(void **state) {
    (void)state;
    sg_scratch scratch = sg_scratch_new();
    char path[128];
    (void)snprintf(path, sizeof path, "%s/trace.json", scratch.path);
    sg_training *t = small(SG_SMALL_MLP, SG_DEVICE_CLASS_CUDA, 1);
    sg_machine m = machine_of("cuda");
    predicted p;
    trace_on(&m, t, 1, true, &(sg_trace_request){path, NULL, 0}, &p);
    reading r;
    read_trace(path, &r);
    assert_true(r.ops < (size_t)launches_of(t) && r.tracks[COMPUTE].n > r.ops);
    assert_ns(r.tracks[PHASES].sum, p.times.step_s, r.tracks[PHASES].n);
    clear(&r);
    (void)remove(path);
    sg_training_free(t);
    sg_scratch_free(&scratch);
}

/* On a device that computes, spans lie where the host's clock passed, and what is learnt is what an untraced walk learns. */
static void test_executed(void **state) {
    (void)state;
    sg_scratch scratch = sg_scratch_new();
    char path[128];
    (void)snprintf(path, sizeof path, "%s/trace.json", scratch.path);
    sg_training *t = small(SG_SMALL_MLP, SG_DEVICE_CLASS_CPU, 1);
    double *values[2] = {NULL, NULL};
    int32_t tensor = t->parameters[0].tensor;
    size_t count = (size_t)sg_desc_count(&t->tensors[tensor].desc);
    for (int traced = 0; traced < 2; traced++) {
        sg_walk_options o = {.api = sg_reference_device(), .seed = 1};
        sg_walker *w;
        sg_status status;
        assert_int_equal(o.api->open(&(sg_device_options){0}, &o.device, NULL), SG_OK);
        if (sg_walker_open(t, &o, &w, &status)) fail_msg("%s", status.text);
        assert_int_equal(sg_walker_iteration(w, NULL, NULL), SG_OK);
        if (sg_walker_trace(w, &(sg_trace_request){traced ? path : NULL, "x", 0}, &status)) fail_msg("%s", status.text);
        values[traced] = calloc(count, sizeof(double));
        assert_non_null(values[traced]);
        assert_int_equal(sg_walker_read(w, tensor, values[traced], count, NULL), SG_OK);
        sg_walker_close(w);
        o.api->close(o.device);
    }
    assert_memory_equal(values[0], values[1], count * sizeof(double));
    reading r;
    read_trace(path, &r);
    assert_int_equal(r.ops, launches_of(t));
    assert_true(r.tracks[COMPUTE].sum > 0 && r.tracks[COMPUTE].sum <= r.tracks[PHASES].sum);
    assert_true(last_end(&r.tracks[COMPUTE]) <= last_end(&r.tracks[PHASES]));
    clear(&r);
    free(values[0]);
    free(values[1]);
    (void)remove(path);
    sg_training_free(t);
    sg_scratch_free(&scratch);
}

/* No folder, no trace, and the walker goes on; nor does a failing device leave anything behind. */
static void test_failures(void **state) {
    (void)state;
    sg_scratch scratch = sg_scratch_new();
    char path[128], nowhere[160];
    (void)snprintf(path, sizeof path, "%s/trace.json", scratch.path);
    (void)snprintf(nowhere, sizeof nowhere, "%s/none/trace.json", scratch.path);
    sg_training *t = small(SG_SMALL_MLP, SG_DEVICE_CLASS_CUDA, 1);
    sg_machine m = machine_of("cuda");
    sg_device *d;
    assert_int_equal(sg_virtual_device()->open(&(sg_device_options){.machine = &m}, &d, NULL), SG_OK);
    for (int call = 0; call < SG_WATCH_ALL_REDUCE; call++)
        for (int64_t k = 1; k < 200; k += 1 + k / 3) {
            sg_watch watch = {0};
            sg_walk_options o = {.api = sg_watch_api(), .device = sg_watch_open(&watch, sg_virtual_device(), d)};
            sg_walker *w;
            sg_status status;
            if (sg_walker_open(t, &o, &w, &status)) fail_msg("%s", status.text);
            assert_int_equal(sg_walker_iteration(w, NULL, NULL), SG_OK);
            watch.fail_call = (sg_watch_call)call;
            watch.fail_code = SG_MACHINE;
            watch.fail_at = watch.calls[call] + k;
            sg_code code = sg_walker_trace(w, &(sg_trace_request){path, "x", 0}, &status);
            assert_int_equal(code, watch.calls[call] >= watch.fail_at ? SG_MACHINE : SG_OK);
            watch.fail_at = 0;
            assert_int_equal(sg_walker_iteration(w, NULL, NULL), SG_OK);
            assert_true(sg_walker_trace(w, &(sg_trace_request){nowhere, "x", 0}, &status) != SG_OK);
            assert_non_null(strstr(status.text, "none/trace.json"));
            sg_walker_close(w);
            assert_int_equal(watch.events, 0);
            sg_watch_close(o.device);
        }
    sg_virtual_device()->close(d);
    (void)remove(path);
    sg_training_free(t);
    sg_scratch_free(&scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_predicted_sums),
        cmocka_unit_test(test_captured),
        cmocka_unit_test(test_executed),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
