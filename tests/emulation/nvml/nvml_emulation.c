/* An NVML for tests: libnvidia-ml.so.1 that answers what $SG_NVML_EMULATION says, read anew at each nvmlInit.
 *
 * The text is a list of key=value separated by ';'. Keys before the first "gpu": driver, cuda, count (instead of the number
 * of GPUs), init (code that nvmlInit returns), fail=FUNCTION:CODE (may be repeated), lost_after=CALLS (every GPU is lost
 * after that many calls about a GPU). "gpu" starts a GPU; its keys are in GPU_KEYS, and name, uuid, bus, process=PID:MIB
 * (repeated), link=BUS:COUNT (NVLinks to it), switch=COUNT (NVLinks to a switch). A GPU starts as a healthy H100.
 *
 * Built with EMULATE_OLD_DRIVER it lacks the symbols of newer drivers, and has older ones of the same meaning. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/nvidia/nvml_api.h"

#define EXPORT __attribute__((visibility("default")))

/* The layouts of the public headers, x86-64. */
_Static_assert(sizeof(nvml_pci_info) == 68 && offsetof(nvml_pci_info, bus_id) == 36, "nvmlPciInfo_t");
_Static_assert(sizeof(nvml_process) == 24 && sizeof(nvml_process_v1) == 16, "nvmlProcessInfo_t");
_Static_assert(sizeof(nvml_memory) == 24 && sizeof(nvml_utilization) == 8, "nvmlMemory_t, nvmlUtilization_t");
_Static_assert(NVML_TEMPERATURE_VERSION == 0x100000C, "nvmlTemperature_v1");

enum { GPUS = 16, PROCESSES = 256, FAILS = 16, LINKS = 4 };

struct nvml_device_opaque {
    char name[96], uuid[96], bus[32];
    long long capability, total, used, sm, sm_max, memory_clock, memory_max, temperature, power, limit, power_default;
    long long reasons, busy, pstate, ecc, ecc_errors, ecc_ever, rows_pending, rows_failed, mig, persistence,
        compute_mode;
    long long generation, width, max_generation, max_width, gpu_generation, level, lost, unterminated, processes_told;
    int n_processes, n_links, switched;
    unsigned pid[PROCESSES];
    unsigned long long process_bytes[PROCESSES];
    char link_bus[LINKS][32];
    int link_count[LINKS];
};

typedef struct nvml_device_opaque gpu;

static const struct {
    const char *key;
    size_t offset;
} GPU_KEYS[] = {
#define KEY(member)                                                                                                    \
    { #member, offsetof(gpu, member) }
    KEY(capability),     KEY(total),          KEY(used),         KEY(sm),          KEY(sm_max),
    KEY(memory_clock),   KEY(memory_max),     KEY(temperature),  KEY(power),       KEY(limit),
    KEY(power_default),  KEY(reasons),        KEY(busy),         KEY(pstate),      KEY(ecc),
    KEY(ecc_errors),     KEY(ecc_ever),       KEY(rows_pending), KEY(rows_failed), KEY(mig),
    KEY(persistence),    KEY(compute_mode),   KEY(generation),   KEY(width),       KEY(max_generation),
    KEY(max_width),      KEY(gpu_generation), KEY(level),        KEY(lost),        KEY(unterminated),
    KEY(processes_told),
#undef KEY
};

static struct {
    char driver[80];
    int cuda, init, n_fails;
    long long count, lost_after;
    struct {
        char function[64];
        int code;
    } fail[FAILS];
    gpu gpus[GPUS];
    int n;
    bool started;
} world;

static long long calls;

static void new_gpu(void) {
    if (world.n == GPUS) abort();
    gpu *g = &world.gpus[world.n];
    *g = (gpu){.name = "NVIDIA H100 80GB HBM3",
               .capability = 90,
               .total = 81559,
               .used = 500,
               .sm = 1980,
               .sm_max = 1980,
               .memory_clock = 2619,
               .memory_max = 2619,
               .temperature = 40,
               .power = 80,
               .limit = 700,
               .power_default = 700,
               .pstate = 0,
               .ecc = 1,
               .persistence = 1,
               .generation = 5,
               .width = 16,
               .max_generation = 5,
               .max_width = 16,
               .gpu_generation = 5,
               .level = 50,
               .processes_told = -1};
    (void)snprintf(g->uuid, sizeof g->uuid, "GPU-%08x-0000-0000-0000-000000000000", 0xabc0 + world.n);
    (void)snprintf(g->bus, sizeof g->bus, "00000000:%02X:00.0", 0x3B + world.n);
    world.n++;
}

static void set_gpu(gpu *g, const char *key, const char *value) {
    const char *colon = strrchr(value, ':');
    if (strcmp(key, "name") == 0)
        (void)snprintf(g->name, sizeof g->name, "%s", value);
    else if (strcmp(key, "uuid") == 0)
        (void)snprintf(g->uuid, sizeof g->uuid, "%s", value);
    else if (strcmp(key, "bus") == 0)
        (void)snprintf(g->bus, sizeof g->bus, "%s", value);
    else if (strcmp(key, "switch") == 0)
        g->switched = (int)strtol(value, NULL, 0);
    else if (strcmp(key, "process") == 0 && g->n_processes < PROCESSES) {
        g->pid[g->n_processes] = (unsigned)strtoul(value, NULL, 0);
        g->process_bytes[g->n_processes++] = colon ? strtoull(colon + 1, NULL, 0) << 20 : NVML_VALUE_NOT_AVAILABLE;
    } else if (strcmp(key, "link") == 0 && g->n_links < LINKS && colon) {
        (void)snprintf(g->link_bus[g->n_links], 32, "%.*s", (int)(colon - value), value);
        g->link_count[g->n_links++] = (int)strtol(colon + 1, NULL, 0);
    } else {
        for (size_t i = 0; i < sizeof GPU_KEYS / sizeof GPU_KEYS[0]; i++)
            if (strcmp(key, GPU_KEYS[i].key) == 0) {
                long long number = strtoll(value, NULL, 0);
                memcpy((char *)g + GPU_KEYS[i].offset, &number, sizeof number);
                return;
            }
        (void)fprintf(stderr, "nvml emulation: unknown key '%s'\n", key);
        abort();
    }
}

static void set_world(const char *key, const char *value) {
    const char *colon = strchr(value, ':');
    if (strcmp(key, "driver") == 0)
        (void)snprintf(world.driver, sizeof world.driver, "%s", value);
    else if (strcmp(key, "cuda") == 0)
        world.cuda = (int)strtol(value, NULL, 0);
    else if (strcmp(key, "count") == 0)
        world.count = strtoll(value, NULL, 0);
    else if (strcmp(key, "init") == 0)
        world.init = (int)strtol(value, NULL, 0);
    else if (strcmp(key, "lost_after") == 0)
        world.lost_after = strtoll(value, NULL, 0);
    else if (strcmp(key, "fail") == 0 && colon && world.n_fails < FAILS) {
        (void)snprintf(world.fail[world.n_fails].function, 64, "%.*s", (int)(colon - value), value);
        world.fail[world.n_fails++].code = (int)strtol(colon + 1, NULL, 0);
    } else
        abort();
}

static void read_world(void) {
    memset(&world, 0, sizeof world);
    world.count = world.lost_after = -1;
    world.cuda = 13000;
    (void)snprintf(world.driver, sizeof world.driver, "580.65.06");
    __atomic_store_n(&calls, 0, __ATOMIC_RELAXED);
    const char *text = getenv("SG_NVML_EMULATION");
    char *copy = strdup(text ? text : ""), *rest = copy;
    if (!copy) abort();
    for (char *item; (item = strsep(&rest, ";")) != NULL;) {
        char *value = strchr(item, '=');
        if (value) *value++ = '\0';
        if (!*item) continue;
        if (!value && strcmp(item, "gpu") == 0)
            new_gpu();
        else if (world.n == 0)
            set_world(item, value ? value : "");
        else
            set_gpu(&world.gpus[world.n - 1], item, value ? value : "");
    }
    free(copy);
}

static nvml_return told_to_fail(const char *function) {
    if (!world.started) return 1; /* NVML_ERROR_UNINITIALIZED */
    for (int i = 0; i < world.n_fails; i++)
        if (strcmp(world.fail[i].function, function) == 0) return world.fail[i].code;
    return NVML_SUCCESS;
}

static nvml_return may_ask(nvml_device g, const char *function) {
    nvml_return code = told_to_fail(function);
    if (code) return code;
    if (g < world.gpus || g >= world.gpus + world.n) return NVML_INVALID_ARGUMENT;
    long long n = __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    return g->lost || (world.lost_after >= 0 && n >= world.lost_after) ? NVML_GPU_IS_LOST : NVML_SUCCESS;
}

static nvml_return give_text(const char *text, char *to, unsigned bytes, bool unterminated) {
    if (unterminated) {
        memset(to, 0xC7, bytes);
        return NVML_SUCCESS;
    }
    if (strlen(text) >= bytes) return NVML_INSUFFICIENT_SIZE;
    memcpy(to, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

/* ---- the library ------------------------------------------------------------------------------------------------------ */

EXPORT nvml_return nvmlInit_v2(void) {
    read_world();
    world.started = world.init == NVML_SUCCESS;
    return world.init;
}

EXPORT nvml_return nvmlShutdown(void) {
    world.started = false;
    return NVML_SUCCESS;
}

EXPORT nvml_return nvmlSystemGetDriverVersion(char *version, unsigned bytes) {
    nvml_return code = told_to_fail("nvmlSystemGetDriverVersion");
    return code ? code : give_text(world.driver, version, bytes, false);
}

EXPORT nvml_return nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = world.cuda;
    return told_to_fail("nvmlSystemGetCudaDriverVersion_v2");
}

EXPORT nvml_return nvmlDeviceGetCount_v2(unsigned *count) {
    *count = world.count >= 0 ? (unsigned)world.count : (unsigned)world.n;
    return told_to_fail("nvmlDeviceGetCount_v2");
}

EXPORT nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *device) {
    nvml_return code = told_to_fail("nvmlDeviceGetHandleByIndex_v2");
    if (code) return code;
    if (index >= (unsigned)world.n) return NVML_INVALID_ARGUMENT;
    *device = &world.gpus[index];
    return may_ask(*device, "");
}

EXPORT nvml_return nvmlDeviceGetName(nvml_device g, char *name, unsigned bytes) {
    nvml_return code = may_ask(g, "nvmlDeviceGetName");
    return code ? code : give_text(g->name, name, bytes, g->unterminated);
}

EXPORT nvml_return nvmlDeviceGetUUID(nvml_device g, char *uuid, unsigned bytes) {
    nvml_return code = may_ask(g, "nvmlDeviceGetUUID");
    return code ? code : give_text(g->uuid, uuid, bytes, g->unterminated);
}

EXPORT nvml_return nvmlDeviceGetPciInfo_v3(nvml_device g, nvml_pci_info *pci) {
    nvml_return code = may_ask(g, "nvmlDeviceGetPciInfo_v3");
    return code ? code : give_text(g->bus, pci->bus_id, sizeof pci->bus_id, g->unterminated);
}

EXPORT nvml_return nvmlDeviceGetCudaComputeCapability(nvml_device g, int *major, int *minor) {
    nvml_return code = may_ask(g, "nvmlDeviceGetCudaComputeCapability");
    if (code) return code;
    *major = (int)g->capability / 10;
    *minor = (int)g->capability % 10;
    return NVML_SUCCESS;
}

EXPORT nvml_return nvmlDeviceGetMemoryInfo(nvml_device g, nvml_memory *memory) {
    nvml_return code = may_ask(g, "nvmlDeviceGetMemoryInfo");
    if (code) return code;
    *memory = (nvml_memory){(unsigned long long)g->total << 20, (unsigned long long)(g->total - g->used) << 20,
                            (unsigned long long)g->used << 20};
    return NVML_SUCCESS;
}

EXPORT nvml_return nvmlDeviceGetClockInfo(nvml_device g, unsigned domain, unsigned *mhz) {
    nvml_return code = may_ask(g, "nvmlDeviceGetClockInfo");
    if (!code) *mhz = (unsigned)(domain == NVML_CLOCK_MEM ? g->memory_clock : g->sm);
    return code;
}

EXPORT nvml_return nvmlDeviceGetMaxClockInfo(nvml_device g, unsigned domain, unsigned *mhz) {
    nvml_return code = may_ask(g, "nvmlDeviceGetMaxClockInfo");
    if (!code) *mhz = (unsigned)(domain == NVML_CLOCK_MEM ? g->memory_max : g->sm_max);
    return code;
}

#define GIVES(function, type, value)                                                                                   \
    EXPORT nvml_return function(nvml_device g, type *to) {                                                             \
        nvml_return code = may_ask(g, #function);                                                                      \
        if (!code) *to = (type)(value);                                                                                \
        return code;                                                                                                   \
    }

GIVES(nvmlDeviceGetPowerUsage, unsigned, 1000 * g->power)
GIVES(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, 1000 * g->power_default)
GIVES(nvmlDeviceGetPerformanceState, int, g->pstate)
GIVES(nvmlDeviceGetPersistenceMode, int, g->persistence)
GIVES(nvmlDeviceGetComputeMode, int, g->compute_mode)
GIVES(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, g->generation)
GIVES(nvmlDeviceGetCurrPcieLinkWidth, unsigned, g->width)
GIVES(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, g->max_generation)
GIVES(nvmlDeviceGetMaxPcieLinkWidth, unsigned, g->max_width)

EXPORT nvml_return nvmlDeviceGetUtilizationRates(nvml_device g, nvml_utilization *to) {
    nvml_return code = may_ask(g, "nvmlDeviceGetUtilizationRates");
    if (!code) *to = (nvml_utilization){(unsigned)g->busy, 0};
    return code;
}

#ifndef EMULATE_OLD_DRIVER
GIVES(nvmlDeviceGetEnforcedPowerLimit, unsigned, 1000 * g->limit)
GIVES(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, g->reasons)
GIVES(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned, g->gpu_generation)

EXPORT nvml_return nvmlDeviceGetTemperatureV(nvml_device g, nvml_temperature *t) {
    nvml_return code = may_ask(g, "nvmlDeviceGetTemperatureV");
    if (code) return code;
    if (t->version != NVML_TEMPERATURE_VERSION) return 25; /* NVML_ERROR_ARGUMENT_VERSION_MISMATCH */
    t->temperature = (int)g->temperature;
    return NVML_SUCCESS;
}

EXPORT nvml_return nvmlDeviceGetMigMode(nvml_device g, unsigned *current, unsigned *pending) {
    nvml_return code = may_ask(g, "nvmlDeviceGetMigMode");
    if (!code) *current = *pending = (unsigned)g->mig;
    return code;
}

EXPORT nvml_return nvmlDeviceGetRemappedRows(nvml_device g, unsigned *corrected, unsigned *uncorrected,
                                             unsigned *pending, unsigned *failed) {
    nvml_return code = may_ask(g, "nvmlDeviceGetRemappedRows");
    if (code) return code;
    *corrected = *uncorrected = 0;
    *pending = (unsigned)g->rows_pending;
    *failed = (unsigned)g->rows_failed;
    return NVML_SUCCESS;
}
#else
GIVES(nvmlDeviceGetPowerManagementLimit, unsigned, 1000 * g->limit)
GIVES(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, g->reasons)
#endif

EXPORT nvml_return nvmlDeviceGetTemperature(nvml_device g, unsigned sensor, unsigned *celsius) {
    nvml_return code = may_ask(g, "nvmlDeviceGetTemperature");
    (void)sensor;
    if (!code) *celsius = (unsigned)g->temperature;
    return code;
}

/* As NVML: too little room is an error that tells how much there must be. */
static nvml_return give_processes(nvml_device g, unsigned *count, void *list, size_t each) {
    unsigned room = *count, n = (unsigned)g->n_processes;
    *count = g->processes_told >= 0 ? (unsigned)g->processes_told : n;
    if (n > room) return NVML_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < n; i++) {
        nvml_process p = {g->pid[i], g->process_bytes[i], ~0u, ~0u};
        memcpy((char *)list + i * each, &p, each);
    }
    return NVML_SUCCESS;
}

#ifndef EMULATE_OLD_DRIVER
EXPORT nvml_return nvmlDeviceGetComputeRunningProcesses_v3(nvml_device g, unsigned *count, nvml_process *list) {
    nvml_return code = may_ask(g, "nvmlDeviceGetComputeRunningProcesses_v3");
    return code ? code : give_processes(g, count, list, sizeof *list);
}
#endif

EXPORT nvml_return nvmlDeviceGetComputeRunningProcesses(nvml_device g, unsigned *count, nvml_process_v1 *list) {
    nvml_return code = may_ask(g, "nvmlDeviceGetComputeRunningProcesses");
    return code ? code : give_processes(g, count, list, sizeof *list);
}

EXPORT nvml_return nvmlDeviceGetEccMode(nvml_device g, int *current, int *pending) {
    nvml_return code = may_ask(g, "nvmlDeviceGetEccMode");
    if (!code && g->ecc < 0) return NVML_NOT_SUPPORTED;
    if (!code) *current = *pending = (int)g->ecc;
    return code;
}

EXPORT nvml_return nvmlDeviceGetTotalEccErrors(nvml_device g, int kind, int counter, unsigned long long *count) {
    nvml_return code = may_ask(g, "nvmlDeviceGetTotalEccErrors");
    if (!code && g->ecc < 0) return NVML_NOT_SUPPORTED;
    if (!code) *count = kind != NVML_UNCORRECTED ? 7 : (unsigned long long)(counter ? g->ecc_ever : g->ecc_errors);
    return code;
}

/* Links in order: those to each GPU, then those to switches. The bus of the far end, NULL behind the last. */
static const char *far_end(nvml_device g, unsigned link) {
    for (int i = 0; i < g->n_links; i++) {
        if (link < (unsigned)g->link_count[i]) return g->link_bus[i];
        link -= (unsigned)g->link_count[i];
    }
    return link < (unsigned)g->switched ? "00000000:C0:00.0" : NULL;
}

EXPORT nvml_return nvmlDeviceGetNvLinkState(nvml_device g, unsigned link, int *active) {
    nvml_return code = may_ask(g, "nvmlDeviceGetNvLinkState");
    if (code) return code;
    if (link >= 18) return NVML_INVALID_ARGUMENT;
    *active = far_end(g, link) != NULL;
    return NVML_SUCCESS;
}

EXPORT nvml_return nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml_device g, unsigned link, nvml_pci_info *pci) {
    nvml_return code = may_ask(g, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    const char *bus = code ? NULL : far_end(g, link);
    if (code) return code;
    return bus ? give_text(bus, pci->bus_id, sizeof pci->bus_id, false) : NVML_INVALID_ARGUMENT;
}

#ifndef EMULATE_OLD_DRIVER
EXPORT nvml_return nvmlDeviceGetNvLinkRemoteDeviceType(nvml_device g, unsigned link, int *kind) {
    nvml_return code = may_ask(g, "nvmlDeviceGetNvLinkRemoteDeviceType");
    const char *bus = code ? NULL : far_end(g, link);
    if (code) return code;
    if (!bus) return NVML_INVALID_ARGUMENT;
    *kind = strcmp(bus, "00000000:C0:00.0") == 0 ? NVML_LINK_TO_SWITCH : NVML_LINK_TO_GPU;
    return NVML_SUCCESS;
}
#endif

EXPORT nvml_return nvmlDeviceGetTopologyCommonAncestor(nvml_device a, nvml_device b, int *level) {
    nvml_return code = may_ask(a, "nvmlDeviceGetTopologyCommonAncestor");
    if (!code) *level = (int)(a->level > b->level ? a->level : b->level);
    return code;
}
