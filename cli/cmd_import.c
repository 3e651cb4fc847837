/* import: training logs as people have them, read. */
#include "calibration/log/build.h"
#include "cli/commands.h"
#include "cli/importing.h"
#include "sim/files/run_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* train_config.json of the folder that holds the log; "" when there is none. */
static void config_beside(const char *log, char *path, size_t bytes) {
    const char *slash = strrchr(log, '/');
    path[0] = '\0';
    if (strcmp(log, "-") == 0) return; /* standard input lies in no folder */
    int n = snprintf(path, bytes, "%.*strain_config.json", slash ? (int)(slash + 1 - log) : 0, log);
    struct stat info;
    if (n < 0 || (size_t)n >= bytes || stat(path, &info) != 0) path[0] = '\0';
}

/* What the log does not say, by the configuration; where they contradict each other it belongs to another run. */
static void fill_in(sg_import *import) {
    const sg_train_config *t = &import->config;
    for (size_t i = 0; i < import->logs.n; i++) {
        sg_log_config *c = &import->logs.logs[i].config;
        if ((c->batch && t->batch && c->batch != t->batch) || (c->steps && t->steps && c->steps != t->steps)) {
            sg_log_warn(&import->logs.logs[i], "%.120s is of another run: it has batch %lld and %lld steps",
                        import->config_path, (long long)t->batch, (long long)t->steps);
            continue;
        }
        if (!c->policy[0]) (void)snprintf(c->policy, sizeof c->policy, "%s", t->policy);
        if (!c->batch) c->batch = t->batch;
        if (!c->steps) c->steps = t->steps;
        if (!c->accumulation) c->accumulation = t->accumulation;
        if (!c->workers && t->workers > 0) c->workers = t->workers;
        if (!c->save_every && t->save_freq > 0) c->save_every = t->save_freq;
        if (!c->evaluate_every && t->evaluate_freq > 0) c->evaluate_every = t->evaluate_freq;
        c->environment = c->environment || t->environment;
    }
}

static sg_code read_config(const sg_args *args, sg_import *import, sg_status *status) {
    if (args->train_config)
        (void)snprintf(import->config_path, sizeof import->config_path, "%s", args->train_config);
    else
        config_beside(import->path, import->config_path, sizeof import->config_path);
    if (!import->config_path[0]) return SG_OK;
    sg_code code = sg_train_config_read(import->config_path, &import->config, status);
    if (code != SG_OK && args->train_config) return code;
    if (code != SG_OK) { /* not asked for: the log is read without it */
        for (size_t i = 0; i < import->logs.n; i++)
            sg_log_warn(&import->logs.logs[i], "Not used: %.200s", status->text);
        return SG_OK;
    }
    import->has_config = true;
    fill_in(import);
    return SG_OK;
}

/* An HDF5 file in place of a log: most likely one that this program wrote. */
static sg_code check_text(const char *path, sg_status *status) {
    static const unsigned char signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    /* run files begin with a block of their own, as HDF5 allows: its signature stands at 0, 512, 1024 .. */
    enum { LAST = 4096 };
    unsigned char begin[8] = {0};
    bool found = false;
    struct stat info;
    if (strcmp(path, "-") == 0 || stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return SG_OK;
    FILE *file = fopen(path, "rb");
    for (long at = 0; file && !found && at <= LAST; at = at ? 2 * at : 512)
        found = fseek(file, at, SEEK_SET) == 0 && fread(begin, 1, sizeof begin, file) == sizeof begin &&
                memcmp(begin, signature, sizeof begin) == 0;
    if (file) (void)fclose(file);
    if (!found) return SG_OK;
    sg_run run;
    sg_status ignored;
    if (sg_run_file_read(path, &run, &ignored) != SG_OK)
        return sg_fail(status, SG_BAD_INPUT,
                       "%.200s is an HDF5 file and no training log: a fitted machine is given with --machine or to "
                       "'compare LOG machine.h5', demonstrations with --dataset",
                       path);
    sg_run_clear(&run);
    return sg_fail(status, SG_BAD_INPUT,
                   "%.200s is a run file of measurements, not a training log: 'stepgauge fit %.200s' fits a machine to "
                   "it, 'stepgauge compare LOG %.200s' sets a log beside it",
                   path, path, path);
}

sg_code sg_import_read(const sg_args *args, const char *path, sg_import *import, sg_status *status) {
    memset(import, 0, sizeof *import);
    import->path = path;
    sg_code code = check_text(path, status);
    if (code == SG_OK) code = sg_logs_read(path, &import->logs, status);
    return code == SG_OK ? read_config(args, import, status) : code;
}

void sg_import_clear(sg_import *import) {
    if (import->has_config) sg_train_config_clear(&import->config);
    sg_logs_clear(&import->logs);
}

typedef struct told {
    size_t points;
    sg_explanation *explanations; /* NULL: not asked for */
    size_t n_explanations;
} told;

static void clear(sg_import *imports, size_t n, told *t) {
    for (size_t i = 0; i < n; i++) sg_import_clear(&imports[i]);
    for (size_t i = 0; i < t->n_explanations; i++) sg_explanation_clear(&t->explanations[i]);
    free(t->explanations);
    free(imports);
}

static int show(const sg_args *args, const sg_import *imports, size_t n, const told *t) {
    const sg_explanation *next = t->explanations;
    if (args->json) {
        json_t *list = json_array();
        for (size_t i = 0; i < n; i++) {
            sg_json_import(&imports[i], next, list);
            if (next) next += imports[i].logs.n;
        }
        json_t *object = json_pack("{s:o}", "logs", list);
        if (args->output) (void)json_object_set_new(object, "points_written", json_integer((json_int_t)t->points));
        return sg_json_print(object, SG_OK);
    }
    for (size_t i = 0; i < n; i++) {
        if (i) printf("\n");
        sg_print_import(&imports[i], next);
        if (next) next += imports[i].logs.n;
    }
    if (args->output) printf("\n%zu observed point(s) written to %s\n", t->points, args->output);
    return SG_OK;
}

int sg_cmd_import(const sg_args *args) {
    sg_status status;
    size_t n = args->positional.n;
    if (n == 0) {
        (void)sg_fail(&status, SG_BAD_INPUT,
                      "which logs? Give the console output of a training, such as 'stepgauge import train.log'");
        return sg_show_error(args, &status);
    }
    sg_import *imports = calloc(n, sizeof *imports);
    sg_code code = imports ? SG_OK : sg_fail_memory(&status, n * sizeof *imports, "logs");
    for (size_t i = 0; imports && code == SG_OK && i < n; i++)
        code = sg_import_read(args, args->positional.value[i], &imports[i], &status);
    told t = {0};
    if (code == SG_OK && args->explain)
        code = sg_import_explain(args, imports, n, &t.explanations, &t.n_explanations, &status);
    if (code == SG_OK && args->output) code = sg_import_points(args, imports, n, &t.points, &status);
    int result = code == SG_OK ? show(args, imports, n, &t) : sg_show_error(args, &status);
    clear(imports, imports ? n : 0, &t);
    return result;
}
