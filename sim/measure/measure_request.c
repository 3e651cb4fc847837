/* measure_request.c: from a request to a measurement; a request as the configuration of a point, in one canonical form. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/catalogue/catalogue.h"
#include "kernels/module.h"
#include "models/options.h"
#include "sim/measure/host_state.h"
#include "sim/measure/measure.h"
#include "sim/ranks/rank_variables.h"

static void copy_text(char *to, size_t bytes, const char *from) {
    (void)snprintf(to, bytes, "%s", from ? from : "");
}

/* A value in the form that equal values share: numbers as printed, booleans as words, lists without blanks. */
static void canonical(const sg_key *key, const sg_options *options, char *out, size_t bytes) {
    size_t n = 0, used = 0;
    switch (key->type) {
    case SG_KEY_INT: (void)snprintf(out, bytes, "%" PRId64, sg_option_int(options, key->name)); return;
    case SG_KEY_REAL: (void)snprintf(out, bytes, "%.15g", sg_option_real(options, key->name)); return;
    case SG_KEY_BOOL: copy_text(out, bytes, sg_option_bool(options, key->name) ? "true" : "false"); return;
    case SG_KEY_TEXT: copy_text(out, bytes, sg_option_text(options, key->name)); return;
    default: break;
    }
    const int64_t *list = sg_option_list(options, key->name, &n);
    out[0] = 0;
    for (size_t i = 0; i < n && used + 24 < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%" PRId64, i ? "," : "", list[i]);
}

/* Keys in the family's order, so that the order of settings and the use of aliases do not matter. */
static sg_code write_settings(const sg_family *family, const sg_options *given, const sg_options *usual,
                              sg_point_config *c, sg_status *status) {
    size_t used = 0;
    for (size_t i = 0; i < family->n_keys; i++) {
        char a[512], b[512];
        canonical(&family->keys[i], given, a, sizeof a);
        canonical(&family->keys[i], usual, b, sizeof b);
        if (strcmp(a, b) == 0) continue;
        int n = snprintf(c->settings + used, sizeof c->settings - used, "%s%s=%s", used ? ";" : "",
                         family->keys[i].name, a);
        if (n < 0 || (size_t)n >= sizeof c->settings - used)
            return sg_fail(status, SG_BAD_INPUT, "the settings of %s take more than %zu characters: use fewer",
                           family->name, sizeof c->settings);
        used += (size_t)n;
    }
    return SG_OK;
}

static sg_code settings_of(const sg_policy_request *r, const sg_family *family, sg_point_config *c, sg_status *status) {
    sg_options *given = NULL, *usual = NULL;
    sg_code code = sg_options_make(family, r->settings, r->n_settings, &given, status);
    if (!code) code = sg_options_make(family, NULL, 0, &usual, status);
    if (!code) code = write_settings(family, given, usual, c, status);
    sg_options_free(given);
    sg_options_free(usual);
    return code;
}

int sg_share_of_processors(int ranks) {
    sg_rank_variables variables;
    int here = ranks > 1 ? ranks : 1;
    if (here > 1 && sg_rank_variables_read(&variables, NULL) == SG_OK && variables.found) {
        if (variables.local_ranks > 0) here = variables.local_ranks;
        if (strcmp(variables.launcher, "srun") == 0) here = 1;
    }
    return sg_host_processors() > here ? sg_host_processors() / here : 1;
}

sg_code sg_measure_config(const sg_policy_request *r, const sg_training *t, const sg_measure_options *o,
                          sg_point_config *c, sg_status *status) {
    memset(c, 0, sizeof *c);
    const sg_family *family = sg_family_find(r->policy);
    if (!family) return sg_fail(status, SG_BAD_INPUT, "policy %s is unknown", r->policy);
    copy_text(c->policy, sizeof c->policy, t->policy);
    copy_text(c->framework, sizeof c->framework, t->framework);
    copy_text(c->device, sizeof c->device, o->device);
    copy_text(c->precision, sizeof c->precision, sg_policy_precision(r));
    copy_text(c->host, sizeof c->host, o->host_s ? "emulated" : "native");
    if (o->host_s) c->host_op_ns = (int64_t)(1e9 * o->host_s[SG_HOST_OP_FORWARD] + 0.5);
    char pause[32];
    (void)snprintf(pause, sizeof pause, "pause=%.6g", o->update_s);
    const char *const how[] = {o->pause ? pause : NULL, o->graph ? "cuda-graph" : NULL,
                               o->heuristic_conv ? "heuristic-conv" : NULL, t->n_shards > 0 ? "sharding-full" : NULL};
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        size_t length = strlen(c->execution);
        if (how[i])
            (void)snprintf(c->execution + length, sizeof c->execution - length, "%s%s", length ? ";" : "", how[i]);
    }
    c->batch = t->batch;
    c->ranks = o->ranks > 0 ? o->ranks : 1;
    c->accumulation = t->accumulation;
    bool on_gpu = strcmp(c->device, "cuda") == 0; /* its threads are not this program's */
    c->threads = o->threads > 0 ? o->threads : on_gpu ? 1 : sg_share_of_processors(o->ranks);
    c->workers = o->workers;
    if (o->prefetch != SG_PREFETCH) c->prefetch = o->prefetch;
    c->envs = t->envs;
    c->steps_per_env = t->steps_per_env;
    c->cameras = t->cameras;
    c->image_height = t->image_height;
    c->image_width = t->image_width;
    c->seed = o->seed;
    if (o->catalogue) {
        sg_catalogue_describe(o->catalogue, c->dataset, sizeof c->dataset);
        copy_text(c->layer, sizeof c->layer, o->layer ? o->layer : "cached");
    }
    return settings_of(r, family, c, status);
}

sg_code sg_measure(const sg_policy_request *request, const sg_measure_options *options, sg_point *point,
                   sg_status *status) {
    memset(point, 0, sizeof *point);
    sg_policy_request asked = *request;
    asked.ranks = options->ranks > 0 ? options->ranks : 1;
    sg_training *training = NULL;
    const sg_device_api *api;
    sg_point_config config;
    sg_code code = sg_policy_build(&asked, &training, status);
    if (code) return code;
    code = sg_measure_config(&asked, training, options, &config, status);
    if (!code && options->pause) {
        code = sg_measure_pause(training, &config, options, point, status);
    } else {
        if (!code) code = sg_module_device(options->device, &api, status);
        if (!code) code = sg_measure_training(training, api, &config, options, point, status);
    }
    sg_training_free(training);
    return code;
}
