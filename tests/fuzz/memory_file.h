/* memory_file.h: fuzzed bytes as a file that only exists in memory, for readers that take a path. */
#ifndef SG_TESTS_FUZZ_MEMORY_FILE_H
#define SG_TESTS_FUZZ_MEMORY_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SG_MEMORY_PATH = 96 };

/* A file with these bytes and a name with that ending, by which readers choose their syntax. sg_memory_file_close it. */
static inline int sg_memory_file(const uint8_t *data, size_t size, const char *ending, char *path) {
    int fd = memfd_create("fuzz", 0);
    if (fd < 0 || (size > 0 && write(fd, data, size) != (ssize_t)size)) abort();
    char target[SG_MEMORY_PATH];
    (void)snprintf(target, sizeof target, "/proc/%d/fd/%d", (int)getpid(), fd);
    (void)snprintf(path, SG_MEMORY_PATH, "/tmp/stepgauge-fuzz-%d%s", (int)getpid(), ending);
    (void)unlink(path);
    if (symlink(target, path) != 0) abort();
    return fd;
}

static inline void sg_memory_file_close(int fd, const char *path) {
    (void)close(fd);
    (void)unlink(path);
}

#endif
