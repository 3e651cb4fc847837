/* price_attention.c: fused attention: no score matrix in memory, tiles of queries (backward: of keys) over the SMs.
 *
 * time = joined(FLOP x occupancy / (efficiency peak), bytes / bandwidth) + starts. A block forms a tile of queries against all
 * keys; heads are padded to 32, 64, 128 or 256 elements, tiles to whole ones, and the last wave leaves SMs idle. Backward reaches
 * ATTENTION_BACKWARD of the forward's share, an explicit mask ATTENTION_MASKED of it (kernels that take one are others). */
#include <math.h>
#include <string.h>

#include "kernels/virtual/price.h"

/* Tiles of fused kernels along queries or keys (FlashAttention-2, arXiv 2307.08691, and the memory-efficient kernels of
 * PyTorch), and what the smaller one's arithmetic takes against the larger's: half of the reuse of keys. */
static const struct { double rows, cost; } tiles[] = {{128, 1}, {64, 1.15}};
enum { TILES = sizeof tiles / sizeof *tiles };

static double padded_head(double d) {
    static const double known[] = {32, 64, 128, 256};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (d <= known[i]) return known[i];
    return d;
}

typedef struct occupancy {
    double factor, by_wave_share;
} occupancy;

/* blocks: batch x heads; rows: queries or keys. */
static occupancy occupancy_of(const sg_machine *m, double blocks, double rows, double head) {
    occupancy best = {.factor = 1};
    if (m->units <= 0 || strcmp(m->device_class, "cuda") != 0 || !(rows > 0) || !(head > 0)) return best;
    double share = sg_wave_share(m);
    best.factor = INFINITY;
    for (int t = 0; t < TILES; t++) {
        double x = blocks * ceil(rows / tiles[t].rows) / m->units;
        double waves = share * ceil(x) + (1 - share) * fmax(x, 1);
        double factor = waves * m->units * tiles[t].rows * tiles[t].cost / (blocks * rows);
        if (factor < best.factor) best = (occupancy){factor, share * (ceil(x) - fmax(x, 1)) / waves};
    }
    best.factor *= padded_head(head) / head;
    return best;
}

/* Seconds over a share below the forward's, where the machine states it. */
static void slower(sg_priced *t, const sg_machine *m, sg_machine_id id) {
    double value = m->p[id].value;
    if (!(value > 0)) return;
    t->seconds /= value;
    for (int i = 0; i < SG_M_COUNT; i++) t->by_log[i] /= value;
    t->by_log[id] -= t->seconds;
}

sg_code sg_price_attention(const sg_machine *machine, const sg_op *op, const sg_cost *cost, sg_priced *price,
                           sg_status *status) {
    sg_code code = sg_price_needs_product(machine, op, status);
    if (code) return code;
    bool backward = op->kind == SG_OP_ATTENTION_BWD;
    const sg_desc *q = &op->desc[backward ? 1 : 0], *k = q + 1;
    occupancy o = occupancy_of(machine, (double)(q->size[0] * q->size[1]), (double)(backward ? k : q)->size[2],
                               (double)q->size[3]);
    sg_priced compute = sg_priced_rate(machine, cost->flops * o.factor, SG_M_EFF_ATTENTION,
                                       sg_machine_peak_of((sg_compute)op->attrs.compute));
    if (machine->p[SG_M_WAVE_SHARE].value > 0) compute.by_log[SG_M_WAVE_SHARE] += compute.seconds * o.by_wave_share;
    if (backward) slower(&compute, machine, SG_M_ATTENTION_BACKWARD);
    if (op->attrs.flags & SG_HAS_MASK) slower(&compute, machine, SG_M_ATTENTION_MASKED);
    sg_priced traffic =
        sg_priced_rate(machine, cost->bytes_read + cost->bytes_written, SG_M_EFF_ELEMENTWISE, SG_M_BANDWIDTH);
    sg_priced start = sg_priced_fixed(machine, cost->launches, SG_M_KERNEL_START_S);
    *price = sg_priced_join(&compute, &traffic);
    *price = sg_priced_sum(price, &start);
    return SG_OK;
}
