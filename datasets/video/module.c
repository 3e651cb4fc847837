/* The video module's table of functions: AV1, H.264 and HEVC in MP4 and Matroska, through FFmpeg. */
#include "datasets/video/video.h"

#include <libavutil/log.h>

__attribute__((visibility("default"))) const sg_codec_api *sg_module_codec(void);

sg_av_text sg_av_error(int code) {
    sg_av_text text;
    (void)av_strerror(code, text.s, sizeof text.s);
    return text;
}

const sg_codec_api *sg_module_codec(void) {
    static const char libraries[] = "libavformat " AV_STRINGIFY(LIBAVFORMAT_VERSION) ", libavcodec " AV_STRINGIFY(
        LIBAVCODEC_VERSION) ", libswscale " AV_STRINGIFY(LIBSWSCALE_VERSION);
    static const sg_codec_api api = {
        .abi = SG_CODEC_ABI,
        .name = "video",
        .libraries = libraries,
        .video_open = sg_video_open,
        .video_close = sg_video_close,
        .video_info = sg_video_info_of,
        .video_read = sg_video_read,
        .video_write = sg_video_write,
    };
    /* What FFmpeg has to say of a file is said in a status, not on the terminal. */
    av_log_set_level(AV_LOG_QUIET);
    return &api;
}
