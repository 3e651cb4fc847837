/* bench_decode.c: frames per second and core, by codec, resolution, group of pictures and order of access. */
#include "sim/bench/bench_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/bench/decode_workers.h"

/* Long enough for two groups of 30 frames; images are the same every time, and PNGs slow to write. */
enum { VIDEO_FRAMES = 60, IMAGE_FRAMES = 6, RAW_FRAMES = 12, RESOLUTIONS = 3, MOST_SIZES = 16 };
static const double FPS = 30; /* LeRobot's default */

static const struct {
    const char *codec;
    int64_t gop, frames;
} kinds[] = {
    {"av1", 2, VIDEO_FRAMES},  /* LeRobot's recording default */
    {"av1", 30, VIDEO_FRAMES}, /* encoders' own habit: a key frame each second */
    {"h264", 2, VIDEO_FRAMES}, {"h264", 30, VIDEO_FRAMES}, {"png", 0, IMAGE_FRAMES},
    {"jpeg", 0, IMAGE_FRAMES}, {"raw", 0, RAW_FRAMES},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct plan {
    sg_bench *bench;
    char folder[96];
    int64_t height[MOST_SIZES], width[MOST_SIZES];
    size_t n_sizes;
    int processes;     /* that decode at once in the second part */
    sg_status missing; /* of the first codec that is not here */
} plan;

/* ---- what is to be measured --------------------------------------------------------------------------------------- */

static sg_code set_sizes(plan *p, sg_status *status) {
    /* the commonest first: what there is no time for is left out from the end */
    static const int64_t size[RESOLUTIONS][2] = {{480, 640}, {240, 320}, {720, 1280}};
    const sg_bench_options *o = &p->bench->options;
    if (o->n_sizes > MOST_SIZES) return sg_fail(status, SG_BAD_INPUT, "--sizes: %d heights at most", MOST_SIZES);
    p->n_sizes = o->n_sizes ? o->n_sizes : RESOLUTIONS;
    for (size_t i = 0; i < p->n_sizes; i++) {
        int64_t height = o->n_sizes ? o->sizes[i] : size[i][0];
        if (height < 16 || height > 4320 || height % 2)
            return sg_fail(status, SG_BAD_INPUT, "--sizes %lld: 'bench decode' takes even heights of 16 .. 4320 pixels",
                           (long long)height);
        p->height[i] = height;
        p->width[i] = (height * 4 / 3 + 1) / 2 * 2;
        for (int r = 0; r < RESOLUTIONS; r++)
            if (height == size[r][0]) p->width[i] = size[r][1];
    }
    return SG_OK;
}

static int accesses_of(size_t kind) {
    return kinds[kind].gop ? SG_DECODE_ACCESSES : 1;
}

static size_t records_of(const plan *p, size_t kind) {
    return (size_t)accesses_of(kind) + (p->processes > 1);
}

/* ---- one record --------------------------------------------------------------------------------------------------- */

static sg_code measure(plan *p, const sg_decode_clip *clip, sg_decode_access access, int processes, double *median_s,
                       sg_status *status) {
    sg_bench *b = p->bench;
    const sg_decode_job job = {
        .clip = clip, .access = access, .processes = processes, .allowed_s = sg_bench_allowed_s(b), .bench = b};
    sg_bench_samples samples;
    sg_decode_count count;
    char text[64];
    (void)snprintf(text, sizeof text, "%s %lld x %lld, %s", clip->codec, (long long)clip->height,
                   (long long)clip->width, sg_decode_access_name(access));
    sg_bench_tell(b, text);
    sg_code code = sg_decode_run(&job, &samples, &count, b->info.library, sizeof b->info.library, status);
    if (code) return code;
    b->options.ranks = processes; /* of this host: strangers are told from them */
    sg_micro micro = sg_bench_micro(b, "decode", clip->codec, NULL);
    (void)snprintf(micro.config.access, sizeof micro.config.access, "%s", sg_decode_access_name(access));
    (void)snprintf(micro.config.dtype, sizeof micro.config.dtype, "u8");
    micro.config.m = clip->height;
    micro.config.n = clip->width;
    micro.config.k = clip->gop;
    micro.bytes_moved = 3.0 * (double)clip->height * (double)clip->width;
    if (count.frames > 0) micro.decoded_per_frame = (double)count.frames_decoded / (double)count.frames;
    if (processes > 1) micro.alone_s = *median_s;
    code = sg_bench_keep(b, &micro, &samples, status);
    b->options.ranks = 1;
    if (!code) *median_s = micro.s.median;
    return code;
}

/* Alone in every order; then as many at once as there are processors, which shows what they share. */
static sg_code measure_clip(plan *p, size_t kind, const sg_decode_clip *clip, sg_status *status) {
    double first_s = NAN, median_s = NAN;
    sg_code code = SG_OK;
    for (int a = 0; a < accesses_of(kind) && !code && !sg_bench_stopped(p->bench); a++) {
        code = measure(p, clip, (sg_decode_access)a, 1, &median_s, status);
        if (a == SG_DECODE_SHUFFLED) first_s = median_s;
    }
    if (!code && p->processes > 1 && !sg_bench_stopped(p->bench))
        code = measure(p, clip, SG_DECODE_SHUFFLED, p->processes, &first_s, status);
    return code;
}

/* ---- one clip ----------------------------------------------------------------------------------------------------- */

static sg_code omit(plan *p, size_t kind, const char *what, const sg_status *why, sg_status *status) {
    size_t records = records_of(p, kind);
    if (p->missing.code == SG_OK) p->missing = *why;
    p->bench->planned -= p->bench->planned >= records ? records - 1 : 0;
    return sg_bench_omit(p->bench, what, why->text, true, status);
}

static sg_code one_clip(plan *p, size_t kind, size_t size, sg_status *status) {
    sg_bench *b = p->bench;
    sg_decode_clip clip = {.height = p->height[size],
                           .width = p->width[size],
                           .gop = kinds[kind].gop,
                           .frames = kinds[kind].frames,
                           .fps = FPS};
    char what[64];
    bool omitted;
    (void)snprintf(clip.codec, sizeof clip.codec, "%s", kinds[kind].codec);
    (void)snprintf(clip.path, sizeof clip.path, "%s/%s-%lld-%lld%s", p->folder, clip.codec, (long long)clip.height,
                   (long long)clip.gop, clip.gop ? ".mp4" : "");
    int used = snprintf(what, sizeof what, "%s %lld x %lld", clip.codec, (long long)clip.height, (long long)clip.width);
    if (clip.gop && used > 0)
        (void)snprintf(what + used, sizeof what - (size_t)used, ", GOP %lld", (long long)clip.gop);
    sg_code code = sg_bench_time_is_over(b, what, records_of(p, kind), &omitted, status);
    if (code || omitted) return code;
    sg_bench_tell(b, what);
    sg_status why = {0};
    code = sg_decode_clip_make(&clip, &why);
    if (sg_bench_stopped(b))
        code = SG_OK;
    else if (code == SG_MACHINE)
        code = omit(p, kind, what, &why, status);
    else if (code)
        code = sg_fail(status, code, "%s", why.text);
    else
        code = measure_clip(p, kind, &clip, status);
    sg_decode_clip_remove(&clip);
    return code;
}

/* ---- all ---------------------------------------------------------------------------------------------------------- */

static sg_code make_folder(plan *p, sg_status *status) {
    const char *where = getenv("TMPDIR");
    int n = snprintf(p->folder, sizeof p->folder, "%s/stepgauge-decode-XXXXXX", where && *where ? where : "/tmp");
    if (n < 0 || (size_t)n >= sizeof p->folder)
        return sg_fail(status, SG_BAD_INPUT, "TMPDIR is too long a path for clips: set a shorter one");
    if (mkdtemp(p->folder)) return SG_OK;
    return sg_fail(status, SG_MACHINE, "cannot make a folder for clips in %.80s: set TMPDIR to one with room",
                   where && *where ? where : "/tmp");
}

sg_code sg_bench_decode(sg_bench *b, sg_status *status) {
    plan p = {.bench = b, .processes = b->options.threads > 0 ? b->options.threads : sg_host_processors()};
    sg_code code = set_sizes(&p, status);
    if (!code) code = make_folder(&p, status);
    if (code) return code;
    for (size_t k = 0; k < KINDS; k++) b->planned += p.n_sizes * records_of(&p, k);
    for (size_t size = 0; size < p.n_sizes; size++)
        for (size_t kind = 0; kind < KINDS && !code && !sg_bench_stopped(b); kind++)
            code = one_clip(&p, kind, size, status);
    (void)rmdir(p.folder);
    if (!code && !b->n_micros && !b->interrupted && p.missing.code) *status = p.missing;
    return !code && !b->n_micros && !b->interrupted ? p.missing.code : code;
}
