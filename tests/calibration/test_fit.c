/* A fit gets back what made the points: efficiencies and laws; says what is missing. */
#include "tests/calibration/fit_fixture.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(efficiencies_are_recovered),   cmocka_unit_test(covariance_is_one),
        cmocka_unit_test(three_batches_scale_the_walk), cmocka_unit_test(a_loader_that_lags_is_fitted),
        cmocka_unit_test(too_few_points_say_how_many),  cmocka_unit_test(nothing_usable_says_what_to_measure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
