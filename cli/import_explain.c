/* import_explain.c: what limits the runs of training logs, with a prediction where the machine and the facts are told. */
#include "cli/importing.h"
#include "cli/predicting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a change of precision or of the way to launch would bring. */
enum { VARIANTS = 4 };
typedef struct predicted {
    bool known;
    sg_prediction prediction;
    sg_explain_variant variant[VARIANTS];
    size_t n_variants;
    char precision[16];
} predicted;

static sg_code predict_as(const sg_import_job *job, const sg_target *target, const char *precision,
                          const char *framework, sg_prediction *prediction, sg_status *status) {
    sg_args args = job->args;
    sg_request request;
    if (precision) args.precision = precision;
    if (framework) args.framework = framework;
    sg_code code = sg_request_make(&args, target->device_class, &request, status);
    if (code != SG_OK) return code;
    code = sg_predict_for(&args, &request, target, prediction, status);
    sg_request_clear(&request);
    return code;
}

/* Variants that cannot be predicted (no such hardware, no such path of the policy) are left out. */
static void add_variant(const sg_import_job *job, const sg_target *target, const char *precision, const char *framework,
                        const char *change, predicted *p) {
    sg_explain_variant *v = &p->variant[p->n_variants];
    sg_status ignored;
    if (predict_as(job, target, precision, framework, &v->predicted, &ignored) != SG_OK) return;
    v->precision = precision != NULL;
    v->fp32 = precision && strcmp(precision, "fp32") == 0;
    (void)snprintf(v->change, sizeof v->change, "%s", change);
    p->n_variants++;
}

static const char *precision_of(const sg_import_job *job) {
    if (job->args.precision) return job->args.precision;
    bool own = job->args.train_config && job->import->has_config;
    return own && job->import->config.precision[0] ? job->import->config.precision : "";
}

static sg_code predict(const sg_import_job *job, const sg_target *target, predicted *p, sg_status *status) {
    sg_code code = predict_as(job, target, NULL, NULL, &p->prediction, status);
    if (code == SG_NO) return SG_OK; /* the machine lacks something: the log is explained without it */
    if (code != SG_OK) return code;
    p->known = true;
    (void)snprintf(p->precision, sizeof p->precision, "%s", precision_of(job));
    bool low = strncmp(p->precision, "bf16", 4) == 0 || strncmp(p->precision, "fp16", 4) == 0;
    bool on_gpu = target->device_class != SG_DEVICE_CLASS_CPU;
    if (low) add_variant(job, target, "fp32", NULL, "full precision", p);
    if (!low && target->machine.bf16)
        add_variant(job, target, "bf16", NULL, "bf16 autocast (--precision bf16 here, use_amp there)", p);
    if (!on_gpu || job->args.framework) return SG_OK;
    add_variant(job, target, NULL, "pytorch-compiled", "torch.compile", p);
    add_variant(job, target, NULL, "pytorch-cuda-graphs", "CUDA graphs", p);
    return SG_OK;
}

/* What keeps a run from being predicted; "" nothing. */
static void missing_of(const sg_import_job *job, char *text, size_t bytes) {
    text[0] = '\0';
    sg_import_missing(job, text, bytes);
    if (job->args.positional.n && !job->family) (void)snprintf(text, bytes, "--policy");
}

/* What `e` is made of: `others` are all runs but this one. */
static sg_code explain_with(const sg_import_job *job, const sg_target *target, const sg_log *const *others,
                            size_t n_others, predicted *p, sg_explanation *e, sg_status *status) {
    char missing[256];
    missing_of(job, missing, sizeof missing);
    sg_code code = target && !missing[0] ? predict(job, target, p, status) : SG_OK;
    if (code != SG_OK) return code;
    sg_explain_facts facts = {.log = job->log,
                              .others = others,
                              .n_others = n_others,
                              .machine = target ? &target->machine : NULL,
                              .predicted = p->known ? &p->prediction : NULL,
                              .variants = p->variant,
                              .n_variants = p->n_variants,
                              .envs = job->args.envs > 0 ? job->args.envs : 0,
                              .steps_per_env = job->args.steps_per_env > 0 ? job->args.steps_per_env : 0,
                              .task = job->args.task};
    (void)snprintf(facts.precision, sizeof facts.precision, "%s", precision_of(job));
    code = sg_explain(&facts, e, status);
    /* What was to be compared with the machine and cannot be: why. */
    if (code == SG_OK && target && missing[0] && e->n_asks)
        (void)snprintf(e->asks[0], sizeof e->asks[0],
                       "What limits the update on %.60s: neither the log nor train_config.json tells it, give %.90s",
                       target->machine.name, missing);
    return code;
}

static sg_code explain_run(const sg_import_job *job, const sg_target *target, const sg_log *const *all, size_t n_all,
                           sg_explanation *e, sg_status *status) {
    size_t bytes = (n_all + 1) * sizeof(const sg_log *), n_others = 0;
    predicted *p = calloc(1, sizeof *p);
    const sg_log **others = malloc(bytes);
    sg_code code;
    if (p && others) {
        for (size_t i = 0; i < n_all; i++)
            if (all[i] != job->log) others[n_others++] = all[i];
        code = explain_with(job, target, others, n_others, p, e, status);
    } else {
        code = sg_fail_memory(status, sizeof *p + bytes, "explaining a log");
    }
    free(p);
    free(others);
    return code;
}

sg_code sg_import_explain(const sg_args *args, const sg_import *imports, size_t n_imports,
                          sg_explanation **explanations, size_t *n, sg_status *status) {
    size_t count = 0, at = 0;
    sg_target target;
    for (size_t i = 0; i < n_imports; i++) count += imports[i].logs.n;
    sg_code code = args->machine ? sg_target_load(args, &target, status) : SG_OK;
    if (code != SG_OK) return code;
    sg_explanation *made = calloc(count ? count : 1, sizeof *made);
    const sg_log **all = malloc((count ? count : 1) * sizeof(const sg_log *));
    if (!made || !all) code = sg_fail_memory(status, count * sizeof *made, "explanations");
    for (size_t i = 0; all && i < n_imports; i++)
        for (size_t k = 0; k < imports[i].logs.n; k++) all[at++] = &imports[i].logs.logs[k];
    at = 0;
    for (size_t i = 0; code == SG_OK && i < n_imports; i++)
        for (size_t k = 0; code == SG_OK && k < imports[i].logs.n; k++) {
            sg_import_job job = sg_import_job_of(args, &imports[i], &imports[i].logs.logs[k]);
            code = explain_run(&job, args->machine ? &target : NULL, all, count, &made[at], status);
            at += code == SG_OK;
        }
    if (args->machine) sg_target_clear(&target);
    free(all);
    if (code == SG_OK) {
        *explanations = made;
        *n = count;
        return SG_OK;
    }
    for (size_t i = 0; made && i < at; i++) sg_explanation_clear(&made[i]);
    free(made);
    return code;
}
