/* visible.c: CUDA_VISIBLE_DEVICES, read as the CUDA programming guide says CUDA does. */
#include "kernels/nvidia/driver.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS_MAX = 128, ENTRY_BYTES = 96 };

/* The GPU that an entry names: its index, or the beginning of exactly one UUID; -1: none. */
static int named(const char *entry, const char *const *uuids, int gpus) {
    char *end;
    if (isdigit((unsigned char)entry[0])) {
        long index = strtol(entry, &end, 10);
        return *end == '\0' && index >= 0 && index < gpus ? (int)index : -1;
    }
    size_t n = strlen(entry);
    int found = -1, hits = 0;
    for (int i = 0; n > 4 && i < gpus; i++)
        if (strncmp(uuids[i], entry, n) == 0) {
            found = i;
            hits++;
        }
    return hits == 1 ? found : -1;
}

/* Copies the entry at *at without the blanks around it and moves *at behind its comma; false after the last. */
static bool next_entry(const char **at, char entry[ENTRY_BYTES]) {
    if (!*at) return false;
    const char *start = *at + strspn(*at, " \t"), *comma = strchr(start, ',');
    size_t n = comma ? (size_t)(comma - start) : strlen(start);
    *at = comma ? comma + 1 : NULL;
    while (n > 0 && isspace((unsigned char)start[n - 1])) n--;
    if (n >= ENTRY_BYTES) n = ENTRY_BYTES - 1;
    memcpy(entry, start, n);
    entry[n] = '\0';
    return true;
}

static void tell_hidden(const bool *shown, int gpus, char *text, size_t bytes) {
    size_t used = 0;
    for (int i = 0; i < gpus; i++) {
        if (shown[i]) continue;
        int n = snprintf(text + used, bytes - used, "%s%d", used ? ", " : "", i);
        if (n < 0 || (size_t)n >= bytes - used) break;
        used += (size_t)n;
    }
}

void sg_cuda_visible_read(const char *value, const char *const *uuids, int gpus, sg_cuda_visible *v) {
    bool shown[GPUS_MAX] = {false};
    char entry[ENTRY_BYTES] = "", hidden[128] = "";
    const char *why = "";
    memset(v, 0, sizeof *v);
    v->set = value != NULL;
    if (gpus < 0) gpus = 0;
    if (gpus > GPUS_MAX) gpus = GPUS_MAX;
    v->n = value ? 0 : gpus;
    if (!value) return;
    bool mig = strncmp(value, "MIG-", 4) == 0;
    for (const char *at = value; next_entry(&at, entry);) {
        int gpu = named(entry, uuids, gpus);
        if (gpu >= 0 && !shown[gpu]) {
            shown[gpu] = true;
            v->n++;
            continue;
        }
        if (gpu >= 0) {
            memset(shown, 0, sizeof shown);
            v->n = 0;
        }
        why = gpu >= 0 ? "is named twice" : "names no GPU here and ends the list";
        v->odd = value[0] != '\0' && strcmp(value, "-1") != 0 && !mig;
        break;
    }
    tell_hidden(shown, gpus, hidden, sizeof hidden);
    if (mig)
        (void)snprintf(v->text, sizeof v->text, "CUDA_VISIBLE_DEVICES='%.96s' names a MIG instance", value);
    else if (!value[0] || strcmp(value, "-1") == 0)
        (void)snprintf(v->text, sizeof v->text,
                       "CUDA_VISIBLE_DEVICES is '%s' and hides every GPU (%s): unset it, or name GPUs by index or UUID",
                       value, hidden);
    else if (v->odd)
        (void)snprintf(
            v->text, sizeof v->text,
            "CUDA_VISIBLE_DEVICES='%.96s' shows %d of %d GPUs and hides %s: '%.64s' %s; name each GPU once, by "
            "index or UUID ('nvidia-smi -L')",
            value, v->n, gpus, hidden[0] ? hidden : "none", entry, why);
    else if (hidden[0])
        (void)snprintf(v->text, sizeof v->text, "CUDA_VISIBLE_DEVICES='%.96s' shows %d of %d GPUs and hides %s", value,
                       v->n, gpus, hidden);
}
