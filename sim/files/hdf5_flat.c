#include "sim/files/hdf5_image.h"

#include <stdlib.h>
#include <string.h>

/* A record: tag, length of the name, name, and for values the length of the payload and the payload. Both ends are the
 * same program on the same machine, so numbers are in its own byte order. */
typedef struct sg_flat_head {
    uint32_t tag, name_bytes;
    uint64_t payload_bytes;
} flat_head;

enum { TAG_GROUP = 100, TAG_END = 101 }; /* beside sg_h5tree_kind for values */

static bool record(sg_bytes *flat, uint32_t tag, const char *name, const void *payload, size_t n) {
    flat_head head = {.tag = tag, .name_bytes = (uint32_t)strlen(name), .payload_bytes = n};
    return sg_bytes_add(flat, &head, sizeof head) && sg_bytes_add(flat, name, head.name_bytes) &&
           sg_bytes_add(flat, payload, n);
}

bool sg_flat_group(sg_bytes *flat, const char *name) {
    return record(flat, TAG_GROUP, name, NULL, 0);
}

bool sg_flat_end(sg_bytes *flat) {
    return record(flat, TAG_END, "", NULL, 0);
}

bool sg_flat_value(sg_bytes *flat, const char *name, sg_h5tree_kind kind, const void *payload, size_t n) {
    return record(flat, kind, name, payload, n);
}

typedef struct sg_flat_reader {
    const unsigned char *at;
    size_t left;
} flat_reader;

typedef struct sg_flat_record {
    uint32_t tag;
    char name[SG_H5TREE_NAME_BYTES];
    const unsigned char *payload;
    size_t payload_bytes;
} flat_record;

static bool next_record(flat_reader *reader, flat_record *out) {
    flat_head head;
    if (reader->left < sizeof head) return false;
    memcpy(&head, reader->at, sizeof head);
    reader->at += sizeof head;
    reader->left -= sizeof head;
    if (head.name_bytes >= sizeof out->name || head.name_bytes > reader->left) return false;
    memcpy(out->name, reader->at, head.name_bytes);
    out->name[head.name_bytes] = 0;
    reader->at += head.name_bytes;
    reader->left -= head.name_bytes;
    if (head.payload_bytes > reader->left) return false;
    out->tag = head.tag;
    out->payload = reader->at;
    out->payload_bytes = (size_t)head.payload_bytes;
    reader->at += out->payload_bytes;
    reader->left -= out->payload_bytes;
    return true;
}

/* The payload as a value; false when its size or content is impossible for the kind. *no_memory tells the difference. */
static bool decode(const flat_record *record, sg_h5tree_value *value, bool *no_memory) {
    size_t n = record->payload_bytes;
    *value = (sg_h5tree_value){.kind = (sg_h5tree_kind)record->tag};
    switch (record->tag) {
    case SG_H5TREE_I64:
        if (n == sizeof value->i64) memcpy(&value->i64, record->payload, n);
        return n == sizeof value->i64;
    case SG_H5TREE_U64:
        if (n == sizeof value->u64) memcpy(&value->u64, record->payload, n);
        return n == sizeof value->u64;
    case SG_H5TREE_F64:
        if (n == sizeof value->f64) memcpy(&value->f64, record->payload, n);
        return n == sizeof value->f64;
    case SG_H5TREE_TEXT:
        if (n >= SG_H5TREE_TEXT_BYTES) return false;
        value->text = strndup((const char *)record->payload, n);
        *no_memory = !value->text;
        if (value->text && sg_text_is_clean(value->text)) return true;
        free(value->text);
        return false;
    case SG_H5TREE_DOUBLES:
        if (n % sizeof(double) != 0) return false;
        value->n = n / sizeof(double);
        value->doubles = malloc(n ? n : 1);
        *no_memory = !value->doubles;
        if (value->doubles && n) memcpy(value->doubles, record->payload, n);
        return value->doubles != NULL;
    default: return false;
    }
}

static sg_code odd(sg_status *status, const char *what, const char *name) {
    return sg_fail(status, SG_BAD_INPUT, "its structure is unsound (%s at '%.40s')", what, name);
}

/* Attributes come sorted, then datasets, then groups: so duplicates show without a search. */
static bool in_order(const sg_h5tree *tree, const flat_record *record) {
    if (record->tag == TAG_GROUP)
        return tree->n_groups == 0 || strcmp(tree->groups[tree->n_groups - 1]->name, record->name) < 0;
    if (tree->n_groups > 0) return false;
    if (tree->n_values == 0) return true;
    const sg_h5tree_value *last = &tree->values[tree->n_values - 1];
    bool last_is_dataset = last->kind == SG_H5TREE_DOUBLES, is_dataset = record->tag == SG_H5TREE_DOUBLES;
    if (last_is_dataset != is_dataset) return is_dataset;
    return strcmp(last->name, record->name) < 0;
}

static sg_code unflatten_value(sg_h5tree *tree, const flat_record *record, sg_status *status) {
    sg_h5tree_value value;
    bool no_memory = false;
    if (!decode(record, &value, &no_memory))
        return no_memory ? sg_fail_memory(status, record->payload_bytes, record->name)
                         : odd(status, "an impossible value", record->name);
    return sg_h5tree_append_value(tree, value, record->name, status);
}

static sg_code unflatten_into(sg_h5tree *root, flat_reader *reader, sg_status *status) {
    sg_h5tree *path[SG_H5TREE_DEPTH + 1] = {root};
    int depth = 0;
    while (reader->left > 0) {
        flat_record record;
        if (!next_record(reader, &record)) return odd(status, "a broken record", path[depth]->name);
        if (record.tag == TAG_END) {
            if (depth == 0) return odd(status, "one end too many", "");
            depth--;
            continue;
        }
        if (!sg_h5tree_name_is_sound(record.name)) return odd(status, "an impossible name", path[depth]->name);
        if (!in_order(path[depth], &record)) return odd(status, "a name twice", record.name);
        sg_code code = SG_OK;
        if (record.tag == TAG_GROUP) {
            if (depth == SG_H5TREE_DEPTH) return odd(status, "groups nested too deep", record.name);
            code = sg_h5tree_append_group(path[depth], record.name, &path[depth + 1], status);
            depth++;
        } else {
            code = unflatten_value(path[depth], &record, status);
        }
        if (code != SG_OK) return code;
    }
    return depth == 0 ? SG_OK : odd(status, "an end too few", path[depth]->name);
}

sg_code sg_h5tree_unflatten(const void *flat, size_t n, sg_h5tree **tree, sg_status *status) {
    *tree = NULL;
    sg_h5tree *root = sg_h5tree_new(status);
    if (!root) return SG_MACHINE;
    flat_reader reader = {flat, n};
    sg_code code = unflatten_into(root, &reader, status);
    if (code == SG_OK)
        *tree = root;
    else
        sg_h5tree_free(root);
    return code;
}
