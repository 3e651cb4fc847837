/* price.h: terms of a price, for the files that price ops: a time with its derivatives by log parameter. */
#ifndef SG_KERNELS_VIRTUAL_PRICE_H
#define SG_KERNELS_VIRTUAL_PRICE_H

#include "kernels/virtual/machine.h"

typedef struct sg_priced {
    double seconds;
    double by_log[SG_M_COUNT];
} sg_priced;

/* Adds the derivatives of a term, weighted. */
void sg_priced_add(sg_priced *to, const sg_priced *term, double weight);
/* amount / (p[share] p[rate]) */
sg_priced sg_priced_rate(const sg_machine *machine, double amount, sg_machine_id share, sg_machine_id rate);
/* launches x p[each] */
sg_priced sg_priced_fixed(const sg_machine *machine, int64_t launches, sg_machine_id each);
sg_priced sg_priced_sum(const sg_priced *a, const sg_priced *b);
/* (a^p + b^p)^(1/p) with a high p: the larger decides, near equality both show */
sg_priced sg_priced_join(const sg_priced *a, const sg_priced *b);
/* SG_NO with the parameter's name when the machine lacks it. */
sg_code sg_price_need(const sg_machine *machine, const sg_op *op, sg_machine_id id, sg_status *status);
/* What every product needs: the rate of its precision, element-wise efficiency, kernel start. */
sg_code sg_price_needs_product(const sg_machine *machine, const sg_op *op, sg_status *status);

/* Of the SMs' idle time in a last wave: the share that is lost. */
double sg_wave_share(const sg_machine *machine);

/* Bandwidth-bound ops, with KERNEL_FLOOR_S per launch on top; alone: with EVENT_x_S instead. */
sg_code sg_price_rows(const sg_machine *machine, const sg_op *op, const sg_cost *cost, bool alone, sg_priced *price,
                      sg_status *status);

/* Price of one op of its classes, without the framework factor. */
sg_code sg_price_product(const sg_machine *machine, const sg_op *op, const sg_cost *cost, sg_priced *price,
                         sg_status *status);
sg_code sg_price_convolution(const sg_machine *machine, const sg_op *op, const sg_cost *cost, sg_priced *price,
                             sg_status *status);
sg_code sg_price_attention(const sg_machine *machine, const sg_op *op, const sg_cost *cost, sg_priced *price,
                           sg_status *status);

/* What the host spends on one of a class (kernels/device.h); SG_HOST_CLASS_COUNT: on an optimizer step beside its tensors. */
sg_code sg_price_host(const sg_machine *machine, int host_class, sg_priced *price, sg_status *status);
sg_code sg_price_copy(const sg_machine *machine, sg_copy_kind kind, double bytes, sg_priced *price, sg_status *status);
/* bytes: of the whole, that each rank has in the end (all-reduce, gather) or at first (scatter). One rank: nothing. */
sg_code sg_price_collective(const sg_machine *machine, sg_collective_kind kind, double bytes, int ranks,
                            sg_priced *price, sg_status *status);
/* SG_NO with the parameter's name when the machine lacks it; what: "host time". */
sg_code sg_price_need_for(const sg_machine *machine, sg_machine_id id, const char *what, sg_status *status);

/* Bytes beyond sg_op_cost that an element-wise op or a copy reads because an operand lies in another order than the result
 * (price_strided.c). */
double sg_strided_bytes(const sg_machine *machine, const sg_op *op);

#endif
