#include "sim/ranks/process_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct sg_process {
    pid_t pid, parent;
    bool descends;
} process;

/* Parent of a process from /proc/<pid>/stat: "pid (name) state ppid ..."; the name may hold anything. 0: gone. */
static pid_t parent_of(const char *pid) {
    char path[64], text[512];
    (void)snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (n <= 0) return 0;
    text[n] = 0;
    const char *end = strrchr(text, ')');
    if (!end || strlen(end) < 5) return 0;
    return (pid_t)strtol(end + 4, NULL, 10);
}

/* All processes; *n of them. NULL without memory or /proc. */
static process *list_processes(size_t *n) {
    *n = 0;
    DIR *proc = opendir("/proc");
    if (!proc) return NULL;
    process *list = NULL;
    size_t room = 0;
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        if (*n == room) {
            size_t more = room ? room * 2 : 256;
            process *bigger = reallocarray(list, more, sizeof *list);
            if (!bigger) break;
            list = bigger;
            room = more;
        }
        list[(*n)++] = (process){(pid_t)strtol(entry->d_name, NULL, 10), parent_of(entry->d_name), false};
    }
    (void)closedir(proc);
    return list;
}

static bool parent_descends(const process *list, size_t n, pid_t parent, pid_t root) {
    if (parent == root) return true;
    for (size_t i = 0; i < n; i++)
        if (list[i].pid == parent) return list[i].descends;
    return false;
}

size_t sg_process_children(pid_t parent, pid_t *children, size_t room) {
    size_t n, found = 0;
    process *list = list_processes(&n);
    for (size_t i = 0; i < n && found < room; i++)
        if (list[i].parent == parent) children[found++] = list[i].pid;
    free(list);
    return found;
}

int sg_process_tree_signal(pid_t root, int signal) {
    size_t n;
    process *list = list_processes(&n);
    bool grew = true;
    while (grew) {
        grew = false;
        for (size_t i = 0; i < n; i++)
            if (!list[i].descends && parent_descends(list, n, list[i].parent, root)) grew = list[i].descends = true;
    }
    int found = 0;
    for (size_t i = 0; i < n; i++)
        if (list[i].descends && kill(list[i].pid, signal) == 0) found++;
    free(list);
    return found;
}
