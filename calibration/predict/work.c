#include "calibration/predict/work.h"

#include "models/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_program(const sg_program *program, double times, double *count) {
    for (size_t i = 0; i < program->n_entries; i++)
        if (program->entries[i].kind == SG_ENTRY_OP) count[program->entries[i].index] += times;
}

void sg_work_counts(const sg_training *training, double *count) {
    memset(count, 0, training->n_ops * sizeof *count);
    for (size_t b = 0; b < training->n_blocks; b++) {
        const sg_block *block = &training->blocks[b];
        for (size_t s = 0; s < block->n_steps; s++)
            if (block->steps[s].kind == SG_STEP_PROGRAM)
                add_program(&training->programs[block->steps[s].index], (double)block->repeat, count);
    }
}

sg_code sg_work_class_seconds(const sg_training *training, const double *count, const sg_machine *machine,
                              double *seconds, double *gradient, sg_status *status) {
    memset(seconds, 0, SG_CLASS_COUNT * sizeof *seconds);
    if (gradient) memset(gradient, 0, (size_t)SG_CLASS_COUNT * SG_M_COUNT * sizeof *gradient);
    for (size_t i = 0; i < training->n_ops; i++) {
        if (count[i] == 0) continue;
        double price, slope[SG_M_COUNT] = {0};
        sg_code code = sg_machine_price(machine, &training->ops[i], &price, gradient ? slope : NULL, status);
        if (code != SG_OK) return code;
        sg_op_class cls = sg_op_class_of(&training->ops[i]);
        sg_machine_id factor = sg_machine_factor_of(cls);
        double without = factor < SG_M_COUNT ? machine->p[factor].value : 1;
        if (sg_machine_low_precision(&training->ops[i])) without *= machine->p[SG_M_FACTOR_LOW_PRECISION].value;
        seconds[cls] += count[i] * price / without;
        for (int j = 0; gradient && j < SG_M_COUNT; j++)
            if (j != (int)factor && j != SG_M_FACTOR_LOW_PRECISION)
                gradient[(size_t)cls * SG_M_COUNT + (size_t)j] += count[i] * slope[j] / without;
    }
    return SG_OK;
}

/* "key=value;key=value" into settings; the text is cut up in place. */
static size_t cut_settings(char *text, sg_setting *settings, size_t room) {
    size_t n = 0;
    char *rest = text;
    for (char *item; n < room && (item = strsep(&rest, ";"));) {
        char *equals = strchr(item, '=');
        if (!equals) continue;
        *equals = '\0';
        settings[n++] = (sg_setting){item, equals + 1, "run file"};
    }
    return n;
}

/* Names of frameworks are those of points; a name of another release stands for eager mode. */
static sg_framework framework_of(const char *name) {
    for (int i = 0; i < SG_FRAMEWORK_COUNT; i++)
        if (strcmp(name, sg_framework_name((sg_framework)i)) == 0) return (sg_framework)i;
    return SG_FRAMEWORK_PYTORCH_EAGER;
}

void sg_work_request_of(const sg_point_config *c, sg_work_request *r) {
    memset(r, 0, sizeof *r);
    (void)snprintf(r->text, sizeof r->text, "%s", c->settings);
    (void)snprintf(r->name, sizeof r->name, "%s", c->policy);
    (void)snprintf(r->precision, sizeof r->precision, "%s", c->precision);
    bool cuda = strcmp(c->device, "cuda") == 0;
    r->policy = (sg_policy_request){
        .policy = r->name,
        .framework = framework_of(c->framework),
        .device_class = cuda ? SG_DEVICE_CLASS_CUDA : SG_DEVICE_CLASS_CPU,
        .batch = c->envs > 0 ? 0 : c->batch,
        .accumulation = c->accumulation,
        .ranks = c->ranks,
        .precision = r->precision[0] ? r->precision : NULL,
        .sharding = strstr(c->execution, "sharding-full") ? "full" : NULL,
        .settings = r->settings,
        .n_settings = cut_settings(r->text, r->settings, 128),
    };
    if (c->envs <= 0) return;
    (void)snprintf(r->envs, sizeof r->envs, "%lld", (long long)c->envs);
    (void)snprintf(r->steps_per_env, sizeof r->steps_per_env, "%lld", (long long)c->steps_per_env);
    r->settings[r->policy.n_settings++] = (sg_setting){"envs", r->envs, "run file"};
    r->settings[r->policy.n_settings++] = (sg_setting){"steps_per_env", r->steps_per_env, "run file"};
}

sg_code sg_work_rebuild(const sg_point_config *config, sg_training **training, sg_status *status) {
    sg_work_request request;
    sg_work_request_of(config, &request);
    sg_code code = sg_policy_build(&request.policy, training, status);
    return code == SG_OK ? code
                         : sg_fail_in(status, "rebuilding the measured %s (batch %lld)", config->policy,
                                      (long long)config->batch);
}
