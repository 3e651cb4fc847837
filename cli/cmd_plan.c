/* plan: wall-clock, cost and a ranking of offers for a whole training. */
#include "cli/commands.h"
#include "cli/planning.h"
#include "cli/show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static json_t *json_offer(const sg_offer_answer *o) {
    json_t *object = json_pack(
        "{s:s, s:s, s:i, s:i, s:s, s:s, s:I, s:I, s:b, s:o, s:o, s:o, s:o, s:s, s:s, s:s, s:s, s:s, s:s, s:s}",
        "provider", o->provider, "name", o->name, "gpus", o->gpus, "workers", o->workers, "gpu", o->gpu, "machine",
        o->machine, "batch", (json_int_t)o->batch, "steps", (json_int_t)o->steps, "fits", (int)o->fits, "step_s",
        sg_json_figure(&o->step_s), "wall_clock_s", sg_json_figure(&o->wall_clock_s), "cost_usd",
        sg_json_figure(&o->cost_usd), "device_bytes", sg_json_figure(&o->peak_bytes), "limited_by", o->limited_by,
        "evidence", sg_evidence_name(o->evidence), "device_evidence", sg_evidence_name(o->device_evidence),
        "host_evidence", sg_evidence_name(o->host_evidence), "price_date", o->price_date, "excluded", o->excluded,
        "command", o->command);
    const struct {
        const char *name;
        const sg_figure *seconds;
    } rest[] = {{"start_s", &o->start_s},
                {"first_batch_s", &o->first_batch_s},
                {"checkpoints_s", &o->checkpoints_s},
                {"epoch_ends_s", &o->epoch_ends_s}};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        (void)json_object_set_new(object, rest[i].name, sg_json_figure(rest[i].seconds));
    (void)json_object_set_new(object, "epoch_ends", json_integer((json_int_t)o->epoch_ends));
    (void)json_object_set_new(object, "checkpoints", json_integer((json_int_t)o->checkpoints));
    return object;
}

json_t *sg_json_plan(const sg_plan_answer *plan) {
    json_t *offers = json_array();
    for (size_t i = 0; i < plan->n_offers; i++) (void)json_array_append_new(offers, json_offer(&plan->offers[i]));
    json_t *object =
        json_pack("{s:f, s:I, s:I, s:I, s:o, s:s}", "interval", plan->interval, "steps", (json_int_t)plan->steps,
                  "samples", (json_int_t)plan->samples, "steps_per_epoch", (json_int_t)plan->steps_per_epoch, "offers",
                  offers, "recommendation", plan->recommendation);
    if (plan->has_here) (void)json_object_set_new(object, "here", json_offer(&plan->here));
    return object;
}

static sg_text money(double usd) {
    sg_text t;
    (void)snprintf(t.s, sizeof t.s, usd < 10 ? "$%.2f" : "$%.1f", usd);
    return t;
}

static sg_text range(const sg_figure *f, sg_text (*format)(double)) {
    sg_text t;
    if (!isfinite(f->value))
        (void)snprintf(t.s, sizeof t.s, "-");
    else
        (void)snprintf(t.s, sizeof t.s, "%.14s (%.14s .. %.14s)", format(f->value).s, format(f->low).s,
                       format(f->high).s);
    return t;
}

static bool one_provider(const sg_plan_answer *plan) {
    for (size_t i = 1; i < plan->n_offers; i++)
        if (strcmp(plan->offers[i].provider, plan->offers[0].provider) != 0) return false;
    return true;
}

static void add_row(sg_table *table, const sg_offer_answer *o, bool with_provider) {
    char gpu[96], name[112], batch[24], evidence[48];
    (void)snprintf(evidence, sizeof evidence, "%s, host %s", sg_evidence_name(o->device_evidence),
                   sg_evidence_name(o->host_evidence));
    (void)snprintf(batch, sizeof batch, "%lld", (long long)o->batch);
    (void)snprintf(name, sizeof name, "%s%s%s", with_provider ? o->provider : "", with_provider ? " " : "", o->name);
    (void)snprintf(gpu, sizeof gpu, "%d x %s", o->gpus, o->gpu);
    sg_text steps = sg_show_count(o->steps), step = sg_show_seconds(o->step_s.value),
            peak = sg_show_bytes(o->peak_bytes.high);
    sg_text wall = range(&o->wall_clock_s, sg_show_duration), cost = range(&o->cost_usd, money);
    const char *const row[] = {
        name, o->gpus > 0 ? gpu : o->gpu, steps.s, step.s, wall.s, cost.s, peak.s, o->limited_by, evidence, batch};
    sg_table_row(table, row);
}

static void print_share(const char *before, double count, const char *one, const char *many, double seconds) {
    if (!(seconds > 0)) return;
    printf("%s%s %s %s", before, sg_show_count((int64_t)count).s, count == 1 ? one : many, sg_show_duration(seconds).s);
}

/* Where a wall-clock goes that is not all steps. */
static void print_parts(const sg_offer_answer *o, const char *name) {
    if (!isfinite(o->wall_clock_s.value)) return;
    printf("  %s: %s = start-up %s", name, sg_show_duration(o->wall_clock_s.value).s,
           sg_show_duration(o->start_s.value).s);
    if (o->first_batch_s.value > 0) printf(" + first batch %s", sg_show_duration(o->first_batch_s.value).s);
    print_share(" + ", (double)o->steps, "step", "steps", (double)o->steps * o->step_s.value);
    print_share(" + ", o->epoch_ends, "end of an epoch", "ends of epochs", o->epoch_ends_s.value);
    print_share(" + ", o->checkpoints, "checkpoint", "checkpoints", o->checkpoints_s.value);
    printf("\n");
}

/* Of those not excluded, the one of whose time the least goes into steps. */
static const sg_offer_answer *least_steps(const sg_plan_answer *plan) {
    const sg_offer_answer *found = NULL;
    double least = INFINITY;
    for (size_t i = 0; i < plan->n_offers; i++) {
        const sg_offer_answer *o = &plan->offers[i];
        double share = (double)o->steps * o->step_s.value / o->wall_clock_s.value;
        if (o->excluded[0] || !o->best || !(share < least)) continue;
        least = share;
        found = o;
    }
    return found;
}

static void print_times(const sg_plan_answer *plan) {
    const sg_offer_answer *first = plan->recommended >= 0 ? &plan->offers[plan->recommended] : NULL;
    const sg_offer_answer *least = least_steps(plan);
    if (!first && !plan->has_here) return;
    printf("\nWhat the wall-clock holds\n");
    if (plan->has_here) print_parts(&plan->here, plan->here.name);
    if (first) print_parts(first, first->name);
    if (least && least != first) print_parts(least, least->name);
}

void sg_print_plan(const sg_plan_answer *plan) {
    char wall[32], cost[32];
    (void)snprintf(wall, sizeof wall, "wall-clock (%.3g %%)", 100 * plan->interval);
    (void)snprintf(cost, sizeof cost, "cost (%.3g %%)", 100 * plan->interval);
    const char *const header[] = {"offer", "device",       "steps",      "step",     wall,
                                  cost,    "memory up to", "limited by", "evidence", "batch"};
    const int columns = plan->n_batches > 1 ? 10 : 9;
    bool several = !one_provider(plan);
    printf("%s steps of one process", sg_show_count(plan->steps).s);
    if (plan->steps_per_epoch > 0) printf(" (%s per epoch)", sg_show_count(plan->steps_per_epoch).s);
    printf(", %s samples.", sg_show_count(plan->samples).s);
    if (plan->n_offers && !several)
        printf(" Offers of %s, prices of %s.", plan->offers[0].provider, plan->offers[0].price_date);
    printf("\n");
    if (plan->has_here || plan->recommended >= 0) {
        printf("\n");
        sg_table *table = sg_table_new(columns, header);
        if (plan->has_here) add_row(table, &plan->here, false);
        for (size_t i = 0; i < plan->n_offers; i++)
            if (!plan->offers[i].excluded[0] && plan->offers[i].best) add_row(table, &plan->offers[i], several);
        sg_table_print(table);
    }
    print_times(plan);
    for (size_t i = 0, first = 1; i < plan->n_offers; i++) {
        const sg_offer_answer *o = &plan->offers[i];
        if (!o->excluded[0] || !o->best) continue;
        if (first) printf("\nLeft out:\n");
        first = 0;
        printf("  %s%s%s", several ? o->provider : "", several ? " " : "", o->name);
        if (plan->n_batches > 1) printf(", batch %lld", (long long)o->batch);
        printf(": %s\n", o->excluded);
    }
    printf("\n%s\n", plan->recommendation);
    if (plan->recommended >= 0 && plan->offers[plan->recommended].command[0])
        printf("\n  %s\n", plan->offers[plan->recommended].command);
}

sg_plan_request sg_plan_request_of(const sg_args *args, const sg_request *request, const sg_machine *here) {
    return (sg_plan_request){
        .policy = request->policy,
        .dataset = request->has_dataset ? &request->dataset : NULL,
        .frames = args->frames > 0 ? args->frames : 0,
        .steps = args->steps > 0 ? args->steps
                 : args->epochs < 0 && request->has_train_config && request->train_config.steps > 0
                     ? request->train_config.steps
                     : 0,
        .epochs = args->epochs > 0 ? args->epochs : 0,
        .save_every = args->save_every >= 0 ? args->save_every
                      : request->has_train_config && request->train_config.save_freq > 0
                          ? request->train_config.save_freq
                          : 20000,
        .budget_usd = args->budget_usd > 0 ? args->budget_usd : 0,
        .deadline_s = args->deadline_h > 0 ? args->deadline_h * 3600 : 0,
        .interval = args->interval > 0 ? args->interval : 0.9,
        .workers = args->workers.n ? (int)args->workers.value[0] : 4, /* LeRobot's num_workers */
        .choose_workers = args->workers.n == 0,
        .offers_path = args->offers,
        .config_dir = NULL,
        .here = here,
    };
}

static int answer(const sg_args *args, const sg_request *request, const sg_target *here) {
    sg_status status;
    sg_plan_answer plan = {0};
    sg_plan_request what = sg_plan_request_of(args, request, here ? &here->machine : NULL);
    what.here_fit = here && here->has_fit ? &here->fit : NULL;
    char dataset[160];
    sg_dataset_description(args, request, dataset, sizeof dataset);
    what.dataset_text = dataset[0] ? dataset : NULL;
    sg_law room;
    if (sg_environment_choose(args, request, what.here_fit, &room, &what.environment, &status) != SG_OK)
        return sg_show_error(args, &status);
    if (args->batch.n > 1) {
        what.batches = args->batch.value;
        what.n_batches = args->batch.n;
    }
    if (sg_plan_make(&what, &plan, &status) != SG_OK) return sg_show_error(args, &status);
    int result = plan.recommended >= 0 ? SG_OK : SG_NO;
    if (args->json)
        result = sg_json_print(sg_json_plan(&plan), result);
    else {
        sg_print_plan(&plan);
        if (what.steps == 0 && what.epochs == 0 && strcmp(request->name, "ppo") != 0)
            printf("\nNote: neither --epochs nor --steps was given: the framework's default of %s steps\n",
                   sg_show_count(plan.steps).s);
    }
    sg_plan_clear(&plan);
    return result;
}

int sg_cmd_plan(const sg_args *args) {
    sg_status status;
    sg_request request;
    sg_target here;
    bool has_here = args->machine != NULL;
    if (args->log.n) return sg_planning_rest(args);
    if (args->ranks.n) {
        (void)sg_fail(&status, SG_BAD_INPUT,
                      "plan takes no number of GPUs: each offer has its own; 'predict --gpus' takes one");
        return sg_show_error(args, &status);
    }
    if (args->steps > 0 && args->epochs > 0) {
        (void)sg_fail(&status, SG_BAD_INPUT, "--steps and --epochs both say how long to train: give one");
        return sg_show_error(args, &status);
    }
    if (has_here && sg_target_load(args, &here, &status) != SG_OK) return sg_show_error(args, &status);
    int result;
    if (sg_request_make(args, SG_DEVICE_CLASS_CUDA, &request, &status) != SG_OK)
        result = sg_show_error(args, &status);
    else {
        result = answer(args, &request, has_here ? &here : NULL);
        sg_request_clear(&request);
    }
    if (has_here) sg_target_clear(&here);
    return result;
}
