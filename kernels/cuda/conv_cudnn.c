/* conv_cudnn.c: convolutions through cuDNN's backend graph API, as PyTorch runs them (aten/src/ATen/native/cudnn/Conv_v8.cpp):
 * a graph of one operation; the configurations that its heuristic names, then its fallbacks, without those that round fp32
 * inputs more than the compute mode allows; the first that can be built, or in benchmark mode the fastest of the first ten. */
#include "kernels/cuda/conv.h"
#include "kernels/cuda/library.h"

#include <cudnn.h>

#include <stdlib.h>
#include <string.h>

#define SG_CUDNN_LIST(X)                                                                                               \
    X(cudnnCreate)                                                                                                     \
    X(cudnnDestroy)                                                                                                    \
    X(cudnnSetStream)                                                                                                  \
    X(cudnnGetErrorString)                                                                                             \
    X(cudnnBackendCreateDescriptor)                                                                                    \
    X(cudnnBackendDestroyDescriptor)                                                                                   \
    X(cudnnBackendFinalize)                                                                                            \
    X(cudnnBackendSetAttribute)                                                                                        \
    X(cudnnBackendGetAttribute)                                                                                        \
    X(cudnnBackendExecute)

struct sg_cuda_dnn {
#define X(f) __typeof__(f) *(f);
    SG_CUDNN_LIST(X)
#undef X
    cudnnHandle_t handle; /* NULL: cuDNN is missing */
    cudaStream_t stream;  /* that the handle has now */
};

typedef cudnnBackendDescriptor_t descriptor;

enum { X, W, Y, TENSORS, ALIGNED_BYTES = 16, BENCHMARKED = 10, TIMED_RUNS = 3 };

/* The graph of one convolution for memory of one alignment, and the plan that was chosen for it. */
typedef struct graph {
    descriptor tensor[TENSORS], convolution, operation, graph, config, plan;
    int64_t workspace_bytes;
    /* for the addresses of the latest launch */
    descriptor pack;
    void *at[TENSORS];
    void *workspace;
} graph;

struct sg_cuda_dnn_plan {
    sg_cuda_dnn *dnn;
    sg_cuda_window window;
    graph aligned, any; /* any: made when a launch's memory is aligned to elements only */
};

/* ---- opening ------------------------------------------------------------------------------------------------------------- */

static bool is_missing(cudnnStatus_t result) {
    return result >= CUDNN_STATUS_NOT_SUPPORTED && result < CUDNN_STATUS_INTERNAL_ERROR;
}

static sg_code check(const sg_cuda_dnn *dnn, cudnnStatus_t result, const char *doing, sg_status *status) {
    if (result == CUDNN_STATUS_SUCCESS) return SG_OK;
    const char *why = dnn->cudnnGetErrorString(result);
    bool memory = result == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
                  result == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    if (memory) return sg_fail(status, SG_NO, "out of memory: %s: %s", doing, why ? why : "cuDNN has no memory");
    return sg_fail(status, SG_MACHINE, "%s: %s (cuDNN status %d); look at the GPU with 'stepgauge devices'", doing,
                   why ? why : "no reason given", (int)result);
}

static sg_code load(const sg_device *device, sg_cuda_dnn *dnn, sg_status *status) {
    void *handle = NULL;
    sg_code code = sg_cuda_library_load(device, SG_CUDA_CUDNN, &handle, status);
#define X(f)                                                                                                           \
    if (code == SG_OK) code = sg_cuda_library_symbol(handle, SG_CUDA_CUDNN, #f, &dnn->f, status);
    SG_CUDNN_LIST(X)
#undef X
    return code;
}

sg_code sg_cuda_dnn_open(sg_device *device, bool *there, sg_status *status) {
    sg_status why_not = {0};
    *there = device->dnn && device->dnn->handle;
    if (device->dnn) return SG_OK;
    sg_cuda_dnn *dnn = calloc(1, sizeof *dnn);
    if (!dnn) return sg_fail_memory(status, sizeof *dnn, "cuDNN's functions");
    sg_code code = load(device, dnn, &why_not);
    if (code == SG_BAD_INPUT) {
        free(dnn);
        return sg_fail(status, code, "%s", why_not.text);
    }
    if (code == SG_OK) {
        code = check(dnn, dnn->cudnnCreate(&dnn->handle), "starting cuDNN", status);
        if (code == SG_OK) {
            dnn->stream = device->stream[SG_STREAM_COMPUTE];
            code = check(dnn, dnn->cudnnSetStream(dnn->handle, dnn->stream), "giving cuDNN a stream", status);
        }
        if (code != SG_OK) {
            sg_cuda_dnn_close(dnn);
            return sg_fail_in(status, "preparing convolutions on GPU %d", device->index);
        }
    }
    device->dnn = dnn;
    *there = dnn->handle != NULL;
    return SG_OK;
}

void sg_cuda_dnn_close(sg_cuda_dnn *dnn) {
    if (!dnn) return;
    if (dnn->handle) (void)dnn->cudnnDestroy(dnn->handle);
    free(dnn);
}

/* ---- descriptors --------------------------------------------------------------------------------------------------------- */

static void destroy(const sg_cuda_dnn *dnn, descriptor *d) {
    if (*d) (void)dnn->cudnnBackendDestroyDescriptor(*d);
    *d = NULL;
}

static void free_graph(const sg_cuda_dnn *dnn, graph *g) {
    descriptor *all[] = {&g->pack, &g->plan, &g->config, &g->graph, &g->operation, &g->convolution};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) destroy(dnn, all[i]);
    for (int i = 0; i < TENSORS; i++) destroy(dnn, &g->tensor[i]);
    *g = (graph){0};
}

/* One attribute of a descriptor. */
typedef struct attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    const void *values;
} attribute;

/* Creates, fills and finalizes a descriptor; *d is NULL after a failure. */
static cudnnStatus_t make(const sg_cuda_dnn *dnn, cudnnBackendDescriptorType_t type, const attribute *attributes, int n,
                          descriptor *d) {
    cudnnStatus_t result = dnn->cudnnBackendCreateDescriptor(type, d);
    if (result != CUDNN_STATUS_SUCCESS) *d = NULL;
    for (int i = 0; i < n && result == CUDNN_STATUS_SUCCESS; i++)
        result = dnn->cudnnBackendSetAttribute(*d, attributes[i].name, attributes[i].type, attributes[i].count,
                                               attributes[i].values);
    if (result == CUDNN_STATUS_SUCCESS) result = dnn->cudnnBackendFinalize(*d);
    if (result != CUDNN_STATUS_SUCCESS) destroy(dnn, d);
    return result;
}

static cudnnDataType_t dtype_of(const sg_desc *d) {
    switch ((sg_dtype)d->dtype) {
    case SG_F64: return CUDNN_DATA_DOUBLE;
    case SG_BF16: return CUDNN_DATA_BFLOAT16;
    case SG_F16: return CUDNN_DATA_HALF;
    default: return CUDNN_DATA_FLOAT;
    }
}

static cudnnStatus_t make_tensor(const sg_cuda_dnn *dnn, const sg_desc *desc, int64_t id, int64_t alignment,
                                 descriptor *d) {
    cudnnDataType_t type = dtype_of(desc);
    const attribute attributes[] = {{CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type},
                                    {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, desc->size},
                                    {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, desc->stride},
                                    {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id},
                                    {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment}};
    return make(dnn, CUDNN_BACKEND_TENSOR_DESCRIPTOR, attributes, 5, d);
}

static cudnnStatus_t make_convolution(const sg_cuda_dnn *dnn, const sg_cuda_window *win, descriptor *d) {
    const int64_t spatial = 2, dilation[2] = {1, 1};
    const int64_t pad[2] = {win->attrs.pad[0], win->attrs.pad[1]};
    const int64_t stride[2] = {win->attrs.stride[0], win->attrs.stride[1]};
    cudnnDataType_t type = win->x.dtype == SG_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const attribute attributes[] = {{CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type},
                                    {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode},
                                    {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial},
                                    {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pad},
                                    {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pad},
                                    {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride},
                                    {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation}};
    return make(dnn, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, attributes, 7, d);
}

/* Names of an operation's attributes: convolution, x, w, y, alpha, beta. */
typedef struct operation_names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t convolution, tensor[TENSORS], alpha, beta;
} operation_names;

static operation_names names_of(sg_op_kind kind) {
    switch (kind) {
    case SG_OP_CONV_BWD_DATA:
        return (operation_names){CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                 {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case SG_OP_CONV_BWD_WEIGHTS:
        return (operation_names){CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                 {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    default:
        return (operation_names){CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                 {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    }
}

static cudnnStatus_t make_operation(const sg_cuda_dnn *dnn, const sg_cuda_window *win, graph *g) {
    operation_names names = names_of(win->kind);
    bool wide = win->x.dtype == SG_F64;
    const float one = 1, zero = 0;
    const double wide_one = 1, wide_zero = 0;
    cudnnBackendAttributeType_t scale = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
    const attribute attributes[] = {{names.convolution, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->convolution},
                                    {names.tensor[X], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->tensor[X]},
                                    {names.tensor[W], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->tensor[W]},
                                    {names.tensor[Y], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->tensor[Y]},
                                    {names.alpha, scale, 1, wide ? (const void *)&wide_one : (const void *)&one},
                                    {names.beta, scale, 1, wide ? (const void *)&wide_zero : (const void *)&zero}};
    return make(dnn, names.type, attributes, 6, &g->operation);
}

static cudnnStatus_t make_graph(sg_cuda_dnn *dnn, const sg_cuda_window *win, int64_t alignment, graph *g) {
    const sg_desc *const descs[TENSORS] = {&win->x, &win->w, &win->y};
    cudnnStatus_t result = CUDNN_STATUS_SUCCESS;
    for (int i = 0; i < TENSORS && result == CUDNN_STATUS_SUCCESS; i++)
        result = make_tensor(dnn, descs[i], i + 1, alignment, &g->tensor[i]);
    if (result == CUDNN_STATUS_SUCCESS) result = make_convolution(dnn, win, &g->convolution);
    if (result == CUDNN_STATUS_SUCCESS) result = make_operation(dnn, win, g);
    if (result != CUDNN_STATUS_SUCCESS) return result;
    const attribute attributes[] = {{CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &dnn->handle},
                                    {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->operation}};
    return make(dnn, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, attributes, 2, &g->graph);
}

/* ---- configurations ------------------------------------------------------------------------------------------------------ */

typedef struct configs {
    descriptor *at;
    int64_t n;
} configs;

static void free_configs(const sg_cuda_dnn *dnn, configs *c) {
    for (int64_t i = 0; i < c->n; i++) destroy(dnn, &c->at[i]);
    free(c->at);
    *c = (configs){0};
}

/* The configurations of one heuristic; none is no error. */
static cudnnStatus_t ask(const sg_cuda_dnn *dnn, descriptor graph, cudnnBackendHeurMode_t mode, configs *c) {
    const attribute attributes[] = {{CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph},
                                    {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode}};
    descriptor heuristic = NULL;
    int64_t count = 0;
    *c = (configs){0};
    cudnnStatus_t result = make(dnn, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, attributes, 2, &heuristic);
    if (result != CUDNN_STATUS_SUCCESS) return is_missing(result) ? CUDNN_STATUS_SUCCESS : result;
    result = dnn->cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                           &count, NULL);
    if (result == CUDNN_STATUS_SUCCESS && count > 0) {
        c->at = calloc((size_t)count, sizeof *c->at);
        if (!c->at) result = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    }
    for (; result == CUDNN_STATUS_SUCCESS && c->n < count; c->n++)
        result = dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &c->at[c->n]);
    int64_t filled = 0;
    if (result == CUDNN_STATUS_SUCCESS && count > 0)
        result = dnn->cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                               count, &filled, c->at);
    destroy(dnn, &heuristic);
    while (c->n > filled) destroy(dnn, &c->at[--c->n]);
    if (result != CUDNN_STATUS_SUCCESS) free_configs(dnn, c);
    return result;
}

/* PyTorch leaves out what rounds inputs to fewer bits, and without TF32 the tensor cores for fp32. */
static cudnnStatus_t is_allowed(const sg_cuda_dnn *dnn, const sg_cuda_window *win, descriptor config, bool *allowed) {
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    descriptor engine = NULL;
    int64_t n = 0;
    *allowed = true;
    cudnnStatus_t result = dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
    if (result == CUDNN_STATUS_SUCCESS)
        result = dnn->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                               &n, &engine);
    n = 0;
    if (result == CUDNN_STATUS_SUCCESS)
        result = dnn->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                               CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, notes);
    if (n > CUDNN_NUMERICAL_NOTE_TYPE_COUNT) n = CUDNN_NUMERICAL_NOTE_TYPE_COUNT; /* it counts all that there are */
    for (int64_t i = 0; result == CUDNN_STATUS_SUCCESS && i < n; i++) {
        if (notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) *allowed = false;
        if (notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && win->x.dtype == SG_F32 &&
            win->attrs.compute != SG_COMPUTE_TF32)
            *allowed = false;
    }
    destroy(dnn, &engine);
    return result;
}

/* The plan of a configuration; *plan stays NULL where cuDNN cannot build it. */
static cudnnStatus_t build(const sg_cuda_dnn *dnn, descriptor config, descriptor *plan, int64_t *workspace_bytes) {
    const attribute attributes[] = {
        {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &dnn->handle},
        {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config}};
    int64_t n = 0;
    cudnnStatus_t result = make(dnn, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, attributes, 2, plan);
    /* an engine that is compiled when it is needed may fail to be */
    if (result == CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED) return CUDNN_STATUS_SUCCESS;
    if (result != CUDNN_STATUS_SUCCESS) return is_missing(result) ? CUDNN_STATUS_SUCCESS : result;
    result = dnn->cudnnBackendGetAttribute(*plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n,
                                           workspace_bytes);
    if (result != CUDNN_STATUS_SUCCESS) destroy(dnn, plan);
    return result;
}

/* ---- running ------------------------------------------------------------------------------------------------------------- */

/* The pack of addresses is kept: a step runs a plan with the same ones again and again. */
static cudnnStatus_t point(const sg_cuda_dnn *dnn, graph *g, void *const at[TENSORS], void *workspace) {
    const int64_t ids[TENSORS] = {1, 2, 3};
    if (g->pack && memcmp(g->at, at, sizeof g->at) == 0 && g->workspace == workspace) return CUDNN_STATUS_SUCCESS;
    destroy(dnn, &g->pack);
    memcpy(g->at, at, sizeof g->at);
    g->workspace = workspace;
    const attribute attributes[] = {{CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, TENSORS, ids},
                                    {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, TENSORS, g->at},
                                    {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &g->workspace}};
    return make(dnn, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, attributes, 3, &g->pack);
}

static cudnnStatus_t execute(sg_cuda_dnn *dnn, graph *g, cudaStream_t stream, void *const at[TENSORS],
                             void *workspace) {
    cudnnStatus_t result = CUDNN_STATUS_SUCCESS;
    if (dnn->stream != stream) result = dnn->cudnnSetStream(dnn->handle, stream);
    if (result != CUDNN_STATUS_SUCCESS) return result;
    dnn->stream = stream;
    result = point(dnn, g, at, g->workspace_bytes > 0 ? workspace : NULL);
    return result == CUDNN_STATUS_SUCCESS ? dnn->cudnnBackendExecute(dnn->handle, g->plan, g->pack) : result;
}

/* ---- choosing ------------------------------------------------------------------------------------------------------------ */

/* Memory of its own to time plans with: tensors, then a workspace. */
typedef struct trial {
    sg_device *device;
    void *at[TENSORS];
    cudaEvent_t begin, end;
    float best_ms;
} trial;

static void end_trial(trial *t) {
    for (int i = 0; i < TENSORS; i++)
        if (t->at[i]) (void)cudaFree(t->at[i]);
    if (t->begin) (void)cudaEventDestroy(t->begin);
    if (t->end) (void)cudaEventDestroy(t->end);
}

static sg_code begin_trial(sg_device *device, const sg_cuda_window *win, trial *t, sg_status *status) {
    const sg_desc *const descs[TENSORS] = {&win->x, &win->w, &win->y};
    *t = (trial){.device = device};
    cudaError_t error = cudaEventCreateWithFlags(&t->begin, cudaEventDefault);
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&t->end, cudaEventDefault);
    for (int i = 0; i < TENSORS && error == cudaSuccess; i++) {
        size_t bytes = (size_t)sg_desc_span_bytes(descs[i]);
        error = cudaMalloc(&t->at[i], bytes);
        /* zeros: some GPUs are slower on numbers that are none */
        if (error == cudaSuccess) error = cudaMemsetAsync(t->at[i], 0, bytes, device->stream[SG_STREAM_COMPUTE]);
    }
    return sg_cuda_check(error, "taking memory to time convolutions", status);
}

/* Least of a few runs after one that warms up. */
static sg_code time_plan(sg_cuda_dnn *dnn, trial *t, graph *g, float *ms, sg_status *status) {
    cudaStream_t stream = t->device->stream[SG_STREAM_COMPUTE];
    void *workspace = NULL;
    sg_code code = SG_OK;
    *ms = 0;
    if (g->workspace_bytes > 0)
        code = sg_cuda_check(cudaMalloc(&workspace, (size_t)g->workspace_bytes), "taking a workspace", status);
    for (int run = 0; run <= TIMED_RUNS && code == SG_OK; run++) {
        float one = 0;
        code = sg_cuda_check(cudaEventRecord(t->begin, stream), "recording an event", status);
        if (code == SG_OK) code = check(dnn, execute(dnn, g, stream, t->at, workspace), "timing a convolution", status);
        if (code == SG_OK) code = sg_cuda_check(cudaEventRecord(t->end, stream), "recording an event", status);
        if (code == SG_OK) code = sg_cuda_check(cudaStreamSynchronize(stream), "waiting for the GPU", status);
        if (code == SG_OK) code = sg_cuda_check(cudaEventElapsedTime(&one, t->begin, t->end), "reading events", status);
        if (run > 0 && (run == 1 || one < *ms)) *ms = one;
    }
    destroy(dnn, &g->pack);
    if (workspace) (void)cudaFree(workspace);
    return code;
}

typedef struct chosen {
    descriptor plan;
    int64_t workspace_bytes;
    int tried;
} chosen;

/* Takes a new plan if it is the first, or faster; one whose workspace the GPU has no memory for is left out. */
static sg_code weigh(sg_cuda_dnn *dnn, graph *g, trial *t, chosen *best, descriptor plan, int64_t bytes,
                     sg_status *status) {
    float ms = 0;
    sg_status ignored = {0};
    if (t) {
        g->plan = plan;
        g->workspace_bytes = bytes;
        sg_code code = time_plan(dnn, t, g, &ms, &ignored);
        g->plan = NULL;
        best->tried++;
        if (code == SG_NO || (code == SG_OK && best->plan && ms >= t->best_ms)) {
            destroy(dnn, &plan);
            return SG_OK;
        }
        if (code != SG_OK) {
            destroy(dnn, &plan);
            return sg_fail(status, code, "%s", ignored.text);
        }
        t->best_ms = ms;
    }
    destroy(dnn, &best->plan);
    best->plan = plan;
    best->workspace_bytes = bytes;
    return SG_OK;
}

/* Goes through a heuristic's configurations: to the first that works, or, with a trial, through ten. limit: bytes of
 * workspace that there are; negative: any. */
static sg_code try_configs(sg_cuda_dnn *dnn, const sg_cuda_window *win, graph *g, cudnnBackendHeurMode_t mode,
                           int64_t limit, trial *t, chosen *best, sg_status *status) {
    configs list;
    sg_code code = check(dnn, ask(dnn, g->graph, mode, &list), "asking cuDNN for ways to convolve", status);
    for (int64_t i = 0; code == SG_OK && i < list.n; i++) {
        bool allowed = false;
        descriptor plan = NULL;
        int64_t bytes = 0;
        cudnnStatus_t result = is_allowed(dnn, win, list.at[i], &allowed);
        if (result == CUDNN_STATUS_SUCCESS && allowed) result = build(dnn, list.at[i], &plan, &bytes);
        code = check(dnn, result, "building a convolution", status);
        if (!plan) continue;
        if (code != SG_OK || (limit >= 0 && bytes > limit)) {
            destroy(dnn, &plan);
            continue;
        }
        code = weigh(dnn, g, t, best, plan, bytes, status);
        if (best->plan == plan) {
            destroy(dnn, &g->config);
            g->config = list.at[i];
            list.at[i] = NULL;
        }
        if (best->plan && (!t || best->tried >= BENCHMARKED)) break;
    }
    free_configs(dnn, &list);
    return code;
}

/* g->plan stays NULL where cuDNN has none. */
static sg_code choose(sg_device *device, const sg_cuda_window *win, int64_t alignment, int64_t limit, graph *g,
                      sg_status *status) {
    sg_cuda_dnn *dnn = device->dnn;
    trial t, *timing = NULL;
    chosen best = {0};
    cudnnStatus_t result = make_graph(dnn, win, alignment, g);
    if (is_missing(result)) return SG_OK;
    sg_code code = check(dnn, result, "describing a convolution to cuDNN", status);
    if (code == SG_OK && device->benchmark && limit < 0) {
        code = begin_trial(device, win, &t, status);
        timing = &t;
    }
    if (code == SG_OK) code = try_configs(dnn, win, g, CUDNN_HEUR_MODE_A, limit, timing, &best, status);
    if (code == SG_OK && !best.plan)
        code = try_configs(dnn, win, g, CUDNN_HEUR_MODE_FALLBACK, limit, timing, &best, status);
    if (timing) end_trial(timing);
    g->plan = best.plan;
    g->workspace_bytes = best.workspace_bytes;
    return code;
}

/* ---- plans --------------------------------------------------------------------------------------------------------------- */

sg_code sg_cuda_dnn_plan_new(sg_device *device, const sg_cuda_window *window, sg_cuda_dnn_plan **out,
                             sg_status *status) {
    *out = NULL;
    sg_cuda_dnn_plan *p = calloc(1, sizeof *p);
    if (!p) return sg_fail_memory(status, sizeof *p, "a convolution");
    p->dnn = device->dnn;
    p->window = *window;
    sg_code code = choose(device, window, ALIGNED_BYTES, -1, &p->aligned, status);
    if (code == SG_OK && p->aligned.plan)
        *out = p;
    else
        sg_cuda_dnn_plan_free(p);
    return code;
}

void sg_cuda_dnn_plan_free(sg_cuda_dnn_plan *p) {
    if (!p) return;
    free_graph(p->dnn, &p->aligned);
    free_graph(p->dnn, &p->any);
    free(p);
}

uint64_t sg_cuda_dnn_plan_bytes(const sg_cuda_dnn_plan *p) {
    return (uint64_t)p->aligned.workspace_bytes;
}

sg_code sg_cuda_dnn_plan_run(const sg_call *call, sg_cuda_dnn_plan *p, void *x, void *w, void *y, char *workspace) {
    void *const at[TENSORS] = {x, w, y};
    graph *g = &p->aligned;
    if (((uintptr_t)x | (uintptr_t)w | (uintptr_t)y) % ALIGNED_BYTES != 0) {
        g = &p->any;
        if (!g->plan) {
            free_graph(p->dnn, g);
            int64_t element = (int64_t)sg_dtype_bytes((sg_dtype)p->window.x.dtype);
            sg_code code = choose(call->device, &p->window, element, p->aligned.workspace_bytes, g, call->status);
            if (code != SG_OK) return code;
        }
        if (!g->plan)
            return sg_cuda_refuse(&call->plan->op, "cuDNN has no plan for tensors that begin at odd addresses",
                                  call->status);
    }
    return check(p->dnn, execute(p->dnn, g, call->stream, at, workspace), "running a convolution", call->status);
}
