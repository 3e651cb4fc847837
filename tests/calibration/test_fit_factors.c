/* The framework's own times, from a probe or a log, become factors and host costs of the fit. */
#include "tests/calibration/fit_fixture.h"
#include "tests/calibration/fit_path_fixture.h"

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
    sg_prediction after;
    known.fit = &fit;
    OK(sg_predict(&request.policy, &fit.machine, &known, &after, &status));
    double moved = after.update_s.value / before.update_s.value;
    assert_true(moved > 1.3 && moved < 1.52);
    assert_true(fit.machine.p[SG_M_FACTOR_GEMM].value > 1.05 * plain.machine.p[SG_M_FACTOR_GEMM].value);
    assert_int_equal(fit.machine.p[SG_M_FACTOR_GEMM].evidence, SG_EVIDENCE_OBSERVED);
    assert_true(has_note(&fit, "1.5 times as long as predicted"));
    sg_fit_clear(&fit);
    sg_fit_clear(&plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_PATH(a_probe_gives_factors_and_host_costs),
        WITH_PATH(bad_probes_say_where),
        cmocka_unit_test(logs_move_the_factors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
