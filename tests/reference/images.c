/* images.c: pooling, resizing and padding of planes. */
#include "tests/reference/kinds.h"

#include <math.h>

/* Index of a maximum: its place in the plane (i64), or in the window (u8). */
static int64_t in_window(const sg_attrs *attrs, int64_t r, int64_t s) {
    return r * attrs->kernel[1] + s;
}

sg_code ref_MAXPOOL(const ref_call *call) {
    const sg_attrs *attrs = &call->op->attrs;
    const sg_desc *x = ref_in(call, 0), *y = ref_out(call, 0);
    bool by_window = ref_out(call, 1)->dtype == SG_U8;
    int64_t height = x->size[2], width = x->size[3], rows = y->size[2], columns = y->size[3];
    for (int64_t plane = 0; plane < y->size[0] * y->size[1]; plane++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                double largest = -INFINITY;
                int64_t place = -1;
                for (int64_t r = 0; r < attrs->kernel[0]; r++)
                    for (int64_t s = 0; s < attrs->kernel[1]; s++) {
                        int64_t h = i * attrs->stride[0] + r - attrs->pad[0];
                        int64_t v = j * attrs->stride[1] + s - attrs->pad[1];
                        if (h < 0 || h >= height || v < 0 || v >= width) continue;
                        double value = call->in[0][(plane * height + h) * width + v];
                        if (place >= 0 && !(value > largest) && !isnan(value)) continue;
                        largest = value;
                        place = by_window ? in_window(attrs, r, s) : h * width + v;
                    }
                call->out[0][(plane * rows + i) * columns + j] = largest;
                call->out[1][(plane * rows + i) * columns + j] = (double)place;
            }
    return SG_OK;
}

sg_code ref_MAXPOOL_BWD(const ref_call *call) {
    const sg_attrs *attrs = &call->op->attrs;
    const sg_desc *dy = ref_in(call, 0), *dx = ref_out(call, 0);
    bool by_window = ref_in(call, 1)->dtype == SG_U8;
    int64_t height = dx->size[2], width = dx->size[3], rows = dy->size[2], columns = dy->size[3];
    for (int64_t plane = 0; plane < dy->size[0] * dy->size[1]; plane++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                int64_t from = (plane * rows + i) * columns + j, place = (int64_t)call->in[1][from];
                if (by_window) {
                    int64_t h = i * attrs->stride[0] + place / attrs->kernel[1] - attrs->pad[0];
                    int64_t v = j * attrs->stride[1] + place % attrs->kernel[1] - attrs->pad[1];
                    place = h < 0 || v < 0 || v >= width ? -1 : h * width + v;
                }
                if (place < 0 || place >= height * width)
                    return sg_fail(call->status, SG_BAD_INPUT, "reference: MAXPOOL_BWD: index outside the plane");
                call->out[0][plane * height * width + place] += call->in[0][from];
            }
    return SG_OK;
}

/* Half-pixel centres: output i looks at (i + 1/2) in/out - 1/2, held inside the image. */
typedef struct sample {
    int64_t low, high;
    double weight; /* of high */
} sample;

static sample sample_at(int64_t i, int64_t in, int64_t out) {
    double centre = fmax(0, ((double)i + 0.5) * (double)in / (double)out - 0.5);
    int64_t low = (int64_t)centre;
    if (low > in - 1) low = in - 1;
    sample s = {low, low + 1 < in ? low + 1 : low, centre - (double)low};
    return s;
}

sg_code ref_RESIZE(const ref_call *call) {
    const sg_desc *x = ref_in(call, 0), *y = ref_out(call, 0);
    int64_t height = x->size[2], width = x->size[3], rows = y->size[2], columns = y->size[3];
    for (int64_t plane = 0; plane < y->size[0] * y->size[1]; plane++) {
        const double *image = call->in[0] + plane * height * width;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                sample r = sample_at(i, height, rows), c = sample_at(j, width, columns);
                double top = (1 - c.weight) * image[r.low * width + c.low] + c.weight * image[r.low * width + c.high];
                double bottom =
                    (1 - c.weight) * image[r.high * width + c.low] + c.weight * image[r.high * width + c.high];
                call->out[0][(plane * rows + i) * columns + j] = (1 - r.weight) * top + r.weight * bottom;
            }
    }
    return SG_OK;
}

sg_code ref_PAD(const ref_call *call) {
    const sg_attrs *attrs = &call->op->attrs;
    const sg_desc *x = ref_in(call, 0), *y = ref_out(call, 0);
    int n = y->ndim;
    int64_t height = x->size[n - 2], width = x->size[n - 1], rows = y->size[n - 2], columns = y->size[n - 1];
    for (int64_t plane = 0; plane < ref_extent(y, 0, n - 2); plane++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                int64_t h = i - attrs->pad[0], v = j - attrs->pad[1];
                bool inside = h >= 0 && h < height && v >= 0 && v < width;
                call->out[0][(plane * rows + i) * columns + j] =
                    inside ? call->in[0][(plane * height + h) * width + v] : attrs->alpha;
            }
    return SG_OK;
}
