/* path_template.h: paths as data sets state them: "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet". */
#ifndef SG_DATASETS_CATALOGUE_PATH_TEMPLATE_H
#define SG_DATASETS_CATALOGUE_PATH_TEMPLATE_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SG_TEMPLATE_PARTS = 16 };

/* What a field in braces stands for. */
typedef enum sg_template_field {
    SG_FIELD_TEXT, /* none: letters as they stand */
    SG_FIELD_EPISODE_CHUNK,
    SG_FIELD_EPISODE_INDEX,
    SG_FIELD_CHUNK_INDEX,
    SG_FIELD_FILE_INDEX,
    SG_FIELD_FRAME_INDEX,
    SG_FIELD_VIDEO_KEY,
    SG_FIELD_COUNT
} sg_template_field;

typedef struct sg_template {
    struct {
        uint8_t field;
        uint8_t width; /* digits at least, zeros before them */
        uint16_t from, length;
    } part[SG_TEMPLATE_PARTS];
    size_t n;
    char text[256];
} sg_template;

/* Values of the fields; unused ones are ignored. */
typedef struct sg_template_values {
    int64_t number[SG_FIELD_COUNT];
    const char *video_key;
} sg_template_values;

/* SG_BAD_INPUT: absolute, with a part "..", unknown fields or formats, too long, control characters. what: "data_path". */
sg_code sg_template_parse(const char *what, const char *text, sg_template *out, sg_status *status);
/* Whether a value of this field is in the path. */
bool sg_template_uses(const sg_template *template, sg_template_field field);
/* root/path into out. SG_BAD_INPUT: too long. */
sg_code sg_template_expand(const sg_template *template, const char *root, const sg_template_values *values, char *out,
                           size_t room, sg_status *status);
/* Whether a name can be one part of a path: not empty, "." or "..", no '/' and no control characters. */
bool sg_path_part_is_sound(const char *name);

#endif
