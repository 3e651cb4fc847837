/* A data set of image files: one folder per episode, in it one per camera, in it 000000.png, 000001.png, ... */
#include "datasets/make/make_internal.h"

#include <stdlib.h>
#include <string.h>

static sg_code make_one(sg_make *make, int64_t camera, int64_t episode, int64_t frame, sg_status *status) {
    static const char *const named[] = {"top", "wrist"};
    char name[SG_MAKE_NAME_BYTES], path[SG_MAKE_PATH_BYTES];
    (void)snprintf(name, sizeof name, "camera%lld", (long long)camera + 1);
    const char *ending = strcmp(make->o.codec, "jpeg") == 0 ? "jpg" : "png";
    uint8_t *bytes = NULL;
    size_t n = 0;
    sg_code code = sg_make_path(make, path, status, "episode_%06lld/%s/%06lld.%s", (long long)episode,
                                camera < 2 ? named[camera] : name, (long long)frame, ending);
    if (code == SG_OK && frame == 0) code = sg_make_way(make, path, status);
    if (code == SG_OK) code = sg_make_image(make, camera, episode, frame, NULL, &bytes, &n, status);
    if (code == SG_OK) code = sg_make_write(path, bytes, n, status);
    free(bytes);
    return code;
}

sg_code sg_make_images(sg_make *make, sg_status *status) {
    sg_code code = SG_OK;
    for (int64_t e = 0; e < make->o.episodes; e++)
        for (int64_t c = 0; c < make->o.cameras; c++)
            for (int64_t f = 0; f < make->o.frames_per_episode && code == SG_OK; f++)
                code = make_one(make, c, e, f, status);
    return code;
}
