/* measure: runs the step for real, for every batch, worker and rank count asked for. */
#include "cli/batch_auto.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/measuring.h"
#include "cli/real_data.h"
#include "cli/world.h"
#include "sim/measure/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All that one call measures. Rank 0 records; other ranks only take part. */
typedef struct session {
    const sg_args *args;
    sg_device_choice choice;
    sg_world world;
    sg_real_data data;
    sg_run_writer *writer;
    sg_run run; /* what was measured or found, in order */
    const volatile int *stop;
    sg_progress progress;
    bool interrupted;
} session;

static sg_code keep(session *s, const sg_point *point, sg_status *status) {
    sg_point *grown = realloc(s->run.points, (s->run.n_points + 1) * sizeof *grown);
    if (!grown) return sg_fail_memory(status, (s->run.n_points + 1) * sizeof *grown, "measured points");
    s->run.points = grown;
    s->run.points[s->run.n_points++] = *point;
    return SG_OK;
}

/* The point with this key from the run file. It has one: its writer says so. */
static sg_code recall(session *s, uint64_t key, sg_status *status) {
    sg_run run;
    sg_code code = sg_run_file_read(s->args->output, &run, status);
    for (size_t i = 0; code == SG_OK && i < run.n_points; i++) {
        if (run.points[i].key != key) continue;
        code = keep(s, &run.points[i], status);
        if (code == SG_OK) run.points[i] = run.points[--run.n_points];
        break;
    }
    sg_run_clear(&run);
    return code;
}

/* What the run file holds already is not measured again, but is part of the answer: a killed session goes on where it
 * stopped. */
static bool found_before(session *s, const sg_policy_request *policy, const sg_measure_options *options, sg_code *code,
                         sg_status *status) {
    if (!s->writer || s->args->fresh || s->args->trace) return false;
    sg_training *training = NULL;
    sg_point_config config;
    *code = sg_policy_build(policy, &training, status);
    if (*code == SG_OK) *code = sg_measure_config(policy, training, options, &config, status);
    sg_training_free(training);
    if (*code != SG_OK || !sg_run_writer_has(s->writer, sg_point_key(&config))) return false;
    *code = recall(s, sg_point_key(&config), status);
    return *code == SG_OK;
}

/* Rank 0 has the run file and decides for all. */
static sg_code know_before(session *s, const sg_policy_request *policy, const sg_measure_options *options, bool *known,
                           sg_status *status) {
    sg_code code = SG_OK;
    *known = found_before(s, policy, options, &code, status);
    if (s->world.ranks == 1) return code;
    code = sg_ranks_agree(s->world.transport, code, status);
    unsigned char answer = *known;
    if (code == SG_OK) code = s->world.transport->api->broadcast(s->world.transport, &answer, sizeof answer, 0, status);
    *known = code == SG_OK && answer;
    return code;
}

static void tell_known(const session *s) {
    if (s->world.rank != 0) return;
    const sg_point_config *c = &s->run.points[s->run.n_points - 1].config;
    fprintf(stderr, "stepgauge: %s %lld is in the run file already (--fresh measures it again)\n",
            c->envs > 0 ? "envs" : "batch", (long long)(c->envs > 0 ? c->envs : c->batch));
}

/* What varies beside the batch. */
typedef struct variant {
    int workers, layer;
} variant;

static sg_measure_options options_of(session *s, variant v) {
    sg_measure_options options =
        sg_measuring_options(s->args, &s->choice, s->stop, s->world.rank == 0 ? &s->progress : NULL);
    options.device_index = s->choice.device_class == SG_DEVICE_CLASS_CUDA ? s->world.local_rank : 0;
    options.workers = v.workers;
    if (v.layer != SG_LAYER_SYNTHETIC) {
        options.catalogue = s->data.catalogue;
        options.layer = sg_layer_name(v.layer);
    }
    options.rank = s->world.rank;
    options.ranks = s->world.ranks;
    options.bootstrap = s->world.transport;
    return options;
}

/* Rank 0 has its files prepared; what is not possible is left out by all. */
static sg_code prepare(session *s, int layer, bool *possible, sg_status *status) {
    sg_code code = s->world.rank == 0 ? sg_real_data_prepare(&s->data, layer, s->stop, status) : SG_OK;
    *possible = code != SG_NO;
    if (code == SG_NO && s->world.rank == 0) fprintf(stderr, "stepgauge: %s\n", status->text);
    if (code == SG_NO) code = SG_OK;
    if (*s->stop) s->interrupted = true;
    if (s->interrupted) *possible = false;
    if (s->interrupted && s->world.ranks == 1) return SG_OK;
    if (s->world.ranks == 1) return code;
    code = sg_ranks_agree(s->world.transport, code, status);
    unsigned char answer = *possible;
    if (code == SG_OK) code = s->world.transport->api->broadcast(s->world.transport, &answer, sizeof answer, 0, status);
    *possible = code == SG_OK && answer;
    return code;
}

static sg_code measure_one(session *s, sg_request *request, int64_t batch, variant v, sg_status *status) {
    sg_measure_options options = options_of(s, v);
    request->policy.batch = batch;
    request->policy.ranks = s->world.ranks;
    bool known;
    sg_code code = know_before(s, &request->policy, &options, &known, status);
    if (code == SG_OK && known) tell_known(s);
    if (code != SG_OK || known) return code;
    bool possible = true;
    if (v.layer != SG_LAYER_SYNTHETIC) code = prepare(s, v.layer, &possible, status);
    if (code != SG_OK || !possible) return code;
    sg_point point;
    code = sg_measure(&request->policy, &options, &point, status);
    if (*s->stop) s->interrupted = true;
    if (code != SG_OK) return s->interrupted ? SG_OK : code;
    if (s->writer) code = sg_run_writer_append(s->writer, &point, status);
    if (code == SG_OK) code = keep(s, &point, status);
    if (code != SG_OK) sg_point_clear(&point);
    return code;
}

/* One batch and number of workers, in every layer. */
static sg_code measure_layers(session *s, sg_request *request, int64_t batch, int workers, sg_status *status) {
    sg_code code = SG_OK;
    for (int layer = 0; layer < SG_LAYER_COUNT && code == SG_OK && !s->interrupted; layer++)
        if (s->data.layer[layer]) code = measure_one(s, request, batch, (variant){workers, layer}, status);
    return code;
}

/* A batch that does not fit is an answer and does not end the session: the others are still wanted. */
static sg_code measure_all(session *s, sg_request *request, bool *all_fit, sg_status *status) {
    const sg_args *a = s->args;
    size_t batches = a->batch.n ? a->batch.n : 1, workers = a->workers.n ? a->workers.n : 1;
    for (size_t b = 0; b < batches; b++)
        for (size_t w = 0; w < workers && !s->interrupted; w++) {
            int64_t batch = a->batch.n ? a->batch.value[b] : request->policy.batch;
            sg_code code = measure_layers(s, request, batch, a->workers.n ? (int)a->workers.value[w] : 1, status);
            if (code == SG_NO) {
                *all_fit = false;
                if (s->world.rank == 0) fprintf(stderr, "stepgauge: %s\n", status->text);
            } else if (code != SG_OK) {
                return code;
            }
        }
    return SG_OK;
}

/* One iteration, of which only its fitting is of interest. */
static sg_code try_batch(session *s, sg_request *request, int64_t batch, int workers, sg_status *status) {
    if (s->world.rank == 0 && !s->args->quiet) fprintf(stderr, "stepgauge: trying batch %lld\n", (long long)batch);
    sg_measure_options options = options_of(s, (variant){workers, SG_LAYER_SYNTHETIC});
    options.min_iterations = options.max_iterations = options.warmup = 1;
    options.progress = NULL;
    options.trace = NULL;
    request->policy.batch = batch;
    sg_point point;
    sg_code code = sg_measure(&request->policy, &options, &point, status);
    if (code == SG_OK) sg_point_clear(&point);
    return code;
}

/* What no walk foresees (workspaces, another process) is found out by trying: halving the interval between what fits and what
 * does not, to the last 64th. SG_NO: not even one sample does. */
static sg_code find_largest(session *s, sg_request *request, int64_t foreseen, int workers, int64_t *fits,
                            sg_status *status) {
    int64_t above = foreseen + 1, next = foreseen;
    for (*fits = 0; above - *fits > 1 + *fits / 64; next = *fits + (above - *fits) / 2) {
        sg_code code = try_batch(s, request, next, workers, status);
        if (code == SG_OK)
            *fits = next;
        else if (code == SG_NO)
            above = next;
        else
            return code;
    }
    return *fits ? SG_OK : sg_fail_in(status, "not even batch 1 fits");
}

/* A batch may stop fitting between its trial and its measurement: then a smaller one is taken. */
static sg_code measure_largest(session *s, sg_request *request, sg_status *status) {
    int64_t foreseen = 0, batch = 0;
    int workers = s->args->workers.n ? (int)s->args->workers.value[0] : 1;
    request->policy.ranks = s->world.ranks;
    sg_code code = sg_batch_auto(&s->choice, s->args, &s->world, &request->policy, &foreseen, status);
    if (code == SG_OK) code = find_largest(s, request, foreseen, workers, &batch, status);
    if (code == SG_OK) code = measure_layers(s, request, batch, workers, status);
    while (code == SG_NO && batch > 1) {
        batch = sg_batch_below(batch);
        code = measure_layers(s, request, batch, workers, status);
    }
    if (code != SG_OK && *s->stop) s->interrupted = true;
    return s->interrupted ? SG_OK : code;
}

static int show(session *s, bool all_fit) {
    int result = s->interrupted ? SG_EXIT_INTERRUPTED : all_fit ? SG_OK : SG_NO;
    sg_progress_end(&s->progress);
    if (s->world.rank != 0) return result;
    if (s->interrupted)
        fprintf(stderr, "stepgauge: interrupted%s\n",
                s->run.n_points ? "; what was measured is kept" : " before anything was measured");
    if (s->args->json) {
        json_t *points = json_array();
        for (size_t i = 0; i < s->run.n_points; i++)
            (void)json_array_append_new(points, sg_json_point(&s->run.points[i]));
        json_t *object = json_pack("{s:o, s:o}", "machine", sg_json_machine(&s->run.machine), "points", points);
        return sg_json_print(object, result);
    }
    sg_print_points(s->run.points, s->run.n_points);
    if (s->args->output && s->run.n_points && s->world.ranks == 1) printf("\nWritten to %s\n", s->args->output);
    return result;
}

/* One process, or one rank of a world that is already there. */
static int measure_here(session *s) {
    sg_status status;
    sg_request request;
    bool all_fit = true;
    sg_machine_describe(&s->run.machine);
    sg_code code = sg_request_make(s->args, s->choice.device_class, &request, &status);
    if (code != SG_OK) {
        sg_world_fail(&s->world, status.text);
        return sg_show_error(s->args, &status);
    }
    if (s->choice.passed_over[0] && s->world.rank == 0 && !s->args->quiet)
        fprintf(stderr, "stepgauge: measuring on the CPU, the GPU is not ready: %s\n", s->choice.passed_over);
    bool all = s->args->workers.n <= 1 && !s->args->trace;
    code = sg_real_data_open(s->args, &request.policy, all, &s->data, &status);
    if (code == SG_OK && s->data.catalogue && s->data.catalogue->warning[0] && s->world.rank == 0)
        sg_show_warning("%s", s->data.catalogue->warning);
    if (code == SG_OK && s->data.catalogue && !s->data.catalogue->has_tables && s->world.rank == 0)
        sg_show_warning("state and action are synthetic, reading them is in no figure: %s",
                        s->data.catalogue->tables_why);
    bool computes = s->args->update_s < 0;
    if (code == SG_OK && computes) code = sg_device_ready(&s->choice, 1, &status);
    if (code == SG_OK && computes)
        code = sg_device_choose_host(s->args, request.policy.framework, s->world.local_rank, &s->choice, &status);
    if (code == SG_OK && s->choice.emulates_host && s->world.rank == 0 && !s->args->quiet)
        fprintf(stderr, "stepgauge: the host takes the time of %s (--host native: its own)\n", s->choice.host_from);
    if (code == SG_OK && s->args->output && s->world.rank == 0)
        code = sg_run_writer_open(s->args->output, &s->run.machine, &s->writer, &status);
    s->progress = sg_progress_start(s->args);
    if (code == SG_OK)
        code =
            s->args->batch_auto ? measure_largest(s, &request, &status) : measure_all(s, &request, &all_fit, &status);
    sg_run_writer_close(s->writer);
    sg_request_clear(&request);
    sg_real_data_close(&s->data);
    int result = code;
    if (code == SG_OK)
        result = show(s, all_fit);
    else if (sg_world_speaks(&s->world))
        (void)sg_show_error(s->args, &status);
    if (code != SG_OK) sg_world_fail(&s->world, status.text);
    sg_run_clear(&s->run);
    return result;
}

static sg_code check_trace(const sg_args *a, sg_status *status) {
    if (!a->trace || (a->batch.n <= 1 && a->workers.n <= 1 && a->ranks.n <= 1)) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT,
                   "--trace keeps one iteration: give one batch, one number of workers and ranks");
}

/* A loader by itself is this host's, on whatever a training computes. */
static sg_code check_pause(sg_args *a, sg_status *status) {
    if (a->update_s < 0) return SG_OK;
    if (a->trace || a->batch_auto || a->cuda_graph || a->gpus.n || (a->device && strcmp(a->device, "cpu") != 0))
        return sg_fail(status, SG_BAD_INPUT, "%s computes nothing: leave out %s",
                       a->loader_only ? "--loader-only" : "--update-s",
                       a->trace        ? "--trace"
                       : a->batch_auto ? "--batch auto"
                       : a->cuda_graph ? "--cuda-graph"
                       : a->gpus.n     ? "--gpus"
                                       : "--device");
    a->device = "cpu";
    return SG_OK;
}

int sg_cmd_measure(const sg_args *given) {
    sg_status status;
    sg_args own = *given, *args = &own;
    if (check_trace(args, &status) != SG_OK || check_pause(args, &status) != SG_OK) return sg_show_error(args, &status);
    session s = {.args = args, .stop = sg_interrupt_flag()};
    if (sg_device_choose(args, &s.choice, &status) != SG_OK || sg_world_join(args, &s.world, &status) != SG_OK)
        return sg_show_error(args, &status);
    int result = s.world.must_launch ? sg_world_launch(args, s.stop, sg_world_show_points) : measure_here(&s);
    /* Leaving waits for the other ranks. After a fault they may be in the middle of an exchange: then this process ends
     * with its status, and the launcher ends them at once. */
    if (result == SG_OK || result == SG_NO || result == SG_EXIT_INTERRUPTED) sg_world_leave(&s.world);
    return result;
}
