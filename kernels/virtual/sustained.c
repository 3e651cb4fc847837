/* sustained.c: the rate of products that a board's power sustains. */
#include <math.h>

#include "kernels/virtual/product.h"

/* How sharply the smaller of the two limits decides (kernel tables of 8 GPUs: 4 to 10 do equally well). */
static const double LIMIT_POWER = 6;

/* Compute capability from which chips are made in 4-5 nm (8.9: Ada), in 7-8 nm (8.0: Ampere), and from which (8.6) an SM of
 * 128 lanes feeds its second half from the issue slots of its integer units. */
enum { CAPABILITY_5NM = 89, CAPABILITY_7NM = 80, CAPABILITY_SHARED_ISSUE = 86 };

static bool is_tensor(sg_compute compute) {
    return compute != SG_COMPUTE_F32;
}

/* Joules per FLOP; tf32 moves twice the bytes of bf16 per FLOP. 0: unknown. */
static double energy_of(const sg_machine *m, sg_compute compute, sg_machine_id *id, bool *gains) {
    *id = is_tensor(compute) ? SG_M_TENSOR_FLOP_ENERGY_J : SG_M_FLOP_ENERGY_J;
    *gains = m->capability >= (is_tensor(compute) ? CAPABILITY_7NM : CAPABILITY_5NM);
    double energy = m->p[*id].value;
    if (compute == SG_COMPUTE_TF32) energy *= 2;
    if (*gains) energy /= m->p[SG_M_NODE_GAIN].value;
    return isfinite(energy) ? energy : 0;
}

double sg_sustained_peak(const sg_machine *m, sg_compute compute, sg_priced *by_log) {
    sg_machine_id peak_id = sg_machine_peak_of(compute), energy_id;
    double peak = m->p[peak_id].value;
    bool shares = compute == SG_COMPUTE_F32 && m->fp32_lanes == 128 && m->capability >= CAPABILITY_SHARED_ISSUE &&
                  isfinite(m->p[SG_M_LANE_SHARE].value);
    if (shares) peak *= m->p[SG_M_LANE_SHARE].value;
    bool gains;
    double energy = energy_of(m, compute, &energy_id, &gains), of_peak = 1, sustained = peak;
    if (m->board_w > 0 && energy > 0) {
        double ratio = pow(peak * energy / m->board_w, LIMIT_POWER);
        of_peak = 1 / (1 + ratio);
        sustained = peak * pow(of_peak, 1 / LIMIT_POWER);
    }
    if (by_log) {
        by_log->by_log[peak_id] += of_peak;
        if (shares) by_log->by_log[SG_M_LANE_SHARE] += of_peak;
        if (of_peak < 1) {
            by_log->by_log[energy_id] -= 1 - of_peak;
            if (gains) by_log->by_log[SG_M_NODE_GAIN] += 1 - of_peak;
        }
    }
    return sustained;
}
