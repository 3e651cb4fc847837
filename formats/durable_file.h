/* durable_file.h: reading a whole file with a bound, a writer's lock, and replacing a file so that a kill or a full disk
 * at any moment leaves the old or the new one. */
#ifndef SG_FORMATS_DURABLE_FILE_H
#define SG_FORMATS_DURABLE_FILE_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* What a failure to open or read says, by its errno: SG_MACHINE where memory, descriptors or the disk fail, else SG_BAD_INPUT. */
sg_code sg_file_code(int error);
/* Reads a regular file of at most `most` bytes. *bytes is free'd by the caller. SG_BAD_INPUT: missing, a folder or a
 * device, no permission, too large; SG_MACHINE: the disk or memory failed. */
sg_code sg_file_read(const char *path, size_t most, unsigned char **bytes, size_t *n, sg_status *status);
/* Whether something is at `path` (SG_BAD_INPUT when it is there and no regular file). */
sg_code sg_file_exists(const char *path, bool *exists, sg_status *status);

/* The lock of the one writer: flock on `path`.lock, which holds the writer's pid and goes away with the lock. */
typedef struct sg_file_lock {
    int fd;
    char *path; /* of the lock file */
} sg_file_lock;

/* SG_BAD_INPUT names the other writer; SG_MACHINE: the folder cannot be written to. */
sg_code sg_file_lock_take(const char *path, sg_file_lock *lock, sg_status *status);
void sg_file_lock_release(sg_file_lock *lock);

/* Replaces the content of `path` (the file itself where path is a symbolic link) by head + body. The caller holds its
 * lock. Durable when SG_OK comes back; otherwise the old file is untouched. SG_BAD_INPUT: a folder, a device or a pipe. */
sg_code sg_file_replace(const char *path, const void *head, size_t n_head, const void *body, size_t n_body,
                        sg_status *status);

/* A text written in pieces: fprintf to file. It is kept in memory and replaces the file at once when it is closed; into a
 * device or a pipe it is written directly. */
typedef struct sg_text_writer {
    FILE *file;
    char *text;
    size_t bytes;
    bool direct;
} sg_text_writer;

sg_code sg_text_open(const char *path, sg_text_writer *writer, sg_status *status);
/* One of these two after every sg_text_open that succeeded. Closing fails as sg_file_lock_take and sg_file_replace do;
 * what was at path is then untouched. */
sg_code sg_text_close(const char *path, sg_text_writer *writer, sg_status *status);
void sg_text_discard(sg_text_writer *writer);

#endif
