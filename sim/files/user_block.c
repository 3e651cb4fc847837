#include "sim/files/user_block.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The line without the checksum; returns its length. */
static size_t format_start(const char *name, int64_t version, uint64_t length, char line[SG_USER_BLOCK_BYTES]) {
    int n = snprintf(line, SG_USER_BLOCK_BYTES, "%s %" PRId64 " %" PRIu64, name, version, length);
    return n > 0 && n < SG_USER_BLOCK_BYTES ? (size_t)n : 0;
}

static void format_block(const char *name, int64_t version, uint64_t length, uint64_t crc,
                         unsigned char block[SG_USER_BLOCK_BYTES]) {
    memset(block, 0, SG_USER_BLOCK_BYTES);
    size_t n = format_start(name, version, length, (char *)block);
    (void)snprintf((char *)block + n, SG_USER_BLOCK_BYTES - n, " crc64 %016" PRIx64 "\n", crc);
}

static uint64_t checksum(const char *name, int64_t version, const unsigned char *body, size_t n) {
    char line[SG_USER_BLOCK_BYTES];
    size_t start = format_start(name, version, (uint64_t)n + SG_USER_BLOCK_BYTES, line);
    return sg_crc64(sg_crc64(0, line, start), body, n);
}

void sg_user_block_make(const sg_file_format *format, const void *body, size_t n,
                        unsigned char block[SG_USER_BLOCK_BYTES]) {
    format_block(format->name, format->version, (uint64_t)n + SG_USER_BLOCK_BYTES,
                 checksum(format->name, format->version, body, n), block);
}

typedef struct sg_block_line {
    char name[32];
    int64_t version;
    uint64_t length, crc;
} block_line;

/* The fields of the line; false when the block is not byte for byte what format_block makes of them. */
static bool parse_block(const unsigned char *file, block_line *line) {
    char text[SG_USER_BLOCK_BYTES + 1], *at = text;
    memcpy(text, file, SG_USER_BLOCK_BYTES);
    text[SG_USER_BLOCK_BYTES] = 0;
    size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyz-");
    if (name >= sizeof line->name) return false;
    memcpy(line->name, text, name);
    line->name[name] = 0;
    line->version = strtoll(text + name, &at, 10);
    line->length = strtoull(at, &at, 10);
    static const char sum[] = " crc64 ";
    if (strncmp(at, sum, sizeof sum - 1) != 0) return false;
    line->crc = strtoull(at + sizeof sum - 1, NULL, 16);
    unsigned char again[SG_USER_BLOCK_BYTES];
    format_block(line->name, line->version, line->length, line->crc, again);
    return memcmp(again, file, sizeof again) == 0;
}

/* Length of the format name at the start of the file when it is one of ours, else 0. */
static size_t our_name(const unsigned char *file, size_t n) {
    static const char prefix[] = "stepgauge-";
    size_t length = sizeof prefix - 1;
    if (n < length || memcmp(file, prefix, length) != 0) return 0;
    while (length < n && length < 31 && (islower(file[length]) || file[length] == '-')) length++;
    return length;
}

bool sg_user_block_names(const sg_file_format *format, const void *file, size_t n) {
    size_t length = our_name(file, n);
    return length > 0 && length == strlen(format->name) && memcmp(file, format->name, length) == 0;
}

static sg_code foreign(const char *path, const sg_file_format *format, const unsigned char *file, size_t n,
                       sg_status *status) {
    static const unsigned char signature[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    if (n >= sizeof signature && memcmp(file, signature, sizeof signature) == 0)
        return sg_fail(status, SG_BAD_INPUT,
                       "%s is an HDF5 file, but not a %s: give one that stepgauge wrote (it begins with '%s')", path,
                       format->what, format->name);
    return sg_fail(status, SG_BAD_INPUT, "%s is not a %s: give one that stepgauge wrote (it begins with '%s')", path,
                   format->what, format->name);
}

sg_code sg_user_block_check(const char *path, const sg_file_format *format, const void *file, size_t n,
                            sg_status *status) {
    if (n == 0)
        return sg_fail(status, SG_BAD_INPUT, "%s is empty, not a %s: delete it or give another file", path,
                       format->what);
    size_t name_length = our_name(file, n);
    if (!name_length) return foreign(path, format, file, n, status);
    if (!sg_user_block_names(format, file, n))
        return sg_fail(status, SG_BAD_INPUT, "%s is a %.*s file, but a %s is needed here", path, (int)name_length,
                       (const char *)file, format->what);
    if (n < SG_USER_BLOCK_BYTES)
        return sg_fail(status, SG_BAD_INPUT,
                       "%s is truncated: %zu bytes are left, fewer than its header has: restore it from a copy", path,
                       n);
    block_line line;
    if (!parse_block(file, &line))
        return sg_fail(status, SG_BAD_INPUT, "the header of %s was altered: restore the file from a copy", path);
    if (line.version > format->version)
        return sg_fail(status, SG_BAD_INPUT,
                       "%s is a %s of version %" PRId64 ", newer than version %d, which this program reads: update "
                       "stepgauge",
                       path, format->what, line.version, format->version);
    if (line.version < 1)
        return sg_fail(status, SG_BAD_INPUT, "%s says it is of version %" PRId64 ", which never existed", path,
                       line.version);
    if (n < line.length)
        return sg_fail(status, SG_BAD_INPUT,
                       "%s is truncated: %zu of %" PRIu64 " bytes are left: restore it from a copy", path, n,
                       line.length);
    if (n > line.length)
        return sg_fail(status, SG_BAD_INPUT, "%s was altered: %" PRIu64 " bytes follow its end: restore it from a copy",
                       path, (uint64_t)n - line.length);
    const unsigned char *body = (const unsigned char *)file + SG_USER_BLOCK_BYTES;
    if (checksum(line.name, line.version, body, n - SG_USER_BLOCK_BYTES) != line.crc)
        return sg_fail(status, SG_BAD_INPUT,
                       "%s was altered or damaged: its checksum does not match: restore it from a copy", path);
    return SG_OK;
}
