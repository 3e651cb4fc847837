/* gpu_state.c: see gpu_state.h. */
#include "sim/measure/gpu_state.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/nvidia/nvml.h"

enum { SAMPLES_MAX = 1 << 16, PERIOD_NS = 200000000 };

/* The kernel's number of the initial PID namespace (PROC_PID_INIT_INO): elsewhere the driver's process numbers are not
 * those that this process sees. */
static const char INITIAL_PIDS[] = "pid:[4026531836]";

struct sg_gpu_watch {
    sg_nvml *nvml;
    int gpu;
    pthread_t thread;
    pthread_mutex_t lock; /* of `ending` */
    pthread_cond_t end;
    bool ending;
    /* of the thread until it has ended */
    double *sm_mhz, *memory_mhz;
    size_t n, room;
    double temperature_c, power_w; /* highest, sum */
    int64_t powers;
    uint64_t reasons;
    int64_t others;
    int pcie_generation, pcie_width;
    bool lost;
};

/* ---- the thread ---------------------------------------------------------------------------------------------------- */

static bool sees_host_pids(void) {
    char name[64];
    ssize_t n = readlink("/proc/self/ns/pid", name, sizeof name - 1);
    if (n <= 0) return true;
    name[n] = '\0';
    return strcmp(name, INITIAL_PIDS) == 0;
}

/* Processes on the GPU beside this one. In a container this one may be listed under a number that it does not know: then
 * one of the list is it, because it holds the GPU open. */
static int64_t other_processes(sg_gpu_watch *w) {
    sg_gpu_process list[SG_NVML_PROCESSES_MAX];
    int n = sg_nvml_processes(w->nvml, w->gpu, list, SG_NVML_PROCESSES_MAX);
    if (n <= 0) return 0;
    unsigned own = (unsigned)getpid();
    for (int i = 0; i < n && i < SG_NVML_PROCESSES_MAX; i++)
        if (list[i].pid == own) return n - 1;
    return sees_host_pids() ? n : n - 1;
}

static bool make_room(sg_gpu_watch *w) {
    if (w->n < w->room) return true;
    size_t room = w->room ? 2 * w->room : 256;
    if (room > SAMPLES_MAX) return false;
    double *sm = realloc(w->sm_mhz, room * sizeof *sm);
    if (sm) w->sm_mhz = sm;
    double *memory = realloc(w->memory_mhz, room * sizeof *memory);
    if (memory) w->memory_mhz = memory;
    if (!sm || !memory) return false;
    w->room = room;
    return true;
}

static void take_sample(sg_gpu_watch *w) {
    sg_gpu_sample s;
    sg_nvml_sample(w->nvml, w->gpu, &s);
    if (s.lost) w->lost = true;
    if (s.lost || !make_room(w)) return;
    w->sm_mhz[w->n] = s.sm_mhz;
    w->memory_mhz[w->n] = s.memory_mhz;
    w->n++;
    if (s.temperature_c > w->temperature_c) w->temperature_c = s.temperature_c;
    w->power_w += s.power_w;
    w->powers += s.power_w > 0;
    w->reasons |= s.reasons;
    if (s.pcie_generation > w->pcie_generation) w->pcie_generation = s.pcie_generation;
    if (s.pcie_width > w->pcie_width) w->pcie_width = s.pcie_width;
    int64_t others = other_processes(w);
    if (others > w->others) w->others = others;
}

static bool wait_for_end(sg_gpu_watch *w) {
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += PERIOD_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void)pthread_mutex_lock(&w->lock);
    int late = 0;
    while (!w->ending && !late) late = pthread_cond_timedwait(&w->end, &w->lock, &until);
    bool ending = w->ending;
    (void)pthread_mutex_unlock(&w->lock);
    return ending;
}

/* A last sample at the end: even the shortest measurement has two, and a GPU lost in it is noticed. */
static void *watch_it(void *user) {
    sg_gpu_watch *w = user;
    do take_sample(w);
    while (!w->lost && !wait_for_end(w));
    if (!w->lost) take_sample(w);
    return NULL;
}

/* ---- start and stop ------------------------------------------------------------------------------------------------ */

static void free_watch(sg_gpu_watch *w) {
    sg_nvml_close(w->nvml);
    free(w->sm_mhz);
    free(w->memory_mhz);
    free(w);
}

static bool start_thread(sg_gpu_watch *w) {
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic)) return false;
    bool made = !pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) && !pthread_cond_init(&w->end, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    if (!made) return false;
    if (!pthread_mutex_init(&w->lock, NULL)) {
        if (!pthread_create(&w->thread, NULL, watch_it, w)) return true;
        (void)pthread_mutex_destroy(&w->lock);
    }
    (void)pthread_cond_destroy(&w->end);
    return false;
}

sg_gpu_watch *sg_gpu_watch_start(const sg_device_info *info) {
    if (!info->bus[0]) return NULL;
    sg_gpu_watch *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    if (sg_nvml_open(NULL, &w->nvml, NULL) == SG_OK) {
        w->gpu = sg_nvml_find(w->nvml, info->bus);
        if (w->gpu >= 0 && start_thread(w)) return w;
    }
    free_watch(w);
    return NULL;
}

static void copy_text(char *to, size_t bytes, const char *from) {
    size_t n = strnlen(from, bytes - 1);
    memcpy(to, from, n);
    to[n] = '\0';
}

static void summarise(const sg_gpu_watch *w, sg_gpu_conditions *c) {
    sg_gpu_state *g = malloc(sizeof *g);
    if (g && sg_nvml_read(w->nvml, w->gpu, g, NULL) == SG_OK) {
        copy_text(c->name, sizeof c->name, g->name);
        copy_text(c->bus, sizeof c->bus, g->bus);
        c->power_limit_w = g->power_limit_w;
    }
    free(g);
    copy_text(c->driver, sizeof c->driver, sg_nvml_driver(w->nvml));
    c->samples = (int64_t)w->n;
    if (w->n) c->sm_clock_mhz = sg_statistic_of(w->sm_mhz, w->n).median;
    if (w->n) c->memory_clock_mhz = sg_statistic_of(w->memory_mhz, w->n).median;
    c->temperature_c = w->temperature_c > 0 ? w->temperature_c : 0;
    if (w->powers) c->power_w = w->power_w / (double)w->powers;
    c->other_processes = w->others;
    c->pcie_generation = w->pcie_generation;
    c->pcie_width = w->pcie_width;
    sg_gpu_reasons_text(w->reasons, c->throttle, sizeof c->throttle);
}

sg_code sg_gpu_watch_stop(sg_gpu_watch *w, const sg_device_info *info, sg_gpu_conditions *c, sg_status *status) {
    memset(c, 0, sizeof *c);
    if (info->bus[0]) {
        copy_text(c->name, sizeof c->name, info->name);
        copy_text(c->driver, sizeof c->driver, info->driver);
        copy_text(c->bus, sizeof c->bus, info->bus);
        copy_text(c->libraries, sizeof c->libraries, info->library);
    }
    if (!w) return SG_OK;
    (void)pthread_mutex_lock(&w->lock);
    w->ending = true;
    (void)pthread_cond_signal(&w->end);
    (void)pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    (void)pthread_mutex_destroy(&w->lock);
    (void)pthread_cond_destroy(&w->end);
    summarise(w, c);
    bool lost = w->lost;
    free_watch(w);
    if (!lost) return SG_OK;
    return sg_fail(status, SG_MACHINE,
                   "GPU %s (%s) fell off the bus while it was measured: restart the machine and measure again; if it "
                   "happens again, check its power supply and cooling ('dmesg | grep -i xid' says what came before)",
                   info->bus, info->name);
}

/* ---- judging ------------------------------------------------------------------------------------------------------- */

static void add(char *why, size_t bytes, const char *sentence) {
    size_t used = strlen(why);
    if (used + 1 < bytes) (void)snprintf(why + used, bytes - used, "%s%s", used ? "; " : "", sentence);
}

int sg_gpu_conditions_judge(const sg_gpu_conditions *c, char *why, size_t bytes) {
    static const char *const faults[] = {"hardware slowdown", "thermal", "power brake"};
    char sentence[256];
    int reasons = 0;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (!strstr(c->throttle, faults[i])) continue;
        (void)snprintf(sentence, sizeof sentence, "the GPU was throttled (%s, up to %.0f C)", c->throttle,
                       c->temperature_c);
        add(why, bytes, sentence);
        reasons++;
        break;
    }
    if (c->other_processes > 0) {
        (void)snprintf(sentence, sizeof sentence, "%lld other process(es) computed on the GPU",
                       (long long)c->other_processes);
        add(why, bytes, sentence);
        reasons++;
    }
    return reasons;
}
