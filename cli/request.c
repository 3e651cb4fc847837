#include "cli/request.h"

#include "calibration/config/config_dir.h"
#include "datasets/catalogue/catalogue.h"
#include "datasets/catalogue/near_path.h"
#include "kernels/nearest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static sg_code add(sg_request *r, const char *name, const char *value, const char *origin, sg_status *status) {
    if (r->n_settings == r->room) {
        size_t room = r->room ? 2 * r->room : 32;
        sg_setting *grown = realloc(r->settings, room * sizeof *grown);
        if (!grown) return sg_fail_memory(status, room * sizeof *grown, "policy settings");
        r->settings = grown;
        r->room = room;
    }
    r->settings[r->n_settings++] = (sg_setting){name, value, origin};
    return SG_OK;
}

/* A number as setting text; numbers below `least` are unset. */
static sg_code add_number(sg_request *r, const char *name, double value, double least, const char *origin,
                          sg_status *status) {
    if (value < least) return SG_OK;
    if (r->n_text == sizeof r->text / sizeof r->text[0])
        return sg_fail(status, SG_BAD_INPUT, "too many numeric options");
    char *text = r->text[r->n_text++];
    (void)snprintf(text, sizeof r->text[0], value == floor(value) && value < 1e18 ? "%.0f" : "%.15g", value);
    return add(r, name, text, origin, status);
}

static bool family_has(const char *policy, const char *key) {
    const sg_family *family = sg_family_find(policy);
    for (size_t i = 0; family && i < family->n_keys; i++)
        if (strcmp(family->keys[i].name, key) == 0) return true;
    return false;
}

/* What a data set says, where the policy has such a key: a PPO policy has no cameras to set. */
static sg_code add_dataset(sg_request *r, sg_status *status) {
    const sg_dataset *d = &r->dataset;
    const struct {
        const char *name;
        double value;
    } facts[] = {{"cameras", (double)d->cameras},
                 {"image_height", (double)d->image_height},
                 {"image_width", (double)d->image_width},
                 {"state_dim", (double)d->state_dim},
                 {"action_dim", (double)d->action_dim}};
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        if (!family_has(r->name, facts[i].name)) continue;
        sg_code code = add_number(r, facts[i].name, facts[i].value, 1, "--dataset", status);
        if (code != SG_OK) return code;
    }
    return SG_OK;
}

static sg_code add_options(const sg_args *a, sg_request *r, sg_status *status) {
    const struct {
        const char *name, *origin;
        double value;
    } options[] = {{"cameras", "--cameras", (double)a->cameras},
                   {"image_height", "--image-size", (double)a->image_height},
                   {"image_width", "--image-size", (double)a->image_width},
                   {"state_dim", "--state-dim", (double)a->state_dim},
                   {"action_dim", "--action-dim", (double)a->action_dim},
                   {"chunk_size", "--chunk-size", (double)a->chunk_size},
                   {"envs", "--envs", (double)a->envs},
                   {"steps_per_env", "--steps-per-env", (double)a->steps_per_env},
                   {"mini_batches", "--mini-batches", (double)a->mini_batches},
                   {"ppo_epochs", "--ppo-epochs", (double)a->ppo_epochs},
                   {"env_step_us", "--env-step-us", a->env_step_us},
                   {"iterations", "--iterations", (double)a->iterations}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        sg_code code = add_number(r, options[i].name, options[i].value, 0, options[i].origin, status);
        if (code != SG_OK) return code;
    }
    return SG_OK;
}

/* KEY=VALUE: the key is copied, because settings hold NUL-terminated names. */
static sg_code add_sets(const sg_args *a, sg_request *r, sg_status *status) {
    for (size_t i = 0; i < a->set.n; i++) {
        const char *text = a->set.value[i], *equals = strchr(text, '=');
        if (!equals || equals == text)
            return sg_fail(status, SG_BAD_INPUT, "--set '%.64s': KEY=VALUE is expected, such as chunk_size=50", text);
        if (r->n_text == sizeof r->text / sizeof r->text[0])
            return sg_fail(status, SG_BAD_INPUT, "--set: too many keys; use --config FILE");
        size_t length = (size_t)(equals - text);
        if (length >= sizeof r->text[0])
            return sg_fail(status, SG_BAD_INPUT, "--set '%.64s...': no key has so long a name", text);
        char *name = r->text[r->n_text++];
        memcpy(name, text, length);
        name[length] = '\0';
        sg_code code = add(r, name, equals + 1, "--set", status);
        if (code != SG_OK) return code;
    }
    return SG_OK;
}

static sg_code framework_of(const sg_args *a, sg_framework *framework, sg_status *status) {
    *framework = SG_FRAMEWORK_PYTORCH_EAGER;
    if (!a->framework) return SG_OK;
    const char *known[SG_FRAMEWORK_COUNT];
    for (int i = 0; i < SG_FRAMEWORK_COUNT; i++) {
        known[i] = sg_framework_name((sg_framework)i);
        if (strcmp(a->framework, known[i]) == 0) {
            *framework = (sg_framework)i;
            return SG_OK;
        }
    }
    const char *near = sg_nearest(a->framework, known, SG_FRAMEWORK_COUNT);
    char list[SG_FRAMEWORK_COUNT * 24] = "";
    size_t at = 0;
    for (int i = 0; i < SG_FRAMEWORK_COUNT && at < sizeof list; i++) {
        int n = snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", known[i]);
        at += n > 0 ? (size_t)n : 0;
    }
    return sg_fail(status, SG_BAD_INPUT, "--framework '%.64s': known are %s%s%s%s", a->framework, list,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static bool looks_like_file(const char *name) {
    const char *dot = strrchr(name, '.');
    return strchr(name, '/') ||
           (dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0 || strcmp(dot, ".json") == 0));
}

/* Which policy: the argument (a name, or a file as --config would take), else train_config.json, else --config. */
static sg_code name_policy(const sg_args *a, sg_request *r, sg_status *status) {
    const char *name = a->positional.n ? a->positional.value[0] : NULL;
    const char *config = a->config;
    if (a->positional.n > 1)
        return sg_fail(status, SG_BAD_INPUT, "'%.64s': one policy at a time is expected", a->positional.value[1]);
    if (name && looks_like_file(name)) {
        if (config) return sg_fail(status, SG_BAD_INPUT, "a policy file and --config were both given: leave out one");
        config = name;
        name = NULL;
    }
    sg_code code = SG_OK;
    if (config) code = sg_settings_read(config, &r->config, status);
    if (code != SG_OK) return code;
    if (!name && r->config.policy[0]) name = r->config.policy;
    if (!name && r->has_train_config) name = r->train_config.policy;
    if (!name)
        return sg_fail(status, SG_BAD_INPUT, "which policy? Give its name, such as 'stepgauge %s act'%s", a->command,
                       config ? ", or a key 'policy' in the file" : "");
    if (strlen(name) >= sizeof r->name) return sg_fail(status, SG_BAD_INPUT, "unknown policy '%.64s...'", name);
    (void)snprintf(r->name, sizeof r->name, "%s", name);
    return SG_OK;
}

/* Folders of images and HDF5 demonstrations have no info.json: what they hold is found by looking. */
static bool is_other_kind(const char *path) {
    char inside[SG_PATH_BYTES];
    struct stat info;
    if (stat(path, &info) != 0) return false;
    size_t length = strlen(path);
    if (!S_ISDIR(info.st_mode)) return length > 5 && strcmp(path + length - 5, ".json") != 0;
    static const char *const facts[] = {"meta/info.json", "info.json"};
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        int n = snprintf(inside, sizeof inside, "%s/%s", path, facts[i]);
        if (n < 0 || (size_t)n >= sizeof inside || stat(inside, &info) == 0) return false;
    }
    return true;
}

/* A path; else the name of a set whose sizes ship with the program, with or without its owner ("lerobot/pusht"). */
static sg_code read_dataset(const char *name, sg_dataset *dataset, sg_status *status) {
    char folder[SG_PATH_BYTES], path[SG_PATH_BYTES];
    const char *slash = strrchr(name, '/');
    struct stat info;
    sg_status ignored;
    if (stat(name, &info) != 0 && sg_config_dir(NULL, folder, sizeof folder, &ignored) == SG_OK) {
        int n = snprintf(path, sizeof path, "%s/datasets/%s", folder, slash ? slash + 1 : name);
        if (n > 0 && (size_t)n < sizeof path && stat(path, &info) == 0) return sg_dataset_read(path, dataset, status);
    }
    sg_code code = sg_dataset_read(name, dataset, status);
    sg_catalogue *catalogue;
    if (code != SG_OK && is_other_kind(name)) {
        code = sg_catalogue_open(name, &catalogue, status);
        if (code != SG_OK) return code;
        *dataset = catalogue->info;
        sg_catalogue_close(catalogue);
        return SG_OK;
    }
    if (code == SG_OK || stat(name, &info) == 0) return code;
    char near[SG_NEAR_BYTES];
    sg_near_path(name, near, sizeof near);
    return sg_fail(status, code,
                   "data set %.256s does not exist: %s%s%sgive the folder that holds meta/info.json, a set that ships "
                   "under configs/datasets, or --frames, --cameras, --state-dim and --action-dim",
                   name, near[0] ? "did you mean '" : "", near, near[0] ? "'? Else " : "");
}

static sg_code read_files(const sg_args *a, sg_request *r, sg_status *status) {
    if (a->train_config) {
        sg_code code = sg_train_config_read(a->train_config, &r->train_config, status);
        if (code != SG_OK) return code;
        r->has_train_config = true;
    }
    if (a->dataset) {
        sg_code code = read_dataset(a->dataset, &r->dataset, status);
        if (code != SG_OK) return code;
        r->has_dataset = true;
    }
    return name_policy(a, r, status);
}

static sg_code collect(const sg_args *a, sg_request *r, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t i = 0; code == SG_OK && r->has_train_config && i < r->train_config.n_settings; i++) {
        const sg_setting *s = &r->train_config.settings[i];
        code = add(r, s->name, s->value, s->origin, status);
    }
    if (code == SG_OK && r->has_dataset) code = add_dataset(r, status);
    for (size_t i = 0; code == SG_OK && i < r->config.n; i++)
        code = add(r, r->config.items[i].name, r->config.items[i].value, r->config.items[i].origin, status);
    if (code == SG_OK) code = add_options(a, r, status);
    if (code == SG_OK) code = add_sets(a, r, status);
    return code;
}

sg_code sg_request_make(const sg_args *a, sg_device_class device_class, sg_request *r, sg_status *status) {
    memset(r, 0, sizeof *r);
    sg_code code = read_files(a, r, status);
    if (code == SG_OK) code = collect(a, r, status);
    if (code == SG_OK) code = framework_of(a, &r->policy.framework, status);
    if (code != SG_OK) {
        sg_request_clear(r);
        return code;
    }
    const sg_train_config *t = r->has_train_config ? &r->train_config : NULL;
    r->policy.policy = r->name;
    r->policy.device_class = device_class;
    r->policy.batch = a->batch.n ? a->batch.value[0] : t ? t->batch : 0;
    r->policy.accumulation = a->accumulation > 0 ? a->accumulation : t ? t->accumulation : 0;
    r->policy.ranks = a->ranks.n ? a->ranks.value[0] : 1;
    r->policy.precision = a->precision ? a->precision : t && t->precision[0] ? t->precision : NULL;
    r->policy.sharding = a->sharding;
    r->policy.settings = r->settings;
    r->policy.n_settings = r->n_settings;
    return SG_OK;
}

void sg_request_clear(sg_request *r) {
    if (r->has_train_config) sg_train_config_clear(&r->train_config);
    sg_settings_clear(&r->config);
    free(r->settings);
    memset(r, 0, sizeof *r);
}
