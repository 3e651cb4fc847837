/* hdf5_tree.h: a named tree of groups with attributes and 1-D double datasets, and its file on disk.
 *
 * Run files and machine files are such trees. A tree is plain memory, owned by its root; a file is the tree as HDF5 behind
 * a 512-byte user block (sim/files/user_block.h), read in a child process with limits and replaced atomically. */
#ifndef SG_SIM_FILES_HDF5_TREE_H
#define SG_SIM_FILES_HDF5_TREE_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SG_H5TREE_NAME_BYTES = 128,   /* of a group, attribute or dataset, with its NUL; printable ASCII without '/' */
    SG_H5TREE_TEXT_BYTES = 32768, /* of a text attribute, with its NUL; sg_text_is_clean */
    SG_H5TREE_DEPTH = 8           /* nested groups below the root */
};

typedef enum sg_h5tree_kind {
    SG_H5TREE_TEXT,    /* attribute: fixed-length UTF-8 */
    SG_H5TREE_I64,     /* attribute: 64-bit signed integer */
    SG_H5TREE_U64,     /* attribute: 64-bit unsigned integer */
    SG_H5TREE_F64,     /* attribute: IEEE double */
    SG_H5TREE_DOUBLES, /* dataset: 1-D IEEE doubles, contiguous */
    SG_H5TREE_KIND_COUNT
} sg_h5tree_kind;

typedef struct sg_h5tree_value {
    char *name;
    sg_h5tree_kind kind;
    int64_t i64;
    uint64_t u64;
    double f64;
    char *text;
    double *doubles;
    size_t n; /* doubles */
} sg_h5tree_value;

/* A group. Order: as added; after reading a file, by name. */
typedef struct sg_h5tree {
    char *name; /* "" at the root */
    sg_h5tree_value *values;
    size_t n_values, room_values;
    struct sg_h5tree **groups;
    size_t n_groups, room_groups;
} sg_h5tree;

/* UTF-8 without control characters other than tab and newline: what a file holds and a terminal may show. */
bool sg_text_is_clean(const char *text);

/* An empty root; NULL when memory ran out (status is filled). */
sg_h5tree *sg_h5tree_new(sg_status *status);
/* Frees the group and everything below it. NULL is fine. */
void sg_h5tree_free(sg_h5tree *tree);

/* The child group `name`, made when it does not exist. */
sg_code sg_h5tree_group(sg_h5tree *tree, const char *name, sg_h5tree **group, sg_status *status);
/* The child group or NULL. */
const sg_h5tree *sg_h5tree_find(const sg_h5tree *tree, const char *name);
/* Removes the child group if it exists. */
void sg_h5tree_remove(sg_h5tree *tree, const char *name);

/* Set or replace a value. Text and doubles are copied. SG_BAD_INPUT: a name or text that a file cannot hold. */
sg_code sg_h5tree_set_text(sg_h5tree *tree, const char *name, const char *text, sg_status *status);
sg_code sg_h5tree_set_i64(sg_h5tree *tree, const char *name, int64_t value, sg_status *status);
sg_code sg_h5tree_set_u64(sg_h5tree *tree, const char *name, uint64_t value, sg_status *status);
sg_code sg_h5tree_set_f64(sg_h5tree *tree, const char *name, double value, sg_status *status);
sg_code sg_h5tree_set_doubles(sg_h5tree *tree, const char *name, const double *values, size_t n, sg_status *status);

/* The value of that name and kind, or NULL. */
const sg_h5tree_value *sg_h5tree_value_of(const sg_h5tree *tree, const char *name, sg_h5tree_kind kind);
/* Read an attribute that must exist: SG_BAD_INPUT names what is missing, of another kind or too long for `bytes`. */
sg_code sg_h5tree_get_text(const sg_h5tree *tree, const char *name, char *text, size_t bytes, sg_status *status);
sg_code sg_h5tree_get_i64(const sg_h5tree *tree, const char *name, int64_t *value, sg_status *status);
sg_code sg_h5tree_get_u64(const sg_h5tree *tree, const char *name, uint64_t *value, sg_status *status);
sg_code sg_h5tree_get_f64(const sg_h5tree *tree, const char *name, double *value, sg_status *status);
/* The dataset itself, owned by the tree. */
sg_code sg_h5tree_get_doubles(const sg_h5tree *tree, const char *name, const double **values, size_t *n,
                              sg_status *status);

/* What kind of file: `name` is the first word of the user block ("stepgauge-run"), `what` is for messages ("run file"). */
typedef struct sg_file_format {
    const char *name, *what;
    int version; /* newest that this program reads, and what it writes */
} sg_file_format;

/* Replaces the file at `path` by the tree: lock, temporary in the same folder, fsync, rename, fsync of the folder. The
 * old file stays whole until the new one is durable. Only a file of the same format (or an empty one) is replaced.
 * SG_BAD_INPUT: path cannot be a file, holds something else, or another process is writing
 * it; SG_MACHINE: disk full, folder not writable, no memory. */
sg_code sg_h5tree_save(const char *path, const sg_file_format *format, const sg_h5tree *tree, sg_status *status);
/* sg_h5tree_save for a caller that holds the lock of the file (sim/durable_file.h). */
sg_code sg_h5tree_store(const char *path, const sg_file_format *format, const sg_h5tree *tree, sg_status *status);
/* Reads a file that sg_h5tree_save wrote. SG_BAD_INPUT: missing, a folder, not such a file, truncated, altered, of a newer
 * version, or with a structure that no tree has. *tree is sg_h5tree_free'd by the caller. */
sg_code sg_h5tree_load(const char *path, const sg_file_format *format, sg_h5tree **tree, sg_status *status);
/* The same from the bytes of a file; `path` is for messages only. */
sg_code sg_h5tree_load_bytes(const char *path, const sg_file_format *format, const void *bytes, size_t n,
                             sg_h5tree **tree, sg_status *status);

#endif
