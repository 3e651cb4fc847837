/* price_product.c: matrix products and batched ones: by tiles where the machine's are known, by rates elsewhere. */
#include "kernels/virtual/product.h"

#include <math.h>

sg_compute sg_product_mode(const sg_machine *m, sg_compute compute) {
    return compute == SG_COMPUTE_TF32 && !m->tf32 ? SG_COMPUTE_F32 : compute;
}

/* op: a MATMUL. */
static sg_product product_of(const sg_op *op, const sg_cost *cost) {
    const sg_desc *a = &op->desc[0], *b = &op->desc[1];
    sg_product p = {
        .batch = 1,
        .m = (double)a->size[a->ndim - 2],
        .k = (double)a->size[a->ndim - 1],
        .n = (double)b->size[b->ndim - 1],
        .a_bytes = (double)sg_dtype_bytes((sg_dtype)a->dtype),
        .b_bytes = (double)sg_dtype_bytes((sg_dtype)b->dtype),
        .bytes = cost->bytes_read + cost->bytes_written,
        .compute = (sg_compute)op->attrs.compute,
        .kind = sg_op_class_of(op) == SG_CLASS_BMM ? SG_TILES_BATCHED : SG_TILES_LINEAR,
    };
    for (int i = 0; i < a->ndim - 2; i++) p.batch *= (double)a->size[i];
    return p;
}

sg_product sg_product_f32(sg_tile_kind kind, double batch, double m, double n, double k) {
    return (sg_product){batch, m, n, k, 4, 4, 4 * batch * (m * k + k * n + m * n), SG_COMPUTE_F32, kind};
}

sg_machine_id sg_product_eff(const sg_machine *m, const sg_product *p) {
    sg_machine_id id = SG_M_COUNT;
    if (p->compute == SG_COMPUTE_TF32) id = SG_M_EFF_PRODUCT_TF32;
    if (p->compute == SG_COMPUTE_BF16) id = SG_M_EFF_PRODUCT_BF16;
    if (p->compute == SG_COMPUTE_F16) id = SG_M_EFF_PRODUCT_F16;
    if (id < SG_M_COUNT && m->p[id].value > 0) return id;
    return p->kind == SG_TILES_BATCHED ? SG_M_EFF_BMM : SG_M_EFF_GEMM;
}

bool sg_product_has_tiles(const sg_machine *m) {
    return m->units > 0 && m->tiles[SG_TILES_LINEAR].n > 0 && m->tiles[SG_TILES_BATCHED].n > 0;
}

static sg_code price_by_rates(const sg_machine *machine, const sg_op *op, const sg_cost *cost, sg_machine_id eff,
                              sg_priced *price, sg_status *status) {
    sg_code code = sg_price_needs_product(machine, op, status);
    if (code) return code;
    sg_priced compute = sg_priced_rate(machine, cost->flops, eff, sg_machine_peak_of((sg_compute)op->attrs.compute));
    sg_priced traffic =
        sg_priced_rate(machine, cost->bytes_read + cost->bytes_written, SG_M_EFF_ELEMENTWISE, SG_M_BANDWIDTH);
    sg_priced start = sg_priced_fixed(machine, cost->launches, SG_M_KERNEL_START_S);
    *price = sg_priced_join(&compute, &traffic);
    *price = sg_priced_sum(price, &start);
    return SG_OK;
}

sg_code sg_price_product(const sg_machine *machine, const sg_op *op, const sg_cost *cost, sg_priced *price,
                         sg_status *status) {
    sg_product product = product_of(op, cost);
    if (!sg_product_has_tiles(machine))
        return price_by_rates(machine, op, cost, sg_product_eff(machine, &product), price, status);
    product.compute = sg_product_mode(machine, product.compute);
    return sg_price_tiles(machine, &product, SG_PRODUCT_IN_STEP, price, status);
}
