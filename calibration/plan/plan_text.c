#include "calibration/plan/plan_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sg_plan_duration(double seconds, char *out, size_t bytes) {
    if (!(seconds < 1e12)) {
        (void)snprintf(out, bytes, "for ever");
        return;
    }
    long long minutes = (long long)floor(seconds / 60 + 0.5);
    if (seconds < 60)
        (void)snprintf(out, bytes, "%.3g s", seconds);
    else if (minutes < 60)
        (void)snprintf(out, bytes, "%lld min", minutes);
    else if (minutes < 48 * 60)
        (void)snprintf(out, bytes, "%lld h %02lld min", minutes / 60, minutes % 60);
    else
        (void)snprintf(out, bytes, "%.1f days", seconds / 86400);
}

typedef struct text {
    char *at;
    size_t room;
    bool cut;
} text;

static void SG_PRINTF(2, 3) append(text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->at, t->room, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= t->room) {
        t->cut = true;
        return;
    }
    t->at += n;
    t->room -= (size_t)n;
}

/* ---- commands ------------------------------------------------------------------------------------------------------ */

/* Facts of the data set, which LeRobot reads from it itself. */
static bool is_dataset_fact(const char *key) {
    static const char *const facts[] = {"cameras", "image_height", "image_width", "state_dim", "action_dim"};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (strcmp(key, facts[i]) == 0) return true;
    return false;
}

/* A shell passes it on as it stands. */
static bool is_plain(const char *value) {
    return *value && !value[strcspn(value, " \t\n\"'\\$`&|;<>()*?[]{}!#~")];
}

static const char *dataset_name(const sg_plan_request *r, char *out, size_t bytes) {
    (void)snprintf(out, bytes, "DATASET");
    if (!r->dataset) return out;
    char path[sizeof r->dataset->path];
    memcpy(path, r->dataset->path, sizeof path);
    path[sizeof path - 1] = 0;
    for (char *slash; (slash = strrchr(path, '/')); *slash = 0) {
        const char *last = slash + 1;
        if (!*last || strcmp(last, "meta") == 0 || strcmp(last, "info.json") == 0 || !is_plain(last)) continue;
        (void)snprintf(out, bytes, "%.96s", last);
        break;
    }
    return out;
}

/* What people start a policy's training from; NULL: from nothing. */
static const char *base_of(const char *policy) {
    if (strcmp(policy, "smolvla") == 0) return "lerobot/smolvla_base";
    if (strcmp(policy, "pi0") == 0) return "lerobot/pi0_base";
    return strcmp(policy, "pi05") == 0 ? "lerobot/pi05_base" : NULL;
}

static bool is_pi(const char *policy) {
    return strcmp(policy, "pi0") == 0 || strcmp(policy, "pi05") == 0;
}

/* LeRobot's command names the policy's own optimizer only. */
static bool has_own_optimizer(const sg_plan_request *r) {
    for (size_t i = 0; i < r->policy.n_settings; i++)
        if (strcmp(r->policy.settings[i].name, "optimizer") == 0 && strcmp(r->policy.settings[i].value, "adamw") != 0)
            return false;
    return true;
}

/* LeRobot takes lists in brackets, which would have to be quoted twice. */
static bool has_lists(const sg_plan_request *r) {
    for (size_t i = 0; i < r->policy.n_settings; i++)
        if (strchr(r->policy.settings[i].value, ',')) return true;
    return false;
}

/* A policy of LeRobot, trained as LeRobot trains it. */
static bool is_lerobots(const sg_plan_request *r, const char *policy) {
    if (!sg_framework_runs(r->policy.framework)) return false;
    if (strcmp(policy, "diffusion") == 0) return !has_lists(r);
    return strcmp(policy, "act") == 0 || base_of(policy);
}

static void train_arguments(text *t, const sg_plan_request *r, const sg_training *training, const sg_offer_answer *a) {
    char name[112];
    const char *base = base_of(training->policy);
    if (base)
        append(t, "--policy.path=%s", base);
    else
        append(t, "--policy.type=%s", training->policy);
    for (size_t i = 0; i < r->policy.n_settings; i++) {
        const sg_setting *s = &r->policy.settings[i];
        if (!is_dataset_fact(s->name) && is_plain(s->value)) append(t, " --policy.%s=%s", s->name, s->value);
    }
    if (is_pi(training->policy) && r->policy.precision && strcmp(r->policy.precision, "bf16") == 0)
        append(t, " --policy.dtype=bfloat16");
    append(t, " --dataset.repo_id=USER/%s --batch_size=%lld --steps=%lld --num_workers=%d",
           dataset_name(r, name, sizeof name), (long long)a->batch, (long long)a->steps, a->workers);
    if (training->accumulation > 1)
        append(t, " --accelerator.gradient_accumulation.steps=%lld", (long long)training->accumulation);
    if (r->save_every > 0) append(t, " --save_freq=%lld", (long long)r->save_every);
    append(t, " --save_checkpoint_to_hub=true");
}

void sg_plan_command(const sg_plan_request *request, const sg_training *training, sg_offer_answer *a) {
    a->command[0] = 0;
    if (strcmp(a->provider, "Hugging Face Jobs") != 0) return;
    if (!is_lerobots(request, training->policy)) return;
    if (!has_own_optimizer(request)) return;
    /* the run is killed at its time limit: the upper bound, in whole hours */
    long long hours = (long long)ceil(fmin(a->wall_clock_s.high, 3e7) / 3600);
    text t = {a->command, sizeof a->command, false};
    if (a->gpus == 1) {
        append(&t, "lerobot-train ");
        train_arguments(&t, request, training, a);
        append(&t, " --job.target=%s --job.timeout=%lldh", a->name, hours);
    } else {
        append(&t,
               "hf jobs run --flavor %s --timeout %lldh --secrets HF_TOKEN huggingface/lerobot-gpu:latest bash -c "
               "'accelerate launch --multi_gpu --num_processes=%d $(which lerobot-train) ",
               a->name, hours, a->gpus);
        train_arguments(&t, request, training, a);
        append(&t, "'");
    }
    if (t.cut) a->command[0] = 0; /* half a command is none */
}

/* ---- recommendation ------------------------------------------------------------------------------------------------ */

static void append_times(text *t, const sg_offer_answer *a) {
    char value[32], low[32], high[32];
    sg_plan_duration(a->wall_clock_s.value, value, sizeof value);
    sg_plan_duration(a->wall_clock_s.low, low, sizeof low);
    sg_plan_duration(a->wall_clock_s.high, high, sizeof high);
    append(t, "%s (%s to %s)", value, low, high);
}

static void append_here(text *t, const sg_plan_answer *answer) {
    if (!answer->has_here) return;
    bool measured = strcmp(answer->here.name, "this machine") == 0;
    append(t, " %s: ", measured ? "This machine" : answer->here.name);
    if (answer->here.excluded[0]) {
        append(t, "%s.", answer->here.excluded);
    } else {
        append_times(t, &answer->here);
        append(t, ", no rent.");
    }
}

/* Of those that are not excluded, the one with the least expected time. */
static const sg_offer_answer *fastest(const sg_plan_answer *answer) {
    const sg_offer_answer *best = NULL;
    for (size_t i = 0; i < answer->n_offers; i++) {
        const sg_offer_answer *a = &answer->offers[i];
        if (!a->excluded[0] && (!best || a->wall_clock_s.value < best->wall_clock_s.value)) best = a;
    }
    return best;
}

void sg_plan_recommend(const sg_plan_request *request, sg_plan_answer *answer) {
    text t = {answer->recommendation, sizeof answer->recommendation, false};
    if (answer->recommended < 0) {
        if (!answer->n_offers)
            append(&t, "There are no offers to choose from.");
        else
            append(&t, "None of the %zu offers will do: the first, %s, is excluded because it %s. A smaller batch%s.",
                   answer->n_offers, answer->offers[0].name, answer->offers[0].excluded,
                   request->budget_usd > 0 || request->deadline_s > 0
                       ? ", fewer steps, a higher budget or a later deadline"
                       : " needs less memory");
        append_here(&t, answer);
        return;
    }
    const sg_offer_answer *a = &answer->offers[answer->recommended], *quick = fastest(answer);
    append(&t, "Rent %s (%d x %s) at %s", a->name, a->gpus, a->gpu, a->provider);
    if (answer->n_batches > 1) append(&t, " with batch %lld", (long long)a->batch);
    append(&t, ": ");
    append_times(&t, a);
    append(&t, ", $%.2f ($%.2f to $%.2f); ", a->cost_usd.value, a->cost_usd.low, a->cost_usd.high);
    if (a->loader_text[0])
        append(&t, "%s.", a->loader_text);
    else
        append(&t, "limited by %s.", a->limited_by);
    if (a->workers != request->workers)
        append(&t, " %d loader worker%s for each GPU, not the default %d%s.", a->workers, a->workers == 1 ? "" : "s",
               request->workers, a->workers < request->workers ? ": there are no more vCPUs" : "");
    if (quick && quick != a) {
        char time[32];
        sg_plan_duration(quick->wall_clock_s.value, time, sizeof time);
        append(&t, " Fastest: %s", quick->name);
        if (answer->n_batches > 1) append(&t, " with batch %lld", (long long)quick->batch);
        append(&t, " in %s for $%.2f.", time, quick->cost_usd.value);
    }
    append_here(&t, answer);
}
