/* stream.c: streams are ordered queues that run when someone waits, events are places in them, graphs keep their items. */
#include "tests/emulation/state.h"

#include <stdlib.h>
#include <time.h>

/* ---- items --------------------------------------------------------------------------------------------------------------- */

void sg_emu_body_drop(sg_emu_body *body) {
    if (!body || --body->references > 0) return;
    if (body->release) body->release(body->work);
    free(body);
}

static cudaError_t append(struct sg_emu_stream *s, sg_emu_item item) {
    sg_emu_item *kept = malloc(sizeof *kept);
    if (!kept) return cudaErrorMemoryAllocation;
    *kept = item;
    kept->next = NULL;
    if (s->tail)
        s->tail->next = kept;
    else
        s->head = kept;
    s->tail = kept;
    s->queued++;
    return cudaSuccess;
}

cudaError_t sg_emu_record(struct sg_emu_graph *g, sg_emu_body *body) {
    if (g->n == g->room) {
        size_t room = g->room ? 2 * g->room : 64;
        sg_emu_body **grown = realloc(g->body, room * sizeof *grown);
        if (!grown) return cudaErrorMemoryAllocation;
        g->body = grown;
        g->room = room;
    }
    g->body[g->n++] = body;
    body->references++;
    return cudaSuccess;
}

static cudaError_t enqueue(cudaStream_t stream, sg_emu_body what) {
    sg_emu_body *body = malloc(sizeof *body);
    if (!stream || !body) {
        free(body);
        if (what.release) what.release(what.work);
        if (!stream) sg_emu_report_fault("%s was queued on the legacy default stream", what.what);
        return stream ? cudaErrorMemoryAllocation : cudaErrorInvalidResourceHandle;
    }
    *body = what;
    sg_emu_lock();
    cudaError_t error = sg_emu_device_error(stream->device);
    if (!error && stream->device != sg_emu_current()) {
        sg_emu_report_fault("%s was queued on a stream of device %d while device %d is the thread's", what.what,
                            stream->device, sg_emu_current());
        error = cudaErrorInvalidResourceHandle;
    }
    if (!error && stream->capture)
        error = sg_emu_record(stream->capture, body), stream->seen.at[stream->lane]++;
    else if (!error)
        error = append(stream, (sg_emu_item){.body = body});
    if (error || stream->capture) sg_emu_body_drop(body);
    sg_emu_unlock();
    return error;
}

cudaError_t sg_emu_enqueue(cudaStream_t stream, const char *what, bool (*run)(void *work), void (*release)(void *work),
                           void *work) {
    return enqueue(stream, (sg_emu_body){.references = 1, .what = what, .run = run, .release = release, .work = work});
}

cudaError_t sg_emu_enqueue_poll(cudaStream_t stream, const char *what, sg_emu_progress (*poll)(void *work),
                                void (*release)(void *work), void *work) {
    return enqueue(stream,
                   (sg_emu_body){.references = 1, .what = what, .poll = poll, .release = release, .work = work});
}

static cudaError_t advance(struct sg_emu_stream *s, uint64_t ticket, bool block);

/* cudaErrorNotReady: the item at the head must wait for another process or thread. The lock is open while work runs. */
static cudaError_t do_item(struct sg_emu_stream *s, sg_emu_item *item, bool block) {
    if (item->awaits) {
        struct sg_emu_event *e = item->awaits;
        return e->stream && e->stream != s ? advance(e->stream, item->awaited_ticket, block) : cudaSuccess;
    }
    if (item->records) {
        if (item->records->ticket == s->done + 1 && item->records->stream == s) {
            item->records->seconds = sg_emu_now_s();
            item->records->done = true;
        }
        return cudaSuccess;
    }
    if (sg_emu_device_error(s->device)) return cudaSuccess; /* nothing runs any more */
    sg_emu_body *body = item->body;
    sg_emu_unlock();
    sg_emu_progress progress = body->poll              ? body->poll(body->work)
                               : body->run(body->work) ? SG_EMU_DONE
                                                       : SG_EMU_FAILED;
    sg_emu_lock();
    if (progress == SG_EMU_FAILED) sg_emu()->faulted[s->device] = true;
    return progress == SG_EMU_AGAIN ? cudaErrorNotReady : cudaSuccess;
}

static cudaError_t run_head(struct sg_emu_stream *s, bool block) {
    sg_emu_item *item = s->head;
    s->running = true;
    cudaError_t error = do_item(s, item, block);
    s->running = false;
    if (error != cudaErrorNotReady) {
        s->head = item->next;
        if (!s->head) s->tail = NULL;
        s->done++;
        if (item->body) sg_emu_body_drop(item->body);
        free(item);
    }
    pthread_cond_broadcast(&sg_emu()->moved);
    return error;
}

static cudaError_t advance(struct sg_emu_stream *s, uint64_t ticket, bool block) {
    const struct timespec nap = {.tv_nsec = 50000};
    cudaError_t error = cudaSuccess;
    while (s->done < ticket) {
        if (s->running) {
            if (!block) return cudaErrorNotReady;
            pthread_cond_wait(&sg_emu()->moved, &sg_emu()->lock);
            continue;
        }
        cudaError_t one = run_head(s, block);
        if (one == cudaErrorNotReady) {
            if (!block) return one;
            sg_emu_unlock();
            nanosleep(&nap, NULL);
            sg_emu_lock();
        } else if (!error) {
            error = one;
        }
    }
    return error ? error : sg_emu_device_error(s->device);
}

cudaError_t sg_emu_run_until(struct sg_emu_stream *s, uint64_t ticket) {
    return advance(s, ticket, true);
}

cudaError_t sg_emu_forbid_while_thread_records(void) {
    for (struct sg_emu_stream *s = sg_emu()->streams; s; s = s->next_of_all) {
        struct sg_emu_graph *g = s->capture;
        if (!g || g->mode == cudaStreamCaptureModeRelaxed) continue;
        if (g->mode == cudaStreamCaptureModeThreadLocal && !pthread_equal(g->thread, pthread_self())) continue;
        g->invalid = true;
        return cudaErrorStreamCaptureUnsupported;
    }
    return cudaSuccess;
}

/* ---- streams --------------------------------------------------------------------------------------------------------------- */

int sg_emu_stream_device(cudaStream_t stream) {
    return stream ? stream->device : -1;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    (void)flags;
    SG_EMU_ENTER();
    struct sg_emu_stream *s = calloc(1, sizeof *s);
    if (!s) return sg_emu_set_error(cudaErrorMemoryAllocation);
    sg_emu_lock();
    s->device = sg_emu_current();
    s->next_of_all = sg_emu()->streams;
    sg_emu()->streams = s;
    sg_emu()->alive.streams++;
    sg_emu_unlock();
    *stream = s;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s) {
    if (!s) return sg_emu_set_error(cudaErrorInvalidResourceHandle);
    sg_emu_lock();
    cudaError_t error = sg_emu_run_until(s, s->queued);
    struct sg_emu_stream **at = &sg_emu()->streams;
    while (*at && *at != s) at = &(*at)->next_of_all;
    if (*at) *at = s->next_of_all;
    sg_emu()->alive.streams--;
    sg_emu_unlock();
    free(s);
    return error;
}

static cudaError_t forbid_while_recording(struct sg_emu_stream *s) {
    if (!s->capture) return sg_emu_forbid_while_thread_records();
    s->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    SG_EMU_ENTER();
    if (!s) return sg_emu_set_error(cudaErrorInvalidResourceHandle);
    sg_emu_lock();
    cudaError_t error = forbid_while_recording(s);
    if (!error) error = sg_emu_run_until(s, s->queued);
    sg_emu_unlock();
    return sg_emu_set_error(error);
}

/* Each question lets the queue get on by one. */
cudaError_t cudaStreamQuery(cudaStream_t s) {
    SG_EMU_ENTER();
    if (!s) return sg_emu_set_error(cudaErrorInvalidResourceHandle);
    sg_emu_lock();
    cudaError_t error = forbid_while_recording(s);
    if (!error && s->done < s->queued) error = advance(s, s->done + 1, false);
    if (!error) error = sg_emu_device_error(s->device);
    if (!error && s->done < s->queued) error = cudaErrorNotReady;
    sg_emu_unlock();
    return sg_emu_set_error(error);
}

cudaError_t cudaDeviceSynchronize(void) {
    SG_EMU_ENTER();
    sg_emu_lock();
    cudaError_t error = cudaSuccess;
    for (struct sg_emu_stream *s = sg_emu()->streams; s && !error; s = s->next_of_all)
        if (s->device == sg_emu_current() && s->capture) error = forbid_while_recording(s);
    if (!error) error = sg_emu_forbid_while_thread_records();
    for (struct sg_emu_stream *s = sg_emu()->streams; s; s = s->next_of_all)
        if (s->device == sg_emu_current() && !error) error = sg_emu_run_until(s, s->queued);
    if (!error) error = sg_emu_device_error(sg_emu_current());
    sg_emu_unlock();
    return sg_emu_set_error(error);
}

/* The recording that an event belongs to, while it goes on. */
static struct sg_emu_graph *recording_of(const struct sg_emu_event *e) {
    for (struct sg_emu_stream *s = sg_emu()->streams; s && e->capture; s = s->next_of_all)
        if (s->capture && s->capture->id == e->capture) return s->capture;
    return NULL;
}

static cudaError_t join_recording(struct sg_emu_stream *s, const struct sg_emu_event *e) {
    struct sg_emu_graph *g = recording_of(e);
    if (!g) return cudaErrorCapturedEvent;
    if (s->capture && s->capture != g) return s->capture->invalid = g->invalid = true, cudaErrorStreamCaptureIsolation;
    if (!s->capture) {
        if (g->lanes == SG_EMU_LANES) return cudaErrorStreamCaptureUnsupported;
        s->capture = g;
        s->lane = g->lanes++;
        s->seen = (sg_emu_progress_of){{0}};
    }
    for (int i = 0; i < SG_EMU_LANES; i++)
        if (s->seen.at[i] < e->seen.at[i]) s->seen.at[i] = e->seen.at[i];
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags) {
    (void)flags;
    SG_EMU_ENTER();
    if (!s || !e) return sg_emu_set_error(cudaErrorInvalidResourceHandle);
    cudaError_t error = cudaSuccess;
    sg_emu_lock();
    if (e->capture) /* the order in the recording is that of the calls */
        error = join_recording(s, e);
    else if (s->capture && e->recorded) /* work outside, done or not */
        error = (s->capture->invalid = true, cudaErrorStreamCaptureIsolation);
    else if (e->recorded && !e->done)
        error = append(s, (sg_emu_item){.awaits = e, .awaited_ticket = e->ticket});
    sg_emu_unlock();
    return sg_emu_set_error(error);
}

/* ---- events --------------------------------------------------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    SG_EMU_ENTER();
    struct sg_emu_event *e = calloc(1, sizeof *e);
    if (!e) return sg_emu_set_error(cudaErrorMemoryAllocation);
    e->device = sg_emu_current();
    e->timing = !(flags & cudaEventDisableTiming);
    sg_emu_lock();
    sg_emu()->alive.events++;
    sg_emu_unlock();
    *event = e;
    return cudaSuccess;
}

/* Queued items may still name it: they run first. */
cudaError_t cudaEventDestroy(cudaEvent_t e) {
    if (!e) return sg_emu_set_error(cudaErrorInvalidResourceHandle);
    sg_emu_lock();
    for (struct sg_emu_stream *s = sg_emu()->streams; s; s = s->next_of_all) {
        uint64_t last = 0, at = s->done;
        for (sg_emu_item *i = s->head; i; i = i->next) {
            at++;
            if (i->awaits == e || i->records == e) last = at;
        }
        if (last) (void)sg_emu_run_until(s, last);
    }
    sg_emu()->alive.events--;
    sg_emu_unlock();
    free(e);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    SG_EMU_ENTER();
    if (!s || !e || s->device != e->device) return sg_emu_set_error(cudaErrorInvalidResourceHandle);
    cudaError_t error = cudaSuccess;
    sg_emu_lock();
    e->capture = s->capture ? s->capture->id : 0;
    e->seen = s->seen;
    if (!s->capture) {
        error = append(s, (sg_emu_item){.records = e});
        if (!error) {
            e->recorded = true;
            e->done = false;
            e->stream = s;
            e->ticket = s->queued;
        }
    }
    sg_emu_unlock();
    return sg_emu_set_error(error);
}

/* The host cannot ask after an event of a recording, nor after any while a recording that is not relaxed goes on. */
static cudaError_t forbid_captured(const struct sg_emu_event *e) {
    struct sg_emu_graph *g = recording_of(e);
    if (g) g->invalid = true;
    return e->capture ? cudaErrorCapturedEvent : sg_emu_forbid_while_thread_records();
}

cudaError_t cudaEventQuery(cudaEvent_t e) {
    SG_EMU_ENTER();
    if (!e) return sg_emu_set_error(cudaErrorInvalidResourceHandle);
    sg_emu_lock();
    cudaError_t error = forbid_captured(e);
    if (!error && e->recorded && !e->done) (void)advance(e->stream, e->stream->done + 1, false);
    if (!error) error = sg_emu_device_error(e->device);
    if (!error && e->recorded && !e->done) error = cudaErrorNotReady;
    sg_emu_unlock();
    return sg_emu_set_error(error);
}

cudaError_t cudaEventSynchronize(cudaEvent_t e) {
    SG_EMU_ENTER();
    if (!e) return sg_emu_set_error(cudaErrorInvalidResourceHandle);
    sg_emu_lock();
    cudaError_t error = forbid_captured(e);
    if (!error)
        error = e->recorded && !e->done ? sg_emu_run_until(e->stream, e->ticket) : sg_emu_device_error(e->device);
    sg_emu_unlock();
    return sg_emu_set_error(error);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) {
    SG_EMU_ENTER();
    if (!a || !b || !a->timing || !b->timing || !a->recorded || !b->recorded)
        return sg_emu_set_error(cudaErrorInvalidResourceHandle);
    if (a->capture || b->capture) return sg_emu_set_error(cudaErrorCapturedEvent);
    if (!a->done || !b->done) return sg_emu_set_error(cudaErrorNotReady);
    *ms = (float)(1e3 * (b->seconds - a->seconds));
    return cudaSuccess;
}

/* ---- graphs --------------------------------------------------------------------------------------------------------------- */

static void graph_free(struct sg_emu_graph *g) {
    for (size_t i = 0; i < g->n; i++) sg_emu_body_drop(g->body[i]);
    free(g->body);
    free(g);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode) {
    static uint64_t ids;
    SG_EMU_ENTER();
    struct sg_emu_graph *g = calloc(1, sizeof *g);
    if (!s || !g || s->capture) {
        free(g);
        return sg_emu_set_error(cudaErrorInvalidValue);
    }
    sg_emu_lock();
    g->id = ++ids;
    g->mode = mode;
    g->thread = pthread_self();
    g->lanes = 1;
    s->capture = g;
    s->capture_origin = true;
    s->lane = 0;
    s->seen = (sg_emu_progress_of){{0}};
    sg_emu()->alive.graphs++;
    sg_emu_unlock();
    return cudaSuccess;
}

/* All work of the streams that joined must come before what the origin does next. */
static bool is_joined(const struct sg_emu_stream *origin) {
    for (struct sg_emu_stream *q = sg_emu()->streams; q; q = q->next_of_all)
        if (q->capture == origin->capture && origin->seen.at[q->lane] < q->seen.at[q->lane]) return false;
    return true;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph) {
    *graph = NULL;
    bool fails = SG_EMU_CALL_FAILS();
    if (!s || !s->capture || !s->capture_origin) return sg_emu_set_error(cudaErrorInvalidValue);
    sg_emu_lock();
    struct sg_emu_graph *g = s->capture;
    bool strange = g->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(g->thread, pthread_self());
    cudaError_t error = g->invalid || fails ? cudaErrorStreamCaptureInvalidated
                        : strange           ? cudaErrorStreamCaptureWrongThread
                        : !is_joined(s)     ? cudaErrorStreamCaptureUnjoined
                                            : cudaSuccess;
    for (struct sg_emu_stream *q = sg_emu()->streams; q; q = q->next_of_all)
        if (q->capture == g) q->capture = NULL;
    s->capture_origin = false;
    if (error) {
        graph_free(g);
        sg_emu()->alive.graphs--;
    }
    sg_emu_unlock();
    if (!error) *graph = g;
    return sg_emu_set_error(error);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
    (void)flags;
    *exec = NULL;
    SG_EMU_ENTER();
    struct sg_emu_graph *copy = calloc(1, sizeof *copy);
    cudaError_t error = copy ? cudaSuccess : cudaErrorMemoryAllocation;
    sg_emu_lock();
    for (size_t i = 0; !error && i < graph->n; i++) error = sg_emu_record(copy, graph->body[i]);
    if (error && copy) graph_free(copy);
    if (!error) sg_emu()->alive.graphs++;
    sg_emu_unlock();
    if (!error) *exec = copy;
    return sg_emu_set_error(error);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
    SG_EMU_ENTER();
    if (!exec || !s) return sg_emu_set_error(cudaErrorInvalidResourceHandle);
    sg_emu_lock();
    cudaError_t error = sg_emu_device_error(s->device);
    for (size_t i = 0; !error && i < exec->n; i++) {
        error = append(s, (sg_emu_item){.body = exec->body[i]});
        if (!error) exec->body[i]->references++;
    }
    sg_emu_unlock();
    return sg_emu_set_error(error);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    if (!exec) return sg_emu_set_error(cudaErrorInvalidResourceHandle);
    sg_emu_lock();
    graph_free(exec);
    sg_emu()->alive.graphs--;
    sg_emu_unlock();
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    return cudaGraphExecDestroy(graph);
}
