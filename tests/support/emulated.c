#include "tests/support/emulated.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

bool sg_emulated_controls(sg_emulated *controls) {
    char path[4096];
    const char *folder = getenv("STEPGAUGE_CUDA_LIBS");
    (void)snprintf(path, sizeof path, "%s/libsg_emulation.so", folder ? folder : "");
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    bool all = library != NULL;
#define X(name) all = all && find(library, #name, &controls->name);
    SG_EMULATED_FUNCTIONS(X)
#undef X
    return all;
}
