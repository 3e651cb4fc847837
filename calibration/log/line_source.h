/* line_source.h: the lines of a log file of any size, in constant memory.
 *
 * Plain or gzip'd. A line ends at '\n' or at '\r' (progress bars redraw themselves with it). Terminal escapes are taken out,
 * NUL bytes become blanks (in UTF-16, which some shells write, they are taken out). A line of more than SG_LINE_MOST bytes
 * comes in pieces, cut at a blank where there is one. Bytes that are no UTF-8 are passed on as they are. */
#ifndef SG_CALIBRATION_LOG_LINE_SOURCE_H
#define SG_CALIBRATION_LOG_LINE_SOURCE_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SG_LINE_MOST = 16384 };

typedef struct sg_line {
    const char *text; /* valid until the next call; not NUL-terminated */
    size_t bytes;     /* at most SG_LINE_MOST; 0: an empty line */
    bool continues;   /* a further piece of the line before */
} sg_line;

typedef struct sg_line_source sg_line_source;

/* "-": standard input, once. SG_BAD_INPUT: missing, no regular file, no permission. */
sg_code sg_line_source_open(const char *path, sg_line_source **source, sg_status *status);
/* The same over memory, which must outlive the source. */
sg_code sg_line_source_over(const char *text, size_t bytes, sg_line_source **source, sg_status *status);
void sg_line_source_close(sg_line_source *source);

/* True and *line while there is one; false at the end. */
bool sg_line_source_next(sg_line_source *source, sg_line *line);
/* Behind the end: SG_BAD_INPUT for damaged compression, SG_MACHINE when the disk failed. */
sg_code sg_line_source_error(const sg_line_source *source, sg_status *status);
/* The compressed data ended in the middle: what came before it was given. */
bool sg_line_source_cut(const sg_line_source *source);
uint64_t sg_line_source_bytes(const sg_line_source *source); /* uncompressed, so far */

#endif
