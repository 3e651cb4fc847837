#include "calibration/machine_match.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "calibration/config_dir.h"
#include "calibration/predict.h"

enum { WORDS = 16, WORD_BYTES = 24 };

typedef struct words {
    char word[WORDS][WORD_BYTES];
    size_t n;
} words;

/* Letters and digits, lower case; everything else separates. Words that do not fit are left out: nobody's model needs them. */
static words words_of(const char *text) {
    words w = {.n = 0};
    for (const char *at = text; *at && w.n < WORDS;) {
        size_t n = 0;
        while (*at && !isalnum((unsigned char)*at)) at++;
        for (; isalnum((unsigned char)*at); at++)
            if (n + 1 < WORD_BYTES) w.word[w.n][n++] = (char)tolower((unsigned char)*at);
        if (n) w.n++;
    }
    return w;
}

static bool has(const words *w, const char *word) {
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->word[i], word) == 0) return true;
    return false;
}

static bool has_start(const words *w, const char *start) {
    for (size_t i = 0; i < w->n; i++)
        if (strncmp(w->word[i], start, strlen(start)) == 0) return true;
    return false;
}

static bool is_memory(const char *word) {
    size_t n = strlen(word);
    return n > 2 && isdigit((unsigned char)word[0]) && strcmp(word + n - 2, "gb") == 0;
}

/* 1: said; 0.5: nothing speaks against it; 0: another model. Drivers do not always say SXM ("NVIDIA H100 80GB HBM3"), but
 * always PCIe and NVL. The size of the memory is compared in bytes. */
static double word_fit(const char *word, const words *device) {
    if (is_memory(word)) return 0.5;
    if (strcmp(word, "sxm") == 0) return has_start(device, "sxm") ? 1 : 0.5;
    return has(device, word) ? 1 : 0;
}

double sg_machine_name_fit(const char *sheet, const char *device_name) {
    static const char *const marks[] = {"ti", "super", "laptop", "max", "ada", "pro", "pcie", "nvl", "ultra"};
    words s = words_of(sheet), d = words_of(device_name);
    double fit = 0;
    for (size_t i = 0; i < s.n; i++) {
        double one = word_fit(s.word[i], &d);
        if (one == 0) return 0;
        fit += one;
    }
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (has(&d, marks[i]) && !has(&s, marks[i])) return 0;
    return fit;
}

static bool same_memory(const sg_machine *machine, uint64_t bytes, double *distance) {
    *distance = 0;
    if (bytes == 0 || machine->memory_bytes == 0) return true;
    *distance = fabs(log((double)bytes / (double)machine->memory_bytes));
    return *distance < 0.1;
}

sg_code sg_machine_match(const char *config_dir, const char *device_class, const char *device_name,
                         uint64_t memory_bytes, sg_machine *machine, sg_status *status) {
    char folder[SG_PATH_BYTES];
    sg_names names = {0};
    sg_code code = sg_config_dir(config_dir, folder, sizeof folder, status);
    if (!code) code = sg_config_list(folder, "machines", ".yaml", &names, status);
    double best = 0, best_distance = INFINITY;
    for (size_t i = 0; !code && i < names.count; i++) {
        double fit = sg_machine_name_fit(names.name[i], device_name), distance;
        if (fit == 0 || fit < best) continue;
        sg_machine one;
        code = sg_machine_load(names.name[i], folder, &one, status);
        if (code) break;
        bool better = strcmp(one.device_class, device_class) == 0 && same_memory(&one, memory_bytes, &distance) &&
                      (fit > best || distance < best_distance);
        if (!better) {
            sg_machine_clear(&one);
            continue;
        }
        if (best > 0) sg_machine_clear(machine);
        *machine = one;
        best = fit;
        best_distance = distance;
    }
    if (code && best > 0) sg_machine_clear(machine);
    sg_names_clear(&names);
    if (code || best > 0) return code;
    return sg_fail(status, SG_NO, "no data sheet under configs/machines is that of '%.96s'", device_name);
}
