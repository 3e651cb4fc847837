/* cudnn.c: the emulated cuDNN: descriptors with the attributes that were set, checked when they are finalized; a handful of
 * engines that differ in precision, alignment, speed and workspace. */
#include "tests/emulation/include/cudnn.h"
#include "tests/emulation/convolution.h"
#include "tests/emulation/emulation.h"

#include <stdlib.h>
#include <string.h>

struct cudnnContext {
    cudaStream_t stream;
    int device;
};

enum { ATTRIBUTES_MOST = 8, VALUES_MOST = 4 };

typedef struct attribute {
    cudnnBackendAttributeName_t name;
    int64_t count;
    union {
        int64_t whole[VALUES_MOST];
        void *pointer[VALUES_MOST];
        float real;
        double wide;
        int32_t number;
    } value;
} attribute;

/* A descriptor. Finalized ones keep what they were made of by value, so that it may be destroyed. */
typedef struct object {
    cudnnBackendDescriptorType_t type;
    bool finalized;
    int n;
    attribute attributes[ATTRIBUTES_MOST];
    sg_emu_convolution convolution; /* operation and everything made of it */
    int64_t alignment, ids[SG_EMU_TENSORS];
    int engine; /* configuration, engine, plan */
} object;

#define ENTER()                                                                                                        \
    do {                                                                                                               \
        if (SG_EMU_CALL_FAILS()) return CUDNN_STATUS_INTERNAL_ERROR;                                                   \
    } while (0)

/* ---- engines ------------------------------------------------------------------------------------------------------------- */

typedef struct engine {
    bool in_heuristic, in_fallback, builds, tensor_cores, down_converts;
    int64_t alignment; /* of tensors, at least */
    int repeats;
    size_t workspace_bytes;
} engine;

/* As the heuristic ranks them: one that turns out not to be buildable, one that would round fp32 to fp16, a tensor-core one
 * that is slower than the heuristic thinks, a faster one; then plain ones. */
static const engine ENGINES[] = {
    {true, false, false, true, false, 16, 1, 0},    {true, false, true, true, true, 16, 1, 256},
    {true, false, true, true, false, 16, 4, 8192},  {true, false, true, true, false, 16, 1, 4096},
    {true, false, true, false, false, 16, 4, 2048}, {true, true, true, false, false, 1, 1, 0},
};
enum { ENGINE_COUNT = sizeof ENGINES / sizeof *ENGINES };

static bool is_narrow(cudaDataType type) {
    return type == CUDA_R_16F || type == CUDA_R_16BF;
}

/* Tensor cores take 16-bit floats and, as TF32, fp32. */
static bool fits(const engine *e, const object *graph) {
    cudaDataType type = graph->convolution.tensor[0].type;
    if (graph->alignment < e->alignment) return false;
    return !(e->tensor_cores && type == CUDA_R_64F) && !(e->down_converts && type != CUDA_R_32F);
}

static sg_emu_rounding rounding_of(const engine *e, cudaDataType type) {
    if (type != CUDA_R_32F || !e->tensor_cores) return SG_EMU_AS_IS;
    return e->down_converts ? SG_EMU_TO_F16 : SG_EMU_TO_TF32;
}

static int list_engines(const object *heuristic, int chosen[ENGINE_COUNT]) {
    const attribute *mode = NULL;
    int n = 0;
    for (int i = 0; i < heuristic->n; i++)
        if (heuristic->attributes[i].name == CUDNN_ATTR_ENGINEHEUR_MODE) mode = &heuristic->attributes[i];
    for (int i = 0; mode && i < ENGINE_COUNT; i++) {
        bool listed = mode->value.number == CUDNN_HEUR_MODE_FALLBACK ? ENGINES[i].in_fallback : ENGINES[i].in_heuristic;
        if (listed && fits(&ENGINES[i], heuristic)) chosen[n++] = i;
    }
    return n;
}

/* ---- handles ------------------------------------------------------------------------------------------------------------- */

size_t cudnnGetVersion(void) {
    return 91300;
}
size_t cudnnGetCudartVersion(void) {
    return CUDART_VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
    switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_BAD_PARAM_NULL_POINTER: return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
    case CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER: return "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER";
    case CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED: return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH: return "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_STATUS_INTERNAL_ERROR";
    }
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    ENTER();
    if (!handle) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    *handle = calloc(1, sizeof **handle);
    if (!*handle || cudaGetDevice(&(*handle)->device) != cudaSuccess) {
        free(*handle);
        *handle = NULL;
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    }
    sg_emu_count_handle(1);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    if (!handle) return CUDNN_STATUS_NOT_INITIALIZED;
    sg_emu_count_handle(-1);
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    ENTER();
    if (!handle) return CUDNN_STATUS_NOT_INITIALIZED;
    if (sg_emu_stream_device(stream) != handle->device) return CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH;
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- attributes ---------------------------------------------------------------------------------------------------------- */

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor) {
    ENTER();
    if (!descriptor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    object *o = calloc(1, sizeof *o);
    *descriptor = o;
    if (!o) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    o->type = type;
    sg_emu_count_handle(1);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    if (!descriptor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    sg_emu_count_handle(-1);
    free(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

static size_t value_bytes(cudnnBackendAttributeType_t type) {
    switch (type) {
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_FLOAT:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_NUMERICAL_NOTE: return 4;
    default: return 8;
    }
}

/* The type that an attribute has. */
static cudnnBackendAttributeType_t type_of(cudnnBackendAttributeName_t name) {
    switch (name) {
    case CUDNN_ATTR_CONVOLUTION_COMP_TYPE:
    case CUDNN_ATTR_TENSOR_DATA_TYPE: return CUDNN_TYPE_DATA_TYPE;
    case CUDNN_ATTR_CONVOLUTION_CONV_MODE: return CUDNN_TYPE_CONVOLUTION_MODE;
    case CUDNN_ATTR_ENGINEHEUR_MODE: return CUDNN_TYPE_HEUR_MODE;
    case CUDNN_ATTR_EXECUTION_PLAN_HANDLE:
    case CUDNN_ATTR_OPERATIONGRAPH_HANDLE: return CUDNN_TYPE_HANDLE;
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE: return CUDNN_TYPE_VOID_PTR;
    case CUDNN_ATTR_CONVOLUTION_DILATIONS:
    case CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES:
    case CUDNN_ATTR_CONVOLUTION_POST_PADDINGS:
    case CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS:
    case CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS:
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    case CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT:
    case CUDNN_ATTR_TENSOR_DIMENSIONS:
    case CUDNN_ATTR_TENSOR_STRIDES:
    case CUDNN_ATTR_TENSOR_UNIQUE_ID:
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS: return CUDNN_TYPE_INT64;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: return CUDNN_TYPE_NUMERICAL_NOTE;
    default: return CUDNN_TYPE_BACKEND_DESCRIPTOR;
    }
}

static bool is_scale(cudnnBackendAttributeName_t name) {
    return name == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA ||
           name == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA ||
           name == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA ||
           name == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA ||
           name == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA ||
           name == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    ENTER();
    object *o = descriptor;
    if (!o || !values) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (o->finalized || count < 1 || count > VALUES_MOST || o->n == ATTRIBUTES_MOST) return CUDNN_STATUS_BAD_PARAM;
    bool scale = is_scale(name) && (type == CUDNN_TYPE_FLOAT || type == CUDNN_TYPE_DOUBLE);
    if (!scale && type != type_of(name)) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    attribute *a = &o->attributes[o->n++];
    *a = (attribute){.name = name, .count = count};
    if (scale)
        a->value.wide = type == CUDNN_TYPE_DOUBLE ? *(const double *)values : (double)*(const float *)values;
    else
        memcpy(&a->value, values, (size_t)count * value_bytes(type));
    return CUDNN_STATUS_SUCCESS;
}

/* NULL unless it was set with this many values. */
static const attribute *get(const object *o, cudnnBackendAttributeName_t name, int64_t count) {
    for (int i = 0; i < o->n; i++)
        if (o->attributes[i].name == name) return o->attributes[i].count == count ? &o->attributes[i] : NULL;
    return NULL;
}

/* A finalized descriptor that was set as an attribute. */
static const object *get_object(const object *o, cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type) {
    const attribute *a = get(o, name, 1);
    const object *found = a ? a->value.pointer[0] : NULL;
    return found && found->finalized && found->type == type ? found : NULL;
}

/* ---- finalizing ---------------------------------------------------------------------------------------------------------- */

static bool element_type(int32_t type, cudaDataType *to) {
    switch (type) {
    case CUDNN_DATA_FLOAT: *to = CUDA_R_32F; return true;
    case CUDNN_DATA_DOUBLE: *to = CUDA_R_64F; return true;
    case CUDNN_DATA_HALF: *to = CUDA_R_16F; return true;
    case CUDNN_DATA_BFLOAT16: *to = CUDA_R_16BF; return true;
    default: return false;
    }
}

static cudnnStatus_t finalize_tensor(object *o) {
    const attribute *type = get(o, CUDNN_ATTR_TENSOR_DATA_TYPE, 1), *size = get(o, CUDNN_ATTR_TENSOR_DIMENSIONS, 4),
                    *stride = get(o, CUDNN_ATTR_TENSOR_STRIDES, 4), *id = get(o, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1),
                    *alignment = get(o, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1);
    sg_emu_tensor *t = &o->convolution.tensor[0];
    if (!type || !size || !stride || !id || !alignment || !element_type(type->value.number, &t->type))
        return CUDNN_STATUS_BAD_PARAM;
    for (int d = 0; d < 4; d++) {
        if (size->value.whole[d] < 1 || stride->value.whole[d] < 1) return CUDNN_STATUS_BAD_PARAM;
        t->size[d] = size->value.whole[d];
        t->stride[d] = stride->value.whole[d];
    }
    if (alignment->value.whole[0] < (int64_t)sg_emu_type_bytes(t->type)) return CUDNN_STATUS_BAD_PARAM;
    o->alignment = alignment->value.whole[0];
    o->ids[0] = id->value.whole[0];
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_convolution(object *o) {
    const attribute *type = get(o, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 1),
                    *mode = get(o, CUDNN_ATTR_CONVOLUTION_CONV_MODE, 1),
                    *dims = get(o, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1),
                    *before = get(o, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 2),
                    *after = get(o, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 2),
                    *stride = get(o, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 2),
                    *dilation = get(o, CUDNN_ATTR_CONVOLUTION_DILATIONS, 2);
    if (!type || !mode || !dims || !before || !after || !stride || !dilation || dims->value.whole[0] != 2)
        return CUDNN_STATUS_BAD_PARAM;
    if (mode->value.number != CUDNN_CROSS_CORRELATION) return CUDNN_STATUS_NOT_SUPPORTED;
    for (int d = 0; d < 2; d++) {
        if (dilation->value.whole[d] != 1 || after->value.whole[d] != before->value.whole[d])
            return CUDNN_STATUS_NOT_SUPPORTED;
        if (stride->value.whole[d] < 1 || before->value.whole[d] < 0) return CUDNN_STATUS_BAD_PARAM;
        o->convolution.pad[d] = before->value.whole[d];
        o->convolution.stride[d] = stride->value.whole[d];
    }
    return element_type(type->value.number, &o->convolution.tensor[0].type) ? CUDNN_STATUS_SUCCESS
                                                                            : CUDNN_STATUS_BAD_PARAM;
}

/* Shapes that fit, and a packed memory format: other strides have no engine. */
static cudnnStatus_t check_shapes(const sg_emu_convolution *c) {
    const int64_t *x = c->tensor[SG_EMU_X].size, *w = c->tensor[SG_EMU_W].size, *y = c->tensor[SG_EMU_Y].size;
    bool fit = x[0] == y[0] && x[1] == w[1] && y[1] == w[0];
    for (int d = 0; d < 2; d++) fit = fit && y[2 + d] == (x[2 + d] + 2 * c->pad[d] - w[2 + d]) / c->stride[d] + 1;
    if (!fit) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
    static const int formats[2][4] = {{3, 2, 1, 0}, {1, 3, 2, 0}}; /* innermost first */
    for (int f = 0; f < 2; f++) {
        bool packed = true;
        for (int t = 0; t < SG_EMU_TENSORS; t++) {
            int64_t next = 1;
            for (int d = 0; d < 4; d++) {
                int dim = formats[f][d];
                packed = packed && (c->tensor[t].size[dim] == 1 || c->tensor[t].stride[dim] == next);
                next *= c->tensor[t].size[dim];
            }
        }
        if (packed) return CUDNN_STATUS_SUCCESS;
    }
    return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
}

typedef struct operation_names {
    cudnnBackendAttributeName_t convolution, tensor[SG_EMU_TENSORS], alpha, beta;
} operation_names;

static cudnnStatus_t finalize_operation(object *o, sg_emu_direction direction) {
    static const operation_names names[] = {
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
         {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
         {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
         {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};
    const operation_names *n = &names[direction];
    const object *convolution = get_object(o, n->convolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const attribute *alpha = get(o, n->alpha, 1), *beta = get(o, n->beta, 1);
    if (!convolution || !alpha || !beta) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    if (alpha->value.wide != 1 || beta->value.wide != 0) return CUDNN_STATUS_NOT_SUPPORTED;
    sg_emu_convolution *c = &o->convolution;
    *c = convolution->convolution;
    c->direction = direction;
    cudaDataType compute = convolution->convolution.tensor[0].type;
    o->alignment = INT64_MAX;
    for (int t = 0; t < SG_EMU_TENSORS; t++) {
        const object *tensor = get_object(o, n->tensor[t], CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        if (!tensor) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
        c->tensor[t] = tensor->convolution.tensor[0];
        o->ids[t] = tensor->ids[0];
        if (tensor->alignment < o->alignment) o->alignment = tensor->alignment;
    }
    cudaDataType type = c->tensor[0].type;
    bool one_type = c->tensor[1].type == type && c->tensor[2].type == type;
    if (!one_type || compute != (is_narrow(type) ? CUDA_R_32F : type)) return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
    return check_shapes(c);
}

static bool is_operation(const object *o) {
    return o && o->finalized &&
           (o->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
            o->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
            o->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
}

static void inherit(object *o, const object *from) {
    o->convolution = from->convolution;
    o->alignment = from->alignment;
    memcpy(o->ids, from->ids, sizeof o->ids);
    o->engine = from->engine;
}

static cudnnStatus_t finalize_graph(object *o) {
    const attribute *handle = get(o, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 1),
                    *operation = get(o, CUDNN_ATTR_OPERATIONGRAPH_OPS, 1);
    if (!handle || !handle->value.pointer[0] || !operation || !is_operation(operation->value.pointer[0]))
        return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    inherit(o, operation->value.pointer[0]);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_heuristic(object *o) {
    const object *graph = get_object(o, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (!graph || !get(o, CUDNN_ATTR_ENGINEHEUR_MODE, 1)) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    inherit(o, graph);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_plan(object *o) {
    const object *config = get_object(o, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    const attribute *handle = get(o, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 1);
    if (!config || !handle || !handle->value.pointer[0]) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    inherit(o, config);
    return ENGINES[o->engine].builds ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED;
}

static cudnnStatus_t finalize_pack(const object *o) {
    bool sound = get(o, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, SG_EMU_TENSORS) &&
                 get(o, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, SG_EMU_TENSORS) &&
                 get(o, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1);
    return sound ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

static cudnnStatus_t finalize(object *o) {
    switch (o->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return finalize_tensor(o);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return finalize_convolution(o);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR: return finalize_operation(o, SG_EMU_FORWARD);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR: return finalize_operation(o, SG_EMU_TO_DATA);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        return finalize_operation(o, SG_EMU_TO_WEIGHTS);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return finalize_graph(o);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: return finalize_heuristic(o);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: return finalize_plan(o);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: return finalize_pack(o);
    default: return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
    }
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    ENTER();
    object *o = descriptor;
    if (!o) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (o->finalized) return CUDNN_STATUS_BAD_PARAM;
    cudnnStatus_t status = finalize(o);
    o->finalized = status == CUDNN_STATUS_SUCCESS;
    return status;
}

/* ---- asking -------------------------------------------------------------------------------------------------------------- */

/* Fills descriptors that the caller made. */
static cudnnStatus_t give_configs(const object *heuristic, int64_t wanted, int64_t *count, void *values) {
    int engines[ENGINE_COUNT], n = list_engines(heuristic, engines);
    if (wanted == 0) {
        *count = n;
        return CUDNN_STATUS_SUCCESS;
    }
    if (!values) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    for (*count = 0; *count < wanted && *count < n; (*count)++) {
        object *config = ((cudnnBackendDescriptor_t *)values)[*count];
        if (!config || config->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || config->finalized)
            return CUDNN_STATUS_BAD_PARAM;
        inherit(config, heuristic);
        config->engine = engines[*count];
        config->finalized = true;
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t give_engine(const object *config, int64_t *count, void *values) {
    object *e = values ? *(cudnnBackendDescriptor_t *)values : NULL;
    if (!e || e->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM;
    inherit(e, config);
    e->finalized = true;
    *count = 1;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t give_notes(const object *o, int64_t wanted, int64_t *count, cudnnBackendNumericalNote_t *notes) {
    const engine *e = &ENGINES[o->engine];
    *count = 0;
    if (e->tensor_cores && *count < wanted) notes[(*count)++] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    if (e->down_converts && *count < wanted) notes[(*count)++] = CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t *count, void *values) {
    ENTER();
    const object *o = descriptor;
    if (!o || !count) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (!o->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    if (type != type_of(name)) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && o->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        return give_configs(o, wanted, count, values);
    if (name == CUDNN_ATTR_ENGINECFG_ENGINE && o->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        return give_engine(o, count, values);
    if (!values || wanted < 1) return CUDNN_STATUS_BAD_PARAM;
    if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && o->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR)
        return give_notes(o, wanted, count, values);
    if (name != CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE || o->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        return CUDNN_STATUS_BAD_PARAM;
    *(int64_t *)values = (int64_t)ENGINES[o->engine].workspace_bytes;
    *count = 1;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- running ------------------------------------------------------------------------------------------------------------- */

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_,
                                  cudnnBackendDescriptor_t pack_) {
    ENTER();
    const object *plan = plan_, *pack = pack_;
    if (!handle || !plan || !pack) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (!plan->finalized || plan->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || !pack->finalized ||
        pack->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    const attribute *ids = get(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, SG_EMU_TENSORS),
                    *at = get(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, SG_EMU_TENSORS),
                    *workspace = get(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1);
    const engine *e = &ENGINES[plan->engine];
    sg_emu_convolution c = plan->convolution;
    for (int t = 0; t < SG_EMU_TENSORS; t++)
        for (int i = 0; i < SG_EMU_TENSORS; i++)
            if (ids->value.whole[i] == plan->ids[t]) c.tensor[t].at = at->value.pointer[i];
    for (int t = 0; t < SG_EMU_TENSORS; t++)
        if ((uintptr_t)c.tensor[t].at % (uintptr_t)plan->alignment != 0)
            return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    c.rounding = rounding_of(e, c.tensor[0].type);
    c.repeats = e->repeats;
    c.workspace = e->workspace_bytes ? workspace->value.pointer[0] : NULL;
    c.workspace_bytes = e->workspace_bytes;
    if (!sg_emu_convolution_is_sound(&c)) return CUDNN_STATUS_BAD_PARAM;
    return sg_emu_convolution_enqueue(&c, handle->stream) == cudaSuccess ? CUDNN_STATUS_SUCCESS
                                                                         : CUDNN_STATUS_EXECUTION_FAILED;
}
