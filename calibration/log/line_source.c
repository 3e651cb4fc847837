#include "calibration/log/line_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "formats/durable_file.h"

/* Beside the largest line there is always room for a whole read. */
enum { READ_BYTES = 1 << 18, BUFFER_BYTES = READ_BYTES + SG_LINE_MOST };

struct sg_line_source {
    gzFile file; /* NULL over memory */
    const char *memory;
    size_t memory_left;
    char *buffer;
    size_t begin, end; /* what of the buffer is still to be given */
    size_t newline;    /* where the next '\n' is, or up to where there is none */
    bool at_end, failed, cut;
    bool no_memory; /* why it failed */
    bool wide;      /* UTF-16 */
    bool continues; /* the next piece belongs to the line of the last one */
    uint64_t bytes;
    char why[160];
    char path[256];
    char line[SG_LINE_MOST];
};

static sg_code make(sg_line_source **source, sg_status *status) {
    sg_line_source *s = calloc(1, sizeof *s);
    char *buffer = malloc(BUFFER_BYTES);
    if (!s || !buffer) {
        free(s);
        free(buffer);
        return sg_fail_memory(status, sizeof *s + BUFFER_BYTES, "reading a log");
    }
    s->buffer = buffer;
    *source = s;
    return SG_OK;
}

sg_code sg_line_source_over(const char *text, size_t bytes, sg_line_source **source, sg_status *status) {
    sg_code code = make(source, status);
    if (code != SG_OK) return code;
    (*source)->memory = text;
    (*source)->memory_left = bytes;
    return SG_OK;
}

/* Standard input, which may be a pipe. It stays open: it is not ours. */
static sg_code open_standard_input(sg_line_source **source, sg_status *status) {
    sg_code code = make(source, status);
    if (code != SG_OK) return code;
    sg_line_source *s = *source;
    (void)snprintf(s->path, sizeof s->path, "standard input");
    int copy = dup(STDIN_FILENO);
    s->file = copy >= 0 ? gzdopen(copy, "rb") : NULL;
    if (s->file) return (void)gzbuffer(s->file, READ_BYTES / 2), SG_OK;
    code = sg_fail(status, sg_file_code(errno), "standard input cannot be read: %s", strerror(errno));
    if (copy >= 0) (void)close(copy);
    sg_line_source_close(s);
    *source = NULL;
    return code;
}

sg_code sg_line_source_open(const char *path, sg_line_source **source, sg_status *status) {
    struct stat info;
    if (strcmp(path, "-") == 0) return open_standard_input(source, status);
    if (stat(path, &info) != 0)
        return sg_fail(status, SG_BAD_INPUT, "%.300s cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return sg_fail(status, SG_BAD_INPUT, "%.300s is no regular file: give the path of a log", path);
    sg_code code = make(source, status);
    if (code != SG_OK) return code;
    sg_line_source *s = *source;
    (void)snprintf(s->path, sizeof s->path, "%s", path);
    s->file = gzopen(path, "rb");
    if (!s->file) {
        code = sg_fail(status, sg_file_code(errno), "%.300s cannot be read: %s", path, strerror(errno));
        sg_line_source_close(s);
        *source = NULL;
        return code;
    }
    (void)gzbuffer(s->file, READ_BYTES / 2);
    return SG_OK;
}

void sg_line_source_close(sg_line_source *s) {
    if (!s) return;
    if (s->file) (void)gzclose(s->file);
    free(s->buffer);
    free(s);
}

static size_t read_file(sg_line_source *s, char *to, size_t most) {
    int n = gzread(s->file, to, (unsigned)most);
    int error = Z_OK;
    const char *why = gzerror(s->file, &error);
    if (error == Z_BUF_ERROR) s->cut = true;
    if (n < 0 && error != Z_BUF_ERROR) {
        s->failed = true;
        s->no_memory = error == Z_MEM_ERROR;
        (void)snprintf(s->why, sizeof s->why, "%.150s", error == Z_ERRNO ? strerror(errno) : why);
    }
    return n > 0 ? (size_t)n : 0;
}

static size_t read_memory(sg_line_source *s, char *to, size_t most) {
    size_t n = s->memory_left < most ? s->memory_left : most;
    if (n) memcpy(to, s->memory, n);
    s->memory += n;
    s->memory_left -= n;
    return n;
}

static void fill(sg_line_source *s) {
    if (s->begin) memmove(s->buffer, s->buffer + s->begin, s->end - s->begin);
    s->end -= s->begin;
    s->newline -= s->begin;
    s->begin = 0;
    size_t room = BUFFER_BYTES - s->end;
    size_t n = s->file ? read_file(s, s->buffer + s->end, room) : read_memory(s, s->buffer + s->end, room);
    if (s->bytes == 0 && n >= 2) s->wide = memcmp(s->buffer, "\xff\xfe", 2) == 0;
    if (n == 0) s->at_end = true;
    s->end += n;
    s->bytes += n;
}

/* The end of an escape sequence that begins at `at`: "\x1b[...m", "\x1b]...\a", else two characters. */
static size_t escape_end(const char *text, size_t at, size_t bytes) {
    size_t i = at + 1;
    if (i >= bytes) return bytes;
    if (text[i] == '[') {
        for (i++; i < bytes && (unsigned char)text[i] >= 0x20 && (unsigned char)text[i] < 0x40; i++) {
        }
        return i < bytes ? i + 1 : bytes;
    }
    if (text[i] == ']') {
        for (size_t j = i + 1; j < bytes && j < i + 256; j++)
            if (text[j] == '\a' || text[j] == '\x1b') return j + 1;
    }
    return i + 1 < bytes ? i + 1 : bytes;
}

static void clean(sg_line_source *s, const char *text, size_t bytes, sg_line *line) {
    bool plain = !memchr(text, '\x1b', bytes) && !memchr(text, '\0', bytes);
    line->text = text;
    line->bytes = bytes;
    if (plain) return;
    size_t n = 0;
    for (size_t i = 0; i < bytes;) {
        if (text[i] == '\x1b') {
            i = escape_end(text, i, bytes);
            continue;
        }
        if (text[i] || !s->wide) s->line[n++] = text[i] ? text[i] : ' ';
        i++;
    }
    line->text = s->line;
    line->bytes = n;
}

/* Bytes of the piece that begins at `text`, of which `bytes` <= SG_LINE_MOST are looked at and no end of line is among
 * them: up to the last blank, so that no word is cut. */
static size_t piece(const char *text, size_t bytes) {
    for (size_t i = bytes; i > bytes / 2; i--)
        if (text[i - 1] == ' ' || text[i - 1] == ',') return i;
    return bytes;
}

/* Whether s->newline is one. Looked for once: a file may have nothing but carriage returns. */
static bool has_newline(sg_line_source *s) {
    if (s->newline < s->begin) s->newline = s->begin;
    if (s->newline < s->end && s->buffer[s->newline] == '\n') return true;
    const char *found = s->newline < s->end ? memchr(s->buffer + s->newline, '\n', s->end - s->newline) : NULL;
    s->newline = found ? (size_t)(found - s->buffer) : s->end;
    return found;
}

bool sg_line_source_next(sg_line_source *s, sg_line *line) {
    bool whole = has_newline(s);
    while (!whole && s->end - s->begin < SG_LINE_MOST && !s->at_end) {
        fill(s);
        whole = has_newline(s);
    }
    size_t left = s->end - s->begin;
    if (!left) return false;
    const char *text = s->buffer + s->begin, *end = NULL;
    size_t looked = left < SG_LINE_MOST ? left : SG_LINE_MOST;
    if (whole && s->newline - s->begin < looked) end = s->buffer + s->newline;
    const char *back = memchr(text, '\r', end ? (size_t)(end - text) : looked);
    if (back) end = back;
    line->continues = s->continues;
    s->continues = !end && looked == SG_LINE_MOST;
    size_t bytes = end ? (size_t)(end - text) : s->continues ? piece(text, looked) : looked;
    s->begin += bytes + (end ? 1 : 0);
    clean(s, text, bytes, line);
    return true;
}

sg_code sg_line_source_error(const sg_line_source *s, sg_status *status) {
    if (!s->failed) return SG_OK;
    return sg_fail(status, s->no_memory ? SG_MACHINE : SG_BAD_INPUT, "%s cannot be read to its end: %s", s->path,
                   s->why);
}

bool sg_line_source_cut(const sg_line_source *s) {
    return s->cut;
}

uint64_t sg_line_source_bytes(const sg_line_source *s) {
    return s->bytes;
}
