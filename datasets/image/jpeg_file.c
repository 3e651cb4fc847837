/* JPEG. libjpeg reports errors through error_exit, which must not return: it jumps back; what must outlive that is kept in a
 * struct outside of the frame that setjmp marks. */
#include "datasets/image/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "datasets/codec/rgb_planes.h"

enum {
    MOST_SCANS = 100, /* of a progressive file: each pays for the whole picture again; encoders write about ten */
    ROW_SAMPLES = 4,  /* of a pixel at most: CMYK */
};

typedef struct trouble {
    struct jpeg_error_mgr manager; /* first: libjpeg holds a pointer to it */
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    bool cut; /* data were missing and made up */
    char why[JMSG_LENGTH_MAX];
    uint8_t *row;
} trouble;

static void jump_back(j_common_ptr info) {
    trouble *t = (trouble *)(void *)info->err;
    info->err->format_message(info, t->why);
    longjmp(t->back, 1);
}

/* Warnings of missing data are kept: libjpeg makes up the rest of the picture. */
static void note_message(j_common_ptr info, int level) {
    trouble *t = (trouble *)(void *)info->err;
    if (level >= 0) return;
    int code = info->err->msg_code;
    if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE) {
        t->cut = true;
        info->err->format_message(info, t->why);
    }
}

static void say_nothing(j_common_ptr info) {
    (void)info;
}

static void count_scans(j_common_ptr info) {
    trouble *t = (trouble *)(void *)info->err;
    const struct jpeg_decompress_struct *in = (const void *)info;
    if (in->input_scan_number <= MOST_SCANS) return;
    (void)snprintf(t->why, sizeof t->why, "it has more than %d scans", MOST_SCANS);
    longjmp(t->back, 1);
}

static void set_trouble(trouble *t) {
    (void)jpeg_std_error(&t->manager);
    t->manager.error_exit = jump_back;
    t->manager.emit_message = note_message;
    t->manager.output_message = say_nothing;
    t->progress.progress_monitor = count_scans;
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

/* Adobe's CMYK is stored inverted, so that each ink's byte is the light that it lets through. */
static void cmyk_to_planes(const uint8_t *row, size_t n, bool inverted, uint8_t *const plane[3]) {
    for (size_t x = 0; x < n; x++)
        for (int c = 0; c < 3; c++) {
            int ink = row[4 * x + (size_t)c], black = row[4 * x + 3];
            if (!inverted) {
                ink = 255 - ink;
                black = 255 - black;
            }
            plane[c][x] = (uint8_t)((ink * black + 127) / 255);
        }
}

typedef struct wanted {
    const uint8_t *bytes;
    size_t n;
    int64_t *height, *width;
    uint8_t *rgb;
} wanted;

static void read_rows(struct jpeg_decompress_struct *in, trouble *t, uint8_t *rgb) {
    size_t width = in->output_width, size = width * in->output_height;
    while (in->output_scanline < in->output_height) {
        size_t at = (size_t)in->output_scanline * width;
        uint8_t *const plane[3] = {rgb + at, rgb + size + at, rgb + 2 * size + at};
        JSAMPROW row = t->row;
        if (jpeg_read_scanlines(in, &row, 1) != 1) {
            (void)snprintf(t->why, sizeof t->why, "it ends too early");
            longjmp(t->back, 1);
        }
        if (in->out_color_space == JCS_CMYK)
            cmyk_to_planes(row, width, in->saw_Adobe_marker, plane);
        else
            sg_rgb_to_planes(row, width, plane[0], plane[1], plane[2]);
    }
}

/* Everything between setjmp and a longjmp: touches no local of its caller. */
static sg_code read_guarded(struct jpeg_decompress_struct *in, trouble *t, const wanted *want, sg_status *status) {
    if (setjmp(t->back)) return sg_fail(status, SG_BAD_INPUT, "JPEG image is damaged: %.200s", t->why);
    jpeg_create_decompress(in);
    in->progress = &t->progress;
    jpeg_mem_src(in, want->bytes, want->n);
    (void)jpeg_read_header(in, TRUE);
    int64_t height = in->image_height, width = in->image_width;
    sg_code code = sg_image_check_size(height, width, status);
    if (code) return code;
    if (!want->rgb) {
        *want->height = height;
        *want->width = width;
        return SG_OK;
    }
    if (height != *want->height || width != *want->width)
        return sg_fail(status, SG_BAD_INPUT, "JPEG image is %lld x %lld pixels, %lld x %lld are expected",
                       (long long)height, (long long)width, (long long)*want->height, (long long)*want->width);
    bool inks = in->jpeg_color_space == JCS_CMYK || in->jpeg_color_space == JCS_YCCK;
    in->out_color_space = inks ? JCS_CMYK : JCS_RGB;
    t->row = malloc((size_t)width * ROW_SAMPLES);
    if (!t->row) return sg_fail_memory(status, (unsigned long long)width * ROW_SAMPLES, "a row of a JPEG image");
    (void)jpeg_start_decompress(in);
    read_rows(in, t, want->rgb);
    (void)jpeg_finish_decompress(in);
    if (t->cut) return sg_fail(status, SG_BAD_INPUT, "JPEG image is damaged: %.200s", t->why);
    return SG_OK;
}

sg_code sg_jpeg_read(const uint8_t *bytes, size_t n, int64_t *height, int64_t *width, uint8_t *rgb, sg_status *status) {
    struct jpeg_decompress_struct in = {0};
    trouble t = {0};
    wanted want = {.bytes = bytes, .n = n};
    want.height = height;
    want.width = width;
    want.rgb = rgb;
    set_trouble(&t);
    in.err = &t.manager;
    sg_code code = read_guarded(&in, &t, &want, status);
    jpeg_destroy_decompress(&in);
    free(t.row);
    return code;
}

/* ---- writing ------------------------------------------------------------------------------------------------------ */

typedef struct output {
    unsigned char *bytes;
    unsigned long n;
} output;

typedef struct picture {
    const uint8_t *rgb;
    int64_t height, width;
} picture;

static sg_code write_guarded(struct jpeg_compress_struct *out, trouble *t, const picture *from, output *to,
                             sg_status *status) {
    if (setjmp(t->back)) return sg_fail(status, SG_MACHINE, "cannot write a JPEG image: %.200s", t->why);
    jpeg_create_compress(out);
    jpeg_mem_dest(out, &to->bytes, &to->n);
    out->image_height = (JDIMENSION)from->height;
    out->image_width = (JDIMENSION)from->width;
    out->input_components = 3;
    out->in_color_space = JCS_RGB;
    jpeg_set_defaults(out);
    jpeg_set_quality(out, SG_IMAGE_JPEG_QUALITY, TRUE);
    jpeg_start_compress(out, TRUE);
    size_t width = (size_t)from->width, size = width * (size_t)from->height;
    while (out->next_scanline < out->image_height) {
        const uint8_t *at = from->rgb + (size_t)out->next_scanline * width;
        sg_planes_to_rgb(at, at + size, at + 2 * size, width, t->row);
        JSAMPROW row = t->row;
        (void)jpeg_write_scanlines(out, &row, 1);
    }
    jpeg_finish_compress(out);
    return SG_OK;
}

sg_code sg_jpeg_write(const uint8_t *rgb, int64_t height, int64_t width, uint8_t **bytes, size_t *n,
                      sg_status *status) {
    struct jpeg_compress_struct out = {0};
    trouble t = {0};
    output to = {0};
    const picture from = {rgb, height, width};
    t.row = malloc((size_t)width * 3);
    if (!t.row) return sg_fail_memory(status, (unsigned long long)width * 3, "a row of a JPEG image");
    set_trouble(&t);
    out.err = &t.manager;
    sg_code code = write_guarded(&out, &t, &from, &to, status);
    jpeg_destroy_compress(&out);
    free(t.row);
    if (code) {
        free(to.bytes);
        return code;
    }
    *bytes = to.bytes;
    *n = to.n;
    return SG_OK;
}
