#include "calibration/plan/plan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/loader/loader_clock.h"
#include "calibration/plan/offers.h"
#include "calibration/plan/plan_text.h"
#include "models/training.h"

/* What passes before the first step and is billed: rented machines pull an image and fetch model and data set (assumed);
 * an own machine starts Python and reads metadata: 54-67 s beyond the steps in published 5,000-step runs, saving included. */
static const double RENTED_START_S = 150, OWN_START_S = 40, START_LOG_SD = 0.6;

/* A checkpoint goes to disk and, from rented machines, to the Hub: 23 MB/s (617 MB held a run for 27 s) to the speed of
 * a local disk; 60 MB/s reproduces what a run of 24 GB of state spent beyond its steps. */
static const double SAVE_BYTES_PER_S = 60e6, SAVE_LOG_SD = 0.7;

/* An epoch's end, beside what the loader's clock says of queues that run dry and fill again. Workers stay (LeRobot's
 * persistent_workers is true): they are told to go on, and the frames are shuffled anew. Of torch's DataLoader 2.x with 4
 * workers and empty samples from iter() to the first batch: 2.3 ms (4 batches an epoch) to 5 ms (313); randperm(n).tolist():
 * 33 ns a frame for 1e5 frames, 41 for 1e6. */
static const double RESUME_S = 5e-3, SHUFFLE_S_PER_FRAME = 4e-8, EPOCH_LOG_SD = 0.8;

/* Expected costs so close are the same, against intervals of tens of per cent: the upper bound tells such offers apart. */
static const double TIED = 1.03;

/* LeRobot's default when neither steps nor epochs are given (TrainPipelineConfig.steps). */
static const int64_t DEFAULT_STEPS = 100000;

static const double MOST_STEPS = 1e15; /* doubles count exactly up to 9e15 */

typedef struct machines {
    sg_machine *machine;
    size_t count;
} machines;

typedef struct planner {
    const sg_plan_request *request;
    sg_policy_request policy; /* with the first batch */
    sg_plan_answer *answer;
    sg_predictor *predictor;
    machines loaded;
    const sg_training *training; /* as a GPU runs it on one rank: for counts */
    int64_t frames;
    double samples;          /* of the whole training */
    double checkpoint_bytes; /* weights and optimizer state */
} planner;

/* ---- how many steps ------------------------------------------------------------------------------------------------ */

/* The family's key `iterations`, as set or by default; 0: it has none. */
static double iterations_of(const sg_policy_request *r) {
    const sg_family *family = sg_family_find(r->policy);
    const char *text = NULL;
    for (size_t i = 0; family && i < family->n_keys; i++)
        if (strcmp(family->keys[i].name, "iterations") == 0) text = family->keys[i].default_text;
    for (size_t i = 0; i < r->n_settings; i++)
        if (strcmp(r->settings[i].name, "iterations") == 0) text = r->settings[i].value;
    return text ? strtod(text, NULL) : 0;
}

static double samples_per_step(const sg_training *t) {
    return t->envs > 0 ? (double)t->envs * (double)t->steps_per_env : (double)t->batch;
}

/* Steps of one process of `ranks`: whole optimizer steps. */
static int64_t steps_of(const planner *p, double per_step, int ranks) {
    double k = p->training->envs > 0 || p->training->accumulation < 1 ? 1 : (double)p->training->accumulation;
    return (int64_t)(ceil(p->samples / (per_step * ranks) / k - 1e-9) * k);
}

static sg_code count_steps(planner *p, sg_status *status) {
    const sg_plan_request *r = p->request;
    double per_step = samples_per_step(p->training);
    p->frames = r->dataset ? r->dataset->frames : r->frames;
    if (p->frames < 0 || r->steps < 0 || !(r->epochs >= 0) || r->save_every < 0 || !(r->budget_usd >= 0) ||
        !(r->deadline_s >= 0) || r->workers < 0)
        return sg_fail(status, SG_BAD_INPUT,
                       "planning: frames, steps, epochs, workers, budget and deadline must not be "
                       "negative");
    if (r->dataset && p->frames == 0)
        return sg_fail(status, SG_BAD_INPUT, "planning: the data set %s holds no frames", r->dataset->path);
    if (r->steps > 0) {
        p->samples = (double)r->steps * per_step;
    } else if (r->epochs > 0 && p->training->envs == 0) {
        if (p->frames == 0)
            return sg_fail(status, SG_BAD_INPUT, "planning %g epochs: of how many frames? Give a data set or --frames",
                           r->epochs);
        p->samples = (double)p->frames * r->epochs;
    } else if (p->training->envs > 0) {
        p->samples = iterations_of(&r->policy) * per_step;
    } else {
        p->samples = (double)DEFAULT_STEPS * per_step;
    }
    if (!(p->samples / per_step <= MOST_STEPS))
        return sg_fail(status, SG_BAD_INPUT, "planning %.3g steps: that is no training", p->samples / per_step);
    p->answer->steps = steps_of(p, per_step, 1);
    p->answer->samples = (int64_t)fmin((double)p->answer->steps * per_step, 9e18);
    p->answer->steps_per_epoch = (int64_t)ceil((double)p->frames / per_step);
    return SG_OK;
}

/* ---- one offer ----------------------------------------------------------------------------------------------------- */

static sg_figure guess(const planner *p, double value, double log_sd) {
    sg_log_sd parts = {.model = log_sd};
    return sg_figure_make(value, parts, SG_EVIDENCE_DATA_SHEET, p->answer->interval);
}

/* Of one epoch. An epoch shorter than the queue loses at most the time in which its batches are made from nothing. */
static double epoch_end_s(const planner *p, const sg_offer_answer *a, const sg_loader_outlook *loader) {
    double per_step = (double)a->batch * (a->gpus > 1 ? a->gpus : 1);
    double rounds = ceil(ceil((double)p->frames / per_step) / (a->workers > 0 ? a->workers : 1));
    double queue_s = fmin(loader->epoch_end_s, rounds * loader->first_batch_s);
    return RESUME_S + SHUFFLE_S_PER_FRAME * (double)p->frames + queue_s;
}

static void count_rest(const planner *p, sg_offer_answer *a, const sg_loader_outlook *loader, bool rented) {
    double epochs = p->frames > 0 && p->training->envs == 0 ? p->samples / (double)p->frames : 0;
    a->epoch_ends = fmax(0, ceil(epochs - 1e-9) - 1); /* behind the last one nothing is loaded */
    a->checkpoints = p->request->save_every > 0 ? ceil((double)a->steps / (double)p->request->save_every) : 1;
    a->start_s = guess(p, rented ? RENTED_START_S : OWN_START_S, START_LOG_SD);
    a->first_batch_s = guess(p, loader->first_batch_s, START_LOG_SD);
    a->checkpoints_s = guess(p, a->checkpoints * p->checkpoint_bytes / SAVE_BYTES_PER_S, SAVE_LOG_SD);
    a->epoch_ends_s = guess(p, a->epoch_ends > 0 ? a->epoch_ends * epoch_end_s(p, a, loader) : 0, EPOCH_LOG_SD);
}

static sg_figure wall_clock(const sg_offer_answer *a) {
    sg_figure terms[5] = {sg_figure_scaled(&a->step_s, (double)a->steps, 1), a->start_s, a->first_batch_s,
                          a->checkpoints_s, a->epoch_ends_s};
    return sg_figure_sum(terms, 5);
}

static double bill(double seconds, const sg_offer *offer) {
    double billed_s = ceil(seconds / offer->billing_quantum_s) * offer->billing_quantum_s;
    return billed_s / 3600 * offer->usd_per_hour;
}

static sg_predict_options options_of(const sg_plan_request *r, int ranks) {
    sg_predict_options o = {
        .interval = r->interval, .ranks = ranks, .workers = r->workers, .config_dir = r->config_dir};
    o.cameras_known = r->dataset != NULL;
    o.dataset = r->dataset_text;
    o.environment = r->environment;
    o.environment_elsewhere = true;
    for (size_t i = 0; i < r->policy.n_settings; i++) {
        if (strcmp(r->policy.settings[i].name, "cameras") == 0) o.cameras_known = true;
        if (strcmp(r->policy.settings[i].name, "language_tokens") == 0) o.language_known = true;
    }
    return o;
}

/* The first reason stands. */
static void SG_PRINTF(2, 3) exclude(sg_offer_answer *a, const char *format, ...) {
    if (a->excluded[0]) return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(a->excluded, sizeof a->excluded, format, args);
    va_end(args);
}

/* More than the default where they are needed, fewer where there are fewer processors: a worker beyond them only takes memory. */
static int workers_for(const sg_plan_request *r, const sg_loader_outlook *loader) {
    int most = (int)fmax(1, fmin(loader->processors, SG_LOADER_WORKERS_MAX));
    if (!r->choose_workers || !loader->modelled || !(loader->processors > 0)) return r->workers;
    int needed = loader->workers_needed > 0 ? loader->workers_needed : most;
    if (needed < r->workers) needed = r->workers;
    return needed < most ? needed : most;
}

/* Steps, memory and times of one machine; what is asked of all offers. */
static sg_code answer_machine(const planner *p, const sg_machine *machine, int64_t batch, int ranks, bool rented,
                              sg_offer_answer *a, sg_status *status) {
    sg_predict_options options = options_of(p->request, ranks);
    options.batch = batch;
    if (!rented) {
        options.fit = p->request->here_fit;
        options.host_known = true;
        options.environment_elsewhere = false;
    }
    sg_prediction prediction;
    sg_code code = sg_predictor_run(p->predictor, machine, &options, &prediction, status);
    if (code) return code;
    a->workers = workers_for(p->request, &prediction.loader);
    if (a->workers != options.workers) {
        options.workers = a->workers;
        code = sg_predictor_run(p->predictor, machine, &options, &prediction, status);
        if (code) return code;
    }
    a->batch = prediction.batch;
    a->steps = steps_of(p, p->training->envs > 0 ? samples_per_step(p->training) : (double)a->batch, ranks);
    a->step_s = p->training->envs > 0 ? prediction.iteration_s : prediction.step_s;
    a->peak_bytes = prediction.device_bytes;
    a->fits = prediction.fits;
    a->evidence = a->step_s.evidence;
    a->device_evidence = prediction.device_evidence;
    a->host_evidence = prediction.host_evidence;
    memcpy(a->limited_by, prediction.limited_by, sizeof a->limited_by);
    if (strcmp(a->limited_by, "loader") == 0) memcpy(a->loader_text, prediction.limited_by_text, sizeof a->loader_text);
    count_rest(p, a, &prediction.loader, rented);
    a->wall_clock_s = wall_clock(a);
    double have = (double)machine->memory_bytes / 0x1p30, deadline_s = p->request->deadline_s;
    if (!a->fits) exclude(a, "needs up to %.1f GiB of %.1f", prediction.device_bytes.high / 0x1p30, have);
    if (deadline_s > 0 && a->wall_clock_s.high > deadline_s)
        exclude(a, "may take %.1f h, the deadline is %.1f h", a->wall_clock_s.high / 3600, deadline_s / 3600);
    return SG_OK;
}

/* Index of the machine among those loaded. */
static sg_code load_once(planner *p, const char *name, size_t *index, sg_status *status) {
    for (*index = 0; *index < p->loaded.count; ++*index)
        if (strcmp(p->loaded.machine[*index].name, name) == 0) return SG_OK;
    sg_code code = sg_machine_load(name, p->request->config_dir, &p->loaded.machine[*index], status);
    if (!code) p->loaded.count++;
    return code;
}

static sg_code answer_offer(const planner *p, const sg_offer *offer, const sg_machine *sheet, int64_t batch,
                            sg_offer_answer *a, sg_status *status) {
    memcpy(a->provider, offer->provider, sizeof a->provider);
    memcpy(a->name, offer->name, sizeof a->name);
    memcpy(a->gpu, offer->gpu, sizeof a->gpu);
    memcpy(a->machine, offer->machine, sizeof a->machine);
    memcpy(a->price_date, offer->price_date, sizeof a->price_date);
    a->gpus = offer->gpus;
    a->batch = batch;
    sg_machine machine = *sheet;
    machine.vcpus = offer->vcpus;
    sg_status refused;
    sg_code code = answer_machine(p, &machine, batch, offer->gpus, true, a, &refused);
    if (code == SG_NO) { /* this machine cannot be priced: the others can */
        sg_figure unknown = {NAN, NAN, NAN, {0, 0, 0}, SG_EVIDENCE_DATA_SHEET};
        a->step_s = a->wall_clock_s = a->cost_usd = a->peak_bytes = unknown;
        a->start_s = a->first_batch_s = a->checkpoints_s = a->epoch_ends_s = unknown;
        exclude(a, "%.150s", refused.text);
        return SG_OK;
    }
    if (code) {
        if (status) *status = refused;
        return code;
    }
    a->cost_usd = a->wall_clock_s;
    a->cost_usd.value = bill(a->wall_clock_s.value, offer);
    a->cost_usd.low = bill(a->wall_clock_s.low, offer);
    a->cost_usd.high = bill(a->wall_clock_s.high, offer);
    if (p->request->budget_usd > 0 && a->cost_usd.high > p->request->budget_usd)
        exclude(a, "may cost $%.2f, the budget is $%.2f", a->cost_usd.high, p->request->budget_usd);
    sg_plan_command(p->request, p->training, a);
    return SG_OK;
}

/* 0: the policy's. */
static int64_t batch_at(const sg_plan_request *r, size_t i) {
    return r->n_batches ? r->batches[i] : 0;
}

static sg_code answer_here(planner *p, sg_status *status) {
    const sg_machine *here = p->request->here;
    sg_plan_answer *answer = p->answer;
    if (!here) return SG_OK;
    sg_offer_answer *a = &answer->here;
    (void)snprintf(a->name, sizeof a->name, "%.47s", here->fitted_from[0] ? "this machine" : here->name);
    (void)snprintf(a->gpu, sizeof a->gpu, "%.63s", here->title[0] ? here->title : here->name);
    memcpy(a->machine, here->name, sizeof a->machine);
    a->cost_usd = (sg_figure){NAN, NAN, NAN, {0, 0, 0}, SG_EVIDENCE_OBSERVED};
    sg_code code = answer_machine(p, here, batch_at(p->request, 0), 1, false, a, status);
    answer->has_here = !code;
    return code;
}

/* ---- ranking ------------------------------------------------------------------------------------------------------- */

static int compare(double a, double b) {
    if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

static int by_rank(const void *x, const void *y) {
    const sg_offer_answer *a = x, *b = y;
    int order = (a->excluded[0] != 0) - (b->excluded[0] != 0);
    if (!order) order = compare(a->cost_usd.value, b->cost_usd.value);
    if (!order) order = compare(a->wall_clock_s.value, b->wall_clock_s.value);
    if (!order) order = strcmp(a->name, b->name);
    return order ? order : (a->batch > b->batch) - (a->batch < b->batch);
}

static int by_upper_bound(const void *x, const void *y) {
    const sg_offer_answer *a = x, *b = y;
    int order = compare(a->cost_usd.high, b->cost_usd.high);
    return order ? order : by_rank(x, y);
}

/* Ranked by expected cost; what costs the same as the first of its group then stands by its upper bound. */
static void order_ties(sg_offer_answer *offers, size_t n) {
    for (size_t first = 0, end = 0; first < n && !offers[first].excluded[0]; first = end) {
        double most = TIED * offers[first].cost_usd.value;
        for (end = first + 1; end < n && !offers[end].excluded[0] && offers[end].cost_usd.value <= most;) end++;
        qsort(offers + first, end - first, sizeof *offers, by_upper_bound);
    }
}

static sg_code answer_batches(const planner *p, const sg_offers *offers, size_t row, const sg_machine *sheet,
                              sg_status *status) {
    size_t n = p->answer->n_batches;
    sg_code code = SG_OK;
    for (size_t b = 0; b < n && !code; b++) {
        sg_offer_answer *a = &p->answer->offers[row * n + b];
        a->row = row;
        code = answer_offer(p, &offers->offer[row], sheet, batch_at(p->request, b), a, status);
    }
    return code;
}

/* Machine by machine: the predictor remembers the prices of few. */
static sg_code answer_each(planner *p, const sg_offers *offers, size_t *sheet, sg_status *status) {
    for (size_t i = 0; i < offers->count; i++) {
        sg_code code = load_once(p, offers->offer[i].machine, &sheet[i], status);
        if (code) return sg_fail_in(status, "offer %s", offers->offer[i].name);
    }
    for (size_t m = 0; m < p->loaded.count; m++)
        for (size_t i = 0; i < offers->count; i++) {
            if (sheet[i] != m) continue;
            sg_code code = answer_batches(p, offers, i, &p->loaded.machine[m], status);
            if (code) return code;
        }
    return SG_OK;
}

static sg_code rank(sg_plan_answer *answer, size_t offers, sg_status *status) {
    bool *seen = calloc(offers + 1, sizeof *seen);
    if (!seen) return sg_fail_memory(status, offers, "a ranking");
    if (answer->offers && answer->n_offers) {
        qsort(answer->offers, answer->n_offers, sizeof *answer->offers, by_rank);
        order_ties(answer->offers, answer->n_offers);
    }
    for (size_t i = 0; i < answer->n_offers; i++) {
        sg_offer_answer *a = &answer->offers[i];
        a->best = !seen[a->row];
        seen[a->row] = true;
    }
    if (answer->n_offers && !answer->offers[0].excluded[0]) answer->recommended = 0;
    free(seen);
    return SG_OK;
}

static sg_code answer_offers(planner *p, const sg_offers *offers, sg_status *status) {
    sg_plan_answer *answer = p->answer;
    answer->n_batches = p->request->n_batches ? p->request->n_batches : 1;
    size_t n = 0;
    if (!__builtin_mul_overflow(offers->count, answer->n_batches, &n) && n < SIZE_MAX)
        answer->offers = calloc(n + 1, sizeof *answer->offers);
    p->loaded.machine = calloc(offers->count + 1, sizeof *p->loaded.machine);
    size_t *sheet = calloc(offers->count + 1, sizeof *sheet); /* of each offer: its machine among those loaded */
    sg_code code = answer->offers && p->loaded.machine && sheet
                       ? answer_each(p, offers, sheet, status)
                       : sg_fail_memory(status, offers->count * sizeof(sg_machine), "the machines of the offers");
    free(sheet);
    if (code) return code;
    answer->n_offers = n;
    return rank(answer, offers->count, status);
}

static sg_code make(planner *p, const sg_offers *offers, sg_status *status) {
    sg_machine gpu = {.device_class = "cuda"};
    sg_code code = sg_predictor_open(&p->policy, p->request->config_dir, &p->predictor, status);
    if (!code) code = sg_predictor_training(p->predictor, &gpu, &p->training, status);
    if (!code) code = count_steps(p, status);
    if (code) return code;
    sg_counts counts = sg_count_program(p->training, sg_main_program(p->training));
    p->checkpoint_bytes = (double)counts.weights_bytes + (double)counts.optimizer_bytes;
    code = answer_offers(p, offers, status);
    if (!code) code = answer_here(p, status);
    if (!code) sg_plan_recommend(p->request, p->answer);
    return code;
}

sg_code sg_plan_make(const sg_plan_request *request, sg_plan_answer *answer, sg_status *status) {
    memset(answer, 0, sizeof *answer);
    answer->recommended = -1;
    answer->interval = request->interval > 0 && request->interval < 1 ? request->interval : 0.9;
    planner p = {.request = request, .answer = answer, .policy = request->policy};
    if (request->n_batches) p.policy.batch = request->batches[0];
    sg_offers offers;
    sg_code code = sg_offers_read(request->offers_path, request->config_dir, &offers, status);
    if (code) return code;
    code = make(&p, &offers, status);
    for (size_t i = 0; i < p.loaded.count; i++) sg_machine_clear(&p.loaded.machine[i]);
    free(p.loaded.machine);
    sg_predictor_close(p.predictor);
    sg_offers_clear(&offers);
    if (code) sg_plan_clear(answer);
    return code;
}

void sg_plan_clear(sg_plan_answer *answer) {
    free(answer->offers);
    memset(answer, 0, sizeof *answer);
    answer->recommended = -1;
}
