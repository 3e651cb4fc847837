#include "kernels/nvidia/nvml_internal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* ISO C has no conversion from dlsym's object pointer to a function pointer; POSIX promises that the bytes are one. */
static void find_function(void *library, const char *symbol, const char *older, void *function, size_t bytes) {
    void *found = dlsym(library, symbol);
    if (!found && older) found = dlsym(library, older);
    if (found && bytes == sizeof found) memcpy(function, &found, bytes);
}

static void find_functions(sg_nvml *n) {
#define FIND(member, symbol, older, parameters) find_function(n->library, symbol, older, &n->member, sizeof n->member);
    NVML_FUNCTIONS(FIND)
#undef FIND
}

static void *open_library(const char *folder, char *why, size_t bytes) {
    static const char file[] = "libnvidia-ml.so.1";
    char path[1024];
    why[0] = '\0';
    if (folder && *folder) {
        int n = snprintf(path, sizeof path, "%s/%s", folder, file);
        void *library = n > 0 && (size_t)n < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (library) return library;
    }
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const char *said = library ? NULL : dlerror();
    if (said) (void)snprintf(why, bytes, "%s", said);
    return library;
}

static sg_code fail_init(nvml_return code, sg_status *status) {
    switch (code) {
    case NVML_DRIVER_NOT_LOADED:
        return sg_fail(status, SG_MACHINE,
                       "the NVIDIA driver is not loaded: load it (modprobe nvidia), or in a container start it with "
                       "--gpus all");
    case NVML_LIB_RM_VERSION_MISMATCH:
        return sg_fail(status, SG_MACHINE,
                       "the NVIDIA driver's kernel module and its libraries have different versions, as after an "
                       "update: reboot, or unload and load the module (rmmod nvidia_uvm nvidia; modprobe nvidia)");
    case NVML_NO_PERMISSION:
        return sg_fail(status, SG_MACHINE,
                       "the NVIDIA driver refuses this user: allow reading and writing /dev/nvidia* (group video)");
    case NVML_NOT_FOUND: return sg_fail(status, SG_NO, "the NVIDIA driver finds no GPU");
    default:
        return sg_fail(status, SG_MACHINE,
                       "the NVIDIA management library does not start (NVML error %d): see 'dmesg | grep -i nvrm' and "
                       "restart the machine or the container",
                       code);
    }
}

void sg_nvml_clean(char *text, size_t bytes) {
    text[bytes - 1] = '\0';
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
}

static sg_code ask_system(sg_nvml *n, sg_status *status) {
    unsigned count = 0;
    nvml_return code = n->count_of(&count);
    if (code != NVML_SUCCESS)
        return sg_fail(status, SG_MACHINE, "the NVIDIA driver does not tell how many GPUs there are (NVML error %d)",
                       code);
    if (count > SG_NVML_GPUS_MAX)
        return sg_fail(status, SG_MACHINE,
                       "the NVIDIA driver tells of %u GPUs, more than any machine has (%d): restart the machine", count,
                       SG_NVML_GPUS_MAX);
    n->count = (int)count;
    if (!n->driver_version || n->driver_version(n->driver, sizeof n->driver) != NVML_SUCCESS) n->driver[0] = '\0';
    sg_nvml_clean(n->driver, sizeof n->driver);
    if (!n->cuda_version_of || n->cuda_version_of(&n->cuda_version) != NVML_SUCCESS || n->cuda_version < 0)
        n->cuda_version = 0;
    return SG_OK;
}

static sg_code start(sg_nvml *n, sg_status *status) {
    if (!n->init || !n->shutdown || !n->count_of || !n->by_index)
        return sg_fail(status, SG_MACHINE,
                       "libnvidia-ml.so.1 lacks the functions that every driver has: install the driver again");
    nvml_return started = n->init();
    if (started != NVML_SUCCESS) return fail_init(started, status);
    sg_code code = ask_system(n, status);
    if (code) (void)n->shutdown();
    return code;
}

sg_code sg_nvml_open(const char *folder, sg_nvml **nvml, sg_status *status) {
    *nvml = NULL;
    char why[256];
    void *library = open_library(folder, why, sizeof why);
    if (!library)
        return sg_fail(status, SG_NO, "the driver's management library is not there (%s): it comes with the driver",
                       why);
    sg_nvml *n = calloc(1, sizeof *n);
    if (!n) {
        (void)dlclose(library);
        return sg_fail_memory(status, sizeof *n, "the NVIDIA management library");
    }
    n->library = library;
    find_functions(n);
    sg_code code = start(n, status);
    if (code) {
        (void)dlclose(library);
        free(n);
        return code;
    }
    *nvml = n;
    return SG_OK;
}

void sg_nvml_close(sg_nvml *n) {
    if (!n) return;
    (void)n->shutdown();
    (void)dlclose(n->library);
    free(n);
}

int sg_nvml_count(const sg_nvml *n) {
    return n->count;
}

const char *sg_nvml_driver(const sg_nvml *n) {
    return n->driver;
}

int sg_nvml_cuda_version(const sg_nvml *n) {
    return n->cuda_version;
}

/* ---- single values ------------------------------------------------------------------------------------------------ */

bool sg_nvml_answered(sg_nvml_question *q, nvml_return code) {
    if (code == NVML_GPU_IS_LOST) q->lost = true;
    return code == NVML_SUCCESS;
}

typedef nvml_return (*ask_unsigned)(nvml_device, unsigned *);
typedef nvml_return (*ask_int)(nvml_device, int *);

static double number(sg_nvml_question *q, ask_unsigned get, double unit) {
    unsigned value = 0;
    return get && sg_nvml_answered(q, get(q->device, &value)) ? unit * value : 0;
}

static int small(sg_nvml_question *q, ask_unsigned get) {
    unsigned value = 0;
    return get && sg_nvml_answered(q, get(q->device, &value)) && value < 1024 ? (int)value : 0;
}

static int mode(sg_nvml_question *q, ask_int get) {
    int value = -1;
    return get && sg_nvml_answered(q, get(q->device, &value)) && value >= 0 && value < 1024 ? value : -1;
}

static double clock_mhz(sg_nvml_question *q, nvml_return (*get)(nvml_device, unsigned, unsigned *), unsigned domain) {
    unsigned value = 0;
    return get && sg_nvml_answered(q, get(q->device, domain, &value)) ? value : 0;
}

/* Newer drivers have nvmlDeviceGetTemperatureV beside the older call, which is to go away. */
static double temperature_c(sg_nvml_question *q) {
    nvml_temperature t = {.version = NVML_TEMPERATURE_VERSION, .sensor = NVML_TEMPERATURE_GPU};
    if (q->n->temperature_v && sg_nvml_answered(q, q->n->temperature_v(q->device, &t))) return t.temperature;
    unsigned value = 0;
    if (q->n->temperature && sg_nvml_answered(q, q->n->temperature(q->device, NVML_TEMPERATURE_GPU, &value)))
        return value;
    return 0;
}

static void text(sg_nvml_question *q, nvml_return (*get)(nvml_device, char *, unsigned), char *to, unsigned bytes) {
    if (!get || !sg_nvml_answered(q, get(q->device, to, bytes))) to[0] = '\0';
    sg_nvml_clean(to, bytes);
}

bool sg_nvml_ask_about(const sg_nvml *n, int index, sg_nvml_question *q) {
    *q = (sg_nvml_question){.n = n};
    return index >= 0 && index < n->count && sg_nvml_answered(q, n->by_index((unsigned)index, &q->device)) && q->device;
}

/* ---- while it works ------------------------------------------------------------------------------------------------ */

static void sample(sg_nvml_question *q, sg_gpu_sample *s) {
    const sg_nvml *n = q->n;
    unsigned long long reasons = 0;
    *s = (sg_gpu_sample){.sm_mhz = clock_mhz(q, n->clock, NVML_CLOCK_SM),
                         .memory_mhz = clock_mhz(q, n->clock, NVML_CLOCK_MEM),
                         .temperature_c = temperature_c(q),
                         .power_w = number(q, n->power, 1e-3),
                         .pcie_generation = small(q, n->pcie_generation),
                         .pcie_width = small(q, n->pcie_width)};
    if (n->reasons && sg_nvml_answered(q, n->reasons(q->device, &reasons))) s->reasons = reasons;
    s->lost = q->lost;
}

void sg_nvml_sample(sg_nvml *n, int index, sg_gpu_sample *s) {
    sg_nvml_question q;
    memset(s, 0, sizeof *s);
    if (sg_nvml_ask_about(n, index, &q))
        sample(&q, s);
    else
        s->lost = q.lost;
}

/* A list that was told to be longer than asked for is not believed beyond its memory. */
static int list_processes(sg_nvml_question *q, sg_gpu_process *to, int room) {
    enum { MOST = 1024 };
    const sg_nvml *n = q->n;
    bool newer = n->processes;
    if (!newer && !n->processes_v1) return -1;
    size_t each = newer ? sizeof(nvml_process) : sizeof(nvml_process_v1);
    char *list = calloc(MOST, each);
    if (!list) return -1;
    unsigned count = MOST;
    nvml_return code = newer ? n->processes(q->device, &count, (nvml_process *)(void *)list)
                             : n->processes_v1(q->device, &count, (nvml_process_v1 *)(void *)list);
    int found = -1;
    if (sg_nvml_answered(q, code)) found = count < MOST ? (int)count : MOST;
    for (int i = 0; i < found && i < room; i++) {
        nvml_process_v1 p; /* the two structs begin alike */
        memcpy(&p, list + (size_t)i * each, sizeof p);
        to[i] = (sg_gpu_process){p.pid, p.used_gpu_memory == NVML_VALUE_NOT_AVAILABLE ? 0 : p.used_gpu_memory};
    }
    free(list);
    return found;
}

int sg_nvml_processes(sg_nvml *n, int index, sg_gpu_process *processes, int room) {
    sg_nvml_question q;
    return sg_nvml_ask_about(n, index, &q) ? list_processes(&q, processes, room) : -1;
}

/* ---- everything of one GPU ------------------------------------------------------------------------------------------ */

bool sg_nvml_link_active(sg_nvml_question *q, unsigned link) {
    int active = 0;
    return q->n->link_state && sg_nvml_answered(q, q->n->link_state(q->device, link, &active)) && active == 1;
}

static int count_links(sg_nvml_question *q) {
    if (!q->n->link_state) return -1;
    int links = 0;
    for (unsigned i = 0; i < NVML_NVLINKS_MAX; i++) links += sg_nvml_link_active(q, i);
    return links;
}

static int64_t ecc_errors(sg_nvml_question *q, int counter) {
    unsigned long long count = 0;
    if (!q->n->ecc_errors || !sg_nvml_answered(q, q->n->ecc_errors(q->device, NVML_UNCORRECTED, counter, &count)))
        return -1;
    return count > INT64_MAX ? INT64_MAX : (int64_t)count;
}

static void read_health(sg_nvml_question *q, sg_gpu_state *g) {
    const sg_nvml *n = q->n;
    int current = -1, pending = -1;
    g->ecc = n->ecc_mode && sg_nvml_answered(q, n->ecc_mode(q->device, &current, &pending)) ? current == 1 : -1;
    g->ecc_uncorrected = ecc_errors(q, NVML_VOLATILE);
    g->ecc_uncorrected_ever = ecc_errors(q, NVML_AGGREGATE);
    unsigned corrected = 0, uncorrected = 0, waiting = 0, failed = 0;
    bool rows = n->remapped_rows &&
                sg_nvml_answered(q, n->remapped_rows(q->device, &corrected, &uncorrected, &waiting, &failed));
    g->rows_pending = rows ? waiting != 0 : -1;
    g->rows_failed = rows ? failed != 0 : -1;
    unsigned mig = 0, mig_pending = 0;
    g->mig = n->mig_mode && sg_nvml_answered(q, n->mig_mode(q->device, &mig, &mig_pending)) ? mig == 1 : -1;
    g->persistence = mode(q, n->persistence);
    int compute = mode(q, n->compute_mode);
    g->compute_mode = compute <= SG_GPU_COMPUTE_EXCLUSIVE ? (sg_gpu_compute_mode)compute : SG_GPU_COMPUTE_NOT_TOLD;
}

static void read_identity(sg_nvml_question *q, sg_gpu_state *g) {
    const sg_nvml *n = q->n;
    text(q, n->name, g->name, sizeof g->name);
    text(q, n->uuid, g->uuid, sizeof g->uuid);
    nvml_pci_info pci = {0};
    if (n->pci && sg_nvml_answered(q, n->pci(q->device, &pci))) {
        sg_nvml_clean(pci.bus_id, sizeof pci.bus_id);
        memcpy(g->bus, pci.bus_id, sizeof g->bus);
    }
    int major = 0, minor = 0;
    if (n->capability && sg_nvml_answered(q, n->capability(q->device, &major, &minor)) && major > 0 && major < 100 &&
        minor >= 0 && minor < 10)
        g->capability = 10 * major + minor;
}

static void read_use(sg_nvml_question *q, sg_gpu_state *g) {
    const sg_nvml *n = q->n;
    nvml_memory memory = {0};
    if (n->memory && sg_nvml_answered(q, n->memory(q->device, &memory))) {
        g->total_bytes = memory.total;
        g->free_bytes = memory.free;
        g->used_bytes = memory.used;
    }
    nvml_utilization busy = {0};
    g->busy_percent =
        n->utilization && sg_nvml_answered(q, n->utilization(q->device, &busy)) && busy.gpu <= 100 ? (int)busy.gpu : -1;
    g->performance_state = mode(q, n->performance_state);
    if (g->performance_state > 15) g->performance_state = -1;
    g->n_processes = list_processes(q, g->processes, SG_NVML_PROCESSES_MAX);
}

static void read_limits(sg_nvml_question *q, sg_gpu_state *g) {
    const sg_nvml *n = q->n;
    g->sm_max_mhz = clock_mhz(q, n->max_clock, NVML_CLOCK_SM);
    g->memory_max_mhz = clock_mhz(q, n->max_clock, NVML_CLOCK_MEM);
    g->power_limit_w = number(q, n->power_limit, 1e-3);
    g->power_default_w = number(q, n->power_default, 1e-3);
    g->pcie_max_generation = small(q, n->pcie_max_generation);
    g->pcie_gpu_generation = small(q, n->pcie_gpu_generation);
    g->pcie_max_width = small(q, n->pcie_max_width);
    g->nvlinks = count_links(q);
}

sg_code sg_nvml_read(sg_nvml *n, int index, sg_gpu_state *g, sg_status *status) {
    sg_nvml_question q;
    memset(g, 0, sizeof *g);
    g->index = index;
    if (!sg_nvml_ask_about(n, index, &q)) {
        g->now.lost = q.lost;
        return sg_fail(status, SG_MACHINE,
                       q.lost
                           ? "GPU %d fell off the bus: restart the machine; if it happens again, check its power "
                             "supply, cooling and slot ('dmesg | grep -i xid' says what came before)"
                           : "the NVIDIA driver does not hand out GPU %d: check that this user may use /dev/nvidia%d",
                       index, index);
    }
    read_identity(&q, g);
    read_use(&q, g);
    read_limits(&q, g);
    read_health(&q, g);
    sample(&q, &g->now);
    return SG_OK;
}
