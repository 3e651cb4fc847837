/* nvml_internal.h: what the two halves of the NVML reader share. */
#ifndef SG_KERNELS_NVIDIA_NVML_INTERNAL_H
#define SG_KERNELS_NVIDIA_NVML_INTERNAL_H

#include "kernels/nvidia/nvml.h"
#include "kernels/nvidia/nvml_api.h"

struct sg_nvml {
    void *library;
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */
#define MEMBER(member, symbol, older, parameters) nvml_return(*member) parameters;
    NVML_FUNCTIONS(MEMBER)
#undef MEMBER
    char driver[80];
    int cuda_version, count;
};

/* The GPU that is being asked, and whether one answer was that it is gone. */
typedef struct sg_nvml_question {
    const sg_nvml *n;
    nvml_device device;
    bool lost;
} sg_nvml_question;

/* False: there is no such GPU, or it is lost (question->lost). */
bool sg_nvml_ask_about(const sg_nvml *nvml, int index, sg_nvml_question *question);
/* Whether the call succeeded; a lost GPU is noted. */
bool sg_nvml_answered(sg_nvml_question *question, nvml_return code);
bool sg_nvml_link_active(sg_nvml_question *question, unsigned link);
/* Printable ASCII only, and an end: a driver's text goes to terminals and files. */
void sg_nvml_clean(char *text, size_t bytes);

#endif
