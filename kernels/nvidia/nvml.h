/* nvml.h: what the NVIDIA driver tells of its GPUs, through its management library opened at run time.
 *
 * The toolkit ships no header of it, so the functions in use are declared here, after the NVML API reference guide
 * (docs.nvidia.com/deploy/nvml-api). A function that a driver lacks, or that a GPU does not support, makes a value "not
 * told": 0, "" or, where 0 says something, -1. It is never an error. */
#ifndef SG_KERNELS_NVIDIA_NVML_H
#define SG_KERNELS_NVIDIA_NVML_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sg_nvml sg_nvml; /* one user of the library; not to be used by two threads at once */

enum { SG_NVML_GPUS_MAX = 128, SG_NVML_PROCESSES_MAX = 64, SG_NVML_TEXT_BYTES = 96 };

/* Reasons for which clocks are held back (nvmlClocksEventReasons). */
#define SG_GPU_IDLE               UINT64_C(0x1) /* nothing runs: no throttling */
#define SG_GPU_APPLICATION_CLOCKS UINT64_C(0x2)
#define SG_GPU_POWER_CAP          UINT64_C(0x4)
#define SG_GPU_HARDWARE_SLOWDOWN  UINT64_C(0x8)
#define SG_GPU_SYNC_BOOST         UINT64_C(0x10)
#define SG_GPU_THERMAL_SOFTWARE   UINT64_C(0x20)
#define SG_GPU_THERMAL_HARDWARE   UINT64_C(0x40)
#define SG_GPU_POWER_BRAKE        UINT64_C(0x80)
#define SG_GPU_DISPLAY_CLOCKS     UINT64_C(0x100)
/* Those that no healthy, well-cooled machine shows. */
#define SG_GPU_FAULT_REASONS                                                                                           \
    (SG_GPU_HARDWARE_SLOWDOWN | SG_GPU_THERMAL_SOFTWARE | SG_GPU_THERMAL_HARDWARE | SG_GPU_POWER_BRAKE)

typedef enum sg_gpu_compute_mode {
    SG_GPU_COMPUTE_NOT_TOLD = -1,
    SG_GPU_COMPUTE_SHARED = 0,
    SG_GPU_COMPUTE_EXCLUSIVE_THREAD = 1, /* of old drivers */
    SG_GPU_COMPUTE_PROHIBITED = 2,
    SG_GPU_COMPUTE_EXCLUSIVE = 3
} sg_gpu_compute_mode;

typedef struct sg_gpu_process {
    unsigned pid;   /* in the host's numbering, also inside a container */
    uint64_t bytes; /* of GPU memory; 0: not told */
} sg_gpu_process;

/* What changes while a GPU works. */
typedef struct sg_gpu_sample {
    bool lost; /* fell off the bus: nothing else is told */
    double sm_mhz, memory_mhz;
    double temperature_c, power_w;
    uint64_t reasons; /* SG_GPU_... */
    int pcie_generation, pcie_width;
} sg_gpu_sample;

typedef struct sg_gpu_state {
    int index; /* NVML's, by PCI bus id */
    char name[SG_NVML_TEXT_BYTES], uuid[SG_NVML_TEXT_BYTES];
    char bus[32];   /* "00000000:3B:00.0" */
    int capability; /* 10 x major + minor */
    uint64_t total_bytes, free_bytes, used_bytes;
    sg_gpu_sample now;
    double sm_max_mhz, memory_max_mhz;
    double power_limit_w, power_default_w;         /* in force; the maker's */
    int busy_percent;                              /* -1: not told */
    int performance_state;                         /* 0 fastest ... 15; -1 */
    int ecc;                                       /* 1 on, 0 off, -1 */
    int64_t ecc_uncorrected, ecc_uncorrected_ever; /* since the driver was loaded; over the GPU's life; -1 */
    int rows_pending, rows_failed;                 /* memory rows to be replaced at the next reset; could not be; -1 */
    int mig;                                       /* 1 on, 0 off, -1 */
    int persistence;                               /* 1 on, 0 off, -1 */
    sg_gpu_compute_mode compute_mode;
    int pcie_max_generation, pcie_max_width; /* that GPU and slot reach together */
    int pcie_gpu_generation;                 /* that the GPU alone could reach */
    int nvlinks;                             /* active; -1 */
    sg_gpu_process processes[SG_NVML_PROCESSES_MAX];
    int n_processes; /* that compute on it, may exceed SG_NVML_PROCESSES_MAX; -1: not told */
} sg_gpu_state;

/* Opens libnvidia-ml.so.1 from `folder`, or where that is NULL or has none, from the system. SG_NO: there is no such
 * library. SG_MACHINE: it is there, but does not work; the text says why and what to do. */
sg_code sg_nvml_open(const char *folder, sg_nvml **nvml, sg_status *status);
void sg_nvml_close(sg_nvml *nvml);

int sg_nvml_count(const sg_nvml *nvml);          /* GPUs, at most SG_NVML_GPUS_MAX */
const char *sg_nvml_driver(const sg_nvml *nvml); /* "580.65.06" or "" */
int sg_nvml_cuda_version(const sg_nvml *nvml);   /* that the driver supports, 1000 x major + 10 x minor; 0: not told */

/* NVML's index of the GPU at a PCI bus id in any of its spellings ("0000:3B:00.0", "00000000:3b:00.0"); -1: none. */
int sg_nvml_find(sg_nvml *nvml, const char *bus);
/* Everything of GPU `index`. SG_MACHINE: the driver cannot even name it; the text says why. */
sg_code sg_nvml_read(sg_nvml *nvml, int index, sg_gpu_state *gpu, sg_status *status);
/* What changes, cheaply (a few calls, no allocation). */
void sg_nvml_sample(sg_nvml *nvml, int index, sg_gpu_sample *sample);
/* Up to `room` processes computing on the GPU; returns how many there are, -1 when the driver does not tell. */
int sg_nvml_processes(sg_nvml *nvml, int index, sg_gpu_process *processes, int room);
/* How two GPUs are connected, as nvidia-smi's matrix: "X", "NV4", "PIX", "PXB", "PHB", "NODE", "SYS", "?". */
void sg_nvml_connection(sg_nvml *nvml, int a, int b, char text[8]);

/* Reasons in words, "power cap, thermal (hardware)"; "" for none and for an idle GPU. */
void sg_gpu_reasons_text(uint64_t reasons, char *text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
