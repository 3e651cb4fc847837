/* write.c: clips as LeRobot's recorder encodes them. */
#include "datasets/video/video.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libavutil/opt.h>

enum { PATH_BYTES = 4096, FPS_DENOMINATOR = 100000, ALIGNED = 32 };

/* LeRobot's video settings (lerobot/datasets/video_utils.py, encode_video_frames): yuv420p, CRF 30, SVT-AV1 preset 12. H.264
 * at x264's own CRF (codec.h). */
static const struct {
    const char *name, *encoder, *preset, *crf;
} encoders[] = {{"av1", "libsvtav1", "12", "30"}, {"h264", "libx264", NULL, "23"}};

typedef struct writer {
    AVFormatContext *file;
    AVCodecContext *encoder;
    AVStream *stream;
    AVPacket *packet;
    AVFrame *frame;
    struct SwsContext *scaler;
    uint8_t *rgb; /* planes, as drawn */
    const char *path;
    bool opened;
} writer;

static sg_code fail_av(const writer *w, const char *what, int result, sg_status *status) {
    if (result == AVERROR(ENOMEM)) return sg_fail_memory(status, 0, "a video encoder");
    return sg_fail(status, SG_MACHINE, "cannot write video %.300s: %s: %s", w->path, what, sg_av_error(result).s);
}

/* ---- opening ------------------------------------------------------------------------------------------------------ */

static sg_code open_encoder(writer *w, const char *codec, int64_t height, int64_t width, double fps, int64_t gop,
                            sg_status *status) {
    size_t k = 0, n = sizeof encoders / sizeof *encoders;
    while (k < n && strcmp(encoders[k].name, codec) != 0) k++;
    if (k == n) return sg_fail(status, SG_BAD_INPUT, "videos are written as av1 or h264, not as '%.32s'", codec);
    const AVCodec *found = avcodec_find_encoder_by_name(encoders[k].encoder);
    if (!found)
        return sg_fail(status, SG_MACHINE, "this FFmpeg has no encoder %s for %s: install one that has it",
                       encoders[k].encoder, codec);
    /* SVT-AV1 prints its settings to stderr whatever FFmpeg's log level is; only this variable stops it, and it is read when
     * an encoder starts. What the user has set stays. */
    (void)setenv("SVT_LOG", "0", 0);
    AVCodecContext *e = w->encoder = avcodec_alloc_context3(found);
    if (!e) return sg_fail_memory(status, 0, "a video encoder");
    e->height = (int)height;
    e->width = (int)width;
    e->pix_fmt = AV_PIX_FMT_YUV420P;
    e->framerate = av_d2q(fps, FPS_DENOMINATOR);
    e->time_base = av_inv_q(e->framerate);
    e->gop_size = (int)gop;
    if (w->file->oformat->flags & AVFMT_GLOBALHEADER) e->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    if (encoders[k].preset) (void)av_opt_set(e->priv_data, "preset", encoders[k].preset, 0);
    (void)av_opt_set(e->priv_data, "crf", encoders[k].crf, 0);
    int result = avcodec_open2(e, found, NULL);
    return result < 0 ? fail_av(w, "its encoder does not start", result, status) : SG_OK;
}

static sg_code open_file(writer *w, sg_status *status) {
    w->stream = avformat_new_stream(w->file, NULL);
    if (!w->stream) return sg_fail_memory(status, 0, "a video file");
    w->stream->time_base = w->encoder->time_base;
    w->stream->avg_frame_rate = w->encoder->framerate;
    int result = avcodec_parameters_from_context(w->stream->codecpar, w->encoder);
    if (result >= 0) result = avio_open(&w->file->pb, w->file->url, AVIO_FLAG_WRITE);
    if (result < 0) return fail_av(w, "the file cannot be created", result, status);
    w->opened = true;
    result = avformat_write_header(w->file, NULL);
    return result < 0 ? fail_av(w, "its header", result, status) : SG_OK;
}

static sg_code make_frame(writer *w, sg_status *status) {
    const AVCodecContext *e = w->encoder;
    w->packet = av_packet_alloc();
    w->frame = av_frame_alloc();
    w->rgb = calloc(1, (size_t)e->height * (size_t)e->width * 3 + ALIGNED);
    w->scaler = sws_getContext(e->width, e->height, AV_PIX_FMT_GBRP, e->width, e->height, AV_PIX_FMT_YUV420P,
                               SWS_BILINEAR, NULL, NULL, NULL);
    if (!w->packet || !w->frame || !w->rgb || !w->scaler) return sg_fail_memory(status, 0, "a video frame");
    w->frame->format = AV_PIX_FMT_YUV420P;
    w->frame->width = e->width;
    w->frame->height = e->height;
    return SG_OK;
}

/* ---- frames ------------------------------------------------------------------------------------------------------- */

/* frame NULL: the last ones are asked for. */
static sg_code encode(writer *w, AVFrame *frame, sg_status *status) {
    int result = avcodec_send_frame(w->encoder, frame);
    while (result >= 0) {
        result = avcodec_receive_packet(w->encoder, w->packet);
        if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) return SG_OK;
        if (result < 0) break;
        if (!w->packet->duration) w->packet->duration = 1;
        av_packet_rescale_ts(w->packet, w->encoder->time_base, w->stream->time_base);
        w->packet->stream_index = w->stream->index;
        result = av_interleaved_write_frame(w->file, w->packet);
    }
    return fail_av(w, "a frame", result, status);
}

static sg_code write_frame(writer *w, int64_t number, sg_status *status) {
    int height = w->encoder->height, width = w->encoder->width;
    size_t plane = (size_t)height * (size_t)width;
    /* the encoder may still hold the picture before */
    av_frame_unref(w->frame);
    w->frame->format = AV_PIX_FMT_YUV420P;
    w->frame->width = width;
    w->frame->height = height;
    int result = av_frame_get_buffer(w->frame, 0);
    if (result < 0) return fail_av(w, "a frame", result, status);
    const uint8_t *const from[4] = {w->rgb + plane, w->rgb + 2 * plane, w->rgb}; /* green, blue, red */
    const int stride[4] = {width, width, width};
    if (sws_scale(w->scaler, from, stride, 0, height, w->frame->data, w->frame->linesize) != height)
        return sg_fail(status, SG_MACHINE, "cannot write video %.300s: a frame cannot be converted", w->path);
    w->frame->pts = number;
    return encode(w, w->frame, status);
}

static void close_writer(writer *w) {
    sws_freeContext(w->scaler);
    av_frame_free(&w->frame);
    av_packet_free(&w->packet);
    avcodec_free_context(&w->encoder);
    if (w->opened) (void)avio_closep(&w->file->pb);
    avformat_free_context(w->file);
    free(w->rgb);
}

/* ---- together ----------------------------------------------------------------------------------------------------- */

static sg_code check(const char *path, int64_t height, int64_t width, double fps, int64_t gop, int64_t frames,
                     sg_status *status) {
    if (strlen(path) >= PATH_BYTES) return sg_fail(status, SG_BAD_INPUT, "the path of a video is too long");
    if (height < 2 || width < 2 || height > SG_VIDEO_MOST_A_SIDE || width > SG_VIDEO_MOST_A_SIDE || height % 2 ||
        width % 2)
        return sg_fail(status, SG_BAD_INPUT,
                       "video %.300s: %lld x %lld pixels; even numbers of 2 .. %d a side are written", path,
                       (long long)height, (long long)width, SG_VIDEO_MOST_A_SIDE);
    if (!(fps >= 0.01 && fps <= 1000) || gop < 1 || gop > INT32_MAX || frames < 1)
        return sg_fail(status, SG_BAD_INPUT,
                       "video %.300s: %g frames per second (0.01 .. 1000), a key frame every %lld, %lld frames", path,
                       fps, (long long)gop, (long long)frames);
    return SG_OK;
}

sg_code sg_video_write(const char *path, const char *codec, int64_t height, int64_t width, double fps, int64_t gop,
                       int64_t frames, bool (*draw)(void *user, int64_t frame, uint8_t *rgb), void *user,
                       sg_status *status) {
    writer w = {.path = path};
    char url[PATH_BYTES + 8];
    sg_code code = check(path, height, width, fps, gop, frames, status);
    if (code) return code;
    (void)snprintf(url, sizeof url, "file:%s", path);
    int result = avformat_alloc_output_context2(&w.file, NULL, "mp4", url);
    if (result < 0) return fail_av(&w, "the file's format", result, status);
    code = open_encoder(&w, codec, height, width, fps, gop, status);
    if (!code) code = open_file(&w, status);
    if (!code) code = make_frame(&w, status);
    for (int64_t f = 0; !code && f < frames; f++) {
        if (draw(user, f, w.rgb))
            code = write_frame(&w, f, status);
        else
            code = sg_fail(status, SG_NO, "video %.300s was given up", path);
    }
    if (!code) code = encode(&w, NULL, status);
    if (!code) {
        result = av_write_trailer(w.file);
        if (result < 0) code = fail_av(&w, "its end", result, status);
    }
    bool opened = w.opened;
    close_writer(&w);
    if (code && opened) (void)unlink(path); /* half a video is none */
    return code;
}
