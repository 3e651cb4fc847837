/* rsl_rl, openpi, the Hugging Face Trainer, Brax, exports of W&B: each format, and several of them in one file. */
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

static void rsl_rl_old(void **state) {
    (void)state;
    sg_logs logs =
        sg_logs_of_text("################################################################################\n"
                        "                     \x1b[1m Learning iteration 4173/5000 \x1b[0m                      \n\n"
                        "                       Computation: 44003 steps/s (collection: 1.952s, learning 0.282s)\n"
                        "               Value function loss: 0.0005\n"
                        "                    Surrogate loss: -0.0003\n"
                        "                   Total timesteps: 410222592\n"
                        "                    Iteration time: 2.23s\n"
                        "                               ETA: -6781.0s\n"
                        "                      Learning iteration 4174/5000 \n"
                        "                       Computation: 43000 steps/s (collection: 2.000s, learning 0.286s)\n"
                        "                   Total timesteps: 410320896\n"
                        "                    Iteration time: 2.29s\n");
    const sg_log *log = &logs.logs[0];
    assert_int_equal(logs.n, 1);
    assert_string_equal(log->format, "rsl_rl-old");
    assert_string_equal(log->config.policy, "ppo");
    assert_int_equal(log->config.steps, 5000);
    assert_int_equal(log->config.env_steps_per_iteration, 98304);
    assert_int_equal(log->n_windows, 2);
    assert_close(log->windows[0].iteration, 4173);
    assert_close(log->windows[1].env_steps, 410320896);
    assert_close(sg_log_at(log, 0, SG_LOG_COLLECTION_S), 1.952);
    assert_close(sg_log_at(log, 0, SG_LOG_LEARNING_S), 0.282);
    assert_close(sg_log_at(log, 0, SG_LOG_ITERATION_S), 2.23);
    assert_close(sg_log_at(log, 0, SG_LOG_ENV_STEPS_PER_S), 44003);
    assert_close(log->steady[SG_LOG_COLLECTION_S], 2);
    assert_close(log->steady[SG_LOG_STEP_S], 2.286);
    assert_true(sg_log_warned(log, "negative"));
    sg_logs_clear(&logs);
}

/* The first block's top is cut; the second run begins again; labels of a fork without headers. */
static void rsl_rl_new(void **state) {
    (void)state;
    sg_logs logs = sg_logs_of_text("                        Collection time: 0.768s \n"
                                   "                          Learning time: 0.238s \n"
                                   "                    Mean surrogate loss: -0.0013\n"
                                   "                         Iteration time: 1.01s\n"
                                   "                           Time elapsed: 00:00:01\n"
                                   "                                    ETA: 00:00:09\n"
                                   "                            Learning iteration 1/10 \n"
                                   "                            Total steps: 512 \n"
                                   "                       Steps per second: 1581 \n"
                                   "                        Collection time: 0.102s \n"
                                   "                          Learning time: 0.060s \n"
                                   "                        Mean value loss: nan\n"
                                   "                            Learning iteration 0/20 \n"
                                   "                            Total steps: 256 \n"
                                   "                        Collection time: 0.5s \n"
                                   "                          Learning time: 0.1s \n");
    assert_int_equal(logs.n, 2);
    const sg_log *log = &logs.logs[0];
    assert_string_equal(log->format, "rsl_rl-new");
    assert_int_equal(log->n_windows, 2);
    assert_true(isnan(log->windows[0].iteration));
    assert_close(log->windows[1].iteration, 1);
    assert_close(log->steady[SG_LOG_COLLECTION_S], 0.102);
    assert_int_equal(log->config.env_steps_per_iteration, 256);
    assert_true(sg_log_warned(log, "NaN"));
    assert_int_equal(logs.logs[1].config.steps, 20);
    sg_logs_clear(&logs);
    logs = sg_logs_of_text(
        "Collection time: 2.631s\nLearn time:      1.879s\nIteration time:  4.510s\nFPS: 21,796 steps/s\n"
        "Collection time: 0.671s\nLearn time:      1.348s\nIteration time:  2.020s\nFPS: 48,684 steps/s\n");
    assert_int_equal(logs.logs[0].n_windows, 2);
    assert_close(logs.logs[0].steady[SG_LOG_ENV_STEPS_PER_S], 48684);
    assert_close(logs.logs[0].steady[SG_LOG_LEARNING_S], 1.348);
    assert_close(logs.logs[0].steady[SG_LOG_ITERATION_S], 2.02);
    sg_logs_clear(&logs);
}

/* The bar's own rate where it stood once; between two places of it, the time that passed. */
static void openpi_with_bars(void **state) {
    (void)state;
    sg_logs logs =
        sg_logs_of_text("Step 0: grad_norm=0.1184, loss=0.0305, param_norm=1802.3865\n"
                        "Step 100: grad_norm=0.0677, loss=0.0212, param_norm=1802.3868 \n"
                        "0%|\xe2\x96\x8f| 106/100000 [06:05<62:51:39,  2.27s/it]\n"
                        "Step 200: grad_norm=0.0671, loss=0.0140, param_norm=1802.4114\n"
                        "0%|\xe2\x96\x8f| 300/100000 [13:48<62:51:39,  2.27s/it]Step 300: grad_norm=0.1, loss=0.0\n");
    const sg_log *log = &logs.logs[0];
    assert_string_equal(log->format, "openpi");
    assert_int_equal(log->config.steps, 100000);
    assert_int_equal(log->n_windows, 4);
    assert_close(sg_log_at(log, 2, SG_LOG_STEP_S), 2.27);
    assert_close(log->windows[2].step, 200);
    assert_close(sg_log_at(log, 3, SG_LOG_STEP_S), (828.0 - 365) / (300 - 106));
    assert_int_equal(log->steady_windows, 2);
    sg_logs_clear(&logs);
}

/* The time of a line of the PyTorch loop is that since the line before. */
static void openpi_on_pytorch(void **state) {
    (void)state;
    sg_logs logs =
        sg_logs_of_text("12:00:00.000 [I] step=0 loss=0.9 lr=1.0e-06 grad_norm=1.2 time=30.0s (1:train.py:5)\n"
                        "12:03:00.000 [I] step=100 loss=0.5 lr=1.0e-06 grad_norm=1.1 time=180.0s (1:train.py:5)\n"
                        "Training:   0%| | 150/30000 [04:30<10:00, 1.80s/it]\n"
                        "12:06:02.000 [I] step=200 loss=0.4 lr=1.0e-06 grad_norm=1.0 time=182.0s (1:train.py:5)\n");
    const sg_log *log = &logs.logs[0];
    assert_int_equal(logs.n, 1);
    assert_string_equal(log->format, "openpi");
    assert_int_equal(log->n_windows, 3);
    assert_true(isnan(sg_log_at(log, 0, SG_LOG_STEP_S)));
    assert_close(sg_log_at(log, 1, SG_LOG_STEP_S), 1.8);
    assert_close(log->steady[SG_LOG_STEP_S], 1.81);
    sg_logs_clear(&logs);
}

static void rl_games(void **state) {
    (void)state;
    sg_logs logs = sg_logs_of_text(
        "fps step: 90000 fps step and policy inference: 80000 fps total: 60000 epoch: 1/500 frames: 65536\n"
        "fps step: 122338 fps step and policy inference: 113483 fps total: 71426 epoch: 2/500 frames: 131072\n");
    const sg_log *log = &logs.logs[0];
    assert_string_equal(log->format, "rl_games");
    assert_int_equal(log->config.steps, 500);
    assert_close(log->windows[1].iteration, 2);
    assert_close(log->windows[1].env_steps, 131072);
    assert_close(log->steady[SG_LOG_ENV_STEPS_PER_S], 71426);
    sg_logs_clear(&logs);
}

static void openpi_without_terminal(void **state) {
    (void)state;
    sg_logs logs =
        sg_logs_of_text("Step 100: grad_norm=1.1378, loss=0.0648\n"
                        "04:06:47.791 [I] Progress on: 53.0it/200it rate:1.6s/it remaining:... elapsed:...\n"
                        "Step 0: grad_norm=0.3765, loss=0.0900\n"
                        "Step 100: grad_norm=nan, loss=nan, param_norm=nan\n"
                        "05:44:32 [I] Setting work unit notes: 2.3 steps/s, 0.1% (1831/2000000), ETA: 10d1h35m\n"
                        "INFO:absl:[1831] steps_per_sec=2.29745\n"
                        "INFO:absl:[1831] uptime=395.301\n");
    assert_int_equal(logs.n, 2);
    assert_int_equal(logs.logs[0].config.steps, 200);
    assert_close(sg_log_at(&logs.logs[0], 1, SG_LOG_STEP_S), 1.6);
    assert_int_equal(logs.logs[1].config.steps, 2000000);
    assert_close(sg_log_at(&logs.logs[1], 2, SG_LOG_STEP_S), 1 / 2.29745);
    assert_close(logs.logs[1].windows[2].step, 1831);
    assert_true(sg_log_warned(&logs.logs[1], "NaN"));
    sg_logs_clear(&logs);
}

static void trainer_of_hugging_face(void **state) {
    (void)state;
    const char summary[] = "{'loss': 0.0275, 'grad_norm': 0.2421, 'learning_rate': 3.5e-07, 'epoch': 1.99}\n"
                           "{'loss': 0.0352, 'grad_norm': 0.0952, 'learning_rate': 1.4e-07, 'epoch': 2.0}\n"
                           "{'train_runtime': 8418.1136, 'train_samples_per_second': 2.298, 'train_steps_per_second': "
                           "0.574, 'epoch': 2.0}\n"
                           "100%|\xe2\x96\x88\xe2\x96\x88| 4836/4836 [2:20:18<00:00,  1.74s/it]\n";
    sg_logs logs = sg_logs_of_text(summary);
    const sg_log *log = &logs.logs[0];
    assert_string_equal(log->format, "hf-trainer");
    assert_int_equal(log->config.steps, 4836);
    assert_int_equal(log->config.samples_per_step, 4);
    assert_close(log->train_s, 8418.1136);
    assert_close(log->steady[SG_LOG_STEP_S], 8418.1136 / 4836);
    assert_close(log->steady[SG_LOG_SAMPLES_PER_S], 2.298);
    sg_logs_clear(&logs);
    /* The bar before each record, numbers as text, a bar that counts examples. */
    logs = sg_logs_of_text(
        "Map: 100%|##| 52002/52002 [00:10<00:00, 5000.00 examples/s]\n"
        " 10%|#| 100/1000 [01:40<15:00,  1.00s/it]{'loss': '0.5', 'grad_norm': '1', 'learning_rate': '1e-5', "
        "'epoch': '0.1'}\r 20%|#| 200/1000 [02:30<12:00,  1.99it/s]\n"
        "{'loss': '0.4', 'grad_norm': '1', 'learning_rate': '1e-5', 'epoch': '0.2'}\n"
        "{'eval_loss': 0.4, 'eval_runtime': 12.5, 'eval_samples_per_second': 3.1, 'epoch': 0.2}\n"
        " 30%|#| 300/1000 [04:10<12:00,  1.00s/it]\n");
    log = &logs.logs[0];
    assert_int_equal(log->n_windows, 3);
    assert_int_equal(log->config.steps, 1000);
    assert_close(log->windows[1].step, 200);
    assert_close(sg_log_at(log, 0, SG_LOG_STEP_S), 1);
    assert_close(sg_log_at(log, 1, SG_LOG_STEP_S), 0.5);
    assert_close(sg_log_at(log, 2, SG_LOG_STEP_S), 1);
    assert_close(log->windows[2].step, 300);
    assert_int_equal(log->events[0].kind, SG_LOG_EVALUATION);
    assert_close(log->events[0].seconds, 12.5);
    sg_logs_clear(&logs);
    logs = sg_logs_of_text(
        "{\"epoch\": 2.0, \"global_step\": 1000, \"log_history\": [\n"
        " {\"epoch\": 1.0, \"grad_norm\": 0.1, \"learning_rate\": 1e-5, \"loss\": 0.5, \"step\": 500},\n"
        " {\"epoch\": 2.0, \"step\": 1000, \"train_runtime\": 500.0, \"train_samples_per_second\": 16.0,\n"
        "  \"train_steps_per_second\": 2.0}], \"max_steps\": 1000}");
    log = &logs.logs[0];
    assert_string_equal(log->format, "hf-trainer");
    assert_int_equal(log->n_windows, 2);
    assert_int_equal(log->config.samples_per_step, 8);
    assert_close(log->steady[SG_LOG_STEP_S], 0.5);
    sg_logs_clear(&logs);
}

static void brax_summaries(void **state) {
    (void)state;
    sg_logs logs =
        sg_logs_of_text("time to jit: 0:00:31.316263\ntime to train: 0:01:54.514882\n"
                        "0: reward=0.1\n1000000: reward=3.5\nTime to JIT compile: 12.5\nTime to train: 60.25\n");
    assert_int_equal(logs.n, 2);
    assert_string_equal(logs.logs[0].format, "brax");
    assert_close(logs.logs[0].jit_s, 31.316263);
    assert_close(logs.logs[0].train_s, 114.514882);
    assert_close(logs.logs[1].jit_s, 12.5);
    assert_close(logs.logs[1].train_s, 60.25);
    sg_logs_clear(&logs);
    logs = sg_logs_of_text(
        "{'eval/episode_reward': Array(1.5, dtype=float32), 'training/sps': 123456.5, 'training/walltime': 9}\n"
        "{'eval/episode_reward': Array(2.5, dtype=float32), 'training/sps': 234567.5, 'training/walltime': 19}\n");
    assert_close(logs.logs[0].steady[SG_LOG_ENV_STEPS_PER_S], 234567.5);
    sg_logs_clear(&logs);
}

static void exports_of_wandb(void **state) {
    (void)state;
    sg_logs logs = sg_logs_of_text(
        "\"_step\",\"_timestamp\",\"train/dataloading_s\",\"train/samples\",\"train/steps\",\"train/update_s\","
        "\"train/gpu_mem_gb\"\r\n200,1754000000.5,0.01,1600,200,0.21,4.5\r\n400,1754000050.5,0.02,3200,400,0.20,\r\n");
    const sg_log *log = &logs.logs[0];
    assert_string_equal(log->format, "wandb-csv");
    assert_int_equal(log->n_windows, 2);
    assert_int_equal(log->config.batch, 8);
    assert_close(sg_log_at(log, 0, SG_LOG_PEAK_BYTES), 4.5 * 0x1p30);
    assert_close(log->windows[1].step, 400);
    assert_close(log->windows[1].time_s, 1754000050.5);
    assert_close(log->steady[SG_LOG_STEP_S], 0.22);
    assert_true(isnan(log->steady[SG_LOG_PEAK_BYTES]));
    sg_logs_clear(&logs);
    logs = sg_logs_of_text(
        "\"Step\",\"quiet-sun-3 - train/update_s\",\"quiet-sun-3 - train/update_s__MIN\",\"b - train/update_s\"\n"
        "\"200\",\"0.5\",\"0.4\",\"9\"\n\"400\",\"0.25\",\"0.2\",\"9\"\n");
    assert_int_equal(logs.n, 2); /* a run for each in the columns */
    assert_close(logs.logs[0].steady[SG_LOG_UPDATE_S], 0.25);
    assert_close(logs.logs[1].steady[SG_LOG_UPDATE_S], 9);
    assert_close(logs.logs[1].windows[1].step, 400);
    assert_true(sg_log_warned(&logs.logs[0], "'quiet-sun-3'") && sg_log_warned(&logs.logs[1], "'b'"));
    sg_logs_clear(&logs);
    logs = sg_logs_of_text(
        "[{\"_step\": 7, \"train/update_s\": 0.21, \"train/steps\": 200, \"_wandb\": {\"runtime\": 5}},\n"
        "{\"_step\":8,\"_wandb\":{\"step\":1},\"train/update_s\":2.0e-1,\"train/dataloading_s\":0.012,"
        "\"train/steps\":400,\"note\":\"a \\\"b\\\" {\"}]");
    log = &logs.logs[0];
    assert_string_equal(log->format, "wandb-json");
    assert_int_equal(log->n_windows, 2);
    assert_close(log->windows[0].step, 200);
    assert_close(log->windows[1].step, 400);
    assert_close(log->steady[SG_LOG_UPDATE_S], 0.2);
    assert_close(log->steady[SG_LOG_DATALOADING_S], 0.012);
    sg_logs_clear(&logs);
}

/* A shell that trained one after the other. */
static void several_formats(void **state) {
    (void)state;
    sg_logs logs = sg_logs_of_text("step:1 updt_s:0.5 data_s:0.1\nstep:2 updt_s:0.5 data_s:0.1\n"
                                   "Learning iteration 0/10\nCollection time: 0.5s\nLearning time: 0.1s\n"
                                   "Learning iteration 1/10\nCollection time: 0.4s\nLearning time: 0.1s\n"
                                   "Step 5: loss=1, grad_norm=2\nstep:1 updt_s:0.7 data_s:0.1\n");
    static const char *const formats[] = {"lerobot-2025", "rsl_rl-new", "openpi", "lerobot-2025"};
    assert_int_equal(logs.n, 4);
    for (size_t i = 0; i < 4; i++) assert_string_equal(logs.logs[i].format, formats[i]);
    assert_int_equal(logs.logs[1].n_windows, 2);
    sg_logs_clear(&logs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rsl_rl_old),
        cmocka_unit_test(rsl_rl_new),
        cmocka_unit_test(openpi_with_bars),
        cmocka_unit_test(openpi_on_pytorch),
        cmocka_unit_test(rl_games),
        cmocka_unit_test(openpi_without_terminal),
        cmocka_unit_test(trainer_of_hugging_face),
        cmocka_unit_test(brax_summaries),
        cmocka_unit_test(exports_of_wandb),
        cmocka_unit_test(several_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
