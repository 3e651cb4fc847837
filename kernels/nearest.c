#include "kernels/nearest.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { MAX_NAME = 64 };

static size_t smallest(size_t a, size_t b, size_t c) {
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Levenshtein distance with transposition of neighbours; of longer names the first MAX_NAME characters count. */
static size_t edit_distance(const char *a, const char *b) {
    size_t n = strnlen(a, MAX_NAME), m = strnlen(b, MAX_NAME);
    size_t row[3][MAX_NAME + 1];
    for (size_t j = 0; j <= m; j++) row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[i % 3];
        const size_t *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            now[j] = smallest(last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < now[j]) now[j] = before[j - 2] + 1;
        }
    }
    return row[n % 3][m];
}

const char *sg_nearest(const char *name, const char *const *known, size_t count) {
    size_t length = strnlen(name, MAX_NAME), best = SIZE_MAX;
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(name, known[i]);
        /* A missing ending ("chunk" for "chunk_size") is likelier than as many typing errors. */
        if (length >= 3 && strncmp(known[i], name, length) == 0 && distance > 1) distance = 1;
        if (distance < best) {
            best = distance;
            nearest = known[i];
        }
    }
    return best <= 1 + length / 4 ? nearest : NULL;
}
