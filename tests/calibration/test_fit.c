/* A fit gets back what made the points: efficiencies, laws, framework factors; says what is missing; survives files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calibration/fit.h"
#include "calibration/machine/machine_group.h"
#include "calibration/predict.h"
#include "calibration/work.h"
#include "sim/durable_file.h"
#include "sim/measure.h"

static const char *const CONFIGS = SG_SOURCE_DIR "/configs";

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        sg_status status = {0};                                                                                        \
        if ((call) != SG_OK) fail_msg("line %d: %s", __LINE__, status.text);                                           \
    } while (0)

/* ---- points made up from a known machine -------------------------------------------------------------------------- */

/* Normal deviates from a fixed seed: twelve uniform ones less six. */
static double deviate(uint64_t *state) {
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        sum += (double)(*state >> 11) / 9007199254740992.0;
    }
    return sum;
}

static sg_machine prior_machine(void) {
    sg_machine m;
    OK(sg_machine_load("cpu", CONFIGS, &m, &status));
    return m;
}

/* A CPU that differs from the prior in every efficiency. Its nominal peak and bandwidth are the prior's: efficiencies are
 * relative to them. */
static sg_machine true_machine(void) {
    sg_machine m = prior_machine();
    for (int c = 0; c < SG_CLASS_COUNT; c++) {
        sg_machine_id id = sg_machine_eff_of((sg_op_class)c);
        if (id < SG_M_COUNT) m.p[id].value *= c % 2 ? 1.3 : 0.8;
    }
    m.p[SG_M_KERNEL_START_S].value *= 1.5;
    m.p[SG_M_KERNEL_FLOOR_S].value *= 1.2;
    return m;
}

static void set_q(sg_point *p, sg_quantity q, double seconds) {
    p->q[q] = (sg_statistic){seconds, seconds, seconds * 0.99, seconds * 1.01};
}

static const sg_setting mlp_settings[] = {{"input_dim", "256", "test"}, {"hidden_dims", "1024,1024", "test"}};
static const sg_setting ppo_settings[] = {{"envs", "64", "test"}, {"steps_per_env", "8", "test"}};

/* What the machine `truth` would show: `size` is the batch, for ppo the environments. */
static sg_point point_of(const char *policy, int64_t size, const sg_machine *truth, double noise, uint64_t *seed) {
    bool ppo = strcmp(policy, "ppo") == 0;
    char envs[24];
    (void)snprintf(envs, sizeof envs, "%lld", (long long)size);
    sg_setting settings[2];
    memcpy(settings, ppo ? ppo_settings : mlp_settings, sizeof settings);
    if (ppo) settings[0].value = envs;
    sg_policy_request request = {.policy = policy,
                                 .device_class = SG_DEVICE_CLASS_CPU,
                                 .batch = ppo ? 0 : size,
                                 .settings = settings,
                                 .n_settings = 2};
    sg_measure_options options = {.device = "cpu", .threads = 2, .workers = 1, .seed = 1, .ranks = 1};
    sg_training *training;
    sg_point p = {.iterations = 9, .warmup = 1, .fits_rates = true, .source = "measured", .frame_s = NAN};
    OK(sg_policy_build(&request, &training, &status));
    OK(sg_measure_config(&request, training, &options, &p.config, &status));
    p.key = sg_point_key(&p.config);
    double *count = calloc(training->n_ops, sizeof *count), step = 0;
    assert_non_null(count);
    sg_work_counts(training, count);
    OK(sg_work_class_seconds(training, count, truth, p.class_s, NULL, &status));
    for (int c = 0; c < SG_CLASS_COUNT; c++) {
        p.class_s[c] *= exp(noise * deviate(seed));
        step += p.class_s[c];
    }
    set_q(&p, ppo ? SG_Q_LEARNING : SG_Q_UPDATE, step * exp(noise * deviate(seed)));
    set_q(&p, SG_Q_PREPROCESSING, 1e-6 * (double)size);
    set_q(&p, SG_Q_DATALOADING, 1e-4 * step);
    set_q(&p, ppo ? SG_Q_ITERATION : SG_Q_STEP, 1.01 * step);
    free(count);
    sg_training_free(training);
    return p;
}

typedef struct made_run {
    sg_run run;
    sg_point points[8];
} made_run;

static void make_run(made_run *m, const char *policy, const int64_t *sizes, size_t n, double noise) {
    uint64_t seed = 7;
    sg_machine truth = true_machine();
    memset(m, 0, sizeof *m);
    m->run.points = m->points;
    m->run.n_points = n;
    (void)snprintf(m->run.machine.hostname, sizeof m->run.machine.hostname, "made-up");
    (void)snprintf(m->run.machine.cpu, sizeof m->run.machine.cpu, "made-up CPU");
    m->run.machine.cores = m->run.machine.threads = 2;
    m->run.machine.memory_bytes = 8 << 20;
    for (size_t i = 0; i < n; i++) m->points[i] = point_of(policy, sizes[i], &truth, noise, &seed);
    sg_machine_clear(&truth);
}

static const int64_t four[] = {8, 32, 128, 512};

static void fit_run(const made_run *m, const sg_fit_options *options, sg_fit *fit) {
    sg_machine prior = prior_machine();
    static const sg_fit_options nothing = {0};
    OK(sg_fit_run(&m->run, &prior, options ? options : &nothing, fit, &status));
    sg_machine_clear(&prior);
}

static bool has_note(const sg_fit *fit, const char *text) {
    for (size_t i = 0; i < fit->n_notes; i++)
        if (strstr(fit->notes[i], text)) return true;
    return false;
}

/* ---- the machine -------------------------------------------------------------------------------------------------- */

/* Errors are stated, so they can be wrong: every fitted efficiency within 3 of them. Classes that matter to the step are
 * narrow, the products above all. */
static void efficiencies_are_recovered(void **state) {
    (void)state;
    static const char *const policies[] = {"mlp", "ppo"};
    static const int64_t envs[] = {64, 256, 512, 1024};
    sg_machine truth = true_machine();
    for (int k = 0; k < 2; k++) {
        made_run made;
        sg_fit fit;
        make_run(&made, policies[k], k ? envs : four, 4, 0.015);
        fit_run(&made, NULL, &fit);
        int fitted = 0, narrow = 0;
        for (int i = 0; i < SG_M_COUNT; i++) {
            const sg_machine_parameter *p = &fit.machine.p[i];
            if (p->evidence != SG_EVIDENCE_CALIBRATED || p->log_sd == 0) continue;
            if (strncmp(sg_machine_key((sg_machine_id)i), "eff_", 4) != 0) continue;
            double off = log(p->value / truth.p[i].value);
            if (!(fabs(off) <= 3 * p->log_sd))
                fail_msg("%s: %g instead of %g, with an error of %g", sg_machine_key((sg_machine_id)i), p->value,
                         truth.p[i].value, p->log_sd);
            if (i == SG_M_EFF_GEMM) assert_true(fabs(off) < 0.03 && p->log_sd < 0.06);
            fitted++;
            narrow += p->log_sd < 0.1 && fabs(off) < 0.1;
        }
        if (fitted < 3 || narrow < 2)
            fail_msg("%s: %d efficiencies fitted, %d of them well", policies[k], fitted, narrow);
        sg_fit_clear(&fit);
    }
    sg_machine_clear(&truth);
}

/* Positive semi-definite: a Cholesky factorisation of covariance + a hair exists; the diagonal is what log_sd says. */
static void covariance_is_one(void **state) {
    (void)state;
    made_run made;
    sg_fit fit;
    make_run(&made, "mlp", four, 4, 0.015);
    fit_run(&made, NULL, &fit);
    const double *c = fit.machine.covariance;
    assert_non_null(c);
    double *l = calloc((size_t)SG_M_COUNT * SG_M_COUNT, sizeof *l);
    assert_non_null(l);
    for (int i = 0; i < SG_M_COUNT; i++) {
        for (int j = 0; j <= i; j++) {
            assert_true(fabs(c[i * SG_M_COUNT + j] - c[j * SG_M_COUNT + i]) <= 1e-12);
            double sum = c[i * SG_M_COUNT + j] + (i == j ? 1e-10 : 0);
            for (int k = 0; k < j; k++) sum -= l[i * SG_M_COUNT + k] * l[j * SG_M_COUNT + k];
            if (i == j && !(sum > 0)) fail_msg("not positive at %s", sg_machine_key((sg_machine_id)i));
            l[i * SG_M_COUNT + j] = i == j ? sqrt(sum) : sum / l[j * SG_M_COUNT + j];
        }
        const sg_machine_parameter *p = &fit.machine.p[i];
        if (isfinite(p->value) && fabs(sqrt(c[i * (SG_M_COUNT + 1)]) - p->log_sd) > 1e-9)
            fail_msg("%s: log sd %g, but %g in the covariance", sg_machine_key((sg_machine_id)i), p->log_sd,
                     sqrt(c[i * (SG_M_COUNT + 1)]));
    }
    free(l);
    sg_fit_clear(&fit);
}

/* ---- laws --------------------------------------------------------------------------------------------------------- */

static void three_batches_scale_the_walk(void **state) {
    (void)state;
    made_run made;
    sg_fit fit;
    static const int64_t three[] = {64, 128, 256};
    make_run(&made, "mlp", three, 3, 0.003);
    fit_run(&made, NULL, &fit);
    const sg_law *law = sg_law_find(&fit, "update_s", &made.points[0].config);
    assert_non_null(law);
    assert_int_equal(law->kind, SG_LAW_WALK);
    assert_int_equal(law->n_points, 3);
    assert_true(law->low_x == 64 && law->high_x == 256 && law->next_point[0]);
    sg_machine truth = true_machine();
    static const int64_t unseen[] = {96, 192};
    for (int i = 0; i < 2; i++) {
        uint64_t seed = 1;
        double value, log_sd;
        sg_point p = point_of("mlp", unseen[i], &truth, 0, &seed);
        sg_law_at(law, (double)unseen[i], &value, &log_sd);
        if (!(fabs(value / p.q[SG_Q_UPDATE].median - 1) <= 0.02))
            fail_msg("batch %lld: %g instead of %g", (long long)unseen[i], value, p.q[SG_Q_UPDATE].median);
        assert_true(log_sd > 0 && log_sd < 0.1);
    }
    assert_int_equal(fit.n_residuals, 3);
    for (int i = 0; i < 3; i++) assert_true(fabs(fit.residuals[i]) < 0.05);
    /* the loader kept up: nothing to fit, and the note says so */
    assert_null(sg_law_find(&fit, "dataloading_s", &made.points[0].config));
    assert_true(has_note(&fit, "loader kept up"));
    sg_machine_clear(&truth);
    sg_fit_clear(&fit);
}

/* Frames made in line take their time in every step: that is a law. */
static void a_loader_that_lags_is_fitted(void **state) {
    (void)state;
    made_run made;
    sg_fit fit;
    make_run(&made, "mlp", four, 4, 0.003);
    for (int i = 0; i < 4; i++) set_q(&made.points[i], SG_Q_DATALOADING, 2e-5 * (double)four[i]);
    for (int i = 0; i < 4; i++)
        set_q(&made.points[i], SG_Q_STEP, made.points[i].q[SG_Q_UPDATE].median + 2e-5 * (double)four[i]);
    for (int i = 0; i < 4; i++) made.points[i].config.workers = 0;
    fit_run(&made, NULL, &fit);
    const sg_law *law = sg_law_find(&fit, "dataloading_s", &made.points[0].config);
    assert_non_null(law);
    double value, log_sd;
    sg_law_at(law, 256, &value, &log_sd);
    assert_true(fabs(value / (2e-5 * 256) - 1) < 0.02);
    sg_fit_clear(&fit);
}

static void too_few_points_say_how_many(void **state) {
    (void)state;
    made_run made;
    sg_fit fit;
    make_run(&made, "mlp", four, 1, 0.01);
    fit_run(&made, NULL, &fit);
    assert_null(sg_law_find(&fit, "update_s", &made.points[0].config));
    assert_true(has_note(&fit, "1 point(s), 3 are needed"));
    sg_fit_clear(&fit);
}

static void refuse(made_run *made, const char *why) {
    sg_machine prior = prior_machine();
    sg_fit_options nothing = {0};
    sg_fit fit;
    sg_status status;
    assert_int_equal(sg_fit_run(&made->run, &prior, &nothing, &fit, &status), SG_BAD_INPUT);
    if (!strstr(status.text, why)) fail_msg("'%s' does not say '%s'", status.text, why);
    sg_machine_clear(&prior);
}

static void nothing_usable_says_what_to_measure(void **state) {
    (void)state;
    made_run made;
    make_run(&made, "mlp", four, 2, 0.01);
    made.run.n_points = 0;
    refuse(&made, "stepgauge measure");
    made.run.n_points = 2;
    made.points[0].fits_rates = made.points[1].fits_rates = false;
    refuse(&made, "another precision");
    for (int c = 0; c < SG_CLASS_COUNT; c++) made.points[0].class_s[c] = made.points[1].class_s[c] = NAN;
    refuse(&made, "stepgauge measure mlp --batch 1,2,4");
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

static char file_path[64];

static int make_path(void **state) {
    (void)state;
    (void)snprintf(file_path, sizeof file_path, "/tmp/stepgauge-fit-%d", (int)getpid());
    return 0;
}

static int remove_path(void **state) {
    (void)state;
    (void)unlink(file_path);
    return 0;
}

static void write_bytes(const void *bytes, size_t n) {
    FILE *file = fopen(file_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static void refuse_file(const char *why) {
    sg_fit fit;
    sg_status status;
    assert_int_equal(sg_fit_load(file_path, &fit, &status), SG_BAD_INPUT);
    if (!strstr(status.text, why)) fail_msg("'%s' does not say '%s'", status.text, why);
    assert_null(fit.laws);
}

static void files_hold_the_whole_fit(void **state) {
    (void)state;
    made_run made;
    sg_fit fit, back;
    make_run(&made, "mlp", four, 4, 0.01);
    fit_run(&made, NULL, &fit);
    OK(sg_fit_save(file_path, &fit, &status));
    OK(sg_fit_load(file_path, &back, &status));
    assert_string_equal(back.machine.name, "made-up");
    assert_string_equal(back.machine.fitted_from, fit.machine.fitted_from);
    for (int i = 0; i < SG_M_COUNT; i++) {
        const sg_machine_parameter *a = &fit.machine.p[i], *b = &back.machine.p[i];
        if (isnan(a->value)) continue;
        assert_true(a->value == b->value && a->log_sd == b->log_sd && a->evidence == b->evidence);
        assert_string_equal(a->source, b->source);
    }
    assert_memory_equal(fit.machine.covariance, back.machine.covariance, sizeof(double) * SG_M_COUNT * SG_M_COUNT);
    assert_true(fit.n_laws > 0);
    assert_int_equal(back.n_laws, fit.n_laws);
    for (size_t i = 0; i < fit.n_laws; i++) {
        assert_string_equal(back.laws[i].quantity, fit.laws[i].quantity);
        assert_memory_equal(back.laws[i].value, fit.laws[i].value, sizeof fit.laws[i].value);
        assert_memory_equal(back.laws[i].covariance, fit.laws[i].covariance, sizeof fit.laws[i].covariance);
        assert_true(sg_point_key(&back.laws[i].config) == sg_point_key(&fit.laws[i].config));
        assert_true(back.laws[i].low_x == fit.laws[i].low_x && back.laws[i].high_x == fit.laws[i].high_x);
        assert_string_equal(back.laws[i].next_point, fit.laws[i].next_point);
    }
    sg_fit_clear(&back);
    sg_fit_clear(&fit);
    unsigned char *bytes;
    size_t n;
    OK(sg_file_read(file_path, 1u << 26, &bytes, &n, &status));
    write_bytes(bytes, n - 8);
    refuse_file("truncated");
    bytes[n / 2] ^= 4;
    write_bytes(bytes, n);
    refuse_file(file_path);
    free(bytes);
}

/* Laws of someone who means harm, behind a valid checksum. */
static void hostile_laws_are_refused(void **state) {
    (void)state;
    made_run made;
    sg_fit fit;
    make_run(&made, "mlp", four, 4, 0.01);
    fit_run(&made, NULL, &fit);
    assert_true(fit.n_laws > 0);
    const sg_law sound = fit.laws[0];
    sg_law bad[8];
    for (int i = 0; i < 8; i++) bad[i] = sound;
    bad[0].kind = 77;
    bad[1].n_terms = 1000;
    bad[2].n_fitted = 4, bad[2].n_terms = 3;
    bad[3].value[0] = NAN;
    bad[4].value[0] = -1;
    bad[5].covariance[0] = INFINITY;
    bad[6].high_x = bad[6].low_x / 2;
    bad[7].n_points = 0;
    for (int i = 1; i < 8; i++) { /* a kind that no formula has cannot be written: the fuzz target tries it */
        fit.laws[0] = bad[i];
        sg_status status;
        if (sg_fit_save(file_path, &fit, &status) == SG_OK) refuse_file("law");
    }
    fit.laws[0] = sound;
    sg_fit_clear(&fit);
}

/* ---- the framework's own times -------------------------------------------------------------------------------------- */

static const char *const HEAD =
    "{\"format\": \"stepgauge-torch-probe\", \"version\": 1, \"torch\": \"2.15.0\", \"date\": "
    "\"2026-11-30T10:00:00Z\",\n"
    "\"device\": \"%s\", \"device_name\": \"a CPU\", \"threads\": 2, \"bf16_native\": false, \"tf32\": false,\n"
    "\"load_average_before\": 0.1, \"disturbed\": [\"load 3.1 before\"], \"entries\": [],\n"
    "\"host\": {\"op_s\": {\"median_s\": %s, \"mean_s\": 5e-6, \"low\": 4.9e-6, \"high\": 5.1e-6, \"n\": 9},\n"
    " \"view_s\": {\"median_s\": 2e-6, \"mean_s\": 2e-6, \"low\": 1.9e-6, \"high\": 2.1e-6, \"n\": 9},\n"
    " \"backward_op_s\": {\"median_s\": 1e-5, \"mean_s\": 1e-5, \"low\": 9e-6, \"high\": 1.1e-5, \"n\": 9},\n"
    " \"item_s\": {\"median_s\": 1e-6, \"mean_s\": 1e-6, \"low\": 9e-7, \"high\": 1.1e-6, \"n\": 9},\n"
    " \"optimizer_fixed_s\": {\"median_s\": 3e-5, \"mean_s\": 3e-5, \"low\": 2.9e-5, \"high\": 3.1e-5, \"n\": 9}},\n"
    "\"steps\": [{\"policy\": \"mlp\", \"settings\": {\"input_dim\": 256, \"hidden_dims\": \"1024,1024\"}, \"batch\": "
    "128,\n"
    " \"precision\": \"fp32\", \"class_s\": {\"gemm\": %.9g, \"elementwise\": %.9g}}]}\n";

/* A probe whose framework needs `gemm` and `elementwise` times what the fitted machine needs. */
static void write_probe(const sg_fit *fit, const char *device, const char *op_s, double gemm, double elementwise) {
    uint64_t seed = 1;
    sg_point p = point_of("mlp", 128, &fit->machine, 0, &seed);
    char text[4096];
    int n = snprintf(text, sizeof text, HEAD, device, op_s, gemm * p.class_s[SG_CLASS_GEMM],
                     elementwise * p.class_s[SG_CLASS_ELEMENTWISE]);
    assert_true(n > 0 && (size_t)n < sizeof text);
    write_bytes(text, (size_t)n);
}

static void is_observed(const sg_fit *fit, sg_machine_id id, double value, double tolerance) {
    const sg_machine_parameter *p = &fit->machine.p[id];
    if (!(fabs(p->value / value - 1) <= tolerance))
        fail_msg("%s: %g instead of %g", sg_machine_key(id), p->value, value);
    assert_int_equal(p->evidence, SG_EVIDENCE_OBSERVED);
    assert_non_null(strstr(p->source, "2.15.0"));
}

static void a_probe_gives_factors_and_host_costs(void **state) {
    (void)state;
    made_run made;
    sg_fit plain, fit;
    make_run(&made, "mlp", four, 4, 0.01);
    fit_run(&made, NULL, &plain);
    write_probe(&plain, "cpu", "5e-6", 1.25, 0.8);
    sg_fit_options options = {.probe_file = file_path};
    fit_run(&made, &options, &fit);
    is_observed(&fit, SG_M_FACTOR_GEMM, 1.25, 0.05); /* preprocessing's share of a class is left out there */
    is_observed(&fit, SG_M_HOST_OP_S, 5e-6, 1e-9);
    is_observed(&fit, SG_M_HOST_VIEW, 0.4, 1e-9);
    is_observed(&fit, SG_M_HOST_BACKWARD, 2, 1e-9);
    assert_true(fit.machine.p[SG_M_FACTOR_ELEMENTWISE].evidence == SG_EVIDENCE_OBSERVED);
    assert_true(fit.machine.p[SG_M_FACTOR_ELEMENTWISE].value < 1);
    assert_true(fit.machine.p[SG_M_FACTOR_NORM].evidence == SG_EVIDENCE_DATA_SHEET);
    assert_true(has_note(&fit, "load 3.1 before"));
    sg_fit_clear(&fit);
    sg_fit_clear(&plain);
}

static void refuse_probe(const made_run *made, const char *why) {
    sg_machine prior = prior_machine();
    sg_fit_options options = {.probe_file = file_path};
    sg_fit fit;
    sg_status status;
    assert_int_equal(sg_fit_run(&made->run, &prior, &options, &fit, &status), SG_BAD_INPUT);
    if (!strstr(status.text, why)) fail_msg("'%s' does not say '%s'", status.text, why);
    sg_machine_clear(&prior);
}

static void bad_probes_say_where(void **state) {
    (void)state;
    made_run made;
    sg_fit plain;
    make_run(&made, "mlp", four, 2, 0.01);
    fit_run(&made, NULL, &plain);
    write_probe(&plain, "cuda", "5e-6", 1, 1);
    refuse_probe(&made, "ran on 'cuda'");
    write_probe(&plain, "cpu", "\"soon\"", 1, 1);
    refuse_probe(&made, ":4"); /* the line */
    write_probe(&plain, "cpu", "-1", 1, 1);
    refuse_probe(&made, ":4");
    write_probe(&plain, "cpu", "5e-6", -1, 1);
    refuse_probe(&made, "gemm");
    write_bytes("{\"format\": \"stepgauge-torch-probe\",", 36);
    refuse_probe(&made, file_path);
    write_bytes("{\"format\": \"something else\"}", 28);
    refuse_probe(&made, "no probe file");
    sg_fit_clear(&plain);
}

/* A log is what the framework took here: factors move towards it, by most of the way when the doubt was large. */
static void logs_move_the_factors(void **state) {
    (void)state;
    made_run made;
    sg_fit plain, fit;
    make_run(&made, "mlp", four, 4, 0.01);
    fit_run(&made, NULL, &plain);
    sg_work_request request;
    sg_work_request_of(&made.points[2].config, &request);
    sg_predict_options known = {.workers = 1,
                                .cameras_known = true,
                                .host_known = true,
                                .language_known = true,
                                .config_dir = CONFIGS,
                                .fit = &plain};
    sg_prediction before;
    OK(sg_predict(&request.policy, &plain.machine, &known, &before, &status));
    sg_point observed = made.points[2];
    (void)snprintf(observed.source, sizeof observed.source, "observed");
    set_q(&observed, SG_Q_UPDATE, 1.5 * before.update_s.value);
    sg_fit_options options = {.observed = &observed, .n_observed = 1};
    fit_run(&made, &options, &fit);
    double moved = fit.machine.p[SG_M_FACTOR_GEMM].value / plain.machine.p[SG_M_FACTOR_GEMM].value;
    assert_true(moved > 1.2 && moved < 1.5);
    assert_int_equal(fit.machine.p[SG_M_FACTOR_GEMM].evidence, SG_EVIDENCE_OBSERVED);
    assert_true(has_note(&fit, "+50.0 %"));
    sg_fit_clear(&fit);
    sg_fit_clear(&plain);
}

int main(void) {
#define WITH_PATH(test) cmocka_unit_test_setup_teardown(test, make_path, remove_path)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(efficiencies_are_recovered),
        cmocka_unit_test(covariance_is_one),
        cmocka_unit_test(three_batches_scale_the_walk),
        cmocka_unit_test(a_loader_that_lags_is_fitted),
        cmocka_unit_test(too_few_points_say_how_many),
        cmocka_unit_test(nothing_usable_says_what_to_measure),
        WITH_PATH(files_hold_the_whole_fit),
        WITH_PATH(hostile_laws_are_refused),
        WITH_PATH(a_probe_gives_factors_and_host_costs),
        WITH_PATH(bad_probes_say_where),
        cmocka_unit_test(logs_move_the_factors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
