/* price_collective.c: what a collective takes on a machine, by bus bandwidth and latency. */
#include "kernels/virtual/price.h"

/* Times that the bytes pass the bus: 2 for an all-reduce, 1 for its halves (nccl-tests, PERFORMANCE.md). */
static double passes_of(sg_collective_kind kind) {
    return kind == SG_ALL_REDUCE ? 2 : 1;
}

sg_code sg_price_collective(const sg_machine *m, sg_collective_kind kind, double bytes, int ranks, sg_priced *price,
                            sg_status *status) {
    *price = (sg_priced){0};
    if (ranks <= 1) return SG_OK;
    sg_code code = sg_price_need_for(m, SG_M_COLLECTIVE_BUSBW, "collectives", status);
    if (!code) code = sg_price_need_for(m, SG_M_COLLECTIVE_LATENCY_S, "collectives", status);
    if (code) return code;
    double wire = passes_of(kind) * bytes * (ranks - 1) / ranks / m->p[SG_M_COLLECTIVE_BUSBW].value;
    double start = m->p[SG_M_COLLECTIVE_LATENCY_S].value;
    price->seconds = wire + start;
    price->by_log[SG_M_COLLECTIVE_BUSBW] = -wire;
    price->by_log[SG_M_COLLECTIVE_LATENCY_S] = start;
    return SG_OK;
}
