/* frame_codec.c: clips of two pictures, and decoded pictures as RGB. */
#include "sim/loader/frame_codec.h"

#include <stdlib.h>
#include <string.h>

#include "sim/loader/frame_planes.h"

enum { CLIPS = 3, PER_CLIP = 2 };

struct sg_frame_codec {
    int64_t height, width;
    sg_basis basis;
    sg_picture picture[CLIPS * PER_CLIP];
};

struct sg_frame_decoder {
    const sg_frame_codec *codec;
    sg_planes planes[PER_CLIP];
};

static sg_code encode_clip(sg_frame_codec *codec, uint64_t seed, int clip, sg_planes work[3], sg_status *status) {
    sg_motion motions[SCENE_MOTIONS];
    sg_planes_motions(seed, clip, motions);
    sg_code code = SG_OK;
    for (int t = 0; t < PER_CLIP && !code; t++) {
        sg_planes_draw_scene(seed, clip, t, &work[2]);
        code = sg_picture_encode(&work[2], t ? &work[t - 1] : NULL, motions, SCENE_MOTIONS, &work[t],
                                 &codec->picture[clip * PER_CLIP + t], status);
    }
    return code;
}

sg_code sg_frame_codec_new(int64_t height, int64_t width, uint64_t seed, sg_frame_codec **codec, sg_status *status) {
    *codec = NULL;
    if (height < 8 || width < 8 || height > 8192 || width > 8192)
        return sg_fail(status, SG_BAD_INPUT, "camera frames of %lld x %lld: sizes must be 8 to 8192", (long long)height,
                       (long long)width);
    sg_frame_codec *c = calloc(1, sizeof *c);
    if (!c) return sg_fail_memory(status, sizeof *c, "camera frames");
    c->height = height;
    c->width = width;
    c->basis = sg_cosine_basis();
    sg_planes work[3];
    memset(work, 0, sizeof work);
    sg_code code = SG_OK;
    for (int i = 0; i < 3 && !code; i++) code = sg_planes_new(height, width, &work[i], status);
    for (int clip = 0; clip < CLIPS && !code; clip++) code = encode_clip(c, seed, clip, work, status);
    for (int i = 0; i < 3; i++) sg_planes_free(&work[i]);
    if (code) {
        sg_frame_codec_free(c);
        return code;
    }
    *codec = c;
    return SG_OK;
}

void sg_frame_codec_free(sg_frame_codec *codec) {
    if (!codec) return;
    for (int i = 0; i < CLIPS * PER_CLIP; i++) free(codec->picture[i].bytes);
    free(codec);
}

int sg_frame_codec_frames(const sg_frame_codec *codec) {
    (void)codec;
    return CLIPS * PER_CLIP;
}

uint64_t sg_frame_codec_bytes(const sg_frame_codec *codec, int frame) {
    return codec->picture[frame].n;
}

sg_code sg_frame_decoder_new(const sg_frame_codec *codec, sg_frame_decoder **decoder, sg_status *status) {
    *decoder = NULL;
    sg_frame_decoder *d = calloc(1, sizeof *d);
    if (!d) return sg_fail_memory(status, sizeof *d, "a frame decoder");
    d->codec = codec;
    for (int i = 0; i < PER_CLIP; i++) {
        sg_code code = sg_planes_new(codec->height, codec->width, &d->planes[i], status);
        if (code) {
            sg_frame_decoder_free(d);
            return code;
        }
    }
    *decoder = d;
    return SG_OK;
}

void sg_frame_decoder_free(sg_frame_decoder *d) {
    if (!d) return;
    for (int i = 0; i < PER_CLIP; i++) sg_planes_free(&d->planes[i]);
    free(d);
}

/* BT.601, full range, 16-bit fixed point; chroma is repeated. */
static void to_rgb(const sg_planes *planes, int64_t height, int64_t width, uint8_t *to, const int64_t stride[3]) {
    for (int64_t y = 0; y < height; y++) {
        const uint8_t *luma = planes->at[0] + y * planes->width[0];
        const uint8_t *u = planes->at[1] + y / 2 * planes->width[1], *v = planes->at[2] + y / 2 * planes->width[2];
        uint8_t *row = to + y * stride[1];
        for (int64_t x = 0; x < width; x++) {
            int l = luma[x] << 16, b = u[x / 2] - 128, r = v[x / 2] - 128;
            uint8_t *pixel = row + x * stride[2];
            pixel[0] = sg_clamp_u8((l + 91881 * r + 32768) >> 16);
            pixel[stride[0]] = sg_clamp_u8((l - 22554 * b - 46802 * r + 32768) >> 16);
            pixel[2 * stride[0]] = sg_clamp_u8((l + 116130 * b + 32768) >> 16);
        }
    }
}

void sg_frame_decode(sg_frame_decoder *d, int frame, uint8_t *to, const int64_t stride[3]) {
    const sg_frame_codec *c = d->codec;
    int first = frame / PER_CLIP * PER_CLIP;
    for (int i = first; i <= frame; i++)
        sg_picture_decode(&c->picture[i], i > first ? &d->planes[i - first - 1] : NULL, &c->basis,
                          &d->planes[i - first]);
    to_rgb(&d->planes[frame - first], c->height, c->width, to, stride);
}
