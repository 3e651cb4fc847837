#include "formats/durable_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

sg_code sg_file_code(int error) {
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == EIO ? SG_MACHINE : SG_BAD_INPUT;
}

static sg_code not_regular(const char *path, mode_t mode, sg_status *status) {
    const char *what = S_ISDIR(mode) ? "a folder" : "no regular file";
    return sg_fail(status, SG_BAD_INPUT, "%s is %s: give the path of a file", path, what);
}

static sg_code cannot_open(const char *path, int error, sg_status *status) {
    if (error == ENOENT || error == ENOTDIR)
        return sg_fail(status, SG_BAD_INPUT, "%s does not exist: check the path", path);
    return sg_fail(status, sg_file_code(error), "cannot open %s: %s", path, strerror(error));
}

static sg_code read_open(int fd, const char *path, size_t most, unsigned char **bytes, size_t *n, sg_status *status) {
    struct stat info;
    if (fstat(fd, &info) != 0) return sg_fail(status, SG_MACHINE, "cannot look at %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return not_regular(path, info.st_mode, status);
    if ((unsigned long long)info.st_size > most)
        return sg_fail(status, SG_BAD_INPUT, "%s has %lld bytes, more than the %zu that are read", path,
                       (long long)info.st_size, most);
    size_t size = (size_t)info.st_size, done = 0;
    unsigned char *data = malloc(size ? size : 1);
    if (!data) return sg_fail_memory(status, size, path);
    while (done < size) {
        ssize_t got = read(fd, data + done, size - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            free(data);
            return sg_fail(status, SG_MACHINE, "cannot read %s: %s", path, strerror(errno));
        }
        if (got == 0) break; /* it shrank meanwhile: whoever verifies the content notices */
        done += (size_t)got;
    }
    *bytes = data;
    *n = done;
    return SG_OK;
}

sg_code sg_file_read(const char *path, size_t most, unsigned char **bytes, size_t *n, sg_status *status) {
    *bytes = NULL;
    *n = 0;
    /* O_NONBLOCK: a pipe of that name must not hold us up. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return cannot_open(path, errno, status);
    sg_code code = read_open(fd, path, most, bytes, n, status);
    (void)close(fd);
    return code;
}

sg_code sg_file_exists(const char *path, bool *exists, sg_status *status) {
    struct stat info;
    *exists = stat(path, &info) == 0;
    if (*exists) return S_ISREG(info.st_mode) ? SG_OK : not_regular(path, info.st_mode, status);
    return errno == ENOENT ? SG_OK : cannot_open(path, errno, status);
}

/* `path` with `suffix`; NULL without memory. */
static char *with_suffix(const char *path, const char *suffix) {
    char *text = NULL;
    return asprintf(&text, "%s%s", path, suffix) < 0 ? NULL : text;
}

/* Where the file really is: the target of a symbolic link, so that a rename does not replace the link. */
static char *real_place(const char *path) {
    char *place = realpath(path, NULL);
    return place || errno != ENOENT ? place : strdup(path);
}

static sg_code cannot_lock(const char *path, int error, sg_status *status) {
    if (error == ENOENT || error == ENOTDIR)
        return sg_fail(status, SG_BAD_INPUT, "cannot write %s: its folder does not exist", path);
    return sg_fail(status, SG_MACHINE, "cannot write %s: %s (its folder must be writable and have space left)", path,
                   strerror(error));
}

static sg_code locked_by_other(int fd, const char *path, sg_status *status) {
    char pid[24] = "";
    ssize_t n = pread(fd, pid, sizeof pid - 1, 0);
    pid[n > 0 ? n : 0] = 0;
    pid[strspn(pid, "0123456789")] = 0;
    return sg_fail(status, SG_BAD_INPUT, "%s is being written by process %s: wait until it ends or give another path",
                   path, *pid ? pid : "(unknown)");
}

/* One attempt; *again when another writer removed the lock file between our open and our flock. */
static sg_code try_lock(const char *path, sg_file_lock *lock, bool *again, sg_status *status) {
    *again = false;
    lock->fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (lock->fd < 0) return cannot_lock(path, errno, status);
    if (flock(lock->fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? locked_by_other(lock->fd, path, status) : cannot_lock(path, errno, status);
    struct stat ours, there;
    if (fstat(lock->fd, &ours) != 0 || stat(lock->path, &there) != 0 || ours.st_ino != there.st_ino ||
        ours.st_dev != there.st_dev) {
        *again = true;
        return SG_OK;
    }
    char pid[24];
    int length = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    errno = 0;
    if (ftruncate(lock->fd, 0) == 0 && pwrite(lock->fd, pid, (size_t)length, 0) == length) return SG_OK;
    sg_code code = cannot_lock(path, errno ? errno : ENOSPC, status);
    (void)unlink(lock->path); /* ours, as the lock is */
    return code;
}

sg_code sg_file_lock_take(const char *path, sg_file_lock *lock, sg_status *status) {
    *lock = (sg_file_lock){.fd = -1};
    char *place = real_place(path);
    lock->path = place ? with_suffix(place, ".lock") : NULL;
    free(place);
    if (!lock->path) return cannot_lock(path, errno, status);
    sg_code code = SG_OK;
    bool again = true;
    while (again) {
        code = try_lock(path, lock, &again, status);
        if (code == SG_OK && !again) return SG_OK;
        if (lock->fd >= 0) (void)close(lock->fd);
        lock->fd = -1;
    }
    free(lock->path);
    lock->path = NULL;
    return code;
}

void sg_file_lock_release(sg_file_lock *lock) {
    if (lock->fd < 0) return;
    (void)unlink(lock->path);
    (void)close(lock->fd);
    free(lock->path);
    *lock = (sg_file_lock){.fd = -1};
}

/* write() until done. A file size limit must come back as an error, not end the program: its signal is held off. */
static int write_all(int fd, const void *data, size_t n) {
    sigset_t limit, before;
    (void)sigemptyset(&limit);
    (void)sigaddset(&limit, SIGXFSZ);
    (void)pthread_sigmask(SIG_BLOCK, &limit, &before);
    int error = 0;
    const char *p = data;
    while (n > 0 && !error) {
        ssize_t done = write(fd, p, n);
        if (done > 0) {
            p += done;
            n -= (size_t)done;
        } else if (done == 0 || errno != EINTR) {
            error = done == 0 ? ENOSPC : errno;
        }
    }
    static const struct timespec at_once = {0, 0};
    if (error == EFBIG && !sigismember(&before, SIGXFSZ)) (void)sigtimedwait(&limit, NULL, &at_once);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* Makes a rename in the folder of `place` durable. */
static int sync_folder(const char *place) {
    char *folder = strdup(place);
    if (!folder) return ENOMEM;
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder ? 1 : 0] = 0;
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = fd < 0 ? errno : 0;
    if (fd >= 0) {
        /* Some network file systems do not know fsync on folders; there the rename itself is all there is. */
        if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP) error = errno;
        (void)close(fd);
    }
    free(folder);
    return error;
}

static int write_temporary(const char *temporary, const char *place, const void *head, size_t n_head, const void *body,
                           size_t n_body) {
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return errno;
    struct stat old;
    if (stat(place, &old) == 0) (void)fchmod(fd, old.st_mode & 07777);
    int error = write_all(fd, head, n_head);
    if (!error) error = write_all(fd, body, n_body);
    if (!error && fsync(fd) != 0) error = errno;
    if (close(fd) != 0 && !error) error = errno;
    return error;
}

sg_code sg_file_replace(const char *path, const void *head, size_t n_head, const void *body, size_t n_body,
                        sg_status *status) {
    bool exists; /* a device or a pipe is not ours to put a file in place of */
    sg_code code = sg_file_exists(path, &exists, status);
    if (code) return code;
    char *place = real_place(path);
    char *temporary = place ? with_suffix(place, ".tmp") : NULL;
    if (!temporary) {
        free(place);
        return cannot_lock(path, errno, status);
    }
    int error = write_temporary(temporary, place, head, n_head, body, n_body);
    if (!error && rename(temporary, place) != 0) error = errno;
    if (error) (void)unlink(temporary);
    int folder_error = error ? 0 : sync_folder(place);
    free(temporary);
    free(place);
    if (folder_error)
        return sg_fail(status, SG_MACHINE, "%s is written, but the disk did not confirm it: %s; check the disk", path,
                       strerror(folder_error));
    if (!error) return SG_OK;
    const char *remedy = error == ENOSPC || error == EDQUOT ? "the disk is full: free space and run again"
                         : error == EFBIG                   ? "the limit on file sizes is reached: raise it (ulimit -f)"
                                                            : "check the disk and the folder's permissions";
    return sg_fail(status, SG_MACHINE, "cannot write %s: %s; %s. What was there before is untouched", path,
                   strerror(error), remedy);
}

/* ---- text written in pieces ----------------------------------------------------------------------------------------- */

sg_code sg_text_open(const char *path, sg_text_writer *writer, sg_status *status) {
    *writer = (sg_text_writer){0};
    struct stat info;
    writer->direct = stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
    writer->file = writer->direct ? fopen(path, "we") : open_memstream(&writer->text, &writer->bytes);
    if (!writer->file) return sg_fail(status, SG_MACHINE, "cannot write %s: %s", path, strerror(errno));
    return SG_OK;
}

void sg_text_discard(sg_text_writer *writer) {
    if (writer->file) (void)fclose(writer->file);
    free(writer->text);
    *writer = (sg_text_writer){0};
}

static sg_code put_in_place(const char *path, const sg_text_writer *writer, sg_status *status) {
    sg_file_lock lock;
    sg_code code = sg_file_lock_take(path, &lock, status);
    if (code) return code;
    code = sg_file_replace(path, "", 0, writer->text, writer->bytes, status);
    sg_file_lock_release(&lock);
    return code;
}

sg_code sg_text_close(const char *path, sg_text_writer *writer, sg_status *status) {
    errno = 0;
    bool failed = ferror(writer->file) != 0;
    if (fclose(writer->file) != 0) failed = true;
    writer->file = NULL;
    sg_code code = SG_OK;
    if (failed)
        code = sg_fail(status, SG_MACHINE, "cannot write %s to the end: %s", path,
                       errno ? strerror(errno) : "writing failed");
    else if (!writer->direct)
        code = put_in_place(path, writer, status);
    sg_text_discard(writer);
    return code;
}
