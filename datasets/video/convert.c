/* convert.c: decoded frames to planes of RGB. */
#include "datasets/video/video.h"

#include "datasets/codec/rgb_planes.h"

/* The full range of values, in the formats whose name says so or where the stream does. */
static bool is_full_range(const AVFrame *frame) {
    switch (frame->format) {
    case AV_PIX_FMT_YUVJ420P:
    case AV_PIX_FMT_YUVJ422P:
    case AV_PIX_FMT_YUVJ444P:
    case AV_PIX_FMT_YUVJ440P: return true;
    default: return frame->color_range == AVCOL_RANGE_JPEG;
    }
}

static int matrix_of(const AVFrame *frame) {
    switch (frame->colorspace) {
    case AVCOL_SPC_BT709: return SWS_CS_ITU709;
    case AVCOL_SPC_FCC: return SWS_CS_FCC;
    case AVCOL_SPC_SMPTE240M: return SWS_CS_SMPTE240M;
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL: return SWS_CS_BT2020;
    default: return SWS_CS_DEFAULT; /* ITU-R 601 */
    }
}

/* Tables are only made again where the stream changes what it says of its colours. */
static sg_code prepare_scaler(sg_video *v, const AVFrame *frame, sg_status *status) {
    int width = (int)v->info.width, height = (int)v->info.height, matrix = matrix_of(frame);
    bool full = is_full_range(frame);
    struct SwsContext *old = v->scaler;
    v->scaler = sws_getCachedContext(old, width, height, frame->format, width, height, AV_PIX_FMT_RGB24, SWS_BILINEAR,
                                     NULL, NULL, NULL);
    if (!v->scaler)
        return sg_fail(status, SG_BAD_INPUT, "video %s: frames of its pixel format (%s) cannot be converted to RGB",
                       v->name, v->info.pixel_format);
    if (v->scaler == old && v->scaled_format == frame->format && v->scaled_matrix == matrix && v->scaled_full == full)
        return SG_OK;
    enum { NO_CHANGE = 0, ONE = 1 << 16 };
    /* fails for formats without a matrix (grey, RGB), where there is nothing to set */
    (void)sws_setColorspaceDetails(v->scaler, sws_getCoefficients(matrix), full, sws_getCoefficients(SWS_CS_DEFAULT), 1,
                                   NO_CHANGE, ONE, ONE);
    v->scaled_format = frame->format;
    v->scaled_matrix = matrix;
    v->scaled_full = full;
    return SG_OK;
}

sg_code sg_video_to_rgb(sg_video *v, const AVFrame *frame, uint8_t *rgb, sg_status *status) {
    int width = (int)v->info.width, height = (int)v->info.height;
    if (frame->width != width || frame->height != height)
        return sg_fail(status, SG_BAD_INPUT, "video %s changes its size to %d x %d pixels within the file", v->name,
                       frame->height, frame->width);
    sg_code code = prepare_scaler(v, frame, status);
    if (code) return code;
    uint8_t *const to[4] = {v->packed};
    const int stride[4] = {3 * width};
    int rows = sws_scale(v->scaler, (const uint8_t *const *)frame->data, frame->linesize, 0, height, to, stride);
    if (rows != height) return sg_fail(status, SG_BAD_INPUT, "video %s: a frame cannot be converted to RGB", v->name);
    size_t plane = (size_t)width * (size_t)height;
    sg_rgb_to_planes(v->packed, plane, rgb, rgb + plane, rgb + 2 * plane);
    return SG_OK;
}
