/* video.h: what the parts of the video module share: one open file with its decoder. */
#ifndef SG_DATASETS_VIDEO_VIDEO_H
#define SG_DATASETS_VIDEO_VIDEO_H

#include "datasets/codec/codec.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>

enum { SG_VIDEO_MOST_A_SIDE = 16384 };

struct sg_video {
    AVFormatContext *file;
    AVCodecContext *decoder;
    AVStream *stream;
    AVPacket *packet;
    AVFrame *frame;  /* the latest that the decoder gave; at_pts */
    AVFrame *before; /* the one before it, where the reader looks for the nearer of two; before_pts */
    bool has_frame, has_before, drained;
    int64_t at_pts, before_pts; /* presentation times in units of the stream's time base */
    int64_t key_shift;          /* presentation time of a key frame less its time in the seek index */
    int64_t damaged;            /* packets that the decoder refused since the file was opened */
    struct SwsContext *scaler;
    int scaled_format, scaled_matrix; /* what the scaler is prepared for */
    bool scaled_full;
    uint8_t *packed; /* one picture of interleaved RGB */
    sg_video_info info;
    char name[128]; /* end of the path, for messages */
};

/* *frame to planes of RGB. The stream's own matrix and range hold; where it names none, those of standard definition, as
 * swscale (and so PyAV, torchcodec) takes them. */
sg_code sg_video_to_rgb(sg_video *video, const AVFrame *frame, uint8_t *rgb, sg_status *status);

sg_code sg_video_open(const char *path, int threads, sg_video **video, sg_status *status);
void sg_video_close(sg_video *video);
void sg_video_info_of(const sg_video *video, sg_video_info *info);
sg_code sg_video_read(sg_video *video, double time_s, double tolerance_s, uint8_t *rgb, sg_decode_count *count,
                      sg_status *status);
sg_code sg_video_write(const char *path, const char *codec, int64_t height, int64_t width, double fps, int64_t gop,
                       int64_t frames, bool (*draw)(void *user, int64_t frame, uint8_t *rgb), void *user,
                       sg_status *status);

/* FFmpeg's words for an error. */
typedef struct sg_av_text {
    char s[AV_ERROR_MAX_STRING_SIZE];
} sg_av_text;
sg_av_text sg_av_error(int code);

#endif
