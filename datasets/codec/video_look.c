#include "datasets/codec/video_look.h"

#include "formats/child.h"

#include <stdlib.h>
#include <string.h>

/* In the child. */
static sg_code look(void *user, sg_bytes *answer, sg_status *status) {
    const char *const *path = user;
    const sg_codec_api *api;
    sg_video *video = NULL;
    sg_video_info info;
    sg_code code = sg_codec_open("video", &api, status);
    if (code == SG_OK) code = api->video_open(*path, 1, &video, status);
    if (code != SG_OK) return code;
    memset(&info, 0, sizeof info);
    api->video_info(video, &info);
    api->video_close(video);
    return sg_bytes_add(answer, &info, sizeof info) ? SG_OK : sg_fail_memory(status, sizeof info, *path);
}

sg_code sg_video_look(const char *path, sg_video_info *info, sg_status *status) {
    static const sg_child_limits limits = {.memory_bytes = 2ull << 30, .cpu_s = 10, .wall_s = 30};
    unsigned char *bytes = NULL;
    size_t n = 0;
    sg_code code = sg_child_run(path, look, &path, &limits, &bytes, &n, status);
    if (code == SG_OK && n != sizeof *info)
        code = sg_fail(status, SG_BAD_INPUT, "%.400s cannot be read: its description is damaged", path);
    if (code == SG_OK) {
        memcpy(info, bytes, sizeof *info);
        info->codec[sizeof info->codec - 1] = info->pixel_format[sizeof info->pixel_format - 1] = '\0';
    }
    free(bytes);
    return code;
}
