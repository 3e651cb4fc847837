#include "cli/gpus.h"

#include "kernels/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what there is ----------------------------------------------------------------------------------------------------- */

static void survey_one(sg_nvml *nvml, int index, sg_surveyed_gpu *gpu) {
    sg_status status;
    gpu->told = sg_nvml_read(nvml, index, &gpu->state, &status) == SG_OK;
    if (gpu->told) {
        gpu->n_findings = sg_gpu_findings(&gpu->state, gpu->findings);
        return;
    }
    gpu->n_findings = 1;
    gpu->findings[0].severity = SG_GPU_BLOCKS;
    gpu->findings[0].what = gpu->state.now.lost ? "lost" : "unusable";
    (void)snprintf(gpu->findings[0].text, sizeof gpu->findings[0].text, "%.390s", status.text);
}

static sg_code survey_gpus(sg_nvml *nvml, sg_gpu_survey *s, sg_status *status) {
    int n = sg_nvml_count(nvml);
    size_t count = n > 0 ? (size_t)n : 1;
    s->gpus = calloc(count, sizeof *s->gpus);
    s->connections = calloc(count * count, sizeof *s->connections);
    if (!s->gpus || !s->connections)
        return sg_fail_memory(status, count * sizeof *s->gpus, "what is known of the GPUs");
    s->n = n;
    for (int i = 0; i < n; i++) survey_one(nvml, i, &s->gpus[i]);
    for (int i = 0; i < n * n; i++) sg_nvml_connection(nvml, i / n, i % n, s->connections[i]);
    return SG_OK;
}

static void survey_visible(sg_gpu_survey *s) {
    const char *uuids[SG_NVML_GPUS_MAX];
    for (int i = 0; i < s->n; i++) uuids[i] = s->gpus[i].state.uuid;
    sg_cuda_visible_read(getenv("CUDA_VISIBLE_DEVICES"), uuids, s->n, &s->visible);
}

static sg_code ask_nvml(sg_gpu_survey *s, sg_status *status) {
    sg_nvml *nvml;
    sg_status why;
    if (sg_nvml_open(NULL, &nvml, &why) != SG_OK) {
        (void)snprintf(s->nvml, sizeof s->nvml, "%.500s", why.text);
        return SG_OK;
    }
    if (!s->driver_version[0]) (void)snprintf(s->driver_version, sizeof s->driver_version, "%s", sg_nvml_driver(nvml));
    sg_code code = survey_gpus(nvml, s, status);
    sg_nvml_close(nvml);
    if (!code) survey_visible(s);
    return code;
}

static sg_code seek_libraries(const char *cuda_libs, sg_gpu_survey *s, sg_status *status) {
    sg_status why;
    s->libraries_sought = true;
    sg_code code = sg_cuda_libraries_find(cuda_libs, &s->libraries, &why);
    if (code == SG_BAD_INPUT) {
        *status = why;
        return code;
    }
    if (code == SG_OK) code = sg_cuda_libraries_versions(&s->libraries, &why);
    if (code) (void)snprintf(s->libraries_problem, sizeof s->libraries_problem, "%s", why.text);
    return SG_OK;
}

/* ---- the answer -------------------------------------------------------------------------------------------------------- */

static const sg_gpu_finding *blocking(const sg_surveyed_gpu *gpu) {
    for (int i = 0; i < gpu->n_findings; i++)
        if (gpu->findings[i].severity == SG_GPU_BLOCKS) return &gpu->findings[i];
    return NULL;
}

/* The first GPU that nothing stands in the way of; NULL: none. */
static const sg_surveyed_gpu *first_usable(const sg_gpu_survey *s) {
    for (int i = 0; i < s->n; i++)
        if (!blocking(&s->gpus[i])) return &s->gpus[i];
    return NULL;
}

static void name_libraries(const sg_cuda_libraries *found, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < SG_CUDA_LIBRARY_COUNT; i++) {
        if (!found->path[i][0] || i == SG_CUDA_CUBLASLT) continue;
        int n = snprintf(text + used, bytes - used, "%s%s %s", used ? ", " : "",
                         sg_cuda_library_name((sg_cuda_library)i), found->version[i]);
        if (n < 0 || (size_t)n >= bytes - used) return;
        used += (size_t)n;
    }
}

static void answer(sg_gpu_survey *s) {
    const sg_surveyed_gpu *usable = first_usable(s);
    const sg_device_api *api;
    sg_status status;
    char libraries[200];
    if (s->driver.problem == SG_DRIVER_NO_GPU)
        (void)snprintf(s->state, sizeof s->state, "none: %s", s->driver.text);
    else if (s->driver.problem != SG_DRIVER_READY)
        (void)snprintf(s->state, sizeof s->state, "not ready: %s", s->driver.text);
    else if (s->n > 0 && !usable)
        (void)snprintf(s->state, sizeof s->state, "not ready: GPU 0: %s", blocking(&s->gpus[0])->text);
    else if (s->libraries_problem[0])
        (void)snprintf(s->state, sizeof s->state, "not ready: %s", s->libraries_problem);
    else if (sg_module_device("cuda", &api, &status) != SG_OK)
        (void)snprintf(s->state, sizeof s->state, "not ready: %s", status.text);
    else {
        name_libraries(&s->libraries, libraries, sizeof libraries);
        (void)snprintf(s->state, sizeof s->state, "ready: driver %s, CUDA %d.%d, %d GPU(s); %s",
                       s->driver_version[0] ? s->driver_version : "of unknown version", s->driver.cuda_version / 1000,
                       s->driver.cuda_version / 10 % 100, s->driver.devices, libraries);
        s->ready = true;
    }
    if (usable) (void)snprintf(s->name, sizeof s->name, "%s", usable->state.name);
}

sg_code sg_gpu_survey_make(const char *cuda_libs, sg_gpu_survey *s, sg_status *status) {
    memset(s, 0, sizeof *s);
    sg_nvidia_driver_look(NULL, &s->driver);
    (void)snprintf(s->driver_version, sizeof s->driver_version, "%s", s->driver.version);
    sg_code code = SG_OK;
    if (s->driver.problem != SG_DRIVER_NO_GPU) code = ask_nvml(s, status);
    if (!code && (cuda_libs || s->driver.problem == SG_DRIVER_READY || s->driver.problem == SG_DRIVER_OLD))
        code = seek_libraries(cuda_libs, s, status);
    if (code)
        sg_gpu_survey_clear(s);
    else
        answer(s);
    return code;
}

void sg_gpu_survey_clear(sg_gpu_survey *s) {
    free(s->gpus);
    free(s->connections);
    s->gpus = NULL;
    s->connections = NULL;
    s->n = 0;
}
