#include "calibration/kernels/kernel_fit.h"

#include "calibration/config/config_dir.h"
#include "calibration/kernels/kernel_fit_rows.h"
#include "calibration/machine/machine_file.h"
#include "calibration/machine/machine_match.h"
#include "calibration/predict/predict.h"
#include "formats/durable_file.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ------------------------------------------------------------------------------------------------------- */

typedef struct job {
    const char *config_dir;
    char sheet[64];
    const sg_product_row **product;
    size_t n_products;
    sg_product_row *storage;
} job;

/* Whether a table's device means the machine of the job; the last answer is kept, as rows of a device stand together. */
static bool means(const job *j, const char *device, const char **last, bool *answer) {
    if (*last && strcmp(*last, device) == 0) return *answer;
    char sheet[64];
    sg_status ignored;
    *last = device;
    return *answer = sg_machine_name_find(j->config_dir, device, sheet, sizeof sheet, &ignored) == SG_OK &&
                     strcmp(sheet, j->sheet) == 0;
}

static sg_code take_products(job *j, const sg_csv_table *t, sg_kernel_fit *fit, sg_status *status) {
    const char *last = NULL;
    bool answer = false;
    sg_product_row *grown = realloc(j->storage, (j->n_products + t->n_rows + 1) * sizeof *grown);
    if (!grown) return sg_fail_memory(status, (j->n_products + t->n_rows) * sizeof *grown, "the rows of a fit");
    j->storage = grown;
    for (size_t i = 0; i < t->n_rows; i++) {
        char why[160];
        if (!means(j, sg_csv_table_text(t, i, "device"), &last, &answer)) continue;
        if (sg_product_row_read(t, i, &grown[j->n_products], why, sizeof why))
            j->n_products++;
        else
            fit->unreadable++;
    }
    return SG_OK;
}

static sg_code take_rows(const job *j, const sg_csv_table *t, sg_kernel_fit *fit, sg_status *status) {
    const char *last = NULL, *device = NULL;
    bool answer = false;
    size_t n = 0;
    sg_code code = sg_kernel_rows_check(t, status);
    for (size_t i = 0; !code && i < t->n_rows; i++) {
        const char *name = sg_csv_table_text(t, i, "device");
        sg_kernel_row row;
        if (!means(j, name, &last, &answer)) continue;
        if (device && strcmp(device, name) != 0)
            return sg_fail(status, SG_BAD_INPUT, "%s: '%.60s' and '%.60s' both mean machine %s", t->path, device, name,
                           j->sheet);
        device = name;
        if (sg_kernel_row_read(t, i, &row))
            fit->unreadable++;
        else
            n++;
    }
    if (code || !n) return code;
    sg_machine before = fit->machine;
    code = sg_fit_kernel_rows(t, device, &fit->machine, status);
    for (int i = 0; i < SG_M_COUNT; i++)
        if (isfinite(fit->machine.p[i].value) && fit->machine.p[i].value != before.p[i].value) fit->fitted[i] = true;
    fit->rows += n;
    return code;
}

static sg_code read_file(job *j, const char *path, sg_kernel_fit *fit, sg_status *status) {
    sg_csv_table t;
    sg_code code = sg_csv_table_read(path, &t, status);
    if (code) return code;
    if (sg_product_rows_are(&t))
        code = take_products(j, &t, fit, status);
    else
        code = take_rows(j, &t, fit, status);
    sg_csv_table_clear(&t);
    return code;
}

/* ---- products ------------------------------------------------------------------------------------------------------ */

static sg_code make_covariance(sg_machine *m, sg_status *status) {
    if (m->covariance) return SG_OK;
    m->covariance = calloc((size_t)SG_M_COUNT * SG_M_COUNT, sizeof(double));
    if (!m->covariance) return sg_fail_memory(status, sizeof(double) * SG_M_COUNT * SG_M_COUNT, "a covariance");
    for (size_t i = 0; i < SG_M_COUNT; i++) m->covariance[i * SG_M_COUNT + i] = m->p[i].log_sd * m->p[i].log_sd;
    return SG_OK;
}

/* A start that no divided contraction is worth: what a file of lines over others can say, unlike a missing parameter. */
static const double NEVER_S = 1e6;

static sg_code store(const sg_product_model *model, sg_kernel_fit *fit, sg_status *status) {
    sg_machine *m = &fit->machine;
    const sg_product_fit *f = &model->fit;
    sg_code code = make_covariance(m, status);
    if (code) return code;
    memcpy(m->tiles, model->machine.tiles, sizeof m->tiles);
    if (!(model->machine.p[SG_M_SPLIT_K_S].value > 0)) {
        sg_machine_parameter never = {NEVER_S, 0.1, SG_EVIDENCE_CALIBRATED, 0, "products fit better undivided: never"};
        m->p[SG_M_SPLIT_K_S] = never;
        fit->fitted[SG_M_SPLIT_K_S] = true;
    }
    for (size_t i = 0; i < f->n_terms; i++) {
        sg_machine_parameter *p = &m->p[f->term[i]];
        p->value = model->machine.p[f->term[i]].value;
        /* a value that nothing moves is still only as sure as its last digit */
        p->log_sd = fmax(sqrt(f->covariance[i * f->n_terms + i]), 1e-4);
        p->evidence = SG_EVIDENCE_CALIBRATED;
        p->group = 0;
        (void)snprintf(p->source, sizeof p->source, "fit to %zu fp32 products measured on this GPU", f->n_rows);
        fit->fitted[f->term[i]] = true;
        for (size_t j = 0; j < SG_M_COUNT; j++)
            m->covariance[(size_t)f->term[i] * SG_M_COUNT + j] = m->covariance[j * SG_M_COUNT + (size_t)f->term[i]] = 0;
    }
    for (size_t i = 0; i < f->n_terms; i++)
        for (size_t j = 0; j < f->n_terms; j++)
            m->covariance[(size_t)f->term[i] * SG_M_COUNT + (size_t)f->term[j]] = f->covariance[i * f->n_terms + j];
    return SG_OK;
}

static sg_code summarise(const sg_product_model *model, sg_kernel_fit *fit, sg_status *status) {
    size_t n = model->measured->n;
    double *error = malloc(n * sizeof *error);
    if (!error) return sg_fail_memory(status, n * sizeof *error, "the residuals of a fit");
    for (size_t i = 0; i < n; i++) error[i] = fabs(expm1(-model->residual[i]));
    gsl_sort(error, 1, n);
    fit->mean = gsl_stats_mean(error, 1, n);
    fit->median = gsl_stats_median_from_sorted_data(error, 1, n);
    fit->p90 = gsl_stats_quantile_from_sorted_data(error, 1, n, 0.9);
    fit->scatter = model->scatter;
    free(error);
    return SG_OK;
}

static sg_code fit_products(job *j, sg_kernel_fit *fit, sg_status *status) {
    sg_machine general = fit->machine;
    sg_product_prior prior;
    sg_product_model model = {0};
    general.covariance = NULL; /* and measured shapes: both stay the machine's */
    general.measured = NULL;
    sg_code code = sg_machine_prior_load("products", j->config_dir, &general, status);
    if (!code) code = sg_product_prior_of(&general, &prior, status);
    j->product = calloc(j->n_products, sizeof *j->product);
    if (!code && !j->product) code = sg_fail_memory(status, j->n_products * sizeof *j->product, "the rows of a fit");
    for (size_t i = 0; !code && i < j->n_products; i++) j->product[i] = &j->storage[i];
    if (!code) code = sg_product_model_fit(&general, j->product, j->n_products, &prior, NULL, 0, &model, status);
    if (!code) code = store(&model, fit, status);
    sg_measured *shapes = NULL;
    if (!code) code = sg_product_model_shapes(&model, &shapes, status);
    if (!code) {
        sg_measured_release(fit->machine.measured);
        fit->machine.measured = shapes;
        fit->products = j->n_products;
        code = summarise(&model, fit, status);
    }
    sg_product_model_clear(&model);
    return code;
}

sg_code sg_kernel_fit_files(const char *const *paths, size_t n, const char *device, const char *config_dir,
                            sg_kernel_fit *fit, sg_status *status) {
    memset(fit, 0, sizeof *fit);
    sg_machine_init(&fit->machine);
    char dir[SG_PATH_BYTES];
    job j = {.config_dir = dir};
    sg_code code = sg_config_dir(config_dir, dir, sizeof dir, status);
    if (!code) code = sg_machine_name_find(dir, device, j.sheet, sizeof j.sheet, status);
    if (!code) code = sg_machine_load(j.sheet, dir, &fit->machine, status);
    for (size_t i = 0; i < n && !code; i++) code = read_file(&j, paths[i], fit, status);
    if (!code && !j.n_products && !fit->rows)
        code = sg_fail(status, SG_BAD_INPUT, "no kernel times of '%.60s' (machine %s) in %.300s%s", device, j.sheet,
                       paths[0], n > 1 ? " and the others" : "");
    if (!code && j.n_products) code = fit_products(&j, fit, status);
    if (!code)
        (void)snprintf(fit->machine.fitted_from, sizeof fit->machine.fitted_from,
                       "%zu products and %zu bandwidth-bound kernels", fit->products, fit->rows);
    free(j.product);
    free(j.storage);
    return code;
}

void sg_kernel_fit_clear(sg_kernel_fit *fit) {
    sg_machine_clear(&fit->machine);
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

static void write_tiles(FILE *file, const sg_machine *m) {
    (void)fprintf(file, "tiles:\n");
    for (int k = 0; k < SG_TILE_KIND_COUNT; k++) {
        (void)fprintf(file, "  %s: [", sg_tile_kind_name((sg_tile_kind)k));
        for (int i = 0; i < m->tiles[k].n; i++)
            (void)fprintf(file, "%s%dx%d", i ? ", " : "", m->tiles[k].tile[i].rows, m->tiles[k].tile[i].columns);
        (void)fprintf(file, "]\n");
    }
}

/* Facts of the sheet; those that it does not state are left out. */
static void write_facts(FILE *file, const sg_machine *m) {
    (void)fprintf(file, "title: \"%s\"\ndevice_class: %s\n", m->title, m->device_class);
    (void)fprintf(file, "bf16: %s\nfp16: %s\ntf32: %s\n", m->bf16 ? "true" : "false", m->fp16 ? "true" : "false",
                  m->tf32 ? "true" : "false");
    if (m->units > 0) (void)fprintf(file, "units: %d\n", m->units);
    if (m->memory_bytes) (void)fprintf(file, "memory_bytes: %llu\n", (unsigned long long)m->memory_bytes);
    if (m->vcpus > 0) (void)fprintf(file, "vcpus: %g\n", m->vcpus);
    if (m->capability > 0) (void)fprintf(file, "compute_capability: %d\n", m->capability);
    if (m->fp32_lanes > 0) (void)fprintf(file, "fp32_lanes: %d\n", m->fp32_lanes);
    if (m->memory_type[0]) (void)fprintf(file, "memory_type: %s\n", m->memory_type);
    if (m->l2_bytes > 0) (void)fprintf(file, "l2_bytes: %.0f\n", m->l2_bytes);
    if (m->board_w > 0) (void)fprintf(file, "board_w: %g\n", m->board_w);
}

static void write_parameter(FILE *file, const char *key, const sg_machine_parameter *p) {
    (void)fprintf(file, "  %s: {value: %.7g, log_sd: %.3g", key, p->value, p->log_sd);
    if (p->evidence != SG_EVIDENCE_DATA_SHEET)
        (void)fprintf(file, ", evidence: %s", sg_evidence_name((sg_evidence)p->evidence));
    (void)fprintf(file, ", source: \"");
    for (const char *c = p->source; *c; c++) (void)fputc(*c == '"' || *c == '\\' ? '\'' : *c, file);
    (void)fprintf(file, "\"}\n");
}

sg_code sg_kernel_fit_write(const char *path, const sg_kernel_fit *fit, sg_status *status) {
    sg_text_writer text;
    sg_code code = sg_text_open(path, &text, status);
    if (code) return code;
    const sg_machine *m = &fit->machine;
    (void)fprintf(text.file, "# %s: fit to %s.\n", m->title, m->fitted_from);
    write_facts(text.file, m);
    if (m->tiles[SG_TILES_LINEAR].n && m->tiles[SG_TILES_BATCHED].n) write_tiles(text.file, m);
    (void)fprintf(text.file, "parameters:\n");
    for (int i = 0; i < SG_M_COUNT; i++)
        if (m->p[i].value > 0 && m->p[i].source[0])
            write_parameter(text.file, sg_machine_key((sg_machine_id)i), &m->p[i]);
    return sg_text_close(path, &text, status);
}
