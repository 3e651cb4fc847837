/* nvml_links.c: which GPU is at a PCI address, how two are connected, and reasons in words. */
#include "kernels/nvidia/nvml_internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* PCI addresses are written with four or eight digits of domain. */
static const char *after_zeros(const char *bus) {
    const char *colon = strchr(bus, ':');
    while (*bus == '0' && colon && bus < colon - 1) bus++;
    return bus;
}

static bool same_bus(const char *a, const char *b) {
    return *a && *b && strcasecmp(after_zeros(a), after_zeros(b)) == 0;
}

static bool bus_of(sg_nvml_question *q, char bus[32]) {
    nvml_pci_info pci = {0};
    if (!q->n->pci || !sg_nvml_answered(q, q->n->pci(q->device, &pci))) return false;
    sg_nvml_clean(pci.bus_id, sizeof pci.bus_id);
    memcpy(bus, pci.bus_id, 32);
    return true;
}

int sg_nvml_find(sg_nvml *n, const char *bus) {
    char other[32];
    for (int i = 0; bus && i < n->count; i++) {
        sg_nvml_question q;
        if (sg_nvml_ask_about(n, i, &q) && bus_of(&q, other) && same_bus(bus, other)) return i;
    }
    return -1;
}

/* Active links that end at `bus`, and those that end at a switch. */
static void links_to(sg_nvml_question *q, const char *bus, int *direct, int *switched) {
    *direct = *switched = 0;
    for (unsigned i = 0; q->n->link_remote && i < NVML_NVLINKS_MAX; i++) {
        nvml_pci_info remote = {0};
        if (!sg_nvml_link_active(q, i) || !sg_nvml_answered(q, q->n->link_remote(q->device, i, &remote))) continue;
        sg_nvml_clean(remote.bus_id, sizeof remote.bus_id);
        int kind = NVML_LINK_TO_GPU;
        if (same_bus(bus, remote.bus_id))
            (*direct)++;
        else if (q->n->link_kind && sg_nvml_answered(q, q->n->link_kind(q->device, i, &kind)) &&
                 kind == NVML_LINK_TO_SWITCH)
            (*switched)++;
    }
}

/* NVLinks that lead from one to the other, directly or through switches (which connect each with each). */
static int links_between(sg_nvml_question *a, sg_nvml_question *b) {
    char bus_a[32], bus_b[32];
    if (!bus_of(a, bus_a) || !bus_of(b, bus_b)) return 0;
    int direct, switched, direct_back, switched_back;
    links_to(a, bus_b, &direct, &switched);
    if (direct) return direct;
    links_to(b, bus_a, &direct_back, &switched_back);
    return switched < switched_back ? switched : switched_back;
}

void sg_nvml_connection(sg_nvml *n, int a, int b, char connection[8]) {
    sg_nvml_question qa, qb;
    int level = -1;
    (void)snprintf(connection, 8, "%s", a == b ? "X" : "?");
    if (a == b || !sg_nvml_ask_about(n, a, &qa) || !sg_nvml_ask_about(n, b, &qb)) return;
    int links = links_between(&qa, &qb);
    if (links > 0) {
        (void)snprintf(connection, 8, "NV%d", links % 100);
        return;
    }
    if (!n->ancestor || !sg_nvml_answered(&qa, n->ancestor(qa.device, qb.device, &level)) || level < 0 || level > 50)
        return;
    static const char *const names[] = {"PIX", "PIX", "PXB", "PHB", "NODE", "SYS"}; /* levels 0, 10 ... 50 */
    (void)snprintf(connection, 8, "%s", names[level / 10]);
}

void sg_gpu_reasons_text(uint64_t reasons, char *to, size_t bytes) {
    static const struct {
        uint64_t bit;
        const char *words;
    } table[] = {
        {SG_GPU_APPLICATION_CLOCKS, "application clocks"},
        {SG_GPU_POWER_CAP, "power cap"},
        {SG_GPU_HARDWARE_SLOWDOWN, "hardware slowdown"},
        {SG_GPU_SYNC_BOOST, "sync boost"},
        {SG_GPU_THERMAL_SOFTWARE, "thermal (software)"},
        {SG_GPU_THERMAL_HARDWARE, "thermal (hardware)"},
        {SG_GPU_POWER_BRAKE, "power brake"},
        {SG_GPU_DISPLAY_CLOCKS, "display clocks"},
    };
    size_t used = 0;
    if (bytes) to[0] = '\0';
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (!(reasons & table[i].bit)) continue;
        int n = snprintf(to + used, bytes - used, "%s%s", used ? ", " : "", table[i].words);
        if (n < 0 || (size_t)n >= bytes - used) return;
        used += (size_t)n;
    }
}
