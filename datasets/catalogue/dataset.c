#include "datasets/catalogue/catalogue_kinds.h"
#include "datasets/catalogue/lerobot_info.h"

#include <string.h>

sg_code sg_dataset_read(const char *path, sg_dataset *dataset, sg_status *status) {
    memset(dataset, 0, sizeof *dataset);
    sg_code code = SG_NO;
    if (!sg_catalogue_is_hdf5(path)) {
        sg_lerobot_info info;
        code = sg_lerobot_info_read(path, &info, status);
        if (code == SG_OK) {
            *dataset = info.set;
            sg_lerobot_info_free(&info);
        }
    }
    if (code != SG_NO) return code;
    sg_catalogue *catalogue;
    code = sg_catalogue_open(path, &catalogue, status);
    if (code != SG_OK) return code;
    *dataset = catalogue->info;
    sg_catalogue_close(catalogue);
    return SG_OK;
}
