/* Hostile bytes as a video file: opened, and read in order and backwards. */
#include "datasets/codec/codec.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const sg_codec_api *sg_module_codec(void);

static void read_some(const sg_codec_api *api, sg_video *video) {
    sg_video_info info;
    sg_status status;
    sg_decode_count count = {0};
    api->video_info(video, &info);
    if (info.height * info.width > 1 << 18) return;
    uint8_t *rgb = malloc(3 * (size_t)(info.height * info.width));
    if (!rgb) return;
    static const double times_s[] = {0, 1.0 / 30, 3.0 / 30, 2.0 / 30, 1e9, -1};
    for (size_t i = 0; i < sizeof times_s / sizeof *times_s; i++)
        (void)api->video_read(video, times_s[i], 1e-3, rgb, &count, &status);
    free(rgb);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[SG_MEMORY_PATH];
    sg_status status;
    sg_video *video;
    const sg_codec_api *api = sg_module_codec();
    int fd = sg_memory_file(data, size, ".mp4", path);
    if (api->video_open(path, 1, &video, &status) == SG_OK) {
        read_some(api, video);
        api->video_close(video);
    }
    sg_memory_file_close(fd, path);
    return 0;
}
