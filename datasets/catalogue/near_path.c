#include "datasets/catalogue/near_path.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/nearest.h"

/* A folder of more names than anybody overlooks is not read to its end. */
enum { NAMES = 4096 };

static size_t names_of(DIR *folder, char **name) {
    size_t n = 0;
    const struct dirent *entry;
    while (n < NAMES && (entry = readdir(folder)))
        if (entry->d_name[0] != '.' && (name[n] = strdup(entry->d_name))) n++;
    return n;
}

static void choose(DIR *folder, const char *parent, const char *last, char *near, size_t bytes) {
    char **name = calloc(NAMES, sizeof *name);
    if (!name) return;
    size_t n = names_of(folder, name);
    const char *found = sg_nearest(last, (const char *const *)name, n);
    if (found && snprintf(near, bytes, "%s%s", parent, found) >= (int)bytes) near[0] = '\0';
    for (size_t i = 0; i < n; i++) free(name[i]);
    free(name);
}

void sg_near_path(const char *path, char *near, size_t bytes) {
    size_t length = strlen(path);
    near[0] = '\0';
    while (length > 1 && path[length - 1] == '/') length--;
    char *parent = strndup(path, length);
    if (!parent) return;
    char *slash = strrchr(parent, '/');
    char *last = strdup(slash ? slash + 1 : parent);
    if (last) {
        parent[slash ? (size_t)(slash + 1 - parent) : 0] = '\0';
        DIR *folder = opendir(parent[0] ? parent : ".");
        if (folder) {
            choose(folder, parent, last, near, bytes);
            (void)closedir(folder);
        }
    }
    free(last);
    free(parent);
}
