#include "kernels/nvidia/nvml.h"
#include "kernels/nvidia/nvml_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct sg_nvml {
    void *library;
#define MEMBER(member, symbol, older, parameters) nvml_return(*member) parameters;
    NVML_FUNCTIONS(MEMBER)
#undef MEMBER
    char driver[80];
    int cuda_version, count;
};

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

/* Printable ASCII only, and an end: a driver's text goes to terminals and files. */
static void clean(char *text, size_t bytes) {
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
    clean(n->driver, sizeof n->driver);
    if (!n->cuda_version_of || n->cuda_version_of(&n->cuda_version) != NVML_SUCCESS || n->cuda_version < 0)
        n->cuda_version = 0;
    return SG_OK;
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
    sg_code code = SG_OK;
    if (!n->init || !n->shutdown || !n->count_of || !n->by_index)
        code = sg_fail(status, SG_MACHINE,
                       "libnvidia-ml.so.1 lacks the functions that every driver has: install the driver again");
    nvml_return started = NVML_UNKNOWN;
    if (!code && (started = n->init()) != NVML_SUCCESS) code = fail_init(started, status);
    if (!code) code = ask_system(n, status);
    if (!code) {
        *nvml = n;
        return SG_OK;
    }
    if (started == NVML_SUCCESS) (void)n->shutdown();
    (void)dlclose(library);
    free(n);
    return code;
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

/* The GPU that is being asked, and whether one answer was that it is gone. */
typedef struct question {
    const sg_nvml *n;
    nvml_device device;
    bool lost;
} question;

static bool answered(question *q, nvml_return code) {
    if (code == NVML_GPU_IS_LOST) q->lost = true;
    return code == NVML_SUCCESS;
}

typedef nvml_return (*ask_unsigned)(nvml_device, unsigned *);
typedef nvml_return (*ask_int)(nvml_device, int *);

static double number(question *q, ask_unsigned get, double unit) {
    unsigned value = 0;
    return get && answered(q, get(q->device, &value)) ? unit * value : 0;
}

static int small(question *q, ask_unsigned get) {
    unsigned value = 0;
    return get && answered(q, get(q->device, &value)) && value < 1024 ? (int)value : 0;
}

static int mode(question *q, ask_int get) {
    int value = -1;
    return get && answered(q, get(q->device, &value)) && value >= 0 && value < 1024 ? value : -1;
}

static double clock_mhz(question *q, nvml_return (*get)(nvml_device, unsigned, unsigned *), unsigned domain) {
    unsigned value = 0;
    return get && answered(q, get(q->device, domain, &value)) ? value : 0;
}

/* Newer drivers have nvmlDeviceGetTemperatureV beside the older call, which is to go away. */
static double temperature_c(question *q) {
    nvml_temperature t = {.version = NVML_TEMPERATURE_VERSION, .sensor = NVML_TEMPERATURE_GPU};
    if (q->n->temperature_v && answered(q, q->n->temperature_v(q->device, &t))) return t.temperature;
    unsigned value = 0;
    if (q->n->temperature && answered(q, q->n->temperature(q->device, NVML_TEMPERATURE_GPU, &value))) return value;
    return 0;
}

static void text(question *q, nvml_return (*get)(nvml_device, char *, unsigned), char *to, unsigned bytes) {
    if (!get || !answered(q, get(q->device, to, bytes))) to[0] = '\0';
    clean(to, bytes);
}

static bool ask_about(const sg_nvml *n, int index, question *q) {
    *q = (question){.n = n};
    return index >= 0 && index < n->count && answered(q, n->by_index((unsigned)index, &q->device)) && q->device;
}

/* ---- while it works ------------------------------------------------------------------------------------------------ */

static void sample(question *q, sg_gpu_sample *s) {
    const sg_nvml *n = q->n;
    unsigned long long reasons = 0;
    *s = (sg_gpu_sample){.sm_mhz = clock_mhz(q, n->clock, NVML_CLOCK_SM),
                         .memory_mhz = clock_mhz(q, n->clock, NVML_CLOCK_MEM),
                         .temperature_c = temperature_c(q),
                         .power_w = number(q, n->power, 1e-3),
                         .pcie_generation = small(q, n->pcie_generation),
                         .pcie_width = small(q, n->pcie_width)};
    if (n->reasons && answered(q, n->reasons(q->device, &reasons))) s->reasons = reasons;
    s->lost = q->lost;
}

void sg_nvml_sample(sg_nvml *n, int index, sg_gpu_sample *s) {
    question q;
    memset(s, 0, sizeof *s);
    if (ask_about(n, index, &q))
        sample(&q, s);
    else
        s->lost = q.lost;
}

/* A list that was told to be longer than asked for is not believed beyond its memory. */
static int list_processes(question *q, sg_gpu_process *to, int room) {
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
    if (answered(q, code)) found = count < MOST ? (int)count : MOST;
    for (int i = 0; i < found && i < room; i++) {
        nvml_process_v1 p; /* the two structs begin alike */
        memcpy(&p, list + (size_t)i * each, sizeof p);
        to[i] = (sg_gpu_process){p.pid, p.used_gpu_memory == NVML_VALUE_NOT_AVAILABLE ? 0 : p.used_gpu_memory};
    }
    free(list);
    return found;
}

int sg_nvml_processes(sg_nvml *n, int index, sg_gpu_process *processes, int room) {
    question q;
    return ask_about(n, index, &q) ? list_processes(&q, processes, room) : -1;
}

/* ---- everything of one GPU ------------------------------------------------------------------------------------------ */

static bool link_active(question *q, unsigned link) {
    int active = 0;
    return q->n->link_state && answered(q, q->n->link_state(q->device, link, &active)) && active == 1;
}

static int count_links(question *q) {
    if (!q->n->link_state) return -1;
    int links = 0;
    for (unsigned i = 0; i < NVML_NVLINKS_MAX; i++) links += link_active(q, i);
    return links;
}

static int64_t ecc_errors(question *q, int counter) {
    unsigned long long count = 0;
    if (!q->n->ecc_errors || !answered(q, q->n->ecc_errors(q->device, NVML_UNCORRECTED, counter, &count))) return -1;
    return count > INT64_MAX ? INT64_MAX : (int64_t)count;
}

static void read_health(question *q, sg_gpu_state *g) {
    const sg_nvml *n = q->n;
    int current = -1, pending = -1;
    g->ecc = n->ecc_mode && answered(q, n->ecc_mode(q->device, &current, &pending)) ? current == 1 : -1;
    g->ecc_uncorrected = ecc_errors(q, NVML_VOLATILE);
    g->ecc_uncorrected_ever = ecc_errors(q, NVML_AGGREGATE);
    unsigned corrected = 0, uncorrected = 0, waiting = 0, failed = 0;
    bool rows =
        n->remapped_rows && answered(q, n->remapped_rows(q->device, &corrected, &uncorrected, &waiting, &failed));
    g->rows_pending = rows ? waiting != 0 : -1;
    g->rows_failed = rows ? failed != 0 : -1;
    unsigned mig = 0, mig_pending = 0;
    g->mig = n->mig_mode && answered(q, n->mig_mode(q->device, &mig, &mig_pending)) ? mig == 1 : -1;
    g->persistence = mode(q, n->persistence);
    int compute = mode(q, n->compute_mode);
    g->compute_mode = compute <= SG_GPU_COMPUTE_EXCLUSIVE ? (sg_gpu_compute_mode)compute : SG_GPU_COMPUTE_NOT_TOLD;
}

static void read_identity(question *q, sg_gpu_state *g) {
    const sg_nvml *n = q->n;
    text(q, n->name, g->name, sizeof g->name);
    text(q, n->uuid, g->uuid, sizeof g->uuid);
    nvml_pci_info pci = {0};
    if (n->pci && answered(q, n->pci(q->device, &pci))) {
        clean(pci.bus_id, sizeof pci.bus_id);
        memcpy(g->bus, pci.bus_id, sizeof g->bus);
    }
    int major = 0, minor = 0;
    if (n->capability && answered(q, n->capability(q->device, &major, &minor)) && major > 0 && major < 100 &&
        minor >= 0 && minor < 10)
        g->capability = 10 * major + minor;
}

static void read_use(question *q, sg_gpu_state *g) {
    const sg_nvml *n = q->n;
    nvml_memory memory = {0};
    if (n->memory && answered(q, n->memory(q->device, &memory))) {
        g->total_bytes = memory.total;
        g->free_bytes = memory.free;
        g->used_bytes = memory.used;
    }
    nvml_utilization busy = {0};
    g->busy_percent =
        n->utilization && answered(q, n->utilization(q->device, &busy)) && busy.gpu <= 100 ? (int)busy.gpu : -1;
    g->performance_state = mode(q, n->performance_state);
    if (g->performance_state > 15) g->performance_state = -1;
    g->n_processes = list_processes(q, g->processes, SG_NVML_PROCESSES_MAX);
}

static void read_limits(question *q, sg_gpu_state *g) {
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
    question q;
    memset(g, 0, sizeof *g);
    g->index = index;
    if (!ask_about(n, index, &q)) {
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

/* ---- which, and how connected --------------------------------------------------------------------------------------- */

/* PCI addresses are written with four or eight digits of domain. */
static const char *after_zeros(const char *bus) {
    const char *colon = strchr(bus, ':');
    while (*bus == '0' && colon && bus < colon - 1) bus++;
    return bus;
}

static bool same_bus(const char *a, const char *b) {
    return *a && *b && strcasecmp(after_zeros(a), after_zeros(b)) == 0;
}

static bool bus_of(question *q, char bus[32]) {
    nvml_pci_info pci = {0};
    if (!q->n->pci || !answered(q, q->n->pci(q->device, &pci))) return false;
    clean(pci.bus_id, sizeof pci.bus_id);
    memcpy(bus, pci.bus_id, 32);
    return true;
}

int sg_nvml_find(sg_nvml *n, const char *bus) {
    char other[32];
    for (int i = 0; bus && i < n->count; i++) {
        question q;
        if (ask_about(n, i, &q) && bus_of(&q, other) && same_bus(bus, other)) return i;
    }
    return -1;
}

/* Active links that end at `bus`, and those that end at a switch. */
static void links_to(question *q, const char *bus, int *direct, int *switched) {
    *direct = *switched = 0;
    for (unsigned i = 0; q->n->link_remote && i < NVML_NVLINKS_MAX; i++) {
        nvml_pci_info remote = {0};
        if (!link_active(q, i) || !answered(q, q->n->link_remote(q->device, i, &remote))) continue;
        clean(remote.bus_id, sizeof remote.bus_id);
        int kind = NVML_LINK_TO_GPU;
        if (same_bus(bus, remote.bus_id))
            (*direct)++;
        else if (q->n->link_kind && answered(q, q->n->link_kind(q->device, i, &kind)) && kind == NVML_LINK_TO_SWITCH)
            (*switched)++;
    }
}

/* NVLinks that lead from one to the other, directly or through switches (which connect each with each). */
static int links_between(question *a, question *b) {
    char bus_a[32], bus_b[32];
    if (!bus_of(a, bus_a) || !bus_of(b, bus_b)) return 0;
    int direct, switched, direct_back, switched_back;
    links_to(a, bus_b, &direct, &switched);
    if (direct) return direct;
    links_to(b, bus_a, &direct_back, &switched_back);
    return switched < switched_back ? switched : switched_back;
}

void sg_nvml_connection(sg_nvml *n, int a, int b, char connection[8]) {
    question qa, qb;
    int level = -1;
    (void)snprintf(connection, 8, "%s", a == b ? "X" : "?");
    if (a == b || !ask_about(n, a, &qa) || !ask_about(n, b, &qb)) return;
    int links = links_between(&qa, &qb);
    if (links > 0) {
        (void)snprintf(connection, 8, "NV%d", links % 100);
        return;
    }
    if (!n->ancestor || !answered(&qa, n->ancestor(qa.device, qb.device, &level)) || level < 0 || level > 50) return;
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
