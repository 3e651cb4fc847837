/* gpus_show.c: what was found out about GPUs, as text and as JSON. */
#include "cli/gpus.h"
#include "cli/show.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- text -------------------------------------------------------------------------------------------------------------- */

/* One line of facts, separated by commas; those that were not told are left out. */
typedef struct facts {
    char text[256];
} facts;

__attribute__((format(printf, 3, 4))) static void add(facts *f, bool told, const char *format, ...) {
    size_t used = strlen(f->text);
    if (!told || used + 3 > sizeof f->text) return;
    if (used) {
        memcpy(f->text + used, ", ", 3);
        used += 2;
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(f->text + used, sizeof f->text - used, format, args);
    va_end(args);
}

static void print_facts(const facts *f) {
    if (f->text[0]) printf("         %s\n", f->text);
}

static void print_use(const sg_gpu_state *g) {
    facts f = {""};
    add(&f, g->total_bytes > 0, "%s of %s free", sg_show_bytes((double)g->free_bytes).s,
        sg_show_bytes((double)g->total_bytes).s);
    add(&f, g->busy_percent >= 0, "%d %% busy", g->busy_percent);
    add(&f, g->n_processes >= 0, "%d process(es)", g->n_processes);
    print_facts(&f);
}

static void print_clocks(const sg_gpu_state *g) {
    facts f = {""};
    const sg_gpu_sample *s = &g->now;
    char reasons[160];
    sg_gpu_reasons_text(s->reasons, reasons, sizeof reasons);
    add(&f, s->sm_mhz > 0, "SM %.0f of %.0f MHz", s->sm_mhz, g->sm_max_mhz);
    add(&f, s->memory_mhz > 0, "memory %.0f of %.0f MHz", s->memory_mhz, g->memory_max_mhz);
    add(&f, s->temperature_c > 0, "%.0f C", s->temperature_c);
    add(&f, g->power_limit_w > 0, "%.0f of %.0f W", s->power_w, g->power_limit_w);
    add(&f, reasons[0], "held back by %s", reasons);
    print_facts(&f);
}

static const char *on_off(int value) {
    return value == 1 ? "on" : "off";
}

static void print_links(const sg_gpu_state *g) {
    facts f = {""};
    add(&f, g->now.pcie_width > 0, "PCIe %d x%d of %d x%d", g->now.pcie_generation, g->now.pcie_width,
        g->pcie_max_generation, g->pcie_max_width);
    add(&f, g->nvlinks > 0, "%d NVLinks", g->nvlinks);
    add(&f, g->ecc >= 0, "ECC %s", on_off(g->ecc));
    add(&f, g->mig >= 0, "MIG %s", on_off(g->mig));
    add(&f, g->persistence >= 0, "persistence %s", on_off(g->persistence));
    print_facts(&f);
}

static void print_gpu(const sg_surveyed_gpu *gpu) {
    const sg_gpu_state *g = &gpu->state;
    facts f = {""};
    add(&f, g->name[0], "%s", g->name);
    add(&f, g->capability > 0, "compute capability %d.%d", g->capability / 10, g->capability % 10);
    add(&f, g->bus[0], "%s", g->bus);
    printf("\n  GPU %-2d %s\n", g->index, f.text);
    if (gpu->told) {
        print_use(g);
        print_clocks(g);
        print_links(g);
    }
    if (gpu->n_findings == 0) printf("         nothing stands in its way\n");
    for (int i = 0; i < gpu->n_findings; i++)
        printf("         %s: %s\n", sg_gpu_severity_name(gpu->findings[i].severity), gpu->findings[i].text);
}

static void print_libraries(const sg_gpu_survey *s) {
    if (!s->libraries_sought) return;
    printf("\n  CUDA libraries\n");
    for (int i = 0; i < SG_CUDA_LIBRARY_COUNT; i++) {
        const char *path = s->libraries.path[i], *name = sg_cuda_library_name((sg_cuda_library)i);
        if (path[0])
            printf("         %s %s: %s\n", name, s->libraries.version[i], path);
        else
            printf("         %s: missing%s: %s\n", name,
                   i == SG_CUDA_CUDNN  ? " (convolutions go through GEMM, which is slower)"
                   : i == SG_CUDA_NCCL ? " (needed by more than one GPU)"
                                       : "",
                   sg_cuda_library_remedy((sg_cuda_library)i));
    }
    if (s->libraries_problem[0]) printf("         %s\n", s->libraries_problem);
}

/* As wide as a terminal can show; JSON holds any. */
static void print_connections(const sg_gpu_survey *s) {
    enum { SHOWN = 16 };
    char names[SHOWN + 1][16] = {""};
    const char *cells[SHOWN + 1];
    if (s->n < 2 || s->n > SHOWN) return;
    for (int i = 0; i < s->n; i++) (void)snprintf(names[i + 1], sizeof names[i + 1], "GPU %d", i);
    for (int i = 0; i <= s->n; i++) cells[i] = names[i];
    sg_table *table = sg_table_new((size_t)s->n + 1, cells);
    for (int row = 0; row < s->n; row++) {
        cells[0] = names[row + 1];
        for (int i = 0; i < s->n; i++) cells[i + 1] = s->connections[row * s->n + i];
        sg_table_row(table, cells);
    }
    printf("\n  Connections (NV: NVLinks; PIX, PXB: PCIe switches; PHB: host bridge; NODE, SYS: processors)\n");
    sg_table_print(table);
}

void sg_gpu_survey_print(const sg_gpu_survey *s) {
    if (s->driver.problem == SG_DRIVER_NO_GPU && !s->libraries_sought) return;
    if (s->visible.text[0]) printf("         %s\n", s->visible.text);
    if (s->nvml[0]) printf("         clocks, heat and use are not told: %s\n", s->nvml);
    for (int i = 0; i < s->n; i++) print_gpu(&s->gpus[i]);
    print_libraries(s);
    print_connections(s);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------------- */

/* Paths and variables may hold any byte. */
static json_t *words(const char *text) {
    json_t *value = json_string(text);
    return value ? value : json_string("(not UTF-8)");
}

static json_t *positive(double value) {
    return value > 0 ? json_real(value) : json_null();
}

static json_t *count(int64_t value) {
    return value >= 0 ? json_integer((json_int_t)value) : json_null();
}

static json_t *flag(int value) {
    return value >= 0 ? json_boolean(value) : json_null();
}

static void set(json_t *object, const char *key, json_t *value) {
    (void)json_object_set_new(object, key, value);
}

static json_t *json_processes(const sg_gpu_state *g) {
    if (g->n_processes < 0) return json_null();
    json_t *list = json_array();
    for (int i = 0; i < g->n_processes && i < SG_NVML_PROCESSES_MAX; i++)
        (void)json_array_append_new(list, json_pack("{s:I, s:o}", "pid", (json_int_t)g->processes[i].pid, "bytes",
                                                    positive((double)g->processes[i].bytes)));
    return list;
}

static const char *compute_mode_name(sg_gpu_compute_mode mode) {
    switch (mode) {
    case SG_GPU_COMPUTE_SHARED: return "default";
    case SG_GPU_COMPUTE_EXCLUSIVE_THREAD:
    case SG_GPU_COMPUTE_EXCLUSIVE: return "exclusive";
    case SG_GPU_COMPUTE_PROHIBITED: return "prohibited";
    default: return NULL;
    }
}

static void json_state(const sg_gpu_state *g, json_t *o) {
    char reasons[160];
    sg_gpu_reasons_text(g->now.reasons, reasons, sizeof reasons);
    set(o, "memory_bytes", positive((double)g->total_bytes));
    set(o, "free_bytes", positive((double)g->free_bytes));
    set(o, "used_bytes", positive((double)g->used_bytes));
    set(o, "busy_percent", count(g->busy_percent));
    set(o, "processes", json_processes(g));
    set(o, "sm_mhz", positive(g->now.sm_mhz));
    set(o, "sm_max_mhz", positive(g->sm_max_mhz));
    set(o, "memory_mhz", positive(g->now.memory_mhz));
    set(o, "memory_max_mhz", positive(g->memory_max_mhz));
    set(o, "temperature_c", positive(g->now.temperature_c));
    set(o, "power_w", positive(g->now.power_w));
    set(o, "power_limit_w", positive(g->power_limit_w));
    set(o, "power_default_w", positive(g->power_default_w));
    set(o, "throttle", json_string(reasons));
    set(o, "performance_state", count(g->performance_state));
    set(o, "pcie_generation", positive(g->now.pcie_generation));
    set(o, "pcie_width", positive(g->now.pcie_width));
    set(o, "pcie_max_generation", positive(g->pcie_max_generation));
    set(o, "pcie_max_width", positive(g->pcie_max_width));
    set(o, "nvlinks", count(g->nvlinks));
    set(o, "ecc", flag(g->ecc));
    set(o, "ecc_uncorrected", count(g->ecc_uncorrected));
    set(o, "ecc_uncorrected_ever", count(g->ecc_uncorrected_ever));
    set(o, "mig", flag(g->mig));
    set(o, "persistence", flag(g->persistence));
    const char *mode = compute_mode_name(g->compute_mode);
    set(o, "compute_mode", mode ? json_string(mode) : json_null());
}

static json_t *json_gpu(const sg_surveyed_gpu *gpu) {
    const sg_gpu_state *g = &gpu->state;
    json_t *o = json_pack("{s:i, s:s, s:s, s:s, s:b}", "index", g->index, "name", g->name, "uuid", g->uuid, "bus",
                          g->bus, "lost", (int)g->now.lost);
    set(o, "compute_capability", positive(g->capability / 10.0));
    if (gpu->told) json_state(g, o);
    json_t *findings = json_array();
    bool ready = true;
    for (int i = 0; i < gpu->n_findings; i++) {
        const sg_gpu_finding *f = &gpu->findings[i];
        ready = ready && f->severity != SG_GPU_BLOCKS;
        (void)json_array_append_new(findings,
                                    json_pack("{s:s, s:s, s:s}", "severity", sg_gpu_severity_name(f->severity), "what",
                                              f->what, "text", f->text));
    }
    set(o, "ready", json_boolean(ready));
    set(o, "findings", findings);
    return o;
}

static json_t *json_libraries(const sg_gpu_survey *s) {
    if (!s->libraries_sought) return json_null();
    json_t *list = json_array();
    for (int i = 0; i < SG_CUDA_LIBRARY_COUNT; i++) {
        json_t *o = json_pack("{s:s, s:s, s:b}", "name", sg_cuda_library_name((sg_cuda_library)i), "file",
                              sg_cuda_library_file((sg_cuda_library)i), "optional",
                              (int)sg_cuda_library_optional((sg_cuda_library)i));
        bool found = s->libraries.path[i][0];
        set(o, "path", found ? words(s->libraries.path[i]) : json_null());
        set(o, "version", s->libraries.version[i][0] ? words(s->libraries.version[i]) : json_null());
        if (!found) set(o, "remedy", json_string(sg_cuda_library_remedy((sg_cuda_library)i)));
        (void)json_array_append_new(list, o);
    }
    return list;
}

void sg_gpu_survey_json(const sg_gpu_survey *s, json_t *row) {
    json_t *driver = json_object(), *gpus = json_array(), *topology = json_array();
    int major = s->driver.cuda_version / 1000, minor = s->driver.cuda_version % 1000 / 10;
    set(driver, "version", s->driver_version[0] ? words(s->driver_version) : json_null());
    set(driver, "cuda", positive(major + 0.1 * minor));
    set(driver, "ready", json_boolean(s->driver.problem == SG_DRIVER_READY));
    set(driver, "text", words(s->driver.text));
    set(driver, "nvml", s->nvml[0] ? words(s->nvml) : json_null());
    set(row, "driver", driver);
    set(row, "visible", s->visible.text[0] ? words(s->visible.text) : json_null());
    set(row, "libraries", json_libraries(s));
    set(row, "libraries_problem", s->libraries_problem[0] ? words(s->libraries_problem) : json_null());
    for (int i = 0; i < s->n; i++) {
        json_t *line = json_array();
        for (int k = 0; k < s->n; k++) (void)json_array_append_new(line, json_string(s->connections[i * s->n + k]));
        (void)json_array_append_new(gpus, json_gpu(&s->gpus[i]));
        (void)json_array_append_new(topology, line);
    }
    set(row, "gpus", gpus);
    set(row, "topology", topology);
}
