#include "datasets/catalogue/data_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { DEPTH = 16 };

/* A walk through a folder. file: called with the folder's descriptor and the name in it. */
typedef struct walk {
    char root[PATH_MAX], blobs[PATH_MAX]; /* real paths; blobs: "" none */
    char path[PATH_MAX];                  /* where it is, for messages */
    sg_code (*file)(void *user, int folder, const char *name, const char *path, sg_status *status);
    void *user;
} walk;

static bool lies_in(const char *path, const char *folder) {
    size_t n = strlen(folder);
    return n > 0 && strncmp(path, folder, n) == 0 && (path[n] == '/' || !path[n]);
}

/* CACHE/snapshots/REVISION holds links to CACHE/blobs. */
static void find_blobs(walk *w) {
    w->blobs[0] = 0;
    char above[PATH_MAX + 16];
    (void)snprintf(above, sizeof above, "%s", w->root);
    char *revision = strrchr(above, '/');
    if (!revision || revision == above) return;
    *revision = 0;
    char *snapshots = strrchr(above, '/');
    if (!snapshots || strcmp(snapshots, "/snapshots") != 0) return;
    (void)snprintf(snapshots, sizeof above - (size_t)(snapshots - above), "/blobs");
    if (!realpath(above, w->blobs)) w->blobs[0] = 0;
}

static sg_code begin(walk *w, const char *folder, sg_status *status) {
    if (!realpath(folder, w->root))
        return sg_fail(status, SG_BAD_INPUT, "cannot look into %.400s: %s", folder, strerror(errno));
    memcpy(w->path, w->root, sizeof w->path);
    find_blobs(w);
    return SG_OK;
}

/* *file: it leads to a regular file. */
static sg_code check_link(const walk *w, bool *file, sg_status *status) {
    char target[PATH_MAX];
    struct stat info;
    *file = false;
    if (!realpath(w->path, target)) return SG_OK;
    if (!lies_in(target, w->root) && !lies_in(target, w->blobs))
        return sg_fail(status, SG_BAD_INPUT,
                       "%.400s is a link that leaves the data set's folder (to %.300s): replace it by the file itself",
                       w->path, target);
    *file = stat(target, &info) == 0 && S_ISREG(info.st_mode);
    return SG_OK;
}

static sg_code walk_folder(walk *w, int fd, int depth, sg_status *status);

static sg_code walk_inner(walk *w, int folder, const char *name, int depth, sg_status *status) {
    if (depth == DEPTH)
        return sg_fail(status, SG_BAD_INPUT, "%.400s: folders are nested deeper than in a data set", w->path);
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return sg_fail(status, SG_BAD_INPUT, "cannot list %.400s: %s", w->path, strerror(errno));
    return walk_folder(w, fd, depth + 1, status);
}

static unsigned char type_of(int folder, const struct dirent *entry) {
    if (entry->d_type != DT_UNKNOWN) return entry->d_type;
    struct stat info;
    if (fstatat(folder, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) return DT_UNKNOWN;
    return (unsigned char)IFTODT(info.st_mode);
}

/* One entry; w->path is its path. */
static sg_code walk_entry(walk *w, int folder, const struct dirent *entry, int depth, sg_status *status) {
    bool file = false;
    sg_code code = SG_OK;
    switch (type_of(folder, entry)) {
    case DT_DIR: return walk_inner(w, folder, entry->d_name, depth, status);
    case DT_REG: file = true; break;
    case DT_LNK: code = check_link(w, &file, status); break;
    default:
        return sg_fail(status, SG_BAD_INPUT, "%.400s is neither a file nor a folder: a data set has no such thing",
                       w->path);
    }
    if (code == SG_OK && file && w->file) code = w->file(w->user, folder, entry->d_name, w->path, status);
    return code;
}

/* Takes over fd. */
static sg_code walk_folder(walk *w, int fd, int depth, sg_status *status) {
    DIR *dir = fdopendir(fd);
    if (!dir) {
        (void)close(fd);
        return sg_fail_memory(status, sizeof(void *), "a list of files");
    }
    size_t length = strlen(w->path);
    sg_code code = SG_OK;
    for (const struct dirent *entry; code == SG_OK && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        int n = snprintf(w->path + length, sizeof w->path - length, "/%s", entry->d_name);
        if (n < 0 || (size_t)n >= sizeof w->path - length)
            code = sg_fail(status, SG_BAD_INPUT, "a path below %.400s is too long", w->root);
        else
            code = walk_entry(w, dirfd(dir), entry, depth, status);
        w->path[length] = 0;
    }
    (void)closedir(dir);
    return code;
}

static sg_code walk_all(walk *w, const char *folder, sg_status *status) {
    sg_code code = begin(w, folder, status);
    if (code != SG_OK) return code;
    int fd = open(w->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return sg_fail(status, SG_BAD_INPUT, "cannot list %.400s: %s", folder, strerror(errno));
    return walk_folder(w, fd, 0, status);
}

sg_code sg_files_check(const char *folder, sg_status *status) {
    walk *w = calloc(1, sizeof *w);
    if (!w) return sg_fail_memory(status, sizeof *w, "a walk through the data set");
    sg_code code = walk_all(w, folder, status);
    free(w);
    return code;
}

/* ---- a file that a table names ---- */

/* folder/below (folder NULL: below as it stands) to path where it is a file of the data set. */
static bool is_inside(const walk *w, const char *folder, const char *below, char *path, size_t room) {
    char real[PATH_MAX];
    struct stat info;
    int n = snprintf(path, room, "%s%s%s", folder ? folder : "", folder ? "/" : "", below);
    if (n < 0 || (size_t)n >= room || !realpath(path, real)) return false;
    if (!lies_in(real, w->root) && !lies_in(real, w->blobs)) return false;
    return stat(real, &info) == 0 && S_ISREG(info.st_mode);
}

sg_code sg_files_image(const char *folder, const char *stated, char *path, size_t room, sg_status *status) {
    static const char images[] = "/images/"; /* LeRobot's DEFAULT_IMAGE_PATH begins so in all versions */
    walk *w = calloc(1, sizeof *w);
    if (!w) return sg_fail_memory(status, sizeof *w, "an image's path");
    sg_code code = begin(w, folder, status);
    const char *tail = strstr(stated, images);
    bool found = code == SG_OK && (is_inside(w, stated[0] == '/' ? NULL : folder, stated, path, room) ||
                                   (tail && is_inside(w, folder, tail + 1, path, room)));
    free(w);
    if (code != SG_OK || found) return code;
    return sg_fail(
        status, SG_BAD_INPUT,
        "the table holds no image but names the file '%.300s', which is not in the data set's folder: embed the "
        "images, or put the file there",
        stated);
}

/* ---- the page cache ---- */

/* What stayed there of the files that were looked at. */
typedef struct chill {
    int looked_at;
    int64_t pages, resident;
} chill;

enum { LOOK_AT = 64 }; /* files of which it is checked that their pages went: enough to tell whether they do */

/* The kernel tells the owner of a file, and who may write it, whether its pages are in memory; others hear "yes". */
static bool may_ask(int folder, const char *name, const struct stat *info) {
    return info->st_uid == geteuid() || geteuid() == 0 || faccessat(folder, name, W_OK, 0) == 0;
}

static void look(chill *c, int fd, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (bytes + page - 1) / page;
    unsigned char *in_memory = malloc(n);
    void *map = in_memory ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (map != MAP_FAILED && mincore(map, bytes, in_memory) == 0) {
        c->pages += (int64_t)n;
        for (size_t i = 0; i < n; i++) c->resident += in_memory[i] & 1;
        c->looked_at++;
    }
    if (map != MAP_FAILED) (void)munmap(map, bytes);
    free(in_memory);
}

static sg_code cool_open(chill *c, int fd, bool ask, size_t bytes, const char *path, sg_status *status) {
    enum { TMPFS = 0x01021994, RAMFS = 0x858458f6 - 0x100000000 }; /* linux/magic.h */
    struct statfs system;
    if (fstatfs(fd, &system) == 0 &&
        ((uint32_t)system.f_type == (uint32_t)TMPFS || (uint32_t)system.f_type == (uint32_t)RAMFS))
        return sg_fail(status, SG_MACHINE, "%.400s lies in memory, not on a disk: cold reads cannot be measured there",
                       path);
    /* Pages need to be written to be dropped, not to be safe: fdatasync would have the disk empty its own cache for every file,
     * and a data set may hold tens of thousands. Where it fails nothing is to be written (read-only, or no such call). */
    (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    int error = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (error != 0)
        return sg_fail(status, SG_MACHINE, "cannot drop %.400s from the page cache: %s", path, strerror(error));
    if (ask && c->looked_at < LOOK_AT) look(c, fd, bytes);
    return SG_OK;
}

static sg_code cool(void *user, int folder, const char *name, const char *path, sg_status *status) {
    struct stat info;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return sg_fail(status, SG_BAD_INPUT, "cannot open %.400s: %s", path, strerror(errno));
    sg_code code = SG_OK;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0)
        code = cool_open(user, fd, may_ask(folder, name, &info), (size_t)info.st_size, path, status);
    (void)close(fd);
    return code;
}

sg_code sg_files_make_cold(const char *path, sg_status *status) {
    chill c = {0};
    struct stat info;
    sg_code code;
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
        code = cool(&c, AT_FDCWD, path, path, status);
    } else {
        walk *w = calloc(1, sizeof *w);
        if (!w) return sg_fail_memory(status, sizeof *w, "a walk through the data set");
        w->file = cool;
        w->user = &c;
        code = walk_all(w, path, status);
        free(w);
    }
    if (code == SG_OK && c.resident > c.pages / 2)
        return sg_fail(status, SG_MACHINE,
                       "%.0f %% of the pages of %.400s stay in the page cache: another program holds them, or the file "
                       "system keeps them",
                       100.0 * (double)c.resident / (double)c.pages, path);
    return code;
}
