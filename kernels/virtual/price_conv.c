/* price_conv.c: convolutions: forward, backward by data, backward by weights.
 *
 * Each is a product (implicit GEMM): outputs m x n, contraction k, with b images of x[c, h, w] -> y[o, h', w']:
 *   forward            m = b h' w',  n = o,        k = c kh kw
 *   backward by data   m = b h w,    n = c,        k = o kh kw / (stride_h stride_w)
 *   backward by weights m = o,       n = c kh kw,  k = b h' w'
 * One row (1-D) is priced as the product that it is. Over images libraries reach less of the peak than in products, and the
 * byte time adds to the arithmetic (training logs of 8 GPU models): FLOP / (efficiency peak) x occupancy + bytes. Occupancy is
 * what the last wave of tiles leaves idle, and tiles that reach beyond the output: 1 for large images. The peak is the listed
 * one: efficiencies are from logs of whole trainings, at the clock that was sustained there. */
#include <math.h>
#include <string.h>

#include "kernels/virtual/product.h"

/* Convolutions over one row (1-D) stream large weights for few outputs and behave like a matrix product. */
static bool is_image_convolution(const sg_op *op) {
    return op->attrs.kernel[0] > 1 || op->desc[0].size[2] > 1;
}

typedef struct shape {
    double m, n, k;
} shape;

static shape shape_of(const sg_op *op) {
    const sg_desc *in = op->desc, *out = op->desc + op->n_in;
    double window = (double)op->attrs.kernel[0] * op->attrs.kernel[1];
    switch ((sg_op_kind)op->kind) {
    case SG_OP_CONV_BWD_DATA: { /* dy w -> dx */
        double stride = (double)op->attrs.stride[0] * op->attrs.stride[1];
        double pixels = (double)(out[0].size[0] * out[0].size[2] * out[0].size[3]);
        return (shape){pixels, (double)in[1].size[1], (double)in[1].size[0] * window / fmax(stride, 1)};
    }
    case SG_OP_CONV_BWD_WEIGHTS: /* dy x -> dw */
        return (shape){(double)in[0].size[1], (double)out[0].size[1] * window,
                       (double)(in[0].size[0] * in[0].size[2] * in[0].size[3])};
    default: /* x w -> y */
        return (shape){(double)(out[0].size[0] * out[0].size[2] * out[0].size[3]), (double)out[0].size[1],
                       (double)in[1].size[1] * window};
    }
}

/* Tiles that libraries have for convolutions, and what their arithmetic takes against the larger ones' (the loss of small tiles
 * in fp32 products, kernel tables of 8 GPU models, about halved: efficiencies here are means over such layers). */
static const struct {
    double rows, columns, cost;
} tiles[] = {{128, 128, 1}, {128, 64, 1}, {64, 128, 1}, {64, 64, 1.2}, {128, 32, 1.2}, {64, 32, 1.5}};
enum { TILES = sizeof tiles / sizeof *tiles };
/* Parts of a contraction that blocks may divide among them, and the least that remains for each. */
enum { MOST_PARTS = 64, LEAST_PART = 256 };

typedef struct occupancy {
    double factor;        /* time / time with every SM at work on outputs alone */
    double by_wave_share; /* d log factor / d log wave_share */
    double parts;
} occupancy;

static occupancy occupancy_of(const sg_machine *machine, const shape *s) {
    occupancy best = {.factor = 1, .parts = 1};
    if (machine->units <= 0 || strcmp(machine->device_class, "cuda") != 0) return best;
    double share = sg_wave_share(machine), units = machine->units;
    best.factor = INFINITY;
    for (int t = 0; t < TILES; t++)
        for (int parts = 1; parts <= MOST_PARTS; parts *= 2) {
            if (parts > 1 && s->k < (double)parts * LEAST_PART) break;
            double x = parts * ceil(s->m / tiles[t].rows) * ceil(s->n / tiles[t].columns) / units;
            double waves = share * ceil(x) + (1 - share) * fmax(x, 1);
            double factor = waves * units * tiles[t].rows * tiles[t].columns * tiles[t].cost / (parts * s->m * s->n);
            /* the sum over parts is small beside what fewer idle SMs save; without need none are made */
            if (factor >= best.factor * (parts > 1 ? 0.95 : 1)) continue;
            best = (occupancy){factor, share * (ceil(x) - fmax(x, 1)) / waves, (double)parts};
        }
    return best;
}

/* Under autocast convolutions over images gain little: in bf16 or fp16 they take CONV_LOW_PRECISION of what they take in tf32
 * with float32 images. On GPUs without tf32 half precision has a rate of its own, of which they reach CONV_LOW_SHARE beside their
 * efficiency. */
typedef struct precision {
    sg_compute compute;
    double widen;              /* bytes priced / bytes moved */
    sg_machine_id time, share; /* SG_M_COUNT: none */
} precision;

static precision precision_of(const sg_machine *m, const sg_op *op) {
    sg_compute compute = (sg_compute)op->attrs.compute;
    precision p = {.compute = compute, .widen = 1, .time = SG_M_COUNT, .share = SG_M_COUNT};
    if (compute != SG_COMPUTE_BF16 && compute != SG_COMPUTE_F16) return p;
    if (m->tf32 && m->p[SG_M_CONV_LOW_PRECISION].value > 0) {
        p.compute = SG_COMPUTE_TF32;
        p.time = SG_M_CONV_LOW_PRECISION;
        p.widen = 4 / (double)sg_dtype_bytes((sg_dtype)op->desc[0].dtype);
    } else if (compute == SG_COMPUTE_F16 && m->p[SG_M_CONV_LOW_SHARE].value > 0 &&
               m->p[SG_M_PEAK_F16].value > 2 * m->p[SG_M_PEAK_F32].value) {
        p.share = SG_M_CONV_LOW_SHARE;
    }
    return p;
}

static void scale(sg_priced *t, double factor) {
    t->seconds *= factor;
    for (int i = 0; i < SG_M_COUNT; i++) t->by_log[i] *= factor;
}

static sg_code price_images(const sg_machine *machine, const sg_op *op, const sg_cost *cost, sg_priced *price,
                            sg_status *status) {
    precision p = precision_of(machine, op);
    sg_op as_priced = *op;
    as_priced.attrs.compute = (int32_t)p.compute;
    sg_code code = sg_price_needs_product(machine, &as_priced, status);
    if (code) return code;
    shape s = shape_of(op);
    occupancy o = occupancy_of(machine, &s);
    sg_priced compute = sg_priced_rate(machine, cost->flops * o.factor, sg_machine_eff_of(sg_op_class_of(op)),
                                       sg_machine_peak_of(p.compute));
    if (machine->p[SG_M_WAVE_SHARE].value > 0) compute.by_log[SG_M_WAVE_SHARE] += compute.seconds * o.by_wave_share;
    if (p.share < SG_M_COUNT) {
        scale(&compute, 1 / machine->p[p.share].value);
        compute.by_log[p.share] -= compute.seconds;
    }
    double bytes = p.widen * (cost->bytes_read + cost->bytes_written);
    if (o.parts > 1) bytes += 4 * (o.parts + 1) * s.m * s.n; /* partial sums, written and read */
    sg_priced traffic = sg_priced_rate(machine, bytes, SG_M_EFF_ELEMENTWISE, SG_M_BANDWIDTH);
    *price = sg_priced_sum(&compute, &traffic);
    if (p.time < SG_M_COUNT) {
        scale(price, machine->p[p.time].value);
        price->by_log[p.time] += price->seconds;
    }
    sg_priced start = sg_priced_fixed(machine, cost->launches, SG_M_KERNEL_START_S);
    *price = sg_priced_sum(price, &start);
    return SG_OK;
}

/* One row: a product, by tiles where the machine's are known. */
static sg_code price_row(const sg_machine *machine, const sg_op *op, const sg_cost *cost, sg_priced *price,
                         sg_status *status) {
    shape s = shape_of(op);
    double element = (double)sg_dtype_bytes((sg_dtype)op->desc[0].dtype);
    sg_product product = {.batch = 1,
                          .m = s.m,
                          .n = s.n,
                          .k = s.k,
                          .a_bytes = element,
                          .b_bytes = element,
                          .bytes = cost->bytes_read + cost->bytes_written,
                          .compute = (sg_compute)op->attrs.compute,
                          .kind = SG_TILES_LINEAR};
    if (sg_product_has_tiles(machine)) {
        product.compute = sg_product_mode(machine, product.compute);
        return sg_price_tiles(machine, &product, SG_PRODUCT_IN_STEP, price, status);
    }
    sg_code code = sg_price_needs_product(machine, op, status);
    if (code) return code;
    sg_priced compute = sg_priced_rate(machine, cost->flops, sg_machine_eff_of(sg_op_class_of(op)),
                                       sg_machine_peak_of(product.compute));
    sg_priced traffic = sg_priced_rate(machine, product.bytes, SG_M_EFF_ELEMENTWISE, SG_M_BANDWIDTH);
    sg_priced start = sg_priced_fixed(machine, cost->launches, SG_M_KERNEL_START_S);
    *price = sg_priced_join(&compute, &traffic);
    *price = sg_priced_sum(price, &start);
    return SG_OK;
}

sg_code sg_price_convolution(const sg_machine *machine, const sg_op *op, const sg_cost *cost, sg_priced *price,
                             sg_status *status) {
    return is_image_convolution(op) ? price_images(machine, op, cost, price, status)
                                    : price_row(machine, op, cost, price, status);
}
