/* step_case.c: rows of whole transformer steps, made ready to be predicted. */
#include "calibration/steps/step_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/config/settings.h"
#include "calibration/machine/framework_file.h"
#include "calibration/predict/predict.h"
#include "calibration/predict/work.h"

static const char *const step_columns[] = {"device", "model", "mode", "seq_len", "batch", "step_ms"};
static const char *const config_columns[] = {"model", "config_json"};

enum { MOST = 1 << 24 }; /* of a batch or a sequence: more is a damaged row */

/* ---- a row ---- */

#define SKIP(one, ...) ((void)snprintf((one)->skipped, sizeof(one)->skipped, __VA_ARGS__))

static bool count_of(const sg_csv_table *t, size_t row, const char *column, int64_t *count) {
    double value;
    if (!sg_csv_table_number(t, row, column, &value) || !(value >= 1) || value > MOST || value != floor(value))
        return false;
    *count = (int64_t)value;
    return true;
}

/* "": one process; "dp4": four of them, each with its part of the batch. Others split the model itself. */
static void read_parallel(const char *text, sg_step_case *one) {
    char *end = NULL;
    one->ranks = 1;
    if (!text[0]) return;
    long ranks = strncmp(text, "dp", 2) == 0 ? strtol(text + 2, &end, 10) : 0;
    if (ranks < 1 || ranks > 65536 || *end) {
        SKIP(one, "parallel %.32s splits the model over processes: only data-parallel training is predicted", text);
    } else if (one->batch % ranks) {
        SKIP(one, "a batch of %lld does not fall into %ld equal parts", (long long)one->batch, ranks);
    } else {
        one->ranks = ranks;
        one->batch /= ranks;
    }
}

static void read_row(const sg_csv_table *t, size_t row, sg_step_case *one) {
    const char *mode = sg_csv_table_text(t, row, "mode"), *parallel = sg_csv_table_text(t, row, "parallel");
    double step_ms;
    *one =
        (sg_step_case){.line = row + 2, .measured_s = NAN, .forward_share = NAN, .train = strcmp(mode, "train") == 0};
    sg_machine_init(&one->machine);
    (void)snprintf(one->model, sizeof one->model, "%.40s", sg_csv_table_text(t, row, "model"));
    (void)snprintf(one->device, sizeof one->device, "%.60s", sg_csv_table_text(t, row, "device"));
    (void)snprintf(one->row, sizeof one->row, "%s %.8s %.8s x %.8s%s%.8s", one->model, mode,
                   sg_csv_table_text(t, row, "seq_len"), sg_csv_table_text(t, row, "batch"), parallel[0] ? " " : "",
                   parallel);
    if (!one->train && strcmp(mode, "inf") != 0) {
        SKIP(one, "mode '%.32s' is neither inf nor train", mode);
    } else if (!count_of(t, row, "seq_len", &one->tokens) || !count_of(t, row, "batch", &one->batch)) {
        SKIP(one, "seq_len or batch is no count");
    } else if (!sg_csv_table_number(t, row, "step_ms", &step_ms) || !(step_ms > 0)) {
        SKIP(one, "step_ms is no time");
    } else {
        one->measured_s = 1e-3 * step_ms;
        double forward_ms, backward_ms;
        if (one->train && sg_csv_table_number(t, row, "forward_ms", &forward_ms) &&
            sg_csv_table_number(t, row, "backward_ms", &backward_ms) && forward_ms > 0 && backward_ms > 0)
            one->forward_share = forward_ms / (forward_ms + backward_ms);
        read_parallel(parallel, one);
    }
}

/* ---- its training ---- */

static const char *config_of(const sg_csv_table *configs, const char *model) {
    for (size_t i = 0; i < configs->n_rows; i++)
        if (strcmp(sg_csv_table_text(configs, i, "model"), model) == 0)
            return sg_csv_table_text(configs, i, "config_json");
    return NULL;
}

/* As the tables' authors ran the model: see step_case.h. */
static size_t as_measured(const sg_step_case *one, const char *policy, const char *tokens, sg_setting *out) {
    static const char origin[] = "how the row was measured";
    size_t n = 0;
    out[n++] = (sg_setting){"sequence_length", tokens, origin};
    out[n++] = (sg_setting){"step", one->train ? "gradients" : "inference", origin};
    if (strcmp(policy, "bert") == 0)
        out[n++] = (sg_setting){"head", one->train ? "pretraining" : "classification", origin};
    if (strcmp(policy, "switch") == 0) out[n++] = (sg_setting){"routing", "alike", origin};
    return n;
}

enum { MEASURED_SETTINGS = 4 };

static sg_code build(const sg_settings *settings, sg_step_case *one, sg_status *status) {
    sg_setting *all = calloc(settings->n + MEASURED_SETTINGS, sizeof *all);
    if (!all) return sg_fail_memory(status, settings->n * sizeof *all, "settings of a policy");
    char tokens[24];
    (void)snprintf(tokens, sizeof tokens, "%lld", (long long)one->tokens);
    if (settings->n) memcpy(all, settings->items, settings->n * sizeof *all);
    sg_policy_request request = {.policy = settings->policy,
                                 .framework = SG_FRAMEWORK_PYTORCH_EAGER,
                                 .device_class = SG_DEVICE_CLASS_CUDA,
                                 .batch = one->batch,
                                 .ranks = one->ranks,
                                 .precision = "fp32",
                                 .settings = all,
                                 .n_settings =
                                     settings->n + as_measured(one, settings->policy, tokens, all + settings->n)};
    sg_code code = sg_policy_build(&request, &one->training, status);
    free(all);
    return code;
}

static sg_code set_up(const sg_csv_table *configs, const char *config_dir, sg_step_case *one, sg_status *status) {
    const char *json = config_of(configs, one->model);
    sg_framework_numbers framework;
    sg_settings settings;
    if (!json) return sg_fail(status, SG_NO, "no configuration of model '%s' is given", one->model);
    sg_code code = sg_framework_load("pytorch-eager", "cuda", config_dir, &framework, status);
    if (code) return code;
    sg_framework_apply(&framework, &one->machine);
    code = sg_settings_parse_json(one->model, json, &settings, status);
    if (code) return code;
    code = build(&settings, one, status);
    sg_settings_clear(&settings);
    if (code) return code;
    const sg_course_options course = {
        .several = one->ranks > 1, .caching = true, .trimmed = true, .buckets = framework.buckets};
    return sg_course_open(one->training, &course, &one->course, status);
}

sg_code sg_step_cases_open(const sg_csv_table *steps, const sg_csv_table *configs, const char *config_dir,
                           sg_step_cases *cases, sg_status *status) {
    *cases = (sg_step_cases){0};
    sg_code code = sg_csv_table_need(steps, step_columns, sizeof step_columns / sizeof *step_columns, status);
    if (!code)
        code = sg_csv_table_need(configs, config_columns, sizeof config_columns / sizeof *config_columns, status);
    if (code || steps->n_rows == 0) return code;
    cases->items = calloc(steps->n_rows, sizeof *cases->items);
    if (!cases->items) return sg_fail_memory(status, steps->n_rows * sizeof *cases->items, "rows of steps");
    for (size_t i = 0; i < steps->n_rows && !code; i++) {
        sg_step_case *one = &cases->items[cases->n++];
        read_row(steps, i, one);
        /* also of rows that are left out: they count among those of their machine */
        code = sg_machine_load(one->device, config_dir, &one->machine, status);
        if (!code && !one->skipped[0]) code = set_up(configs, config_dir, one, status);
        if (code == SG_MACHINE) break;
        if (code && !one->skipped[0]) SKIP(one, "%.150s", status->text);
        code = SG_OK;
    }
    if (code) sg_step_cases_close(cases);
    return code;
}

void sg_step_cases_close(sg_step_cases *cases) {
    for (size_t i = 0; i < cases->n; i++) {
        sg_course_close(cases->items[i].course);
        sg_training_free(cases->items[i].training);
        sg_machine_clear(&cases->items[i].machine);
    }
    free(cases->items);
    *cases = (sg_step_cases){0};
}

/* ---- predicting ---- */

/* Forward of the loss, which lies between the timed halves of a step of one process. */
static bool is_between(const sg_training *t, const sg_entry *e) {
    return e->kind == SG_ENTRY_OP && e->pass == SG_PASS_FORWARD && strcmp(t->modules[e->module].name, "loss") == 0;
}

static sg_code subtract_loss(const sg_step_case *one, const sg_machine *machine, double *seconds, double *by_log,
                             sg_status *status) {
    const sg_training *t = one->training;
    const sg_program *p = &t->programs[sg_main_program(t)];
    for (size_t i = 0; i < p->n_entries; i++) {
        double price, gradient[SG_M_COUNT];
        if (!is_between(t, &p->entries[i])) continue;
        sg_code code = sg_machine_step_price(machine, &t->ops[p->entries[i].index], &price, gradient, status);
        if (code) return code;
        *seconds -= price;
        for (int k = 0; k < SG_M_COUNT && by_log; k++) by_log[k] -= gradient[k];
    }
    return SG_OK;
}

sg_code sg_step_case_predict(sg_step_case *one, const sg_machine *machine, double *seconds, double *by_log,
                             sg_status *status) {
    sg_tape_prices *prices;
    sg_walked walked;
    sg_code code = sg_tape_price(sg_course_tape(one->course), machine, &prices, status);
    if (code) return code;
    code = sg_course_walk(one->course, prices, (int)one->ranks, 0, &walked, status);
    sg_tape_prices_close(prices);
    if (code) return code;
    *seconds = walked.times.update_device_s;
    if (by_log) memcpy(by_log, walked.by_log[SG_PHASE_UPDATE], SG_M_COUNT * sizeof *by_log);
    if (one->train && one->ranks == 1) code = subtract_loss(one, machine, seconds, by_log, status);
    return code;
}

double sg_step_case_roofline(const sg_step_case *one) {
    const sg_training *t = one->training;
    double *count = malloc(t->n_ops * sizeof *count + 1), sum = 0;
    if (!count) return NAN;
    sg_work_counts(t, count);
    for (size_t i = 0; i < t->n_ops; i++) {
        if (count[i] == 0) continue;
        sg_cost cost = sg_op_cost(&t->ops[i]);
        double bytes = cost.bytes_read + cost.bytes_written;
        sum += count[i] *
               fmax(cost.flops / one->machine.p[SG_M_PEAK_F32].value, bytes / one->machine.p[SG_M_BANDWIDTH].value);
    }
    free(count);
    return sum;
}
