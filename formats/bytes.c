#include "formats/bytes.h"

#include <stdlib.h>
#include <string.h>

bool sg_bytes_add(sg_bytes *bytes, const void *data, size_t n) {
    if (bytes->n > bytes->limit || n > bytes->limit - bytes->n) return false;
    if (n > bytes->room - bytes->n) {
        size_t room = bytes->room > bytes->limit / 2 ? bytes->limit : bytes->room * 2;
        if (room < bytes->n + n) room = bytes->n + n;
        unsigned char *bigger = realloc(bytes->data, room);
        if (!bigger) return false;
        bytes->data = bigger;
        bytes->room = room;
    }
    if (n) memcpy(bytes->data + bytes->n, data, n);
    bytes->n += n;
    return true;
}

/* Slicing by 8: table[k][b] is the checksum of byte b followed by k zero bytes. Made per call (a few microseconds)
 * because the program keeps no mutable state and 2048 literals would say less. */
static void crc64_tables(uint64_t table[8][256]) {
    const uint64_t polynomial = UINT64_C(0xC96C5795D7870F42);
    for (unsigned b = 0; b < 256; b++) {
        uint64_t crc = b;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ polynomial : crc >> 1;
        table[0][b] = crc;
    }
    for (unsigned b = 0; b < 256; b++)
        for (int k = 1; k < 8; k++) table[k][b] = table[0][table[k - 1][b] & 255] ^ table[k - 1][b] >> 8;
}

uint64_t sg_crc64(uint64_t before, const void *bytes, size_t n) {
    uint64_t table[8][256];
    crc64_tables(table);
    const unsigned char *p = bytes;
    uint64_t crc = ~before;
    for (; n >= 8; n -= 8, p += 8) {
        for (int k = 0; k < 8; k++) crc ^= (uint64_t)p[k] << 8 * k;
        uint64_t next = 0;
        for (int k = 0; k < 8; k++) next ^= table[7 - k][crc >> 8 * k & 255];
        crc = next;
    }
    for (; n > 0; n--, p++) crc = table[0][(crc ^ *p) & 255] ^ crc >> 8;
    return ~crc;
}
