/* library.c: CUDA's libraries by name, their functions, their versions. */
#include "kernels/cuda/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

sg_code sg_cuda_library_load(const sg_device *device, sg_cuda_library which, void **handle, sg_status *status) {
    sg_cuda_libraries found;
    *handle = NULL;
    sg_code code = sg_cuda_libraries_find(device->library_dir, &found, status);
    /* others may be missing; where this one is, the finder's words also tell of a mix of versions */
    if (code == SG_BAD_INPUT || (code != SG_OK && !found.path[which][0])) return code;
    return sg_cuda_library_open(&found, which, handle, status);
}

/* ISO C has no conversion from dlsym's object pointer to a function pointer; POSIX promises that the bytes are one. */
sg_code sg_cuda_library_symbol(void *handle, sg_cuda_library which, const char *symbol, void *function,
                               sg_status *status) {
    void *found = dlsym(handle, symbol);
    if (!found)
        return sg_fail(status, SG_MACHINE, "%s (%s) lacks the function %s: install another version (%s)",
                       sg_cuda_library_name(which), sg_cuda_library_file(which), symbol, sg_cuda_library_remedy(which));
    memcpy(function, &found, sizeof found);
    return SG_OK;
}

static void add(char *text, size_t bytes, const char *name, const char *version) {
    size_t used = strlen(text);
    (void)snprintf(text + used, bytes - used, ", %s %s", name, version);
}

void sg_cuda_library_text(const sg_device *device, char *text, size_t bytes) {
    static const sg_cuda_library told[] = {SG_CUDA_CUBLAS, SG_CUDA_CUDNN, SG_CUDA_NCCL};
    sg_cuda_libraries found;
    sg_status ignored = {0};
    if (bytes == 0) return;
    /* what is missing is an error where it is needed, not here */
    (void)sg_cuda_libraries_find(device->library_dir, &found, &ignored);
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        sg_cuda_libraries one = {0};
        memcpy(one.path[told[i]], found.path[told[i]], sizeof one.path[0]);
        (void)sg_cuda_libraries_versions(&one, &ignored);
        if (one.version[told[i]][0])
            add(text, bytes, sg_cuda_library_name(told[i]), one.version[told[i]]);
        else if (told[i] == SG_CUDA_CUDNN)
            add(text, bytes, "no cuDNN:", "convolutions by im2col");
    }
}
