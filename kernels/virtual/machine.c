#include "kernels/virtual/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *sg_evidence_name(sg_evidence evidence) {
    static const char *const names[SG_EVIDENCE_COUNT] = {"observed", "measured", "calibrated", "data sheet"};
    return (unsigned)evidence < SG_EVIDENCE_COUNT ? names[evidence] : "unknown";
}

const char *sg_tile_kind_name(sg_tile_kind kind) {
    static const char *const names[SG_TILE_KIND_COUNT] = {"linear", "batched"};
    return (unsigned)kind < SG_TILE_KIND_COUNT ? names[kind] : "unknown";
}

void sg_machine_init(sg_machine *machine) {
    memset(machine, 0, sizeof *machine);
    for (int i = 0; i < SG_M_COUNT; i++) {
        machine->p[i].value = NAN;
        machine->p[i].evidence = SG_EVIDENCE_DATA_SHEET;
    }
    for (int c = 0; c < SG_CLASS_COUNT; c++) machine->p[sg_machine_factor_of((sg_op_class)c)].value = 1;
    machine->p[SG_M_FACTOR_LOW_PRECISION].value = 1;
    machine->p[SG_M_FUSED_BYTES].value = machine->p[SG_M_HOST_KEPT].value = machine->p[SG_M_HOST_SPEED].value = 1;
    memcpy(machine->p[SG_M_HOST_SPEED].source, "assumed: the usual host", sizeof "assumed: the usual host");
    machine->p[SG_M_STEP_STRETCH].value = 1;
    for (int n = 0; n <= SG_LINK_RANKS; n++) machine->link.by_ranks[n].start = machine->link.by_ranks[n].time = 1;
}

void sg_machine_clear(sg_machine *machine) {
    free(machine->covariance);
    machine->covariance = NULL;
    sg_measured_release(machine->measured);
    machine->measured = NULL;
}

sg_code sg_machine_covariance_make(sg_machine *machine, sg_status *status) {
    if (machine->covariance) return SG_OK;
    machine->covariance = calloc((size_t)SG_M_COUNT * SG_M_COUNT, sizeof(double));
    if (!machine->covariance)
        return sg_fail_memory(status, (size_t)SG_M_COUNT * SG_M_COUNT * sizeof(double), "a covariance");
    for (int i = 0; i < SG_M_COUNT; i++)
        for (int j = 0; j < SG_M_COUNT; j++) {
            const sg_machine_parameter *a = &machine->p[i], *b = &machine->p[j];
            if (i == j || (a->group && a->group == b->group))
                machine->covariance[i * SG_M_COUNT + j] = a->log_sd * b->log_sd;
        }
    return SG_OK;
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

double sg_machine_log_variance(const sg_machine *machine, const double *by_log, double value) {
    if (!(value > 0)) return 0;
    double variance = 0;
    if (machine->covariance) {
        int id[SG_M_COUNT], n = 0; /* a duration depends on few of them */
        for (int i = 0; i < SG_M_COUNT; i++)
            if (by_log[i] != 0) id[n++] = i;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                variance += by_log[id[i]] * by_log[id[j]] * machine->covariance[id[i] * SG_M_COUNT + id[j]];
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
    double speed = m->p[SG_M_HOST_SPEED].value;
    if (!(speed > 0))
        return sg_fail(status, SG_NO, "machine %s states no %s, which host time needs", m->name,
                       sg_machine_key(SG_M_HOST_SPEED));
    double call_s = m->p[SG_M_HOST_OP_S].value / speed, op_s = call_s * m->p[SG_M_HOST_KEPT].value;
    host_s[SG_HOST_OP_FORWARD] = op_s;
    host_s[SG_HOST_OP_BACKWARD] = op_s * m->p[SG_M_HOST_BACKWARD].value;
    host_s[SG_HOST_VIEW_FORWARD] = op_s * m->p[SG_M_HOST_VIEW].value;
    host_s[SG_HOST_VIEW_BACKWARD] = 0; /* made by the autograd engine: see sg_virtual_host_work */
    host_s[SG_HOST_OPTIMIZER] = call_s * m->p[SG_M_HOST_OPTIMIZER_OPS].value;
    host_s[SG_HOST_SYNC] = m->p[SG_M_HOST_SYNC_S].value / speed;
    host_s[SG_HOST_SEGMENT] = 0; /* a device that executes spends it itself */
    host_s[SG_HOST_CLASS_COUNT] = m->p[SG_M_HOST_OPTIMIZER_S].value / speed;
    return SG_OK;
}
