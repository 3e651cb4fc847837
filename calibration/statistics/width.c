#include "calibration/statistics/width.h"

#include <gsl/gsl_cdf.h>
#include <math.h>

const char *sg_limit_name(sg_limit limit) {
    static const char *const names[SG_LIMIT_COUNT] = {"compute", "memory bandwidth", "launch",
                                                      "loader",  "communication",    "environment"};
    return (unsigned)limit < SG_LIMIT_COUNT ? names[limit] : "";
}

double sg_width(sg_limit limit, sg_evidence evidence) {
    /* observed, measured, calibrated, data sheet. Compute, bandwidth and launch: two-clock walks against 16 published
     * training logs on 8 GPU models left-out log sd 0.15 in all, of which the parameters' own doubt makes the rest; two
     * measured batches and a third by a line 0.02-0.04; one batch measured and scaled 0.06; same GPU and policy on
     * another host 0.10. Loader: frames per second and worker scatter by 0.6 between machines, which is in frame_s.
     * Environment: same simulator on another GPU 0.35. Communication: exposed time of published data-parallel rows. */
    static const double log_sd[SG_LIMIT_COUNT][SG_EVIDENCE_COUNT] = {
        [SG_LIMIT_COMPUTE] = {0.02, 0.03, 0.06, 0.08},       [SG_LIMIT_BANDWIDTH] = {0.02, 0.03, 0.06, 0.08},
        [SG_LIMIT_LAUNCH] = {0.02, 0.04, 0.08, 0.10},        [SG_LIMIT_LOADER] = {0.05, 0.10, 0.15, 0.20},
        [SG_LIMIT_COMMUNICATION] = {0.03, 0.05, 0.12, 0.20}, [SG_LIMIT_ENVIRONMENT] = {0.05, 0.10, 0.25, 0.35},
    };
    return log_sd[limit][evidence];
}

double sg_width_of_collective(const sg_machine *machine, double bytes) {
    /* Measured servers: what their fits leave (link.spread). Elsewhere: the same 25 MiB took 0.78 to 1.1 of the time on three
     * servers of eight A100 each, and 0.95 to 1.05 at 1 GiB (published nccl-tests logs of 2024 and 2026). */
    static const double elsewhere[SG_LINK_SIZES] = {0.35, 0.25, 0.15, 0.12, 0.06};
    int size = sg_link_size(bytes);
    double spread = machine->link.spread[size];
    return spread > 0 ? spread / gsl_cdf_tdist_Pinv(0.95, 4) : elsewhere[size];
}

static sg_limit limit_of(int id) {
    switch (id) {
    case SG_M_BANDWIDTH:
    case SG_M_LAYER_NORM_ROW_S:
    case SG_M_SOFTMAX_ROW_S:
    case SG_M_COPY_BANDWIDTH: return SG_LIMIT_BANDWIDTH;
    case SG_M_PEAK_F32:
    case SG_M_PEAK_TF32:
    case SG_M_PEAK_BF16:
    case SG_M_PEAK_F16: return SG_LIMIT_COMPUTE;
    case SG_M_KERNEL_START_S:
    case SG_M_KERNEL_FLOOR_S:
    case SG_M_HOST_OP_S: /* its multiples scale the same time */
    case SG_M_HOST_OPTIMIZER_S:
    case SG_M_HOST_SYNC_S: return SG_LIMIT_LAUNCH;
    case SG_M_COLLECTIVE_BUSBW:
    case SG_M_COLLECTIVE_LATENCY_S:
    case SG_M_COLLECTIVE_RANK_S:
    case SG_M_COLLECTIVE_LOCAL:
    case SG_M_COLLECTIVE_SWITCH:
    case SG_M_COLLECTIVE_SMALL_S:
    case SG_M_COLLECTIVE_SMALL:
    case SG_M_COLLECTIVE_PAIR:
    case SG_M_NETWORK:
    case SG_M_NETWORK_LATENCY_S: return SG_LIMIT_COMMUNICATION;
    case SG_M_FRAME_S:
    case SG_M_SAMPLE_S:
    case SG_M_LOADER_SIGMA:
    case SG_M_LOADER_KAPPA:
    case SG_M_HANDOVER_S:
    case SG_M_HANDOVER_BANDWIDTH:
    case SG_M_LOADER_TORCHCODEC:
    case SG_M_LOADER_TORCHCODEC_S:
    case SG_M_LOADER_PYAV:
    case SG_M_LOADER_PYAV_S:
    case SG_M_LOADER_IMAGE:
    case SG_M_LOADER_PYTHON_S:
    case SG_M_LOADER_ROW_S:
    case SG_M_LOADER_COLLATION:
    case SG_M_LOADER_TAKE_S:
    case SG_M_LOADER_TAKE_BANDWIDTH: return SG_LIMIT_LOADER;
    case SG_M_ENV_STEP_S: return SG_LIMIT_ENVIRONMENT;
    default: return SG_LIMIT_COUNT;
    }
}

void sg_limit_shares(const double *by_log, double seconds, double *share) {
    for (int l = 0; l < SG_LIMIT_COUNT; l++) share[l] = 0;
    for (int i = 0; i < SG_M_COUNT; i++) {
        sg_limit l = limit_of(i);
        /* a rate's derivative is minus the time spent at that rate */
        if (l < SG_LIMIT_COUNT && seconds > 0) share[l] += fabs(by_log[i]) / seconds;
    }
}

sg_limit sg_limit_largest(const double *share) {
    int largest = 0;
    for (int l = 1; l < SG_LIMIT_COUNT; l++)
        if (share[l] > share[largest]) largest = l;
    return (sg_limit)largest;
}

sg_evidence sg_evidence_of(const sg_machine *machine, const double *by_log, double seconds) {
    double share[SG_EVIDENCE_COUNT] = {0};
    for (int i = 0; i < SG_M_COUNT; i++) {
        if (!(seconds > 0) || machine->p[i].evidence >= SG_EVIDENCE_COUNT) continue;
        /* an exact factor of one says nothing about where the time is from */
        if (machine->p[i].log_sd == 0 && machine->p[i].value == 1) continue;
        share[machine->p[i].evidence] += fabs(by_log[i]) / seconds;
    }
    double sum = 0;
    for (int e = SG_EVIDENCE_COUNT - 1; e > 0; e--) {
        sum += share[e];
        if (sum >= 0.10) return (sg_evidence)e;
    }
    return SG_EVIDENCE_OBSERVED;
}
