#include "kernels/virtual/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Compute and memory time of one product overlap, so the larger decides; near equality both show. 8 keeps the join within
 * 9 % of max() and makes the price differentiable for fits. */
static const double JOIN_POWER = 8;

const char *sg_evidence_name(sg_evidence evidence) {
    static const char *const names[SG_EVIDENCE_COUNT] = {"observed", "measured", "calibrated", "data sheet"};
    return (unsigned)evidence < SG_EVIDENCE_COUNT ? names[evidence] : "unknown";
}

void sg_machine_init(sg_machine *machine) {
    memset(machine, 0, sizeof *machine);
    for (int i = 0; i < SG_M_COUNT; i++) {
        machine->p[i].value = NAN;
        machine->p[i].evidence = SG_EVIDENCE_DATA_SHEET;
    }
    for (int c = 0; c < SG_CLASS_COUNT; c++) machine->p[sg_machine_factor_of((sg_op_class)c)].value = 1;
    machine->p[SG_M_FACTOR_LOW_PRECISION].value = 1;
}

void sg_machine_clear(sg_machine *machine) {
    free(machine->covariance);
    machine->covariance = NULL;
}

const char *sg_machine_key(sg_machine_id id) {
    static const char *const keys[SG_M_COUNT] = {
#define X(name, key, unit, what) key,
        SG_MACHINE_PARAMETERS(X)
#undef X
    };
    return (unsigned)id < SG_M_COUNT ? keys[id] : "";
}

const char *sg_machine_unit(sg_machine_id id) {
    static const char *const units[SG_M_COUNT] = {
#define X(name, key, unit, what) unit,
        SG_MACHINE_PARAMETERS(X)
#undef X
    };
    return (unsigned)id < SG_M_COUNT ? units[id] : "";
}

sg_machine_id sg_machine_peak_of(sg_compute compute) {
    switch (compute) {
    case SG_COMPUTE_F32: return SG_M_PEAK_F32;
    case SG_COMPUTE_TF32: return SG_M_PEAK_TF32;
    case SG_COMPUTE_BF16: return SG_M_PEAK_BF16;
    case SG_COMPUTE_F16: return SG_M_PEAK_F16;
    default: return SG_M_COUNT;
    }
}

/* Efficiencies and factors stand in the order of the classes. */
_Static_assert(SG_M_EFF_OPTIMIZER - SG_M_EFF_GEMM == SG_CLASS_COUNT - 1, "an efficiency per op class");
_Static_assert(SG_M_FACTOR_OPTIMIZER - SG_M_FACTOR_GEMM == SG_CLASS_COUNT - 1, "a factor per op class");
_Static_assert(SG_M_EFF_NORM - SG_M_EFF_GEMM == SG_CLASS_NORM, "same order");
_Static_assert(SG_M_FACTOR_EMBEDDING - SG_M_FACTOR_GEMM == SG_CLASS_EMBEDDING, "same order");

sg_machine_id sg_machine_eff_of(sg_op_class cls) {
    if ((unsigned)cls >= SG_CLASS_COUNT) return SG_M_COUNT;
    return (sg_machine_id)(SG_M_EFF_GEMM + (int)cls);
}

sg_machine_id sg_machine_factor_of(sg_op_class cls) {
    if ((unsigned)cls >= SG_CLASS_COUNT) return SG_M_COUNT;
    return (sg_machine_id)(SG_M_FACTOR_GEMM + (int)cls);
}

/* A time with its derivatives by log parameter. */
typedef struct priced {
    double seconds;
    double by_log[SG_M_COUNT];
} priced;

static void add_term(priced *to, const priced *term, double weight) {
    for (int i = 0; i < SG_M_COUNT; i++) to->by_log[i] += weight * term->by_log[i];
}

/* amount / (p[share] p[rate]) */
static priced rate_time(const sg_machine *m, double amount, sg_machine_id share, sg_machine_id rate) {
    priced t = {0};
    if (amount > 0) t.seconds = amount / (m->p[share].value * m->p[rate].value);
    t.by_log[share] = -t.seconds;
    t.by_log[rate] = -t.seconds;
    return t;
}

static priced fixed_time(const sg_machine *m, int64_t launches, sg_machine_id each) {
    priced t = {0};
    t.seconds = (double)launches * m->p[each].value;
    t.by_log[each] = t.seconds;
    return t;
}

static priced sum_of(const priced *a, const priced *b) {
    priced t = *a;
    t.seconds += b->seconds;
    add_term(&t, b, 1);
    return t;
}

/* (a^p + b^p)^(1/p) */
static priced join_of(const priced *a, const priced *b) {
    const priced *large = a->seconds >= b->seconds ? a : b, *small = large == a ? b : a;
    if (!(small->seconds > 0)) return *large;
    double rp = pow(small->seconds / large->seconds, JOIN_POWER);
    double scale = pow(1 + rp, 1 / JOIN_POWER);
    priced t = {.seconds = large->seconds * scale};
    /* dT = T^(1-p) (a^p dlog a + b^p dlog b), with dlog x = dx / x */
    add_term(&t, large, scale / (1 + rp));
    add_term(&t, small, scale / (1 + rp) * rp * large->seconds / small->seconds);
    return t;
}

static bool is_product(sg_op_class cls) {
    return cls <= SG_CLASS_ATTENTION;
}

bool sg_machine_low_precision(const sg_op *op) {
    return is_product(sg_op_class_of(op)) &&
           (op->attrs.compute == SG_COMPUTE_BF16 || op->attrs.compute == SG_COMPUTE_F16);
}

/* Convolutions over one row (1-D) stream large weights for few outputs and behave like a matrix product. */
static bool is_image_convolution(const sg_op *op, sg_op_class cls) {
    if (cls != SG_CLASS_CONV && cls != SG_CLASS_CONV_BWD_DATA && cls != SG_CLASS_CONV_BWD_WEIGHTS) return false;
    return op->attrs.kernel[0] > 1 || op->desc[0].size[2] > 1;
}

static sg_code need(const sg_machine *m, const sg_op *op, sg_machine_id id, sg_status *status) {
    if (id < SG_M_COUNT && m->p[id].value >= 0 && isfinite(m->p[id].value)) return SG_OK;
    if (id >= SG_M_COUNT)
        return sg_fail(status, SG_NO, "pricing %s on machine %s: products in this precision have no rate there",
                       sg_op_kind_name((sg_op_kind)op->kind), m->name);
    return sg_fail(status, SG_NO,
                   "pricing %s on machine %s: it does not state %s; add it to the data sheet or measure it",
                   sg_op_kind_name((sg_op_kind)op->kind), m->name, sg_machine_key(id));
}

sg_code sg_machine_price(const sg_machine *machine, const sg_op *op, double *seconds, double *gradient,
                         sg_status *status) {
    sg_op_class cls = sg_op_class_of(op);
    sg_cost cost = sg_op_cost(op);
    double bytes = cost.bytes_read + cost.bytes_written;
    sg_machine_id eff = sg_machine_eff_of(cls), factor = sg_machine_factor_of(cls);
    sg_code code = need(machine, op, eff, status);
    if (!code) code = need(machine, op, factor, status);
    if (!code) code = need(machine, op, SG_M_BANDWIDTH, status);
    priced t;
    if (is_product(cls)) {
        sg_machine_id peak = sg_machine_peak_of((sg_compute)op->attrs.compute);
        if (!code) code = need(machine, op, peak, status);
        if (!code) code = need(machine, op, SG_M_EFF_ELEMENTWISE, status);
        if (!code) code = need(machine, op, SG_M_KERNEL_START_S, status);
        if (code) return code;
        priced compute = rate_time(machine, cost.flops, eff, peak);
        priced traffic = rate_time(machine, bytes, SG_M_EFF_ELEMENTWISE, SG_M_BANDWIDTH);
        priced start = fixed_time(machine, cost.launches, SG_M_KERNEL_START_S);
        t = is_image_convolution(op, cls) ? sum_of(&compute, &traffic) : join_of(&compute, &traffic);
        t = sum_of(&t, &start);
    } else {
        if (!code) code = need(machine, op, SG_M_KERNEL_FLOOR_S, status);
        if (code) return code;
        priced traffic = rate_time(machine, bytes, eff, SG_M_BANDWIDTH);
        priced floor_time = fixed_time(machine, cost.launches, SG_M_KERNEL_FLOOR_S);
        t = join_of(&traffic, &floor_time);
    }
    double f = machine->p[factor].value;
    bool low = sg_machine_low_precision(op);
    if (low) f *= machine->p[SG_M_FACTOR_LOW_PRECISION].value;
    *seconds = t.seconds * f;
    if (gradient) {
        for (int i = 0; i < SG_M_COUNT; i++) gradient[i] = t.by_log[i] * f;
        gradient[factor] += t.seconds * f;
        if (low) gradient[SG_M_FACTOR_LOW_PRECISION] += t.seconds * f;
    }
    if (isfinite(*seconds)) return SG_OK;
    return sg_fail(status, SG_NO, "pricing %s on machine %s: %s or another rate is zero",
                   sg_op_kind_name((sg_op_kind)op->kind), machine->name, sg_machine_key(eff));
}

double sg_machine_log_variance(const sg_machine *machine, const double *by_log, double value) {
    if (!(value > 0)) return 0;
    double variance = 0;
    if (machine->covariance) {
        for (int i = 0; i < SG_M_COUNT; i++)
            for (int j = 0; j < SG_M_COUNT; j++)
                variance += by_log[i] * by_log[j] * machine->covariance[i * SG_M_COUNT + j];
    } else {
        double grouped[256] = {0};
        for (int i = 0; i < SG_M_COUNT; i++) {
            double part = by_log[i] * machine->p[i].log_sd;
            if (machine->p[i].group)
                grouped[machine->p[i].group] += part;
            else
                variance += part * part;
        }
        for (int g = 1; g < 256; g++) variance += grouped[g] * grouped[g];
    }
    return variance > 0 ? variance / (value * value) : 0;
}

sg_code sg_machine_host_s(const sg_machine *m, double host_s[SG_HOST_CLASS_COUNT + 1], sg_status *status) {
    static const sg_machine_id needed[] = {SG_M_HOST_OP_S,   SG_M_HOST_BACKWARD,    SG_M_HOST_VIEW,
                                           SG_M_HOST_SYNC_S, SG_M_HOST_OPTIMIZER_S, SG_M_HOST_OPTIMIZER_OPS};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!(m->p[needed[i]].value > 0))
            return sg_fail(status, SG_NO, "machine %s does not state %s, which host time needs", m->name,
                           sg_machine_key(needed[i]));
    double op_s = m->p[SG_M_HOST_OP_S].value;
    host_s[SG_HOST_OP_FORWARD] = op_s;
    host_s[SG_HOST_OP_BACKWARD] = op_s * m->p[SG_M_HOST_BACKWARD].value;
    host_s[SG_HOST_VIEW_FORWARD] = op_s * m->p[SG_M_HOST_VIEW].value;
    host_s[SG_HOST_VIEW_BACKWARD] = 0; /* made by the autograd engine: see sg_virtual_host_work */
    host_s[SG_HOST_OPTIMIZER] = op_s * m->p[SG_M_HOST_OPTIMIZER_OPS].value;
    host_s[SG_HOST_SYNC] = m->p[SG_M_HOST_SYNC_S].value;
    host_s[SG_HOST_CLASS_COUNT] = m->p[SG_M_HOST_OPTIMIZER_S].value;
    return SG_OK;
}
