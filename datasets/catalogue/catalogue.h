/* catalogue.h: what a data set on disk holds, and where each frame of each camera lies.
 *
 * Kinds: LeRobot v2.0, v2.1 and v3.0 (video, or images in files or tables); folders of PNG or JPEG files, one folder per
 * episode and camera; HDF5 demonstrations as robomimic, ALOHA and LIBERO write them. A catalogue is opened once, before
 * workers start, and only read afterwards: any number of threads and forked processes may share it. */
#ifndef SG_DATASETS_CATALOGUE_CATALOGUE_H
#define SG_DATASETS_CATALOGUE_CATALOGUE_H

#include "datasets/catalogue/dataset.h"

#include <stddef.h>

typedef enum sg_dataset_kind {
    SG_DATASET_LEROBOT,
    SG_DATASET_IMAGES,
    SG_DATASET_ROBOMIMIC,
    SG_DATASET_ALOHA,
    SG_DATASET_LIBERO,
    SG_DATASET_KIND_COUNT
} sg_dataset_kind;
/* "lerobot", "images", "robomimic", "aloha", "libero" */
const char *sg_dataset_kind_name(sg_dataset_kind kind);

/* How a camera's frames are kept. */
typedef enum sg_frame_store {
    SG_STORE_VIDEO,        /* path: a video file; time_s: presentation time of the frame */
    SG_STORE_IMAGE_FILE,   /* path: a PNG or JPEG file */
    SG_STORE_TABLE,        /* path: a Parquet file; inner: its column of encoded images; row */
    SG_STORE_HDF5_RAW,     /* path: an HDF5 file; inner: a uint8 data set [T, H, W, 3]; row */
    SG_STORE_HDF5_ENCODED, /* the same, [T, bytes]: an encoded image in each row, zeros behind it */
} sg_frame_store;

typedef struct sg_camera {
    char name[96]; /* "observation.images.top" */
    int64_t height, width;
    uint8_t store;  /* sg_frame_store */
    char codec[24]; /* "av1", "h264", "png", "jpeg", "raw"; "" unknown */
    int64_t
        gop; /* video: frames from one key frame to the next as the data set states, or else its first video; 0: unknown */
    double fps; /* video */
} sg_camera;

typedef struct sg_catalogue {
    char path[512];  /* of the data set's folder (one HDF5 file: of the file) */
    char name[64];   /* its folder's name; in Hugging Face's cache: the repository's, without the user */
    sg_dataset info; /* as sg_dataset_read tells it */
    sg_dataset_kind kind;
    sg_camera *cameras;
    size_t n_cameras;
    int64_t *first_frame; /* [n_episodes + 1]: of each episode among all frames; the last is their number */
    size_t n_episodes;
    bool has_tables; /* rows of state and action can be read; false: `tables_why` */
    char tables_why[160];
    char warning[200]; /* what is amiss and does not matter to a trainer; "" nothing */
    void *places;      /* the kind's own */
} sg_catalogue;

/* Where one frame lies. Texts live as long as the catalogue, or until the next call with the same *place. */
typedef struct sg_frame_place {
    uint8_t store;
    char path[768];
    char inner[256];
    double time_s;
    int64_t row;
} sg_frame_place;

/* Where the row of state and action of a frame lies. Names: columns of a table; data sets [T, n] of an HDF5 file, several
 * joined by '\n' in the order in which their numbers make the state. "": there is none. */
typedef struct sg_row_place {
    bool hdf5; /* false: a Parquet file */
    char path[768];
    char state[1024], action[256];
    int64_t row;
} sg_row_place;

/* path: a folder, or one HDF5 file. HDF5, tables and (where the data set does not state their key frames) each camera's first
 * video are looked into by a child process. SG_BAD_INPUT: which kinds were
 * looked for, and what was missing. */
sg_code sg_catalogue_open(const char *path, sg_catalogue **catalogue, sg_status *status);
void sg_catalogue_close(sg_catalogue *catalogue);

/* frame: of the episode. SG_BAD_INPUT: outside of it. */
sg_code sg_catalogue_place(const sg_catalogue *catalogue, size_t camera, int64_t episode, int64_t frame,
                           sg_frame_place *place, sg_status *status);
/* The same for the row of state and action. SG_BAD_INPUT: outside of the episode, or no tables (`tables_why`). */
sg_code sg_catalogue_row(const sg_catalogue *catalogue, int64_t episode, int64_t frame, sg_row_place *place,
                         sg_status *status);
/* Episode of a frame counted over all; -1: outside of them. */
int64_t sg_catalogue_episode(const sg_catalogue *catalogue, int64_t frame);

/* "lerobot-v3.0;av1;480x640;gop=2;cameras=2;name=pusht": what its loading depends on. */
void sg_catalogue_describe(const sg_catalogue *catalogue, char *text, size_t bytes);

/* Drops the pages of the data set's files from the page cache (posix_fadvise), for reads that are cold. SG_MACHINE: not
 * possible here, with the reason. */
sg_code sg_catalogue_make_cold(const sg_catalogue *catalogue, sg_status *status);

#endif
