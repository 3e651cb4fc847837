/* A libcuda.so.1 for tests of the driver check: three functions that answer what $SG_CUDA_DRIVER_EMULATION says,
 * "INIT,VERSION,COUNT"; without it "0,13000,1". */
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *count);

static int answer(int which) {
    static const int usual[3] = {0, 13000, 1};
    const char *text = getenv("SG_CUDA_DRIVER_EMULATION");
    for (int i = 0; text && i <= which; i++) {
        char *end;
        int value = (int)strtol(text, &end, 10);
        if (i == which) return value;
        text = *end ? end + 1 : NULL;
    }
    return usual[which];
}

EXPORT int cuInit(unsigned flags) {
    return flags ? 1 : answer(0);
}

EXPORT int cuDriverGetVersion(int *version) {
    *version = answer(1);
    return 0;
}

EXPORT int cuDeviceGetCount(int *count) {
    *count = answer(2);
    return 0;
}
