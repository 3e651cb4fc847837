/* gpus.h: the NVIDIA GPUs of this machine and whether they can train, looked up once for `devices`. */
#ifndef SG_CLI_GPUS_H
#define SG_CLI_GPUS_H

#include "kernels/nvidia/driver.h"
#include "kernels/nvidia/libraries.h"
#include "kernels/nvidia/readiness.h"

#include <jansson.h>

typedef struct sg_surveyed_gpu {
    sg_gpu_state state;
    bool told; /* false: the driver does not hand it out, findings[0] says why */
    sg_gpu_finding findings[SG_GPU_FINDINGS_MAX];
    int n_findings;
} sg_surveyed_gpu;

typedef struct sg_gpu_survey {
    sg_nvidia_driver driver;
    char driver_version[96]; /* of the kernel module, or as NVML tells */
    sg_cuda_visible visible;
    sg_surveyed_gpu *gpus;
    int n;
    char (*connections)[8]; /* n x n */
    char nvml[512];         /* why NVML tells nothing; "" when it does */
    sg_cuda_libraries libraries;
    bool libraries_sought;
    char libraries_problem[1024]; /* "" when they do */
    bool ready;
    char name[160];   /* the first GPU that can train */
    char state[1200]; /* one sentence: ready and with what, or why not and what to do */
} sg_gpu_survey;

/* cuda_libs: searched first for CUDA libraries, may be NULL. SG_BAD_INPUT: it is no folder. SG_MACHINE: no memory. */
sg_code sg_gpu_survey_make(const char *cuda_libs, sg_gpu_survey *survey, sg_status *status);
void sg_gpu_survey_clear(sg_gpu_survey *survey);

/* Blocks of the GPUs, libraries and the matrix of connections; nothing on a machine without any. */
void sg_gpu_survey_print(const sg_gpu_survey *survey);
/* Adds driver, libraries, gpus and topology to `row`. What is not told is null. */
void sg_gpu_survey_json(const sg_gpu_survey *survey, json_t *row);

#endif
