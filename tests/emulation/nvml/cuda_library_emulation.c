/* What every CUDA library answers when it is asked for its version, in one library that tests put in place of each. Built
 * with LIBRARY_CUDA, 1000 x major + 10 x minor of the CUDA that it pretends to be of. */
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

int cublasGetProperty(int type, int *value);
int cublasLtGetProperty(int type, int *value);
int curandGetProperty(int type, int *value);
int ncclGetVersion(int *version);
size_t cudnnGetVersion(void);
size_t cublasGetCudartVersion(void);
size_t cublasLtGetCudartVersion(void);
size_t cudnnGetCudartVersion(void);

static int part(int type, int major, int minor, int patch, int *value) {
    if (type < 0 || type > 2) return 1;
    *value = type == 0 ? major : type == 1 ? minor : patch;
    return 0;
}

EXPORT int cublasGetProperty(int type, int *value) {
    return part(type, LIBRARY_CUDA / 1000, 0, 2, value);
}

EXPORT int cublasLtGetProperty(int type, int *value) {
    return part(type, LIBRARY_CUDA / 1000, 0, 2, value);
}

EXPORT int curandGetProperty(int type, int *value) {
    return part(type, 10, 4, 0, value);
}

EXPORT int ncclGetVersion(int *version) {
    *version = 22803;
    return 0;
}

EXPORT size_t cudnnGetVersion(void) {
    return 91300;
}

EXPORT size_t cublasGetCudartVersion(void) {
    return LIBRARY_CUDA;
}

EXPORT size_t cublasLtGetCudartVersion(void) {
    return LIBRARY_CUDA;
}

EXPORT size_t cudnnGetCudartVersion(void) {
    return LIBRARY_CUDA;
}
