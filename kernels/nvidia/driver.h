/* driver.h: is there an NVIDIA driver that can run this program's CUDA code, and if not, why, and what to do. */
#ifndef SG_KERNELS_NVIDIA_DRIVER_H
#define SG_KERNELS_NVIDIA_DRIVER_H

#include "kernels/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* CUDA 13 needs driver 580 or newer and compute capability 7.5 (Turing) or newer; the module holds code up to 12.0 and PTX
 * for what comes after (CUDA 13.0 release notes). */
enum { SG_CUDA_VERSION_NEEDED = 13000, SG_DRIVER_NEEDED = 580, SG_CAPABILITY_LEAST = 75, SG_CAPABILITY_COMPILED = 120 };

typedef enum sg_driver_problem {
    SG_DRIVER_READY,
    SG_DRIVER_NO_GPU,        /* no NVIDIA card and no driver */
    SG_DRIVER_NOT_INSTALLED, /* a card, no driver */
    SG_DRIVER_NOT_LOADED,    /* installed, but the kernel module is not loaded */
    SG_DRIVER_CONTAINER,     /* a container to which no GPU was given */
    SG_DRIVER_NO_LIBRARY,    /* the module is loaded, but libcuda.so.1 is not to be found */
    SG_DRIVER_MISMATCH,      /* module and library of different versions */
    SG_DRIVER_OLD,
    SG_DRIVER_HIDDEN, /* CUDA_VISIBLE_DEVICES hides every GPU */
    SG_DRIVER_FAILS   /* it is there and does not start */
} sg_driver_problem;

typedef struct sg_nvidia_driver {
    sg_driver_problem problem;
    char version[32]; /* of the kernel module: "580.65.06"; "" where /proc does not tell */
    int cuda_version; /* that libcuda supports, 1000 x major + 10 x minor; 0: no library */
    int cuda_error;   /* of cuInit; 0: none */
    int cards, nodes; /* NVIDIA display controllers on the PCI bus; /dev/nvidia0 ... */
    int devices;      /* that CUDA shows this process; 0 unless ready */
    bool module, library, container;
    char text[640]; /* what is wrong and the remedy, one sentence; of a ready driver: what it is */
} sg_nvidia_driver;

/* Where to look; NULL: the system's own. For machines that are looked at from outside, and for tests. */
typedef struct sg_nvidia_places {
    const char *root;      /* stands before /proc, /sys, /dev */
    const char *libraries; /* folder of libcuda.so.1, instead of the library path */
} sg_nvidia_places;

/* Opens libcuda.so.1 and calls cuInit: the calling process must not fork and use CUDA in the child afterwards. */
void sg_nvidia_driver_look(const sg_nvidia_places *places, sg_nvidia_driver *driver);

/* What CUDA_VISIBLE_DEVICES lets this process see, by CUDA's rules: indices or beginnings of UUIDs, up to the first entry
 * that names no GPU; a GPU named twice hides all. */
typedef struct sg_cuda_visible {
    bool set;
    int n;          /* visible GPUs */
    bool odd;       /* an entry that names no GPU, or one twice */
    char text[512]; /* what it contains and hides, and the remedy; "" when it hides nothing */
} sg_cuda_visible;

/* value: of the variable, NULL when it is not set; uuids[i]: NVML's of GPU i ("GPU-..."), "" where it is not known. */
void sg_cuda_visible_read(const char *value, const char *const *uuids, int gpus, sg_cuda_visible *visible);

#ifdef __cplusplus
}
#endif
#endif
