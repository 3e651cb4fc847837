/* plan: wall-clock, cost and a ranking of offers for a whole training. */
#include "cli/commands.h"
#include "cli/planning.h"
#include "cli/show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static json_t *json_offer(const sg_offer_answer *o) {
    return json_pack("{s:s, s:s, s:i, s:s, s:s, s:I, s:b, s:o, s:o, s:o, s:o, s:s, s:s, s:s, s:s, s:s}", "provider",
                     o->provider, "name", o->name, "gpus", o->gpus, "gpu", o->gpu, "machine", o->machine, "steps",
                     (json_int_t)o->steps, "fits", (int)o->fits, "step_s", sg_json_figure(&o->step_s), "wall_clock_s",
                     sg_json_figure(&o->wall_clock_s), "cost_usd", sg_json_figure(&o->cost_usd), "device_bytes",
                     sg_json_figure(&o->peak_bytes), "limited_by", o->limited_by, "evidence",
                     sg_evidence_name(o->evidence), "price_date", o->price_date, "excluded", o->excluded, "command",
                     o->command);
}

json_t *sg_json_plan(const sg_plan_answer *plan) {
    json_t *offers = json_array();
    for (size_t i = 0; i < plan->n_offers; i++) (void)json_array_append_new(offers, json_offer(&plan->offers[i]));
    json_t *object = json_pack("{s:I, s:I, s:I, s:o, s:s}", "steps", (json_int_t)plan->steps, "samples",
                               (json_int_t)plan->samples, "steps_per_epoch", (json_int_t)plan->steps_per_epoch,
                               "offers", offers, "recommendation", plan->recommendation);
    if (plan->has_here) (void)json_object_set_new(object, "here", json_offer(&plan->here));
    return object;
}

static sg_text money(double usd) {
    sg_text t;
    (void)snprintf(t.s, sizeof t.s, usd < 10 ? "$%.2f" : "$%.1f", usd);
    return t;
}

static void add_row(sg_table *table, const sg_offer_answer *o) {
    char gpu[96], wall[192], cost[192], name[128];
    (void)snprintf(name, sizeof name, "%s %s", o->provider, o->name);
    (void)snprintf(gpu, sizeof gpu, "%dx %s", o->gpus, o->gpu);
    (void)snprintf(wall, sizeof wall, "%s (%s .. %s)", sg_show_duration(o->wall_clock_s.value).s,
                   sg_show_duration(o->wall_clock_s.low).s, sg_show_duration(o->wall_clock_s.high).s);
    if (isfinite(o->cost_usd.value))
        (void)snprintf(cost, sizeof cost, "%s (%s .. %s)", money(o->cost_usd.value).s, money(o->cost_usd.low).s,
                       money(o->cost_usd.high).s);
    else
        (void)snprintf(cost, sizeof cost, "-");
    sg_text steps = sg_show_count(o->steps), step = sg_show_seconds(o->step_s.value),
            peak = sg_show_bytes(o->peak_bytes.high);
    const char *const row[] = {name,
                               o->gpus > 0 ? gpu : "this machine",
                               steps.s,
                               step.s,
                               wall,
                               cost,
                               peak.s,
                               o->limited_by,
                               o->excluded[0] ? o->excluded : sg_evidence_name(o->evidence)};
    sg_table_row(table, row);
}

void sg_print_plan(const sg_plan_answer *plan) {
    printf("%s steps of one process (%s per epoch), %s samples\n\n", sg_show_count(plan->steps).s,
           sg_show_count(plan->steps_per_epoch).s, sg_show_count(plan->samples).s);
    const char *const header[] = {"offer",       "device",       "steps",      "step",    "wall-clock (90 %)",
                                  "cost (90 %)", "memory up to", "limited by", "evidence"};
    sg_table *table = sg_table_new(9, header);
    if (plan->has_here) add_row(table, &plan->here);
    for (size_t i = 0; i < plan->n_offers; i++) add_row(table, &plan->offers[i]);
    sg_table_print(table);
    const char *date = plan->n_offers ? plan->offers[0].price_date : "";
    if (date[0]) printf("\n  Prices of %s; check the provider's page before you rent.\n", date);
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
        .workers = args->workers.n ? (int)args->workers.value[0] : 4,
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
    if (sg_plan_make(&what, &plan, &status) != SG_OK) return sg_show_error(args, &status);
    int result = plan.recommended >= 0 ? SG_OK : SG_NO;
    if (args->json)
        result = sg_json_print(sg_json_plan(&plan), result);
    else
        sg_print_plan(&plan);
    sg_plan_clear(&plan);
    return result;
}

int sg_cmd_plan(const sg_args *args) {
    sg_status status;
    sg_request request;
    sg_target here;
    bool has_here = args->machine != NULL;
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
