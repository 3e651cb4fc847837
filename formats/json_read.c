#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "formats/tree_build.h"

static sg_code add_value(sg_tree *tree, sg_node *parent, const char *key, const json_t *value, int depth,
                         const char *name, sg_status *status) {
    if (depth > SG_TREE_MAX_DEPTH) return sg_fail(status, SG_BAD_INPUT, "%s: nested too deeply", name);
    char number[40];
    const char *text = NULL;
    size_t bytes = 0;
    sg_node_kind kind = SG_NODE_SCALAR;
    switch (json_typeof(value)) {
    case JSON_OBJECT: kind = SG_NODE_MAP; break;
    case JSON_ARRAY: kind = SG_NODE_LIST; break;
    case JSON_NULL: kind = SG_NODE_NULL; break;
    case JSON_TRUE: text = "true"; break;
    case JSON_FALSE: text = "false"; break;
    case JSON_STRING:
        text = json_string_value(value);
        bytes = json_string_length(value);
        break;
    case JSON_INTEGER:
        (void)snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        text = number;
        break;
    case JSON_REAL:
        (void)snprintf(number, sizeof number, "%.17g", json_real_value(value));
        text = number;
        break;
    }
    if (text && !bytes) bytes = strlen(text);
    sg_node *node = sg_tree_add(tree, parent, kind, key, text, bytes);
    if (!node) return sg_fail(status, SG_MACHINE, "reading %s: no memory for its contents", name);
    node->text_only = json_is_string(value);
    if (kind == SG_NODE_MAP) {
        void *each = json_object_iter((json_t *)value);
        for (; each; each = json_object_iter_next((json_t *)value, each)) {
            sg_code code = add_value(tree, node, json_object_iter_key(each), json_object_iter_value(each), depth + 1,
                                     name, status);
            if (code) return code;
        }
    } else if (kind == SG_NODE_LIST) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            sg_code code = add_value(tree, node, NULL, json_array_get(value, i), depth + 1, name, status);
            if (code) return code;
        }
    }
    return SG_OK;
}

sg_code sg_tree_parse_json(const char *name, const char *text, size_t bytes, sg_tree **tree, sg_status *status) {
    *tree = NULL;
    json_error_t error;
    errno = 0; /* where memory ends, the parser speaks of invalid tokens, or of nothing */
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!root && errno == ENOMEM) return sg_fail_memory(status, bytes, name);
    if (!root) return sg_fail(status, SG_BAD_INPUT, "%s:%d:%d: %s", name, error.line, error.column, error.text);
    sg_tree *made = sg_tree_new(name);
    sg_code code =
        made ? add_value(made, NULL, NULL, root, 1, name, status) : sg_fail_memory(status, sizeof(void *), name);
    json_decref(root);
    if (code)
        sg_tree_free(made);
    else
        *tree = made;
    return code;
}
