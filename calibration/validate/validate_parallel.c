/* validate_parallel.c: predictions beside measured GPT trainings on groups of A100s, by the closed form of gpt_step.h.
 *
 * Class parallel_dp; parts "one node" and "64 gpus" (several nodes are never fitted to). Folds are of configurations (hidden,
 * layers, micro-batch): rows of one differ in the number of micro-batches and ranks alone. With devices left out there is
 * nothing left to fit to: all rows are of one GPU model, and are skipped. */
#include "calibration/validate/validate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/predict/predict.h"
#include "calibration/statistics/figure.h"
#include "calibration/steps/gpt_step.h"

static const char *const columns[] = {"gpus",    "global_batch", "micro_batch", "hidden", "heads",  "layers",
                                      "seq_len", "tp",           "dp",          "pp",     "step_ms"};

/* GPUs of the tables: bandwidth of the 40 GB card, which the fit rests on, and the memory of the 80 GB card, without which
 * the largest rows do not fit. */
static const char machine_name[] = "a100-sxm-40gb";
static const double MEMORY_BYTES = 80e9;
enum { NODE_GPUS = 8, MOST = 1 << 24 };

/* Log sd of left-out rows: within a node (two thirds of them are nearer than 1.5 %, the tail is long), and across nodes, where
 * the network and what is computed again are assumptions. */
static const double NODE_LOG_SD = 0.018, NODES_LOG_SD = 0.03;

typedef struct parallel_row {
    sg_validated shown;
    sg_gpt_training training;
    int fold;
} parallel_row;

/* ---- rows ---- */

static bool count_of(const sg_csv_table *t, size_t row, const char *column, double *value) {
    return sg_csv_table_number(t, row, column, value) && *value >= 1 && *value <= MOST && *value == floor(*value);
}

#define SKIP(v, ...) ((void)snprintf((v)->skipped, sizeof(v)->skipped, __VA_ARGS__))

static void name_row(const sg_csv_table *t, parallel_row *r, double global, bool is_split, int folds) {
    const sg_gpt_training *g = &r->training;
    char configuration[96];
    (void)snprintf(configuration, sizeof configuration, "%.0f x %.0f layers, micro %.0f", g->hidden, g->layers,
                   g->micro);
    (void)snprintf(r->shown.row, sizeof r->shown.row, "%.60s of %.0f, dp %.0f%s", configuration, global, g->ranks,
                   is_split ? ", tp or pp" : "");
    if (g->ranks > NODE_GPUS)
        (void)snprintf(r->shown.part, sizeof r->shown.part, "%.0f gpus", g->ranks);
    else
        (void)snprintf(r->shown.part, sizeof r->shown.part, "one node");
    const char *slash = strrchr(t->path, '/');
    (void)snprintf(r->shown.file, sizeof r->shown.file, "%.60s", slash ? slash + 1 : t->path);
    r->fold = sg_validate_fold(configuration, folds > 0 ? folds : 5);
}

static void read_row(const sg_csv_table *t, size_t row, int folds, parallel_row *r) {
    double global, tp, pp, step_ms;
    sg_validated *v = &r->shown;
    sg_gpt_training *g = &r->training;
    *r = (parallel_row){.shown = {.cls = SG_VALIDATE_PARALLEL_DP,
                                  .line = row + 2,
                                  .measured = NAN,
                                  .predicted = NAN,
                                  .low = NAN,
                                  .high = NAN,
                                  .roofline = NAN}};
    (void)snprintf(v->device, sizeof v->device, "%s", machine_name);
    bool counts = count_of(t, row, "global_batch", &global) && count_of(t, row, "micro_batch", &g->micro) &&
                  count_of(t, row, "hidden", &g->hidden) && count_of(t, row, "heads", &g->heads) &&
                  count_of(t, row, "layers", &g->layers) && count_of(t, row, "seq_len", &g->tokens) &&
                  count_of(t, row, "tp", &tp) && count_of(t, row, "dp", &g->ranks) && count_of(t, row, "pp", &pp);
    if (!counts || !sg_csv_table_number(t, row, "step_ms", &step_ms) || !(step_ms > 0)) {
        (void)snprintf(v->row, sizeof v->row, "line %zu", row + 2);
        SKIP(v, "a size is no count, or step_ms no time");
        return;
    }
    v->measured = 1e-3 * step_ms;
    g->accumulation = global / (g->ranks * g->micro);
    name_row(t, r, global, tp > 1 || pp > 1, folds);
    if (tp > 1 || pp > 1)
        SKIP(v, "the model itself is split (tp or pp above 1): only data-parallel training is predicted");
    else if (g->accumulation != floor(g->accumulation) || g->accumulation < 1)
        SKIP(v, "a global batch of %.0f does not fall into micro-batches of %.0f on %.0f ranks", global, g->micro,
             g->ranks);
}

static bool is_fitted_to(const parallel_row *r) {
    return !r->shown.skipped[0] && r->training.ranks <= NODE_GPUS;
}

/* ---- predicting ---- */

static sg_code fit_without(const parallel_row *rows, size_t n, int fold, const sg_gpt_machine *machine,
                           sg_gpt_numbers *numbers, sg_status *status) {
    sg_gpt_training *trainings = calloc(n + 1, sizeof *trainings);
    double *measured_s = calloc(n + 1, sizeof *measured_s);
    sg_code code = SG_OK;
    size_t used = 0;
    if (!trainings || !measured_s) code = sg_fail_memory(status, n * sizeof *trainings, "rows of parallel trainings");
    for (size_t i = 0; i < n && !code; i++) {
        if (!is_fitted_to(&rows[i]) || rows[i].fold == fold) continue;
        trainings[used] = rows[i].training;
        measured_s[used++] = rows[i].shown.measured;
    }
    if (!code) code = sg_gpt_fit(trainings, measured_s, used, machine, numbers, status);
    free(trainings);
    free(measured_s);
    return code;
}

/* Forward and backward FLOPs at the peak, nothing else. */
static double roofline(const sg_gpt_training *g, const sg_gpt_machine *m) {
    double tok = g->micro * g->tokens, h = g->hidden;
    double layer = 72 * tok * h * h + 12 * tok * g->tokens * h, head = 6 * tok * h * 51200;
    return g->accumulation * (g->layers * layer + head) / m->peak_flops;
}

static void predict(parallel_row *r, const sg_gpt_machine *machine, const sg_gpt_numbers *numbers, double interval) {
    bool nodes = r->training.ranks > NODE_GPUS;
    const sg_log_sd parts = {.model = nodes ? NODES_LOG_SD : NODE_LOG_SD};
    sg_figure f =
        sg_figure_make(sg_gpt_step_s(&r->training, machine, numbers), parts, SG_EVIDENCE_CALIBRATED, interval);
    r->shown.predicted = f.value;
    r->shown.low = f.low;
    r->shown.high = f.high;
    r->shown.roofline = roofline(&r->training, machine);
}

/* Rows across nodes are in no fit: theirs is the one to all rows within a node. */
static sg_code predict_fold(parallel_row *rows, size_t n, int fold, const sg_gpt_machine *machine, double interval,
                            sg_status *status) {
    sg_gpt_numbers numbers = SG_GPT_FITTED;
    sg_code code = fit_without(rows, n, fold, machine, &numbers, status);
    for (size_t i = 0; i < n && !code; i++)
        if (!rows[i].shown.skipped[0] && (is_fitted_to(&rows[i]) ? rows[i].fold == fold : fold < 0))
            predict(&rows[i], machine, &numbers, interval);
    return code;
}

static sg_code predict_all(parallel_row *rows, size_t n, const sg_gpt_machine *machine,
                           const sg_validate_options *options, sg_status *status) {
    sg_code code = SG_OK;
    if (options->left_out == SG_LEFT_OUT_ROWS) {
        int folds = options->folds > 0 ? options->folds : 5;
        for (int fold = -1; fold < folds && !code; fold++)
            code = predict_fold(rows, n, fold, machine, options->interval, status);
        return code;
    }
    for (size_t i = 0; i < n; i++)
        if (!rows[i].shown.skipped[0]) predict(&rows[i], machine, &SG_GPT_FITTED, options->interval);
    return SG_OK;
}

sg_code sg_validate_parallel(const sg_csv_table *table, const sg_validate_options *options, sg_validation *into,
                             sg_status *status) {
    sg_code code = sg_csv_table_need(table, columns, sizeof columns / sizeof *columns, status);
    sg_machine sheet;
    if (!code) code = sg_machine_load(machine_name, options->config_dir, &sheet, status);
    if (code) return code;
    const sg_gpt_machine machine = {.peak_flops = sheet.p[SG_M_PEAK_BF16].value,
                                    .bandwidth = sheet.p[SG_M_BANDWIDTH].value,
                                    .memory_bytes = MEMORY_BYTES,
                                    .units = sheet.units};
    sg_machine_clear(&sheet);
    size_t n = table->n_rows;
    parallel_row *rows = calloc(n + 1, sizeof *rows);
    if (!rows) return sg_fail_memory(status, n * sizeof *rows, "rows of parallel trainings");
    for (size_t i = 0; i < n; i++) {
        read_row(table, i, options->folds, &rows[i]);
        if (!rows[i].shown.skipped[0] && options->left_out == SG_LEFT_OUT_DEVICES)
            SKIP(&rows[i].shown, "all rows are of one GPU model: without it nothing is left to fit to");
    }
    code = predict_all(rows, n, &machine, options, status);
    for (size_t i = 0; i < n && !code; i++) code = sg_validation_add(into, &rows[i].shown, status);
    free(rows);
    return code;
}
