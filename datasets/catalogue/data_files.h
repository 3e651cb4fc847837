/* data_files.h: all files below a data set's folder. */
#ifndef SG_DATASETS_CATALOGUE_DATA_FILES_H
#define SG_DATASETS_CATALOGUE_DATA_FILES_H

#include "kernels/status.h"

#include <stddef.h>

/* Every symbolic link below the folder leads to a place within it (Hugging Face's cache: or to the blobs beside it), and
 * everything else is a folder or a regular file. SG_BAD_INPUT: what does not. Links that lead nowhere are no matter here. */
sg_code sg_files_check(const char *folder, sg_status *status);

/* The file that a table's image names instead of holding it. stated: as the table says, below the folder; or where it lay when
 * it was recorded (an absolute path), in the folder or, where that has moved, in its images/ all the same. path: the file,
 * which lies in the folder (in Hugging Face's cache: or in the blobs beside it). SG_BAD_INPUT: there is none. */
sg_code sg_files_image(const char *folder, const char *stated, char *path, size_t room, sg_status *status);

/* Writes every file's changes to the disk and drops its pages from the page cache. path: a folder, or one file. SG_MACHINE:
 * they stay (files in memory, or other programs that hold them), with the reason. */
sg_code sg_files_make_cold(const char *path, sg_status *status);

#endif
