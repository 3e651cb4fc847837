/* host_state.c: see host_state.h. Linux: /proc, getrusage, control groups version 2. */
#include "sim/measure/host_state.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernels/clock.h"

/* More than these shares of the processors' time make a measurement suspect. */
static const double OTHERS_SHARE = 0.10, STOLEN_SHARE = 0.05, THROTTLED_SHARE = 0.02, CLOCK_CHANGE = 0.10;
/* Preemptions per second and processor: a quiet machine has a few, one that is shared a hundred or more. */
static const double PREEMPTIONS_PER_S = 250;

/* The number behind `key` at the start of a line, or -1. */
static double number_in(const char *path, const char *key) {
    FILE *f = fopen(path, "re");
    if (!f) return -1;
    char line[256];
    double value = -1;
    size_t n = strlen(key);
    while (value < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, key, n) == 0) value = strtod(line + n, NULL);
    (void)fclose(f);
    return value;
}

/* The number a file consists of; -1 where it is missing or says "max". */
static double number_of(const char *path) {
    FILE *f = fopen(path, "re");
    if (!f) return -1;
    char line[64], *end = line;
    double value = -1;
    if (fgets(line, sizeof line, f)) value = strtod(line, &end);
    (void)fclose(f);
    return end == line ? -1 : value;
}

static bool affinity(cpu_set_t *set) {
    CPU_ZERO(set);
    return sched_getaffinity(0, sizeof *set, set) == 0 && CPU_COUNT(set) > 0;
}

int sg_host_processors(void) {
    cpu_set_t set;
    if (affinity(&set)) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/* /proc/stat: "cpuN user nice system idle iowait irq softirq steal ..." in clock ticks. */
static void read_processors(sg_host_state *s) {
    cpu_set_t set;
    FILE *f = fopen("/proc/stat", "re");
    if (!f) return;
    bool masked = affinity(&set);
    double ticks = (double)sysconf(_SC_CLK_TCK);
    char line[512];
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "cpu", 3) != 0 || line[3] < '0' || line[3] > '9') continue;
        char *at = line + 3;
        unsigned long n = strtoul(at, &at, 10);
        if (masked && (n >= CPU_SETSIZE || !CPU_ISSET((int)n, &set))) continue;
        double t[8] = {0};
        for (int i = 0; i < 8; i++) t[i] = strtod(at, &at);
        if (s->busy_s < 0) s->busy_s = s->stolen_s = 0;
        s->busy_s += (t[0] + t[1] + t[2] + t[5] + t[6]) / ticks;
        s->stolen_s += t[7] / ticks;
    }
    (void)fclose(f);
}

static double mean_clock_mhz(void) {
    FILE *f = fopen("/proc/cpuinfo", "re");
    if (!f) return 0;
    char line[512];
    double sum = 0;
    int n = 0;
    while (fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "cpu MHz", 7) != 0 || !colon) continue;
        sum += strtod(colon + 1, NULL);
        n++;
    }
    (void)fclose(f);
    return n ? sum / n : 0;
}

void sg_host_state_read(sg_host_state *s) {
    *s = (sg_host_state){.busy_s = -1, .stolen_s = -1, .load_average = -1, .processors = sg_host_processors()};
    read_processors(s);
    s->clock_mhz = mean_clock_mhz();
    double load;
    if (getloadavg(&load, 1) == 1) s->load_average = load;
    double throttled = number_in("/sys/fs/cgroup/cpu.stat", "throttled_usec ");
    s->throttled_s = throttled > 0 ? 1e-6 * throttled : 0;
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        s->own_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
        s->preemptions = usage.ru_nivcsw;
    }
    s->at_s = sg_clock_s();
}

/* Appends one reason, separated from those before. */
__attribute__((format(printf, 3, 4))) static void add(char *why, size_t bytes, const char *format, ...) {
    size_t used = strlen(why);
    if (used && used + 2 < bytes) {
        memcpy(why + used, "; ", 3);
        used += 2;
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why + used, bytes - used, format, args);
    va_end(args);
}

sg_host_others sg_host_others_between(const sg_host_state *a, const sg_host_state *b, int own_processes) {
    sg_host_others o = {0, 0};
    double elapsed = b->at_s - a->at_s, capacity = elapsed * b->processors;
    if (!(elapsed > 0)) return o;
    if (a->busy_s >= 0 && b->busy_s >= 0) {
        o.processors = ((b->busy_s - a->busy_s) - own_processes * (b->own_s - a->own_s)) / elapsed;
        o.withheld_share = (b->stolen_s - a->stolen_s) / capacity;
    } else {
        o.processors = a->load_average - own_processes;
    }
    o.withheld_share = fmax(0, o.withheld_share) + fmax(0, (b->throttled_s - a->throttled_s) / elapsed);
    o.processors = fmax(0, o.processors);
    return o;
}

int sg_host_state_compare(const sg_host_state *a, const sg_host_state *b, int own_processes, char *why, size_t bytes) {
    double elapsed = b->at_s - a->at_s, capacity = elapsed * b->processors;
    int reasons = 0;
    if (!(elapsed > 0)) return 0;
    if (a->busy_s >= 0 && b->busy_s >= 0) {
        double others = sg_host_others_between(a, b, own_processes).processors;
        if (others > OTHERS_SHARE * b->processors && ++reasons)
            add(why, bytes, "other processes used %.1f of %d processors", others, b->processors);
        double stolen = b->stolen_s - a->stolen_s;
        if (stolen > STOLEN_SHARE * capacity && ++reasons)
            add(why, bytes, "the hypervisor gave %.0f %% of the processors' time to others", 100 * stolen / capacity);
    } else if (a->load_average > 1.25 * a->processors && ++reasons) {
        add(why, bytes, "load average %.1f on %d processors at the start", a->load_average, a->processors);
    }
    double throttled = b->throttled_s - a->throttled_s;
    if (throttled > THROTTLED_SHARE * elapsed && ++reasons)
        add(why, bytes, "the control group's processor quota held this process back for %.1f s", throttled);
    double preempted = (double)(b->preemptions - a->preemptions) / capacity;
    if (preempted > PREEMPTIONS_PER_S && ++reasons)
        add(why, bytes, "preempted %.0f times per second and processor", preempted);
    if (a->clock_mhz > 0 && b->clock_mhz > 0) {
        double change = b->clock_mhz / a->clock_mhz - 1;
        if ((change > CLOCK_CHANGE || change < -CLOCK_CHANGE) && ++reasons)
            add(why, bytes, "the clock went from %.0f to %.0f MHz", a->clock_mhz, b->clock_mhz);
    }
    return reasons;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

uint64_t sg_host_available_bytes(void) {
    double available = number_in("/proc/meminfo", "MemAvailable:");
    double bytes = available > 0 ? 1024 * available : 0;
    double limit = number_of("/sys/fs/cgroup/memory.max"), current = number_of("/sys/fs/cgroup/memory.current");
    if (limit > 0 && current >= 0) {
        double left = limit > current ? limit - current : 1;
        if (bytes <= 0 || left < bytes) bytes = left;
    }
    return bytes > 0 ? (uint64_t)bytes : 0;
}

uint64_t sg_host_peak_resident_bytes(void) {
    double kib = number_in("/proc/self/status", "VmHWM:");
    if (kib > 0) return (uint64_t)(1024 * kib);
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

void sg_host_reset_peak_resident(void) {
    int f = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (f < 0) return;
    ssize_t written;
    do written = write(f, "5", 1);
    while (written < 0 && errno == EINTR);
    (void)close(f);
}
