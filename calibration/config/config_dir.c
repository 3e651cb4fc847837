#include "calibration/config/config_dir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/nearest.h"
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

/* Letters and digits alone, in lower case: how names compare that people write in several ways. */
static void squash(const char *name, char *out, size_t bytes) {
    size_t n = 0;
    for (; *name && n + 1 < bytes; name++)
        if (isalnum((unsigned char)*name)) out[n++] = (char)tolower((unsigned char)*name);
    out[n] = 0;
}

/* The one name that is the same but for case and separators, or NULL. */
static const char *same_name(const sg_names *names, const char *name) {
    const char *found = NULL;
    char wanted[256], known[256];
    squash(name, wanted, sizeof wanted);
    for (size_t i = 0; i < names->count; i++) {
        squash(names->name[i], known, sizeof known);
        if (strcmp(wanted, known) != 0) continue;
        if (found) return NULL;
        found = names->name[i];
    }
    return found;
}

/* The names of which `part` is a part (every one for NULL), separated by commas; the number of them. */
static size_t list_names(const sg_names *names, const char *part, char *out, size_t bytes) {
    size_t used = 0, count = 0;
    char wanted[256] = "", known[256];
    if (part) squash(part, wanted, sizeof wanted);
    out[0] = 0;
    for (size_t i = 0; i < names->count; i++) {
        squash(names->name[i], known, sizeof known);
        if (part && (strlen(wanted) < 2 || !strstr(known, wanted))) continue;
        int m = snprintf(out + used, bytes - used, "%s%s", count ? ", " : "", names->name[i]);
        if (m < 0 || (size_t)m >= bytes - used) { /* a name is listed whole or not at all */
            out[used] = 0;
            break;
        }
        used += (size_t)m;
        count++;
    }
    return count;
}

/* More names than fit into two lines are not listed: the folder that holds them is named. */
enum { LISTED = 16 };

static sg_code unknown_name(const sg_names *names, const char *folder, const char *kind, const char *name, bool plain,
                            sg_status *status) {
    char list[900];
    if (plain && list_names(names, name, list, sizeof list))
        return sg_fail(status, SG_BAD_INPUT, "unknown name \"%.80s\" in %s: did you mean one of %s?", name, kind, list);
    const char *near = plain ? sg_nearest(name, (const char *const *)names->name, names->count) : NULL;
    if (names->count > LISTED)
        return sg_fail(status, SG_BAD_INPUT, "unknown name \"%.80s\" in %s: %s%s%sall %zu are in %.300s", name, kind,
                       near ? "did you mean \"" : "", near ? near : "", near ? "\"? " : "", names->count, folder);
    (void)list_names(names, NULL, list, sizeof list);
    if (near)
        return sg_fail(status, SG_BAD_INPUT, "unknown name \"%.80s\" in %s: did you mean \"%s\"? Known are %s", name,
                       kind, near, list);
    return sg_fail(status, SG_BAD_INPUT, "unknown name \"%.80s\" in %s: known are %s", name, kind, list);
}

static bool is_file_of(const char *folder, const char *name, const char *ending, char *path, size_t bytes) {
    struct stat info;
    int n = snprintf(path, bytes, "%s/%s%s", folder, name, ending);
    return n >= 0 && (size_t)n < bytes && stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

sg_code sg_config_find(const char *config_dir, const char *kind, const char *name, const char *ending, char *path,
                       size_t bytes, sg_status *status) {
    char folder[SG_PATH_BYTES];
    bool plain = *name && !strchr(name, '/') && strlen(name) < 200,
         whole = join(folder, sizeof folder, config_dir, kind);
    if (plain && whole && is_file_of(folder, name, ending, path, bytes)) return SG_OK;
    sg_names names;
    sg_code code = sg_config_list(config_dir, kind, ending, &names, status);
    if (code) return code;
    const char *same = plain ? same_name(&names, name) : NULL;
    if (!same || !is_file_of(folder, same, ending, path, bytes))
        code = unknown_name(&names, folder, kind, name, plain, status);
    sg_names_clear(&names);
    return code;
}
