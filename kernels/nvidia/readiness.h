/* readiness.h: what usually goes wrong with a GPU that is to train, each with its remedy. */
#ifndef SG_KERNELS_NVIDIA_READINESS_H
#define SG_KERNELS_NVIDIA_READINESS_H

#include "kernels/nvidia/nvml.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sg_gpu_severity {
    SG_GPU_NOTE,    /* good to know */
    SG_GPU_WARNING, /* it runs, but slower or less trustworthy than it could */
    SG_GPU_BLOCKS   /* it does not run */
} sg_gpu_severity;

typedef struct sg_gpu_finding {
    sg_gpu_severity severity;
    const char *what; /* one word for programs: "busy", "ecc", "mig", ... */
    char text[400];   /* what is so, and what to do about it */
} sg_gpu_finding;

enum { SG_GPU_FINDINGS_MAX = 24 };

/* Fills findings in the order in which they matter, and returns how many. */
int sg_gpu_findings(const sg_gpu_state *gpu, sg_gpu_finding findings[SG_GPU_FINDINGS_MAX]);
const char *sg_gpu_severity_name(sg_gpu_severity severity); /* "note", "warning", "blocks" */

#ifdef __cplusplus
}
#endif
#endif
