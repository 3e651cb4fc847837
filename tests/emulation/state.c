/* state.c: the emulated machine: settings, the lock, errors. */
#include "tests/emulation/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static sg_emu_state state;
static _Thread_local cudaError_t last_error;
static _Thread_local int current_device;

static void take_setting(const char *name, long long value) {
    if (strcmp(name, "gpus") == 0) sg_emu_set_devices((int)value);
    if (strcmp(name, "memory_mib") == 0) sg_emu_set_memory((size_t)value << 20);
    if (strcmp(name, "capability") == 0) sg_emu_set_capability((int)value);
    if (strcmp(name, "driver") == 0) sg_emu_set_driver((int)value);
    if (strcmp(name, "order") == 0) sg_emu_set_order((unsigned)value);
    if (strcmp(name, "fail") == 0) sg_emu_fail_call(value);
    if (strcmp(name, "lost") == 0) sg_emu_lose_device((int)value, true);
    if (strcmp(name, "small") == 0) state.small = (int)value;
    if (strcmp(name, "small_mib") == 0) state.small_bytes = (size_t)value << 20;
    if (strcmp(name, "lose") == 0) state.lose = (int)value;
    if (strcmp(name, "lose_after") == 0) sg_emu_lose_after(state.lose, value);
    if (strcmp(name, "other_model") == 0) state.other_model = (int)value;
}

/* As CUDA does: indices up to the first that names no device; a device named twice hides all. */
static void hide_devices(const char *visible) {
    int kept[SG_EMU_DEVICES_MOST], n = 0;
    for (const char *at = visible; *at && n < state.devices;) {
        char *end;
        long index = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',') || index < 0 || index >= state.devices) break;
        for (int i = 0; i < n; i++)
            if (kept[i] == index) {
                state.devices = 0;
                return;
            }
        kept[n++] = (int)index;
        at = *end ? end + 1 : end;
    }
    memcpy(state.card, kept, sizeof kept);
    state.devices = n;
}

__attribute__((constructor)) static void start(void) {
    pthread_mutex_init(&state.lock, NULL);
    pthread_cond_init(&state.moved, NULL);
    state.devices = 1;
    state.capability = 90;
    state.driver = 13000;
    state.memory_bytes = (size_t)4 << 30;
    state.other_model = state.small = -1;
    for (int i = 0; i < SG_EMU_DEVICES_MOST; i++) state.card[i] = i;
    const char *text = getenv("STEPGAUGE_EMULATION");
    while (text && *text) {
        char name[32];
        long long value;
        if (sscanf(text, "%31[a-z_]=%lld", name, &value) == 2) take_setting(name, value);
        text = strchr(text, ',');
        if (text) text++;
    }
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible) hide_devices(visible);
}

/* A fault that nobody asked after must not pass. */
__attribute__((destructor)) static void stop(void) {
    if (!state.has_fault) return;
    fprintf(stderr, "CUDA emulation: %s\n", state.fault);
    _exit(3);
}

sg_emu_state *sg_emu(void) {
    return &state;
}
void sg_emu_lock(void) {
    pthread_mutex_lock(&state.lock);
}
void sg_emu_unlock(void) {
    pthread_mutex_unlock(&state.lock);
}
int sg_emu_current(void) {
    return current_device;
}

void sg_emu_set_devices(int count) {
    state.devices = count < 0 ? 0 : count > SG_EMU_DEVICES_MOST ? SG_EMU_DEVICES_MOST : count;
}
void sg_emu_set_capability(int capability) {
    state.capability = capability;
}
void sg_emu_set_memory(size_t bytes) {
    state.memory_bytes = bytes;
}
size_t sg_emu_memory_of(int device) {
    return state.card[device] == state.small ? state.small_bytes : state.memory_bytes;
}
void sg_emu_set_driver(int version) {
    state.driver = version;
}
void sg_emu_set_order(unsigned order) {
    state.order = order;
}
void sg_emu_lose_device(int device, bool lost) {
    if (device < 0 || device >= SG_EMU_DEVICES_MOST) return;
    sg_emu_lock();
    __atomic_store_n(&state.lost[device], lost, __ATOMIC_RELAXED);
    if (!lost) state.faulted[device] = false;
    sg_emu_unlock();
}

double sg_emu_now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

cudaError_t sg_emu_set_error(cudaError_t error) {
    if (error != cudaSuccess) last_error = error; /* cudaErrorNotReady too, as in CUDA */
    return error;
}

cudaError_t sg_emu_device_error(int device) {
    bool fails = __atomic_load_n(&state.lost[device], __ATOMIC_RELAXED) || state.faulted[device];
    return fails ? cudaErrorLaunchFailure : cudaSuccess;
}

/* A lock of its own: faults are reported with and without the state's. */
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;

void sg_emu_report_fault(const char *format, ...) {
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&fault_lock);
    if (!state.has_fault) vsnprintf(state.fault, sizeof state.fault, format, args);
    state.has_fault = true;
    pthread_mutex_unlock(&fault_lock);
    va_end(args);
}

const char *sg_emu_fault(void) {
    static _Thread_local char text[sizeof state.fault];
    pthread_mutex_lock(&fault_lock);
    bool had = state.has_fault;
    if (had) memcpy(text, state.fault, sizeof text);
    state.has_fault = false;
    pthread_mutex_unlock(&fault_lock);
    return had ? text : NULL;
}

sg_emu_alive sg_emu_count_alive(void) {
    sg_emu_lock();
    sg_emu_alive alive = state.alive;
    sg_emu_unlock();
    return alive;
}

void sg_emu_count_handle(int change) {
    sg_emu_lock();
    state.alive.handles += change;
    sg_emu_unlock();
}

/* ---- errors --------------------------------------------------------------------------------------------------------- */

const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInitializationError: return "cudaErrorInitializationError";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorECCUncorrectable: return "cudaErrorECCUncorrectable";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnjoined: return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation: return "cudaErrorStreamCaptureIsolation";
    case cudaErrorCapturedEvent: return "cudaErrorCapturedEvent";
    case cudaErrorStreamCaptureWrongThread: return "cudaErrorStreamCaptureWrongThread";
    default: return "cudaErrorUnknown";
    }
}
const char *cudaGetErrorString(cudaError_t error) {
    return cudaGetErrorName(error);
}
cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}
cudaError_t cudaPeekAtLastError(void) {
    return last_error;
}

/* ---- devices --------------------------------------------------------------------------------------------------------- */

cudaError_t cudaDriverGetVersion(int *version) {
    SG_EMU_ENTER();
    *version = state.driver;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    SG_EMU_ENTER();
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *count) {
    SG_EMU_ENTER();
    if (state.driver < 13000) return sg_emu_set_error(cudaErrorInsufficientDriver);
    *count = state.devices;
    return state.devices ? cudaSuccess : sg_emu_set_error(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
    SG_EMU_ENTER();
    if (device < 0 || device >= state.devices) return sg_emu_set_error(cudaErrorInvalidDevice);
    current_device = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
    SG_EMU_ENTER();
    *device = current_device;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
    SG_EMU_ENTER();
    if (device < 0 || device >= state.devices) return sg_emu_set_error(cudaErrorInvalidDevice);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "Emulated GPU%s", state.card[device] == state.other_model ? " II" : "");
    p->totalGlobalMem = sg_emu_memory_of(device);
    p->sharedMemPerBlock = 48 << 10;
    p->major = state.capability / 10;
    p->minor = state.capability % 10;
    p->multiProcessorCount = 4;
    p->l2CacheSize = 4 << 20;
    p->maxThreadsPerMultiProcessor = 2048;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int device) {
    SG_EMU_ENTER();
    if (device < 0 || device >= state.devices) return sg_emu_set_error(cudaErrorInvalidDevice);
    snprintf(text, (size_t)bytes, "0000:%02X:00.0", state.card[device] + 1);
    return cudaSuccess;
}
