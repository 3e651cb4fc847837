/* measure.c: the measurement protocol, step by step as docs/measurement.md tells it. */
#include "sim/measure/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/clock.h"
#include "kernels/transport.h"
#include "sim/measure/agree.h"
#include "sim/measure/gpu_state.h"
#include "sim/measure/host_state.h"
#include "sim/measure/measure_loader.h"
#include "sim/measure/measure_profile.h"
#include "sim/measure/measure_ranks.h"
#include "sim/measure/measure_record.h"
#include "sim/walk/environment.h"
#include "sim/walk/trace.h"

/* Seconds within which all ranks must be there when a communicator is made, and answer each other later. */
static const double COMMUNICATOR_TIMEOUT_S = 60;

typedef struct session {
    const sg_training *training;
    const sg_device_api *api;
    const sg_measure_options *options;
    const sg_point_config *config;
    int ranks;
    sg_device *device;
    sg_device_info info;
    sg_comm *comm;
    void *ballot; /* device memory of one vote */
    sg_measured_loader real;
    sg_loader *loader; /* the real one, or one of synthetic batches */
    double own_s;      /* step without waiting for the loader, of the latest iteration of the warm-up */
    sg_environment *environment;
    sg_walker *walker;
    sg_record record;
    sg_host_state before;
    sg_gpu_watch *gpu;           /* NULL: no GPU, or its driver tells nothing */
    bool agreed;                 /* all ranks know that it failed, and where */
    double start_s, iteration_s; /* when it all began; wall time of the latest iteration, both halves */
    sg_step_times warm;          /* of the latest iteration of the warm-up */
    int64_t warmed;              /* iterations of the warm-up */
} session;

enum { BALLOT_BYTES = 512 };

/* ---- what a measurement needs ------------------------------------------------------------------------------------ */

static bool steps_of_kind(const sg_training *t, sg_step_kind kind) {
    for (size_t b = 0; b < t->n_blocks; b++)
        for (size_t s = 0; s < t->blocks[b].n_steps; s++)
            if (t->blocks[b].steps[s].kind == kind) return true;
    return false;
}

/* A GPU says itself when its memory is full. How much would have been enough is known without it. */
static sg_code explain_full_gpu(const session *s, sg_status *status) {
    uint64_t needed = 0;
    if (sg_training_reserved_bytes(s->training, s->ranks, &needed, NULL) != SG_OK || needed <= s->info.free_bytes)
        return SG_NO; /* refused for another reason, or a matter of fragments: the device's own words stay */
    int digits = s->info.free_bytes < UINT64_C(1) << 30 ? 3 : 1;
    return sg_fail(
        status, SG_NO,
        "batch %lld does not fit: needs %.*f GiB, %.*f GiB free on %s: take a smaller batch (--batch auto finds "
        "the largest), accumulate, or use a lower precision",
        (long long)s->training->batch, digits, (double)needed / 0x1p30, digits, (double)s->info.free_bytes / 0x1p30,
        s->info.name);
}

/* On host memory a training that does not fit ends in a killed process, not in an error: so it is asked before. */
static sg_code check_memory(const session *s, sg_status *status) {
    if (s->info.caching) return SG_OK;
    const sg_training *t = s->training;
    uint64_t needed = sg_training_peak_bytes(t), batch = 0, available = sg_host_available_bytes();
    for (size_t i = 0; i < t->n_inputs; i++)
        if (t->inputs[i].source != SG_INPUT_STORAGE) batch += sg_desc_span_bytes(&t->tensors[t->inputs[i].tensor].desc);
    int prefetch = s->options->prefetch > 0 ? s->options->prefetch : SG_PREFETCH;
    double total = (double)needed + (double)batch * (1 + (double)s->options->workers * prefetch);
    total *= s->ranks;
    if (!available || total <= (double)available) return SG_OK;
    return sg_fail(status, SG_NO, "%s with batch %lld needs %.1f GiB of memory here, %.1f GiB are free: take %s%s",
                   t->policy, (long long)t->batch, total / 0x1p30, (double)available / 0x1p30,
                   t->batch > 1 ? "a smaller batch" : "a smaller policy (inspect says what it needs)",
                   s->options->workers > 1 ? " or fewer loader workers" : "");
}

static sg_code open_device(session *s, sg_status *status) {
    const sg_device_options open = {.index = s->options->device_index,
                                    .threads = (int)s->config->threads,
                                    .host_s = s->options->host_s,
                                    .benchmark = !s->options->heuristic_conv,
                                    .library_dir = s->options->library_dir};
    sg_code code = s->api->open(&open, &s->device, status);
    if (!code) code = s->api->info(s->device, &s->info, status);
    return code ? code : check_memory(s, status);
}

static sg_code open_communicator(session *s, sg_status *status) {
    if (s->ranks == 1) return SG_OK;
    if (!s->api->comm_create)
        return sg_fail(status, SG_MACHINE, "device %s has no communicator: measure with one rank", s->info.kind);
    const sg_comm_options join = {.rank = s->options->rank,
                                  .ranks = s->ranks,
                                  .bootstrap = s->options->bootstrap,
                                  .timeout_s = COMMUNICATOR_TIMEOUT_S};
    sg_code code = s->api->comm_create(s->device, &join, &s->comm, status);
    return code ? code : s->api->segment_alloc(s->device, BALLOT_BYTES, &s->ballot, status);
}

static sg_code open_walker(session *s, sg_status *status) {
    const sg_training *t = s->training;
    const sg_measure_options *o = s->options;
    sg_code code = SG_OK;
    if (s->real.loader) {
        s->loader = s->real.loader;
        code = sg_loader_use_device(s->loader, s->api, s->device, status);
    } else if (steps_of_kind(t, SG_STEP_LOADER)) {
        sg_loader_options loader = sg_loader_options_of(t, o);
        loader.api = s->api;
        loader.device = s->device;
        code = sg_loader_open(&loader, &s->loader, status);
    }
    if (!code && steps_of_kind(t, SG_STEP_ENVIRONMENT)) {
        const sg_environment_options environment = {.env_step_s = 1e-6 * t->env_step_us,
                                                    .envs = t->envs > 0 ? t->envs : 1};
        code = sg_environment_open(&environment, &s->environment, status);
    }
    if (code) return code;
    const sg_walk_options walk = {.api = s->api,
                                  .device = s->device,
                                  .seed = o->seed,
                                  .rank = o->rank,
                                  .ranks = s->ranks,
                                  .comm = s->comm,
                                  .loader = s->loader,
                                  .environment = s->environment,
                                  .graph = o->graph,
                                  .placed_storages = strcmp(t->framework, "native") == 0 && !s->info.caching};
    return sg_walker_open(t, &walk, &s->walker, status);
}

/* "rank 1, GPU 1 (0000:41:00.0)", "" for one CPU. */
static void tell_where(const session *s, char *where, size_t bytes) {
    int n = s->ranks > 1 ? snprintf(where, bytes, "rank %d", s->options->rank) : 0;
    where[n] = '\0';
    if (strcmp(s->config->device, "cuda") != 0) return;
    (void)snprintf(where + n, bytes - (size_t)n, "%sGPU %d%s%.20s%s", n ? ", " : "", s->options->device_index,
                   s->info.bus[0] ? " (" : "", s->info.bus, s->info.bus[0] ? ")" : "");
}

/* One rank that cannot must not leave the others waiting for it. What it says of itself reaches all. */
static sg_code agree(session *s, sg_code code, sg_status *status) {
    if (s->ranks == 1) return code;
    char where[64];
    tell_where(s, where, sizeof where);
    if (code == SG_NO && s->info.caching) code = explain_full_gpu(s, status);
    if (code) code = sg_fail_in(status, "%s", where);
    code = sg_ranks_agree(s->options->bootstrap, code, status);
    if (code) s->agreed = true;
    return code;
}

static sg_code open_loader(session *s, sg_status *status) {
    if (s->options->catalogue && !steps_of_kind(s->training, SG_STEP_LOADER))
        return sg_fail(status, SG_BAD_INPUT, "%s has no data loader: measure it without a data set",
                       s->training->policy);
    return sg_measured_loader_open(s->training, s->options, &s->real, status);
}

static sg_code open_session(session *s, sg_status *status) {
    sg_code code = agree(s, open_loader(s, status), status);
    if (!code) code = agree(s, open_device(s, status), status);
    if (!code) code = agree(s, open_communicator(s, status), status);
    if (!code) code = agree(s, open_walker(s, status), status);
    return code;
}

/* A GPU that fell off the bus is why its calls fail: that is what is told then. */
static sg_code stop_watching(session *s, sg_gpu_conditions *conditions, sg_code code, sg_status *status) {
    sg_code lost = sg_gpu_watch_stop(s->gpu, &s->info, conditions, status);
    s->gpu = NULL;
    return lost ? lost : code;
}

/* Leaving NCCL in order waits for the others, who wait for this rank's exchange. On CPUs the communicator is the transport,
 * which the caller ends, with the reason. */
static void abort_comm(session *s) {
    if (s->comm && strcmp(s->info.kind, "cuda") == 0) s->api->comm_abort(s->device, s->comm);
}

static void close_session(session *s) {
    sg_walker_close(s->walker);
    sg_environment_close(s->environment);
    if (s->loader != s->real.loader) sg_loader_close(s->loader);
    sg_measured_loader_close(&s->real);
    if (s->ballot) s->api->segment_free(s->device, s->ballot, BALLOT_BYTES);
    if (s->comm) s->api->comm_destroy(s->device, s->comm);
    if (s->device) s->api->close(s->device);
    sg_record_clear(&s->record);
}

/* ---- decisions that all ranks take together ---------------------------------------------------------------------- */

/* The sum of all ranks' numbers. */
static sg_code vote(session *s, float mine, float *sum, sg_status *status) {
    *sum = mine;
    if (s->ranks == 1) return SG_OK;
    const sg_device_api *api = s->api;
    sg_code code = api->copy(s->device, s->ballot, &mine, sizeof mine, SG_COPY_TO_DEVICE, SG_STREAM_COMPUTE, status);
    if (!code) code = api->stream_wait(s->device, SG_STREAM_COMPUTE, status);
    if (!code) code = api->all_reduce_mean(s->device, s->comm, s->ballot, 1, SG_F32, status);
    if (!code) code = api->stream_wait(s->device, SG_STREAM_COLLECTIVE, status);
    if (!code) code = api->copy(s->device, sum, s->ballot, sizeof *sum, SG_COPY_TO_HOST, SG_STREAM_COMPUTE, status);
    if (!code) code = api->stream_wait(s->device, SG_STREAM_COMPUTE, status);
    *sum *= (float)s->ranks;
    return code;
}

static bool stop_asked(const session *s) {
    return s->options->stop && *s->options->stop;
}

static double elapsed_s(const session *s) {
    return sg_clock_s() - s->start_s;
}

enum { WITH_PROFILE = 2 }; /* an iteration, and one in which each op is timed */

/* Whether so many further iterations would pass the limit. */
static bool no_time_for(const session *s, double iterations) {
    double limit_s = s->options->time_limit_s;
    return s->ranks == 1 && limit_s > 0 && elapsed_s(s) + iterations * s->iteration_s > limit_s;
}

/* Enough is enough for this rank. */
static bool enough(const session *s) {
    const sg_measure_options *o = s->options;
    int64_t n = (int64_t)s->record.n, least = o->min_iterations > 0 ? o->min_iterations : 1;
    if (n > 0 && no_time_for(s, WITH_PROFILE)) return true;
    if (n < least) return false;
    if (o->max_iterations > 0 && n >= o->max_iterations) return true;
    /* the profile afterwards takes about one more iteration */
    if (o->time_budget_s > 0 && elapsed_s(s) + 2 * s->iteration_s > o->time_budget_s) return true;
    return n >= sg_measured_loader_least(&s->real) && o->tight > 0 && sg_record_spread(&s->record) <= o->tight;
}

/* Rank 0 decides when it is enough, any rank may have been interrupted. */
static sg_code decide(session *s, bool *done, bool *stopped, sg_status *status) {
    const float DONE = 1, STOPPED = 1024;
    float mine = (s->options->rank == 0 && enough(s) ? DONE : 0) + (stop_asked(s) ? STOPPED : 0), sum;
    sg_code code = vote(s, mine, &sum, status);
    *stopped = sum >= STOPPED;
    *done = sum >= DONE;
    return code;
}

/* ---- the protocol ------------------------------------------------------------------------------------------------ */

static void tell(const session *s, const char *what) {
    const sg_measure_options *o = s->options;
    if (!o->progress) return;
    double n = (double)s->record.n, least = o->min_iterations > 0 ? (double)o->min_iterations : 1;
    double fraction = n / fmax(least, o->max_iterations > 0 ? (double)o->max_iterations : least);
    if (o->time_budget_s > 0) fraction = fmax(fraction, elapsed_s(s) / o->time_budget_s);
    if (n < least) fraction = fmin(fraction, n / least);
    o->progress(o->user, fmin(fraction, 1), what);
}

static void tell_iteration(const session *s) {
    if (!s->options->progress) return;
    char what[160];
    sg_quantity main = sg_record_main(&s->record);
    sg_statistic q = sg_statistic_of(s->record.raw[main], s->record.n);
    (void)snprintf(what, sizeof what, "%s batch %lld: %zu iterations, %s %.4g s", s->training->policy,
                   (long long)s->training->batch, s->record.n, sg_quantity_name(main), q.median);
    tell(s, what);
}

static sg_code interrupted(sg_status *status) {
    return sg_fail(status, SG_MACHINE, "interrupted");
}

/* An iteration in which nobody waits for anybody, so that a rank that runs out of memory can say so. */
static sg_code try_alone(session *s, sg_status *status) {
    enum { UNTIL_SETTLED = 2 }; /* the optimizer's state is born in the middle of the first */
    if (s->ranks == 1) return SG_OK;
    sg_code code = SG_OK;
    sg_walker_set_communication(s->walker, false);
    for (int i = 0; i < UNTIL_SETTLED && !code; i++) code = sg_walker_iteration(s->walker, NULL, status);
    code = agree(s, code, status);
    sg_walker_set_communication(s->walker, true);
    return code;
}

/* A rank whose memory is full only now cannot say so to others who wait for its exchange: it ends, and they with it. */
static sg_code full_too_late(sg_status *status) {
    sg_status full = *status;
    return sg_fail(status, SG_MACHINE, "%.400s; it fitted before the ranks exchanged anything: take a smaller batch",
                   full.text);
}

/* The first iterations pay for pages, packed weights, first primitives; they are not counted. */
static sg_code warm_up(session *s, sg_status *status) {
    int64_t n = s->options->warmup > 1 ? s->options->warmup : 1;
    sg_code tried = try_alone(s, status);
    if (tried) return tried;
    for (int64_t i = 0; i < n; i++) {
        tell(s, "warming up");
        double start = sg_clock_s();
        sg_step_times times = {0};
        sg_code code = sg_walker_iteration(s->walker, &times, status);
        s->iteration_s = sg_clock_s() - start;
        s->own_s = times.preprocessing_s + times.update_s;
        s->warm = times;
        s->warmed++;
        bool done, stopped;
        if (!code) code = decide(s, &done, &stopped, status);
        if (code) return code;
        if (stopped) return interrupted(status);
        if (no_time_for(s, 1 + WITH_PROFILE)) break; /* one that counts is worth more than one that does not */
    }
    /* a peak of its own is not known of the only iteration that there is */
    if (!no_time_for(s, WITH_PROFILE)) sg_walker_reset_peak(s->walker);
    return SG_OK;
}

/* There is no time for a second one. */
static sg_code count_warm_up(session *s, sg_status *status) {
    s->warmed = 0;
    return sg_record_add(&s->record, &s->warm, NAN, status);
}

/* One counted iteration; with several ranks a second one without the exchange stands beside it. */
static sg_code one_iteration(session *s, sg_status *status) {
    sg_step_times times, local;
    double start = sg_clock_s(), local_update_s = NAN;
    sg_code code = sg_walker_iteration(s->walker, &times, status);
    if (!code && s->ranks > 1) {
        sg_walker_set_communication(s->walker, false);
        code = sg_walker_iteration(s->walker, &local, status);
        sg_walker_set_communication(s->walker, true);
        local_update_s = local.update_s;
    }
    if (!code) code = sg_record_add(&s->record, &times, local_update_s, status);
    s->iteration_s = sg_clock_s() - start;
    return code;
}

static sg_code count_iterations(session *s, bool *stopped, sg_status *status) {
    for (bool done = false; !done;) {
        sg_code code = one_iteration(s, status);
        if (!code) code = sg_measured_loader_between(&s->real, status);
        if (!code) code = decide(s, &done, stopped, status);
        if (code) return code;
        tell_iteration(s);
    }
    int64_t least = s->options->min_iterations > 0 && !no_time_for(s, WITH_PROFILE) ? s->options->min_iterations : 1;
    return *stopped && (int64_t)s->record.n < least ? interrupted(status) : SG_OK;
}

/* A few iterations in which each op is timed by itself. */
static sg_code profile(session *s, sg_point *p, sg_status *status) {
    double left_s = s->options->time_budget_s > 0 ? s->options->time_budget_s - elapsed_s(s) : INFINITY;
    /* ranks must agree on the number, and their clocks do not */
    bool all = s->ranks == 1 && left_s > 2 * SG_PROFILES_MOST * s->iteration_s;
    tell(s, "timing op classes");
    return sg_measure_profile(s->walker, s->training, all ? SG_PROFILES_MOST : 1, p, status);
}

static sg_code trace(session *s, sg_status *status) {
    char title[256];
    (void)snprintf(title, sizeof title, "%s as %s, batch %lld, measured on %s", s->training->policy,
                   s->training->framework, (long long)s->training->batch, s->info.name);
    const sg_trace_request request = {.path = s->options->rank == 0 ? s->options->trace : NULL, .title = title};
    tell(s, "tracing an iteration");
    return sg_walker_trace(s->walker, &request, status);
}

/* Rates that were not formed as the configuration says (bf16 products in fp32) must not be fitted. */
static bool rates_are_native(const session *s) {
    for (size_t i = 0; i < s->training->n_ops; i++) {
        int32_t compute = s->training->ops[i].attrs.compute;
        if (compute == SG_COMPUTE_BF16 && !s->info.bf16_native) return false;
        if (compute == SG_COMPUTE_F16 && !s->info.fp16_native) return false;
    }
    return true;
}

static sg_code run_protocol(session *s, sg_point *p, sg_status *status) {
    bool stopped = false;
    sg_code code = warm_up(s, status);
    bool cold = !code && no_time_for(s, WITH_PROFILE), hurried = !code && no_time_for(s, 2 + WITH_PROFILE);
    if (!code && !hurried)
        code = sg_measured_loader_settle(&s->real, s->own_s / fmax(1, (double)s->training->accumulation), status);
    if (code) return code;
    sg_host_state_read(&s->before);
    if (s->real.loader) s->before.own_s += sg_loader_processes_s(s->real.loader);
    sg_measured_loader_count(&s->real);
    s->gpu = sg_gpu_watch_start(&s->info);
    code = cold ? count_warm_up(s, status) : count_iterations(s, &stopped, status);
    code = stop_watching(s, &p->gpu, code, status);
    if (code) return code;
    sg_host_state after;
    sg_host_state_read(&after);
    if (s->real.loader) after.own_s += sg_loader_processes_s(s->real.loader);
    sg_measured_loader_tell(&s->real, (int64_t)s->record.n, p);
    sg_memory_peak peak;
    sg_walker_peak(s->walker, &peak);
    p->peak_allocated_bytes = peak.allocated_bytes;
    p->peak_reserved_bytes = peak.reserved_bytes;
    p->resident_bytes = sg_host_peak_resident_bytes();
    for (int c = 0; c < SG_CLASS_COUNT; c++) p->class_s[c] = NAN;
    if (!stopped && (code = profile(s, p, status))) return code;
    if (!stopped && s->options->trace && (code = trace(s, status))) return code;
    p->frame_s = s->loader && s->training->cameras > 0 ? sg_loader_frame_s(s->loader) : NAN;
    sg_record_finish(&s->record, p);
    sg_measured_loader_waits(p);
    p->warmup = s->warmed;
    p->fits_rates = rates_are_native(s);
    (void)snprintf(p->source, sizeof p->source, "measured");
    /* ranks that share these processors are no strangers */
    bool shared = s->ranks > 1 && sg_host_processors() > 1;
    sg_record_judge(p, &s->before, &after, shared ? s->ranks : 1);
    if (cold) {
        p->disturbed = true;
        (void)snprintf(p->disturbed_why, sizeof p->disturbed_why,
                       "the time allowed one iteration alone, the first: nothing was warm");
    }
    return s->ranks > 1 ? sg_measure_gather(s->options->bootstrap, p, status) : SG_OK;
}

static sg_code fail_measuring(const session *s, sg_status *status) {
    char where[64] = "";
    if (!s->agreed) tell_where(s, where, sizeof where); /* else it was told */
    return sg_fail_in(status, "measuring %s, batch %lld%s%s", s->training->policy, (long long)s->training->batch,
                      where[0] ? " on " : "", where);
}

sg_code sg_measure_training(const sg_training *training, const sg_device_api *api, const sg_point_config *config,
                            const sg_measure_options *options, sg_point *point, sg_status *status) {
    sg_status unheard;
    if (!status) status = &unheard;
    memset(point, 0, sizeof *point);
    point->config = *config;
    point->key = sg_point_key(config);
    session s = {.training = training,
                 .api = api,
                 .options = options,
                 .config = config,
                 .ranks = options->ranks > 0 ? options->ranks : 1,
                 .start_s = sg_clock_s()};
    sg_record_start(&s.record, training);
    sg_host_reset_peak_resident();
    sg_code code = open_session(&s, status);
    if (!code) code = run_protocol(&s, point, status);
    if (code == SG_NO && s.info.caching && !s.agreed) code = explain_full_gpu(&s, status);
    if (code == SG_NO && s.ranks > 1 && !s.agreed) code = full_too_late(status);
    if (code && !s.agreed) abort_comm(&s);
    close_session(&s);
    if (code) {
        sg_point_clear(point);
        memset(point, 0, sizeof *point);
        return fail_measuring(&s, status);
    }
    return SG_OK;
}
