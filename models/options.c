/* options.c: a policy's configuration, from text to typed values within bounds. */
#include "models/options.h"
#include "kernels/nearest.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct option_value {
    int64_t integer;
    double real;
    bool flag;
    const char *text;
    int64_t list[SG_OPTION_LIST_MAX];
    size_t list_count;
    const char *origin; /* NULL: default */
} option_value;

struct sg_options {
    const sg_family *family;
    option_value value[]; /* parallel to family->keys */
};

/* True when `name` is one of the words of "a|b|c". */
static bool one_of(const char *name, const char *words) {
    size_t length = strlen(name);
    while (words && *words) {
        size_t word = strcspn(words, "|");
        if (word == length && strncmp(words, name, word) == 0) return true;
        words += word + (words[word] == '|');
    }
    return false;
}

static size_t find_key(const sg_family *family, const char *name) {
    for (size_t i = 0; i < family->n_keys; i++) {
        if (strcmp(family->keys[i].name, name) == 0 || one_of(name, family->keys[i].aliases)) return i;
    }
    return family->n_keys;
}

/* ---- messages ---- */

/* Keys as "a, b, c", ended by "..." where the buffer is too small. */
static void join_keys(const sg_family *family, char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < family->n_keys; i++) {
        int n = snprintf(out + used, size - used, "%s%s", i ? ", " : "", family->keys[i].name);
        if (n < 0 || (size_t)n + 5 >= size - used) {
            snprintf(out + used, size - used, " ...");
            return;
        }
        used += (size_t)n;
    }
}

static sg_code fail_unknown(const sg_family *family, const sg_setting *setting, sg_status *status) {
    const char **names = malloc((family->n_keys + 1) * sizeof *names);
    if (!names) return sg_fail_memory(status, (family->n_keys + 1) * sizeof *names, "key names");
    for (size_t i = 0; i < family->n_keys; i++) names[i] = family->keys[i].name;
    const char *near = sg_nearest(setting->name, names, family->n_keys);
    free(names);
    char known[800];
    join_keys(family, known, sizeof known);
    return sg_fail(status, SG_BAD_INPUT, "unknown key '%.80s' (%.80s)%s%s%s Keys of %s: %s", setting->name,
                   setting->origin, near ? ": did you mean '" : ".", near ? near : "", near ? "'?" : "", family->name,
                   known);
}

static sg_code fail_type(const sg_key *key, const sg_setting *setting, const char *wanted, sg_status *status) {
    return sg_fail(status, SG_BAD_INPUT, "%s = '%.80s' (%.80s) is not %s. %s: %s; default %s", key->name,
                   setting->value, setting->origin, wanted, key->name, key->help, key->default_text);
}

static sg_code fail_range(const sg_key *key, const sg_setting *setting, sg_status *status) {
    return sg_fail(status, SG_BAD_INPUT, "%s = '%.80s' (%.80s) is outside %.15g to %.15g. %s: %s; default %s",
                   key->name, setting->value, setting->origin, key->low, key->high, key->name, key->help,
                   key->default_text);
}

/* ---- conversions ---- */

static const char *skip_space(const char *s) {
    while (isspace((unsigned char)*s)) s++;
    return s;
}

typedef enum parse_result { PARSED, NOT_A_NUMBER, OUT_OF_RANGE } parse_result;

static parse_result parse_int(const char **cursor, const sg_key *key, int64_t *out) {
    char *end;
    errno = 0;
    long long value = strtoll(*cursor, &end, 10);
    if (end == *cursor) return NOT_A_NUMBER;
    *cursor = end;
    if (errno == ERANGE || (double)value < key->low || (double)value > key->high) return OUT_OF_RANGE;
    *out = value;
    return PARSED;
}

static sg_code read_int(const sg_key *key, const sg_setting *setting, option_value *out, sg_status *status) {
    const char *cursor = setting->value;
    parse_result result = parse_int(&cursor, key, &out->integer);
    if (result == NOT_A_NUMBER || *skip_space(cursor)) return fail_type(key, setting, "a whole number", status);
    return result == PARSED ? SG_OK : fail_range(key, setting, status);
}

static sg_code read_real(const sg_key *key, const sg_setting *setting, option_value *out, sg_status *status) {
    char *end;
    double value = strtod(setting->value, &end);
    if (end == setting->value || *skip_space(end) || isnan(value)) return fail_type(key, setting, "a number", status);
    if (value < key->low || value > key->high) return fail_range(key, setting, status);
    out->real = value;
    return SG_OK;
}

static sg_code read_bool(const sg_key *key, const sg_setting *setting, option_value *out, sg_status *status) {
    bool yes = one_of(setting->value, "true|True|yes|on|1"), no = one_of(setting->value, "false|False|no|off|0");
    if (!yes && !no) return fail_type(key, setting, "true or false", status);
    out->flag = yes;
    return SG_OK;
}

static sg_code read_text(const sg_key *key, const sg_setting *setting, option_value *out, sg_status *status) {
    if (key->choices && !one_of(setting->value, key->choices)) {
        return sg_fail(status, SG_BAD_INPUT, "%s = '%.80s' (%.80s) is not one of %s. %s: %s; default %s", key->name,
                       setting->value, setting->origin, key->choices, key->name, key->help, key->default_text);
    }
    out->text = setting->value;
    return SG_OK;
}

/* "512,256,128" or "[512, 256, 128]". */
static sg_code read_list(const sg_key *key, const sg_setting *setting, option_value *out, sg_status *status) {
    static const char wanted[] = "a list of whole numbers such as 512,256,128";
    const char *cursor = skip_space(setting->value);
    bool bracket = *cursor == '[';
    if (bracket) cursor = skip_space(cursor + 1);
    out->list_count = 0;
    for (;;) {
        if (out->list_count == SG_OPTION_LIST_MAX) {
            return sg_fail(status, SG_BAD_INPUT, "%s = '%.80s' (%.80s) has more than %d members", key->name,
                           setting->value, setting->origin, SG_OPTION_LIST_MAX);
        }
        parse_result result = parse_int(&cursor, key, &out->list[out->list_count++]);
        if (result == NOT_A_NUMBER) return fail_type(key, setting, wanted, status);
        if (result == OUT_OF_RANGE) return fail_range(key, setting, status);
        cursor = skip_space(cursor);
        if (*cursor != ',') break;
        cursor++;
    }
    if (bracket && *cursor++ != ']') return fail_type(key, setting, wanted, status);
    return *skip_space(cursor) ? fail_type(key, setting, wanted, status) : SG_OK;
}

static sg_code read_value(const sg_key *key, const sg_setting *setting, option_value *out, sg_status *status) {
    switch (key->type) {
    case SG_KEY_INT: return read_int(key, setting, out, status);
    case SG_KEY_REAL: return read_real(key, setting, out, status);
    case SG_KEY_BOOL: return read_bool(key, setting, out, status);
    case SG_KEY_TEXT: return read_text(key, setting, out, status);
    case SG_KEY_INT_LIST: return read_list(key, setting, out, status);
    }
    return sg_fail(status, SG_BAD_INPUT, "key %s has no type", key->name);
}

static sg_code apply(sg_options *options, const sg_setting *given, sg_status *status) {
    sg_setting setting = {given->name ? given->name : "", given->value ? given->value : "",
                          given->origin ? given->origin : "setting"};
    size_t index = find_key(options->family, setting.name);
    if (index == options->family->n_keys) return fail_unknown(options->family, &setting, status);
    sg_code code = read_value(&options->family->keys[index], &setting, &options->value[index], status);
    if (!code) options->value[index].origin = setting.origin;
    return code;
}

sg_code sg_options_make(const sg_family *family, const sg_setting *settings, size_t n_settings, sg_options **options,
                        sg_status *status) {
    *options = NULL;
    size_t bytes = sizeof(sg_options) + family->n_keys * sizeof(option_value);
    sg_options *made = calloc(1, bytes);
    if (!made) return sg_fail_memory(status, bytes, "policy options");
    made->family = family;
    sg_code code = SG_OK;
    for (size_t i = 0; !code && i < family->n_keys; i++) {
        sg_setting setting = {family->keys[i].name, family->keys[i].default_text, "default"};
        code = read_value(&family->keys[i], &setting, &made->value[i], status);
    }
    for (size_t i = 0; !code && i < n_settings; i++) code = apply(made, &settings[i], status);
    if (code) {
        sg_options_free(made);
        return code;
    }
    *options = made;
    return SG_OK;
}

void sg_options_free(sg_options *options) {
    free(options);
}

/* ---- access ---- */

static const option_value *value_of(const sg_options *options, const char *key, sg_key_type type) {
    size_t index = find_key(options->family, key);
    assert(index < options->family->n_keys && options->family->keys[index].type == type);
    (void)type;
    return &options->value[index];
}

int64_t sg_option_int(const sg_options *options, const char *key) {
    return value_of(options, key, SG_KEY_INT)->integer;
}

double sg_option_real(const sg_options *options, const char *key) {
    return value_of(options, key, SG_KEY_REAL)->real;
}

bool sg_option_bool(const sg_options *options, const char *key) {
    return value_of(options, key, SG_KEY_BOOL)->flag;
}

const char *sg_option_text(const sg_options *options, const char *key) {
    return value_of(options, key, SG_KEY_TEXT)->text;
}

const int64_t *sg_option_list(const sg_options *options, const char *key, size_t *count) {
    const option_value *value = value_of(options, key, SG_KEY_INT_LIST);
    *count = value->list_count;
    return value->list;
}

bool sg_option_given(const sg_options *options, const char *key) {
    size_t index = find_key(options->family, key);
    assert(index < options->family->n_keys);
    return options->value[index].origin != NULL;
}

const char *sg_option_origin(const sg_options *options, const char *key) {
    size_t index = find_key(options->family, key);
    assert(index < options->family->n_keys);
    const char *origin = options->value[index].origin;
    return origin ? origin : "default";
}
