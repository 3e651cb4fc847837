#include "calibration/loader/dataset_text.h"

#include <stdlib.h>
#include <string.h>

/* The next field, up to ';' or the end; *at goes behind it. */
static bool next_field(const char **at, char *out, size_t bytes) {
    if (!*at) return false;
    size_t n = strcspn(*at, ";");
    if (n >= bytes) return false;
    memcpy(out, *at, n);
    out[n] = 0;
    *at = (*at)[n] ? *at + n + 1 : NULL;
    return true;
}

static int64_t number(const char *text, const char **end) {
    char *stop;
    long long value = strtoll(text, &stop, 10);
    *end = stop;
    return stop > text && value > 0 && value <= 1 << 20 ? value : 0;
}

bool sg_dataset_text_read(const char *text, sg_dataset_text *out) {
    char field[160];
    const char *at = text, *end;
    memset(out, 0, sizeof *out);
    if (!next_field(&at, field, sizeof field) || !next_field(&at, out->codec, sizeof out->codec) ||
        !next_field(&at, field, sizeof field))
        return false;
    out->height = number(field, &end);
    if (*end != 'x') return false;
    out->width = number(end + 1, &end);
    if (*end || !out->height || !out->width) return false;
    while (next_field(&at, field, sizeof field)) {
        if (strncmp(field, "gop=", 4) == 0) out->gop = number(field + 4, &end);
        if (strncmp(field, "cameras=", 8) == 0) out->cameras = number(field + 8, &end);
    }
    return true;
}
