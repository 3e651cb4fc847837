/* product.h: how long one matrix product takes: tiles in waves over the SMs, traffic, split contractions, clocks.
 *
 * A product is c[batch, m, n] = a[batch, m, k] b[batch, k, n]. For a tile of r x c outputs and S SMs
 *   tiles    x = batch ceil(m / r) ceil(n / c) / S,    waves w = s ceil(x) + (1 - s) max(x, 1)
 *   compute  w 2 r c (k + fill) / (P / S e),           1/e = 1 + (1/eff - 1) (128 128 / (r c))^tile_power
 *   traffic  bytes / (W traffic_share) + f again / (W drift_share),  f = 1 / (1 + (K1 / (k max(x, 1)^drift_waves))^2)
 * where `again` is what is read beyond once if no tile shares anything, K1 = drift_length sqrt(L2 / 4 MiB), P the sustained peak
 * (sg_sustained_peak) and W the bandwidth; both join by the power product_join; the fastest tile of the machine's list counts.
 * fp32 products also try contractions divided by 2, 4 and 8. docs/kernel-model.md has the measurements behind the form. */
#ifndef SG_KERNELS_VIRTUAL_PRODUCT_H
#define SG_KERNELS_VIRTUAL_PRODUCT_H

#include "kernels/virtual/price.h"

typedef struct sg_product {
    double batch, m, n, k;
    double a_bytes, b_bytes; /* of one element */
    double bytes;            /* operands, bias and result, each once */
    sg_compute compute;
    sg_tile_kind kind;
} sg_product;

/* Where the time is taken: inside a step (kernel_start_s, sustained clock) or between two events around a lone launch, as
 * kernel tables have it (event_product_s, clock by the length of the product). */
typedef enum sg_product_place { SG_PRODUCT_IN_STEP, SG_PRODUCT_BETWEEN_EVENTS } sg_product_place;

/* fp32, dense: a row of a kernel table. */
sg_product sg_product_f32(sg_tile_kind kind, double batch, double m, double n, double k);
/* Precision that the machine's units compute: without tf32 such products run in fp32. */
sg_compute sg_product_mode(const sg_machine *machine, sg_compute compute);
/* Efficiency parameter of a product's precision; where it is unknown, or for fp32, that of its class. */
sg_machine_id sg_product_eff(const sg_machine *machine, const sg_product *product);
/* Whether the machine's products are priced by tiles. */
bool sg_product_has_tiles(const sg_machine *machine);

/* Peak of a precision (FLOP/s) that the board's power sustains: (P^-6 + (board_w / energy)^-6)^(-1/6), with its
 * derivatives by log parameter in by_log (NULL: not wanted). Machines of unknown board power: the peak. */
double sg_sustained_peak(const sg_machine *machine, sg_compute compute, sg_priced *by_log);

/* Time by tiles, start included. SG_NO names the parameter that the machine lacks. */
sg_code sg_price_tiles(const sg_machine *machine, const sg_product *product, sg_product_place place, sg_priced *price,
                       sg_status *status);

#endif
