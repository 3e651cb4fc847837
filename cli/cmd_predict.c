/* predict: what one step of a training needs on a machine, with intervals and evidence. */
#include "cli/commands.h"
#include "cli/predicting.h"
#include "cli/predicting_loader.h"
#include "cli/show.h"

#include <math.h>
#include <stdio.h>

/* PPO: the whole training where its length was given. */
static sg_figure total_of(const sg_prediction *p, const sg_args *args) {
    sg_figure none = {NAN, NAN, NAN, {0, 0, 0}, SG_EVIDENCE_OBSERVED};
    bool known = args->iterations > 0 && isfinite(p->iteration_s.value);
    return known ? sg_figure_scaled(&p->iteration_s, (double)args->iterations, 1) : none;
}

static json_t *json_prediction(const sg_prediction *p, const sg_request *r, const sg_machine *m, const sg_args *args) {
    sg_figure total = total_of(p, args);
    const struct {
        const char *name;
        const sg_figure *figure;
    } figures[] = {{"step_s", &p->step_s},
                   {"update_s", &p->update_s},
                   {"dataloading_s", &p->dataloading_s},
                   {"preprocessing_s", &p->preprocessing_s},
                   {"samples_per_s", &p->samples_per_s},
                   {"peak_allocated_bytes", &p->peak_allocated_bytes},
                   {"peak_reserved_bytes", &p->peak_reserved_bytes},
                   {"device_bytes", &p->device_bytes},
                   {"collection_s", &p->collection_s},
                   {"inference_s", &p->inference_s},
                   {"environment_s", &p->environment_s},
                   {"learning_s", &p->learning_s},
                   {"iteration_s", &p->iteration_s},
                   {"env_steps_per_s", &p->env_steps_per_s},
                   {"total_s", &total}};
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:f}", "policy", r->name, "framework",
                  sg_framework_name(r->policy.framework), "machine", m->name, "batch", (json_int_t)p->batch, "ranks",
                  (json_int_t)r->policy.ranks, "interval", args->interval > 0 ? args->interval : 0.9);
    int per_node = m->link.gpus_per_node;
    json_int_t ranks = args->ranks.n ? (json_int_t)args->ranks.value[0] : 1;
    (void)json_object_set_new(object, "nodes", json_integer(per_node > 0 ? (ranks + per_node - 1) / per_node : 1));
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        if (isfinite(figures[i].figure->value))
            (void)json_object_set_new(object, figures[i].name, sg_json_figure(figures[i].figure));
    json_t *warnings = json_array();
    for (size_t i = 0; i < p->n_warnings; i++) (void)json_array_append_new(warnings, json_string(p->warnings[i]));
    json_t *classes = json_object();
    for (int c = 0; c < SG_CLASS_COUNT; c++)
        (void)json_object_set_new(classes, sg_op_class_name((sg_op_class)c), json_real(p->class_s[c]));
    (void)json_object_set_new(object, "class_s", classes);
    (void)json_object_set_new(object, "forward_s", json_real(p->forward_s));
    (void)json_object_set_new(object, "backward_s", json_real(p->backward_s));
    (void)json_object_set_new(object, "optimizer_s", json_real(p->optimizer_s));
    (void)json_object_set_new(object, "exposed_sync_s", json_real(p->exposed_sync_s));
    (void)json_object_set_new(object, "device_busy_share", json_real(p->device_busy_share));
    (void)json_object_set_new(object, "device_evidence", json_string(sg_evidence_name(p->device_evidence)));
    (void)json_object_set_new(object, "host_evidence", json_string(sg_evidence_name(p->host_evidence)));
    sg_json_outlook(object, p);
    (void)json_object_set_new(object, "fits", json_boolean(p->fits));
    (void)json_object_set_new(object, "limited_by", json_string(p->limited_by));
    (void)json_object_set_new(object, "limited_by_text", json_string(p->limited_by_text));
    (void)json_object_set_new(object, "warnings", warnings);
    return object;
}

static sg_text rate(double value) {
    return sg_show_si(value, "/s");
}

static void print_prediction(const sg_prediction *p, const sg_request *r, const sg_machine *m, const sg_args *args) {
    double interval = args->interval > 0 ? args->interval : 0.9;
    printf("%s as %s, batch %lld, on %s (%s)\n", r->name, sg_framework_name(r->policy.framework), (long long)p->batch,
           m->title[0] ? m->title : m->name, m->name);
    printf("  figure                 value        (%.10g %% interval, evidence)\n", 100 * interval);
    sg_show_figure("step_s", &p->step_s, sg_show_seconds);
    sg_show_figure("  dataloading_s", &p->dataloading_s, sg_show_seconds);
    sg_show_figure("  preprocessing_s", &p->preprocessing_s, sg_show_seconds);
    sg_show_figure("  update_s", &p->update_s, sg_show_seconds);
    sg_show_figure("iteration_s", &p->iteration_s, sg_show_seconds);
    sg_show_figure("  collection_s", &p->collection_s, sg_show_seconds);
    sg_show_figure("    inference_s", &p->inference_s, sg_show_seconds);
    sg_show_figure("    environment_s", &p->environment_s, sg_show_seconds);
    sg_show_figure("  learning_s", &p->learning_s, sg_show_seconds);
    sg_show_figure("samples_per_s", &p->samples_per_s, rate);
    sg_show_figure("env_steps_per_s", &p->env_steps_per_s, rate);
    sg_figure total = total_of(p, args);
    sg_show_figure("all iterations", &total, sg_show_duration);
    sg_show_figure("peak allocated", &p->peak_allocated_bytes, sg_show_bytes);
    sg_show_figure("peak reserved", &p->peak_reserved_bytes, sg_show_bytes);
    sg_show_figure("device memory in use", &p->device_bytes, sg_show_bytes);
    if (p->captured)
        printf("\nThe update is dispatched as one, captured or compiled whole; the device is busy %.0f %% of it.\n",
               100 * p->device_busy_share);
    else
        printf("\nOf the update: forward %s, backward %s, optimizer %s, exposed sync %s; the device is busy %.0f %% of "
               "it.\n",
               sg_show_seconds(p->forward_s).s, sg_show_seconds(p->backward_s).s, sg_show_seconds(p->optimizer_s).s,
               sg_show_seconds(p->exposed_sync_s).s, 100 * p->device_busy_share);
    sg_show_outlook(&p->loader);
    printf("Limited by: %s (%s).", p->limited_by, p->limited_by_text);
    if (m->memory_bytes > 0)
        printf(" Memory: %s (%s).", p->fits ? "fits" : "DOES NOT FIT", sg_show_bytes((double)m->memory_bytes).s);
    printf("\n");
    for (size_t i = 0; i < p->n_warnings; i++) printf("Note: %s\n", p->warnings[i]);
}

int sg_cmd_predict(const sg_args *args) {
    sg_status status;
    sg_target target;
    sg_request request;
    sg_prediction prediction;
    if (args->batch.n > 1) {
        (void)sg_fail(&status, SG_BAD_INPUT, "predict takes one batch at a time: --batch %lld",
                      (long long)args->batch.value[0]);
        return sg_show_error(args, &status);
    }
    if (sg_target_load(args, &target, &status) != SG_OK) return sg_show_error(args, &status);
    if (sg_request_make(args, target.device_class, &request, &status) != SG_OK) {
        sg_target_clear(&target);
        return sg_show_error(args, &status);
    }
    int result;
    if (sg_predict_for(args, &request, &target, &prediction, &status) != SG_OK) {
        result = sg_show_error(args, &status);
    } else {
        result = prediction.fits ? SG_OK : SG_NO;
        if (args->json)
            result = sg_json_print(json_prediction(&prediction, &request, &target.machine, args), result);
        else
            print_prediction(&prediction, &request, &target.machine, args);
    }
    sg_request_clear(&request);
    sg_target_clear(&target);
    return result;
}
