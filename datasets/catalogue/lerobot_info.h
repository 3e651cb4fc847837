/* lerobot_info.h: LeRobot's meta/info.json, versions 2.0, 2.1 and 3.0. */
#ifndef SG_DATASETS_CATALOGUE_LEROBOT_INFO_H
#define SG_DATASETS_CATALOGUE_LEROBOT_INFO_H

#include "datasets/catalogue/catalogue.h"

typedef struct sg_lerobot_info {
    sg_dataset set;
    sg_camera *cameras;                   /* set.cameras of them; store: SG_STORE_VIDEO or SG_STORE_TABLE */
    int64_t chunks_size;                  /* episodes (v3.0: files) per folder */
    char data_path[256], video_path[256]; /* "": not stated */
} sg_lerobot_info;

/* SG_NO: at path is no such file, nor meta/info.json in a folder there, nor info.json in a meta folder; nothing is in the status. Bad JSON:
 * line and column. */
sg_code sg_lerobot_info_read(const char *path, sg_lerobot_info *info, sg_status *status);
void sg_lerobot_info_free(sg_lerobot_info *info);

#endif
