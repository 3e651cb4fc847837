#include "calibration/config_dir.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/policy.h"

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool join(char *out, size_t bytes, const char *folder, const char *rest) {
    int n = snprintf(out, bytes, "%s/%s", folder, rest);
    return n >= 0 && (size_t)n < bytes;
}

/* Folder of the running program, without the last slash. */
static bool program_folder(char *out, size_t bytes) {
    ssize_t n = readlink("/proc/self/exe", out, bytes - 1);
    if (n <= 0) return false;
    out[n] = 0;
    char *slash = strrchr(out, '/');
    if (!slash) return false;
    *slash = 0;
    return true;
}

sg_code sg_config_dir(const char *given, char *path, size_t bytes, sg_status *status) {
    const char *environment = getenv("STEPGAUGE_CONFIGS");
    const char *said = given ? given : environment;
    if (said && *said) {
        int n = snprintf(path, bytes, "%s", said);
        if (n >= 0 && (size_t)n < bytes && is_folder(path)) return SG_OK;
        return sg_fail(status, SG_BAD_INPUT, "looking for the configuration folder: %s%.300s is no folder",
                       given ? "" : "$STEPGAUGE_CONFIGS = ", said);
    }
    char folder[SG_PATH_BYTES];
    if (program_folder(folder, sizeof folder)) {
        if (join(path, bytes, folder, "../share/stepgauge/configs") && is_folder(path)) return SG_OK;
        for (int up = 0; up < 5 && folder[0]; up++) {
            char probe[SG_PATH_BYTES + 32];
            if (join(path, bytes, folder, "configs") && join(probe, sizeof probe, path, "machines") && is_folder(probe))
                return SG_OK;
            char *slash = strrchr(folder, '/');
            if (slash) *slash = 0;
        }
    }
    return sg_fail(
        status, SG_BAD_INPUT,
        "looking for the configuration folder: neither <program>/../share/stepgauge/configs nor configs/ above "
        "the program exists; set STEPGAUGE_CONFIGS");
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

sg_code sg_config_list(const char *config_dir, const char *kind, const char *ending, sg_names *names,
                       sg_status *status) {
    *names = (sg_names){0};
    char folder[SG_PATH_BYTES];
    if (!join(folder, sizeof folder, config_dir, kind))
        return sg_fail(status, SG_BAD_INPUT, "listing %s: the path is too long", kind);
    DIR *dir = opendir(folder);
    if (!dir) return sg_fail(status, SG_BAD_INPUT, "opening %s: %s", folder, strerror(errno));
    size_t room = 0, end = strlen(ending);
    sg_code code = SG_OK;
    for (const struct dirent *entry; !code && (entry = readdir(dir));) {
        size_t n = strlen(entry->d_name);
        if (n <= end || strcmp(entry->d_name + n - end, ending) != 0) continue;
        if (names->count == room) {
            size_t more = room ? 2 * room : 64;
            char **grown = realloc(names->name, more * sizeof *grown);
            if (!grown) {
                code = sg_fail_memory(status, more * sizeof *grown, folder);
                break;
            }
            names->name = grown;
            room = more;
        }
        char *name = strndup(entry->d_name, n - end);
        if (!name)
            code = sg_fail_memory(status, n, folder);
        else
            names->name[names->count++] = name;
    }
    (void)closedir(dir);
    if (code)
        sg_names_clear(names);
    else if (names->count)
        qsort(names->name, names->count, sizeof *names->name, by_name);
    return code;
}

void sg_names_clear(sg_names *names) {
    for (size_t i = 0; i < names->count; i++) free(names->name[i]);
    free(names->name);
    *names = (sg_names){0};
}

sg_code sg_config_find(const char *config_dir, const char *kind, const char *name, const char *ending, char *path,
                       size_t bytes, sg_status *status) {
    char folder[SG_PATH_BYTES];
    int n = -1;
    bool plain = *name && !strchr(name, '/') && strlen(name) < 200;
    if (join(folder, sizeof folder, config_dir, kind)) n = snprintf(path, bytes, "%s/%s%s", folder, name, ending);
    struct stat info;
    if (plain && n >= 0 && (size_t)n < bytes && stat(path, &info) == 0 && S_ISREG(info.st_mode)) return SG_OK;
    sg_names names;
    sg_code code = sg_config_list(config_dir, kind, ending, &names, status);
    if (code) return code;
    const char *near = plain ? sg_nearest(name, (const char *const *)names.name, names.count) : NULL;
    char all[600] = "";
    size_t used = 0;
    for (size_t i = 0; i < names.count && used < sizeof all - 40; i++) {
        int m = snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", names.name[i]);
        if (m > 0) used += (size_t)m < sizeof all - used ? (size_t)m : sizeof all - used - 1;
    }
    code = near ? sg_fail(status, SG_BAD_INPUT, "unknown name \"%.80s\" in %s: did you mean \"%s\"? Known are %s", name,
                          kind, near, all)
                : sg_fail(status, SG_BAD_INPUT, "unknown name \"%.80s\" in %s: known are %s", name, kind, all);
    sg_names_clear(&names);
    return code;
}
