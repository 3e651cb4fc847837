/* Frames of a data set under way. */
#include "datasets/make/make_internal.h"

#include <stdlib.h>

/* Each camera sees another scene in each episode. */
static sg_code look(sg_make *make, int64_t camera, int64_t episode, sg_status *status) {
    if (make->scene && make->scene_camera == camera && make->scene_episode == episode) return SG_OK;
    sg_scene_free(make->scene);
    make->scene = NULL;
    make->scene_camera = camera;
    make->scene_episode = episode;
    uint64_t seed = make->o.seed * 1000003 + (uint64_t)(episode * make->o.cameras + camera);
    return sg_scene_new(make->o.height, make->o.width, seed, &make->scene, status);
}

static void count_levels(const uint8_t *rgb, size_t pixels, sg_level_counts *counts) {
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < pixels; i++) counts->count[c][rgb[c * pixels + i]]++;
}

sg_code sg_make_draw(sg_make *make, int64_t camera, int64_t episode, int64_t frame, uint8_t *rgb,
                     sg_level_counts *counts, sg_status *status) {
    if (make->o.stop && *make->o.stop) return sg_fail(status, SG_NO, "interrupted: no data set was made");
    sg_code code = look(make, camera, episode, status);
    if (code != SG_OK) return code;
    sg_scene_draw(make->scene, frame, rgb);
    if (counts) count_levels(rgb, (size_t)(make->o.height * make->o.width), counts);
    make->drawn++;
    if (make->o.progress)
        make->o.progress(make->o.user, (double)make->drawn / (double)(make->frames * make->o.cameras));
    return SG_OK;
}

sg_code sg_make_image(sg_make *make, int64_t camera, int64_t episode, int64_t frame, sg_level_counts *counts,
                      uint8_t **bytes, size_t *n, sg_status *status) {
    sg_code code = sg_make_draw(make, camera, episode, frame, make->rgb, counts, status);
    if (code != SG_OK) return code;
    return make->image->image_write(make->o.codec, make->rgb, make->o.height, make->o.width, bytes, n, status);
}
