#include "calibration/log/log.h"

#include "calibration/log/bars.h"
#include "calibration/log/build.h"
#include "calibration/log/lerobot.h"
#include "calibration/log/line_source.h"
#include "calibration/log/marks.h"
#include "calibration/log/rsl_rl.h"
#include "calibration/log/wandb.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *sg_log_field_name(sg_log_field field) {
    static const char *const names[SG_LOG_FIELDS] = {
        "update_s",      "dataloading_s", "preprocessing_s", "step_s",      "peak_allocated_bytes",
        "samples_per_s", "collection_s",  "learning_s",      "iteration_s", "env_steps_per_s"};
    return (unsigned)field < SG_LOG_FIELDS ? names[field] : "";
}

const char *sg_log_event_name(sg_log_event_kind kind) {
    static const char *const names[] = {"checkpoint", "evaluation", "hub-push", "out-of-memory", "crash", "end"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "";
}

typedef struct readers {
    sg_log_builder builder;
    sg_lerobot lerobot;
    sg_rsl_rl rsl_rl;
    sg_dicts dicts;
    sg_wandb_csv csv;
    sg_wandb_json json;
    sg_words words;
    uint64_t bytes;
} readers;

static void close_records(readers *r) {
    sg_lerobot_close(&r->lerobot, &r->builder);
    sg_rsl_rl_close(&r->rsl_rl, &r->builder);
    sg_log_flush_bar(&r->builder);
}

/* A record may be wrapped over lines, a block is many: what begins another format ends them. */
static void end_others(readers *r) {
    const sg_words *words = &r->words;
    if (!words->n || words->line.continues) return;
    sg_word first = words->word[0], rest;
    const char *colon = memchr(first.text, ':', first.n);
    bool field = colon && colon + 1 < first.text + first.n;
    if (r->lerobot.open && !field) sg_lerobot_close(&r->lerobot, &r->builder);
    if (sg_word_is(first, "INFO") || sg_word_is(first, "Step") || sg_word_after(first, "step:", &rest) ||
        sg_word_after(first, "{'", &rest))
        sg_rsl_rl_close(&r->rsl_rl, &r->builder);
}

static void read_line(readers *r, const sg_line *line) {
    sg_words *words = &r->words;
    bool row = sg_wandb_csv_line(&r->csv, &r->builder, line);
    if (sg_wandb_json_line(&r->json, &r->builder, line) || row) return;
    sg_words_split(words, line);
    end_others(r);
    if (!line->continues) {
        sg_rsl_rl_line(&r->rsl_rl, &r->builder, words);
        sg_brax_line(&r->builder, words);
    }
    for (size_t i = 0; i < words->n; i++) {
        sg_log_mark mark;
        sg_log_read_clock(&r->builder, words, i);
        if (sg_log_read_event(words, i, &mark)) {
            close_records(r);
            sg_log_builder_event(&r->builder, mark.kind, mark.step, NAN, line);
        }
        sg_lerobot_word(&r->lerobot, &r->builder, words, i);
        sg_rl_games_word(&r->builder, words, i);
        sg_openpi_word(&r->builder, words, i);
        sg_dicts_word(&r->dicts, &r->builder, words, i);
    }
}

static sg_code no_log(const readers *r, const char *name, sg_status *status) {
    return sg_fail(
        status, SG_BAD_INPUT,
        "%.200s is no training log that is known; none of these was found: LeRobot's 'step:.. updt_s:..' lines; a W&B "
        "export's 'train/update_s'; rsl_rl's 'Computation: .. steps/s (collection: ..)' or 'Collection time:'; "
        "openpi's "
        "'Step N: .. loss=..' or 'steps_per_sec='; the Hugging Face Trainer's {'loss': .., 'epoch': ..} or "
        "'train_runtime'; Brax's 'time to train:'. It has %llu bytes and %llu progress bars: give the console output "
        "of "
        "the training",
        name, (unsigned long long)r->bytes, (unsigned long long)r->builder.bars);
}

static bool worth_keeping(const sg_log *log) {
    return log->n_windows || log->n_events || log->config.steps || !isnan(log->train_s) || !isnan(log->jit_s);
}

static sg_code finish(readers *r, const sg_line_source *source, const char *name, sg_status *status) {
    sg_logs *logs = r->builder.logs;
    sg_log_builder_finish(&r->builder);
    if (r->builder.out_of_memory) return sg_fail_memory(status, sizeof(sg_log_window), "a training log");
    sg_code code = sg_line_source_error(source, status);
    if (code != SG_OK) return code;
    logs->bytes = r->bytes = sg_line_source_bytes(source);
    sg_log_builder_drop_empty(&r->builder);
    sg_log *last = logs->n ? &logs->logs[logs->n - 1] : NULL;
    if (!last || (logs->n == 1 && !worth_keeping(last))) return no_log(r, name, status);
    if (sg_line_source_cut(source))
        sg_log_warn(last, "The compressed file ends in the middle: what came before is read");
    if (r->builder.runs_left_out)
        sg_log_warn(last, "%llu further runs are left out", (unsigned long long)r->builder.runs_left_out);
    return SG_OK;
}

/* A file, or text in memory (path NULL). */
typedef struct origin {
    const char *path, *text;
    size_t bytes;
} origin;

static sg_code open_source(const origin *from, sg_line_source **source, sg_status *status) {
    return from->path ? sg_line_source_open(from->path, source, status)
                      : sg_line_source_over(from->text, from->bytes, source, status);
}

/* The further runs of a table that has several in its columns: the table once more for each. */
static sg_code read_columns(readers *r, const origin *from, sg_status *status) {
    size_t runs = r->csv.runs;
    sg_wandb_csv_close(&r->csv, &r->builder);
    if (runs > 1 && from->path && strcmp(from->path, "-") == 0) { /* what was piped is gone */
        sg_log *log = sg_log_builder_run(&r->builder);
        if (log)
            sg_log_warn(log, "%zu further runs of this table are left out: standard input is read once, give the file",
                        runs - 1);
        return SG_OK;
    }
    for (size_t k = 1; k < runs && !r->builder.out_of_memory; k++) {
        sg_line_source *source;
        sg_line line;
        sg_code code = open_source(from, &source, status);
        if (code != SG_OK) return code;
        sg_wandb_csv_start(&r->csv, k);
        r->builder.ended = true;
        while (!r->builder.out_of_memory && sg_line_source_next(source, &line))
            (void)sg_wandb_csv_line(&r->csv, &r->builder, &line);
        sg_wandb_csv_close(&r->csv, &r->builder);
        sg_line_source_close(source);
    }
    return SG_OK;
}

static sg_code read_all(const origin *from, const char *name, sg_logs *logs, sg_status *status) {
    sg_line_source *source = NULL;
    memset(logs, 0, sizeof *logs);
    sg_code code = open_source(from, &source, status);
    if (code != SG_OK) return code;
    readers *r = malloc(sizeof *r);
    if (!r) {
        sg_line_source_close(source);
        return sg_fail_memory(status, sizeof *r, "a training log");
    }
    sg_log_builder_start(&r->builder, logs);
    sg_lerobot_start(&r->lerobot);
    sg_rsl_rl_start(&r->rsl_rl);
    sg_dicts_start(&r->dicts);
    sg_wandb_csv_start(&r->csv, 0);
    sg_wandb_json_start(&r->json);
    sg_line line;
    while (!r->builder.out_of_memory && sg_line_source_next(source, &line)) read_line(r, &line);
    close_records(r);
    code = read_columns(r, from, status);
    if (code == SG_OK) code = finish(r, source, name, status);
    if (code != SG_OK) sg_logs_clear(logs);
    sg_line_source_close(source);
    free(r);
    return code;
}

sg_code sg_logs_read(const char *path, sg_logs *logs, sg_status *status) {
    return read_all(&(origin){.path = path}, strcmp(path, "-") == 0 ? "standard input" : path, logs, status);
}

sg_code sg_logs_parse(const char *text, size_t bytes, const char *name, sg_logs *logs, sg_status *status) {
    return read_all(&(origin){.text = text, .bytes = bytes}, name, logs, status);
}
