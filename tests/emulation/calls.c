/* calls.c: every call of an emulated library is counted by the place it comes from, and can be made to fail. */
#include "tests/emulation/state.h"

#include <string.h>

enum { SITES_MOST = 4096 };

static struct {
    pthread_mutex_t lock;
    int64_t calls, fail_in;
    const void *fail_site;
    bool failed;
    int lose; /* device that is lost with copy number lose_in of those who use it */
    int64_t lose_in;
    sg_emu_site site[SITES_MOST];
    size_t n;
} calls = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void remember(const char *call, const void *site) {
    for (size_t i = 0; i < calls.n; i++)
        if (calls.site[i].site == site) {
            calls.site[i].calls++;
            return;
        }
    if (calls.n < SITES_MOST) calls.site[calls.n++] = (sg_emu_site){call, site, 1};
}

/* Freeing must never fail for want of luck: those calls are counted, not failed. */
bool sg_emu_call_fails(const char *call, const void *site) {
    pthread_mutex_lock(&calls.lock);
    calls.calls++;
    remember(call, site);
    bool fails = calls.fail_in > 0 && (!calls.fail_site || calls.fail_site == site) && --calls.fail_in == 0;
    if (fails) calls.failed = true;
    bool counts = strcmp(call, "cudaMemcpyAsync") == 0; /* others depend on how long something takes */
    bool loses = counts && calls.lose_in > 0 && sg_emu_current() == calls.lose && --calls.lose_in == 0;
    if (loses) __atomic_store_n(&sg_emu()->lost[calls.lose], true, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&calls.lock);
    return fails;
}

int64_t sg_emu_calls(void) {
    pthread_mutex_lock(&calls.lock);
    int64_t n = calls.calls;
    pthread_mutex_unlock(&calls.lock);
    return n;
}

void sg_emu_fail_site(const void *site, int64_t nth) {
    pthread_mutex_lock(&calls.lock);
    calls.fail_site = site;
    calls.fail_in = nth;
    calls.failed = false;
    pthread_mutex_unlock(&calls.lock);
}

void sg_emu_lose_after(int device, int64_t nth) {
    pthread_mutex_lock(&calls.lock);
    calls.lose = device;
    calls.lose_in = device >= 0 && device < SG_EMU_DEVICES_MOST ? nth : 0;
    pthread_mutex_unlock(&calls.lock);
}

void sg_emu_fail_call(int64_t nth) {
    sg_emu_fail_site(NULL, nth);
}

bool sg_emu_has_failed(void) {
    pthread_mutex_lock(&calls.lock);
    bool failed = calls.failed;
    pthread_mutex_unlock(&calls.lock);
    return failed;
}

size_t sg_emu_sites(sg_emu_site *sites, size_t most) {
    pthread_mutex_lock(&calls.lock);
    size_t n = calls.n;
    for (size_t i = 0; i < n && i < most; i++) sites[i] = calls.site[i];
    pthread_mutex_unlock(&calls.lock);
    return n;
}

void sg_emu_forget_sites(void) {
    pthread_mutex_lock(&calls.lock);
    calls.n = 0;
    pthread_mutex_unlock(&calls.lock);
}
