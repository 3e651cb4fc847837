/* scene.h: what synthetic cameras see, as RGB frames: a table under uneven light with texture at several scales, things with
 * edges that move over it, sensor noise. For clips and data sets whose frames cost what a camera's cost. */
#ifndef SG_DATASETS_MAKE_SCENE_H
#define SG_DATASETS_MAKE_SCENE_H

#include "kernels/status.h"

#include <stdint.h>

typedef struct sg_scene sg_scene; /* read-only once made: threads may share it */

/* height, width: 1 .. 16384. The same seed gives the same frames. */
sg_code sg_scene_new(int64_t height, int64_t width, uint64_t seed, sg_scene **scene, sg_status *status);
void sg_scene_free(sg_scene *scene); /* NULL is allowed */
/* Frame number `frame` (>= 0; one step of motion after the one before) to rgb: [3, height, width]. */
void sg_scene_draw(const sg_scene *scene, int64_t frame, uint8_t *rgb);

#endif
