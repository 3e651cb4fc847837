#include "kernels/cuda/nccl_library.h"

#include "kernels/nvidia/libraries.h"

#include <dlfcn.h>
#include <string.h>

/* ISO C has no conversion from an object pointer to a function pointer; POSIX promises that the bytes are one. */
static sg_code find(void *library, const char *name, void *function, sg_status *status) {
    void *found = dlsym(library, name);
    if (!found)
        return sg_fail(status, SG_MACHINE, "NCCL has no %s: it is older than 2.18, %s", name,
                       sg_cuda_library_remedy(SG_CUDA_NCCL));
    memcpy(function, &found, sizeof found);
    return SG_OK;
}

sg_code sg_nccl_open(const char *dir, sg_nccl *nccl, sg_status *status) {
    sg_cuda_libraries found;
    void *library = NULL;
    sg_code code = sg_cuda_libraries_find(dir, &found, status);
    if (code == SG_OK && !found.path[SG_CUDA_NCCL][0])
        code = sg_fail(status, SG_MACHINE, "several GPUs need NCCL (%s), which was not found (%s): %s, or use one GPU",
                       sg_cuda_library_file(SG_CUDA_NCCL), found.searched, sg_cuda_library_remedy(SG_CUDA_NCCL));
    if (code == SG_OK) code = sg_cuda_library_open(&found, SG_CUDA_NCCL, &library, status);
#define X(name)                                                                                                        \
    if (code == SG_OK) code = find(library, #name, &nccl->name, status);
    SG_NCCL_FUNCTIONS(X)
#undef X
    return code;
}
