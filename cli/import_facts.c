/* import_facts.c: what a run of a log is, as the command line that would measure it: options, and for the rest what the log
 * and train_config.json tell. */
#include "cli/importing.h"

#include <stdio.h>
#include <string.h>

static bool contradicts(const sg_import *import, const sg_log *log) {
    const sg_log_config *c = &log->config;
    return import->has_config && ((import->config.batch && c->batch && c->batch != import->config.batch) ||
                                  (import->config.steps && c->steps && c->steps != import->config.steps));
}

static void fill_list(sg_int_list *list, int64_t value) {
    if (list->n || value < 1) return;
    list->value[0] = value;
    list->n = 1;
}

sg_import_job sg_import_job_of(const sg_args *args, const sg_import *import, const sg_log *log) {
    sg_import_job j = {.import = import, .log = log, .args = *args};
    const sg_log_config *c = &log->config;
    j.args.positional.value[0] = args->policy ? args->policy : c->policy;
    j.args.positional.n = j.args.positional.value[0][0] ? 1 : 0;
    if (import->has_config && !contradicts(import, log)) j.args.train_config = import->config_path;
    j.family = j.args.positional.n ? sg_family_find(j.args.positional.value[0]) : NULL;
    bool ppo = j.family && strcmp(j.family->name, "ppo") == 0;
    if (!ppo) fill_list(&j.args.batch, c->batch);
    fill_list(&j.args.ranks, c->ranks);
    fill_list(&j.args.workers, c->workers);
    if (j.args.accumulation < 1 && c->accumulation > 1) j.args.accumulation = c->accumulation;
    return j;
}

static bool has_key(const sg_family *family, const char *name) {
    for (size_t i = 0; i < family->n_keys; i++)
        if (strcmp(family->keys[i].name, name) == 0) return true;
    return false;
}

static bool is_set(const sg_args *args, const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; i < args->set.n; i++)
        if (strncmp(args->set.value[i], name, n) == 0 && args->set.value[i][n] == '=') return true;
    return args->config != NULL; /* a file of the policy's settings is taken to be whole */
}

static bool from_config(const sg_import_job *j, const char *name) {
    const sg_train_config *t = &j->import->config;
    for (size_t i = 0; j->args.train_config && j->import->has_config && i < t->n_settings; i++)
        if (strcmp(t->settings[i].name, name) == 0) return true;
    return false;
}

void sg_import_missing(const sg_import_job *j, char *text, size_t bytes) {
    const sg_args *a = &j->args;
    const struct {
        const char *option, *key;
        bool given;
    } needs[] = {{"--policy", NULL, j->family},
                 {"--machine", NULL, a->machine},
                 {"--batch", NULL, a->batch.n || !j->family || has_key(j->family, "envs")},
                 {"--cameras", "cameras", a->cameras >= 0 || a->dataset},
                 {"--image-size", "image_height", a->image_height > 0 || a->dataset || a->cameras == 0},
                 {"--envs", "envs", a->envs > 0},
                 {"--steps-per-env", "steps_per_env", a->steps_per_env > 0}};
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const char *key = needs[i].key;
        bool of_frames = strncmp(j->log->format, "lerobot", 7) == 0 && (i == 3 || i == 4); /* most policies' */
        bool applies = !key || (j->family ? has_key(j->family, key) : of_frames);
        if (!applies || needs[i].given || (key && (is_set(a, key) || from_config(j, key)))) continue;
        if (strstr(text, needs[i].option)) continue;
        size_t used = strlen(text);
        (void)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", needs[i].option);
    }
}
