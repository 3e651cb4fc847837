#include "calibration/predict/predict_walk.h"

#include <stdlib.h>
#include <string.h>

#include "sim/walk/environment.h"

/* A reading of the host clock: what the time since the one before belongs to. */
typedef struct reading {
    int8_t phase;
    bool collecting;
} reading;

_Static_assert((int)SG_PHASE_COUNT <= (int)SG_TAPE_PARTS, "a part of the tape per phase");

struct sg_course {
    sg_device *device;
    sg_comm *comm;
    sg_environment *environment;
    sg_walker *walker; /* of the recorded iteration: its ops and events are the tape's */
    sg_tape *tape;
    sg_replay *replay;
    reading *readings;
    size_t n_readings, room;
    sg_code read_code; /* what went wrong with a reading */
    const sg_mark_event *marks;
    double *at;
    size_t n_marks;
    sg_memory_peak peak;
};

static sg_code take_reading(sg_course *c, int phase, bool collecting, sg_status *status) {
    if (c->n_readings == c->room) {
        size_t room = c->room ? 2 * c->room : 64;
        reading *grown = realloc(c->readings, room * sizeof *grown);
        if (!grown) return sg_fail_memory(status, room * sizeof *grown, "the readings of a walk");
        c->readings = grown;
        c->room = room;
    }
    c->readings[c->n_readings++] = (reading){(int8_t)phase, collecting};
    return sg_tape_read(c->tape, phase, status);
}

static void follow(void *user, int phase, bool collecting) {
    sg_course *c = user;
    if (!c->read_code) c->read_code = take_reading(c, phase, collecting, NULL);
}

void sg_course_close(sg_course *c) {
    if (!c) return;
    sg_replay_close(c->replay);
    if (c->device) sg_virtual_record_on(c->device, NULL);
    sg_walker_close(c->walker);
    sg_environment_close(c->environment);
    if (c->comm) sg_virtual_device()->comm_destroy(c->device, c->comm);
    if (c->device) sg_virtual_device()->close(c->device);
    sg_tape_close(c->tape);
    free(c->readings);
    free(c->at);
    free(c);
}

/* What does not fit is for the prediction to say, not for the walk to fail of; nothing is priced on a tape. Environment
 * steps of one second are scaled by each replay. */
static sg_code open_parts(sg_course *c, const sg_training *training, const sg_course_options *o, sg_status *status) {
    const sg_device_api *api = sg_virtual_device();
    sg_machine endless;
    sg_machine_init(&endless);
    endless.caching_allocator = o->caching;
    memcpy(endless.device_class, o->processor ? "cpu" : "cuda", o->processor ? sizeof "cpu" : sizeof "cuda");
    int ranks = training->n_shards ? (int)training->shard_ranks : o->several ? 2 : 1;
    sg_code code = sg_tape_open(&c->tape, status);
    if (!code) code = api->open(&(sg_device_options){.machine = &endless}, &c->device, status);
    if (code) return code;
    sg_virtual_record_on(c->device, c->tape);
    sg_virtual_free_segments(c->device, !o->trimmed);
    if (ranks > 1) code = api->comm_create(c->device, &(sg_comm_options){.ranks = ranks}, &c->comm, status);
    if (!code && training->envs > 0) {
        sg_environment_options eo = {.env_step_s = 1, .envs = training->envs, .simulated = true};
        code = sg_environment_open(&eo, &c->environment, status);
    }
    if (code) return code;
    sg_walk_options options = {.api = api,
                               .device = c->device,
                               .seed = 1,
                               .ranks = ranks,
                               .comm = c->comm,
                               .buckets = o->buckets,
                               .environment = c->environment,
                               .graph = o->graph,
                               .phase_passed = follow,
                               .user = c};
    return sg_walker_open(training, &options, &c->walker, status);
}

/* A graph is recorded in the second iteration, so that the third is the first that only replays it. */
static sg_code record(sg_course *c, const sg_course_options *o, sg_status *status) {
    sg_code code = SG_OK;
    for (int before = o->graph ? 2 : 1; before > 0 && !code; before--)
        code = sg_walker_iteration(c->walker, NULL, status);
    if (o->trimmed) sg_walker_trim(c->walker);
    sg_tape_clear(c->tape);
    c->n_readings = 0;
    if (!code) code = sg_walker_iteration(c->walker, NULL, status);
    if (!code && c->read_code) code = sg_fail_memory(status, c->n_readings, "the readings of a walk");
    if (code) return code;
    c->marks = sg_walker_marks(c->walker, &c->n_marks);
    c->at = calloc(c->n_marks + 1, sizeof *c->at);
    if (!c->at) return sg_fail_memory(status, c->n_marks * sizeof *c->at, "the marks of a walk");
    sg_walker_peak(c->walker, &c->peak);
    return sg_replay_open(c->tape, &c->replay, status);
}

sg_code sg_course_open(const sg_training *training, const sg_course_options *options, sg_course **course,
                       sg_status *status) {
    *course = NULL;
    sg_course *c = calloc(1, sizeof *c);
    if (!c) return sg_fail_memory(status, sizeof *c, "the course of a walk");
    sg_code code = open_parts(c, training, options, status);
    if (!code) code = record(c, options, status);
    if (code)
        sg_course_close(c);
    else
        *course = c;
    return code;
}

const sg_tape *sg_course_tape(const sg_course *course) {
    return course->tape;
}

sg_code sg_course_walk(sg_course *c, const sg_tape_prices *prices, int ranks, double env_step_s, sg_walked *walked,
                       sg_status *status) {
    sg_replayed r;
    sg_code code = sg_replay_run(c->replay, prices, ranks, env_step_s, &r, status);
    if (code) return code;
    sg_phase_sums sums = {0};
    for (size_t i = 1; i < c->n_readings; i++)
        sg_phase_sums_add(&sums, c->readings[i].phase, c->readings[i].collecting, r.reading[i] - r.reading[i - 1]);
    for (size_t i = 0; i < c->n_marks; i++) c->at[i] = r.event[sg_virtual_event_index(c->marks[i].event)];
    sg_phase_sums_finish(&sums, c->marks, c->at, c->n_marks, &walked->times);
    walked->report = r.report;
    walked->peak = c->peak;
    memcpy(walked->by_log, r.by_log, sizeof walked->by_log);
    memcpy(walked->host_by_log, prices->host_by_log, sizeof walked->host_by_log);
    memcpy(walked->device_by_log, prices->device_by_log, sizeof walked->device_by_log);
    return SG_OK;
}
