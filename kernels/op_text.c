/* op_text.c: an op in one line, for messages. */
#include "kernels/op.h"

#include <stdio.h>
#include <string.h>

static size_t append(char *text, size_t bytes, size_t at, const char *part) {
    size_t n = strlen(part);
    if (at + n >= bytes) n = bytes - 1 - at;
    memcpy(text + at, part, n);
    text[at + n] = '\0';
    return at + n;
}

static size_t append_desc(char *text, size_t bytes, size_t at, const sg_desc *desc) {
    char part[32];
    at = append(text, bytes, at, " ");
    at = append(text, bytes, at, sg_dtype_name((sg_dtype)desc->dtype));
    for (int d = 0; d < desc->ndim; d++) {
        (void)snprintf(part, sizeof part, "%c%lld", d ? ',' : '[', (long long)desc->size[d]);
        at = append(text, bytes, at, part);
    }
    return append(text, bytes, at, desc->ndim ? "]" : "[]");
}

void sg_op_text(const sg_op *op, char *text, size_t bytes) {
    enum { SHOWN = 4 };
    size_t at = append(text, bytes, 0, sg_op_kind_name((sg_op_kind)op->kind));
    if (op->attrs.fn != SG_FN_NONE) {
        at = append(text, bytes, at, " ");
        at = append(text, bytes, at, sg_fn_name((sg_fn)op->attrs.fn));
    }
    for (int i = 0; i < op->n_in && i < SHOWN; i++) at = append_desc(text, bytes, at, &op->desc[i]);
    if (op->n_in > SHOWN) at = append(text, bytes, at, " ..");
    at = append(text, bytes, at, " ->");
    for (int i = 0; i < op->n_out && i < SHOWN; i++) at = append_desc(text, bytes, at, &op->desc[op->n_in + i]);
    if (op->n_out > SHOWN) (void)append(text, bytes, at, " ..");
}
