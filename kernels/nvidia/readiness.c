#include "kernels/nvidia/readiness.h"
#include "kernels/nvidia/driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct list {
    const sg_gpu_state *g;
    sg_gpu_finding *at;
    int n;
} list;

__attribute__((format(printf, 4, 5))) static void find(list *l, sg_gpu_severity severity, const char *what,
                                                       const char *format, ...) {
    if (l->n == SG_GPU_FINDINGS_MAX) return;
    sg_gpu_finding *f = &l->at[l->n++];
    f->severity = severity;
    f->what = what;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
}

const char *sg_gpu_severity_name(sg_gpu_severity severity) {
    return severity == SG_GPU_BLOCKS ? "blocks" : severity == SG_GPU_WARNING ? "warning" : "note";
}

static void capability(list *l) {
    const sg_gpu_state *g = l->g;
    if (g->capability > 0 && g->capability < SG_CAPABILITY_LEAST)
        find(l, SG_GPU_BLOCKS, "capability",
             "compute capability %d.%d: CUDA 13 has no code for GPUs before 7.5 (V100, P100, P4 and older): it is "
             "predicted only ('predict --machine NAME'), not measured",
             g->capability / 10, g->capability % 10);
    else if (g->capability > SG_CAPABILITY_COMPILED)
        find(l, SG_GPU_NOTE, "capability",
             "compute capability %d.%d is newer than the code in this program (%d.%d): the driver compiles it at the "
             "first "
             "start, which takes a minute",
             g->capability / 10, g->capability % 10, SG_CAPABILITY_COMPILED / 10, SG_CAPABILITY_COMPILED % 10);
}

static void memory_health(list *l) {
    const sg_gpu_state *g = l->g;
    if (g->rows_failed == 1)
        find(l, SG_GPU_BLOCKS, "ecc",
             "broken memory rows could not be replaced: this GPU has to be replaced; take another one meanwhile");
    if (g->rows_pending == 1)
        find(l, SG_GPU_WARNING, "ecc",
             "memory rows wait to be replaced: reset the GPU ('sudo nvidia-smi -r -i %d') or reboot", g->index);
    if (g->ecc_uncorrected > 0)
        find(l, SG_GPU_WARNING, "ecc",
             "%lld uncorrected memory (ECC) errors since the driver was loaded: results may be wrong; reset the GPU "
             "('sudo nvidia-smi -r -i %d') and have it replaced if the number grows",
             (long long)g->ecc_uncorrected, g->index);
    else if (g->ecc_uncorrected_ever > 0)
        find(l, SG_GPU_NOTE, "ecc",
             "%lld uncorrected memory (ECC) errors over its life, none since the driver was loaded",
             (long long)g->ecc_uncorrected_ever);
}

static void name_processes(const sg_gpu_state *g, char *text, size_t bytes) {
    enum { SHOWN = 6 };
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < g->n_processes && i < SHOWN; i++) {
        int n = snprintf(text + used, bytes - used, "%spid %u (%.0f MiB)", used ? ", " : "", g->processes[i].pid,
                         (double)g->processes[i].bytes / 0x1p20);
        if (n < 0 || (size_t)n >= bytes - used) return;
        used += (size_t)n;
    }
    if (g->n_processes > SHOWN) (void)snprintf(text + used, bytes - used, " and %d more", g->n_processes - SHOWN);
}

static void use(list *l) {
    const sg_gpu_state *g = l->g;
    char names[256];
    name_processes(g, names, sizeof names);
    bool others = g->n_processes > 0;
    if (g->compute_mode == SG_GPU_COMPUTE_PROHIBITED)
        find(l, SG_GPU_BLOCKS, "compute_mode", "computing is prohibited on it: 'sudo nvidia-smi -i %d -c DEFAULT'",
             g->index);
    else if (g->compute_mode > SG_GPU_COMPUTE_SHARED)
        find(l, others ? SG_GPU_BLOCKS : SG_GPU_NOTE, "compute_mode",
             "exclusive compute mode: one process at a time may use it%s: 'sudo nvidia-smi -i %d -c DEFAULT'",
             others ? ", and one does" : "; that is enough for one rank per GPU", g->index);
    if (others)
        find(l, SG_GPU_WARNING, "busy",
             "in use by %s: times will be too long and memory is short; wait for them or choose another GPU with "
             "CUDA_VISIBLE_DEVICES",
             names);
    else if (g->busy_percent > 10)
        find(l, SG_GPU_WARNING, "busy",
             "%d %% busy with processes that are not shown here (another container or user): times will be too long",
             g->busy_percent);
    else if (g->total_bytes && (double)g->free_bytes < 0.9 * (double)g->total_bytes)
        find(l, SG_GPU_WARNING, "memory",
             "only %.1f of %.1f GiB are free although no process is shown: a screen, another container or a process "
             "that "
             "hangs ('sudo fuser -v /dev/nvidia%d') holds the rest",
             (double)g->free_bytes / 0x1p30, (double)g->total_bytes / 0x1p30, g->index);
    if (g->mig == 1)
        find(
            l, SG_GPU_WARNING, "mig",
            "MIG is on: only an instance of it can be used, one per process (CUDA_VISIBLE_DEVICES=MIG-..., 'nvidia-smi "
            "-L'), and several do not train together; turn it off with 'sudo nvidia-smi -i %d -mig 0'",
            g->index);
}

static void clocks(list *l) {
    const sg_gpu_state *g = l->g;
    uint64_t reasons = g->now.reasons;
    if (reasons & (SG_GPU_THERMAL_SOFTWARE | SG_GPU_THERMAL_HARDWARE))
        find(l, SG_GPU_WARNING, "thermal",
             "throttled for heat now, at %.0f C: check fans, dust and the air around it, or lower the power limit",
             g->now.temperature_c);
    if (reasons & SG_GPU_POWER_BRAKE)
        find(l, SG_GPU_WARNING, "power_brake",
             "its power brake is on: the power supply or the server's power limit is exhausted; check cables and "
             "supply");
    else if ((reasons & SG_GPU_HARDWARE_SLOWDOWN) && !(reasons & SG_GPU_THERMAL_HARDWARE))
        find(l, SG_GPU_WARNING, "slowdown",
             "slowed down by its hardware (heat, power brake or a sudden load): check cooling and power supply");
    if (g->power_limit_w > 0 && g->power_default_w > 0 && g->power_limit_w < 0.99 * g->power_default_w)
        find(l, SG_GPU_WARNING, "power_limit",
             "power is limited to %.0f W, %.0f W are the maker's: it will be slower; 'sudo nvidia-smi -i %d -pl %.0f'",
             g->power_limit_w, g->power_default_w, g->index, g->power_default_w);
    if (reasons & SG_GPU_APPLICATION_CLOCKS)
        find(l, SG_GPU_WARNING, "clocks",
             "its clocks are held at a setting: 'sudo nvidia-smi -i %d -rac' (and -rgc) frees them", g->index);
}

/* An idle link goes down to its lowest generation by itself; its width does not change. */
static void pcie(list *l) {
    const sg_gpu_state *g = l->g;
    const sg_gpu_sample *s = &g->now;
    if (s->pcie_width > 0 && s->pcie_width < g->pcie_max_width)
        find(l, SG_GPU_WARNING, "pcie_width",
             "PCIe runs with %d of %d lanes: copies are slower; seat the card again, or use the slot next to the "
             "processor",
             s->pcie_width, g->pcie_max_width);
    if (s->pcie_generation > 0 && s->pcie_generation < g->pcie_max_generation && g->performance_state == 0 &&
        g->busy_percent > 10)
        find(l, SG_GPU_WARNING, "pcie_generation",
             "PCIe runs at generation %d of %d although the GPU works: check the riser and the slot's setting in the "
             "firmware",
             s->pcie_generation, g->pcie_max_generation);
    if (g->pcie_max_generation > 0 && g->pcie_max_generation < g->pcie_gpu_generation)
        find(l, SG_GPU_NOTE, "pcie_slot",
             "the slot reaches PCIe generation %d, the GPU %d: copies run at the slot's speed", g->pcie_max_generation,
             g->pcie_gpu_generation);
}

int sg_gpu_findings(const sg_gpu_state *gpu, sg_gpu_finding findings[SG_GPU_FINDINGS_MAX]) {
    list l = {gpu, findings, 0};
    if (gpu->now.lost) {
        find(&l, SG_GPU_BLOCKS, "lost",
             "it fell off the bus: restart the machine; if it happens again, check power supply, cooling and slot "
             "('dmesg | grep -i xid')");
        return l.n;
    }
    capability(&l);
    memory_health(&l);
    use(&l);
    clocks(&l);
    pcie(&l);
    if (gpu->persistence == 0)
        find(&l, SG_GPU_NOTE, "persistence",
             "persistence mode is off: each first start takes some seconds more; 'sudo nvidia-smi -i %d -pm 1'",
             gpu->index);
    return l.n;
}
