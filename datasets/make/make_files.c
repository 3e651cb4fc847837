/* Folders and files of a data set under way. */
#include "datasets/make/make_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

sg_code sg_make_path(const sg_make *make, char *out, sg_status *status, const char *format, ...) {
    size_t used = strlen(make->path);
    if (used + 1 >= SG_MAKE_PATH_BYTES)
        return sg_fail(status, SG_BAD_INPUT, "the path %.80s... is too long", make->path);
    memcpy(out, make->path, used);
    out[used++] = '/';
    va_list list;
    va_start(list, format);
    int n = vsnprintf(out + used, SG_MAKE_PATH_BYTES - used, format, list);
    va_end(list);
    if (n < 0 || (size_t)n >= SG_MAKE_PATH_BYTES - used)
        return sg_fail(status, SG_BAD_INPUT, "a path below %.80s is too long", make->path);
    return SG_OK;
}

sg_code sg_make_way(const sg_make *make, const char *file, sg_status *status) {
    char folder[SG_MAKE_PATH_BYTES];
    size_t length = strlen(file);
    for (size_t i = strlen(make->path) + 1; i < length && i < sizeof folder; i++) {
        if (file[i] != '/') continue;
        memcpy(folder, file, i);
        folder[i] = '\0';
        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            return sg_fail(status, SG_MACHINE, "cannot make the folder %s: %s", folder, strerror(errno));
    }
    return SG_OK;
}

sg_code sg_make_write(const char *path, const void *bytes, size_t n, sg_status *status) {
    FILE *file = fopen(path, "wbx");
    if (!file) return sg_fail(status, SG_MACHINE, "cannot write %s: %s", path, strerror(errno));
    bool done = fwrite(bytes, 1, n, file) == n;
    int trouble = errno;
    if (fclose(file) != 0) {
        if (done) trouble = errno;
        done = false;
    }
    return done ? SG_OK : sg_fail(status, SG_MACHINE, "cannot write %s: %s", path, strerror(trouble));
}

static sg_code write_text(const sg_make *make, const char *name, const char *text, size_t n, sg_status *status) {
    char path[SG_MAKE_PATH_BYTES];
    sg_code code = sg_make_path(make, path, status, "%s", name);
    if (code == SG_OK) code = sg_make_way(make, path, status);
    return code == SG_OK ? sg_make_write(path, text, n, status) : code;
}

enum { DIGITS = 9 }; /* a float32 reads back from as many */

sg_code sg_make_json(const sg_make *make, const char *name, json_t *value, sg_status *status) {
    char *text = value ? json_dumps(value, JSON_INDENT(4) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(DIGITS)) : NULL;
    json_decref(value);
    if (!text) return sg_fail(status, SG_MACHINE, "no memory for %s", name);
    sg_code code = write_text(make, name, text, strlen(text), status);
    free(text);
    return code;
}

sg_code sg_make_json_lines(const sg_make *make, const char *name, json_t *list, sg_status *status) {
    char *all = NULL;
    size_t bytes = 0, i;
    FILE *text = list ? open_memstream(&all, &bytes) : NULL;
    bool done = text != NULL;
    json_t *item;
    json_array_foreach(list, i, item) {
        char *line = json_dumps(item, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(DIGITS));
        done = done && line && fputs(line, text) >= 0 && fputc('\n', text) != EOF;
        free(line);
    }
    if (text) done = fclose(text) == 0 && done;
    json_decref(list);
    sg_code code =
        done ? write_text(make, name, all, bytes, status) : sg_fail(status, SG_MACHINE, "no memory for %s", name);
    free(all);
    return code;
}

/* What lies in the folder behind `at`, which is closed. Links are removed, not followed. */
static void empty_folder(int at, int depth) {
    enum { DEEPEST = 16 };
    DIR *folder = at >= 0 && depth < DEEPEST ? fdopendir(at) : NULL;
    if (!folder) {
        if (at >= 0) (void)close(at);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(folder));) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || unlinkat(at, name, 0) == 0) continue;
        empty_folder(openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), depth + 1);
        (void)unlinkat(at, name, AT_REMOVEDIR);
    }
    (void)closedir(folder);
}

void sg_make_remove(const char *path, bool keep) {
    empty_folder(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0);
    if (!keep) (void)rmdir(path);
}
