/* Training logs adjust a data sheet: another batch is predicted better, host and kernels are told apart, loaders and memory
 * follow, and what a log cannot say is left out with its reason. */
#include "tests/calibration/fit_fixture.h"

#include <unistd.h>

#include "tests/support/near.h"

static const char SHEET[] = "rtx-4090";

static sg_machine sheet(void) {
    sg_machine m;
    OK(sg_machine_load(SHEET, CONFIGS, &m, &status));
    return m;
}

/* A GPU whose products and convolutions are slower than the sheet says, and whose host is. */
static sg_machine truth(double kernels, double host) {
    sg_machine m = sheet();
    static const sg_machine_id ids[] = {SG_M_EFF_PRODUCT_TF32, SG_M_EFF_PRODUCT_BF16, SG_M_EFF_CONV,
                                        SG_M_EFF_CONV_BWD_DATA, SG_M_EFF_CONV_BWD_WEIGHTS};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) m.p[ids[i]].value *= kernels;
    m.p[SG_M_HOST_SPEED].value *= host;
    return m;
}

static sg_prediction predicted(const char *policy, int64_t batch, const sg_machine *machine) {
    const sg_setting settings[] = {
        {"cameras", "2", "test"}, {"image_height", "480", "test"}, {"image_width", "640", "test"}};
    bool images = strcmp(policy, "mlp") != 0;
    sg_policy_request request = {.policy = policy,
                                 .framework = SG_FRAMEWORK_PYTORCH_EAGER,
                                 .device_class = SG_DEVICE_CLASS_CUDA,
                                 .batch = batch,
                                 .settings = settings,
                                 .n_settings = images ? 3 : 0};
    sg_predict_options options = {
        .workers = 4, .cameras_known = true, .host_known = true, .language_known = true, .config_dir = CONFIGS};
    sg_prediction p;
    OK(sg_predict(&request, machine, &options, &p, &status));
    return p;
}

/* What a log of this machine would hold. */
static sg_point seen(const char *policy, int64_t batch, const sg_machine *machine, const char *origin) {
    const sg_setting settings[] = {
        {"cameras", "2", "test"}, {"image_height", "480", "test"}, {"image_width", "640", "test"}};
    bool images = strcmp(policy, "mlp") != 0;
    sg_policy_request request = {.policy = policy,
                                 .framework = SG_FRAMEWORK_PYTORCH_EAGER,
                                 .device_class = SG_DEVICE_CLASS_CUDA,
                                 .batch = batch,
                                 .settings = settings,
                                 .n_settings = images ? 3 : 0};
    sg_measure_options options = {.device = "cuda", .threads = 1, .workers = 4, .seed = 1, .ranks = 1};
    sg_training *training;
    sg_point p = {.iterations = 9, .warmup = 1, .fits_rates = true, .source = "observed", .frame_s = NAN};
    sg_prediction made = predicted(policy, batch, machine);
    OK(sg_policy_build(&request, &training, &status));
    OK(sg_measure_config(&request, training, &options, &p.config, &status));
    sg_training_free(training);
    p.key = sg_point_key(&p.config);
    set_q(&p, SG_Q_UPDATE, made.update_s.value);
    set_q(&p, SG_Q_PREPROCESSING, made.preprocessing_s.value);
    set_q(&p, SG_Q_DATALOADING, made.dataloading_s.value);
    set_q(&p, SG_Q_STEP, made.step_s.value);
    p.peak_allocated_bytes = (uint64_t)made.peak_allocated_bytes.value;
    for (int c = 0; c < SG_CLASS_COUNT; c++) p.class_s[c] = NAN;
    (void)snprintf(p.gpu.name, sizeof p.gpu.name, "%.95s", machine->title);
    (void)snprintf(p.origin, sizeof p.origin, "%s", origin);
    return p;
}

/* From logs alone. */
static sg_fit fit_to(const char *name, sg_point *points, size_t n) {
    sg_machine prior;
    OK(sg_machine_load(name, CONFIGS, &prior, &status));
    for (size_t i = 0; i < n && strcmp(name, SHEET) != 0; i++)
        (void)snprintf(points[i].gpu.name, sizeof points[i].gpu.name, "%.95s", prior.title);
    sg_run run = {.points = points, .n_points = n};
    (void)snprintf(run.machine.gpu, sizeof run.machine.gpu, "%.95s", prior.title);
    sg_fit fit;
    sg_fit_options options = {0};
    OK(sg_fit_run(&run, &prior, &options, &fit, &status));
    sg_machine_clear(&prior);
    return fit;
}

static sg_fit fit_of(sg_point *points, size_t n) {
    return fit_to(SHEET, points, n);
}

static bool noted(const sg_fit *fit, const char *part) {
    for (size_t i = 0; i < fit->n_notes; i++)
        if (strstr(fit->notes[i], part)) return true;
    return false;
}

static double off(const sg_machine *machine, const char *policy, int64_t batch, const sg_machine *real) {
    return fabs(log(predicted(policy, batch, machine).update_s.value / predicted(policy, batch, real).update_s.value));
}

/* A device-bound batch tells of kernels: larger ones, and another policy, come nearer to the truth. */
static void another_batch(void **state) {
    (void)state;
    sg_machine real = truth(0.7, 1), prior = sheet();
    sg_point p = seen("act", 16, &real, "act.log");
    sg_fit fit = fit_of(&p, 1);
    assert_true(off(&prior, "act", 64, &real) > 0.10);
    assert_true(off(&fit.machine, "act", 16, &real) < 0.03);
    assert_true(off(&fit.machine, "act", 64, &real) < 0.06);
    assert_true(off(&fit.machine, "act", 8, &real) < 0.06);
    assert_true(noted(&fit, "logs: a step took 1."));
    /* the doubt of what was seen is less than it was */
    sg_figure before = predicted("act", 64, &prior).update_s, after = predicted("act", 64, &fit.machine).update_s;
    assert_true(after.parts.parameters < 0.7 * before.parts.parameters);
    assert_int_equal(fit.machine.p[SG_M_FACTOR_GEMM].evidence, SG_EVIDENCE_OBSERVED);
    sg_fit_clear(&fit);
    sg_machine_clear(&prior);
    sg_machine_clear(&real);
}

/* A GPU that nobody named: alone its sheet says next to nothing, one log leaves ratios. */
static void unknown_gpu(void **state) {
    (void)state;
    sg_machine real = truth(0.6, 1), prior;
    OK(sg_machine_load("unknown-gpu", CONFIGS, &prior, &status));
    sg_figure alone = predicted("act", 16, &prior).update_s;
    assert_true(alone.high > 10 * alone.low);
    sg_point p = seen("act", 16, &real, "act.log");
    sg_fit fit = fit_to("unknown-gpu", &p, 1);
    for (int64_t batch = 8; batch <= 64; batch *= 2) {
        sg_figure after = predicted("act", batch, &fit.machine).update_s;
        assert_true(off(&fit.machine, "act", batch, &real) < 0.08);
        assert_true(after.high < 2 * after.low);
    }
    sg_fit_clear(&fit);
    sg_machine_clear(&prior);
    sg_machine_clear(&real);
}

/* A launch-bound training tells of the host, not of the kernels. */
static void slow_host(void **state) {
    (void)state;
    sg_machine real = truth(1, 0.6), prior = sheet();
    sg_point p = seen("smolvla", 1, &real, "small.log");
    sg_fit fit = fit_of(&p, 1);
    double host = fit.machine.p[SG_M_HOST_OP_S].value / 2.16e-5;
    assert_true(host > 1.3 && host < 1.9);
    double kernels = fit.machine.p[SG_M_EFF_PRODUCT_BF16].value / prior.p[SG_M_EFF_PRODUCT_BF16].value;
    assert_true(kernels > 0.93 && kernels < 1.07);
    assert_close(fit.machine.p[SG_M_HOST_SPEED].value, 1);
    assert_true(off(&fit.machine, "smolvla", 2, &real) < 0.06);
    sg_fit_clear(&fit);
    sg_machine_clear(&prior);
    sg_machine_clear(&real);
}

/* Where batches are waited for, the wait tells what a frame takes; where they are not, it bounds it. */
static void loaders(void **state) {
    (void)state;
    sg_machine real = truth(1, 1);
    real.p[SG_M_FRAME_S].value = 0.08;
    sg_point p = seen("act", 16, &real, "waiting.log");
    assert_true(p.q[SG_Q_DATALOADING].median > 0.2 * p.q[SG_Q_STEP].median);
    sg_fit fit = fit_of(&p, 1);
    assert_near(log(fit.machine.p[SG_M_FRAME_S].value / 0.08), 0, 0.1);
    assert_true(noted(&fit, "loader limits 1"));
    sg_fit_clear(&fit);
    p = seen("act", 16, &real, "keeps-up.log");
    set_q(&p, SG_Q_DATALOADING, 0.015 * p.q[SG_Q_UPDATE].median);
    set_q(&p, SG_Q_STEP, 1.02 * p.q[SG_Q_UPDATE].median);
    double known = sheet().p[SG_M_FRAME_S].value;
    fit = fit_of(&p, 1);
    assert_true(fit.machine.p[SG_M_FRAME_S].value <= known);
    assert_false(noted(&fit, "loader limits"));
    sg_fit_clear(&fit);
    sg_machine_clear(&real);
}

/* Of three logs one is of a busy machine: it stands apart and hardly counts; of one log alone a surprise is said. */
static void bad_logs_count_less(void **state) {
    (void)state;
    sg_machine real = truth(0.9, 1);
    sg_point p[3];
    static const int64_t batches[] = {16, 32, 64};
    for (size_t i = 0; i < 3; i++) p[i] = seen("act", batches[i], &real, i == 1 ? "busy.log" : "fine.log");
    set_q(&p[1], SG_Q_UPDATE, 1.6 * p[1].q[SG_Q_UPDATE].median);
    sg_fit fit = fit_of(p, 3);
    assert_true(noted(&fit, "busy.log stands apart"));
    assert_true(off(&fit.machine, "act", 16, &real) < 0.10);
    assert_true(off(&fit.machine, "act", 64, &real) < 0.10);
    sg_fit_clear(&fit);
    set_q(&p[0], SG_Q_UPDATE, 6 * p[0].q[SG_Q_UPDATE].median);
    fit = fit_of(p, 1);
    assert_true(noted(&fit, "other than said"));
    sg_fit_clear(&fit);
    sg_machine_clear(&real);
}

static void left_out(void **state) {
    (void)state;
    sg_machine real = truth(0.8, 1), prior = sheet();
    sg_point p[4];
    for (size_t i = 0; i < 4; i++) p[i] = seen("act", 16, &real, "x.log");
    (void)snprintf(p[0].gpu.name, sizeof p[0].gpu.name, "%.95s", prior.title);
    (void)snprintf(p[1].gpu.name, sizeof p[1].gpu.name, "Some other GPU");
    p[2].q[SG_Q_UPDATE] = (sg_statistic){0};
    (void)snprintf(p[3].config.policy, sizeof p[3].config.policy, "nobody's");
    sg_fit fit = fit_of(p, 4);
    assert_true(noted(&fit, "another GPU (Some other GPU)"));
    assert_true(noted(&fit, "tells no update_s"));
    assert_true(noted(&fit, "nobody's"));
    assert_true(off(&fit.machine, "act", 16, &real) < 0.03);
    sg_fit_clear(&fit);
    /* all of them: the sheet stays as it was */
    fit = fit_of(&p[2], 1);
    assert_close(fit.machine.p[SG_M_EFF_PRODUCT_TF32].value, prior.p[SG_M_EFF_PRODUCT_TF32].value);
    sg_fit_clear(&fit);
    sg_machine_clear(&prior);
    sg_machine_clear(&real);
}

/* A disturbed log moves less and leaves more doubt. */
static void disturbed(void **state) {
    (void)state;
    sg_machine real = truth(0.8, 1);
    sg_point p = seen("act", 16, &real, "x.log");
    sg_fit plain = fit_of(&p, 1);
    p.disturbed = true;
    (void)snprintf(p.disturbed_why, sizeof p.disturbed_why, "3 of its windows stalled");
    sg_fit doubtful = fit_of(&p, 1);
    assert_true(noted(&doubtful, "3 of its windows stalled"));
    assert_true(off(&doubtful.machine, "act", 16, &real) > off(&plain.machine, "act", 16, &real));
    assert_true(predicted("act", 16, &doubtful.machine).update_s.parts.parameters >
                predicted("act", 16, &plain.machine).update_s.parts.parameters);
    sg_fit_clear(&plain);
    sg_fit_clear(&doubtful);
    sg_machine_clear(&real);
}

/* A point records what was run: built again from it the program is the same, an fp32 that was asked for too. */
static void precision_as_run(void **state) {
    (void)state;
    const struct {
        const char *policy, *asked, *recorded;
        bool cuda;
    } cases[] = {{"act", NULL, "tf32", true},    {"act", "fp32", "fp32", true}, {"act", "bf16", "bf16", true},
                 {"act", NULL, "fp32", false},   {"mlp", NULL, "fp32", true}, /* no trainer that allows TF32 */
                 {"smolvla", NULL, "bf16", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sg_policy_request r = {.policy = cases[i].policy,
                               .framework = SG_FRAMEWORK_PYTORCH_EAGER,
                               .device_class = cases[i].cuda ? SG_DEVICE_CLASS_CUDA : SG_DEVICE_CLASS_CPU,
                               .batch = 2,
                               .precision = cases[i].asked};
        sg_measure_options options = {.device = cases[i].cuda ? "cuda" : "cpu", .threads = 1, .ranks = 1};
        sg_training *asked, *again;
        sg_point_config config;
        sg_work_request work;
        OK(sg_policy_build(&r, &asked, &status));
        OK(sg_measure_config(&r, asked, &options, &config, &status));
        assert_string_equal(config.precision, cases[i].recorded);
        sg_work_request_of(&config, &work);
        work.policy.device_class = r.device_class;
        OK(sg_policy_build(&work.policy, &again, &status));
        assert_int_equal(again->n_ops, asked->n_ops);
        for (size_t k = 0; k < asked->n_ops; k++)
            assert_memory_equal(&again->ops[k].attrs, &asked->ops[k].attrs, sizeof asked->ops[k].attrs);
        sg_training_free(asked);
        sg_training_free(again);
    }
}

/* The file of the fitted machine says the same. */
static void saved(void **state) {
    (void)state;
    sg_machine real = truth(0.8, 1), back;
    sg_point p = seen("act", 16, &real, "x.log");
    sg_fit fit = fit_of(&p, 1);
    char path[64];
    (void)snprintf(path, sizeof path, "/tmp/sg_observed_%ld.h5", (long)getpid());
    OK(sg_fit_save(path, &fit, &status));
    OK(sg_machine_load(path, CONFIGS, &back, &status));
    (void)remove(path);
    assert_near(off(&back, "act", 32, &fit.machine), 0, 1e-9);
    sg_machine_clear(&back);
    sg_fit_clear(&fit);
    sg_machine_clear(&real);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_batch), cmocka_unit_test(slow_host),
        cmocka_unit_test(loaders),       cmocka_unit_test(bad_logs_count_less),
        cmocka_unit_test(left_out),      cmocka_unit_test(disturbed),
        cmocka_unit_test(saved),         cmocka_unit_test(precision_as_run),
        cmocka_unit_test(unknown_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
