/* dataset_text.h: what a data set's description says ("lerobot-v3.0;av1;480x640;gop=2;cameras=2;name=pusht", as
 * sg_catalogue_describe writes it). */
#ifndef SG_CALIBRATION_DATASET_TEXT_H
#define SG_CALIBRATION_DATASET_TEXT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sg_dataset_text {
    char codec[24];
    int64_t height, width, gop, cameras; /* gop: 0 where it is not stated */
} sg_dataset_text;

/* False: kind, codec and size do not stand where they belong. */
bool sg_dataset_text_read(const char *text, sg_dataset_text *out);

#endif
