/* machine_describe.c: this host, for the head of a run file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "kernels/nvidia/nvml.h"
#include "sim/measure/host_state.h"
#include "sim/measure/measure.h"

/* The value behind the first line of `path` that starts with `key`, without quotes and the line's end. */
static void value_in(const char *path, const char *key, char separator, char *out, size_t bytes) {
    FILE *f = fopen(path, "re");
    if (!f) return;
    char line[512];
    while (fgets(line, sizeof line, f)) {
        const char *at = strchr(line, separator);
        if (strncmp(line, key, strlen(key)) != 0 || !at) continue;
        at += strspn(at + 1, " \t\"") + 1;
        (void)snprintf(out, bytes, "%.*s", (int)strcspn(at, "\"\r\n"), at);
        break;
    }
    (void)fclose(f);
}

static bool is_listed(const char *list, const char *text) {
    size_t n = strlen(text);
    for (const char *at = list; (at = strstr(at, text)) != NULL; at++)
        if ((at == list || at[-1] == ' ') && (at[n] == ',' || at[n] == '\0')) return true;
    return false;
}

/* Appends the text behind a comma, once and whole, if there is room. */
static void add_once(char *list, size_t bytes, const char *text) {
    size_t used = strlen(list), n = strlen(text);
    if (n == 0 || is_listed(list, text) || used + n + 3 > bytes) return;
    if (used) {
        memcpy(list + used, ", ", 3);
        used += 2;
    }
    memcpy(list + used, text, n + 1);
}

static void describe_gpus(sg_machine_record *m) {
    sg_nvml *nvml;
    sg_gpu_state *g = malloc(sizeof *g);
    if (g && sg_nvml_open(NULL, &nvml, NULL) == SG_OK) {
        int n = sg_nvml_count(nvml);
        char connection[8];
        m->gpus = n;
        (void)snprintf(m->gpu_driver, sizeof m->gpu_driver, "%.31s", sg_nvml_driver(nvml));
        for (int i = 0; i < n; i++) {
            if (sg_nvml_read(nvml, i, g, NULL) != SG_OK) continue;
            int64_t bytes = g->total_bytes < INT64_MAX ? (int64_t)g->total_bytes : 0;
            add_once(m->gpu, sizeof m->gpu, g->name);
            if (bytes && (!m->gpu_memory_bytes || bytes < m->gpu_memory_bytes)) m->gpu_memory_bytes = bytes;
            for (int k = 0; k < i; k++) {
                sg_nvml_connection(nvml, k, i, connection);
                add_once(m->gpu_topology, sizeof m->gpu_topology, connection);
            }
        }
        sg_nvml_close(nvml);
    }
    free(g);
}

void sg_machine_describe(sg_machine_record *m) {
    memset(m, 0, sizeof *m);
    if (gethostname(m->hostname, sizeof m->hostname - 1)) m->hostname[0] = 0;
    value_in("/proc/cpuinfo", "model name", ':', m->cpu, sizeof m->cpu);
    struct utsname u;
    bool known = uname(&u) == 0;
    if (!m->cpu[0] && known) (void)snprintf(m->cpu, sizeof m->cpu, "%s", u.machine);
    (void)snprintf(m->device, sizeof m->device, "%s", m->cpu);
    char name[40] = "";
    value_in("/etc/os-release", "PRETTY_NAME", '=', name, sizeof name);
    if (known) (void)snprintf(m->os, sizeof m->os, "%s%sLinux %.40s", name, name[0] ? ", " : "", u.release);
    (void)snprintf(m->program_version, sizeof m->program_version, "%s", SG_VERSION);
    sg_host_state state;
    sg_host_state_read(&state);
    long cores = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    m->cores = cores > 0 ? cores : state.processors;
    m->threads = state.processors;
    m->memory_bytes = pages > 0 && page > 0 ? (int64_t)pages * page : 0;
    m->clock_mhz = state.clock_mhz;
    describe_gpus(m);
}
