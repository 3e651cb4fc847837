/* catalogue_kinds.h: what every kind of data set tells the catalogue. For datasets/catalogue*.c alone. */
#ifndef SG_DATASETS_CATALOGUE_CATALOGUE_KINDS_H
#define SG_DATASETS_CATALOGUE_CATALOGUE_KINDS_H

#include "datasets/catalogue/catalogue.h"

/* Beginning of every kind's `places`. Episode and frame are checked by the caller. */
typedef struct sg_places {
    sg_code (*frame)(const sg_catalogue *catalogue, size_t camera, int64_t episode, int64_t frame,
                     sg_frame_place *place, sg_status *status);
    sg_code (*row)(const sg_catalogue *catalogue, int64_t episode, int64_t frame, sg_row_place *place,
                   sg_status *status);
    void (*close)(void *places);
} sg_places;

/* Each fills a catalogue of which path and name are set; what it has set on failure is freed by sg_catalogue_close. */
sg_code sg_catalogue_open_lerobot(sg_catalogue *catalogue, sg_status *status);
/* SG_NO: there are no folders of images; nothing is in the status. */
sg_code sg_catalogue_open_images(sg_catalogue *catalogue, sg_status *status);
/* SG_NO: there are no HDF5 files; nothing is in the status. */
sg_code sg_catalogue_open_hdf5(sg_catalogue *catalogue, sg_status *status);

/* Warns where info.json stated another number of frames than the episodes have. */
void sg_catalogue_compare_frames(sg_catalogue *catalogue, int64_t stated);

/* Whether the file begins as HDF5 does, behind a user block too. */
bool sg_catalogue_is_hdf5(const char *path);

/* Room for n episodes in first_frame, zeros. SG_BAD_INPUT: more than a data set can have, or none. */
sg_code sg_catalogue_episodes(sg_catalogue *catalogue, size_t n, sg_status *status);
/* Lengths of the episodes, written to first_frame[1 ..], become their beginnings; info.frames and info.episodes follow. */
sg_code sg_catalogue_sum_lengths(sg_catalogue *catalogue, sg_status *status);
/* Room for n cameras, zeros; 0 is fine. */
sg_code sg_catalogue_cameras(sg_catalogue *catalogue, size_t n, sg_status *status);
/* info's cameras, sizes and codec, from `cameras`. */
void sg_catalogue_sum_cameras(sg_catalogue *catalogue);

/* DIR/name into a buffer of `room`; SG_BAD_INPUT: too long. */
sg_code sg_catalogue_join(char *out, size_t room, const char *dir, const char *name, sg_status *status);

enum { SG_CAMERAS_MOST = 256 };
/* Frames of a data set at most: a century at 30 frames per second and 10 cameras. */
#define SG_FRAMES_MOST INT64_C(1000000000000)

#endif
