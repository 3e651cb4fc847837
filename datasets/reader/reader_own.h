/* reader_own.h: what a reader keeps open, and its two halves: frames and rows. For reader*.c alone. */
#ifndef SG_DATASETS_READER_READER_OWN_H
#define SG_DATASETS_READER_READER_OWN_H

#include "datasets/codec/codec.h"
#include "datasets/reader/reader.h"
#include "datasets/reader/reader_hdf5.h"
#include "datasets/reader/reader_keep.h"
#include "datasets/tables/tables.h"

struct sg_reader {
    const sg_catalogue *catalogue;
    sg_reader_options options; /* without zeros */
    size_t n_cameras;
    const sg_codec_api *video, *image; /* NULL: not opened yet */
    sg_keep videos, tables, files;
    uint8_t *frame, *turned, *encoded; /* frame, turned: of the largest camera */
    size_t encoded_room;
    int64_t opened; /* files so far */
    sg_decode_count decoded;
    double *numbers; /* a row of a table */
    float *state, *action;
};

/* One frame of one camera to rgb [3, height, width]. */
sg_code sg_reader_frame(sg_reader *reader, size_t camera, int64_t episode, int64_t frame, uint8_t *rgb,
                        sg_status *status);
/* frames_per_sample rows of state and action_rows rows of action into reader->state and reader->action. */
sg_code sg_reader_rows(sg_reader *reader, int64_t episode, int64_t frame, sg_status *status);

/* From those kept open, or newly opened. */
sg_code sg_reader_table(sg_reader *reader, const char *path, sg_table **table, sg_status *status);
sg_code sg_reader_file(sg_reader *reader, const char *path, sg_hdf5_rows **file, sg_status *status);

#endif
