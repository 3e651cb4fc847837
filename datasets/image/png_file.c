/* PNG. libpng reports errors by longjmp: what must outlive one is kept in a struct outside of the frame that setjmp marks. */
#include "datasets/image/image.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "datasets/codec/rgb_planes.h"

enum {
    COMPRESSION = 1,             /* LeRobot 0.4, image_writer.py, write_image */
    MOST_CHUNK_BYTES = 64 << 20, /* of a text or a profile */
    MOST_CHUNKS = 1000,
};

typedef struct work {
    png_structp png;
    png_infop info;
    const uint8_t *from; /* reading */
    size_t n, used;
    uint8_t *to; /* writing */
    size_t to_room, to_used;
    uint8_t *pixels; /* interleaved */
    uint8_t **rows;
    bool out_of_memory;
    char why[128];
    jmp_buf back;
} work;

static void fail_at(png_structp png, png_const_charp text) {
    work *w = png_get_error_ptr(png);
    size_t n = strnlen(text, sizeof w->why - 1);
    memcpy(w->why, text, n);
    w->why[n] = '\0';
    longjmp(w->back, 1);
}

static void ignore_warning(png_structp png, png_const_charp text) {
    (void)png;
    (void)text;
}

static void free_work(work *w) {
    free(w->pixels);
    free(w->rows);
    free(w->to);
}

/* Room for the picture as interleaved RGB and a pointer to each of its rows. */
static bool make_room(work *w, int64_t height, int64_t width) {
    size_t row = 3 * (size_t)width;
    w->pixels = malloc(row * (size_t)height);
    w->rows = malloc((size_t)height * sizeof *w->rows);
    if (!w->pixels || !w->rows) return false;
    for (size_t y = 0; y < (size_t)height; y++) w->rows[y] = w->pixels + y * row;
    return true;
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

static void take_bytes(png_structp png, png_bytep to, size_t n) {
    work *w = png_get_io_ptr(png);
    if (n > w->n - w->used) png_error(png, "it ends too early");
    memcpy(to, w->from + w->used, n);
    w->used += n;
}

/* Eight bits of red, green, blue, whatever is in the file; transparency is dropped, as PIL's convert("RGB") does. */
static void ask_for_rgb(png_structp png, png_infop info) {
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    png_byte color = png_get_color_type(png, info);
    if (color == PNG_COLOR_TYPE_GRAY || color == PNG_COLOR_TYPE_GRAY_ALPHA) png_set_gray_to_rgb(png);
    (void)png_set_interlace_handling(png);
    png_read_update_info(png, info);
}

typedef struct wanted {
    int64_t *height, *width;
    bool pixels;
} wanted;

/* Everything between setjmp and a longjmp: touches no local of its caller. */
static sg_code read_guarded(work *w, const wanted *want, sg_status *status) {
    if (setjmp(w->back)) {
        if (w->out_of_memory) return sg_fail_memory(status, 0, "a PNG image");
        return sg_fail(status, SG_BAD_INPUT, "PNG image is damaged: %s", w->why);
    }
    png_set_read_fn(w->png, w, take_bytes);
    png_set_user_limits(w->png, SG_IMAGE_MOST_A_SIDE, SG_IMAGE_MOST_A_SIDE);
    png_set_chunk_malloc_max(w->png, MOST_CHUNK_BYTES);
    png_set_chunk_cache_max(w->png, MOST_CHUNKS);
    png_read_info(w->png, w->info);
    int64_t height = png_get_image_height(w->png, w->info), width = png_get_image_width(w->png, w->info);
    if (!want->pixels) {
        *want->height = height;
        *want->width = width;
        return SG_OK;
    }
    if (height != *want->height || width != *want->width)
        return sg_fail(status, SG_BAD_INPUT, "PNG image is %lld x %lld pixels, %lld x %lld are expected",
                       (long long)height, (long long)width, (long long)*want->height, (long long)*want->width);
    ask_for_rgb(w->png, w->info);
    if (png_get_rowbytes(w->png, w->info) != 3 * (size_t)width) png_error(w->png, "its pixels do not become RGB");
    if (!make_room(w, height, width)) {
        w->out_of_memory = true;
        png_error(w->png, "no memory");
    }
    png_read_image(w->png, w->rows);
    png_read_end(w->png, NULL);
    return SG_OK;
}

sg_code sg_png_read(const uint8_t *bytes, size_t n, int64_t *height, int64_t *width, uint8_t *rgb, sg_status *status) {
    work w = {.from = bytes, .n = n};
    wanted want = {.pixels = rgb != NULL};
    want.height = height;
    want.width = width;
    w.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &w, fail_at, ignore_warning);
    if (w.png) w.info = png_create_info_struct(w.png);
    sg_code code = w.info ? read_guarded(&w, &want, status) : sg_fail_memory(status, 0, "a PNG reader");
    png_destroy_read_struct(&w.png, &w.info, NULL);
    if (!code && rgb) {
        size_t plane = (size_t)*height * (size_t)*width;
        sg_rgb_to_planes(w.pixels, plane, rgb, rgb + plane, rgb + 2 * plane);
    }
    free_work(&w);
    return code;
}

/* ---- writing ------------------------------------------------------------------------------------------------------ */

static void put_bytes(png_structp png, png_bytep from, size_t n) {
    work *w = png_get_io_ptr(png);
    if (n > w->to_room - w->to_used) {
        size_t room = w->to_room < 65536 ? 65536 : w->to_room;
        while (room - w->to_used < n) room *= 2;
        uint8_t *to = realloc(w->to, room);
        if (!to) {
            w->out_of_memory = true;
            png_error(png, "no memory");
        }
        w->to = to;
        w->to_room = room;
    }
    memcpy(w->to + w->to_used, from, n);
    w->to_used += n;
}

static void flush_nothing(png_structp png) {
    (void)png;
}

static sg_code write_guarded(work *w, int64_t height, int64_t width, sg_status *status) {
    if (setjmp(w->back)) {
        if (w->out_of_memory) return sg_fail_memory(status, w->to_room, "a PNG image");
        return sg_fail(status, SG_MACHINE, "cannot write a PNG image: %s", w->why);
    }
    png_set_write_fn(w->png, w, put_bytes, flush_nothing);
    png_set_compression_level(w->png, COMPRESSION);
    png_set_IHDR(w->png, w->info, (png_uint_32)width, (png_uint_32)height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(w->png, w->info);
    png_write_image(w->png, w->rows);
    png_write_end(w->png, NULL);
    return SG_OK;
}

sg_code sg_png_write(const uint8_t *rgb, int64_t height, int64_t width, uint8_t **bytes, size_t *n, sg_status *status) {
    work w = {0};
    size_t plane = (size_t)height * (size_t)width;
    if (!make_room(&w, height, width)) {
        free_work(&w);
        return sg_fail_memory(status, 3 * plane, "a PNG image");
    }
    sg_planes_to_rgb(rgb, rgb + plane, rgb + 2 * plane, plane, w.pixels);
    w.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &w, fail_at, ignore_warning);
    if (w.png) w.info = png_create_info_struct(w.png);
    sg_code code = w.info ? write_guarded(&w, height, width, status) : sg_fail_memory(status, 0, "a PNG writer");
    png_destroy_write_struct(&w.png, &w.info);
    if (!code) {
        *bytes = w.to;
        *n = w.to_used;
        w.to = NULL;
    }
    free_work(&w);
    return code;
}
