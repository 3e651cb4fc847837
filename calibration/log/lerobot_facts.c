/* lerobot_facts.c: what lerobot-train prints of its configuration before it trains, and commands that name it. */
#include "calibration/log/lerobot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Policy types of LeRobot; where one begins another's name, the longer is first. */
static const char *const policies[] = {
    "act",  "diffusion", "smolvla", "pi0_fast", "pi05",           "pi0", "multi_task_dit",    "vqbet",  "tdmpc",
    "xvla", "wall_x",    "groot",   "eo1",      "gaussian_actor", "sac", "reward_classifier", "fastwam"};

/* The policy that the text names, alone or followed by "_": "act", "act_koch_real". NULL: none. */
static const char *policy_named(sg_word text) {
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        size_t n = strlen(policies[i]);
        if (text.n < n || memcmp(text.text, policies[i], n) != 0) continue;
        if (text.n == n || !((text.text[n] | 32) >= 'a' && (text.text[n] | 32) <= 'z')) {
            bool number_goes_on = text.n > n && text.text[n] >= '0' && text.text[n] <= '9';
            if (!number_goes_on) return policies[i];
        }
    }
    return NULL;
}

static bool whole(sg_word text, int64_t *out) {
    double value = sg_word_number(text);
    if (!(value >= 1 && value < 9e15) || value != floor(value)) return false;
    *out = (int64_t)value;
    return true;
}

static void set_policy(sg_log *log, const char *policy) {
    if (log && policy && !log->config.policy[0])
        (void)snprintf(log->config.policy, sizeof log->config.policy, "%s", policy);
}

/* "cfg.steps=20000": the run's own family is known by it. */
static bool named_number(sg_log_builder *b, sg_word word) {
    const struct {
        const char *prefix;
        size_t into;
        bool begins; /* first lines of a run */
        bool hydra;
    } facts[] = {
        {"cfg.steps=", offsetof(sg_log_config, steps), true, false},
        {"cfg.training.offline_steps=", offsetof(sg_log_config, steps), true, true},
        {"dataset.num_frames=", offsetof(sg_log_config, frames), false, false},
        {"offline_dataset.num_samples=", offsetof(sg_log_config, frames), false, true},
        {"dataset.num_samples=", offsetof(sg_log_config, frames), false, true},
        {"dataset.num_episodes=", offsetof(sg_log_config, episodes), false, false},
        {"offline_dataset.num_episodes=", offsetof(sg_log_config, episodes), false, true},
        {"num_learnable_params=", offsetof(sg_log_config, parameters_trainable), false, false},
        {"num_total_params=", offsetof(sg_log_config, parameters_total), false, false},
    };
    sg_word task;
    if (sg_word_after(word, "cfg.env.task=", &task)) {
        sg_log *log = task.n ? sg_log_builder_fresh(b) : NULL; /* among the first lines of a run */
        if (log) log->config.environment = true;
        return true;
    }
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        sg_word rest;
        int64_t value;
        if (!sg_word_after(word, facts[i].prefix, &rest) || !whole(rest, &value)) continue;
        sg_log *log = facts[i].begins ? sg_log_builder_fresh(b) : sg_log_builder_run(b);
        if (!log) return true;
        if (b->family == SG_LOG_NONE) b->family = SG_LOG_LEROBOT;
        if (facts[i].hydra) b->traits.hydra = true;
        *(int64_t *)(void *)((char *)&log->config + facts[i].into) = value;
        return true;
    }
    return false;
}

static sg_word word_at(const sg_words *words, size_t at) {
    return at < words->n ? words->word[at] : (sg_word){"", 0};
}

/* "Effective batch size: 32 x 2 = 64", "... 32 x 2 dp workers x 4 grad accum = 256 (topology: ..)" */
static bool effective_batch(sg_log_builder *b, const sg_words *words, size_t at) {
    int64_t batch, ranks, accumulation;
    if (!sg_words_are(words, at, "Effective batch size:") || !whole(word_at(words, at + 3), &batch) ||
        !sg_word_is(word_at(words, at + 4), "x") || !whole(word_at(words, at + 5), &ranks))
        return false;
    if (batch > INT64_C(1000000000) || ranks > INT64_C(1000000)) return false;
    sg_log *log = sg_log_builder_run(b);
    if (!log) return true;
    if (b->family == SG_LOG_NONE) b->family = SG_LOG_LEROBOT;
    log->config.batch = batch;
    log->config.ranks = ranks;
    log->config.samples_per_step = batch * ranks;
    if (sg_words_are(words, at + 6, "dp workers x") && whole(word_at(words, at + 9), &accumulation) &&
        accumulation < 1000000)
        log->config.accumulation = accumulation;
    return true;
}

/* "Start offline training on a fixed dataset, with effective batch size: 32" */
static bool training_starts(sg_log_builder *b, const sg_words *words, size_t at) {
    if (!sg_words_are(words, at, "Start offline training")) return false;
    sg_log *log = sg_log_builder_fresh(b);
    if (!log) return true;
    b->family = SG_LOG_LEROBOT;
    for (size_t i = at + 3; i + 3 < words->n; i++) {
        int64_t samples;
        if (!sg_words_are(words, i, "effective batch size:") || !whole(words->word[i + 3], &samples)) continue;
        if (!log->config.samples_per_step) log->config.samples_per_step = samples;
    }
    return true;
}

/* "outputs/train/2024-06-23/16-48-49_aloha_act_default": the name that lerobot-train makes itself. */
static bool output_folder(sg_log_builder *b, const sg_words *words, size_t at) {
    if (!sg_words_are(words, at, "Output dir:")) return false;
    sg_log *log = sg_log_builder_fresh(b);
    sg_word path = word_at(words, at + 2);
    for (size_t i = path.n; log && i > 0; i--) {
        if (path.text[i - 1] != '/') continue;
        sg_word name = {path.text + i, path.n - i};
        bool by_time = name.n > 9 && name.text[2] == '-' && name.text[5] == '-' && name.text[8] == '_';
        for (size_t j = 8; by_time && j < name.n; j++)
            if (name.text[j] == '_') set_policy(log, policy_named((sg_word){name.text + j + 1, name.n - j - 1}));
        break;
    }
    return true;
}

/* Settings printed as a Python dictionary: "'batch_size': 8," and commands: "--policy.type=act". */
static bool setting(sg_log_builder *b, const sg_words *words, size_t at) {
    const struct {
        const char *printed, *option;
        size_t into;
    } facts[] = {{"'batch_size':", "--batch_size=", offsetof(sg_log_config, batch)},
                 {"'num_workers':", "--num_workers=", offsetof(sg_log_config, workers)},
                 {"'log_freq':", "--log_freq=", offsetof(sg_log_config, log_every)},
                 {"'save_freq':", "--save_freq=", offsetof(sg_log_config, save_every)},
                 {"'eval_freq':", "--eval_freq=", offsetof(sg_log_config, evaluate_every)},
                 {"'env_eval_freq':", "--env_eval_freq=", offsetof(sg_log_config, evaluate_every)}};
    sg_word word = words->word[at], value = {"", 0};
    if (word.text[0] == '{') word = (sg_word){word.text + 1, word.n - 1};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        int64_t number;
        bool printed = sg_word_is(word, facts[i].printed);
        if (printed) value = word_at(words, at + 1);
        if (!printed && !sg_word_after(word, facts[i].option, &value)) continue;
        while (value.n && strchr(",})'\"", value.text[value.n - 1])) value.n--;
        if (!whole(value, &number)) return false;
        sg_log *log = i == 0 ? sg_log_builder_fresh(b) : sg_log_builder_run(b);
        if (log) *(int64_t *)(void *)((char *)&log->config + facts[i].into) = number;
        return false; /* no record ends here */
    }
    return false;
}

static void policy_setting(sg_log_builder *b, const sg_words *words, size_t at) {
    sg_word word = words->word[at], value = {"", 0};
    if (word.text[0] == '{') word = (sg_word){word.text + 1, word.n - 1};
    if (sg_word_is(word, "'type':"))
        value = word_at(words, at + 1);
    else if (!sg_word_after(word, "--policy.type=", &value) && !sg_word_after(word, "'policy=", &value) &&
             !sg_word_after(word, "['policy=", &value))
        return;
    while (value.n && strchr(",}])'\"", value.text[value.n - 1])) value.n--;
    while (value.n && (*value.text == '\'' || *value.text == '"')) value = (sg_word){value.text + 1, value.n - 1};
    const char *policy = value.n ? policy_named(value) : NULL;
    if (!policy) return;
    /* The overrides of a run that died are of that run, not of one to come. */
    sg_log *log = b->logs->n ? &b->logs->logs[b->logs->n - 1] : sg_log_builder_run(b);
    set_policy(log, policy);
}

bool sg_lerobot_fact(sg_log_builder *b, const sg_words *words, size_t at) {
    sg_word word = words->word[at];
    switch (word.text[0]) {
    case 'c':
    case 'd':
    case 'o':
    case 'n': return memchr(word.text, '=', word.n) ? named_number(b, word) : false;
    case 'E': return effective_batch(b, words, at);
    case 'S': return training_starts(b, words, at);
    case 'O': return output_folder(b, words, at);
    case '\'':
    case '[':
    case '{':
    case '-':
        if (word.n > 5) {
            policy_setting(b, words, at);
            return setting(b, words, at);
        }
        return false;
    default: return false;
    }
}
