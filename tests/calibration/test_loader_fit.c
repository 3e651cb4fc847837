/* Loader laws: made-up loaders are found again from synthetic points, and predict worker counts and batches left out. */
#include "tests/calibration/fit_fixture.h"
#include "tests/calibration/fit_path_fixture.h"

#include "calibration/loader/fit_loaders.h"
#include "calibration/loader/loader_fit.h"
#include "calibration/machine/framework_file.h"
#include "tests/support/near.h"
#include "tests/support/noise.h"

static const sg_loader_law truth = {.frame_s = 9e-3,
                                    .sample_s = 2e-3,
                                    .batch_log_sd = 0.12,
                                    .sigma = 0.08,
                                    .kappa = 2e-3,
                                    .handover_s = 1e-3,
                                    .handover_bandwidth = 4e9,
                                    .step_weight = 1.2};

typedef struct scene {
    double processors, step_per_sample_s, step_threads;
    bool step_on_processors;
    double noise;  /* log */
    double wait_s; /* per sample */
    uint64_t seed;
} scene;

/* A point as it would be measured with the true law. */
static sg_loader_row measured(const scene *s, int workers, int64_t batch, int group, uint64_t *seed) {
    sg_loader_row row = {.group = group,
                         .load = {.batch = batch,
                                  .cameras = 2,
                                  .frames_per_camera = 1,
                                  .batch_bytes = 2 * 921600.0 * (double)batch,
                                  .workers = workers,
                                  .processors = s->processors,
                                  .step_s = s->step_per_sample_s * (double)batch,
                                  .step_threads = s->step_threads,
                                  .step_on_processors = s->step_on_processors}};
    sg_loader_law waiting = truth;
    waiting.wait_s = s->wait_s;
    sg_loader_course course = sg_loader_course_of(&waiting, &row.load);
    sg_loader_waits w;
    sg_status status;
    course.steps = 400;
    assert_int_equal(sg_loader_clock(&course, &w, &status), SG_OK);
    double alone_s = course.batch_cpu_s, noise = s->noise;
    row.period_s = w.period_s * exp(noise * sg_noise_normal(seed));
    row.step_s = w.step_s * exp(noise * sg_noise_normal(seed));
    row.batch_s = w.batch_s * exp(noise * sg_noise_normal(seed));
    row.batch_cpu_s = w.batch_cpu_s * exp(noise * sg_noise_normal(seed));
    row.frame_cpu_s = truth.frame_s * w.batch_cpu_s / alone_s * exp(noise * sg_noise_normal(seed));
    row.sample_cpu_s = truth.sample_s * w.batch_cpu_s / alone_s;
    row.batch_log_sd = truth.batch_log_sd;
    row.wait_p50_s = w.p50_s;
    row.stalled_share = w.stalled_share;
    row.load.step_s = 0;
    return row;
}

/* Log error of the period of a point that the fit had not seen, the group's step taken from the fit. */
static double error_at(const scene *s, const sg_loader_law *law, double step_s, int workers, int64_t batch) {
    uint64_t seed = 1;
    scene quiet = *s;
    quiet.noise = 0;
    sg_loader_row row = measured(&quiet, workers, batch, 0, &seed);
    sg_loader_load load = row.load;
    load.step_s = step_s;
    sg_loader_course course = sg_loader_course_of(law, &load);
    sg_loader_waits w;
    sg_status status;
    assert_int_equal(sg_loader_clock(&course, &w, &status), SG_OK);
    return log(w.period_s / row.period_s);
}

static void fit_scene(const scene *s, sg_loader_law *law, double *step_s) {
    static const int workers[] = {0, 1, 2, 4};
    static const int64_t batches[] = {2, 8};
    sg_loader_row rows[8];
    size_t n = 0;
    uint64_t seed = s->seed;
    for (int b = 0; b < 2; b++)
        for (int w = 0; w < 4; w++) rows[n++] = measured(s, workers[w], batches[b], b, &seed);
    sg_status status = {0};
    sg_code code = sg_loader_fit(rows, n, law, step_s, &status);
    if (code) fail_msg("%s", status.text);
}

static void check_left_out(const scene *s) {
    sg_loader_law law = {.dataset = "lerobot-v3.0;av1;480x640;gop=2;cameras=2;name=made-up", .layer = "cached"};
    double step_s[SG_LOADER_GROUPS_MAX];
    fit_scene(s, &law, step_s);
    static const int workers[] = {3, 6, 8};
    for (int w = 0; w < 3; w++)
        for (int b = 0; b < 2; b++) assert_near(error_at(s, &law, step_s[b], workers[w], b ? 8 : 2), 0, 0.05);
    /* a batch between: its step goes with the samples here */
    assert_near(error_at(s, &law, step_s[1] / 2, 3, 4), 0, 0.05);
    assert_near(log(law.frame_s / truth.frame_s), 0, 0.1);
    assert_int_equal(law.evidence, SG_EVIDENCE_MEASURED);
    assert_true(law.work_log_sd > 0 && law.work_log_sd < 0.2);
    assert_true(law.left_out_log_sd > 0 && law.left_out_log_sd < 0.2);
    assert_true(law.low_workers == 0 && law.high_workers == 4 && law.low_batch == 2 && law.high_batch == 8);
}

static void test_gpu_host(void **state) {
    (void)state;
    check_left_out(&(scene){.processors = 8, .step_per_sample_s = 4e-3, .step_threads = 0.7, .noise = 0.01, .seed = 7});
}

static void test_cpu_training(void **state) {
    (void)state;
    check_left_out(&(scene){.processors = 2,
                            .step_per_sample_s = 20e-3,
                            .step_threads = 2,
                            .step_on_processors = true,
                            .noise = 0.01,
                            .seed = 8});
}

static void test_one_core(void **state) {
    (void)state;
    check_left_out(&(scene){.processors = 1,
                            .step_per_sample_s = 20e-3,
                            .step_threads = 1,
                            .step_on_processors = true,
                            .noise = 0.01,
                            .seed = 9});
}

/* ---- from a run's points to a machine file ------------------------------------------------------------------------- */

static const char *const DATA = "lerobot-v3.0;av1;480x640;gop=2;cameras=2;name=made-up";

/* The loader alone beside pauses, as measure --update-s 0.03 records it. */
static sg_point paused_point(int workers, int64_t batch) {
    const sg_loader_load load = {.batch = batch,
                                 .cameras = 2,
                                 .frames_per_camera = 1,
                                 .batch_bytes = 2 * 921600.0 * (double)batch,
                                 .workers = workers,
                                 .processors = 4,
                                 .step_s = 0.03};
    sg_loader_course course = sg_loader_course_of(&truth, &load);
    sg_loader_waits w;
    course.steps = 400;
    OK(sg_loader_clock(&course, &w, &status));
    sg_point p = {.iterations = 100, .warmup = 1, .source = "measured", .frame_s = NAN};
    p.config = (sg_point_config){.policy = "act",
                                 .framework = "pytorch-eager",
                                 .device = "cpu",
                                 .precision = "fp32",
                                 .host = "native",
                                 .execution = "pause=0.03",
                                 .layer = "cached",
                                 .batch = batch,
                                 .ranks = 1,
                                 .threads = 4,
                                 .workers = workers,
                                 .cameras = 2,
                                 .image_height = 480,
                                 .image_width = 640};
    (void)snprintf(p.config.dataset, sizeof p.config.dataset, "%s", DATA);
    p.loader = (sg_loader_record){.batches = 100,
                                  .frames = 200 * batch,
                                  .batch_s = w.batch_s,
                                  .batch_cpu_s = w.batch_cpu_s,
                                  .frame_cpu_s = truth.frame_s * w.batch_cpu_s / course.batch_cpu_s,
                                  .sample_cpu_s = truth.sample_s * w.batch_cpu_s / course.batch_cpu_s,
                                  .batch_log_sd = truth.batch_log_sd,
                                  .wait_p50_s = w.p50_s,
                                  .stalled_share = w.stalled_share,
                                  .update_s = 0.03,
                                  .processors = 4,
                                  .prefetch = 4};
    set_q(&p, SG_Q_UPDATE, 0.03);
    set_q(&p, SG_Q_DATALOADING, w.mean_s);
    set_q(&p, SG_Q_STEP, w.period_s);
    p.key = sg_point_key(&p.config);
    return p;
}

static sg_code try_fit(const char *probe, size_t n_points, sg_fit *fit, sg_status *why) {
    static const int workers[] = {0, 1, 2, 4};
    sg_point points[8];
    sg_run run = {.points = points, .n_points = n_points, .machine = {.hostname = "made-up", .cores = 4, .threads = 4}};
    for (size_t i = 0; i < n_points; i++) points[i] = paused_point(workers[i / 2], i % 2 ? 8 : 2);
    sg_machine prior = prior_machine();
    const sg_fit_options options = {.probe_file = probe};
    sg_code code = sg_fit_run(&run, &prior, &options, fit, why);
    sg_machine_clear(&prior);
    return code;
}

/* As many batches ahead as usual are no part of the key: files of older versions keep theirs. */
static void prefetch_is_part_of_the_key(void **state) {
    (void)state;
    sg_point_config config = paused_point(2, 4).config;
    uint64_t usual = sg_point_key(&config);
    config.prefetch = 2;
    uint64_t two = sg_point_key(&config);
    config.prefetch = 8;
    assert_true(usual != two && sg_point_key(&config) != two && sg_point_key(&config) != usual);
}

static void fit_pauses(sg_fit *fit) {
    OK(try_fit(NULL, 8, fit, &status));
}

/* Points with a pause tell of the loader alone, and of the machine's frames. */
static void points_become_a_law(void **state) {
    (void)state;
    sg_fit fit, back;
    fit_pauses(&fit);
    assert_int_equal(fit.n_loaders, 1);
    assert_int_equal(fit.n_laws, 0);
    const sg_loader_law *law = &fit.loaders[0];
    assert_string_equal(law->dataset, DATA);
    assert_string_equal(law->layer, "cached");
    assert_near(log(law->frame_s / truth.frame_s), 0, 0.05);
    /* only the small batches were ever ready: of one size there is one number */
    double bytes = 4 * 921600.0;
    double taken = law->handover_s + bytes / law->handover_bandwidth;
    assert_near(log(taken / (truth.handover_s + bytes / truth.handover_bandwidth)), 0, 0.1);
    assert_near(law->sigma, truth.sigma, 0.05);
    assert_near(fit.machine.p[SG_M_FRAME_S].value, law->frame_s, 1e-12); /* the reference codec and size */
    assert_int_equal(fit.machine.p[SG_M_FRAME_S].evidence, SG_EVIDENCE_CALIBRATED);
    assert_true(isfinite(fit.machine.p[SG_M_LOADER_SIGMA].value));
    OK(sg_fit_save(file_path, &fit, &status));
    OK(sg_fit_load(file_path, &back, &status));
    assert_int_equal(back.n_loaders, 1);
    assert_string_equal(back.loaders[0].dataset, DATA);
#define X(name) assert_true(back.loaders[0].name == law->name);
    SG_LOADER_NUMBERS(X)
#undef X
    assert_int_equal(back.loaders[0].evidence, SG_EVIDENCE_MEASURED);
    sg_fit_clear(&back);
    sg_fit_clear(&fit);
}

/* Frames that wait for a disk: what they wait is told apart from what they cost. */
static void test_cold_files(void **state) {
    (void)state;
    scene s = {
        .processors = 8, .step_per_sample_s = 4e-3, .step_threads = 0.7, .noise = 0.01, .seed = 11, .wait_s = 0.03};
    sg_loader_law law = {.dataset = "lerobot-v3.0;av1;480x640;gop=2;cameras=2;name=made-up", .layer = "cold"};
    double step_s[SG_LOADER_GROUPS_MAX];
    fit_scene(&s, &law, step_s);
    assert_near(log(law.wait_s / s.wait_s), 0, 0.1);
    assert_near(log(law.frame_s / truth.frame_s), 0, 0.1);
    for (int b = 0; b < 2; b++) {
        assert_near(error_at(&s, &law, step_s[b], 3, b ? 8 : 2), 0, 0.05);
        assert_near(error_at(&s, &law, step_s[b], 8, b ? 8 : 2), 0, 0.05);
    }
}

/* As beside processes that take nine tenths of both processors: wall-clock is theirs. */
static void crowd(sg_loader_row *row) {
    row->disturbed = row->crowded = true;
    row->others = 1.8;
    row->batch_s *= 5;
    row->period_s *= 4;
    row->step_s *= 3;
}

/* Crowded rows of cold files leave the wait to the others; alone they tell it with a wide doubt. */
static void crowded_rows_tell_no_wait(void **state) {
    (void)state;
    const scene s = {.processors = 8, .step_per_sample_s = 4e-3, .step_threads = 0.7, .seed = 12, .wait_s = 0.03};
    static const int workers[] = {0, 2}; /* two counts: nothing is left out in turn */
    sg_loader_row rows[4];
    uint64_t seed = s.seed;
    sg_status status = {0};
    for (int i = 0; i < 4; i++) rows[i] = measured(&s, workers[i % 2], i < 2 ? 2 : 8, i / 2, &seed);
    for (int i = 2; i < 4; i++) crowd(&rows[i]);
    sg_loader_law law = {.dataset = "lerobot-v3.0;av1;480x640;gop=2;cameras=2;name=made-up", .layer = "cold"};
    assert_int_equal(sg_loader_fit(rows, 4, &law, NULL, &status), SG_OK);
    assert_near(log(law.wait_s / s.wait_s), 0, 0.1);
    assert_near(log(law.frame_s / truth.frame_s), 0, 0.1);
    assert_int_equal(law.evidence, SG_EVIDENCE_MEASURED);
    double half = law.work_log_sd;
    for (int i = 0; i < 2; i++) crowd(&rows[i]);
    assert_int_equal(sg_loader_fit(rows, 4, &law, NULL, &status), SG_OK);
    assert_true(law.wait_s > s.wait_s);
    assert_near(log(law.frame_s / truth.frame_s), 0, 0.1);
    assert_true(law.work_log_sd > 0.5 && law.work_log_sd > half);
    assert_int_equal(law.evidence, SG_EVIDENCE_CALIBRATED);
}

/* Cached files never wait, and what crowded points leave to its prior becomes no parameter of the machine. */
static void crowded_points_tell_processor_seconds(void **state) {
    (void)state;
    sg_point points[4];
    static const int workers[] = {0, 2};
    sg_run run = {.points = points, .n_points = 4, .machine = {.hostname = "made-up", .cores = 2, .threads = 2}};
    for (int i = 0; i < 4; i++) {
        points[i] = paused_point(workers[i / 2], i % 2 ? 8 : 2);
        points[i].disturbed = true;
        points[i].other_processors = 3.6;
        points[i].loader.batch_s *= 5;
        set_q(&points[i], SG_Q_STEP, 5 * points[i].q[SG_Q_STEP].mean);
    }
    sg_machine prior = prior_machine();
    sg_fit fit;
    OK(sg_fit_run(&run, &prior, &(sg_fit_options){0}, &fit, &status));
    assert_int_equal(fit.n_loaders, 1);
    const sg_loader_law *law = &fit.loaders[0];
    assert_true(law->wait_s == 0);
    assert_near(log(law->frame_s / truth.frame_s), 0, 0.15);
    assert_true(law->work_log_sd >= 0.25);
    assert_int_equal(law->evidence, SG_EVIDENCE_CALIBRATED);
    assert_true(has_note(&fit, "beside other processes (up to 3.6 of 4 processors)"));
    assert_true(has_note(&fit, "the step is still the data sheet's"));
    assert_int_equal(fit.machine.p[SG_M_FRAME_S].evidence, SG_EVIDENCE_CALIBRATED);
    for (int id = 0; id < SG_M_COUNT; id++)
        if (id == SG_M_HANDOVER_S || id == SG_M_HANDOVER_BANDWIDTH)
            assert_memory_equal(&fit.machine.p[id], &prior.p[id], sizeof prior.p[id]);
    sg_fit_clear(&fit);
    /* a tenth of the processors only makes them fewer */
    for (int i = 0; i < 2; i++) {
        points[i] = paused_point(workers[i / 2], i % 2 ? 8 : 2);
        points[i].disturbed = i == 0;
        points[i].other_processors = i == 0 ? 0.5 : 0;
    }
    run.n_points = 2;
    OK(sg_fit_run(&run, &prior, &(sg_fit_options){0}, &fit, &status));
    assert_int_equal(fit.loaders[0].evidence, SG_EVIDENCE_MEASURED);
    assert_false(has_note(&fit, "beside other processes"));
    sg_fit_clear(&fit);
    sg_machine_clear(&prior);
}

/* Where no loader kept up, a step in line bounds what taking a batch costs. */
static void test_handover_in_line(void **state) {
    (void)state;
    sg_loader_row rows[2];
    for (int i = 0; i < 2; i++) {
        double batch_s = i ? 0.08 : 0.02;
        rows[i] = (sg_loader_row){.load = {.batch = i ? 8 : 2,
                                           .cameras = 2,
                                           .frames_per_camera = 1,
                                           .batch_bytes = 1843200.0 * (i ? 8 : 2),
                                           .processors = 2},
                                  .group = i,
                                  .step_s = 0.01,
                                  .batch_s = batch_s,
                                  .batch_cpu_s = batch_s,
                                  .period_s = 0.01 + batch_s + 2e-5};
    }
    sg_loader_law law = {.dataset = "lerobot-v3.0;av1;480x640;gop=2;cameras=2;name=made-up", .layer = "cached"};
    double step_s[SG_LOADER_GROUPS_MAX];
    sg_status status = {0};
    assert_int_equal(sg_loader_fit(rows, 2, &law, step_s, &status), SG_OK);
    assert_true(law.handover_s + rows[0].load.batch_bytes / law.handover_bandwidth < 0.021 * rows[0].period_s);
}

/* A codec's decoding timed alone is a law of its own, from which data sets of that codec are predicted. */
static void decodes_become_laws(void **state) {
    (void)state;
    sg_micro rows[3] = {
        {.s = {.median = 4e-3}, .iterations = 9}, {.s = {.median = 12e-3}, .iterations = 9}, {.s = {.median = 6e-3}}};
    for (int i = 0; i < 3; i++) {
        rows[i].config =
            (sg_micro_config){.bench = "decode", .access = "shuffled", .m = 480, .n = 640, .ranks = i == 2 ? 4 : 1};
        (void)snprintf(rows[i].config.what, sizeof rows[i].config.what, i == 1 ? "png" : "av1");
        rows[i].config.k = i == 1 ? 0 : 2;
    }
    rows[2].alone_s = 4e-3;
    sg_run run = {.micros = rows, .n_micros = 3};
    sg_fit fit = {.machine = prior_machine()}, both;
    OK(sg_fit_decodes(&run, "here", &fit, &status));
    assert_int_equal(fit.n_loaders, 2);
    assert_string_equal(fit.loaders[0].dataset, "decode;av1;480x640;gop=2");
    assert_near(fit.machine.p[SG_M_FRAME_S].value, 4e-3, 1e-12);
    assert_near(fit.machine.p[SG_M_LOADER_SIGMA].value, 0.5 / 3, 1e-12);
    assert_ptr_equal(sg_loader_law_of_codec(fit.loaders, 2, "png", 240, 320, 0), &fit.loaders[1]);
    assert_null(sg_loader_law_of_codec(fit.loaders, 2, "jpeg", 240, 320, 0));
    bool other;
    assert_null(sg_loader_law_find(fit.loaders, 2, DATA, NULL, &other));
    /* beside a measured data set they change no parameter */
    fit_pauses(&both);
    double frame_s = both.machine.p[SG_M_FRAME_S].value;
    OK(sg_fit_decodes(&run, "here", &both, &status));
    assert_int_equal(both.n_loaders, 3);
    assert_true(both.machine.p[SG_M_FRAME_S].value == frame_s);
    sg_fit_clear(&both);
    sg_fit_clear(&fit);
}

/* Numbers that no fit gives, behind a valid checksum. */
static void hostile_loaders_are_refused(void **state) {
    (void)state;
    sg_fit fit, back;
    fit_pauses(&fit);
    const sg_loader_law sound = fit.loaders[0];
    sg_loader_law bad[10];
    for (int i = 0; i < 10; i++) bad[i] = sound;
    bad[0].frame_s = -1;
    bad[1].handover_bandwidth = 0;
    bad[2].batch_log_sd = 1e6;
    bad[3].sigma = NAN;
    bad[4].kappa = INFINITY;
    bad[5].evidence = SG_EVIDENCE_COUNT;
    bad[6].frame_s = 1e15;
    bad[7].wait_s = 1.1e6;
    bad[8].handover_bandwidth = 1e-300;
    bad[9].work_log_sd = 1e9;
    for (int i = 0; i < 10; i++) {
        fit.loaders[0] = bad[i];
        sg_status status;
        if (sg_fit_save(file_path, &fit, &status) != SG_OK) continue;
        assert_int_equal(sg_fit_load(file_path, &back, &status), SG_BAD_INPUT);
        assert_non_null(strstr(status.text, "loader"));
        assert_null(back.loaders);
    }
    fit.loaders[0] = sound;
    sg_fit_clear(&fit);
}

#define STATISTIC(name, s) "\"" name "\": {\"median_s\": " s ", \"low\": " s ", \"high\": " s "}"

/* A probe's file whose loader read `dataset` by `backend`. */
static void write_loader_probe(const char *dataset, const char *backend, double frame_s, const char *row_s) {
    char text[4096];
    int n = snprintf(
        text, sizeof text,
        "{\"format\": \"stepgauge-torch-probe\", \"version\": 1, \"torch\": \"2.15.0\", \"date\": "
        "\"2026-11-30T10:00:00Z\", \"device\": \"cpu\", \"steps\": [],\n"
        "\"host\": {" STATISTIC("op_s", "5e-6") ", " STATISTIC("view_s", "2e-6") ", " STATISTIC(
            "backward_op_s",
            "1e-5") ", " STATISTIC("item_s",
                                   "1e-6") ", " STATISTIC("optimizer_fixed_s",
                                                          "3e-5") "},\n"
                                                                  "\"loader\": [{\"dataset\": \"%s\", \"backend\": "
                                                                  "\"%s\", \"frames_per_camera\": 1, "
                                                                  "\"sample_bytes\": 1843200,\n"
                                                                  "\"frame_s\": {\"median_s\": %.9g, \"low\": %.9g, "
                                                                  "\"high\": %.9g}, " STATISTIC(
                                                                      "python_s",
                                                                      "1e-3") ", " STATISTIC("collate_s",
                                                                                             "2e-3") ",\n\"row_s\": "
                                                                                                     "{\"median_s\": "
                                                                                                     "%s, \"low\": 0, "
                                                                                                     "\"high\": "
                                                                                                     "1}}]}\n",
        dataset, backend, frame_s, 0.9 * frame_s, 1.1 * frame_s, row_s);
    assert_true(n > 0 && (size_t)n < sizeof text);
    write_bytes(text, (size_t)n);
}

static void is_observed(const sg_fit *fit, sg_machine_id id, double value) {
    if (!(fabs(fit->machine.p[id].value / value - 1) < 1e-6))
        fail_msg("%s: %g instead of %g", sg_machine_key(id), fit->machine.p[id].value, value);
    assert_int_equal(fit->machine.p[id].evidence, SG_EVIDENCE_OBSERVED);
}

/* The trainer's own loader on this machine, beside the law of ours: both of its backend's numbers take the ratio. */
static void a_probe_tells_of_the_trainers_loader(void **state) {
    (void)state;
    sg_fit plain, fit;
    sg_framework_numbers f;
    fit_pauses(&plain);
    OK(sg_framework_load("pytorch-eager", "cpu", NULL, &f, &status));
    double stated_s =
        f.p[SG_M_LOADER_TORCHCODEC].value * plain.loaders[0].frame_s + f.p[SG_M_LOADER_TORCHCODEC_S].value;
    write_loader_probe("made-up", "torchcodec", 1.5 * stated_s, "4e-5");
    OK(try_fit(file_path, 8, &fit, &status));
    is_observed(&fit, SG_M_LOADER_TORCHCODEC, 1.5 * f.p[SG_M_LOADER_TORCHCODEC].value);
    is_observed(&fit, SG_M_LOADER_TORCHCODEC_S, 1.5 * f.p[SG_M_LOADER_TORCHCODEC_S].value);
    is_observed(&fit, SG_M_LOADER_PYTHON_S, 1e-3);
    is_observed(&fit, SG_M_LOADER_ROW_S, 4e-5);
    is_observed(&fit, SG_M_LOADER_COLLATION, 1843200 / 2e-3);
    assert_true(fit.machine.p[SG_M_LOADER_PYAV].evidence != SG_EVIDENCE_OBSERVED);
    sg_fit_clear(&fit);
    write_loader_probe("another", "torchcodec", 0.01, "4e-5");
    OK(try_fit(file_path, 2, &fit, &status));
    assert_true(fit.machine.p[SG_M_LOADER_TORCHCODEC].evidence != SG_EVIDENCE_OBSERVED);
    assert_true(has_note(&fit, "another"));
    sg_fit_clear(&fit);
    sg_fit_clear(&plain);
}

static void refuse(const char *why) {
    sg_fit fit;
    sg_status told;
    assert_int_equal(try_fit(file_path, 1, &fit, &told), SG_BAD_INPUT);
    if (!strstr(told.text, why)) fail_msg("'%s' does not tell of %s", told.text, why);
}

static void bad_probes_of_loaders_are_refused(void **state) {
    (void)state;
    write_loader_probe("made-up", "vhs", 0.01, "4e-5");
    refuse("torchcodec or pyav");
    write_loader_probe("made-up", "pyav", -0.01, "4e-5");
    refuse("median_s");
    write_loader_probe("made-up", "pyav", 0.01, "\"soon\"");
    refuse("median_s");
    write_loader_probe("made-up", "pyav", 0.01, "2"); /* its interval ends at 1 */
    refuse("high");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpu_host),
        cmocka_unit_test(test_cpu_training),
        cmocka_unit_test(test_one_core),
        cmocka_unit_test(test_cold_files),
        cmocka_unit_test(prefetch_is_part_of_the_key),
        cmocka_unit_test(test_handover_in_line),
        cmocka_unit_test(crowded_rows_tell_no_wait),
        cmocka_unit_test(crowded_points_tell_processor_seconds),
        cmocka_unit_test(decodes_become_laws),
        WITH_PATH(points_become_a_law),
        WITH_PATH(hostile_loaders_are_refused),
        WITH_PATH(a_probe_tells_of_the_trainers_loader),
        WITH_PATH(bad_probes_of_loaders_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
