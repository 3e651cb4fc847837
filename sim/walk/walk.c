/* walk.c: life of a walker, and the schedule. */
#include "sim/walk/walk.h"

#include <stdlib.h>

#include "kernels/clock.h"
#include "sim/loader/loader.h"
#include "sim/walk/environment.h"
#include "sim/walk/walk_internal.h"

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Median cost of reading the clock: sampled stretches contain one. */
static double clock_cost(void) {
    enum { N = 33 };
    double cost[N];
    for (int i = 0; i < N; i++) {
        double start = sg_clock_s();
        double c = sg_clock_s() - start;
        int k = i;
        for (; k > 0 && cost[k - 1] > c; k--) cost[k] = cost[k - 1];
        cost[k] = c;
    }
    return cost[N / 2];
}

static sg_code check_options(const sg_walk_options *o, sg_status *status) {
    if (!o->api || !o->device) return sg_fail(status, SG_BAD_INPUT, "walking: no device was given");
    if (o->ranks < 1 || o->rank < 0 || o->rank >= o->ranks)
        return sg_fail(status, SG_BAD_INPUT, "walking: rank %d of %d ranks", o->rank, o->ranks);
    if (o->ranks > 1 && (!o->comm || !o->api->all_reduce_mean))
        return sg_fail(status, SG_BAD_INPUT, "walking as rank %d of %d: no communicator was given", o->rank, o->ranks);
    return SG_OK;
}

static sg_code check_shards(const sg_training *t, const sg_walk_options *o, sg_status *status) {
    if (!t->n_shards) return SG_OK;
    if (t->shard_ranks != o->ranks)
        return sg_fail(status, SG_BAD_INPUT, "walking with %d ranks: %s was sharded for %lld", o->ranks, t->policy,
                       (long long)t->shard_ranks);
    if (!o->api->all_gather || !o->api->reduce_scatter_mean)
        return sg_fail(status, SG_NO, "this device cannot gather and scatter: use sharding none");
    return SG_OK;
}

static sg_code make_buckets(sg_walker *w, sg_status *status) {
    sg_code code = sg_buckets_make(w->training, w->options.buckets, &w->buckets, status);
    if (code) return code;
    w->bucket_block = calloc((size_t)w->buckets.n_buckets + 1, sizeof(sg_block *));
    if (!w->bucket_block) return sg_fail_memory(status, sizeof(sg_block *), "the gradient buckets");
    return sg_buckets_events(&w->buckets, w->api, w->device, status);
}

static sg_code open_walker(sg_walker *w, sg_status *status) {
    sg_code code = w->api->info(w->device, &w->info, status);
    if (code) return code;
    code = sg_allocator_open(w->api, w->device, w->info.caching ? SG_ALLOCATOR_CACHING : SG_ALLOCATOR_PLAIN,
                             &w->allocator, status);
    if (!code) code = w->api->event_create(w->device, &w->copy_begin, status);
    if (!code) code = w->api->event_create(w->device, &w->copy_end, status);
    if (!code && w->training->n_shards)
        code = sg_walk_open_slots(w, status);
    else if (!code && w->options.ranks > 1)
        code = make_buckets(w, status);
    if (!code) code = sg_walk_compile(w, status);
    if (!code && w->options.graph) code = sg_walk_graph_check(w, status);
    if (!code) code = sg_walk_prepare(w, status);
    if (!code) code = sg_walk_persist(w, status);
    for (int32_t i = 0; i < w->buckets.n_buckets && !code; i++) code = sg_walk_take_bucket(w, i, status);
    if (!code && w->options.placed_storages) code = sg_walk_place(w, status);
    return code;
}

sg_code sg_walker_open(const sg_training *training, const sg_walk_options *options, sg_walker **walker,
                       sg_status *status) {
    sg_status unheard;
    if (!status) status = &unheard;
    *walker = NULL;
    sg_walk_options o = *options;
    if (o.ranks == 0) o.ranks = 1;
    sg_code code = check_options(&o, status);
    if (!code) code = check_shards(training, &o, status);
    if (code) return code;
    sg_walker *w = calloc(1, sizeof *w);
    if (!w) return sg_fail_memory(status, sizeof *w, "the walker");
    w->training = training;
    w->options = o;
    w->api = o.api;
    w->device = o.device;
    w->step = 1;
    w->communicate = true;
    w->peak = (sg_memory_peak){.program = -1, .entry = -1, .module = -1};
    w->clock_cost_s = clock_cost();
    sg_phases_init(&w->phases, w->api, w->device);
    w->phases.passed = o.phase_passed;
    w->phases.user = o.user;
    code = open_walker(w, status);
    if (code) {
        sg_walker_close(w);
        return sg_fail_in(status, "opening %s", training->policy ? training->policy : "a training");
    }
    *walker = w;
    return SG_OK;
}

void sg_walker_close(sg_walker *w) {
    if (!w) return;
    (void)w->api->stream_wait(w->device, SG_STREAM_COPY, NULL);
    (void)w->api->stream_wait(w->device, SG_STREAM_COMPUTE, NULL);
    if (w->slot_events) (void)w->api->stream_wait(w->device, SG_STREAM_COLLECTIVE, NULL);
    sg_walk_graph_clear(w);
    sg_phases_clear(&w->phases);
    if (w->copy_begin) w->api->event_destroy(w->device, w->copy_begin);
    if (w->copy_end) w->api->event_destroy(w->device, w->copy_end);
    if (w->workspace) w->api->segment_free(w->device, w->workspace, w->workspace_bytes);
    if (w->prepared) w->api->plans_free(w->device, w->plans, w->n_ops);
    sg_walk_close_slots(w);
    sg_buckets_clear(&w->buckets, w->api, w->device);
    sg_allocator_close(w->allocator);
    sg_placement_clear(&w->placement);
    for (size_t i = 0; w->programs && i < w->training->n_programs; i++) free(w->programs[i].code);
    for (size_t i = 0; w->staging && i < w->training->n_inputs; i++) sg_walk_free_host(w, w->staging[i]);
    free(w->programs);
    free(w->staging);
    free(w->bucket_block);
    free(w->arguments);
    free(w->pointers);
    free(w->travels);
    free(w->plans);
    free(w->live);
    free(w->ops);
    free(w);
}

/* ---- the schedule ------------------------------------------------------------------------------------------------ */

static sg_code idle(sg_walker *w, double seconds, sg_status *status) {
    return seconds > 0 ? w->api->host_idle(w->device, seconds, status) : SG_OK;
}

/* The next batch. Without a loader it is there at once: making it belongs to no phase. */
static sg_code next_batch(sg_walker *w, sg_status *status) {
    sg_code code = SG_OK;
    if (!w->options.loader) {
        sg_phases_pause(&w->phases);
        code = sg_walk_draw(w, status);
        sg_phases_resume(&w->phases);
        return code;
    }
    if (w->copies_in_flight) { /* the batch before is given back to the loader */
        code = w->api->stream_wait(w->device, SG_STREAM_COPY, status);
        w->copies_in_flight = false;
    }
    sg_phases_enter(&w->phases, SG_PHASE_DATALOADING);
    double wait_s = 0;
    if (!code) code = sg_loader_next(w->options.loader, w->phases.last, &w->batch, &wait_s, status);
    if (!code) code = idle(w, wait_s, status);
    if (!w->batch) w->batch = w->staging;
    sg_phases_enter(&w->phases, SG_PHASE_OTHER);
    w->draws++;
    return code;
}

/* Without an environment object the training's own figure passes on devices whose clock can be moved; where ops really
 * run, the environment then costs nothing. */
static sg_code environment(sg_walker *w, int64_t env_steps, sg_status *status) {
    sg_code code = SG_OK;
    sg_phases_enter(&w->phases, SG_PHASE_ENVIRONMENT);
    double wait_s = 1e-6 * w->training->env_step_us * (double)env_steps;
    if (w->options.environment) {
        code = sg_environment_step(w->options.environment, env_steps, &wait_s, status);
        if (!code) code = idle(w, wait_s, status);
    } else if (!w->info.executes) {
        code = idle(w, wait_s, status);
    }
    sg_phases_enter(&w->phases, SG_PHASE_OTHER);
    if (code) return code;
    sg_phases_pause(&w->phases); /* new observations */
    code = sg_walk_draw(w, status);
    sg_phases_resume(&w->phases);
    return code;
}

static bool collects(const sg_block *block) {
    for (size_t i = 0; i < block->n_steps; i++)
        if (block->steps[i].kind == SG_STEP_ENVIRONMENT) return true;
    return false;
}

static sg_code run_step(sg_walker *w, const sg_schedule_step *step, bool collecting, sg_status *status) {
    switch (step->kind) {
    case SG_STEP_LOADER: return next_batch(w, status);
    case SG_STEP_ENVIRONMENT: return environment(w, step->env_steps, status);
    default: break;
    }
    if (collecting) sg_phases_enter(&w->phases, SG_PHASE_INFERENCE);
    sg_code code = sg_walk_run(w, (size_t)step->index, status);
    if (collecting) sg_phases_enter(&w->phases, SG_PHASE_OTHER);
    return code;
}

static sg_code run_schedule(sg_walker *w, sg_status *status) {
    for (size_t b = 0; b < w->training->n_blocks; b++) {
        const sg_block *block = &w->training->blocks[b];
        w->phases.collecting = collects(block);
        for (int64_t r = 0; r < block->repeat; r++)
            for (size_t s = 0; s < block->n_steps; s++) {
                sg_code code = run_step(w, &block->steps[s], w->phases.collecting, status);
                if (code) return code;
            }
        sg_phases_enter(&w->phases, w->phases.phase);
    }
    return SG_OK;
}

sg_code sg_walker_iteration(sg_walker *w, sg_step_times *times, sg_status *status) {
    sg_status unheard;
    if (!status) status = &unheard;
    sg_step_times all = {0};
    sg_walk_release_kept(w);
    sg_phases_start(&w->phases);
    sg_code code = run_schedule(w, status);
    /* Events recorded after the program's last wait may not have happened yet; no clock is running any more. What a framework
     * leaves in flight here would end in the next step's time; there is nothing where the last read comes after the optimizer. */
    if (!code) code = w->api->stream_wait(w->device, SG_STREAM_COMPUTE, status);
    if (!code) w->work_in_flight = w->copies_in_flight = false;
    if (!code) code = sg_phases_finish(&w->phases, &all, status);
    if (code) {
        sg_walk_abandon(w);
        return code;
    }
    if (times) *times = all;
    return SG_OK;
}

sg_code sg_walker_profile(sg_walker *w, const sg_op_profile *profile, sg_status *status) {
    for (size_t i = 0; i < w->training->n_ops; i++) profile->seconds[i] = profile->runs[i] = 0;
    w->profile = profile;
    sg_code code = sg_walker_iteration(w, NULL, status);
    w->profile = NULL;
    return code;
}

sg_code sg_walker_program(sg_walker *w, size_t program, sg_status *status) {
    sg_status unheard;
    if (!status) status = &unheard;
    if (program >= w->training->n_programs)
        return sg_fail(status, SG_BAD_INPUT, "program %zu of %zu", program, w->training->n_programs);
    sg_walk_release_kept(w);
    sg_phases_start(&w->phases);
    sg_code code = sg_walk_run(w, program, status);
    if (code) sg_walk_abandon(w);
    return code;
}

const struct sg_mark_event *sg_walker_marks(const sg_walker *w, size_t *n) {
    *n = w->phases.n_events;
    return w->phases.events;
}

void sg_walker_set_communication(sg_walker *w, bool on) {
    w->communicate = on;
}

double sg_walker_own_s(const sg_walker *w) {
    return w->own_s;
}

uint64_t sg_walker_visit_hash(const sg_walker *w) {
    return w->visit_hash;
}

void sg_walker_trim(sg_walker *w) {
    sg_allocator_trim(w->allocator);
}
