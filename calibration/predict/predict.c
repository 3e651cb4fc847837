#include "calibration/predict/predict.h"

#include <stdlib.h>
#include <string.h>

#include "calibration/machine/framework_file.h"
#include "calibration/predict/predict_work.h"

/* A steady iteration of a training and its prices on the machines that were asked for lately. */
enum { PRICED = 16 };
typedef struct course {
    struct course *next;
    sg_course_options options;
    sg_course *course;
    sg_tape_prices *prices[PRICED]; /* latest first */
} course;

/* A training as one device class runs it. Unsharded, one program serves any number of ranks: what exchanges gradients costs
 * nothing on one. */
typedef struct lowered {
    struct lowered *next;
    sg_device_class device_class;
    int64_t batch;       /* as asked for */
    int64_t shard_ranks; /* 0: not sharded */
    sg_training *training;
    course *courses;
} lowered;

/* The numbers of the request's framework on one device class. */
typedef struct framework {
    struct framework *next;
    char device_class[sizeof((sg_machine *)0)->device_class];
    sg_framework_numbers numbers;
} framework;

struct sg_predictor {
    const sg_policy_request *request;
    const char *config_dir;
    lowered *lowered;
    framework *frameworks;
    sg_codec_table codecs; /* once something was decoded */
};

sg_device_class sg_machine_device_class(const sg_machine *machine) {
    return strcmp(machine->device_class, "cpu") == 0 ? SG_DEVICE_CLASS_CPU : SG_DEVICE_CLASS_CUDA;
}

static sg_code numbers_of(sg_predictor *p, const char *device_class, const sg_framework_numbers **numbers,
                          sg_status *status) {
    framework *f = p->frameworks;
    while (f && strcmp(f->device_class, device_class) != 0) f = f->next;
    if (!f) {
        f = calloc(1, sizeof *f);
        if (!f) return sg_fail_memory(status, sizeof *f, "a framework's numbers");
        memcpy(f->device_class, device_class, sizeof f->device_class);
        sg_code code = sg_framework_load(sg_framework_name(p->request->framework), device_class, p->config_dir,
                                         &f->numbers, status);
        if (code) {
            free(f);
            return code;
        }
        f->next = p->frameworks;
        p->frameworks = f;
    }
    *numbers = &f->numbers;
    return SG_OK;
}

/* The machine with the framework's numbers, in memory of its own. */
static sg_code own_machine(sg_predictor *p, sg_predict_work *w, const sg_machine *machine, sg_status *status) {
    const sg_framework_numbers *numbers = NULL;
    w->machine = *machine;
    w->machine.covariance = NULL;
    w->machine.measured = sg_measured_share(machine->measured);
    sg_code code = SG_OK;
    if (w->options->framework)
        numbers = w->options->framework;
    else
        code = numbers_of(p, machine->device_class, &numbers, status);
    if (code) return code;
    if (machine->covariance) {
        size_t bytes = sizeof(double) * SG_M_COUNT * SG_M_COUNT;
        w->machine.covariance = malloc(bytes);
        if (!w->machine.covariance) return sg_fail_memory(status, bytes, "a machine's covariance");
        memcpy(w->machine.covariance, machine->covariance, bytes);
    }
    /* host costs that were measured are the framework's; the engine itself is known */
    if (numbers->factors)
        sg_framework_apply(numbers, &w->machine);
    else
        sg_framework_impose(numbers, &w->machine);
    w->buckets = numbers->buckets;
    return SG_OK;
}

sg_code sg_predictor_open(const sg_policy_request *request, const char *config_dir, sg_predictor **predictor,
                          sg_status *status) {
    *predictor = calloc(1, sizeof **predictor);
    if (!*predictor) return sg_fail_memory(status, sizeof **predictor, "a predictor");
    (*predictor)->request = request;
    (*predictor)->config_dir = config_dir;
    return SG_OK;
}

static void close_course(course *c) {
    for (int i = 0; i < PRICED; i++) sg_tape_prices_close(c->prices[i]);
    sg_course_close(c->course);
    free(c);
}

static void close_lowered(lowered *l) {
    while (l->courses) {
        course *next = l->courses->next;
        close_course(l->courses);
        l->courses = next;
    }
    sg_training_free(l->training);
    free(l);
}

void sg_predictor_close(sg_predictor *p) {
    if (!p) return;
    while (p->lowered) {
        lowered *next = p->lowered->next;
        close_lowered(p->lowered);
        p->lowered = next;
    }
    while (p->frameworks) {
        framework *next = p->frameworks->next;
        free(p->frameworks);
        p->frameworks = next;
    }
    free(p);
}

static bool sharded(const sg_policy_request *request) {
    return request->sharding && strcmp(request->sharding, "none") != 0;
}

static sg_code lower(sg_predictor *p, const sg_machine *machine, int64_t batch, int ranks, lowered **out,
                     sg_status *status) {
    sg_policy_request asked = *p->request;
    asked.device_class = sg_machine_device_class(machine);
    asked.ranks = sharded(&asked) ? ranks : 2;
    if (batch > 0) asked.batch = batch;
    int64_t shard_ranks = sharded(&asked) ? ranks : 0;
    for (*out = p->lowered; *out; *out = (*out)->next)
        if ((*out)->device_class == asked.device_class && (*out)->batch == asked.batch &&
            (*out)->shard_ranks == shard_ranks)
            return SG_OK;
    lowered *l = calloc(1, sizeof *l);
    if (!l) return sg_fail_memory(status, sizeof *l, "a training");
    l->device_class = asked.device_class;
    l->batch = asked.batch;
    l->shard_ranks = shard_ranks;
    sg_code code = sg_policy_build(&asked, &l->training, status);
    if (code) {
        free(l);
        return code;
    }
    l->next = p->lowered;
    *out = p->lowered = l;
    return SG_OK;
}

sg_code sg_predictor_training(sg_predictor *predictor, const sg_machine *machine, const sg_training **training,
                              sg_status *status) {
    lowered *l = NULL;
    sg_code code = lower(predictor, machine, 0, 1, &l, status);
    *training = code ? NULL : l->training;
    return code;
}

static bool same_course(const sg_course_options *a, const sg_course_options *b) {
    return a->processor == b->processor && a->several == b->several && a->caching == b->caching &&
           a->graph == b->graph && a->buckets.first_bytes == b->buckets.first_bytes &&
           a->buckets.bytes == b->buckets.bytes;
}

/* Asked for, or the framework's way; graphs are CUDA's. */
static bool captures(const sg_predict_work *w) {
    return w->options->graph ||
           (sg_framework_captures(w->request->framework) && strcmp(w->machine.device_class, "cuda") == 0);
}

static sg_code find_course(const sg_predict_work *w, lowered *l, course **out, sg_status *status) {
    const sg_course_options options = {.processor = l->device_class == SG_DEVICE_CLASS_CPU,
                                       .several = w->ranks > 1,
                                       .caching = w->machine.caching_allocator,
                                       .graph = captures(w),
                                       .buckets = w->buckets};
    for (*out = l->courses; *out; *out = (*out)->next)
        if (same_course(&(*out)->options, &options)) return SG_OK;
    course *c = calloc(1, sizeof *c);
    if (!c) return sg_fail_memory(status, sizeof *c, "the course of a walk");
    c->options = options;
    sg_code code = sg_course_open(l->training, &options, &c->course, status);
    if (code) {
        free(c);
        return code;
    }
    c->next = l->courses;
    *out = l->courses = c;
    return SG_OK;
}

/* Byte by byte: what differs in padding alone is priced once more, and no more than that. */
static bool same_machine(const sg_machine *a, const sg_machine *b) {
    return memcmp(a, b, sizeof *a) == 0; // NOLINT(bugprone-suspicious-memory-comparison)
}

/* Prices of the course on this machine, made where they are not among the latest. */
static sg_code find_prices(course *c, const sg_machine *machine, const sg_tape_prices **prices, sg_status *status) {
    sg_machine key = *machine;
    key.covariance = NULL;
    key.vcpus = 0; /* the loader's, which is not walked */
    int at = 0;
    while (at < PRICED - 1 && c->prices[at] && !same_machine(&c->prices[at]->machine, &key)) at++;
    sg_tape_prices *found = c->prices[at];
    if (!found || !same_machine(&found->machine, &key)) {
        sg_tape_prices *made;
        sg_code code = sg_tape_price(sg_course_tape(c->course), &key, &made, status);
        if (code) return code;
        sg_tape_prices_close(found);
        found = made;
    }
    memmove(c->prices + 1, c->prices, (size_t)at * sizeof(sg_tape_prices *));
    c->prices[0] = found;
    *prices = found;
    return SG_OK;
}

static sg_code walk_on(const sg_predict_work *w, lowered *l, const sg_machine *machine, sg_walked *walked,
                       sg_status *status) {
    course *c = NULL;
    const sg_tape_prices *prices = NULL;
    sg_code code = find_course(w, l, &c, status);
    if (!code) code = find_prices(c, machine, &prices, status);
    return code ? code : sg_course_walk(c->course, prices, w->ranks, sg_predict_env_step_s(w), walked, status);
}

/* Walks once more with our engine's numbers, to know what the framework adds to a law of our engine. */
static sg_code ask_law(sg_predict_work *w, lowered *l, const char *config_dir, sg_status *status) {
    sg_framework_numbers engine;
    sg_code code =
        sg_framework_load(sg_framework_name(SG_FRAMEWORK_NATIVE), w->machine.device_class, config_dir, &engine, status);
    if (code) return code;
    sg_machine plain = w->machine;
    plain.covariance = NULL; /* it is the other machine's */
    sg_framework_impose(&engine, &plain);
    sg_walked walked;
    code = walk_on(w, l, &plain, &walked, status);
    if (code) return code;
    return sg_predict_law(w->options->fit, w->request, w->training, &w->machine, w->ranks, &w->walked.times,
                          &walked.times, &w->law, status);
}

static sg_code codecs_of(sg_predictor *p, sg_predict_work *w, sg_status *status) {
    sg_code code = SG_OK;
    if (w->training->cameras <= 0) return SG_OK;
    if (p->codecs.n == 0) code = sg_codec_table_load(p->config_dir, &p->codecs, status);
    w->codecs = &p->codecs;
    return code;
}

sg_code sg_predictor_run(sg_predictor *predictor, const sg_machine *machine, const sg_predict_options *options,
                         sg_prediction *prediction, sg_status *status) {
    const sg_policy_request *request = predictor->request;
    memset(prediction, 0, sizeof *prediction);
    if (options->ranks < 0 || options->workers < 0 || options->batch < 0)
        return sg_fail(status, SG_BAD_INPUT, "predicting %s: %d ranks with %d loader workers, batch %lld",
                       request->policy, options->ranks, options->workers, (long long)options->batch);
    sg_predict_work w = {.request = request,
                         .options = options,
                         .ranks = options->ranks > 1 ? options->ranks : 1,
                         .interval = options->interval > 0 && options->interval < 1 ? options->interval : 0.9,
                         .out = prediction};
    lowered *l = NULL;
    sg_code code = own_machine(predictor, &w, machine, status);
    if (!code) code = lower(predictor, machine, options->batch, w.ranks, &l, status);
    if (!code && l) {
        w.training = l->training;
        code = walk_on(&w, l, &w.machine, &w.walked, status);
    }
    /* laws are of steps that the host dispatches op by op */
    if (!code && options->fit && !captures(&w)) code = ask_law(&w, l, predictor->config_dir, status);
    if (!code) code = codecs_of(predictor, &w, status);
    if (!code) code = sg_predict_figures(&w, status);
    if (!code) prediction->batch = w.training->batch;
    if (!code) prediction->captured = captures(&w);
    if (!code && options->trace) code = sg_predict_trace(&w, status);
    sg_machine_clear(&w.machine);
    return code ? sg_fail_in(status, "predicting %s on %s", request->policy, machine->name) : SG_OK;
}

sg_code sg_predict(const sg_policy_request *request, const sg_machine *machine, const sg_predict_options *options,
                   sg_prediction *prediction, sg_status *status) {
    sg_predictor *predictor = NULL;
    sg_code code = sg_predictor_open(request, options->config_dir, &predictor, status);
    if (!code) code = sg_predictor_run(predictor, machine, options, prediction, status);
    sg_predictor_close(predictor);
    return code;
}
