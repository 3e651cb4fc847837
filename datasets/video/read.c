/* read.c: the frame of a time, found as trainers find it: from the key frame before it, or on from the frame decoded last
 * when both lie in the same group of pictures. */
#include "datasets/video/video.h"

#include <math.h>
#include <stdio.h>

enum {
    STEPS_BACK = 8, /* tries of earlier key frames where the one that the index names comes too late */
};

/* Frames are told apart when they lie this share of a frame's time from each other; nearer ones are the same frame. */
static const double SAME_FRAME = 0.25;
/* Without an index: decoding on for so long is cheaper than a search. */
static const double READ_ON_S = 1;

/* ---- decoding ----------------------------------------------------------------------------------------------------- */

static void forget_frames(sg_video *v) {
    av_frame_unref(v->frame);
    av_frame_unref(v->before);
    v->has_frame = v->has_before = v->drained = false;
}

/* Gives the decoder the stream's next packet, or tells it that there is none. */
static sg_code feed(sg_video *v, sg_decode_count *count, sg_status *status) {
    while (av_read_frame(v->file, v->packet) >= 0) {
        if (v->packet->stream_index != v->stream->index) {
            av_packet_unref(v->packet);
            continue;
        }
        int result = avcodec_send_packet(v->decoder, v->packet);
        av_packet_unref(v->packet);
        if (result == AVERROR(ENOMEM)) return sg_fail_memory(status, 0, "a video frame");
        if (result < 0) {
            v->damaged++;
            continue;
        }
        count->frames_decoded++;
        return SG_OK;
    }
    v->drained = true;
    (void)avcodec_send_packet(v->decoder, NULL);
    return SG_OK;
}

static void keep_as_before(sg_video *v) {
    AVFrame *old = v->before;
    av_frame_unref(old);
    v->before = v->frame;
    v->frame = old;
    v->before_pts = v->at_pts;
    v->has_before = v->has_frame;
    v->has_frame = false;
}

/* The next frame in order of presentation becomes v->frame, the latest one v->before; *ended: there is none. */
static sg_code next_frame(sg_video *v, bool *ended, sg_decode_count *count, sg_status *status) {
    *ended = false;
    keep_as_before(v);
    for (;;) {
        int result = avcodec_receive_frame(v->decoder, v->frame);
        if (result == 0) {
            if (v->frame->best_effort_timestamp == AV_NOPTS_VALUE) continue;
            v->at_pts = v->frame->best_effort_timestamp;
            v->has_frame = true;
            return SG_OK;
        }
        if (result == AVERROR(ENOMEM)) return sg_fail_memory(status, 0, "a video frame");
        if (result != AVERROR(EAGAIN) && (result == AVERROR_EOF || v->drained)) {
            *ended = true;
            return SG_OK;
        }
        if (result != AVERROR(EAGAIN)) v->damaged++;
        if (v->drained && result == AVERROR(EAGAIN)) {
            *ended = true;
            return SG_OK;
        }
        sg_code code = feed(v, count, status);
        if (code) return code;
    }
}

/* ---- going to a place --------------------------------------------------------------------------------------------- */

/* Demuxers take the time for one of presentation, whichever their index holds. */
static sg_code seek(sg_video *v, int64_t pts, sg_decode_count *count, sg_status *status) {
    forget_frames(v);
    count->seeks++;
    int result = av_seek_frame(v->file, v->stream->index, pts, AVSEEK_FLAG_BACKWARD);
    /* before the first key frame: to that one */
    if (result < 0) result = av_seek_frame(v->file, v->stream->index, pts, 0);
    if (result < 0)
        return sg_fail(status, SG_BAD_INPUT, "video %s: no place to start decoding is found: %s", v->name,
                       sg_av_error(result).s);
    avcodec_flush_buffers(v->decoder);
    return SG_OK;
}

/* Whether the frame at pts is reached by decoding on, with no key frame in between. */
static bool lies_ahead(const sg_video *v, int64_t pts) {
    if (!v->has_frame || v->drained || pts <= v->at_pts) return false;
    int key = av_index_search_timestamp(v->stream, pts - v->key_shift, AVSEEK_FLAG_BACKWARD);
    const AVIndexEntry *entry = key >= 0 ? avformat_index_get_entry(v->stream, key) : NULL;
    if (entry) return entry->timestamp + v->key_shift <= v->at_pts;
    return (double)(pts - v->at_pts) * av_q2d(v->stream->time_base) < READ_ON_S;
}

/* ---- the nearest -------------------------------------------------------------------------------------------------- */

typedef struct target {
    double time_s, tolerance_s, same_s;
    double tick_s; /* of the stream's time base */
    int64_t pts;
} target;

static double distance(const target *t, int64_t pts) {
    return fabs((double)pts * t->tick_s - t->time_s);
}

typedef enum choice { NEITHER, THE_FRAME, THE_ONE_BEFORE } choice;

/* The nearer of the two frames at hand that lies within so many seconds. */
static choice pick(const sg_video *v, const target *t, double within_s) {
    double now = v->has_frame ? distance(t, v->at_pts) : INFINITY;
    double before = v->has_before ? distance(t, v->before_pts) : INFINITY;
    if (now <= before) return now <= within_s ? THE_FRAME : NEITHER;
    return before <= within_s ? THE_ONE_BEFORE : NEITHER;
}

/* Decodes until the frame is there or passed. *late: the first frame decoded came after it, so that an earlier one may be
 * nearer. */
static sg_code decode_up_to(sg_video *v, const target *t, bool *late, sg_decode_count *count, sg_status *status) {
    bool ended = false, first = !v->has_frame;
    *late = false;
    for (;;) {
        sg_code code = next_frame(v, &ended, count, status);
        if (code || ended) return code;
        if ((double)v->at_pts * t->tick_s >= t->time_s - t->same_s) break;
        first = false;
    }
    *late = first && distance(t, v->at_pts) > t->same_s;
    return SG_OK;
}

static sg_code find(sg_video *v, const target *t, sg_decode_count *count, sg_status *status) {
    bool late = false;
    sg_code code = SG_OK;
    if (lies_ahead(v, t->pts)) {
        code = decode_up_to(v, t, &late, count, status);
        if (code || pick(v, t, t->tolerance_s) != NEITHER) return code;
    }
    int64_t frame_ticks = v->info.fps > 0 ? llrint(1 / (v->info.fps * t->tick_s)) : 1;
    int64_t step = frame_ticks > 0 && frame_ticks < INT32_MAX ? frame_ticks : 1, from = t->pts;
    for (int i = 0; i < STEPS_BACK; i++) {
        code = seek(v, from, count, status);
        if (!code) code = decode_up_to(v, t, &late, count, status);
        if (code || !late) return code;
        from -= step;
        step *= 4;
    }
    return code;
}

static sg_code fail_absent(const sg_video *v, const target *t, sg_status *status) {
    char damage[96] = "", nearest[64] = "";
    if (v->damaged) (void)snprintf(damage, sizeof damage, "; %lld of its packets are damaged", (long long)v->damaged);
    if (v->has_frame || v->has_before)
        (void)snprintf(nearest, sizeof nearest, ", one at %.6g s is the nearest",
                       (double)(v->has_frame && (!v->has_before || distance(t, v->at_pts) <= distance(t, v->before_pts))
                                    ? v->at_pts
                                    : v->before_pts) *
                           t->tick_s);
    return sg_fail(status, SG_BAD_INPUT, "video %s has no frame within %g s of %.6g s%s (it lasts %.6g s)%s", v->name,
                   t->tolerance_s, t->time_s, nearest, v->info.duration_s, damage);
}

sg_code sg_video_read(sg_video *v, double time_s, double tolerance_s, uint8_t *rgb, sg_decode_count *count,
                      sg_status *status) {
    target t = {.time_s = time_s, .tolerance_s = tolerance_s, .tick_s = av_q2d(v->stream->time_base)};
    double ticks = time_s / t.tick_s;
    if (!(tolerance_s >= 0) || !(fabs(ticks) < 0x1p60))
        return sg_fail(status, SG_BAD_INPUT, "video %s: no frame lies at %g s within %g s", v->name, time_s,
                       tolerance_s);
    t.pts = llrint(ticks);
    t.same_s = v->info.fps > 0 ? fmin(tolerance_s, SAME_FRAME / v->info.fps) : 0;
    sg_code code = pick(v, &t, t.same_s) != NEITHER ? SG_OK : find(v, &t, count, status);
    if (code) return code;
    choice found = pick(v, &t, t.tolerance_s);
    if (found == NEITHER) return fail_absent(v, &t, status);
    code = sg_video_to_rgb(v, found == THE_FRAME ? v->frame : v->before, rgb, status);
    if (!code) count->frames++;
    return code;
}
