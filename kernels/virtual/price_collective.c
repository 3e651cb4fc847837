/* price_collective.c: what a collective takes on a machine, by topology, number of ranks and bytes.
 *
 * In one node of m ranks, a ring moves passes (m - 1) / m of S bytes over each link (all-reduce 2 passes, its halves 1;
 * nccl-tests, PERFORMANCE.md), and every rank copies and adds what does not depend on m:
 *
 *   t = start + S (passes (m - 1) / m / busbw + passes / 2 / local) (S / 1 GiB)^(power - 1)
 *   start = latency + m rank_s passes / 2
 *
 * The power stands for what chunks in flight hide of each other: 0.97 on NVSwitch, 1.00 on the hybrid mesh of V100 servers;
 * beyond 1 GiB the rate is flat. This law over m holds on NVSwitch (seven numbers of ranks within 1.3 %); meshes differ by
 * the rings that fit, which by_ranks says. Where the switch adds, a rank sends S once and receives S / m more:
 * t = start + S (m + 1) / m / switch (H200: 304-311 GB/s for 5 to 8 GPUs, B200: 539-545 for 6 to 8; nccl-tests at 8 GiB,
 * ml-engineering network notes, 2026-08). NCCL's low-latency protocol serves small vectors at a low rate. The quickest is
 * taken, as NCCL's tuner does.
 *
 * Across nodes, rings pass through all adapters of a node, beside what happens inside: the longer of both times, smoothly
 * joined, and a start that grows with the depth of the tree over the nodes. */
#include <math.h>

#include "kernels/virtual/price.h"

static const double FULL_BYTES = 0x1p30;

const char *sg_topology_name(sg_topology topology) {
    static const char *const names[SG_TOPOLOGY_COUNT] = {"bus", "switch", "mesh", "pairs", "peer", "host"};
    return (unsigned)topology < SG_TOPOLOGY_COUNT ? names[topology] : "";
}

int sg_link_size(double bytes) {
    static const double below[SG_LINK_SIZES - 1] = {4 * 0x1p20, 16 * 0x1p20, 64 * 0x1p20, 256 * 0x1p20};
    int size = 0;
    while (size < SG_LINK_SIZES - 1 && bytes >= below[size]) size++;
    return size;
}

typedef struct question {
    const sg_machine *machine;
    sg_collective_kind kind;
    int ranks; /* of one node */
    double bytes, passes;
} question;

static double known(const sg_machine *m, sg_machine_id id) {
    double v = m->p[id].value;
    return isfinite(v) && v > 0 ? v : 0;
}

static void add_fixed(sg_priced *t, const sg_machine *m, sg_machine_id id, double times) {
    double seconds = times * known(m, id);
    t->seconds += seconds;
    t->by_log[id] += seconds;
}

static void add_rate(sg_priced *t, const sg_machine *m, sg_machine_id id, double bytes) {
    double rate = known(m, id);
    if (!(rate > 0)) return;
    t->seconds += bytes / rate;
    t->by_log[id] -= bytes / rate;
}

static void scale(sg_priced *t, double by) {
    t->seconds *= by;
    for (int i = SG_M_COLLECTIVE_BUSBW; i <= SG_M_NETWORK_LATENCY_S; i++) t->by_log[i] *= by; /* no others */
}

/* Factor (S / 1 GiB)^(power - 1), no less than a bandwidth of 1 GiB grants beyond it. */
static void shrink(sg_priced *t, const question *q, double more_power) {
    if (!(q->bytes > 0) || q->bytes >= FULL_BYTES) return;
    double power = known(q->machine, SG_M_COLLECTIVE_POWER), size = log(q->bytes / FULL_BYTES);
    if (!(power > 0)) power = 1;
    scale(t, exp((power + more_power - 1) * size));
    if (known(q->machine, SG_M_COLLECTIVE_POWER) > 0) t->by_log[SG_M_COLLECTIVE_POWER] += t->seconds * size * power;
}

static sg_priced start_of(const question *q) {
    sg_priced t = {0};
    add_fixed(&t, q->machine, SG_M_COLLECTIVE_LATENCY_S, 1);
    add_fixed(&t, q->machine, SG_M_COLLECTIVE_RANK_S, q->ranks * q->passes / 2);
    if (q->ranks <= SG_LINK_RANKS) scale(&t, q->machine->link.by_ranks[q->ranks].start);
    return t;
}

/* Time per byte times bytes, without the start. */
static sg_priced ring(const question *q) {
    const sg_link *link = &q->machine->link;
    bool paired = link->topology == SG_TOPOLOGY_PAIRS && q->ranks == 2 && known(q->machine, SG_M_COLLECTIVE_PAIR) > 0;
    double share = (q->ranks - 1.0) / q->ranks, more_power = 0;
    sg_priced t = {0};
    add_rate(&t, q->machine, paired ? SG_M_COLLECTIVE_PAIR : SG_M_COLLECTIVE_BUSBW, q->passes * share * q->bytes);
    add_rate(&t, q->machine, SG_M_COLLECTIVE_LOCAL, q->passes / 2 * q->bytes);
    if (q->ranks <= SG_LINK_RANKS) {
        scale(&t, link->by_ranks[q->ranks].time);
        more_power = link->by_ranks[q->ranks].power;
    }
    shrink(&t, q, more_power);
    return t;
}

static bool switch_adds(const question *q) {
    int least = q->machine->link.switch_ranks;
    return q->kind == SG_ALL_REDUCE && least > 0 && q->ranks >= least && known(q->machine, SG_M_COLLECTIVE_SWITCH) > 0;
}

/* Bytes beyond the start, in one node. */
static sg_priced body(const question *q) {
    sg_priced t = ring(q);
    if (!switch_adds(q)) return t;
    sg_priced in_switch = {0};
    add_rate(&in_switch, q->machine, SG_M_COLLECTIVE_SWITCH, (q->ranks + 1.0) / q->ranks * q->bytes);
    shrink(&in_switch, q, 0);
    return in_switch.seconds < t.seconds ? in_switch : t;
}

static sg_priced in_node(const question *q) {
    sg_priced start = start_of(q), bytes = body(q), t = sg_priced_sum(&start, &bytes);
    if (!(known(q->machine, SG_M_COLLECTIVE_SMALL) > 0)) return t;
    sg_priced small = {0};
    add_fixed(&small, q->machine, SG_M_COLLECTIVE_SMALL_S, 1);
    add_rate(&small, q->machine, SG_M_COLLECTIVE_SMALL, q->passes * (q->ranks - 1.0) / q->ranks * q->bytes);
    return small.seconds < t.seconds ? small : t;
}

static sg_priced across_nodes(const question *q, int ranks, int per_node) {
    int nodes = (ranks + per_node - 1) / per_node;
    sg_priced t = {0};
    if (per_node > 1)
        t = start_of(q);
    else
        add_fixed(&t, q->machine, SG_M_COLLECTIVE_LATENCY_S, 1);
    add_fixed(&t, q->machine, SG_M_NETWORK_LATENCY_S, log2(nodes) * q->passes / 2);
    sg_priced inside = {0}, outside = {0};
    if (per_node > 1) inside = body(q);
    double wire = q->passes * (ranks - 1.0) / ranks * q->bytes;
    add_rate(&outside, q->machine, known(q->machine, SG_M_NETWORK) > 0 ? SG_M_NETWORK : SG_M_COLLECTIVE_BUSBW, wire);
    sg_priced bytes = sg_priced_join(&inside, &outside);
    return sg_priced_sum(&t, &bytes);
}

static sg_priced time_of(const sg_machine *machine, sg_collective_kind kind, int ranks, double bytes) {
    int per_node = machine->link.gpus_per_node;
    bool several = per_node > 0 && ranks > per_node;
    question q = {machine, kind, several ? per_node : ranks, bytes, kind == SG_ALL_REDUCE ? 2 : 1};
    return several ? across_nodes(&q, ranks, per_node) : in_node(&q);
}

sg_code sg_price_collective(const sg_machine *m, sg_collective_kind kind, double bytes, int ranks, sg_priced *price,
                            sg_status *status) {
    *price = (sg_priced){0};
    if (ranks <= 1) return SG_OK;
    sg_code code = sg_price_need_for(m, SG_M_COLLECTIVE_BUSBW, "collectives", status);
    if (!code) code = sg_price_need_for(m, SG_M_COLLECTIVE_LATENCY_S, "collectives", status);
    if (!code) *price = time_of(m, kind, ranks, bytes > 0 ? bytes : 0);
    return code;
}
