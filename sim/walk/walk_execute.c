/* walk_execute.c: runs one compiled program. The inner loop of every measurement: its own cost per entry is what
 * sg_walker_own_s estimates. */
#include <stdlib.h>
#include <string.h>

#include "kernels/clock.h"
#include "sim/walk/trace_internal.h"
#include "sim/walk/walk_internal.h"

static const uint64_t FNV_PRIME = 0x100000001b3u;

/* One stretch between launches in so many is timed: prime, so that no period of a program stays in step with it. */
enum { SAMPLING = 17 };

/* ---- own time ---------------------------------------------------------------------------------------------------- */

static void gap_end(sg_walker *w, bool counts) {
    double gap = sg_clock_s() - w->gap_start - w->gap_device_s - w->clock_cost_s;
    if (counts && gap > 0) w->own_s += gap * SAMPLING;
    w->gap_open = false;
    sg_allocator_time_device(w->allocator, NULL);
}

static void gap_begin(sg_walker *w) {
    w->gap_open = true;
    w->gap_device_s = 0;
    sg_allocator_time_device(w->allocator, &w->gap_device_s);
    w->gap_start = sg_clock_s();
}

sg_code sg_walk_host(sg_walker *w, int host_class, int64_t count, sg_status *status) {
    sg_code code = sg_walk_trace_begin(w, SG_TRACE_HOST, -1, host_class, status);
    if (!code) code = w->api->host_work(w->device, (sg_host_class)host_class, count, status);
    return code ? code : sg_walk_trace_end(w, status);
}

static sg_code host_work(sg_walker *w, int host_class, int32_t count, sg_status *status) {
    if (w->trace) return sg_walk_host(w, host_class, count, status);
    if (!w->gap_open) return w->api->host_work(w->device, (sg_host_class)host_class, count, status);
    double start = sg_clock_s();
    sg_code code = w->api->host_work(w->device, (sg_host_class)host_class, count, status);
    w->gap_device_s += sg_clock_s() - start;
    return code;
}

/* ---- ops --------------------------------------------------------------------------------------------------------- */

/* The device's own seconds where it tells them, else host seconds from an empty stream to an empty stream. */
static sg_code launch_timed(sg_walker *w, size_t op, const sg_launch *how, sg_status *status) {
    const sg_device_api *api = w->api;
    double *sum = &w->profile->seconds[op], seconds = 0;
    w->profile->runs[op]++;
    sg_code code = api->stream_wait(w->device, SG_STREAM_COMPUTE, status);
    if (!code && api->launch_timed) {
        code = api->launch_timed(w->device, w->plans[op], SG_STREAM_COMPUTE, w->pointers, w->workspace, how, &seconds,
                                 status);
        *sum += code ? 0 : seconds;
        return code;
    }
    double start = api->now(w->device);
    if (!code) code = api->launch(w->device, w->plans[op], SG_STREAM_COMPUTE, w->pointers, w->workspace, how, status);
    if (!code) code = api->stream_wait(w->device, SG_STREAM_COMPUTE, status);
    *sum += api->now(w->device) - start;
    return code;
}

static sg_code launch_traced(sg_walker *w, size_t op, const sg_launch *how, sg_status *status) {
    sg_code code = sg_walk_trace_begin(w, SG_TRACE_OP, SG_STREAM_COMPUTE, (int32_t)op, status);
    if (!code)
        code = w->api->launch(w->device, w->plans[op], SG_STREAM_COMPUTE, w->pointers, w->workspace, how, status);
    w->work_in_flight = true;
    return code ? code : sg_walk_trace_end(w, status);
}

static sg_code launch(sg_walker *w, size_t op, const sg_launch *how, sg_status *status) {
    if (w->gap_open) gap_end(w, true);
    /* copies into gradient buckets are no ops of the training: a profile has no place for them */
    if (w->profile && op < w->training->n_ops) return launch_timed(w, op, how, status);
    if (w->trace) return launch_traced(w, op, how, status);
    sg_code code = w->api->launch(w->device, w->plans[op], SG_STREAM_COMPUTE, w->pointers, w->workspace, how, status);
    w->work_in_flight = true;
    if (++w->launches % SAMPLING == 0) gap_begin(w);
    return code ? sg_fail_in(status, "op %s", sg_op_kind_name((sg_op_kind)w->ops[op].kind)) : SG_OK;
}

static sg_code run_op(sg_walker *w, const sg_instruction *in, uint32_t run, sg_status *status) {
    sg_code code = SG_OK;
    if (in->host_count) code = host_work(w, in->host_class, in->host_count, status);
    const sg_argument *argument = &w->arguments[in->first];
    bool dead = false;
    for (uint32_t k = 0; k < in->n_args; k++) {
        char *address = w->live[argument[k].storage].address;
        dead |= !address;
        w->pointers[k] = address + argument[k].offset_bytes;
    }
    if (code) return code;
    if (dead) return sg_fail(status, SG_BAD_INPUT, "an argument is not live");
    const sg_launch how = {.seed = w->options.seed,
                           .step = w->options.fixed_random && !in->optimizer_step ? 1 : w->step,
                           .salt = in->salt + run,
                           .sample_offset = in->samples * w->options.rank};
    return launch(w, (size_t)in->index, &how, status);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* The copy stream waits for compute first: the memory it writes may have been another tensor's until just now. */
static sg_code run_copy(sg_walker *w, const sg_instruction *in, sg_status *status) {
    const sg_training *t = w->training;
    const sg_tensor *x = &t->tensors[t->inputs[in->index].tensor];
    char *to = w->live[x->storage].address;
    const void *from = w->batch[in->index];
    if (!to) return sg_fail(status, SG_BAD_INPUT, "input %s is not live", t->inputs[in->index].name);
    if (!from && w->info.executes)
        return sg_fail(status, SG_BAD_INPUT, "input %s: no batch was loaded", t->inputs[in->index].name);
    const sg_device_api *api = w->api;
    sg_code code = api->event_record(w->device, w->copy_begin, SG_STREAM_COMPUTE, status);
    if (!code) code = api->event_wait(w->device, w->copy_begin, SG_STREAM_COPY, status);
    if (!code) code = sg_walk_trace_begin(w, SG_TRACE_COPY, SG_STREAM_COPY, in->index, status);
    if (!code)
        code = api->copy(w->device, to + x->offset_bytes, from, sg_desc_span_bytes(&x->desc), SG_COPY_TO_DEVICE,
                         SG_STREAM_COPY, status);
    if (!code) code = sg_walk_trace_end(w, status);
    if (!code) code = api->event_record(w->device, w->copy_end, SG_STREAM_COPY, status);
    if (!code) code = api->event_wait(w->device, w->copy_end, SG_STREAM_COMPUTE, status);
    w->copies_in_flight = w->work_in_flight = true;
    return code;
}

/* The parts of a recording are not timed: it has no events that could be read. */
sg_code sg_walk_mark(sg_walker *w, int which, sg_status *status) {
    return w->recording ? SG_OK : sg_phases_mark(&w->phases, which, status);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static sg_code copy_part(sg_walker *w, size_t parameter, bool back, sg_status *status) {
    const sg_bucket_part *part = &w->buckets.part[parameter];
    char *gradient = w->live[part->storage].address;
    if (!gradient)
        return sg_fail(status, SG_BAD_INPUT, "gradient of %s is not live", w->training->parameters[parameter].name);
    char *inside = (char *)sg_block_address(w->bucket_block[part->bucket]) + part->offset_bytes;
    gradient += part->gradient_offset_bytes;
    w->pointers[0] = back ? inside : gradient;
    w->pointers[1] = back ? gradient : inside;
    sg_code code = host_work(w, SG_HOST_OP_BACKWARD, 1, status);
    const sg_launch how = {.seed = w->options.seed, .step = w->step};
    return code ? code : launch(w, w->training->n_ops + (size_t)part->op, &how, status);
}

static sg_code bucket_leaves(sg_walker *w, int32_t index, sg_status *status) {
    if (!w->communicate) return SG_OK;
    const sg_device_api *api = w->api;
    sg_bucket *b = &w->buckets.bucket[index];
    sg_code code = api->event_record(w->device, b->ready, SG_STREAM_COMPUTE, status);
    if (!code) code = api->event_wait(w->device, b->ready, SG_STREAM_COLLECTIVE, status);
    if (!code) code = sg_walk_trace_begin(w, SG_TRACE_ALL_REDUCE, SG_STREAM_COLLECTIVE, index, status);
    if (!code)
        code = api->all_reduce_mean(w->device, w->options.comm, sg_block_address(w->bucket_block[index]), b->count,
                                    b->dtype, status);
    if (!code) code = sg_walk_trace_end(w, status);
    if (!code) code = api->event_record(w->device, b->done, SG_STREAM_COLLECTIVE, status);
    return code ? sg_fail_in(status, "gradient bucket %d of %d", index, w->buckets.n_buckets) : SG_OK;
}

static sg_code run_ready(sg_walker *w, const sg_instruction *in, sg_status *status) {
    if (!w->buckets.n_buckets) return SG_OK;
    int32_t index = w->buckets.part[in->index].bucket;
    if (index < 0) return SG_OK;
    sg_bucket *b = &w->buckets.bucket[index];
    if (b->waiting == 0)
        return sg_fail(status, SG_BAD_INPUT, "gradient of %s is ready twice", w->training->parameters[in->index].name);
    sg_code code = copy_part(w, (size_t)in->index, false, status);
    if (!code && --b->waiting == 0) code = bucket_leaves(w, index, status);
    return code;
}

static sg_code run_sync(sg_walker *w, sg_status *status) {
    if (!w->buckets.n_buckets) return SG_OK;
    sg_code code = sg_walk_mark(w, SG_MARK_SYNC_BEGIN, status);
    for (int32_t i = 0; i < w->buckets.n_buckets && !code; i++) {
        if (w->buckets.bucket[i].waiting)
            return sg_fail(status, SG_BAD_INPUT, "gradient bucket %d still waits for %d gradients", i,
                           w->buckets.bucket[i].waiting);
        if (w->communicate) code = w->api->event_wait(w->device, w->buckets.bucket[i].done, SG_STREAM_COMPUTE, status);
    }
    if (!code) code = sg_walk_mark(w, SG_MARK_SYNC_END, status);
    for (size_t i = 0; i < w->training->n_parameters && !code; i++)
        if (w->buckets.part[i].bucket >= 0) code = copy_part(w, i, true, status);
    sg_buckets_reset(&w->buckets);
    return code;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

sg_code sg_walk_wait(sg_walker *w, sg_status *status) {
    if (w->recording) {
        w->recording->waits++;
        return SG_OK;
    }
    sg_code code = sg_walk_trace_begin(w, SG_TRACE_WAIT, -1, 0, status);
    if (!code) code = w->api->stream_wait(w->device, SG_STREAM_COMPUTE, status);
    if (!code) code = sg_walk_trace_end(w, status);
    /* compute waited for the copies, and the host for compute */
    w->work_in_flight = w->copies_in_flight = false;
    return code ? code : sg_walk_host(w, SG_HOST_SYNC, 1, status);
}

static sg_code run_mark(sg_walker *w, int which, sg_status *status) {
    sg_code code = sg_walk_mark(w, which, status);
    if (!code && which == SG_MARK_OPTIMIZER) code = sg_walk_host(w, SG_HOST_OPTIMIZER, w->updated, status);
    return code;
}

/* A new peak of allocated memory was here. */
static void place_peak(sg_walker *w, size_t program, const sg_instruction *in) {
    if (w->peak.entry >= 0 || w->peak.allocated_bytes != w->allocated_bytes) return;
    const sg_entry *e = &w->training->programs[program].entries[in->entry];
    w->peak.program = (int32_t)program;
    w->peak.entry = in->entry;
    w->peak.module = e->module;
    w->peak.pass = e->pass;
}

static sg_code run_alloc(sg_walker *w, size_t program, const sg_instruction *in, sg_status *status) {
    sg_code code = sg_walk_alloc(w, in->index, status);
    if (!code) place_peak(w, program, in);
    return code;
}

static sg_code run_birth(sg_walker *w, size_t program, const sg_instruction *in, sg_status *status) {
    if (w->state_born) return SG_OK;
    sg_code code = sg_walk_give_birth(w, status);
    if (!code) place_peak(w, program, in);
    return code;
}

static sg_code run(sg_walker *w, size_t program, const sg_instruction *in, uint32_t run, sg_status *status) {
    switch (in->kind) {
    case SG_RUN_OP: return run_op(w, in, run, status);
    case SG_RUN_HOST: return in->host_count ? host_work(w, in->host_class, in->host_count, status) : SG_OK;
    case SG_RUN_ALLOC: return run_alloc(w, program, in, status);
    case SG_RUN_FREE: sg_walk_free(w, in->index); return SG_OK;
    default: break;
    }
    if (w->gap_open) gap_end(w, false); /* what follows is the device's */
    switch (in->kind) {
    case SG_RUN_WAIT: return sg_walk_wait(w, status);
    case SG_RUN_COPY: return run_copy(w, in, status);
    case SG_RUN_READY: return run_ready(w, in, status);
    case SG_RUN_SYNC: return run_sync(w, status);
    case SG_RUN_MARK: return run_mark(w, in->index, status);
    case SG_RUN_GATHER:
    case SG_RUN_SCATTER:
    case SG_RUN_REDUCE: return sg_walk_collective(w, in, status);
    case SG_RUN_JOIN: return sg_walk_join(w, in, status);
    default: return run_birth(w, program, in, status);
    }
}

sg_code sg_walk_code(sg_walker *w, size_t program, sg_status *status) {
    const sg_compiled *c = &w->programs[program];
    const sg_instruction *end = c->code + c->n;
    uint64_t hash = w->visit_hash;
    sg_code code = SG_OK;
    for (const sg_instruction *in = c->code; in < end && !code; in++) {
        if (w->trace) sg_walk_trace_entry(w, program, in->entry);
        code = run(w, program, in, c->runs, status);
        if (code)
            (void)sg_fail_in(status, "program %s, entry %d", w->training->programs[program].name, in->entry);
        else
            hash = (hash ^ in->visit) * FNV_PRIME;
    }
    w->visit_hash = hash;
    if (w->gap_open) gap_end(w, false);
    return code;
}

sg_code sg_walk_run(sg_walker *w, size_t program, sg_status *status) {
    sg_code code = sg_walk_replays(w, program) ? sg_walk_replay(w, program, status) : sg_walk_code(w, program, status);
    if (code) return code;
    w->programs[program].runs++;
    if (w->training->programs[program].ends_optimizer_step) {
        if (w->api->weights_changed) w->api->weights_changed(w->device);
        for (size_t i = 0; i < w->training->n_programs; i++) w->programs[i].runs = 0;
        w->draws = 0;
        w->step++;
    }
    return SG_OK;
}
