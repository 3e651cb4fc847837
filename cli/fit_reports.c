/* fit --reports: priors from published trainings. */
#include "calibration/reports/report_fit.h"
#include "cli/fitting.h"
#include "formats/durable_file.h"

#include <string.h>

static sg_code read_files(const sg_args *args, sg_report_cases *cases, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t i = 0; i < args->reports.n && !code; i++) {
        sg_csv_table table;
        code = sg_csv_table_read(args->reports.value[i], &table, status);
        if (code) return code;
        code = sg_report_cases_add(&table, args->config_dir, cases, status);
        sg_csv_table_clear(&table);
    }
    return code;
}

static sg_code write_fit(const sg_args *args, const sg_report_fit *fit, sg_status *status) {
    if (!args->output) return sg_report_fit_save(stdout, fit, status);
    sg_text_writer text;
    sg_code code = sg_text_open(args->output, &text, status);
    if (code) return code;
    code = sg_report_fit_save(text.file, fit, status);
    if (!code) return sg_text_close(args->output, &text, status);
    sg_text_discard(&text);
    return code;
}

static json_t *json_fit(const sg_report_fit *fit) {
    size_t n;
    const sg_report_term *terms = sg_report_terms(&n);
    json_t *list = json_array();
    for (size_t t = 0; t < n; t++) {
        json_t *names = json_array();
        for (size_t i = 0; i < terms[t].n_ids; i++)
            (void)json_array_append_new(names, json_string(sg_machine_key(terms[t].ids[i])));
        (void)json_array_append_new(list, json_pack("{s:s, s:o, s:f, s:f, s:f, s:f, s:s}", "file", terms[t].file,
                                                    "parameters", names, "textbook", terms[t].textbook,
                                                    "textbook_log_sd", terms[t].log_sd, "value", fit->value[t],
                                                    "log_sd", fit->log_sd[t], "textbook_source", terms[t].source));
    }
    return json_pack("{s:I, s:I, s:f, s:o}", "reports", (json_int_t)fit->rows, "configurations",
                     (json_int_t)fit->configurations, "rms_log", fit->rms_log, "terms", list);
}

int sg_fitting_reports(const sg_args *args) {
    sg_status status;
    sg_report_cases cases = {0};
    sg_report_fit fit;
    sg_code code = read_files(args, &cases, &status);
    if (!code) code = sg_report_fit_make(&cases, args->config_dir, NULL, &fit, &status);
    if (!code && fit.rows == 0)
        code = sg_fail(&status, SG_BAD_INPUT,
                       "%s: no training on a named GPU with known cameras and a step time among its rows",
                       args->reports.value[0]);
    if (!code && (args->output || !args->json)) code = write_fit(args, &fit, &status);
    sg_report_cases_close(&cases);
    if (code) return sg_show_error(args, &status);
    return args->json ? sg_json_print(json_fit(&fit), SG_OK) : SG_OK;
}
