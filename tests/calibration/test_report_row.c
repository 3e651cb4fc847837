/* Rows of trainings as people write them: to a request and to figures, or to the reason why not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/reports/report_row.h"
#include "tests/support/scratch.h"

/* Cells by column name, "name=value|name=value"; the row is read from a real file. */
static sg_report_row read_row(const char *cells) {
    static const char *const columns[] = {
        "id",           "policy",    "policy_details", "dataset", "hardware",   "gpu_count",     "batch_per_gpu",
        "steps",        "update_s",  "data_s",         "step_s",  "wall_clock", "samples_per_s", "vram_gb",
        "gpu_util_pct", "framework", "date",           "note"};
    enum { N = sizeof columns / sizeof *columns };
    char text[4096], path[128], part[2048];
    size_t n = 0;
    for (size_t c = 0; c < N; c++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%c", columns[c], c + 1 < N ? ',' : '\n');
    for (size_t c = 0; c < N; c++) {
        char value[1024] = "";
        (void)snprintf(part, sizeof part, "%s", cells);
        char *rest = part;
        for (char *cell; (cell = strsep(&rest, "|"));) {
            size_t key = strlen(columns[c]);
            if (strncmp(cell, columns[c], key) == 0 && cell[key] == ':')
                (void)snprintf(value, sizeof value, "%s", cell + key + 1);
        }
        n += (size_t)snprintf(text + n, sizeof text - n, "\"%s\"%c", value, c + 1 < N ? ',' : '\n');
    }
    sg_scratch s = sg_scratch_new();
    sg_scratch_file(&s, "r.csv", text);
    (void)snprintf(path, sizeof path, "%s/r.csv", s.path);
    sg_csv_table table;
    sg_status status;
    if (sg_csv_table_read(path, &table, &status)) fail_msg("%s", status.text);
    sg_report_row row;
    sg_report_row_read(&table, 0, &row);
    sg_csv_table_clear(&table);
    sg_scratch_free(&s);
    sg_report_row_bind(&row);
    return row;
}

static const char *setting(const sg_report_row *row, const char *key) {
    for (size_t i = 0; i < row->n_settings; i++)
        if (strcmp(row->key[i], key) == 0) return row->value[i];
    return "";
}

static void a_plain_row(void **state) {
    (void)state;
    sg_report_row r =
        read_row("id:X1|policy:act|policy_details:2 cameras 640x480 (wrist+front), chunk 50, no VAE, fp32|"
                 "hardware:RTX 4070 12GB|gpu_count:2|batch_per_gpu:16|update_s:0.25|data_s:0.001|"
                 "samples_per_s:120|vram_gb:6.85|framework:lerobot|note:mem_gb is torch max allocated");
    assert_string_equal(r.no_training, "");
    assert_string_equal(r.no_machine, "");
    assert_string_equal(r.policy, "act");
    assert_string_equal(r.precision, "tf32");
    assert_string_equal(setting(&r, "cameras"), "2");
    assert_string_equal(setting(&r, "image_height"), "480");
    assert_string_equal(setting(&r, "image_width"), "640");
    assert_string_equal(setting(&r, "chunk_size"), "50");
    assert_string_equal(setting(&r, "use_vae"), "false");
    assert_int_equal(r.ranks, 2);
    assert_int_equal(r.request.batch, 16);
    assert_true(r.cameras_known && r.size_known && !r.compiled && !r.checkpointed);
    assert_int_equal(r.time, SG_REPORT_UPDATE);
    assert_true(r.low_s == 0.25 && r.high_s == 0.25);
    assert_true(fabs(r.allocated_bytes - 6.85 * 0x1p30) < 1 && r.driver_bytes == 0);
    assert_true(fabs((double)r.memory_bytes - 12 * 0x1p30) < 1);
    assert_string_equal(r.sign, "");
}

static void options_and_data_sets(void **state) {
    (void)state;
    sg_report_row r = read_row("policy:smolvla|policy_details:freeze_vision_encoder=false; train_expert_only=false|"
                               "hardware:H100|batch_per_gpu:8|step_s:0.3|gpu_util_pct:~80");
    assert_string_equal(setting(&r, "freeze_vision_encoder"), "false");
    assert_string_equal(setting(&r, "train_expert_only"), "false");
    assert_true(!r.cameras_known && r.size_known && r.precision[0] == 0);
    assert_int_equal(r.time, SG_REPORT_STEP);
    assert_true(fabs(r.busy_share - 0.8) < 1e-12);
    r = read_row("policy:smolvla|batch_per_gpu:8|policy_details:SGD optimizer, not AdamW|hardware:L4");
    assert_string_equal(setting(&r, "optimizer"), "sgd");
    r = read_row("policy:act (PushT)|hardware:T4|batch_per_gpu:64|update_s:0.3-0.4");
    assert_string_equal(setting(&r, "cameras"), "1");
    assert_string_equal(setting(&r, "image_width"), "96");
    assert_string_equal(setting(&r, "action_dim"), "2");
    assert_true(r.low_s == 0.3 && r.high_s == 0.4);
    r = read_row(
        "policy:act|dataset:somebody/aloha_sim_insertion_mine|hardware:L4|batch_per_gpu:256 (global)|gpu_count:8|"
        "note:2.5 step/s");
    assert_int_equal(r.request.batch, 32);
    assert_string_equal(setting(&r, "state_dim"), "14");
    assert_int_equal(r.time, SG_REPORT_STEP);
    assert_true(fabs(r.low_s - 0.4) < 1e-12);
    r = read_row(
        "policy:act|policy_details:so101, 100 episodes|hardware:A100 80GB (Colab)|batch_per_gpu:64|steps:60000|"
        "wall_clock:~11 h");
    assert_true(!r.cameras_known && r.size_known);
    assert_int_equal(r.time, SG_REPORT_WALL);
    assert_true(fabs(r.low_s - 0.66) < 1e-9);
    assert_non_null(strstr(r.sign, "shared host"));
    r = read_row("policy:act|policy_details:use_amp|batch_per_gpu:8|framework:lerobot 0.6.0|date:2026-08");
    assert_string_equal(r.precision, "tf32");
    r = read_row("policy:act|policy_details:use_amp|batch_per_gpu:8|framework:lerobot 0.6.2|date:2026-08-23");
    assert_string_equal(r.precision, "bf16");
    r = read_row("policy:act|batch_per_gpu:8|hardware:L4|update_s:1");
    assert_true(r.named_sizes && !r.size_known && !r.cameras_known);
}

static void reasons(void **state) {
    (void)state;
    static const struct {
        const char *cells, *training, *machine, *time;
    } rows[] = {
        {"policy:PPO Isaac-Ant|hardware:L4|batch_per_gpu:8", "PPO", "", "no time"},
        {"policy:(price only)|hardware:T4", "no training", "", "no time"},
        {"policy:some_vla|batch_per_gpu:8", "not supported", "not stated", "no time"},
        {"policy:act / smolvla|batch_per_gpu:8", "several policies", "not stated", "no time"},
        {"policy:smolvla|batch_per_gpu:8|framework:openpi JAX|hardware:L4", "another framework", "", "no time"},
        {"policy:pi05|batch_per_gpu:8|policy_details:2 cameras|hardware:L4", "fp32 or bf16", "", "no time"},
        {"policy:smolvla|batch_per_gpu:8|hardware:Intel XPU|wall_clock:ETA 3 h|steps:10", "", "no GPU of a kind",
         "announced"},
        {"policy:smolvla|batch_per_gpu:8|hardware:L4 / A10G 24GB|wall_clock:~3 h (author estimate)|steps:9", "",
         "several GPUs", "estimate"},
        {"policy:smolvla|batch_per_gpu:8|hardware:L4|wall_clock:3 h", "", "", "number of steps"},
        {"policy:smolvla|batch_per_gpu:8|hardware:L4|wall_clock:soon|steps:5", "", "", "no duration"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sg_report_row r = read_row(rows[i].cells);
        if (!strstr(r.no_training, rows[i].training) || (!rows[i].training[0] && r.no_training[0]))
            fail_msg("row %zu: '%s'", i, r.no_training);
        if (!strstr(r.no_machine, rows[i].machine) || (!rows[i].machine[0] && r.no_machine[0]))
            fail_msg("row %zu: '%s'", i, r.no_machine);
        if (!strstr(r.no_time, rows[i].time)) fail_msg("row %zu: '%s'", i, r.no_time);
    }
}

static void unified_memory(void **state) {
    (void)state;
    sg_report_row r = read_row("policy:smolvla|batch_per_gpu:8|hardware:Apple M1 Max 32GB (MPS)");
    assert_true(r.unified);
    assert_string_equal(r.device_class, "mps");
    r = read_row("policy:smolvla|batch_per_gpu:8|hardware:Jetson AGX Thor (122 GB unified)");
    assert_true(r.unified && fabs((double)r.memory_bytes - 122 * 0x1p30) < 1);
    assert_string_equal(r.device_class, "cuda");
    r = read_row("policy:smolvla|batch_per_gpu:8|hardware:RTX 4090");
    assert_false(r.unified);
}

static void memory_kinds(void **state) {
    (void)state;
    sg_report_row r = read_row("policy:act|vram_gb:4.7|note:torch mem_gb 3.73; nvidia-smi peak 4717 MiB");
    assert_true(fabs(r.allocated_bytes - 3.73 * 0x1p30) < 1 && fabs(r.driver_bytes - 4717 * 0x1p20) < 1);
    r = read_row("policy:act|vram_gb:41");
    assert_true(r.allocated_bytes == 0 && fabs(r.driver_bytes - 41 * 0x1p30) < 1);
    r = read_row("policy:act|vram_gb:0.95");
    assert_true(fabs(r.allocated_bytes - 0.95 * 0x1p30) < 1 && r.driver_bytes == 0);
    r = read_row("policy:act|vram_gb:75|note:peak allocated, approximate");
    assert_true(fabs(r.allocated_bytes - 75 * 0x1p30) < 1);
    static const char *const none[] = {"policy:act|vram_gb:>22.5", "policy:act|vram_gb:OOM",
                                       "policy:act|vram_gb:16|note:stated requirement",
                                       "policy:act|vram_gb:34.9|note:HOST RAM not VRAM"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        r = read_row(none[i]);
        assert_true(r.has_memory && r.no_memory[0] && r.allocated_bytes == 0 && r.driver_bytes == 0);
    }
    r = read_row("policy:act");
    assert_false(r.has_memory);
}

static void signs(void **state) {
    (void)state;
    sg_report_row r = read_row("policy:act|batch_per_gpu:32|update_s:0.47|data_s:0.43");
    assert_non_null(strstr(r.sign, "loader"));
    r = read_row("policy:act|batch_per_gpu:32|data_s:0.5|step_s:1.5");
    assert_true(r.time == SG_REPORT_UPDATE && r.low_s == 1.0 && r.high_s == 1.0);
    assert_non_null(strstr(r.sign, "loader"));
    r = read_row("policy:act|batch_per_gpu:32|data_s:2|step_s:1.5");
    assert_true(r.time == SG_REPORT_STEP && r.low_s == 1.5);
    r = read_row("policy:act|batch_per_gpu:32|update_s:0.47|data_s:0.01|step_s:1.1");
    assert_non_null(strstr(r.sign, "contradict"));
    r = read_row("policy:smolvla|policy_details:torch.compile|hardware:L4|batch_per_gpu:8");
    assert_true(r.compiled && !r.graphs);
    r = read_row("policy:smolvla|policy_details:compile_model=false|hardware:L4|batch_per_gpu:8");
    assert_false(r.compiled);
    assert_string_equal(r.no_training, "");
}

/* Nothing here may crash, hang or pass for a figure. */
static void hostile(void **state) {
    (void)state;
    static const char *const cells[] = {
        "policy:act|batch_per_gpu:99999999999999999999|gpu_count:-3|update_s:nan|step_s:1e999|vram_gb:inf",
        "policy:act\n|policy_details:\n\n640x480\n2 cameras|batch_per_gpu:8\n|hardware:\nL4\n|update_s:\n",
        "policy:|policy_details:========|batch_per_gpu:|hardware:|update_s:-1|steps:0|wall_clock:0 h",
        "policy:smolvla|policy_details:=x=,a=,=b,chunk_size=99999999999,cameras=-1|batch_per_gpu:8|steps:1e9",
        "policy:\xFF\xFE\xC3|policy_details:\xC3|hardware:\xE2\x80|note:\xF0\x9F",
    };
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        sg_report_row r = read_row(cells[i]);
        assert_true(r.time == SG_REPORT_NO_TIME);
        assert_true(r.allocated_bytes == 0 && r.driver_bytes == 0 && r.ranks >= 1);
    }
    char long_cell[1000];
    memset(long_cell, 'x', sizeof long_cell - 1);
    long_cell[sizeof long_cell - 1] = 0;
    char row[1100];
    (void)snprintf(row, sizeof row, "policy:%s", long_cell);
    sg_report_row r = read_row(row);
    assert_non_null(strstr(r.no_training, "not supported"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_plain_row),    cmocka_unit_test(options_and_data_sets),
                                       cmocka_unit_test(reasons),        cmocka_unit_test(memory_kinds),
                                       cmocka_unit_test(unified_memory), cmocka_unit_test(signs),
                                       cmocka_unit_test(hostile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
