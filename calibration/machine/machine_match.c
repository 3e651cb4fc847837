#include "calibration/machine/machine_match.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/config/config_dir.h"
#include "calibration/predict/predict.h"

enum { WORDS = 16, WORD_BYTES = 24 };

typedef struct words {
    char word[WORDS][WORD_BYTES];
    size_t n;
} words;

static bool among(const char *word, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, list[i]) == 0) return true;
    return false;
}
#define AMONG(word, list) among(word, list, sizeof(list) / sizeof *(list))

/* Told apart by these: a device that has one is not the model without it. */
static const char *const marks[] = {"ti", "super", "laptop", "max", "ada", "pro", "pcie", "nvl", "ultra"};

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

static bool has_memory(const words *w) {
    for (size_t i = 0; i < w->n; i++)
        if (is_memory(w->word[i])) return true;
    return false;
}

/* 1: said; 0.5: nothing speaks against it; 0: another model. Drivers do not always say SXM ("NVIDIA H100 80GB HBM3"), but
 * always PCIe and NVL. A size of memory that is not said is compared in bytes. */
static double word_fit(const char *word, const words *device) {
    if (is_memory(word)) return has(device, word) ? 1 : has_memory(device) ? 0 : 0.5;
    if (strcmp(word, "sxm") == 0) return has_start(device, "sxm") ? 1 : 0.5;
    return has(device, word) ? 1 : 0;
}

static double fit_of(const words *sheet, const words *device) {
    double fit = 0;
    for (size_t i = 0; i < sheet->n; i++) {
        double one = word_fit(sheet->word[i], device);
        if (one == 0) return 0;
        fit += one;
    }
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (has(device, marks[i]) && !has(sheet, marks[i])) return 0;
    return fit;
}

double sg_machine_name_fit(const char *sheet, const char *device_name) {
    words s = words_of(sheet), d = words_of(device_name);
    return fit_of(&s, &d);
}

/* Jetson modules report their chip alone ("Orin", "NVIDIA Thor"); the memory tells which module it is. */
static double chip_fit(const char *sheet, const char *device_name, uint64_t memory_bytes) {
    words s = words_of(sheet), d = words_of(device_name);
    if (!has(&s, "jetson") || memory_bytes == 0) return 0;
    size_t first = d.n && strcmp(d.word[0], "nvidia") == 0 ? 1 : 0;
    return d.n > first && has(&s, d.word[first]) ? 0.5 : 0;
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
        if (fit == 0) fit = chip_fit(names.name[i], device_name, memory_bytes);
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

/* ---- names that people write ----------------------------------------------------------------------------------------- */

static bool is_vendor(const char *word) {
    static const char *const vendors[] = {"nvidia", "tesla", "quadro", "amd"};
    return AMONG(word, vendors);
}

/* Words that say nothing about the model. */
static bool is_noise(const char *word) {
    static const char *const noise[] = {"geforce", "gpu",   "graphics", "card",  "generation", "edition", "instinct",
                                        "hbm2",    "hbm2e", "hbm3",     "hbm3e", "gddr6",      "gddr6x",  "gddr7"};
    return is_vendor(word) || AMONG(word, noise);
}

typedef struct query {
    words said;     /* without noise; SXM2, SXM4, SXM5 as sxm */
    bool by_driver; /* with the vendor's name, as drivers report it: no word of SXM then means SXM */
} query;

static query query_of(const char *name) {
    words all = words_of(name);
    query q = {.by_driver = false};
    for (size_t i = 0; i < all.n; i++) {
        q.by_driver |= is_vendor(all.word[i]);
        if (is_noise(all.word[i])) continue;
        bool sxm = strncmp(all.word[i], "sxm", 3) == 0;
        (void)snprintf(q.said.word[q.said.n++], WORD_BYTES, "%s", sxm ? "sxm" : all.word[i]);
    }
    return q;
}

/* Whether one of the sizes said is that of the sheet. Drivers report up to 7 % less than is advertised (ECC, reserved). The
 * name of a GH200 says the memory of its CPU. */
static bool memory_agrees(const words *said, const char *sheet, const char *folder) {
    enum { CPU_GB = 400 };
    bool stated = false, agrees = false;
    sg_machine m;
    if (!has_memory(said)) return true;
    if (sg_machine_load(sheet, folder, &m, NULL)) return true;
    for (size_t i = 0; i < said->n; i++) {
        double gib = is_memory(said->word[i]) ? strtod(said->word[i], NULL) : CPU_GB;
        if (gib >= CPU_GB) continue;
        double ratio = (double)m.memory_bytes / 0x1p30 / gib;
        stated = true;
        agrees |= ratio > 0.88 && ratio < 1.05;
    }
    sg_machine_clear(&m);
    return !stated || agrees;
}

/* Every word of the sheet is said: how many. Without a vendor's name SXM has to be said too. */
static size_t whole_fit(const words *sheet, const query *q) {
    words named = {.n = 0};
    for (size_t i = 0; i < sheet->n; i++)
        if (!is_memory(sheet->word[i])) memcpy(named.word[named.n++], sheet->word[i], WORD_BYTES);
    if (!q->by_driver && has(&named, "sxm") && !has(&q->said, "sxm")) return 0;
    return fit_of(&named, &q->said) > 0 ? sheet->n : 0;
}

/* Every word said is the sheet's: how many words of the sheet are not said, or SIZE_MAX. */
static size_t part_misses(const words *sheet, const query *q) {
    size_t found = 0, models = 0;
    for (size_t i = 0; i < q->said.n; i++) {
        if (is_memory(q->said.word[i])) continue;
        if (!has(sheet, q->said.word[i])) return SIZE_MAX;
        models++;
    }
    for (size_t i = 0; i < sheet->n; i++) found += has(&q->said, sheet->word[i]);
    return models ? sheet->n - found : SIZE_MAX;
}

typedef struct choice {
    size_t at[64], n, score;
} choice;

static void choose(choice *c, size_t at, size_t score) {
    if (c->n && score < c->score) return;
    if (!c->n || score > c->score) c->n = 0;
    c->score = score;
    if (c->n < sizeof c->at / sizeof *c->at) c->at[c->n++] = at;
}

static choice sheets_meant(const sg_names *names, const query *q, const char *folder) {
    enum { MOST_WORDS = WORDS };
    choice whole = {.n = 0}, part = {.n = 0};
    for (size_t i = 0; i < names->count; i++) {
        words sheet = words_of(names->name[i]);
        size_t fit = whole_fit(&sheet, q), misses = part_misses(&sheet, q);
        if ((fit == 0 && misses == SIZE_MAX) || !memory_agrees(&q->said, names->name[i], folder)) continue;
        if (fit) choose(&whole, i, fit);
        if (misses != SIZE_MAX) choose(&part, i, MOST_WORDS - misses);
    }
    return whole.n ? whole : part;
}

static sg_code several(const sg_names *names, const choice *meant, const char *name, sg_status *status) {
    char list[900] = "";
    size_t used = 0;
    for (size_t i = 0; i < meant->n; i++) {
        int n = snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names->name[meant->at[i]]);
        if (n < 0 || (size_t)n >= sizeof list - used) break;
        used += (size_t)n;
    }
    return sg_fail(status, SG_BAD_INPUT, "\"%.80s\" may be several machines: did you mean one of %s?", name, list);
}

/* V100s for rent are SXM2 modules, and their name is given without it. */
static const char *usual_name(const char *name) {
    static const char *const usual[][2] = {{"v100-16gb", "v100-sxm-16gb"}, {"v100-32gb", "v100-sxm-32gb"}};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcmp(name, usual[i][0]) == 0) return usual[i][1];
    return name;
}

sg_code sg_machine_name_find(const char *config_dir, const char *name, char *sheet, size_t bytes, sg_status *status) {
    char path[SG_PATH_BYTES];
    name = usual_name(name);
    sg_code code = sg_config_find(config_dir, "machines", name, ".yaml", path, sizeof path, status);
    if (!code) {
        const char *slash = strrchr(path, '/');
        (void)snprintf(sheet, bytes, "%.*s", (int)(strlen(slash + 1) - strlen(".yaml")), slash + 1);
        return SG_OK;
    }
    if (name[0] == '.' || name[0] == '/') return code; /* a path */
    sg_names names;
    sg_status ignored;
    if (sg_config_list(config_dir, "machines", ".yaml", &names, &ignored)) return code;
    query q = query_of(name);
    choice meant = sheets_meant(&names, &q, config_dir);
    if (meant.n == 1) {
        (void)snprintf(sheet, bytes, "%s", names.name[meant.at[0]]);
        code = SG_OK;
    } else if (meant.n > 1) {
        code = several(&names, &meant, name, status);
    }
    sg_names_clear(&names);
    return code;
}
