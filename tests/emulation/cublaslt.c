/* cublaslt.c: the emulated cuBLASLt: descriptors that are checked when they are used, a heuristic that names one
 * algorithm, and the product that the algorithm runs. */
#include "tests/emulation/emulation.h"
#include "tests/emulation/gemm.h"

#include <stdlib.h>
#include <string.h>

struct cublasLtContext {
    int device;
};

/* What the opaque words hold. */
typedef struct description {
    uint64_t magic;
    int32_t compute, scale_type, transposed[2];
    uint32_t epilogue;
    const void *bias;
} description;
typedef struct layout {
    uint64_t magic;
    int32_t type;
    uint64_t rows, columns;
    int64_t ld;
} layout;
typedef struct preference {
    uint64_t magic, workspace_bytes;
    uint32_t alignment[4];
} preference;
typedef struct algorithm {
    uint64_t magic, workspace_bytes;
    uint32_t alignment;
    int32_t compute, type;
} algorithm;
_Static_assert(sizeof(description) <= sizeof(cublasLtMatmulDescOpaque_t), "fits");
_Static_assert(sizeof(layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "fits");
_Static_assert(sizeof(preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "fits");
_Static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "fits");

static const uint64_t DESCRIPTION = 0x6465736372697074, LAYOUT = 0x6c61796f75740000, PREFERENCE = 0x7072656665720000,
                      ALGORITHM = 0x616c676f72697468;

#define ENTER()                                                                                                        \
    do {                                                                                                               \
        if (SG_EMU_CALL_FAILS()) return CUBLAS_STATUS_INTERNAL_ERROR;                                                  \
    } while (0)

static bool is(const void *object, uint64_t magic) {
    return object && memcmp(object, &magic, sizeof magic) == 0;
}

/* Descriptors are handles too: a leak of one is a leak. */
static cublasStatus_t make(void **object, size_t bytes, const void *content, size_t content_bytes) {
    *object = calloc(1, bytes);
    if (!*object) return CUBLAS_STATUS_ALLOC_FAILED;
    memcpy(*object, content, content_bytes);
    sg_emu_count_handle(1);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t destroy(void *object, uint64_t magic) {
    if (!is(object, magic)) return CUBLAS_STATUS_INVALID_VALUE;
    memset(object, 0, sizeof magic);
    free(object);
    sg_emu_count_handle(-1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int *value) {
    return cublasGetProperty(type, value);
}
size_t cublasLtGetCudartVersion(void) {
    return CUDART_VERSION;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    ENTER();
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = calloc(1, sizeof **handle);
    if (!*handle || cudaGetDevice(&(*handle)->device) != cudaSuccess) {
        free(*handle);
        *handle = NULL;
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    sg_emu_count_handle(1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    sg_emu_count_handle(-1);
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- descriptors ----------------------------------------------------------------------------------------------------------- */

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType scale_type) {
    ENTER();
    bool sound = desc && scale_type == (compute == CUBLAS_COMPUTE_64F ? CUDA_R_64F : CUDA_R_32F);
    if (!sound) return CUBLAS_STATUS_INVALID_VALUE;
    description d = {.magic = DESCRIPTION,
                     .compute = (int32_t)compute,
                     .scale_type = (int32_t)scale_type,
                     .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    return make((void **)desc, sizeof **desc, &d, sizeof d);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
    return destroy(desc, DESCRIPTION);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
    ENTER();
    if (!is(desc, DESCRIPTION) || !value) return CUBLAS_STATUS_INVALID_VALUE;
    description *d = (description *)(void *)desc;
    void *to = NULL;
    size_t wanted = sizeof(int32_t);
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: to = &d->transposed[0]; break;
    case CUBLASLT_MATMUL_DESC_TRANSB: to = &d->transposed[1]; break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: to = &d->epilogue; break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        to = &d->bias;
        wanted = sizeof d->bias;
        break;
    }
    if (!to || bytes != wanted) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *to, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
    ENTER();
    if (!to || !sg_emu_type_bytes(type) || rows < 1 || columns < 1 || ld < (int64_t)rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    layout l = {LAYOUT, (int32_t)type, rows, columns, ld};
    return make((void **)to, sizeof **to, &l, sizeof l);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
    return destroy(l, LAYOUT);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *to) {
    ENTER();
    if (!to) return CUBLAS_STATUS_INVALID_VALUE;
    preference p = {PREFERENCE, 0, {256, 256, 256, 256}};
    return make((void **)to, sizeof **to, &p, sizeof p);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
    return destroy(p, PREFERENCE);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t to,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes) {
    ENTER();
    if (!is(to, PREFERENCE) || !value) return CUBLAS_STATUS_INVALID_VALUE;
    preference *p = (preference *)(void *)to;
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
        if (bytes != sizeof p->workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
        memcpy(&p->workspace_bytes, value, bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    int operand = (int)attribute - (int)CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (operand < 0 || operand > 3 || bytes != sizeof(uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&p->alignment[operand], value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- products --------------------------------------------------------------------------------------------------------------- */

/* The description and layouts as one product; false where they do not fit together. */
static cublasStatus_t product_of(const description *d, const layout *a, const layout *b, const layout *c,
                                 sg_emu_gemm *g) {
    bool ta = d->transposed[0] == CUBLAS_OP_T, tb = d->transposed[1] == CUBLAS_OP_T;
    *g = (sg_emu_gemm){.m = (int64_t)c->rows,
                       .n = (int64_t)c->columns,
                       .k = (int64_t)(ta ? a->rows : a->columns),
                       .batches = 1,
                       .epilogue = (cublasLtEpilogue_t)d->epilogue};
    bool fit = (int64_t)(ta ? a->columns : a->rows) == g->m && (int64_t)(tb ? b->rows : b->columns) == g->n &&
               (int64_t)(tb ? b->columns : b->rows) == g->k;
    if (!fit) return CUBLAS_STATUS_INVALID_VALUE;
    g->a = (sg_emu_matrix){.type = (cudaDataType)a->type, .transposed = ta, .ld = a->ld};
    g->b = (sg_emu_matrix){.type = (cudaDataType)b->type, .transposed = tb, .ld = b->ld};
    g->d = (sg_emu_matrix){.type = (cudaDataType)c->type, .ld = c->ld};
    switch (g->epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT: break;
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
        if (!d->bias) return CUBLAS_STATUS_INVALID_VALUE;
        g->bias = d->bias;
        break;
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return sg_emu_gemm_types((cublasComputeType_t)d->compute, g->a.type, g->b.type, g->d.type, &g->rounding)
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wish, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *count) {
    ENTER();
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!is(desc, DESCRIPTION) || !is(a, LAYOUT) || !is(b, LAYOUT) || !is(c, LAYOUT) || !is(d, LAYOUT) ||
        !is(wish, PREFERENCE) || wanted < 1 || !results || !count)
        return CUBLAS_STATUS_INVALID_VALUE;
    sg_emu_gemm g;
    const preference *p = (const preference *)(const void *)wish;
    const layout *result = (const layout *)(const void *)d;
    *count = 0;
    cublasStatus_t status = product_of((const description *)(const void *)desc, (const layout *)(const void *)a,
                                       (const layout *)(const void *)b, result, &g);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    uint32_t alignment = 256;
    for (int i = 0; i < 4; i++)
        if (p->alignment[i] < alignment) alignment = p->alignment[i];
    algorithm chosen = {.magic = ALGORITHM,
                        .workspace_bytes = p->workspace_bytes < 4096 ? p->workspace_bytes : 4096,
                        .alignment = alignment,
                        .compute = ((const description *)(const void *)desc)->compute,
                        .type = result->type};
    memset(&results[0], 0, sizeof results[0]);
    memcpy(&results[0].algo, &chosen, sizeof chosen);
    results[0].workspaceSize = chosen.workspace_bytes;
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

static bool is_aligned(const void *at, const algorithm *chosen) {
    return (uintptr_t)at % chosen->alignment == 0;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
    ENTER();
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!is(desc, DESCRIPTION) || !is(a_layout, LAYOUT) || !is(b_layout, LAYOUT) || !is(c_layout, LAYOUT) ||
        !is(d_layout, LAYOUT) || !is(algo, ALGORITHM) || !alpha || !beta || c != d || c_layout != d_layout)
        return CUBLAS_STATUS_INVALID_VALUE;
    const algorithm *chosen = (const algorithm *)(const void *)algo;
    const description *description_ = (const description *)(const void *)desc;
    sg_emu_gemm g;
    cublasStatus_t status =
        product_of(description_, (const layout *)(const void *)a_layout, (const layout *)(const void *)b_layout,
                   (const layout *)(const void *)d_layout, &g);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    bool fits = chosen->compute == description_->compute && chosen->type == (int32_t)g.d.type &&
                workspace_bytes >= chosen->workspace_bytes && sg_emu_is_device_memory(workspace, workspace_bytes) &&
                is_aligned(a, chosen) && is_aligned(b, chosen) && is_aligned(d, chosen) && is_aligned(g.bias, chosen) &&
                sg_emu_stream_device(stream) == handle->device;
    g.a.at = a;
    g.b.at = b;
    g.d.at = d;
    g.alpha = (double)*(const float *)alpha;
    g.beta = (double)*(const float *)beta;
    if (!fits || !sg_emu_gemm_is_sound(&g)) return CUBLAS_STATUS_INVALID_VALUE;
    return sg_emu_gemm_enqueue(&g, stream) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
