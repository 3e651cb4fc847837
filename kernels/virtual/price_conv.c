/* price_conv.c: convolutions: forward, backward by data, backward by weights. */
#include "kernels/virtual/price.h"

/* Convolutions over one row (1-D) stream large weights for few outputs and behave like a matrix product. */
static bool is_image_convolution(const sg_op *op) {
    return op->attrs.kernel[0] > 1 || op->desc[0].size[2] > 1;
}

/* Over images the byte time adds to the arithmetic (training logs of 8 GPU models); the sum, not the larger. */
sg_code sg_price_convolution(const sg_machine *machine, const sg_op *op, const sg_cost *cost, sg_priced *price,
                             sg_status *status) {
    sg_code code = sg_price_needs_product(machine, op, status);
    if (code) return code;
    sg_machine_id eff = sg_machine_eff_of(sg_op_class_of(op)), peak = sg_machine_peak_of((sg_compute)op->attrs.compute);
    sg_priced compute = sg_priced_rate(machine, cost->flops, eff, peak);
    sg_priced traffic =
        sg_priced_rate(machine, cost->bytes_read + cost->bytes_written, SG_M_EFF_ELEMENTWISE, SG_M_BANDWIDTH);
    sg_priced start = sg_priced_fixed(machine, cost->launches, SG_M_KERNEL_START_S);
    *price = is_image_convolution(op) ? sg_priced_sum(&compute, &traffic) : sg_priced_join(&compute, &traffic);
    *price = sg_priced_sum(price, &start);
    return SG_OK;
}
