#include "datasets/reader/reader_keep.h"

#include <stdlib.h>
#include <string.h>

sg_code sg_keep_start(sg_keep *keep, size_t most, void (*close)(void *value), sg_status *status) {
    *keep = (sg_keep){.close = close, .most = most};
    keep->kept = calloc(most, sizeof *keep->kept);
    return keep->kept ? SG_OK : sg_fail_memory(status, most * sizeof *keep->kept, "a list of open files");
}

static void drop(sg_keep *keep, size_t i) {
    keep->close(keep->kept[i].value);
    free(keep->kept[i].name);
    keep->n--;
    keep->kept[i] = keep->kept[keep->n];
}

void sg_keep_end(sg_keep *keep) {
    while (keep->n) drop(keep, keep->n - 1);
    free(keep->kept);
    *keep = (sg_keep){0};
}

static size_t find(const sg_keep *keep, const char *name) {
    size_t i = 0;
    while (i < keep->n && strcmp(keep->kept[i].name, name) != 0) i++;
    return i;
}

void *sg_keep_get(sg_keep *keep, const char *name) {
    size_t i = find(keep, name);
    if (i == keep->n) return NULL;
    keep->uses++;
    keep->kept[i].used = keep->uses;
    return keep->kept[i].value;
}

bool sg_keep_drop_oldest(sg_keep *keep) {
    size_t oldest = 0;
    if (keep->n < 2) return false;
    for (size_t i = 1; i < keep->n; i++)
        if (keep->kept[i].used < keep->kept[oldest].used) oldest = i;
    drop(keep, oldest);
    return true;
}

sg_code sg_keep_put(sg_keep *keep, const char *name, void *value, sg_status *status) {
    char *copy = strdup(name);
    if (!copy) {
        keep->close(value);
        return sg_fail_memory(status, strlen(name) + 1, "a file's name");
    }
    if (keep->n == keep->most && !sg_keep_drop_oldest(keep)) drop(keep, 0);
    keep->uses++;
    keep->kept[keep->n] = (sg_kept){copy, value, keep->uses};
    keep->n++;
    return SG_OK;
}

void sg_keep_drop(sg_keep *keep, const char *name) {
    size_t i = find(keep, name);
    if (i < keep->n) drop(keep, i);
}
