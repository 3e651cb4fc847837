/* open.c: a video file and its decoder, and what the file says of itself. */
#include "datasets/video/video.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>

enum {
    MOST_THREADS = 64,
    MOST_STREAMS = 64,
    PATH_BYTES = 4096,
    ROW_SLACK = 64,           /* swscale writes whole vectors */
    CODEC_LOOK_PACKETS = 256, /* packets looked at for the second key frame of files without an index */
};

/* Demuxers and decoders that a data set needs; others are never given a file's bytes. */
static const char formats[] = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm";
static const char decoders[] = "libdav1d,av1,h264,hevc";

/* ---- the file ----------------------------------------------------------------------------------------------------- */

static void keep_name(sg_video *v, const char *path) {
    size_t n = strlen(path);
    (void)snprintf(v->name, sizeof v->name, "%s", n < sizeof v->name ? path : path + n - sizeof v->name + 1);
}

/* FFmpeg opens folders and devices too, and may wait for a pipe for ever. */
static sg_code check_file(const sg_video *v, const char *path, sg_status *status) {
    struct stat info;
    if (stat(path, &info) != 0)
        return sg_fail(status, SG_BAD_INPUT, "video %s does not exist or may not be read", v->name);
    if (!S_ISREG(info.st_mode)) return sg_fail(status, SG_BAD_INPUT, "video %s is not a file", v->name);
    if (info.st_size == 0) return sg_fail(status, SG_BAD_INPUT, "video %s is empty", v->name);
    return SG_OK;
}

static sg_code open_file(sg_video *v, const char *path, sg_status *status) {
    char url[PATH_BYTES + 8];
    int n = snprintf(url, sizeof url, "file:%s", path);
    if (n < 0 || (size_t)n >= sizeof url) return sg_fail(status, SG_BAD_INPUT, "path of video %s is too long", v->name);
    AVDictionary *options = NULL;
    (void)av_dict_set(&options, "protocol_whitelist", "file", 0);
    (void)av_dict_set(&options, "format_whitelist", formats, 0);
    (void)av_dict_set(&options, "codec_whitelist", decoders, 0);
    (void)av_dict_set_int(&options, "max_streams", MOST_STREAMS, 0);
    int result = avformat_open_input(&v->file, url, NULL, &options);
    av_dict_free(&options);
    if (result == AVERROR(ENOMEM)) return sg_fail_memory(status, 0, "a video file");
    if (result < 0)
        return sg_fail(status, SG_BAD_INPUT, "video %s cannot be read: %s; MP4 and Matroska files are expected",
                       v->name, sg_av_error(result).s);
    return SG_OK;
}

/* The first video stream; packets of others are not even handed out. */
static sg_code choose_stream(sg_video *v, sg_status *status) {
    for (unsigned i = 0; i < v->file->nb_streams; i++) {
        AVStream *stream = v->file->streams[i];
        if (!v->stream && stream->codecpar->codec_type == AVMEDIA_TYPE_VIDEO &&
            !(stream->disposition & AV_DISPOSITION_ATTACHED_PIC))
            v->stream = stream;
        else
            stream->discard = AVDISCARD_ALL;
    }
    if (!v->stream) return sg_fail(status, SG_BAD_INPUT, "%s holds no video", v->name);
    const AVCodecParameters *p = v->stream->codecpar;
    if (p->codec_id != AV_CODEC_ID_AV1 && p->codec_id != AV_CODEC_ID_H264 && p->codec_id != AV_CODEC_ID_HEVC)
        return sg_fail(status, SG_BAD_INPUT, "video %s is %s: AV1, H.264 and HEVC are read", v->name,
                       avcodec_get_name(p->codec_id));
    int result = avformat_find_stream_info(v->file, NULL);
    if (result < 0) return sg_fail(status, SG_BAD_INPUT, "video %s cannot be read: %s", v->name, sg_av_error(result).s);
    if (p->height < 1 || p->width < 1 || p->height > SG_VIDEO_MOST_A_SIDE || p->width > SG_VIDEO_MOST_A_SIDE)
        return sg_fail(status, SG_BAD_INPUT, "video %s is %d x %d pixels: 1 .. %d a side are read", v->name, p->height,
                       p->width, SG_VIDEO_MOST_A_SIDE);
    return SG_OK;
}

/* ---- its decoder -------------------------------------------------------------------------------------------------- */

/* FFmpeg's own "av1" decoder needs hardware: dav1d is asked for by name. */
static const AVCodec *decoder_of(enum AVCodecID id) {
    if (id == AV_CODEC_ID_AV1) return avcodec_find_decoder_by_name("libdav1d");
    return avcodec_find_decoder(id);
}

static sg_code open_decoder(sg_video *v, int threads, sg_status *status) {
    const AVCodecParameters *p = v->stream->codecpar;
    const AVCodec *codec = decoder_of(p->codec_id);
    if (!codec)
        return sg_fail(status, SG_MACHINE, "this FFmpeg has no decoder of %s: install one built with libdav1d",
                       avcodec_get_name(p->codec_id));
    v->decoder = avcodec_alloc_context3(codec);
    if (!v->decoder || avcodec_parameters_to_context(v->decoder, p) < 0)
        return sg_fail_memory(status, 0, "a video decoder");
    v->decoder->thread_count = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    v->decoder->pkt_timebase = v->stream->time_base;
    v->decoder->max_pixels = (int64_t)SG_VIDEO_MOST_A_SIDE * SG_VIDEO_MOST_A_SIDE;
    int result = avcodec_open2(v->decoder, codec, NULL);
    if (result < 0)
        return sg_fail(status, SG_BAD_INPUT, "video %s: its decoder does not start: %s", v->name,
                       sg_av_error(result).s);
    v->packet = av_packet_alloc();
    v->frame = av_frame_alloc();
    v->before = av_frame_alloc();
    v->packed = malloc((size_t)p->height * (size_t)p->width * 3 + ROW_SLACK);
    if (!v->packet || !v->frame || !v->before || !v->packed) return sg_fail_memory(status, 0, "a video's frames");
    return SG_OK;
}

/* ---- what it says ------------------------------------------------------------------------------------------------- */

static double ratio_of(AVRational r) {
    return r.num > 0 && r.den > 0 ? av_q2d(r) : 0;
}

/* Key frames lie in the index where the format has one that is read at once (MP4). */
static int64_t gop_of_index(AVStream *stream) {
    int n = avformat_index_get_entries_count(stream), first = -1;
    for (int i = 0; i < n; i++) {
        const AVIndexEntry *entry = avformat_index_get_entry(stream, i);
        if (!entry || !(entry->flags & AVINDEX_KEYFRAME)) continue;
        if (first >= 0) return i - first;
        first = i;
    }
    return 0;
}

/* Reads on from the file's start: how far its key frames' presentation times lie behind the index's times (by decoding
 * times where frames are reordered), and, without an index, where the second key frame comes. */
static void look_at_packets(sg_video *v) {
    bool indexed = avformat_index_get_entries_count(v->stream) > 1;
    int64_t seen = 0, keys = 0;
    for (int i = 0; i < CODEC_LOOK_PACKETS && av_read_frame(v->file, v->packet) >= 0; i++) {
        const AVPacket *packet = v->packet;
        bool ours = packet->stream_index == v->stream->index, key = packet->flags & AV_PKT_FLAG_KEY;
        if (ours && key && keys++ == 0 && packet->pts != AV_NOPTS_VALUE && packet->dts != AV_NOPTS_VALUE &&
            packet->pts > packet->dts && strstr(v->file->iformat->name, "mp4"))
            v->key_shift = packet->pts - packet->dts;
        bool second = ours && key && keys == 2;
        if (second && !indexed) v->info.gop = seen;
        if (ours) seen++;
        av_packet_unref(v->packet);
        if (second || (indexed && keys)) break;
    }
}

static void learn(sg_video *v) {
    const AVCodecParameters *p = v->stream->codecpar;
    const char *format = av_get_pix_fmt_name(p->format);
    v->info = (sg_video_info){.height = p->height, .width = p->width};
    v->info.frames = v->stream->nb_frames > 0 ? v->stream->nb_frames : 0;
    v->info.fps = ratio_of(v->stream->avg_frame_rate);
    v->info.tick_s = av_q2d(v->stream->time_base);
    if (!(v->info.fps > 0)) v->info.fps = ratio_of(v->stream->r_frame_rate);
    if (v->stream->duration > 0)
        v->info.duration_s = (double)v->stream->duration * av_q2d(v->stream->time_base);
    else if (v->file->duration > 0)
        v->info.duration_s = (double)v->file->duration / AV_TIME_BASE;
    (void)snprintf(v->info.codec, sizeof v->info.codec, "%s", avcodec_get_name(p->codec_id));
    (void)snprintf(v->info.pixel_format, sizeof v->info.pixel_format, "%s", format ? format : "");
    v->info.gop = gop_of_index(v->stream);
    look_at_packets(v);
}

/* ---- together ----------------------------------------------------------------------------------------------------- */

sg_code sg_video_open(const char *path, int threads, sg_video **video, sg_status *status) {
    *video = NULL;
    sg_video *v = calloc(1, sizeof *v);
    if (!v) return sg_fail_memory(status, sizeof *v, "a video");
    keep_name(v, path);
    sg_code code = check_file(v, path, status);
    if (!code) code = open_file(v, path, status);
    if (!code) code = choose_stream(v, status);
    if (!code) code = open_decoder(v, threads, status);
    if (code) {
        sg_video_close(v);
        return code;
    }
    learn(v);
    *video = v;
    return SG_OK;
}

void sg_video_close(sg_video *v) {
    if (!v) return;
    sws_freeContext(v->scaler);
    av_frame_free(&v->frame);
    av_frame_free(&v->before);
    av_packet_free(&v->packet);
    avcodec_free_context(&v->decoder);
    avformat_close_input(&v->file);
    free(v->packed);
    free(v);
}

void sg_video_info_of(const sg_video *video, sg_video_info *info) {
    *info = video->info;
}
