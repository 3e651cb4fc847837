/* fit --steps: the clock that GPUs sustain over whole steps, from measured ones. */
#include "calibration/config/config_dir.h"
#include "calibration/steps/step_clock.h"
#include "cli/fitting.h"
#include "formats/durable_file.h"

#include <stdio.h>
#include <string.h>

/* One GPU's line: --machine's, or those of all GPUs of the table. */
typedef struct clock_line {
    const char *machine;
    sg_step_clock clock;
} clock_line;

enum { MOST_LINES = 64 };

static sg_code read_models(const sg_args *args, sg_csv_table *configs, sg_status *status) {
    char folder[SG_PATH_BYTES], path[SG_PATH_BYTES + 64];
    if (args->step_configs) return sg_csv_table_read(args->step_configs, configs, status);
    sg_code code = sg_config_dir(args->config_dir, folder, sizeof folder, status);
    (void)snprintf(path, sizeof path, "%s/validation/transformer_configs.csv", code ? "" : folder);
    return code ? code : sg_csv_table_read(path, configs, status);
}

static sg_code open_cases(const sg_args *args, sg_step_cases *cases, sg_status *status) {
    sg_csv_table steps, configs;
    if (args->step_files.n > 1)
        return sg_fail(status, SG_BAD_INPUT, "--steps: one table at a time is fitted to, not also '%.64s'",
                       args->step_files.value[1]);
    sg_code code = sg_csv_table_read(args->step_files.value[0], &steps, status);
    if (code) return code;
    code = read_models(args, &configs, status);
    if (!code) {
        code = sg_step_cases_open(&steps, &configs, args->config_dir, cases, status);
        sg_csv_table_clear(&configs);
    }
    sg_csv_table_clear(&steps);
    return code;
}

static bool listed(const clock_line *lines, size_t n, const char *machine) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(lines[i].machine, machine) == 0) return true;
    return false;
}

static sg_code fit_lines(const sg_args *args, sg_step_cases *cases, clock_line *lines, size_t *n, sg_status *status) {
    for (size_t i = 0; i < cases->n && *n < MOST_LINES; i++) {
        const sg_step_case *one = &cases->items[i];
        if (one->skipped[0] || listed(lines, *n, one->machine.name)) continue;
        if (args->machine && strcmp(args->machine, one->machine.name) != 0) continue;
        lines[*n].machine = one->machine.name;
        sg_code code = sg_step_clock_fit(cases, one->machine.name, &lines[*n].clock, status);
        if (code) return code;
        (*n)++;
    }
    if (*n) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "%s: no row of %s can be predicted, so nothing is learnt",
                   args->step_files.value[0], args->machine ? args->machine : "any GPU");
}

static const char *file_name(const sg_args *args) {
    const char *slash = strrchr(args->step_files.value[0], '/');
    return slash ? slash + 1 : args->step_files.value[0];
}

static void print_lines(const sg_args *args, const clock_line *lines, size_t n, FILE *file) {
    for (size_t i = 0; i < n; i++)
        (void)fprintf(file,
                      "# configs/machines/%s.yaml\n  step_stretch: {value: %.4g, log_sd: %.2g, source: \"%zu whole "
                      "step%s of %.60s, n/(n+1) of their mean\"}\n",
                      lines[i].machine, lines[i].clock.stretch, lines[i].clock.log_sd, lines[i].clock.rows,
                      lines[i].clock.rows == 1 ? "" : "s", file_name(args));
}

static sg_code write_lines(const sg_args *args, const clock_line *lines, size_t n, sg_status *status) {
    if (!args->output) {
        print_lines(args, lines, n, stdout);
        return SG_OK;
    }
    sg_text_writer text;
    sg_code code = sg_text_open(args->output, &text, status);
    if (code) return code;
    print_lines(args, lines, n, text.file);
    return sg_text_close(args->output, &text, status);
}

static json_t *json_lines(const clock_line *lines, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(list, json_pack("{s:s, s:I, s:f, s:f}", "machine", lines[i].machine, "rows",
                                                    (json_int_t)lines[i].clock.rows, "step_stretch",
                                                    lines[i].clock.stretch, "log_sd", lines[i].clock.log_sd));
    return list;
}

int sg_fitting_steps(const sg_args *args) {
    sg_status status;
    sg_step_cases cases = {0};
    clock_line lines[MOST_LINES];
    size_t n = 0;
    sg_code code = open_cases(args, &cases, &status);
    if (!code) code = fit_lines(args, &cases, lines, &n, &status);
    if (!code && (args->output || !args->json)) code = write_lines(args, lines, n, &status);
    int result = code ? sg_show_error(args, &status) : args->json ? sg_json_print(json_lines(lines, n), SG_OK) : SG_OK;
    sg_step_cases_close(&cases);
    return result;
}
