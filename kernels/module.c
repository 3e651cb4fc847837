#include "kernels/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = SG_MODULE_PATH_BYTES - 64, SEARCHED_BYTES = 512 };

/* ---- where modules are ------------------------------------------------------------------------------------------- */

/* Folder of the running program, without the trailing slash; false when the kernel does not tell. */
static bool program_folder(char *folder, size_t bytes) {
    ssize_t n = readlink("/proc/self/exe", folder, bytes - 1);
    if (n <= 0 || (size_t)n >= bytes - 1) return false;
    folder[n] = '\0';
    char *slash = strrchr(folder, '/');
    if (!slash) return false;
    *slash = '\0';
    return true;
}

/* The i-th path to try; false when there is no i-th place. */
static bool candidate(int i, const char *name, char *path, size_t bytes) {
    char folder[PATH_BYTES];
    const char *below = i == 1 ? "/modules" : "/../lib/stepgauge";
    if (i == 0) {
        const char *set = getenv("STEPGAUGE_MODULES");
        if (!set || !*set || strlen(set) >= sizeof folder) return false;
        memcpy(folder, set, strlen(set) + 1);
        below = "";
    } else if (!program_folder(folder, sizeof folder)) {
        return false;
    }
    int n = snprintf(path, bytes, "%s%s/stepgauge_%s.so", folder, below, name);
    return n > 0 && (size_t)n < bytes;
}

static bool name_is_plain(const char *name) {
    if (!name || !*name) return false;
    for (const char *c = name; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '_')) return false;
    return true;
}

/* What to do when module `name` is missing or does not load. */
static const char *remedy_of(const char *name) {
    if (strcmp(name, "cpu") == 0)
        return "install oneDNN (Debian: apt install libdnnl2) and build the cpu module, or set STEPGAUGE_MODULES to "
               "the "
               "folder that holds stepgauge_cpu.so";
    if (strcmp(name, "mpi") == 0)
        return "install Open MPI (Debian: apt install openmpi-bin libopenmpi-dev) and build again, or run with one "
               "rank";
    if (strcmp(name, "cuda") == 0)
        return "take a build that has it (with nvcc 13, scripts/setup.sh builds it, scripts/package.sh packs it), or "
               "measure on the CPU with --device cpu";
    if (strcmp(name, "video") == 0)
        return "video is read through FFmpeg 5.1 (Debian 12: apt install libavformat59 libavcodec59 libswscale6); with "
               "another FFmpeg, build stepgauge on this machine (scripts/setup.sh)";
    if (strcmp(name, "image") == 0)
        return "images are read through libpng 1.6 and libjpeg-turbo (Debian 12: apt install libpng16-16 "
               "libjpeg62-turbo), and the module is built by scripts/setup.sh";
    return "set STEPGAUGE_MODULES to the folder that holds it";
}

/* What to do when it is there and does not load, for the loader's reason. */
static const char *load_remedy_of(const char *name, const char *why) {
    static const char *const runtimes[] = {"libstdc++", "GLIBCXX_", "libgcc_s"};
    for (size_t i = 0; i < sizeof runtimes / sizeof runtimes[0]; i++)
        if (strstr(why, runtimes[i]))
            return "install the C++ runtime of GCC 12 or later (Debian, Ubuntu: apt install libstdc++6), and keep "
                   "older ones out of LD_LIBRARY_PATH";
    return remedy_of(name);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Opens the first module file that exists. One that exists but does not load is an error: a later place would hide it. */
static sg_code open_module(const char *name, void **handle, char *path, size_t bytes, sg_status *status) {
    if (!name_is_plain(name))
        return sg_fail(status, SG_BAD_INPUT,
                       "cannot open module '%.64s': a module's name is lower-case letters and digits",
                       name ? name : "");
    char searched[SEARCHED_BYTES] = "";
    size_t used = 0;
    for (int i = 0; i < 3; i++) {
        if (!candidate(i, name, path, bytes)) continue;
        if (access(path, F_OK) != 0) {
            int n = snprintf(searched + used, sizeof searched - used, "%s%s", used ? ", " : "", path);
            if (n > 0 && (size_t)n < sizeof searched - used) used += (size_t)n;
            continue;
        }
        *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (*handle) return SG_OK;
        const char *why = dlerror();
        if (!why) why = "no reason given";
        return sg_fail(status, SG_MACHINE, "cannot load module %s (%.300s): %s", name, why, load_remedy_of(name, why));
    }
    return sg_fail(status, SG_MACHINE, "module %s is not installed (looked for %s): %s", name, searched,
                   remedy_of(name));
}

static sg_code check_abi(const char *name, const char *path, const char *what, uint32_t abi, uint32_t bytes,
                         uint32_t want_abi, size_t want_bytes, sg_status *status) {
    if (abi == want_abi && bytes == want_bytes) return SG_OK;
    return sg_fail(
        status, SG_MACHINE,
        "module %s (%.300s) has %s interface %u of %u bytes, this program needs %u of %zu bytes: build program "
        "and modules together",
        name, path, what, abi, bytes, want_abi, want_bytes);
}

/* ISO C has no conversion from dlsym's object pointer to a function pointer; POSIX promises that the bytes are one. */
static bool find_function(void *handle, const char *symbol, void *function, size_t bytes) {
    void *found = dlsym(handle, symbol);
    if (!found || bytes != sizeof found) return false;
    memcpy(function, &found, bytes);
    return true;
}

static sg_code fail_symbol(const char *name, const char *path, const char *symbol, sg_status *status) {
    return sg_fail(status, SG_MACHINE, "module %s (%.300s) does not export %s: it is not a stepgauge module, %s", name,
                   path, symbol, remedy_of(name));
}

/* ---- modules already open ------------------------------------------------------------------------------------------ */

/* A module is never closed: its threads and its libraries' exit handlers outlive any owner. dlopen counts references and
 * gives the same handle again, so no table of ours is needed. */
sg_code sg_module_table(const char *name, const char *symbol, sg_module_place *place, const void **table,
                        sg_status *status) {
    void *handle = NULL;
    const void *(*module)(void) = NULL;
    *table = NULL;
    sg_code code = open_module(name, &handle, place->path, sizeof place->path, status);
    if (code != SG_OK) return code;
    if (!find_function(handle, symbol, &module, sizeof module)) return fail_symbol(name, place->path, symbol, status);
    *table = module();
    if (*table) return SG_OK;
    (void)fail_symbol(name, place->path, "its functions", status);
    return SG_MACHINE;
}

sg_code sg_module_device(const char *name, const sg_device_api **api, sg_status *status) {
    sg_module_place place;
    const void *table;
    *api = NULL;
    sg_code code = sg_module_table(name, "sg_device_module", &place, &table, status);
    if (code != SG_OK || !table) return code;
    const sg_device_api *found = table;
    code = check_abi(name, place.path, "device", found->abi, found->struct_bytes, SG_DEVICE_ABI, sizeof(sg_device_api),
                     status);
    if (code == SG_OK) *api = found;
    return code;
}

sg_code sg_module_transport(const char *name, const sg_transport_api **api, sg_status *status) {
    sg_module_place place;
    const void *table;
    *api = NULL;
    sg_code code = sg_module_table(name, "sg_transport_module", &place, &table, status);
    if (code != SG_OK || !table) return code;
    const sg_transport_api *found = table;
    code = check_abi(name, place.path, "transport", found->abi, found->struct_bytes, SG_TRANSPORT_ABI,
                     sizeof(sg_transport_api), status);
    if (code == SG_OK) *api = found;
    return code;
}
