#include "datasets/tables/tables_carquet.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 1024, SEARCHED_BYTES = 600 };

static const char REMEDY[] =
    "run scripts/setup.sh, which installs it with pip, or set STEPGAUGE_CARQUET to libcarquet.so of the Python package "
    "carquet 0.7.2";

/* ---- where it is --------------------------------------------------------------------------------------------------- */

static bool program_folder(char *folder, size_t bytes) {
    ssize_t n = readlink("/proc/self/exe", folder, bytes - 1);
    if (n <= 0 || (size_t)n >= bytes - 1) return false;
    folder[n] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
    return slash != NULL;
}

/* The i-th path to try; false when there is no i-th place. */
static bool candidate(int i, char *path, size_t bytes) {
    static const char *const below[] = {"/modules", "/../lib/stepgauge", "/.."};
    char program[PATH_BYTES];
    const char *folder = program, *inside = "";
    if (i == 0) {
        folder = getenv("STEPGAUGE_MODULES");
        if (!folder || !*folder) return false;
    } else {
        if (!program_folder(program, sizeof program)) return false;
        inside = below[i - 1];
    }
    int n = snprintf(path, bytes, "%s%s/carquet/carquet/libcarquet.so", folder, inside);
    return n > 0 && (size_t)n < bytes;
}

static sg_code find_library(char *path, size_t bytes, sg_status *status) {
    const char *set = getenv("STEPGAUGE_CARQUET");
    if (set && *set) {
        int n = snprintf(path, bytes, "%s", set);
        if (n > 0 && (size_t)n < bytes && access(path, F_OK) == 0) return SG_OK;
        return sg_fail(status, SG_MACHINE,
                       "Parquet tables cannot be read: STEPGAUGE_CARQUET names %.300s, which is not there: %s", set,
                       REMEDY);
    }
    char searched[SEARCHED_BYTES] = "";
    size_t used = 0;
    for (int i = 0; i < 4; i++) {
        if (!candidate(i, path, bytes)) continue;
        if (access(path, F_OK) == 0) return SG_OK;
        int n = snprintf(searched + used, sizeof searched - used, "%s%s", used ? ", " : "", path);
        if (n > 0 && (size_t)n < sizeof searched - used) used += (size_t)n;
    }
    searched[used] = '\0';
    return sg_fail(status, SG_MACHINE,
                   "Parquet tables cannot be read: the library carquet is not installed (looked for %s): %s", searched,
                   REMEDY);
}

/* ---- what it offers ------------------------------------------------------------------------------------------------ */

/* ISO C has no conversion from dlsym's object pointer to a function pointer; POSIX promises that the bytes are one. */
static bool find_function(void *handle, const char *symbol, void *function) {
    void *found = dlsym(handle, symbol);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static const char *find_functions(void *handle, sg_carquet *carquet) {
    struct {
        const char *symbol;
        void *function;
    } const wanted[] = {
        {"carquet_version", &carquet->version},
        {"carquet_reader_options_init", &carquet->reader_options_init},
        {"carquet_reader_open", &carquet->reader_open},
        {"carquet_reader_close", &carquet->reader_close},
        {"carquet_reader_schema", &carquet->reader_schema},
        {"carquet_reader_num_rows", &carquet->reader_rows},
        {"carquet_reader_num_row_groups", &carquet->reader_groups},
        {"carquet_reader_row_group_metadata", &carquet->reader_group},
        {"carquet_reader_read_arrow", &carquet->reader_read},
        {"carquet_arrow_export_schema", &carquet->export_schema},
        {"carquet_arrow_import_schema", &carquet->import_schema},
        {"carquet_schema_free", &carquet->schema_free},
        {"carquet_writer_options_init", &carquet->writer_options_init},
        {"carquet_writer_create", &carquet->writer_create},
        {"carquet_writer_write_arrow", &carquet->writer_write},
        {"carquet_writer_new_row_group", &carquet->writer_new_group},
        {"carquet_writer_close", &carquet->writer_close},
        {"carquet_writer_add_metadata", &carquet->writer_add_metadata},
        {"carquet_writer_abort", &carquet->writer_abort},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (!find_function(handle, wanted[i].symbol, wanted[i].function)) return wanted[i].symbol;
    return NULL;
}

sg_code sg_carquet_open(sg_carquet *carquet, sg_status *status) {
    char path[PATH_BYTES + 64];
    memset(carquet, 0, sizeof *carquet);
    sg_code code = find_library(path, sizeof path, status);
    if (code != SG_OK) return code;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *why = dlerror();
        return sg_fail(status, SG_MACHINE, "Parquet tables cannot be read: %.300s does not load (%.300s): %s", path,
                       why ? why : "no reason given", REMEDY);
    }
    const char *missing = find_functions(handle, carquet);
    if (missing)
        return sg_fail(status, SG_MACHINE, "Parquet tables cannot be read: %.300s has no function %s: %s", path,
                       missing, REMEDY);
    const char *version = carquet->version();
    if (version && strncmp(version, "0.7.", 4) == 0) return SG_OK; /* the line whose layouts are declared here */
    return sg_fail(status, SG_MACHINE,
                   "Parquet tables cannot be read: %.300s is carquet %.40s, known are those of 0.7: %s", path,
                   version ? version : "of no version", REMEDY);
}
