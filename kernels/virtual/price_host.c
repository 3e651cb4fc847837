/* price_host.c: what the host's work and copies take on a machine. */
#include <math.h>

#include "kernels/virtual/price.h"

sg_code sg_price_need_for(const sg_machine *m, sg_machine_id id, const char *what, sg_status *status) {
    double v = m->p[id].value;
    if (isfinite(v) && v >= 0) return SG_OK;
    return sg_fail(status, SG_NO, "%s on machine %s: it does not state %s; add it to the data sheet or measure it",
                   what, m->name, sg_machine_key(id));
}

/* Dispatches are multiples of a forward op's, the rest has seconds of its own. */
static sg_machine_id seconds_of(int host_class) {
    if (host_class == SG_HOST_CLASS_COUNT) return SG_M_HOST_OPTIMIZER_S;
    if (host_class == SG_HOST_SEGMENT) return SG_M_HOST_SEGMENT_S;
    return host_class == SG_HOST_SYNC ? SG_M_HOST_SYNC_S : SG_M_HOST_OP_S;
}

static sg_machine_id multiple_of(int host_class) {
    switch (host_class) {
    case SG_HOST_OP_BACKWARD: return SG_M_HOST_BACKWARD;
    case SG_HOST_VIEW_FORWARD: return SG_M_HOST_VIEW;
    case SG_HOST_OPTIMIZER: return SG_M_HOST_OPTIMIZER_OPS;
    default: return SG_M_COUNT;
    }
}

/* What compiling the policy can save; the optimizer's bookkeeping and blocking reads stay outside. */
static bool is_of_policy(int host_class) {
    return host_class == SG_HOST_OP_FORWARD || host_class == SG_HOST_OP_BACKWARD || host_class == SG_HOST_VIEW_FORWARD;
}

sg_code sg_price_host(const sg_machine *m, int host_class, sg_priced *price, sg_status *status) {
    if (host_class < 0 || host_class > SG_HOST_CLASS_COUNT)
        return sg_fail(status, SG_BAD_INPUT, "host time on machine %s: unknown class %d", m->name, host_class);
    *price = (sg_priced){0};
    /* a view's backward is a view made by the autograd engine: no dispatch of its own that the field reports would show */
    if (host_class == SG_HOST_VIEW_BACKWARD) return SG_OK;
    /* the allocator keeps what it has: a steady step takes no segment, so machines need not state what one costs */
    if (host_class == SG_HOST_SEGMENT && !(m->p[SG_M_HOST_SEGMENT_S].value > 0)) return SG_OK;
    sg_machine_id each = seconds_of(host_class), multiple = multiple_of(host_class);
    sg_code code = sg_price_need_for(m, each, "host time", status);
    if (!code && multiple < SG_M_COUNT) code = sg_price_need_for(m, multiple, "host time", status);
    if (code) return code;
    price->seconds = m->p[each].value;
    if (multiple < SG_M_COUNT) {
        price->seconds *= m->p[multiple].value;
        price->by_log[multiple] = price->seconds;
    }
    if (host_class != SG_HOST_SEGMENT) { /* the driver's time, which no single thread decides */
        code = sg_price_need_for(m, SG_M_HOST_SPEED, "host time", status);
        if (code) return code;
        price->seconds /= m->p[SG_M_HOST_SPEED].value;
        if (multiple < SG_M_COUNT) price->by_log[multiple] = price->seconds;
    }
    if (is_of_policy(host_class)) {
        price->seconds *= m->p[SG_M_HOST_KEPT].value;
        if (multiple < SG_M_COUNT) price->by_log[multiple] = price->seconds;
        price->by_log[SG_M_HOST_KEPT] = price->seconds;
    }
    price->by_log[each] = price->seconds;
    if (host_class != SG_HOST_SEGMENT) price->by_log[SG_M_HOST_SPEED] = -price->seconds;
    return SG_OK;
}

sg_code sg_price_copy(const sg_machine *m, sg_copy_kind kind, double bytes, sg_priced *price, sg_status *status) {
    sg_code code;
    if (kind == SG_COPY_ON_DEVICE) { /* read and written */
        code = sg_price_need_for(m, SG_M_EFF_COPY, "copying", status);
        if (!code) code = sg_price_need_for(m, SG_M_BANDWIDTH, "copying", status);
        if (!code) *price = sg_priced_rate(m, 2 * bytes, SG_M_EFF_COPY, SG_M_BANDWIDTH);
        return code;
    }
    code = sg_price_need_for(m, SG_M_COPY_BANDWIDTH, "copying between host and device", status);
    if (code) return code;
    *price = (sg_priced){.seconds = bytes / m->p[SG_M_COPY_BANDWIDTH].value};
    price->by_log[SG_M_COPY_BANDWIDTH] = -price->seconds;
    return SG_OK;
}
