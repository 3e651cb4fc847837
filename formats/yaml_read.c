#include <string.h>
#include <yaml.h>

#include "formats/tree_build.h"

typedef struct reader {
    yaml_parser_t parser;
    sg_tree *tree;
    sg_status *status;
} reader;

static sg_code fail_at(reader *r, yaml_mark_t mark, const char *what, const char *name) {
    return sg_fail(r->status, SG_BAD_INPUT, "%s:%zu:%zu: %s", name, mark.line + 1, mark.column + 1, what);
}

static sg_code next_event(reader *r, yaml_event_t *event, const char *name) {
    if (yaml_parser_parse(&r->parser, event)) return SG_OK;
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) return sg_fail_memory(r->status, 0, name);
    const char *problem = p->problem ? p->problem : "not YAML";
    yaml_mark_t mark = p->problem_mark;
    if (p->error == YAML_READER_ERROR)
        return sg_fail(r->status, SG_BAD_INPUT, "%s: byte %zu: %s", name, p->problem_offset, problem);
    return fail_at(r, mark, problem, name);
}

/* Scalars that stand for nothing in YAML. */
static bool is_null(const char *text) {
    return !*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

/* Adds the node that `event` begins. On return the event is deleted. */
static sg_code add_node(reader *r, yaml_event_t *event, sg_node *parent, const char *key, int depth, const char *name) {
    sg_node *node = NULL;
    yaml_mark_t mark = event->start_mark;
    yaml_event_type_t type = event->type;
    sg_code code = SG_OK;
    if (depth > SG_TREE_MAX_DEPTH) {
        code = fail_at(r, mark, "nested too deeply", name);
    } else if (type == YAML_SCALAR_EVENT) {
        if (event->data.scalar.anchor) {
            code = fail_at(r, mark, "anchors are not supported: write the value where it is used", name);
        } else {
            const char *text = (const char *)event->data.scalar.value;
            bool quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
            if (strlen(text) != event->data.scalar.length) {
                code = fail_at(r, mark, "the text contains a NUL character", name);
            } else {
                bool nothing = !quoted && is_null(text);
                node = sg_tree_add(r->tree, parent, nothing ? SG_NODE_NULL : SG_NODE_SCALAR, key, text,
                                   event->data.scalar.length);
                if (node) node->text_only = quoted;
            }
        }
    } else if (type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT) {
        bool list = type == YAML_SEQUENCE_START_EVENT;
        if (list ? event->data.sequence_start.anchor : event->data.mapping_start.anchor)
            code = fail_at(r, mark, "anchors are not supported: write the value where it is used", name);
        else
            node = sg_tree_add(r->tree, parent, list ? SG_NODE_LIST : SG_NODE_MAP, key, NULL, 0);
    } else {
        code = fail_at(r, mark, "aliases are not supported: write the value where it is used", name);
    }
    yaml_event_delete(event);
    if (code) return code;
    if (!node) return sg_fail(r->status, SG_MACHINE, "reading %s: no memory for its contents", name);
    node->line = (int)mark.line + 1;
    node->column = (int)mark.column + 1;
    yaml_event_type_t end = type == YAML_SEQUENCE_START_EVENT ? YAML_SEQUENCE_END_EVENT : YAML_MAPPING_END_EVENT;
    while (type != YAML_SCALAR_EVENT) {
        yaml_event_t inner;
        if ((code = next_event(r, &inner, name))) return code;
        if (inner.type == end) {
            yaml_event_delete(&inner);
            break;
        }
        char child_key[256] = "";
        if (type == YAML_MAPPING_START_EVENT) {
            yaml_mark_t at = inner.start_mark;
            bool bad = inner.type != YAML_SCALAR_EVENT || inner.data.scalar.length >= sizeof child_key;
            if (!bad) memcpy(child_key, inner.data.scalar.value, inner.data.scalar.length + 1);
            yaml_event_delete(&inner);
            if (bad) return fail_at(r, at, "a key must be plain text of less than 256 bytes", name);
            /* every key is compared with those before it */
            if (node->n_children >= SG_TREE_MAX_KEYS) return fail_at(r, at, "more than 10000 keys in one map", name);
            if (sg_node_get(node, child_key)) return fail_at(r, at, "this key stands here twice", name);
            if ((code = next_event(r, &inner, name))) return code;
            code = add_node(r, &inner, node, child_key, depth + 1, name);
        } else {
            code = add_node(r, &inner, node, NULL, depth + 1, name);
        }
        if (code) return code;
    }
    return SG_OK;
}

static sg_code read_document(reader *r, const char *name) {
    bool any = false;
    for (;;) {
        yaml_event_t event;
        sg_code code = next_event(r, &event, name);
        if (code) return code;
        yaml_event_type_t type = event.type;
        if (type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_START_EVENT || type == YAML_DOCUMENT_END_EVENT ||
            type == YAML_STREAM_END_EVENT) {
            yaml_event_delete(&event);
            if (type != YAML_STREAM_END_EVENT) continue;
            break;
        }
        if (any) {
            code = fail_at(r, event.start_mark, "a second document begins here: one is expected", name);
            yaml_event_delete(&event);
            return code;
        }
        any = true;
        if ((code = add_node(r, &event, NULL, NULL, 1, name))) return code;
    }
    if (!any && !sg_tree_add(r->tree, NULL, SG_NODE_MAP, NULL, NULL, 0))
        return sg_fail(r->status, SG_MACHINE, "reading %s: no memory for its contents", name);
    return SG_OK;
}

sg_code sg_tree_parse_yaml(const char *name, const char *text, size_t bytes, sg_tree **tree, sg_status *status) {
    *tree = NULL;
    reader r = {.tree = sg_tree_new(name), .status = status};
    if (!r.tree) return sg_fail_memory(status, 0, name);
    if (!yaml_parser_initialize(&r.parser)) {
        sg_tree_free(r.tree);
        return sg_fail_memory(status, sizeof r.parser, name);
    }
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, bytes);
    sg_code code = read_document(&r, name);
    yaml_parser_delete(&r.parser);
    if (code)
        sg_tree_free(r.tree);
    else
        *tree = r.tree;
    return code;
}
