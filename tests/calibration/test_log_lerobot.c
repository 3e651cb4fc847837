/* LeRobot's lines of every era: windows, banners, runs, events, rounded counters; what is no log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/log_checks.h"
#include "tests/support/near.h"

/* Single steps; the counter of samples includes the step under way; an evaluation and its result are one event. */
static void era_of_2024(void **state) {
    (void)state;
    sg_logs logs = sg_logs_of_text(
        "INFO 2024-07-02 10:00:00 on/logger.py:39 Output dir: outputs/train/x/10-00-00_pusht_diffusion_default\n"
        "INFO 2024-07-02 10:00:00 ts/train.py:325 cfg.training.offline_steps=20020 (20K)\n"
        "INFO 2024-07-02 10:00:00 ts/train.py:327 offline_dataset.num_samples=900 (900)\n"
        "INFO 2024-07-02 10:00:00 ts/train.py:328 offline_dataset.num_episodes=3\n"
        "INFO 2024-07-02 10:00:00 ts/train.py:329 num_learnable_params=262709026 (263M)\n"
        "INFO 2024-07-02 10:00:00 ts/train.py:330 num_total_params=262709107 (263M)\n"
        "INFO 2024-07-02 10:00:02 ts/train.py:179 step:0 smpl:16 ep:0 epch:0.02 loss:1.037 updt_s:2.500 data_s:0.900\n"
        "INFO 2024-07-02 10:01:32 ts/train.py:179 step:200 smpl:3K ep:10 epch:3.57 loss:0.675 updt_s:0.300 "
        "data_s:0.002\n"
        "INFO 2024-07-02 10:03:02 ts/train.py:179 step:20K smpl:317K ep:9 epch:353 loss:0.4 updt_s:0.320 data_s:0.004\n"
        "INFO 2024-07-02 10:03:02 ts/train.py:338 Eval policy at step 20000\n"
        "INFO 2024-07-02 10:05:02 ts/train.py:213 step:20K smpl:320K ep:9 \xe2\x88\x91rwrd:14.8 success:0.0% "
        "eval_s:119.5\n"
        "INFO 2024-07-02 10:05:02 ts/train.py:358 Checkpoint policy after step 20000\n"
        "INFO 2024-07-02 10:06:02 ts/train.py:179 step:20K smpl:320K ep:9 loss:0.4 updt_s:0.340 data_s:0.004\n"
        "INFO 2024-07-02 10:06:03 ts/train.py:427 End of training\n");
    assert_int_equal(logs.n, 1);
    const sg_log *log = &logs.logs[0];
    assert_string_equal(log->format, "lerobot-2024");
    assert_string_equal(log->config.policy, "diffusion");
    assert_int_equal(log->config.batch, 16);
    assert_int_equal(log->config.steps, 20020);
    assert_int_equal(log->config.frames, 900);
    assert_int_equal(log->config.episodes, 3);
    assert_int_equal(log->config.parameters_trainable, 262709026);
    assert_int_equal(log->config.parameters_total, 262709107);
    assert_int_equal(log->n_windows, 4);
    assert_close(log->windows[1].step, 200);
    assert_close(log->windows[2].step, 19800); /* of the multiples of 200, 317K samples leave this one */
    assert_close(log->windows[3].step, 20000);
    assert_close(log->steady[SG_LOG_UPDATE_S], 0.32);
    assert_close(log->steady[SG_LOG_STEP_S], 0.324);
    assert_int_equal(log->steady_windows, 3);
    assert_int_equal(log->n_events, 3);
    assert_int_equal(log->events[0].kind, SG_LOG_EVALUATION);
    assert_close(log->events[0].step, 20000);
    assert_close(log->events[0].seconds, 119.5);
    assert_int_equal(log->events[1].kind, SG_LOG_CHECKPOINT);
    assert_int_equal(log->events[2].kind, SG_LOG_END);
    assert_true(sg_log_warned(log, "single steps"));
    sg_logs_clear(&logs);
}

/* Means of windows; decimals behind rounded counters; a stall among the windows. */
static void era_of_2025(void **state) {
    (void)state;
    sg_logs logs = sg_logs_of_text(
        "INFO 2025-11-27 01:35:39 ot_train.py:262 cfg.steps=60000 (60K)\n"
        "INFO 2025-11-27 01:35:39 ot_train.py:267 Effective batch size: 168 x 1 = 168\n"
        "INFO 2025-11-27 01:49:30 ot_train.py:351 step:50.0 smpl:8K ep:19 updt_s:19.5 data_s:0.281\n"
        "INFO 2025-11-27 02:03:07 ot_train.py:351 step:100.0 smpl:17K ep:37 updt_s:16.2 data_s:0.075\n"
        "INFO 2025-11-27 06:17:11 ot_train.py:351 step:1.0K smpl:168K ep:374 updt_s:16.1 data_s:0.075\n"
        "INFO 2025-11-27 06:31:44 ot_train.py:351 step:1.1K smpl:176K ep:393 updt_s:16.3 data_s:40.0\n"
        "INFO 2025-11-27 06:45:24 ot_train.py:351 step:1.1K smpl:185K ep:412 updt_s:16.4 data_s:0.269\n");
    const sg_log *log = &logs.logs[0];
    assert_string_equal(log->format, "lerobot-2025");
    assert_int_equal(log->config.batch, 168);
    assert_int_equal(log->config.ranks, 1);
    static const double steps[] = {50, 100, 1000, 1050, 1100};
    for (size_t i = 0; i < 5; i++) assert_close(log->windows[i].step, steps[i]);
    assert_true(log->windows[3].stalled);
    assert_int_equal(log->stalled, 1);
    assert_int_equal(log->steady_windows, 3);
    assert_close(log->steady[SG_LOG_UPDATE_S], 16.2);
    assert_close(log->mean_step_s, (16.275 + 16.175 + 56.3 + 16.669) / 4);
    assert_true(isnan(log->steady[SG_LOG_PEAK_BYTES]) && isnan(sg_log_at(log, 0, SG_LOG_STEP_S)));
    sg_logs_clear(&logs);
}

/* Bars on the same line tell the step; the clock tells what a push took. */
static void era_of_june_2026(void **state) {
    (void)state;
    sg_logs logs = sg_logs_of_text(
        "INFO 2026-08-01 15:43:30 ot_train.py:446 Effective batch size: 32 x 1 = 32\n"
        "Training:   1% 200/20000 [07:01<10:34:05,  1.92s/step]INFO 2026-08-01 15:50:31 ot_train.py:641 step:200 "
        "smpl:6K updt_s:1.963 data_s:0.144 smp/s:15 mem_gb:13.09 l1_loss:0.499\n"
        "Training:   5% 1000/20000 [32:37<10:10:13,  1.93s/step]INFO 2026-08-01 16:16:07 ot_train.py:641 step:1K "
        "smpl:32K updt_s:1.912 data_s:0.007 smp/s:17 mem_gb:13.09\n"
        "INFO 2026-08-01 16:16:07 ot_train.py:687 Checkpoint policy after step 1000\n"
        "Found 11 files to upload\n"
        "  Uploading   \xe2\x96\x88\xe2\x96\x91  2 / 5 files  564kB\n"
        "  Uploading   \xe2\x96\x88\xe2\x96\x88  5 / 5 files  617MB\n"
        "Training:   6% 1200/20000 [39:28<10:02:35,  1.92s/step]INFO 2026-08-01 16:22:58 ot_train.py:641 step:1K "
        "smpl:38K updt_s:1.914 data_s:0.007 smp/s:17 mem_gb:13.07\n"
        "Training:   8% 1600/20000 [52:15<9:48:41,  1.92s/step]INFO 2026-08-01 16:35:46 ot_train.py:641 step:2K "
        "smpl:51K updt_s:1.912 data_s:0.007 smp/s:17 mem_gb:13.09\n");
    const sg_log *log = &logs.logs[0];
    assert_string_equal(log->format, "lerobot-2026-06");
    assert_int_equal(log->config.steps, 20000); /* of the bar */
    static const double steps[] = {200, 1000, 1200, 1600};
    for (size_t i = 0; i < 4; i++) assert_close(log->windows[i].step, steps[i]);
    assert_close(sg_log_at(log, 0, SG_LOG_PEAK_BYTES), 13.09 * 0x1p30);
    assert_close(log->steady[SG_LOG_SAMPLES_PER_S], 17);
    assert_int_equal(log->n_events, 2);
    assert_int_equal(log->events[1].kind, SG_LOG_HUB_PUSH);
    assert_close(log->events[1].seconds, 411 - 200 * 1.921);
    sg_logs_clear(&logs);
}

/* A record wrapped over two lines, CRLF, no dates; data, preparation, update and step apart. */
static void era_of_august_2026(void **state) {
    (void)state;
    sg_logs logs =
        sg_logs_of_text("step:50 smpl:100 ep:0 lr:3.1e-06\r\n  data_s:0.002 prep_s:0.001 updt_s:0.218 step_s:0.221\r\n"
                        "step:100 smpl:200 data_s:0.003 prep_s:0.001 updt_s:0.216 step_s:0.225\r\n");
    const sg_log *log = &logs.logs[0];
    assert_string_equal(log->format, "lerobot-2026-08");
    assert_int_equal(log->n_windows, 2);
    assert_int_equal(log->config.batch, 2);
    assert_close(sg_log_at(log, 0, SG_LOG_PREPROCESSING_S), 0.001);
    assert_close(sg_log_at(log, 0, SG_LOG_STEP_S), 0.221);
    assert_close(log->steady[SG_LOG_STEP_S], 0.225);
    sg_logs_clear(&logs);
}

static void banner_of_several_processes(void **state) {
    (void)state;
    sg_logs logs =
        sg_logs_of_text("INFO 2026-08-07 Effective batch size: 8 x 4 dp workers x 2 grad accum = 64 (topology: ddp)\n"
                        "step:200 smpl:25600 updt_s:0.2 data_s:0.1\nstep:400 smpl:51200 updt_s:0.2 data_s:0.1\n");
    const sg_log *log = &logs.logs[0];
    assert_int_equal(log->config.batch, 8);
    assert_int_equal(log->config.ranks, 4);
    assert_int_equal(log->config.accumulation, 2);
    assert_true(sg_log_warned(log, "counters") && sg_log_warned(log, "Counters of samples"));
    sg_logs_clear(&logs);
}

/* The interval between lines by the log's clock, samples per step by rate: no banner, every counter rounded. */
static void rounded_counters_alone(void **state) {
    (void)state;
    sg_logs logs = sg_logs_of_text(
        "INFO 2026-08-08 15:23:49 t.py:606 step:2K smpl:128K updt_s:0.413 data_s:0.043 smp/s:140 mem_gb:19.87\n"
        "INFO 2026-08-08 15:25:13 t.py:606 step:2K smpl:141K updt_s:0.405 data_s:0.011 smp/s:154 mem_gb:19.88\n"
        "INFO 2026-08-08 15:26:36 t.py:606 step:2K smpl:154K updt_s:0.402 data_s:0.011 smp/s:155 mem_gb:19.88\n"
        "INFO 2026-08-08 15:27:59 t.py:606 step:3K smpl:166K updt_s:0.402 data_s:0.011 smp/s:155 mem_gb:19.88\n");
    const sg_log *log = &logs.logs[0];
    assert_int_equal(log->config.samples_per_step, 64);
    static const double steps[] = {2000, 2200, 2400, 2600};
    for (size_t i = 0; i < 4; i++) assert_close(log->windows[i].step, steps[i]);
    sg_logs_clear(&logs);
    logs = sg_logs_of_text("step:7K smpl:29K updt_s:0.2 data_s:0.1\nstep:7K smpl:29K updt_s:0.2 data_s:0.1\n");
    assert_true(logs.logs[0].windows[0].step_low < logs.logs[0].windows[0].step_high);
    assert_true(sg_log_warned(&logs.logs[0], "estimates"));
    sg_logs_clear(&logs);
}

/* Banners, counters that go back, another batch and a death each begin a run. */
static void several_runs(void **state) {
    (void)state;
    sg_logs logs = sg_logs_of_text(
        "INFO 2026-02-16 16:51:47 t.py:393 Start offline training on a fixed dataset, with effective batch size: 32\n"
        "INFO 2026-02-16 17:00:13 t.py:423 step:200 smpl:6K updt_s:2.510 data_s:0.012\n"
        "INFO 2026-02-16 17:08:37 t.py:423 step:400 smpl:13K updt_s:2.500 data_s:0.007\n"
        "INFO 2026-02-16 10:55:02 t.py:393 Start offline training on a fixed dataset, with effective batch size: 32\n"
        "INFO 2026-02-16 11:01:52 t.py:423 step:200 smpl:6K updt_s:2.038 data_s:0.007\n"
        "step:30 smpl:480 loss:6.7 ... smp/s:45 mem_gb:6.85\n"
        "step:30 smpl:960 loss:6.2 ... smp/s:46 mem_gb:13.10\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 708.00 MiB.\n"
        "step:36K smpl:288K updt_s:0.182 data_s:0.001 smp/s:44 mem_gb:3.73\n");
    assert_int_equal(logs.n, 5);
    static const int batches[] = {32, 32, 16, 32, 8};
    static const size_t windows[] = {2, 1, 1, 1, 1};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(logs.logs[i].config.batch, batches[i]);
        assert_int_equal(logs.logs[i].n_windows, windows[i]);
    }
    assert_int_equal(logs.logs[3].events[0].kind, SG_LOG_OUT_OF_MEMORY);
    assert_true(sg_log_warned(&logs.logs[4], "warm-up"));
    sg_logs_clear(&logs);
}

static void lines_of_every_process(void **state) {
    (void)state;
    sg_logs logs = sg_logs_of_text("step:10 smpl:160 updt_s:0.5 data_s:0.1\nstep:10 smpl:160 updt_s:0.6 data_s:0.1\n"
                                   "step:20 smpl:320 updt_s:0.5 data_s:0.1\nstep:20 smpl:320 updt_s:0.6 data_s:0.1\n");
    assert_int_equal(logs.n, 1);
    assert_int_equal(logs.logs[0].n_windows, 2);
    assert_close(logs.logs[0].steady[SG_LOG_UPDATE_S], 0.5);
    assert_true(sg_log_warned(&logs.logs[0], "further processes"));
    sg_logs_clear(&logs);
}

/* A traceback, and the error that it ends with, are one event; settings as Python prints them. */
static void deaths_and_settings(void **state) {
    (void)state;
    sg_logs logs = sg_logs_of_text(
        "INFO {'batch_size': 24,\n 'log_freq': 100,\n 'num_workers': 6,\n 'optimizer': {'type': 'adamw'},\n"
        " 'policy': {'n_obs_steps': 1,\n  'type': 'smolvla',\n  'use_amp': False},\n 'save_freq': 5000}\n"
        "step:1K updt_s:0.5 data_s:0.1\nstep:1K updt_s:0.5 data_s:0.1\n"
        "Traceback (most recent call last):\n  File \"train.py\", line 1\n"
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n");
    const sg_log *log = &logs.logs[0];
    assert_int_equal(logs.n, 1);
    assert_string_equal(log->config.policy, "smolvla");
    assert_int_equal(log->config.batch, 24);
    assert_int_equal(log->config.workers, 6);
    assert_int_equal(log->config.log_every, 100);
    assert_int_equal(log->config.save_every, 5000);
    assert_int_equal(log->n_events, 1);
    assert_int_equal(log->events[0].kind, SG_LOG_OUT_OF_MEMORY);
    sg_logs_clear(&logs);
    logs = sg_logs_of_text(
        "step:1K updt_s:0.2 data_s:0.1\nError executing job with overrides: ['x=1', 'policy=act_koch_real']\n"
        "Traceback (most recent call last):\n");
    assert_string_equal(logs.logs[0].config.policy, "act");
    assert_int_equal(logs.logs[0].n_events, 1);
    assert_int_equal(logs.logs[0].events[0].kind, SG_LOG_CRASH);
    sg_logs_clear(&logs);
}

static void what_is_no_log_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      "hello world",
                                      "step: updt_s: data_s:",
                                      "step:1 loss:2\nstep:2 loss:1\n",
                                      "Traceback (most recent call last):\n",
                                      "step:1 updt_s:nan step:2 updt_s:-1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sg_logs logs;
        sg_status status;
        assert_int_equal(sg_logs_parse(bad[i], strlen(bad[i]), "x.log", &logs, &status), SG_BAD_INPUT);
        assert_non_null(strstr(status.text, "updt_s"));
        assert_null(logs.logs);
    }
}

static void observed_point(void **state) {
    (void)state;
    sg_status status;
    sg_point point;
    sg_point_config config = {.policy = "act", .batch = 8, .ranks = 1};
    sg_logs logs =
        sg_logs_of_text("step:1 updt_s:9\nstep:2 updt_s:0.5 data_s:0.1 mem_gb:2\nstep:3 updt_s:0.5 data_s:0.3\n"
                        "step:4 updt_s:0.5 data_s:0.1\nstep:5 updt_s:0.5 data_s:7\n");
    assert_int_equal(sg_log_point(&logs.logs[0], &config, "train.log", &point, &status), SG_OK);
    assert_close(point.q[SG_Q_UPDATE].median, 0.5);
    assert_close(point.q[SG_Q_STEP].median, 0.6);
    assert_int_equal(point.iterations, 3);
    assert_true(point.peak_allocated_bytes == (uint64_t)2 << 30);
    assert_string_equal(point.source, "observed");
    sg_point_clear(&point);
    sg_logs_clear(&logs);
    logs = sg_logs_of_text("step:1 updt_s:9\n");
    assert_int_equal(sg_log_point(&logs.logs[0], &config, "train.log", &point, &status), SG_BAD_INPUT);
    sg_logs_clear(&logs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(era_of_2024),
        cmocka_unit_test(era_of_2025),
        cmocka_unit_test(era_of_june_2026),
        cmocka_unit_test(era_of_august_2026),
        cmocka_unit_test(banner_of_several_processes),
        cmocka_unit_test(rounded_counters_alone),
        cmocka_unit_test(several_runs),
        cmocka_unit_test(lines_of_every_process),
        cmocka_unit_test(deaths_and_settings),
        cmocka_unit_test(what_is_no_log_is_refused),
        cmocka_unit_test(observed_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
