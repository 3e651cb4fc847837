/* machine_describe.c: this host, for the head of a run file. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "sim/host_state.h"
#include "sim/measure.h"

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
}
