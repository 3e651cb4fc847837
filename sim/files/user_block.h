/* user_block.h: the 512 bytes before the HDF5 data: one text line, verified before HDF5 sees a byte.
 *
 *     stepgauge-run 1 98304 crc64 0123456789abcdef\n   (then NUL bytes up to 512)
 *
 * format name, version, length of the whole file in bytes, CRC-64 of the line up to and without " crc64" followed by
 * everything after the user block. */
#ifndef SG_SIM_FILES_USER_BLOCK_H
#define SG_SIM_FILES_USER_BLOCK_H

#include "formats/bytes.h"
#include "sim/files/hdf5_tree.h"

enum { SG_USER_BLOCK_BYTES = 512 };

/* Writes the user block for a file whose body (what follows the block) is `n` bytes. */
void sg_user_block_make(const sg_file_format *format, const void *body, size_t n,
                        unsigned char block[SG_USER_BLOCK_BYTES]);
/* True when the file begins with the name of this format, whatever follows. */
bool sg_user_block_names(const sg_file_format *format, const void *file, size_t n);
/* Verifies a whole file. SG_BAD_INPUT says whether it is empty, no file of ours, of another format, of a newer version,
 * truncated or altered. */
sg_code sg_user_block_check(const char *path, const sg_file_format *format, const void *file, size_t n,
                            sg_status *status);

#endif
