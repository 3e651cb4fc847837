/* bench: the ceilings of this machine's devices, one benchmark at a time. */
#include "cli/bench_ops.h"
#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/device_choice.h"
#include "cli/interrupt.h"
#include "cli/world.h"
#include "kernels/nearest.h"
#include "models/policy.h"
#include "sim/files/run_file.h"
#include "sim/measure/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double DEFAULT_BUDGET_S = 60, DECODE_BUDGET_S = 30;

typedef struct session {
    const sg_args *args;
    sg_world world;
    sg_bench_report report;
    sg_bench_options options;
    sg_run_writer *writer;
    sg_progress progress;
    const volatile int *stop;
    bool interrupted;
} session;

/* ---- what was asked for ------------------------------------------------------------------------------------------ */

static sg_code kind_of(const sg_args *args, sg_bench_kind *kind, sg_status *status) {
    const char *known[SG_BENCH_KINDS];
    for (int k = 0; k < SG_BENCH_KINDS; k++) known[k] = sg_bench_name((sg_bench_kind)k);
    if (args->positional.n == 0)
        return sg_fail(status, SG_BAD_INPUT,
                       "bench what? gemm, memory, copy, launch, collective, decode or ops, such as 'stepgauge "
                       "bench gemm'");
    if (args->positional.n > 1)
        return sg_fail(status, SG_BAD_INPUT, "'bench' runs one benchmark at a time, '%.32s' is one too many",
                       args->positional.value[1]);
    for (int k = 0; k < SG_BENCH_KINDS; k++) {
        if (strcmp(args->positional.value[0], known[k]) != 0) continue;
        *kind = (sg_bench_kind)k;
        return SG_OK;
    }
    const char *near = sg_nearest(args->positional.value[0], known, SG_BENCH_KINDS);
    return sg_fail(
        status, SG_BAD_INPUT,
        "there is no benchmark '%.64s'%s%s%s; there are gemm, memory, copy, launch, collective, decode and ops",
        args->positional.value[0], near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Options that would change nothing for this benchmark are refused, as other commands refuse what they do not take. */
static sg_code check_options(const sg_args *a, sg_bench_kind kind, sg_status *status) {
    const char *name = sg_bench_name(kind);
    if (kind == SG_BENCH_DECODE && (a->device || a->cuda_libs))
        return sg_fail(status, SG_BAD_INPUT,
                       "'bench decode' takes no --device and no --cuda-libs: frames are decoded on the processor");
    if (a->ranks.n && kind != SG_BENCH_COLLECTIVE)
        return sg_fail(status, SG_BAD_INPUT,
                       "'bench %s' runs on one device: --ranks and --gpus are for 'bench collective'", name);
    if (a->precision && kind != SG_BENCH_GEMM && kind != SG_BENCH_COLLECTIVE)
        return sg_fail(status, SG_BAD_INPUT, "'bench %s' takes no --precision: it is for gemm and collective", name);
    if (a->sizes.n && kind == SG_BENCH_LAUNCH)
        return sg_fail(status, SG_BAD_INPUT, "'bench launch' takes no --sizes: it launches the smallest op");
    if (a->machine && kind != SG_BENCH_GEMM)
        return sg_fail(status, SG_BAD_INPUT, "'bench %s' takes no --machine: the data sheet is for gemm's ceiling",
                       name);
    return SG_OK;
}

static sg_code check_ops_options(const sg_args *a, sg_status *status) {
    if (!a->ranks.n && !a->precision && !a->sizes.n && !a->machine) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT,
                   "'bench ops' takes no --ranks, --gpus, --precision, --sizes or --machine: it times the operations "
                   "of training steps as they are on one device");
}

/* "fp32,bf16" */
static sg_code precisions_of(const char *text, sg_bench_options *options, sg_status *status) {
    for (const char *at = text; at && *at;) {
        char name[32];
        size_t n = strcspn(at, ",");
        if (options->n_precisions == SG_BENCH_PRECISIONS)
            return sg_fail(status, SG_BAD_INPUT, "--precision '%.64s': more than %d", text, SG_BENCH_PRECISIONS);
        (void)snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : (int)sizeof name - 1, at);
        sg_code code = sg_bench_precision_of(name, &options->precision[options->n_precisions++], status);
        if (code) return sg_fail_in(status, "--precision");
        at += n;
        if (*at == ',' && !*++at) return sg_fail(status, SG_BAD_INPUT, "--precision '%.64s' ends with a comma", text);
    }
    return SG_OK;
}

static void show_progress(void *user, double fraction, const char *what) {
    sg_progress_show(user, fraction, what);
}

static sg_code set_options(session *s, sg_status *status) {
    const sg_args *a = s->args;
    s->options = (sg_bench_options){
        .threads = a->threads > 0       ? (int)a->threads
                   : s->world.ranks > 1 ? sg_share_of_processors(s->world.ranks)
                                        : 0,
        .sizes = a->sizes.value,
        .n_sizes = a->sizes.n,
        .time_budget_s = a->time_budget_s > 0                ? a->time_budget_s
                         : s->report.kind == SG_BENCH_DECODE ? DECODE_BUDGET_S
                                                             : DEFAULT_BUDGET_S,
        .tight = 0.02,
        .min_iterations = a->min_iterations > 0 ? a->min_iterations : 5,
        .max_iterations = 1000,
        .rank = s->world.rank,
        .ranks = s->world.ranks,
        .bootstrap = s->world.transport,
        .library_dir = a->cuda_libs,
        .stop = s->stop,
        .progress = s->world.rank == 0 ? show_progress : NULL,
        .user = &s->progress,
    };
    return precisions_of(a->precision, &s->options, status);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Moves what the bench holds into the report and the run file. */
static sg_code take(session *s, const sg_bench *b, sg_status *status) {
    sg_bench_report *r = &s->report;
    sg_micro *micros = reallocarray(r->micros, r->n_micros + b->n_micros + 1, sizeof *micros);
    if (micros) r->micros = micros;
    sg_bench_omission *omissions = reallocarray(r->omissions, r->n_omissions + b->n_omissions + 1, sizeof *omissions);
    if (omissions) r->omissions = omissions;
    if (!micros || !omissions) return sg_fail_memory(status, (r->n_micros + b->n_micros) * sizeof *micros, "results");
    for (size_t i = 0; i < b->n_micros; i++) r->micros[r->n_micros++] = b->micros[i];
    for (size_t i = 0; i < b->n_omissions; i++) {
        r->omissions[r->n_omissions++] = b->omissions[i];
        if (b->omissions[i].answer && (s->args->sizes.n || s->args->precision)) r->no = true;
    }
    if (r->n_devices < SG_BENCH_DEVICES) r->device[r->n_devices++] = b->info;
    return s->writer ? sg_run_writer_append_micros(s->writer, b->micros, b->n_micros, status) : SG_OK;
}

static sg_code run_on(session *s, const char *name, bool *here, sg_status *status) {
    const sg_device_api *api;
    sg_bench bench;
    *here = false;
    const sg_device_choice choice = {
        .device = name, .device_class = strcmp(name, "cuda") == 0 ? SG_DEVICE_CLASS_CUDA : SG_DEVICE_CLASS_CPU};
    sg_code code = sg_device_ready(&choice, 1, status);
    if (!code) code = sg_module_device(name, &api, status);
    if (code) return code;
    code = sg_bench_open(api, &s->options, &bench, status);
    *here = code == SG_OK;
    if (!code) code = sg_bench_run(&bench, s->report.kind, status);
    if (bench.interrupted) s->interrupted = true;
    /* what was measured before a failure is kept; the failure is what is told */
    sg_status unkept;
    sg_code kept = *here ? take(s, &bench, code ? &unkept : status) : SG_OK;
    sg_bench_close(&bench);
    return code ? code : kept;
}

/* Frames are decoded by the host whatever devices there are. */
static sg_code run_host(session *s, sg_status *status) {
    sg_bench bench;
    sg_bench_open_host(s->report.machine.cpu, &s->options, &bench);
    sg_code code = sg_bench_run(&bench, s->report.kind, status);
    if (bench.interrupted) s->interrupted = true;
    sg_status unkept;
    sg_code kept = take(s, &bench, code ? &unkept : status);
    sg_bench_close(&bench);
    return code ? code : kept;
}

/* Collectives run on the device that a measurement would take, each rank on its own. */
static sg_code run_ranks(session *s, sg_status *status) {
    sg_device_choice choice;
    bool here;
    sg_code code = sg_device_choose(s->args, &choice, status);
    if (code) return code;
    s->options.index = choice.device_class == SG_DEVICE_CLASS_CUDA ? s->world.local_rank : 0;
    return run_on(s, choice.device, &here, status);
}

/* The device that was named, or all that are here: the first is what the others are compared with. */
static sg_code run_all(session *s, sg_status *status) {
    static const char *const kinds[SG_BENCH_DEVICES] = {"cpu", "cuda"};
    bool here;
    if (s->report.kind == SG_BENCH_COLLECTIVE) return run_ranks(s, status);
    if (s->report.kind == SG_BENCH_DECODE) return run_host(s, status);
    if (s->args->device) return run_on(s, s->args->device, &here, status);
    sg_code code = run_on(s, kinds[0], &here, status);
    if (code || s->interrupted) return code;
    sg_status reason = {0};
    code = run_on(s, kinds[1], &here, &reason);
    if (!code) return SG_OK;
    if (here) return sg_fail(status, code, "%s: %s", kinds[1], reason.text);
    (void)snprintf(s->report.missing, sizeof s->report.missing, "no %s device: %.900s", kinds[1], reason.text);
    return SG_OK;
}

static int show(session *s) {
    int result = s->interrupted ? SG_EXIT_INTERRUPTED : s->report.no ? SG_NO : SG_OK;
    sg_progress_end(&s->progress);
    if (s->world.rank != 0) return result;
    if (s->interrupted) fprintf(stderr, "stepgauge: interrupted; what was measured is kept\n");
    if (s->args->json) return sg_json_print(sg_json_bench(&s->report), result);
    sg_print_bench(&s->report);
    return result;
}

static int bench_here(session *s) {
    sg_status status;
    sg_machine_describe(&s->report.machine);
    s->report.is_rank = s->world.ranks > 1;
    sg_code code = set_options(s, &status);
    if (!code && s->args->output && s->world.rank == 0)
        code = sg_run_writer_open(s->args->output, &s->report.machine, &s->writer, &status);
    s->progress = sg_progress_start(s->args);
    if (!code) code = run_all(s, &status);
    if (code && s->interrupted) code = SG_OK;
    sg_run_writer_close(s->writer);
    sg_progress_end(&s->progress);
    int result = code ? (int)code : show(s);
    if (code && sg_world_speaks(&s->world)) result = sg_show_error(s->args, &status);
    if (code) sg_world_fail(&s->world, status.text); /* else the others wait for its exchange */
    free(s->report.micros);
    free(s->report.omissions);
    return result;
}

/* ---- ranks that this process starts ------------------------------------------------------------------------------ */

static bool was_asked_for(const sg_args *a, const sg_micro *m) {
    if (strcmp(m->config.bench, sg_bench_name(SG_BENCH_COLLECTIVE)) != 0) return false;
    for (size_t i = 0; i < a->ranks.n; i++)
        if (a->ranks.value[i] == m->config.ranks) return true;
    return false;
}

/* The device as the records tell of it: the ranks that knew more are gone. */
static sg_device_info device_of(const sg_micro *m) {
    sg_device_info info = {.units = (int)m->config.threads};
    (void)snprintf(info.kind, sizeof info.kind, "%s", m->config.device);
    (void)snprintf(info.name, sizeof info.name, "%s", m->config.device_name);
    (void)snprintf(info.library, sizeof info.library, "%s", m->library);
    (void)snprintf(info.driver, sizeof info.driver, "%s", m->driver);
    return info;
}

static int show_collectives(const sg_args *args, const sg_run *run, int result) {
    sg_bench_report report = {.kind = SG_BENCH_COLLECTIVE, .args = args, .machine = run->machine};
    report.micros = calloc(run->n_micros + 1, sizeof *report.micros);
    if (!report.micros) return SG_MACHINE;
    for (size_t i = 0; i < run->n_micros; i++)
        if (was_asked_for(args, &run->micros[i])) report.micros[report.n_micros++] = run->micros[i];
    if (report.n_micros) report.device[report.n_devices++] = device_of(&report.micros[0]);
    if (args->json)
        result = sg_json_print(sg_json_bench(&report), result);
    else
        sg_print_bench(&report);
    free(report.micros);
    return result;
}

static sg_code join_ranks(session *s, sg_status *status) {
    const sg_args *a = s->args;
    sg_bench_options wanted = {0};
    sg_code code = precisions_of(a->precision, &wanted, status);
    for (size_t p = 0; !code && p < wanted.n_precisions; p++)
        if (wanted.precision[p].dtype == SG_F16)
            code = sg_fail(status, SG_BAD_INPUT, "--precision fp16: collectives are made in fp32 or bf16");
    if (code) return code;
    for (size_t i = 0; i < a->ranks.n; i++)
        if (a->ranks.value[i] < 2)
            return sg_fail(status, SG_BAD_INPUT,
                           "a collective of %lld rank moves nothing: give --ranks or --gpus 2 or more",
                           (long long)a->ranks.value[i]);
    code = sg_world_join(a, &s->world, status);
    if (!code && !s->world.must_launch && s->world.ranks < 2)
        return sg_fail(status, SG_BAD_INPUT, "'bench collective' needs at least two ranks: give --ranks 2 or --gpus 2");
    return code;
}

int sg_cmd_bench(const sg_args *args) {
    sg_status status;
    session s = {.args = args, .stop = sg_interrupt_flag()};
    s.report.args = args;
    if (args->positional.n == 1 && strcmp(args->positional.value[0], "ops") == 0) {
        sg_code refused = check_ops_options(args, &status);
        return refused ? sg_show_error(args, &status) : sg_bench_ops(args);
    }
    sg_code code = kind_of(args, &s.report.kind, &status);
    if (!code) code = check_options(args, s.report.kind, &status);
    if (!code && s.report.kind == SG_BENCH_COLLECTIVE) code = join_ranks(&s, &status);
    if (code) return sg_show_error(args, &status);
    if (s.report.kind != SG_BENCH_COLLECTIVE) s.world.ranks = 1;
    int result = s.world.must_launch ? sg_world_launch(args, s.stop, show_collectives) : bench_here(&s);
    if (result == SG_OK || result == SG_NO || result == SG_EXIT_INTERRUPTED) sg_world_leave(&s.world);
    return result;
}
