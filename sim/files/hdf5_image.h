/* hdf5_image.h: the steps between a tree and the bytes of its file. Used by sim/hdf5_*.c and their tests only.
 *
 *     tree --write--> HDF5 bytes          HDF5 bytes --flatten (child process)--> flat form --unflatten--> tree
 *
 * HDF5 1.10 crashes, hangs and corrupts the heap on hostile bytes, and a checksum only guards against accidents. So HDF5
 * parses in a child process with limits on time and memory, and what comes back is the flat form: records that are checked
 * one by one before they become a tree. */
#ifndef SG_SIM_FILES_HDF5_IMAGE_H
#define SG_SIM_FILES_HDF5_IMAGE_H

#include "formats/bytes.h"
#include "sim/files/hdf5_tree.h"

/* ---- the flat form (sim/files/hdf5_flat.c) ---- */

/* false as sg_bytes_add. A group ends with sg_flat_end. Values of a group come before its groups. */
bool sg_flat_group(sg_bytes *flat, const char *name);
bool sg_flat_end(sg_bytes *flat);
bool sg_flat_value(sg_bytes *flat, const char *name, sg_h5tree_kind kind, const void *payload, size_t n);
/* SG_BAD_INPUT: the records are no tree (names out of order, lengths beyond the end, too deep, unclean text). */
sg_code sg_h5tree_unflatten(const void *flat, size_t n, sg_h5tree **tree, sg_status *status);

/* ---- HDF5 (sim/files/hdf5_write.c, sim/files/hdf5_read.c, sim/files/hdf5_child.c) ---- */

/* The bytes of the file with room for the user block; *image is free'd by the caller. */
sg_code sg_hdf5_write(const sg_h5tree *tree, unsigned char **image, size_t *n, sg_status *status);
/* Parses in this process. Only for a child that may die of it. */
sg_code sg_hdf5_flatten(const void *image, size_t n, sg_bytes *flat, sg_status *status);
/* Parses in a child process. flat->data is free'd by the caller. SG_BAD_INPUT also when the child crashed or ran out of
 * its time or memory; SG_MACHINE when no child could be started. */
sg_code sg_hdf5_flatten_apart(const void *image, size_t n, sg_bytes *flat, sg_status *status);

/* ---- trees without search for an older entry of that name (sim/files/hdf5_tree.c) ---- */

bool sg_h5tree_name_is_sound(const char *name);
sg_code sg_h5tree_append_group(sg_h5tree *tree, const char *name, sg_h5tree **group, sg_status *status);
/* Takes the child group out of the tree (NULL: none of that name); the caller owns it. */
sg_h5tree *sg_h5tree_take(sg_h5tree *tree, const char *name);
/* Puts a taken group back where one was taken from since (room is certain). NULL is fine. */
void sg_h5tree_put_back(sg_h5tree *tree, sg_h5tree *group);
/* Takes over value.text and value.doubles, also on failure; value.name is set here. */
sg_code sg_h5tree_append_value(sg_h5tree *tree, sg_h5tree_value value, const char *name, sg_status *status);

#endif
