#include "kernels/nvidia/driver.h"

#include <ctype.h>
#include <dlfcn.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 1024 };

/* Results of cuInit (CUDA driver API, enum cudaError_enum). */
enum {
    CUDA_OK = 0,
    CUDA_STUB_LIBRARY = 34,
    CUDA_DEVICE_UNAVAILABLE = 46,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_SYSTEM_NOT_READY = 802,
    CUDA_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_COMPAT_NOT_SUPPORTED = 804,
    CUDA_UNKNOWN = 999
};

/* ---- what the operating system shows -------------------------------------------------------------------------------- */

static bool below(const char *root, const char *path, char out[PATH_BYTES]) {
    int n = snprintf(out, PATH_BYTES, "%s%s", root, path);
    return n > 0 && n < PATH_BYTES;
}

static bool there(const char *root, const char *path) {
    char whole[PATH_BYTES];
    return below(root, path, whole) && access(whole, F_OK) == 0;
}

/* The file's first bytes as text; "" when there is none. */
static void read_text(const char *path, char *text, size_t bytes) {
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, bytes - 1, f) : 0;
    text[n] = '\0';
    if (f) (void)fclose(f);
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  ...": the first word of digits and dots. */
static void read_version(const char *root, char version[32]) {
    char path[PATH_BYTES], text[512];
    version[0] = '\0';
    if (!below(root, "/proc/driver/nvidia/version", path)) return;
    read_text(path, text, sizeof text);
    for (char *at = text; (at = strpbrk(at, " \t")) != NULL;) {
        at += strspn(at, " \t");
        size_t n = strspn(at, "0123456789.");
        if (n < 3 || n > 31 || !memchr(at, '.', n) || (at[n] && !isspace((unsigned char)at[n]))) continue;
        memcpy(version, at, n);
        version[n] = '\0';
        return;
    }
}

static int count_nodes(const char *root) {
    char pattern[PATH_BYTES];
    glob_t found;
    if (!below(root, "/dev/nvidia[0-9]*", pattern)) return 0;
    int n = glob(pattern, 0, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
    globfree(&found);
    return n;
}

static bool is_nvidia_card(const char *folder) {
    char path[PATH_BYTES], text[32];
    if (!below(folder, "/vendor", path)) return false;
    read_text(path, text, sizeof text);
    if (strncmp(text, "0x10de", 6) != 0 || !below(folder, "/class", path)) return false;
    read_text(path, text, sizeof text);
    return strncmp(text, "0x0300", 6) == 0 || strncmp(text, "0x0302", 6) == 0; /* VGA, 3D controller */
}

static int count_cards(const char *root) {
    char pattern[PATH_BYTES];
    glob_t found;
    int n = 0;
    if (!below(root, "/sys/bus/pci/devices/*", pattern)) return 0;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++) n += is_nvidia_card(found.gl_pathv[i]);
    globfree(&found);
    return n;
}

static bool is_container(const char *root) {
    static const char *const words[] = {"docker", "kubepods", "containerd", "libpod", "lxc"};
    char path[PATH_BYTES], text[4096];
    if (there(root, "/.dockerenv") || there(root, "/run/.containerenv")) return true;
    if (!below(root, "/proc/1/cgroup", path)) return false;
    read_text(path, text, sizeof text);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(text, words[i])) return true;
    return false;
}

/* ---- what the driver's library says ---------------------------------------------------------------------------------- */

typedef struct cuda_driver {
    int (*init)(unsigned flags);
    int (*version)(int *version);
    int (*count)(int *count);
} cuda_driver;

/* ISO C has no conversion from dlsym's object pointer to a function pointer; POSIX promises that the bytes are one. */
static bool find_function(void *library, const char *symbol, void *function, size_t bytes) {
    void *found = dlsym(library, symbol);
    if (!found || bytes != sizeof found) return false;
    memcpy(function, &found, bytes);
    return true;
}

/* The library stays open: once started it has threads and exit handlers of its own. */
static bool open_cuda(const char *folder, cuda_driver *cuda) {
    char path[PATH_BYTES] = "libcuda.so.1";
    if (folder && !below(folder, "/libcuda.so.1", path)) return false;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library && find_function(library, "cuInit", &cuda->init, sizeof cuda->init) &&
           find_function(library, "cuDriverGetVersion", &cuda->version, sizeof cuda->version) &&
           find_function(library, "cuDeviceGetCount", &cuda->count, sizeof cuda->count);
}

static void ask_cuda(const char *folder, sg_nvidia_driver *d) {
    cuda_driver cuda;
    d->library = open_cuda(folder, &cuda);
    if (!d->library) return;
    if (cuda.version(&d->cuda_version) != CUDA_OK || d->cuda_version < 0) d->cuda_version = 0;
    d->cuda_error = cuda.init(0);
    if (d->cuda_error == CUDA_OK && cuda.count(&d->devices) != CUDA_OK) d->devices = 0;
    if (d->devices < 0) d->devices = 0;
}

/* ---- answers --------------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void tell(sg_nvidia_driver *d, sg_driver_problem problem,
                                                       const char *format, ...) {
    va_list args;
    d->problem = problem;
    va_start(args, format);
    (void)vsnprintf(d->text, sizeof d->text, format, args);
    va_end(args);
}

static void without_library(const char *root, sg_nvidia_driver *d) {
    bool hardware = d->cards > 0 || d->nodes > 0 || d->module;
    if (!hardware)
        tell(d, SG_DRIVER_NO_GPU,
             "no NVIDIA device node and no driver; 'predict --machine NAME' and 'plan' answer for GPUs that are "
             "elsewhere");
    else if (d->container)
        tell(
            d, SG_DRIVER_CONTAINER,
            "this container was started without its host's GPUs: start it with 'docker run --gpus all' (the host needs "
            "nvidia-container-toolkit) and NVIDIA_DRIVER_CAPABILITIES=compute,utility");
    else if (d->module)
        tell(d, SG_DRIVER_NO_LIBRARY,
             "the NVIDIA kernel module %s is loaded, but libcuda.so.1 is not to be found: install the libraries of the "
             "same version (Debian: libcuda1, Ubuntu: libnvidia-compute-%.*s) or add their folder to LD_LIBRARY_PATH",
             d->version, (int)strcspn(d->version, "."), d->version);
    else
        tell(d, SG_DRIVER_NOT_INSTALLED,
             "%d NVIDIA card(s) or device node(s), but no NVIDIA driver is installed%s: install driver %d or newer "
             "(Ubuntu: apt install nvidia-driver-%d) and reboot",
             d->cards > d->nodes ? d->cards : d->nodes,
             there(root, "/sys/module/nouveau") ? " (nouveau drives them)" : "", SG_DRIVER_NEEDED, SG_DRIVER_NEEDED);
}

static void no_device(const char *visible, sg_nvidia_driver *d) {
    if (visible)
        tell(d, SG_DRIVER_HIDDEN,
             "CUDA_VISIBLE_DEVICES is set to '%.64s' and hides every GPU: unset it, or name GPUs by index or UUID "
             "('nvidia-smi -L' lists them)",
             visible);
    else if (d->container && d->nodes == 0)
        tell(d, SG_DRIVER_CONTAINER,
             "this container has the driver's libraries, but no GPU: start it with 'docker run --gpus all'");
    else if (!d->module)
        tell(d, SG_DRIVER_NOT_LOADED,
             "the NVIDIA driver is installed but its kernel module is not loaded: 'sudo modprobe nvidia' (where secure "
             "boot refuses it, sign the module or turn secure boot off)");
    else
        tell(d, SG_DRIVER_FAILS,
             "the NVIDIA driver %s finds no GPU that it supports: 'nvidia-smi' and 'dmesg | grep -i nvrm' say why",
             d->version);
}

static void failed_init(const char *visible, sg_nvidia_driver *d) {
    switch (d->cuda_error) {
    case CUDA_NO_DEVICE: no_device(visible, d); return;
    case CUDA_INVALID_DEVICE:
        tell(d, visible ? SG_DRIVER_HIDDEN : SG_DRIVER_FAILS,
             "CUDA finds an invalid device: CUDA_VISIBLE_DEVICES is '%.64s'; unset it, or name each GPU once",
             visible ? visible : "");
        return;
    case CUDA_SYSTEM_DRIVER_MISMATCH:
        tell(d, SG_DRIVER_MISMATCH,
             "the NVIDIA kernel module (%s) and libcuda.so.1 have different versions, as after an update: reboot, or "
             "'sudo rmmod nvidia_uvm nvidia && sudo modprobe nvidia'; in a container, use the host's libraries",
             d->version[0] ? d->version : "version unknown");
        return;
    case CUDA_COMPAT_NOT_SUPPORTED:
        tell(d, SG_DRIVER_OLD,
             "the driver %s is too old for CUDA 13, and the compatibility library (cuda-compat) that hides it works on "
             "data-centre GPUs only: install driver %d or newer",
             d->version, SG_DRIVER_NEEDED);
        return;
    case CUDA_SYSTEM_NOT_READY:
        tell(d, SG_DRIVER_FAILS,
             "the NVLink switches are not started: 'sudo systemctl start nvidia-fabricmanager' (of the driver's "
             "version)");
        return;
    case CUDA_STUB_LIBRARY:
        tell(d, SG_DRIVER_NO_LIBRARY,
             "libcuda.so.1 in the library path is the toolkit's, made to link against and not to run: take .../stubs "
             "out of LD_LIBRARY_PATH");
        return;
    case CUDA_DEVICE_UNAVAILABLE:
        tell(d, SG_DRIVER_FAILS,
             "the GPU is in exclusive mode and in use, or prohibited: end the other process, or 'sudo nvidia-smi -c "
             "DEFAULT'");
        return;
    default:
        tell(d, SG_DRIVER_FAILS,
             "CUDA does not start (error %d): load the memory module ('sudo modprobe nvidia_uvm'), allow reading and "
             "writing /dev/nvidia*, and see 'dmesg | grep -i nvrm'",
             d->cuda_error);
        return;
    }
}

/* WSL and containers may not tell the version. */
static const char *version_of(const sg_nvidia_driver *d) {
    return d->version[0] ? d->version : "of unknown version";
}

static void answer(const char *root, const char *visible, sg_nvidia_driver *d) {
    if (!d->library)
        without_library(root, d);
    else if (d->cuda_error == CUDA_OK && d->cuda_version && d->cuda_version < SG_CUDA_VERSION_NEEDED)
        tell(d, SG_DRIVER_OLD,
             "the NVIDIA driver %s supports CUDA %d.%d, this program's CUDA libraries need CUDA 13: install driver %d "
             "or "
             "newer (Ubuntu: apt install nvidia-driver-%d) and reboot",
             version_of(d), d->cuda_version / 1000, d->cuda_version / 10 % 100, SG_DRIVER_NEEDED, SG_DRIVER_NEEDED);
    else if (d->cuda_error != CUDA_OK)
        failed_init(visible, d);
    else if (d->devices == 0)
        no_device(visible, d);
    else
        tell(d, SG_DRIVER_READY, "driver %s, CUDA %d.%d, %d GPU(s)", version_of(d), d->cuda_version / 1000,
             d->cuda_version / 10 % 100, d->devices);
}

void sg_nvidia_driver_look(const sg_nvidia_places *places, sg_nvidia_driver *d) {
    const char *root = places && places->root ? places->root : "";
    memset(d, 0, sizeof *d);
    read_version(root, d->version);
    d->module = d->version[0] || there(root, "/proc/driver/nvidia");
    d->nodes = count_nodes(root);
    d->cards = count_cards(root);
    d->container = is_container(root);
    ask_cuda(places ? places->libraries : NULL, d);
    answer(root, getenv("CUDA_VISIBLE_DEVICES"), d);
}
