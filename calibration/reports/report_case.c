#include "calibration/reports/report_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/machine/machine_match.h"
#include "calibration/predict/work.h"
#include "calibration/reports/report_text.h"

/* Whose allocator stands in where a row does not state its GPU: tensors and allocator are the same on every CUDA GPU. */
static const char STAND_IN[] = "rtx-4090";

/* A count is right when it rounds to the digits that are stated; dimensions of states and actions add up to this much. */
static const double COUNT_SLACK = 0.003;

/* Variants of a policy that its parameter count tells: older releases, one encoder for all cameras. */
static const struct {
    const char *policy, *key, *value;
} variants[] = {
    {"diffusion", "use_separate_rgb_encoder_per_camera", "false"},
    {"pi0", "tie_word_embeddings", "true"},
    {"pi05", "tie_word_embeddings", "true"},
    {"smolvla", "freeze_vision_encoder", "false"},
};

/* Every report holds a machine and programs: tens of kilobytes to megabytes. */
enum { MOST_ROWS = 10000 };

static sg_code load_machine(sg_report_case *one, const char *config_dir, sg_status *status) {
    sg_code code = SG_NO;
    char name[SG_REPORT_TEXT]; /* brackets hold remarks: "A100 (Colab Pro)" */
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(one->row.hardware, "("), one->row.hardware);
    if (!one->row.no_machine[0])
        code = sg_machine_match(config_dir, one->row.device_class, name, one->row.memory_bytes, &one->machine, status);
    one->has_machine = code == SG_OK;
    if (code == SG_OK || code == SG_MACHINE) return code;
    if (!one->row.no_machine[0])
        (void)snprintf(one->row.no_machine, sizeof one->row.no_machine, "no data sheet of this GPU: %.80s",
                       one->row.hardware);
    return sg_machine_load(STAND_IN, config_dir, &one->machine, status);
}

/* ---- siblings ------------------------------------------------------------------------------------------------------ */

static bool same_setup(const sg_report_case *a, const sg_report_case *b) {
    return a->source[0] && strcmp(a->source, b->source) == 0 && a->row.policy[0] &&
           strcmp(a->row.policy, b->row.policy) == 0 && strcmp(a->row.hardware, b->row.hardware) == 0;
}

static const char *value_of(const sg_report_row *row, const char *key) {
    for (size_t i = 0; i < row->n_settings; i++)
        if (strcmp(row->key[i], key) == 0) return row->value[i];
    return NULL;
}

static void take_over(sg_report_row *to, const sg_report_row *from) {
    static const char *const keys[] = {"cameras", "image_height", "image_width"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!value_of(to, keys[i]) && value_of(from, keys[i]))
            (void)sg_report_row_set(to, keys[i], value_of(from, keys[i]));
    to->cameras_known = to->cameras_known || from->cameras_known;
    to->size_known = to->size_known || from->size_known;
    if (to->parameters == 0 && to->trainable == 0) {
        to->parameters = from->parameters;
        to->trainable = from->trainable;
    }
}

static bool same_value(const sg_report_row *a, const sg_report_row *b, const char *key) {
    const char *x = value_of(a, key), *y = value_of(b, key);
    return !x || !y || strcmp(x, y) == 0;
}

/* Of rows with one source, policy and GPU, those that tell must agree. */
static void ask_siblings(const sg_report_cases *cases, sg_report_case *one) {
    const sg_report_case *teller = NULL;
    if ((one->row.cameras_known && one->row.size_known) || !one->row.named_sizes) return;
    for (size_t i = 0; i < cases->n; i++) {
        const sg_report_case *other = &cases->items[i];
        if (other == one || !other->row.cameras_known || !other->row.size_known || !same_setup(one, other)) continue;
        if (teller && !(same_value(&teller->row, &other->row, "cameras") &&
                        same_value(&teller->row, &other->row, "image_height")))
            return;
        teller = other;
    }
    if (teller) take_over(&one->row, &teller->row);
}

/* One batch size of one source, policy and data set, on whichever GPU. */
static void ask_batch(const sg_report_cases *cases, sg_report_case *one) {
    int64_t batch = 0;
    if (one->row.request.batch > 0 || !one->source[0]) return;
    for (size_t i = 0; i < cases->n; i++) {
        const sg_report_case *other = &cases->items[i];
        int64_t b = other->row.request.batch;
        if (b <= 0 || strcmp(other->source, one->source) != 0 || strcmp(other->row.policy, one->row.policy) != 0 ||
            strcmp(other->dataset, one->dataset) != 0 || other->row.ranks != one->row.ranks)
            continue;
        if (batch > 0 && b != batch) return;
        batch = b;
    }
    one->row.request.batch = batch;
}

/* ---- candidates ---------------------------------------------------------------------------------------------------- */

/* Half a unit of the last digit stated ("263 M": 0.5 M), as a share. */
static double rounding_of(double stated) {
    double unit = 1;
    while (unit < stated && fabs(stated / (10 * unit) - round(stated / (10 * unit))) < 1e-9 * stated / unit) unit *= 10;
    return 0.5 * unit / stated;
}

static bool near_count(double stated, int64_t ours) {
    return stated <= 0 || fabs((double)ours / stated - 1) <= fmin(fmax(COUNT_SLACK, rounding_of(stated)), 0.03);
}

/* Opens a predictor for the row; *agrees: its counts are those that the row states. */
static sg_code open_one(sg_report_candidate *c, const sg_machine *machine, const char *config_dir, bool *agrees,
                        sg_counts *counts, sg_status *status) {
    const sg_training *t = NULL;
    sg_report_row_bind(&c->row);
    sg_code code = sg_predictor_open(&c->row.request, config_dir, &c->predictor, status);
    if (!code) code = sg_predictor_training(c->predictor, machine, &t, status);
    if (!code) {
        *counts = sg_count_program(t, sg_main_program(t));
        *agrees =
            near_count(c->row.trainable, counts->trainable) &&
            (near_count(c->row.parameters, counts->parameters) || near_count(c->row.parameters, counts->trainable));
    }
    if (code || !*agrees) {
        sg_predictor_close(c->predictor);
        c->predictor = NULL;
    }
    return code;
}

static sg_code open_candidate(sg_report_case *one, sg_report_candidate *c, const char *config_dir, sg_status *status) {
    bool agrees = false;
    sg_counts counts = {0};
    char text[16];
    c->row = one->row;
    (void)snprintf(text, sizeof text, "%d", c->cameras);
    if (c->cameras > 0) (void)sg_report_row_set(&c->row, "cameras", text);
    sg_code code = open_one(c, &one->machine, config_dir, &agrees, &counts, status);
    for (size_t v = 0; !code && !agrees && v < sizeof variants / sizeof *variants; v++) {
        sg_report_row plain = c->row;
        if (strcmp(variants[v].policy, c->row.policy) != 0 ||
            !sg_report_row_set(&c->row, variants[v].key, variants[v].value))
            continue;
        code = open_one(c, &one->machine, config_dir, &agrees, &counts, status);
        if (!agrees) c->row = plain;
    }
    if (code == SG_MACHINE) return code;
    if (code)
        (void)snprintf(one->row.no_training, sizeof one->row.no_training, "cannot be built: %.120s", status->text);
    else if (!agrees)
        (void)snprintf(one->row.no_training, sizeof one->row.no_training,
                       "another variant: %.4g M parameters stated, %.4g M (%.4g M trainable) here",
                       (c->row.trainable > 0 ? c->row.trainable : c->row.parameters) * 1e-6,
                       (double)counts.parameters * 1e-6, (double)counts.trainable * 1e-6);
    return SG_OK;
}

static sg_code open_candidates(sg_report_case *one, const char *config_dir, sg_status *status) {
    size_t most = one->row.named_sizes && !one->row.cameras_known ? SG_REPORT_CANDIDATES : 1;
    one->candidate = calloc(most, sizeof *one->candidate);
    if (!one->candidate) return sg_fail_memory(status, most * sizeof *one->candidate, "a published training");
    for (size_t i = 0; i < most; i++) {
        sg_report_candidate *c = &one->candidate[one->n_candidates];
        memset(c, 0, sizeof *c);
        c->cameras = most > 1 ? (int)i + 1 : 0;
        sg_code code = open_candidate(one, c, config_dir, status);
        if (code) return code;
        if (c->predictor) one->n_candidates++;
    }
    for (size_t i = 0; i < one->n_candidates; i++) sg_report_row_bind(&one->candidate[i].row);
    if (one->n_candidates > 0) one->row.no_training[0] = 0;
    one->cameras_known = one->row.cameras_known || !one->row.named_sizes || one->n_candidates == 1;
    return SG_OK;
}

static void read_row(const sg_csv_table *table, size_t index, sg_report_case *one) {
    memset(one, 0, sizeof *one);
    sg_machine_init(&one->machine);
    sg_report_row_read(table, index, &one->row);
    sg_report_fold(sg_csv_table_text(table, index, "source"), one->source, sizeof one->source);
    sg_report_fold(sg_csv_table_text(table, index, "dataset"), one->dataset, sizeof one->dataset);
    one->line = index + 2;
}

static sg_code set_up(const sg_report_cases *cases, sg_report_case *one, const char *config_dir, sg_status *status) {
    sg_report_row *row = &one->row;
    ask_siblings(cases, one);
    if (row->policy[0]) ask_batch(cases, one);
    if (row->request.batch <= 0 && !row->no_training[0])
        (void)snprintf(row->no_training, sizeof row->no_training, "the batch size is not stated");
    if (row->named_sizes && !row->size_known && !row->no_training[0])
        (void)snprintf(row->no_training, sizeof row->no_training,
                       "the image size is not stated, and this policy's network sees images as they are");
    sg_code code = load_machine(one, config_dir, status);
    bool wanted =
        !row->no_training[0] && row->policy[0] &&
        ((one->has_machine && row->time != SG_REPORT_NO_TIME) || row->allocated_bytes > 0 || row->driver_bytes > 0);
    return !code && wanted ? open_candidates(one, config_dir, status) : code;
}

sg_code sg_report_cases_add(const sg_csv_table *table, const char *config_dir, sg_report_cases *cases,
                            sg_status *status) {
    static const char *const columns[] = {"policy", "batch_per_gpu"};
    size_t before = cases->n;
    sg_code code = sg_csv_table_need(table, columns, 2, status);
    if (!code && before + table->n_rows > MOST_ROWS)
        code = sg_fail(status, SG_BAD_INPUT, "%s: more than %d reports at once: take a part of them", table->path,
                       MOST_ROWS);
    sg_report_case *grown = code ? NULL : realloc(cases->items, (before + table->n_rows + 1) * sizeof *grown);
    if (!code && !grown) code = sg_fail_memory(status, (before + table->n_rows) * sizeof *grown, "published trainings");
    if (grown) cases->items = grown;
    for (size_t i = 0; !code && i < table->n_rows; i++) read_row(table, i, &cases->items[cases->n++]);
    for (size_t i = before; !code && i < cases->n; i++) code = set_up(cases, &cases->items[i], config_dir, status);
    if (code) sg_report_cases_close(cases);
    return code;
}

void sg_report_cases_close(sg_report_cases *cases) {
    for (size_t i = 0; i < cases->n; i++) {
        sg_report_case *one = &cases->items[i];
        for (size_t k = 0; k < one->n_candidates; k++) sg_predictor_close(one->candidate[k].predictor);
        free(one->candidate);
        sg_machine_clear(&one->machine);
    }
    free(cases->items);
    *cases = (sg_report_cases){0};
}

sg_code sg_report_case_predict(const sg_report_case *one, size_t candidate, const sg_machine *machine,
                               const sg_framework_numbers *framework, const char *config_dir, double interval,
                               sg_prediction *prediction, sg_status *status) {
    sg_predict_options options = {.interval = interval,
                                  .ranks = one->row.ranks,
                                  /* reports whose loader limits are told by their own figures */
                                  .workers = 4,
                                  .batches_ready = true,
                                  .cameras_known = true,
                                  .config_dir = config_dir,
                                  .framework = framework};
    return sg_predictor_run(one->candidate[candidate].predictor, machine, &options, prediction, status);
}

sg_code sg_report_case_roofline(const sg_report_case *one, size_t candidate, double *flops, double *seconds,
                                double *peak_flops_s, sg_status *status) {
    const sg_training *t = NULL;
    sg_code code = sg_predictor_training(one->candidate[candidate].predictor, &one->machine, &t, status);
    if (code) return code;
    double *count = malloc(t->n_ops * sizeof *count + 1);
    if (!count) return sg_fail_memory(status, t->n_ops * sizeof *count, "counts of a training");
    sg_work_counts(t, count);
    double compute_s = 0, bytes = 0, peak_high = 0;
    *flops = 0;
    for (size_t i = 0; i < t->n_ops; i++) {
        sg_cost cost = sg_op_cost(&t->ops[i]);
        sg_machine_id id = sg_machine_peak_of((sg_compute)t->ops[i].attrs.compute);
        double peak = one->machine.p[id < SG_M_COUNT ? id : SG_M_PEAK_F32].value;
        bytes += count[i] * (cost.bytes_read + cost.bytes_written);
        if (sg_op_class_of(&t->ops[i]) > SG_CLASS_ATTENTION || count[i] == 0) continue;
        *flops += count[i] * cost.flops;
        compute_s += count[i] * cost.flops / peak;
        if (!(peak <= peak_high)) peak_high = peak;
    }
    free(count);
    *peak_flops_s = peak_high;
    *seconds = fmax(compute_s, bytes / one->machine.p[SG_M_BANDWIDTH].value);
    return SG_OK;
}
