/* bytes.h: a buffer that grows up to a limit, and the checksum of one. */
#ifndef SG_FORMATS_BYTES_H
#define SG_FORMATS_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeros, but for the limit, to begin with; data is free'd by its owner. */
typedef struct sg_bytes {
    unsigned char *data;
    size_t n, room, limit;
} sg_bytes;

/* false: no memory, or the limit is reached. */
bool sg_bytes_add(sg_bytes *bytes, const void *data, size_t n);

/* CRC-64/XZ: polynomial of ECMA-182, reflected, all ones in and out; of "123456789": 995dc9bbdf1939fa. `before` is the
 * checksum of what came before these bytes, 0 at the beginning. */
uint64_t sg_crc64(uint64_t before, const void *bytes, size_t n);

#endif
