/* price.c: what one op takes on a machine: terms with their derivatives, put together by the class of the op. */
#include "kernels/virtual/price.h"

#include <math.h>

/* Compute and memory time of one product overlap, so the larger decides; near equality both show. 8 keeps the join within
 * 9 % of max() and makes the price differentiable for fits. */
static const double JOIN_POWER = 8;
/* Where the machine does not say (kernel tables of 8 GPU models). */
static const double WAVE_SHARE = 0.88;

double sg_wave_share(const sg_machine *m) {
    double share = m->p[SG_M_WAVE_SHARE].value;
    return share > 0 ? fmin(share, 1) : WAVE_SHARE;
}

void sg_priced_add(sg_priced *to, const sg_priced *term, double weight) {
    for (int i = 0; i < SG_M_COUNT; i++) to->by_log[i] += weight * term->by_log[i];
}

/* amount / (p[share] p[rate]) */
sg_priced sg_priced_rate(const sg_machine *m, double amount, sg_machine_id share, sg_machine_id rate) {
    sg_priced t = {0};
    if (amount > 0) t.seconds = amount / (m->p[share].value * m->p[rate].value);
    t.by_log[share] = -t.seconds;
    t.by_log[rate] = -t.seconds;
    return t;
}

sg_priced sg_priced_fixed(const sg_machine *m, int64_t launches, sg_machine_id each) {
    sg_priced t = {0};
    t.seconds = (double)launches * m->p[each].value;
    t.by_log[each] = t.seconds;
    return t;
}

sg_priced sg_priced_sum(const sg_priced *a, const sg_priced *b) {
    sg_priced t = *a;
    t.seconds += b->seconds;
    sg_priced_add(&t, b, 1);
    return t;
}

/* (a^p + b^p)^(1/p) */
sg_priced sg_priced_join(const sg_priced *a, const sg_priced *b) {
    const sg_priced *large = a->seconds >= b->seconds ? a : b, *small = large == a ? b : a;
    if (!(small->seconds > 0)) return *large;
    double rp = pow(small->seconds / large->seconds, JOIN_POWER);
    double scale = pow(1 + rp, 1 / JOIN_POWER);
    sg_priced t = {.seconds = large->seconds * scale};
    /* dT = T^(1-p) (a^p dlog a + b^p dlog b), with dlog x = dx / x */
    sg_priced_add(&t, large, scale / (1 + rp));
    sg_priced_add(&t, small, scale / (1 + rp) * rp * large->seconds / small->seconds);
    return t;
}

static bool is_product(sg_op_class cls) {
    return cls <= SG_CLASS_ATTENTION;
}

bool sg_machine_low_precision(const sg_op *op) {
    return is_product(sg_op_class_of(op)) &&
           (op->attrs.compute == SG_COMPUTE_BF16 || op->attrs.compute == SG_COMPUTE_F16);
}

sg_code sg_price_need(const sg_machine *m, const sg_op *op, sg_machine_id id, sg_status *status) {
    if (id < SG_M_COUNT && m->p[id].value >= 0 && isfinite(m->p[id].value)) return SG_OK;
    if (id >= SG_M_COUNT)
        return sg_fail(status, SG_NO, "pricing %s on machine %s: products in this precision have no rate there",
                       sg_op_kind_name((sg_op_kind)op->kind), m->name);
    return sg_fail(status, SG_NO,
                   "pricing %s on machine %s: it does not state %s; add it to the data sheet or measure it",
                   sg_op_kind_name((sg_op_kind)op->kind), m->name, sg_machine_key(id));
}

static sg_code price_by_class(const sg_machine *machine, const sg_op *op, sg_priced *price, sg_status *status) {
    sg_cost cost = sg_op_cost(op);
    switch (sg_op_class_of(op)) {
    case SG_CLASS_GEMM:
    case SG_CLASS_BMM: return sg_price_product(machine, op, &cost, price, status);
    case SG_CLASS_CONV:
    case SG_CLASS_CONV_BWD_DATA:
    case SG_CLASS_CONV_BWD_WEIGHTS: return sg_price_convolution(machine, op, &cost, price, status);
    case SG_CLASS_ATTENTION: return sg_price_attention(machine, op, &cost, price, status);
    default: return sg_price_rows(machine, op, &cost, false, price, status);
    }
}

sg_code sg_price_needs_product(const sg_machine *machine, const sg_op *op, sg_status *status) {
    sg_code code = sg_price_need(machine, op, sg_machine_peak_of((sg_compute)op->attrs.compute), status);
    if (!code) code = sg_price_need(machine, op, SG_M_EFF_ELEMENTWISE, status);
    if (!code) code = sg_price_need(machine, op, SG_M_KERNEL_START_S, status);
    return code;
}

/* Classes whose ops a compiler joins with their neighbours. */
static bool fuses(sg_op_class cls) {
    return cls == SG_CLASS_ELEMENTWISE || cls == SG_CLASS_NORM || cls == SG_CLASS_SOFTMAX || cls == SG_CLASS_COPY ||
           cls == SG_CLASS_REDUCE || cls == SG_CLASS_RANDOM;
}

/* Applies what measured shapes tell of ops in steps, and the framework factor; NULL gradient: not wanted. */
static sg_code finish(const sg_machine *machine, const sg_op *op, bool in_step, const sg_priced *t, double *seconds,
                      double *gradient, sg_status *status) {
    sg_op_class cls = sg_op_class_of(op);
    sg_machine_id eff = sg_machine_eff_of(cls), factor = sg_machine_factor_of(cls);
    double f = machine->p[factor].value;
    if (in_step && machine->measured) {
        const sg_shape shape = sg_shape_of_op(op);
        f *= exp(sg_measured_log_ratio(machine->measured, &shape));
    }
    bool low = sg_machine_low_precision(op);
    if (low) f *= machine->p[SG_M_FACTOR_LOW_PRECISION].value;
    bool fused = fuses(cls);
    if (fused) f *= machine->p[SG_M_FUSED_BYTES].value;
    *seconds = t->seconds * f;
    if (gradient) {
        for (int i = 0; i < SG_M_COUNT; i++) gradient[i] = t->by_log[i] * f;
        gradient[factor] += t->seconds * f;
        if (low) gradient[SG_M_FACTOR_LOW_PRECISION] += t->seconds * f;
        if (fused) gradient[SG_M_FUSED_BYTES] += t->seconds * f;
    }
    if (isfinite(*seconds)) return SG_OK;
    return sg_fail(status, SG_NO, "pricing %s on machine %s: %s or another rate is zero",
                   sg_op_kind_name((sg_op_kind)op->kind), machine->name, sg_machine_key(eff));
}

static sg_code needs_of_class(const sg_machine *machine, const sg_op *op, sg_status *status) {
    sg_op_class cls = sg_op_class_of(op);
    sg_code code = sg_price_need(machine, op, sg_machine_eff_of(cls), status);
    if (!code) code = sg_price_need(machine, op, sg_machine_factor_of(cls), status);
    if (!code) code = sg_price_need(machine, op, SG_M_BANDWIDTH, status);
    return code;
}

sg_code sg_machine_price(const sg_machine *machine, const sg_op *op, double *seconds, double *gradient,
                         sg_status *status) {
    sg_priced t;
    sg_code code = needs_of_class(machine, op, status);
    if (!code) code = price_by_class(machine, op, &t, status);
    return code ? code : finish(machine, op, true, &t, seconds, gradient, status);
}

sg_code sg_machine_price_alone(const sg_machine *machine, const sg_op *op, double *seconds, double *gradient,
                               sg_status *status) {
    sg_priced t;
    sg_cost cost = sg_op_cost(op);
    sg_code code = needs_of_class(machine, op, status);
    if (!code) code = sg_price_rows(machine, op, &cost, true, &t, status);
    return code ? code : finish(machine, op, false, &t, seconds, gradient, status);
}

sg_code sg_machine_step_price(const sg_machine *machine, const sg_op *op, double *seconds, double *gradient,
                              sg_status *status) {
    sg_code code = sg_price_need(machine, op, SG_M_STEP_STRETCH, status);
    if (!code) code = sg_machine_price(machine, op, seconds, gradient, status);
    if (code) return code;
    double stretch = machine->p[SG_M_STEP_STRETCH].value;
    *seconds *= stretch;
    if (!gradient) return SG_OK;
    for (int i = 0; i < SG_M_COUNT; i++) gradient[i] *= stretch;
    gradient[SG_M_STEP_STRETCH] += *seconds;
    return SG_OK;
}
