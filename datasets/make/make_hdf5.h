/* make_hdf5.h: an HDF5 file of demonstrations being written, for make_*.c alone. */
#ifndef SG_DATASETS_MAKE_MAKE_HDF5_H
#define SG_DATASETS_MAKE_MAKE_HDF5_H

#include "datasets/make/make_internal.h"

/* The first trouble is kept and what follows does nothing; sg_h5_close tells it. Groups are ids of the HDF5 library, 0 or
 * more; those that are opened here are closed by sg_h5_leave. */
typedef struct sg_h5_file {
    sg_make *make;
    char path[SG_MAKE_PATH_BYTES];
    int64_t file; /* the root's group too */
    sg_code code;
    sg_status status;
} sg_h5_file;

typedef enum sg_h5_type { SG_H5_FLOAT, SG_H5_DOUBLE, SG_H5_INT64, SG_H5_UINT8 } sg_h5_type;

/* A new file below the data set's folder. */
void sg_h5_open(sg_h5_file *h5, sg_make *make, const char *name);
sg_code sg_h5_close(sg_h5_file *h5, sg_status *status);

int64_t sg_h5_group(sg_h5_file *h5, int64_t parent, const char *name);
void sg_h5_leave(sg_h5_file *h5, int64_t group);
void sg_h5_text(sg_h5_file *h5, int64_t group, const char *name, const char *text);
void sg_h5_integer(sg_h5_file *h5, int64_t group, const char *name, int64_t value);
void sg_h5_flag(sg_h5_file *h5, int64_t group, const char *name, bool value); /* as h5py writes a bool */
/* rows x width numbers; width 0: one number per row, [rows]. */
void sg_h5_numbers(sg_h5_file *h5, int64_t group, const char *name, sg_h5_type type, const double *numbers,
                   int64_t rows, int64_t width);
/* The frames of an episode as uint8 [frames, height, width, 3]; in_chunks: each frame a chunk of its own. */
void sg_h5_frames(sg_h5_file *h5, int64_t group, const char *name, int64_t camera, int64_t episode, bool in_chunks);
/* The frames encoded, as uint8 [frames, longest] with zeros behind each; lengths: [frames], filled. */
void sg_h5_images(sg_h5_file *h5, int64_t group, const char *name, int64_t camera, int64_t episode, double *lengths);

#endif
