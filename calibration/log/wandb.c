/* wandb.c: the keys of W&B exports, and what a record of them says. */
#include "calibration/log/wandb.h"

#include <math.h>
#include <string.h>

sg_wandb_record sg_wandb_none(void) {
    sg_wandb_record r;
    for (int f = 0; f < SG_LOG_FIELDS; f++) r.field[f] = NAN;
    r.step = r.samples = r.time_s = r.eval_s = NAN;
    r.loss = r.epoch = r.learning_rate = r.runtime = r.samples_per_s = r.steps_per_s = NAN;
    return r;
}

#define FIELD(f)      (offsetof(sg_wandb_record, field) + (f) * sizeof(double))
#define OTHER(member) offsetof(sg_wandb_record, member)

#define KEY(text) text, sizeof(text) - 1

static const struct {
    const char *key;
    size_t n, into;
    double unit;
} keys[] = {
    {KEY("train/update_s"), FIELD(SG_LOG_UPDATE_S), 1},
    {KEY("train/dataloading_s"), FIELD(SG_LOG_DATALOADING_S), 1},
    {KEY("train/preprocessing_s"), FIELD(SG_LOG_PREPROCESSING_S), 1},
    {KEY("train/step_s"), FIELD(SG_LOG_STEP_S), 1},
    {KEY("train/samples_per_s"), FIELD(SG_LOG_SAMPLES_PER_S), 1},
    {KEY("train/gpu_mem_gb"), FIELD(SG_LOG_PEAK_BYTES), 1024.0 * 1024.0 * 1024.0},
    {KEY("train/steps"), OTHER(step), 1},
    {KEY("train/samples"), OTHER(samples), 1},
    {KEY("_step"), OTHER(step), 1},
    {KEY("Step"), OTHER(step), 1},
    {KEY("step"), OTHER(step), 1},
    {KEY("_timestamp"), OTHER(time_s), 1},
    {KEY("eval/eval_s"), OTHER(eval_s), 1},
    {KEY("loss"), OTHER(loss), 1},
    {KEY("epoch"), OTHER(epoch), 1},
    {KEY("learning_rate"), OTHER(learning_rate), 1},
    {KEY("train_runtime"), OTHER(runtime), 1},
    {KEY("train_samples_per_second"), OTHER(samples_per_s), 1},
    {KEY("train_steps_per_second"), OTHER(steps_per_s), 1},
};

int sg_wandb_key(const char *key, size_t n) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].n == n && memcmp(keys[i].key, key, n) == 0) return (int)i;
    return -1;
}

bool sg_wandb_key_is_time(int key) {
    return key >= 0 && keys[key].into < OTHER(step);
}

bool sg_wandb_take(sg_wandb_record *r, int key, const char *text, size_t n) {
    double *into = (double *)(void *)((char *)r + keys[key].into), value = sg_word_number((sg_word){text, n});
    bool own_counter = keys[key].key[0] == '_' || keys[key].key[0] == 'S'; /* W&B's, where "train/steps" is missing */
    if (isnan(value) || (own_counter && !isnan(*into))) return false;
    *into = keys[key].unit * value;
    return true;
}

static sg_log_window window_of(const sg_wandb_record *r) {
    sg_log_window w = sg_log_window_none();
    memcpy(w.value, r->field, sizeof r->field);
    w.step = w.step_low = w.step_high = r->step;
    w.samples_low = w.samples_high = r->samples;
    w.time_s = r->time_s;
    return w;
}

/* trainer_state.json tells steps and no times; its last record those of the whole run. */
static bool emit_trainer(const sg_wandb_record *r, sg_log_builder *b) {
    bool whole = r->runtime > 0;
    if (!whole && (isnan(r->loss) || isnan(r->epoch) || isnan(r->learning_rate))) return false;
    sg_log_window w = window_of(r);
    w.summary = whole;
    w.value[SG_LOG_SAMPLES_PER_S] = r->samples_per_s;
    if (whole && r->steps_per_s > 0) w.value[SG_LOG_STEP_S] = 1 / r->steps_per_s;
    sg_log_builder_window(b, SG_LOG_HF, &w);
    sg_log *log = b->logs->n ? &b->logs->logs[b->logs->n - 1] : NULL;
    if (!log || !whole) return true;
    log->train_s = r->runtime;
    b->traits.steps_per_s = r->steps_per_s;
    if (r->step >= 1 && r->step < 9e15) log->config.steps = (int64_t)r->step;
    return true;
}

bool sg_wandb_emit(const sg_wandb_record *r, sg_log_builder *b, bool json, const sg_line *line) {
    bool times = false;
    for (int f = 0; f < SG_LOG_FIELDS; f++) times |= !isnan(r->field[f]);
    if (!times && isnan(r->eval_s)) return json && emit_trainer(r, b);
    if (times) {
        sg_log_window w = window_of(r);
        sg_log_builder_window(b, SG_LOG_WANDB, &w);
        b->traits.json |= json;
    }
    if (!isnan(r->eval_s) && b->family == SG_LOG_WANDB)
        sg_log_builder_event(b, SG_LOG_EVALUATION, r->step, r->eval_s, line);
    return true;
}
