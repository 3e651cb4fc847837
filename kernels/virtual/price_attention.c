/* price_attention.c: fused attention. */
#include "kernels/virtual/price.h"

sg_code sg_price_attention(const sg_machine *machine, const sg_op *op, const sg_cost *cost, sg_priced *price,
                           sg_status *status) {
    sg_code code = sg_price_needs_product(machine, op, status);
    if (code) return code;
    sg_priced compute =
        sg_priced_rate(machine, cost->flops, SG_M_EFF_ATTENTION, sg_machine_peak_of((sg_compute)op->attrs.compute));
    sg_priced traffic =
        sg_priced_rate(machine, cost->bytes_read + cost->bytes_written, SG_M_EFF_ELEMENTWISE, SG_M_BANDWIDTH);
    sg_priced start = sg_priced_fixed(machine, cost->launches, SG_M_KERNEL_START_S);
    *price = sg_priced_join(&compute, &traffic);
    *price = sg_priced_sum(price, &start);
    return SG_OK;
}
