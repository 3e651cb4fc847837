/* validate: predictions beside published and field measurements. */
#include "calibration/config/config_dir.h"
#include "calibration/kernels/product_rows.h"
#include "calibration/log/log.h"
#include "cli/commands.h"
#include "cli/show.h"
#include "cli/validating.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Kinds of files: where their names stand among the arguments, what ships of them under configs/validation/, and who
 * predicts their rows. */
typedef struct kind {
    size_t files; /* offset of a sg_repeat in sg_args */
    const char *shipped[2];
    sg_code (*validate)(const sg_csv_table *table, const sg_args *args, const sg_validate_options *options,
                        sg_validation *into, sg_status *status);
} kind;

static sg_code collectives(const sg_csv_table *table, const sg_args *args, const sg_validate_options *options,
                           sg_validation *into, sg_status *status) {
    (void)args;
    return sg_validate_collectives(table, options, into, status);
}

static sg_code kernels(const sg_csv_table *table, const sg_args *args, const sg_validate_options *options,
                       sg_validation *into, sg_status *status) {
    (void)args;
    return sg_product_rows_are(table) ? sg_validate_gemm(table, options, into, status)
                                      : sg_validate_memory_bound(table, options, into, status);
}

/* The models that rows of steps name: --configs, or those that ship. */
static sg_code read_configs(const sg_args *args, const char *folder, sg_csv_table *configs, sg_status *status) {
    char path[SG_PATH_BYTES + 64];
    (void)snprintf(path, sizeof path, "%s/validation/transformer_configs.csv", folder);
    sg_code code = sg_csv_table_read(args->step_configs ? args->step_configs : path, configs, status);
    return code ? sg_fail_in(status, "the models of --steps (--configs FILE names others)") : SG_OK;
}

static sg_code steps(const sg_csv_table *table, const sg_args *args, const sg_validate_options *options,
                     sg_validation *into, sg_status *status) {
    sg_csv_table configs;
    sg_code code = read_configs(args, options->config_dir, &configs, status);
    if (code) return code;
    code = sg_validate_steps(table, &configs, options, into, status);
    sg_csv_table_clear(&configs);
    return code;
}

static sg_code parallel(const sg_csv_table *table, const sg_args *args, const sg_validate_options *options,
                        sg_validation *into, sg_status *status) {
    (void)args;
    return sg_validate_parallel(table, options, into, status);
}

static sg_code reports(const sg_csv_table *table, const sg_args *args, const sg_validate_options *options,
                       sg_validation *into, sg_status *status) {
    (void)args;
    return sg_validate_reports(table, options, into, status);
}

static const kind kinds[] = {
    {offsetof(sg_args, kernels), {"gemm.csv", "memory_bound.csv"}, kernels},
    {offsetof(sg_args, step_files), {"transformers.csv"}, steps},
    {offsetof(sg_args, parallel), {"gpt_a100_parallel.csv"}, parallel},
    {offsetof(sg_args, collectives), {"allreduce.csv"}, collectives},
    {offsetof(sg_args, reports), {"reports.csv"}, reports},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static sg_code validate_file(const kind *k, const char *path, const sg_args *args, sg_validating *v,
                             sg_status *status) {
    sg_csv_table table;
    sg_code code = sg_csv_table_read(path, &table, status);
    if (code) return code;
    code = k->validate(&table, args, &v->options, &v->validation, status);
    sg_csv_table_clear(&table);
    return code;
}

static const sg_repeat *files_of(const kind *k, const sg_args *args) {
    return (const sg_repeat *)((const char *)args + k->files);
}

static sg_code validate_given(const sg_args *args, sg_validating *v, size_t *n, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t i = 0; i < KINDS; i++) {
        const sg_repeat *files = files_of(&kinds[i], args);
        *n += files->n;
        for (size_t j = 0; j < files->n && !code; j++)
            code = validate_file(&kinds[i], files->value[j], args, v, status);
    }
    return code;
}

static sg_code validate_logs(const sg_args *args, sg_validating *v, size_t *n, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t i = 0; i < args->logs.n && !code; i++) {
        sg_logs logs;
        code = sg_logs_read(args->logs.value[i], &logs, status);
        if (!code) code = sg_validate_logs(&logs, args->logs.value[i], &v->options, &v->validation, status);
        sg_logs_clear(&logs);
    }
    *n += args->logs.n;
    return code;
}

/* The figures that ship: all kinds of them that there are. */
static sg_code validate_shipped(sg_validating *v, const sg_args *args, sg_status *status) {
    const char *folder = v->options.config_dir;
    char path[SG_PATH_BYTES + 64];
    sg_code code = SG_OK;
    size_t n = 0;
    for (size_t i = 0; i < KINDS && !code; i++) {
        for (size_t j = 0; j < 2 && kinds[i].shipped[j] && !code; j++) {
            (void)snprintf(path, sizeof path, "%s/validation/%s", folder, kinds[i].shipped[j]);
            if (access(path, F_OK) != 0) continue;
            n++;
            code = validate_file(&kinds[i], path, args, v, status);
        }
    }
    if (!code && !n)
        return sg_fail(status, SG_BAD_INPUT,
                       "no figures under %.200s/validation: name files, see 'stepgauge validate --help'", folder);
    return code;
}

static sg_code show(const sg_args *args, sg_validating *v, sg_status *status) {
    sg_code code = sg_validate_summarise(&v->validation, &v->summary, &v->n_summaries, status);
    if (!code && args->rows_file) code = sg_validating_write_rows(v, args->rows_file, status);
    if (code || args->json) return code;
    return sg_validating_print(v, args->markdown, status);
}

/* folder: room for the options' folder of configurations. */
static sg_code options_of(const sg_args *args, char folder[SG_PATH_BYTES], sg_validate_options *options,
                          sg_status *status) {
    bool batches = args->cross_validate && strcmp(args->cross_validate, "batches") == 0;
    bool devices = args->cross_validate && strcmp(args->cross_validate, "devices") == 0;
    if (args->folds > 1000)
        return sg_fail(status, SG_BAD_INPUT, "--folds %lld: at most 1000 parts", (long long)args->folds);
    if (args->calibrate > 1000000)
        return sg_fail(status, SG_BAD_INPUT, "--calibrate %lld: at most 1000000 rows", (long long)args->calibrate);
    if (args->calibrate > 0 && !args->cross_validate)
        return sg_fail(status, SG_BAD_INPUT,
                       "--calibrate says what a fit may see of a device: give --cross-validate rows or devices too");
    if (batches &&
        (!args->reports.n || args->kernels.n || args->step_files.n || args->parallel.n || args->collectives.n))
        return sg_fail(
            status, SG_BAD_INPUT,
            "--cross-validate batches is for reports of trainings, which hold several batch sizes of one: give "
            "--reports FILE, and no other tables");
    *options = (sg_validate_options){
        .config_dir = folder,
        .interval = args->interval > 0 ? args->interval : 0.9,
        .left_out = devices                ? SG_LEFT_OUT_DEVICES
                    : batches              ? SG_LEFT_OUT_BATCHES
                    : args->cross_validate ? SG_LEFT_OUT_ROWS
                                           : SG_LEFT_OUT_NOTHING,
        .folds = args->folds > 0 ? (int)args->folds : 5,
        .calibration_rows = args->calibrate > 0 ? (int)args->calibrate : 0,
    };
    return sg_config_dir(args->config_dir, folder, SG_PATH_BYTES, status);
}

int sg_cmd_validate(const sg_args *args) {
    sg_status status;
    char folder[SG_PATH_BYTES];
    sg_validating v = {0};
    size_t n = 0;
    sg_code code = options_of(args, folder, &v.options, &status);
    if (!code) code = validate_given(args, &v, &n, &status);
    if (!code) code = validate_logs(args, &v, &n, &status);
    if (!code && !n) code = validate_shipped(&v, args, &status);
    if (!code) code = show(args, &v, &status);
    int result = code != SG_OK ? sg_show_error(args, &status)
                 : args->json  ? sg_json_print(sg_validating_json(&v), SG_OK)
                               : SG_OK;
    free(v.summary);
    sg_validation_clear(&v.validation);
    return result;
}
