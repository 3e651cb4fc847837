#include "calibration/work.h"

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
        seconds[cls] += count[i] * price / without;
        for (int j = 0; gradient && j < SG_M_COUNT; j++)
            if (j != (int)factor) gradient[(size_t)cls * SG_M_COUNT + (size_t)j] += count[i] * slope[j] / without;
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

sg_code sg_work_rebuild(const sg_point_config *config, sg_training **training, sg_status *status) {
    char text[sizeof config->settings];
    sg_setting settings[128];
    memcpy(text, config->settings, sizeof text);
    text[sizeof text - 1] = '\0';
    sg_policy_request request = {
        .policy = config->policy,
        .framework = strcmp(config->framework, sg_framework_name(SG_FRAMEWORK_NATIVE)) == 0
                         ? SG_FRAMEWORK_NATIVE
                         : SG_FRAMEWORK_PYTORCH_EAGER,
        .device_class = strcmp(config->device, "cuda") == 0 ? SG_DEVICE_CLASS_CUDA : SG_DEVICE_CLASS_CPU,
        .batch = config->envs > 0 ? 0 : config->batch,
        .accumulation = config->accumulation,
        .ranks = config->ranks,
        .precision = config->precision[0] ? config->precision : NULL,
        .settings = settings,
        .n_settings = cut_settings(text, settings, sizeof settings / sizeof settings[0]),
    };
    sg_code code = sg_policy_build(&request, training, status);
    return code == SG_OK ? code
                         : sg_fail_in(status, "rebuilding the measured %s (batch %lld)", config->policy,
                                      (long long)config->batch);
}
