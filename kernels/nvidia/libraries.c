#include "kernels/nvidia/libraries.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct library {
    const char *file, *name, *pip, *apt;
    bool optional;
} library;

/* Files by their SONAME in CUDA 13; packages as PyPI and NVIDIA's apt repository call them. */
static const library LIBRARIES[SG_CUDA_LIBRARY_COUNT] = {
    [SG_CUDA_CUBLAS] = {"libcublas.so.13", "cuBLAS", "nvidia-cublas", "libcublas-13-0", false},
    [SG_CUDA_CUBLASLT] = {"libcublasLt.so.13", "cuBLASLt", "nvidia-cublas", "libcublas-13-0", false},
    [SG_CUDA_CUDNN] = {"libcudnn.so.9", "cuDNN", "nvidia-cudnn-cu13", "libcudnn9-cuda-13", true},
    [SG_CUDA_CURAND] = {"libcurand.so.10", "cuRAND", "nvidia-curand", "libcurand-13-0", true},
    [SG_CUDA_NCCL] = {"libnccl.so.2", "NCCL", "nvidia-nccl-cu13", "libnccl2", true},
};

/* Majors whose cuBLAS is worth a word when ours is missing. */
static const int OTHER_MAJORS[] = {12, 11, 14, 10};
enum { OTHERS = sizeof OTHER_MAJORS / sizeof OTHER_MAJORS[0] };

/* Where the nvidia wheels keep libraries, below a Python environment: nvidia/cu13/lib since CUDA 13, before that one
 * folder per library (nvidia/cublas/lib). */
static const char WHEELS[] = "/lib/python3*/site-packages/nvidia/*/lib";

const char *sg_cuda_library_file(sg_cuda_library which) {
    return (unsigned)which < SG_CUDA_LIBRARY_COUNT ? LIBRARIES[which].file : "";
}

const char *sg_cuda_library_name(sg_cuda_library which) {
    return (unsigned)which < SG_CUDA_LIBRARY_COUNT ? LIBRARIES[which].name : "";
}

const char *sg_cuda_library_remedy(sg_cuda_library which) {
    static const char *const remedies[SG_CUDA_LIBRARY_COUNT] = {
        [SG_CUDA_CUBLAS] = "pip install nvidia-cublas, or apt install libcublas-13-0",
        [SG_CUDA_CUBLASLT] = "pip install nvidia-cublas, or apt install libcublas-13-0",
        [SG_CUDA_CUDNN] = "pip install nvidia-cudnn-cu13, or apt install libcudnn9-cuda-13",
        [SG_CUDA_CURAND] = "pip install nvidia-curand, or apt install libcurand-13-0",
        [SG_CUDA_NCCL] = "pip install nvidia-nccl-cu13, or apt install libnccl2",
    };
    return (unsigned)which < SG_CUDA_LIBRARY_COUNT ? remedies[which] : "";
}

bool sg_cuda_library_optional(sg_cuda_library which) {
    return (unsigned)which < SG_CUDA_LIBRARY_COUNT && LIBRARIES[which].optional;
}

/* ---- one folder -------------------------------------------------------------------------------------------------- */

/* Puts `more` behind the text, as much of it as there is room. */
static void add(char *text, size_t bytes, const char *more) {
    size_t used = strlen(text), n = strlen(more);
    if (n > bytes - used - 1) n = bytes - used - 1;
    memcpy(text + used, more, n);
    text[used + n] = '\0';
}

static void append(char *text, size_t bytes, const char *separator, const char *more) {
    if (text[0]) add(text, bytes, separator);
    add(text, bytes, more);
}

static void keep(char to[SG_CUDA_PATH_BYTES], const char *path) {
    to[0] = '\0';
    add(to, SG_CUDA_PATH_BYTES, path);
}

static bool is_folder(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* "folder/file" in path; false when it is too long or no file that can be read. One that cannot is told. */
static bool file_in(sg_cuda_libraries *found, const char *folder, const char *file, char path[SG_CUDA_PATH_BYTES]) {
    struct stat s;
    int n = snprintf(path, SG_CUDA_PATH_BYTES, "%s/%s", folder, file);
    if (n <= 0 || n >= SG_CUDA_PATH_BYTES || stat(path, &s) != 0 || !S_ISREG(s.st_mode)) return false;
    if (access(path, R_OK) == 0) return true;
    append(found->searched, sizeof found->searched, ", ", path);
    append(found->searched, sizeof found->searched, "", " (which may not be read)");
    return false;
}

static void take(sg_cuda_libraries *found, const char *folder, sg_cuda_library which) {
    char path[SG_CUDA_PATH_BYTES];
    if (file_in(found, folder, LIBRARIES[which].file, path)) keep(found->path[which], path);
}

static void look_for_others(sg_cuda_libraries *found, const char *folder) {
    char path[SG_CUDA_PATH_BYTES], file[32];
    for (int i = 0; i < OTHERS && !found->other_path[0]; i++) {
        (void)snprintf(file, sizeof file, "libcublas.so.%d", OTHER_MAJORS[i]);
        if (!file_in(found, folder, file, path)) continue;
        keep(found->other_path, path);
        found->other_major = OTHER_MAJORS[i];
    }
}

static void look_in(sg_cuda_libraries *found, const char *folder) {
    bool had_cublas = found->path[SG_CUDA_CUBLAS][0];
    for (int i = 0; i < SG_CUDA_LIBRARY_COUNT; i++)
        if (!found->path[i][0]) take(found, folder, (sg_cuda_library)i);
    if (!had_cublas && found->path[SG_CUDA_CUBLAS][0]) take(found, folder, SG_CUDA_CUBLASLT);
    look_for_others(found, folder);
}

/* Every folder that `below`, which may hold wildcards, matches below `base`, which is taken as it is. */
static void look_below(sg_cuda_libraries *found, const char *base, const char *below) {
    char pattern[2 * SG_CUDA_PATH_BYTES];
    size_t n = 0, length = strlen(base);
    while (length > 0 && base[length - 1] == '/') length--;
    for (const char *c = base; c < base + length; c++) {
        if (n + 2 + strlen(below) >= sizeof pattern) return;
        if (strchr("*?[]\\", *c)) pattern[n++] = '\\';
        pattern[n++] = *c;
    }
    memcpy(pattern + n, below, strlen(below) + 1);
    glob_t folders;
    if (glob(pattern, 0, NULL, &folders) == 0)
        for (size_t i = 0; i < folders.gl_pathc; i++) look_in(found, folders.gl_pathv[i]);
    globfree(&folders);
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static void told(sg_cuda_libraries *found, const char *place) {
    append(found->searched, sizeof found->searched, ", ", place);
}

static sg_code look_in_named(sg_cuda_libraries *found, const char *dir, const char *who, sg_status *status) {
    static const char *const below[] = {"/lib", "/lib64", "/targets/*/lib", "/*/lib", "/nvidia/*/lib", WHEELS};
    if (!is_folder(dir))
        return sg_fail(status, SG_BAD_INPUT, "%s names '%.300s', which is no folder: name the one that holds %s", who,
                       dir, LIBRARIES[SG_CUDA_CUBLAS].file);
    told(found, dir);
    look_in(found, dir);
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) look_below(found, dir, below[i]);
    return SG_OK;
}

/* The file of an open library; false when the loader does not tell. */
static bool path_of(void *handle, char path[SG_CUDA_PATH_BYTES]) {
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map || !map->l_name || !map->l_name[0]) return false;
    keep(path, map->l_name);
    return true;
}

static bool in_library_path(const char *file, char path[SG_CUDA_PATH_BYTES]) {
    void *handle = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    if (!handle) return false;
    bool known = path_of(handle, path);
    (void)dlclose(handle);
    return known;
}

static void look_in_library_path(sg_cuda_libraries *found) {
    char path[SG_CUDA_PATH_BYTES];
    told(found, "the library path");
    bool had_cublas = found->path[SG_CUDA_CUBLAS][0];
    for (int i = 0; i < SG_CUDA_LIBRARY_COUNT; i++)
        if (!found->path[i][0] && in_library_path(LIBRARIES[i].file, path)) keep(found->path[i], path);
    if (had_cublas || !found->path[SG_CUDA_CUBLAS][0]) return;
    keep(path, found->path[SG_CUDA_CUBLAS]);
    char *slash = strrchr(path, '/');
    if (!slash) return;
    *slash = '\0';
    take(found, path, SG_CUDA_CUBLASLT);
}

static void look_for_others_in_library_path(sg_cuda_libraries *found) {
    char path[SG_CUDA_PATH_BYTES], file[32];
    for (int i = 0; i < OTHERS && !found->other_path[0]; i++) {
        (void)snprintf(file, sizeof file, "libcublas.so.%d", OTHER_MAJORS[i]);
        if (!in_library_path(file, path)) continue;
        keep(found->other_path, path);
        found->other_major = OTHER_MAJORS[i];
    }
}

static void look_in_environment(sg_cuda_libraries *found, const char *variable) {
    static const char *const below[] = {WHEELS, "/lib", "/targets/*/lib"};
    const char *folder = getenv(variable);
    if (!folder || !*folder) return;
    char place[SG_CUDA_PATH_BYTES];
    (void)snprintf(place, sizeof place, "$%s (%.300s)", variable, folder);
    told(found, place);
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) look_below(found, folder, below[i]);
}

static void look_in_toolkits(sg_cuda_libraries *found, const char *folder) {
    static const char *const below[] = {"/cuda/lib64", "/cuda-*/lib64", "/cuda*/targets/*/lib"};
    char place[SG_CUDA_PATH_BYTES];
    (void)snprintf(place, sizeof place, "%.300s/cuda*", folder);
    told(found, place);
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) look_below(found, folder, below[i]);
}

static bool complete(const sg_cuda_libraries *found) {
    for (int i = 0; i < SG_CUDA_LIBRARY_COUNT; i++)
        if (!found->path[i][0]) return false;
    return true;
}

static sg_code look_everywhere(const sg_cuda_places *places, const char *dir, sg_cuda_libraries *found,
                               sg_status *status) {
    const char *named = getenv("STEPGAUGE_CUDA_LIBS");
    sg_code code = SG_OK;
    if (dir && *dir) code = look_in_named(found, dir, "--cuda-libs", status);
    if (!code && named && *named && !complete(found)) code = look_in_named(found, named, "STEPGAUGE_CUDA_LIBS", status);
    if (code) return code;
    if (!complete(found) && places->library_path) look_in_library_path(found);
    if (!complete(found)) look_in_environment(found, "VIRTUAL_ENV");
    if (!complete(found)) look_in_environment(found, "CONDA_PREFIX");
    if (!complete(found)) look_in_toolkits(found, places->toolkits);
    return SG_OK;
}

/* ---- what is missing --------------------------------------------------------------------------------------------- */

/* A library of our major on the way, for the second path of a mix; NULL: none. */
static const char *ours(const sg_cuda_libraries *found) {
    static const sg_cuda_library order[] = {SG_CUDA_CUBLAS, SG_CUDA_CUBLASLT, SG_CUDA_CURAND, SG_CUDA_CUDNN,
                                            SG_CUDA_NCCL};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        if (found->path[order[i]][0]) return found->path[order[i]];
    return NULL;
}

static sg_code fail_mix(const sg_cuda_libraries *found, const char *missing, const char *packages, sg_status *status) {
    const char *beside = ours(found);
    return sg_fail(status, SG_MACHINE,
                   "the CUDA libraries here are of CUDA %d (%.250s)%s%.250s, but this program needs CUDA %d and %s is "
                   "missing: pip install %s, or name another folder with --cuda-libs",
                   found->other_major, found->other_path, beside ? ", beside " : "", beside ? beside : "",
                   SG_CUDA_MAJOR, missing, packages);
}

static sg_code check_missing(const sg_cuda_libraries *found, sg_status *status) {
    char missing[96] = "", pip[96] = "", apt[96] = "";
    for (int i = 0; i < SG_CUDA_LIBRARY_COUNT; i++) {
        if (found->path[i][0] || LIBRARIES[i].optional) continue;
        append(missing, sizeof missing, ", ", LIBRARIES[i].file);
        if (!strstr(pip, LIBRARIES[i].pip)) append(pip, sizeof pip, " ", LIBRARIES[i].pip);
        if (!strstr(apt, LIBRARIES[i].apt)) append(apt, sizeof apt, " ", LIBRARIES[i].apt);
    }
    if (!missing[0]) return SG_OK;
    if (found->other_path[0] && !found->path[SG_CUDA_CUBLAS][0]) return fail_mix(found, missing, pip, status);
    return sg_fail(status, SG_MACHINE,
                   "missing of the CUDA %d libraries: %s (looked in %s): pip install %s into the active environment, "
                   "or apt install %s, or name their folder with --cuda-libs",
                   SG_CUDA_MAJOR, missing, found->searched, pip, apt);
}

sg_code sg_cuda_libraries_find(const char *dir, sg_cuda_libraries *found, sg_status *status) {
    static const sg_cuda_places SYSTEM = {"/usr/local", true};
    return sg_cuda_libraries_find_in(&SYSTEM, dir, found, status);
}

sg_code sg_cuda_libraries_find_in(const sg_cuda_places *places, const char *dir, sg_cuda_libraries *found,
                                  sg_status *status) {
    memset(found, 0, sizeof *found);
    sg_code code = look_everywhere(places, dir, found, status);
    if (code) return code;
    if (places->library_path && !found->path[SG_CUDA_CUBLAS][0]) look_for_others_in_library_path(found);
    return check_missing(found, status);
}

/* ---- opening, versions ------------------------------------------------------------------------------------------- */

sg_code sg_cuda_library_open(const sg_cuda_libraries *found, sg_cuda_library which, void **handle, sg_status *status) {
    *handle = NULL;
    if (!found->path[which][0])
        return sg_fail(status, SG_MACHINE, "%s (%s) is not installed (looked in %s): %s", LIBRARIES[which].name,
                       LIBRARIES[which].file, found->searched, sg_cuda_library_remedy(which));
    *handle = dlopen(found->path[which], RTLD_LAZY | RTLD_LOCAL);
    if (*handle) return SG_OK;
    const char *why = dlerror();
    return sg_fail(status, SG_MACHINE, "cannot load %s from %.300s (%.300s): install it again (%s)",
                   LIBRARIES[which].name, found->path[which], why ? why : "no reason given",
                   sg_cuda_library_remedy(which));
}

/* ISO C has no conversion from dlsym's object pointer to a function pointer; POSIX promises that the bytes are one. */
static bool find_function(void *handle, const char *symbol, void *function, size_t bytes) {
    void *found = dlsym(handle, symbol);
    if (!found || bytes != sizeof found) return false;
    memcpy(function, &found, bytes);
    return true;
}

typedef int (*get_property)(int type, int *value); /* cublasGetProperty and its like: 0 major, 1 minor, 2 patch */
typedef size_t (*get_number)(void);                /* cudnnGetVersion, ...GetCudartVersion */
typedef int (*get_version)(int *version);          /* ncclGetVersion */

static void ask_properties(void *handle, const char *symbol, char version[24]) {
    get_property get;
    int part[3] = {0};
    if (!find_function(handle, symbol, &get, sizeof get)) return;
    for (int i = 0; i < 3; i++)
        if (get(i, &part[i]) != 0) return;
    (void)snprintf(version, 24, "%d.%d.%d", part[0], part[1], part[2]);
}

/* 10000 x major + 100 x minor + patch, as cuDNN 9 and NCCL since 2.9 count. */
static void write_packed(long long number, char version[24]) {
    if (number <= 0 || number > 10000000) return;
    (void)snprintf(version, 24, "%lld.%lld.%lld", number / 10000, number / 100 % 100, number % 100);
}

/* 1000 x major + 10 x minor of the CUDA runtime that the library was built with. */
static int ask_cuda(void *handle, const char *symbol) {
    get_number get;
    if (!find_function(handle, symbol, &get, sizeof get)) return 0;
    size_t number = get();
    return number < 1000 || number > 1000000 ? 0 : (int)(number / 1000);
}

static void ask(sg_cuda_libraries *found, sg_cuda_library which, void *handle) {
    char *version = found->version[which];
    get_number number;
    get_version packed;
    int value = 0;
    switch (which) {
    case SG_CUDA_CUBLAS:
        ask_properties(handle, "cublasGetProperty", version);
        found->cuda[which] = ask_cuda(handle, "cublasGetCudartVersion");
        break;
    case SG_CUDA_CUBLASLT:
        ask_properties(handle, "cublasLtGetProperty", version);
        found->cuda[which] = ask_cuda(handle, "cublasLtGetCudartVersion");
        break;
    case SG_CUDA_CUDNN:
        if (find_function(handle, "cudnnGetVersion", &number, sizeof number))
            write_packed((long long)number(), version);
        found->cuda[which] = ask_cuda(handle, "cudnnGetCudartVersion");
        break;
    case SG_CUDA_CURAND: ask_properties(handle, "curandGetProperty", version); break;
    default:
        if (find_function(handle, "ncclGetVersion", &packed, sizeof packed) && packed(&value) == 0)
            write_packed(value, version);
        break;
    }
}

sg_code sg_cuda_libraries_versions(sg_cuda_libraries *found, sg_status *status) {
    for (int i = 0; i < SG_CUDA_LIBRARY_COUNT; i++) {
        if (!found->path[i][0]) continue;
        void *handle;
        sg_code code = sg_cuda_library_open(found, (sg_cuda_library)i, &handle, status);
        if (code) return code;
        ask(found, (sg_cuda_library)i, handle);
    }
    for (int i = 0; i < SG_CUDA_LIBRARY_COUNT; i++) {
        if (!found->cuda[i] || found->cuda[i] == SG_CUDA_MAJOR) continue;
        const char *beside = i == SG_CUDA_CUBLAS ? found->path[SG_CUDA_CURAND] : found->path[SG_CUDA_CUBLAS];
        return sg_fail(status, SG_MACHINE,
                       "%s in %.300s was built for CUDA %d, but %.300s and this program are of CUDA %d: %s, or name a "
                       "folder with libraries of one kind with --cuda-libs",
                       LIBRARIES[i].name, found->path[i], found->cuda[i], beside, SG_CUDA_MAJOR,
                       sg_cuda_library_remedy((sg_cuda_library)i));
    }
    return SG_OK;
}
