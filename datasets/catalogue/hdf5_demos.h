/* hdf5_demos.h: what files of HDF5 demonstrations hold. For datasets/catalogue/catalogue_hdf5.c, between it and its child.
 *
 *     robomimic, LIBERO: /data/demo_N/obs/CAMERA [T, H, W, 3], /data/demo_N/actions, and numbers of the robot in obs
 *     ALOHA:             /observations/images/CAMERA [T, H, W, 3] or [T, bytes], /observations/qpos, /action; a file each */
#ifndef SG_DATASETS_CATALOGUE_HDF5_DEMOS_H
#define SG_DATASETS_CATALOGUE_HDF5_DEMOS_H

#include "datasets/catalogue/catalogue.h"
#include "datasets/catalogue/name_list.h"
#include "formats/bytes.h"

/* What the child answers: this, the cameras, then the episodes in order. */
typedef struct sg_demos_head {
    uint32_t kind, n_cameras;
    int64_t state_dim, action_dim;
    char amiss[176];   /* images that are no camera's, and why; "" none */
    char state[3][64]; /* data sets that make the state one after the other, below obs or observations; "": no more */
} sg_demos_head;

typedef struct sg_demo {
    uint32_t file, number; /* number: N of demo_N */
    int64_t frames;
} sg_demo;

/* Opens HDF5 files in this process: only for a child that may die of it. files: of the folder; NULL: path is a file. */
sg_code sg_demos_scan(const char *path, const sg_name_list *files, sg_bytes *answer, sg_status *status);

#endif
