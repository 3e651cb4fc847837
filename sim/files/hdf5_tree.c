#include "sim/files/hdf5_image.h"

#include <stdlib.h>
#include <string.h>

sg_h5tree *sg_h5tree_new(sg_status *status) {
    sg_h5tree *tree = calloc(1, sizeof *tree);
    if (tree) tree->name = calloc(1, 1);
    if (!tree || !tree->name) {
        free(tree);
        (void)sg_fail_memory(status, sizeof *tree, "a group");
        return NULL;
    }
    return tree;
}

static void value_clear(sg_h5tree_value *value) {
    free(value->name);
    free(value->text);
    free(value->doubles);
}

void sg_h5tree_free(sg_h5tree *tree) {
    if (!tree) return;
    for (size_t i = 0; i < tree->n_values; i++) value_clear(&tree->values[i]);
    for (size_t i = 0; i < tree->n_groups; i++) sg_h5tree_free(tree->groups[i]);
    free(tree->values);
    free((void *)tree->groups);
    free(tree->name);
    free(tree);
}

bool sg_h5tree_name_is_sound(const char *name) {
    size_t length = strnlen(name, SG_H5TREE_NAME_BYTES);
    bool sound = length > 0 && length < SG_H5TREE_NAME_BYTES && strcmp(name, ".") != 0;
    for (size_t i = 0; sound && i < length; i++) sound = name[i] > ' ' && name[i] <= '~' && name[i] != '/';
    return sound;
}

/* Bytes of the well-formed UTF-8 sequence at p (Unicode 15, table 3-7), 0 when there is none. */
static size_t utf8_length(const unsigned char *p) {
    if (p[0] < 0x80) return 1;
    size_t length = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    unsigned char low = 0x80, high = 0xBF;
    if (p[0] < 0xC2 || p[0] > 0xF4) return 0;
    if (p[0] == 0xE0) low = 0xA0;
    if (p[0] == 0xED) high = 0x9F;
    if (p[0] == 0xF0) low = 0x90;
    if (p[0] == 0xF4) high = 0x8F;
    if (p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    return length;
}

bool sg_text_is_clean(const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        if ((*p < ' ' && *p != '\t' && *p != '\n') || *p == 0x7F) return false;
        size_t length = utf8_length(p);
        if (length == 0) return false;
        p += length;
    }
    return true;
}

static sg_code check_name(const char *name, sg_status *status) {
    if (sg_h5tree_name_is_sound(name)) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "'%.40s' cannot name a group or value in a file: 1 to %d printable characters",
                   name, SG_H5TREE_NAME_BYTES - 1);
}

static sg_h5tree *find(const sg_h5tree *tree, const char *name) {
    for (size_t i = 0; i < tree->n_groups; i++)
        if (strcmp(tree->groups[i]->name, name) == 0) return tree->groups[i];
    return NULL;
}

const sg_h5tree *sg_h5tree_find(const sg_h5tree *tree, const char *name) {
    return find(tree, name);
}

static bool grow(void **items, size_t n, size_t *room, size_t item_bytes) {
    if (n < *room) return true;
    size_t more = *room ? *room * 2 : 8;
    void *bigger = reallocarray(*items, more, item_bytes);
    if (!bigger) return false;
    *items = bigger;
    *room = more;
    return true;
}

sg_code sg_h5tree_group(sg_h5tree *tree, const char *name, sg_h5tree **group, sg_status *status) {
    if ((*group = find(tree, name)) != NULL) return SG_OK;
    return sg_h5tree_append_group(tree, name, group, status);
}

sg_code sg_h5tree_append_group(sg_h5tree *tree, const char *name, sg_h5tree **group, sg_status *status) {
    sg_code code = check_name(name, status);
    if (code != SG_OK) return code;
    sg_h5tree *child = sg_h5tree_new(status);
    if (!child) return SG_MACHINE;
    free(child->name);
    child->name = strdup(name);
    if (!child->name || !grow((void **)&tree->groups, tree->n_groups, &tree->room_groups, sizeof(sg_h5tree *))) {
        sg_h5tree_free(child);
        return sg_fail_memory(status, sizeof(sg_h5tree), "a group");
    }
    tree->groups[tree->n_groups++] = child;
    *group = child;
    return SG_OK;
}

sg_h5tree *sg_h5tree_take(sg_h5tree *tree, const char *name) {
    sg_h5tree *group = find(tree, name);
    if (!group) return NULL;
    size_t i = 0;
    while (tree->groups[i] != group) i++;
    tree->n_groups--;
    memmove((void *)&tree->groups[i], (void *)&tree->groups[i + 1], (tree->n_groups - i) * sizeof(sg_h5tree *));
    return group;
}

void sg_h5tree_put_back(sg_h5tree *tree, sg_h5tree *group) {
    if (group) tree->groups[tree->n_groups++] = group;
}

void sg_h5tree_remove(sg_h5tree *tree, const char *name) {
    sg_h5tree_free(sg_h5tree_take(tree, name));
}

sg_code sg_h5tree_append_value(sg_h5tree *tree, sg_h5tree_value value, const char *name, sg_status *status) {
    sg_code code = check_name(name, status);
    if (code == SG_OK) {
        value.name = strdup(name);
        if (!value.name || !grow((void **)&tree->values, tree->n_values, &tree->room_values, sizeof value))
            code = sg_fail_memory(status, sizeof value, name);
    }
    if (code == SG_OK)
        tree->values[tree->n_values++] = value;
    else
        value_clear(&value);
    return code;
}

/* Appends and moves over an older value of that name. */
static sg_code put(sg_h5tree *tree, sg_h5tree_value value, const char *name, sg_status *status) {
    sg_code code = sg_h5tree_append_value(tree, value, name, status);
    if (code != SG_OK) return code;
    size_t last = tree->n_values - 1, i = 0;
    while (strcmp(tree->values[i].name, name) != 0) i++;
    if (i == last) return SG_OK;
    value_clear(&tree->values[i]);
    tree->values[i] = tree->values[last];
    tree->n_values = last;
    return SG_OK;
}

sg_code sg_h5tree_set_text(sg_h5tree *tree, const char *name, const char *text, sg_status *status) {
    size_t length = strnlen(text, SG_H5TREE_TEXT_BYTES);
    if (length >= SG_H5TREE_TEXT_BYTES)
        return sg_fail(status, SG_BAD_INPUT, "the text of %s is too long for a file: at most %d bytes", name,
                       SG_H5TREE_TEXT_BYTES - 1);
    if (!sg_text_is_clean(text))
        return sg_fail(status, SG_BAD_INPUT, "the text of %s is not UTF-8 without control characters", name);
    char *copy = strndup(text, length);
    if (!copy) return sg_fail_memory(status, length, name);
    return put(tree, (sg_h5tree_value){.kind = SG_H5TREE_TEXT, .text = copy}, name, status);
}

sg_code sg_h5tree_set_i64(sg_h5tree *tree, const char *name, int64_t value, sg_status *status) {
    return put(tree, (sg_h5tree_value){.kind = SG_H5TREE_I64, .i64 = value}, name, status);
}

sg_code sg_h5tree_set_u64(sg_h5tree *tree, const char *name, uint64_t value, sg_status *status) {
    return put(tree, (sg_h5tree_value){.kind = SG_H5TREE_U64, .u64 = value}, name, status);
}

sg_code sg_h5tree_set_f64(sg_h5tree *tree, const char *name, double value, sg_status *status) {
    return put(tree, (sg_h5tree_value){.kind = SG_H5TREE_F64, .f64 = value}, name, status);
}

sg_code sg_h5tree_set_doubles(sg_h5tree *tree, const char *name, const double *values, size_t n, sg_status *status) {
    double *copy = reallocarray(NULL, n ? n : 1, sizeof *copy);
    if (!copy) return sg_fail_memory(status, (unsigned long long)n * sizeof *copy, name);
    if (n) memcpy(copy, values, n * sizeof *copy);
    return put(tree, (sg_h5tree_value){.kind = SG_H5TREE_DOUBLES, .doubles = copy, .n = n}, name, status);
}

const sg_h5tree_value *sg_h5tree_value_of(const sg_h5tree *tree, const char *name, sg_h5tree_kind kind) {
    for (size_t i = 0; i < tree->n_values; i++)
        if (tree->values[i].kind == kind && strcmp(tree->values[i].name, name) == 0) return &tree->values[i];
    return NULL;
}

static sg_code need(const sg_h5tree *tree, const char *name, sg_h5tree_kind kind, const sg_h5tree_value **value,
                    sg_status *status) {
    static const char *const kinds[] = {"text", "64-bit integer", "64-bit unsigned integer", "double",
                                        "1-D dataset of doubles"};
    *value = sg_h5tree_value_of(tree, name, kind);
    if (*value) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "group '%s' lacks '%s' (%s)", tree->name, name, kinds[kind]);
}

sg_code sg_h5tree_get_text(const sg_h5tree *tree, const char *name, char *text, size_t bytes, sg_status *status) {
    const sg_h5tree_value *value;
    sg_code code = need(tree, name, SG_H5TREE_TEXT, &value, status);
    if (code != SG_OK) return code;
    size_t length = strlen(value->text);
    if (length >= bytes)
        return sg_fail(status, SG_BAD_INPUT, "'%s' of group '%s' has %zu bytes, at most %zu are allowed", name,
                       tree->name, length, bytes - 1);
    memcpy(text, value->text, length + 1);
    return SG_OK;
}

sg_code sg_h5tree_get_i64(const sg_h5tree *tree, const char *name, int64_t *value, sg_status *status) {
    const sg_h5tree_value *found;
    sg_code code = need(tree, name, SG_H5TREE_I64, &found, status);
    if (code == SG_OK) *value = found->i64;
    return code;
}

sg_code sg_h5tree_get_u64(const sg_h5tree *tree, const char *name, uint64_t *value, sg_status *status) {
    const sg_h5tree_value *found;
    sg_code code = need(tree, name, SG_H5TREE_U64, &found, status);
    if (code == SG_OK) *value = found->u64;
    return code;
}

sg_code sg_h5tree_get_f64(const sg_h5tree *tree, const char *name, double *value, sg_status *status) {
    const sg_h5tree_value *found;
    sg_code code = need(tree, name, SG_H5TREE_F64, &found, status);
    if (code == SG_OK) *value = found->f64;
    return code;
}

sg_code sg_h5tree_get_doubles(const sg_h5tree *tree, const char *name, const double **values, size_t *n,
                              sg_status *status) {
    const sg_h5tree_value *found;
    sg_code code = need(tree, name, SG_H5TREE_DOUBLES, &found, status);
    if (code != SG_OK) return code;
    *values = found->doubles;
    *n = found->n;
    return SG_OK;
}
