/* linear.c: cublasLtMatmul with the bias as its epilogue; its algorithm is the first that the heuristic names. */
#include "kernels/cuda/linear.h"

#include <stdlib.h>

/* Memory that is aligned as allocations are, and memory that is only aligned to an element: views of parameters begin
 * anywhere. */
enum { ALIGNED, ELEMENT, ALIGNMENTS, ALIGNED_BYTES = 16 };

struct sg_cuda_linear {
    const sg_cuda_blas *blas;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t layout[SG_FACTORS];
    bool has_algorithm[ALIGNMENTS];
    cublasLtMatmulAlgo_t algorithm[ALIGNMENTS];
    const void *bias; /* that the descriptor names now */
    float alpha, beta;
};

/* cuBLASLt's GELU is the tanh form with an approximate tanh: good for 16 bits, not for 32. */
static bool epilogue_of(const sg_op *op, cublasLtEpilogue_t *epilogue) {
    bool narrow = op->desc[op->n_in].dtype == SG_BF16 || op->desc[op->n_in].dtype == SG_F16;
    switch (op->attrs.act) {
    case SG_FN_NONE: *epilogue = CUBLASLT_EPILOGUE_BIAS; return true;
    case SG_FN_RELU: *epilogue = CUBLASLT_EPILOGUE_RELU_BIAS; return true;
    case SG_FN_GELU_TANH: *epilogue = CUBLASLT_EPILOGUE_GELU_BIAS; return narrow;
    default: return false;
    }
}

/* PyTorch takes cuBLASLt for a plain matrix and a dense bias of one dtype (ATen/native/cuda/Blas.cpp, addmm). */
bool sg_cuda_linear_fits(const sg_plan *plan, const sg_cuda_product *p) {
    const sg_op *op = &plan->op;
    cublasLtEpilogue_t ignored;
    if (!sg_flag(plan, SG_HAS_BIAS) || sg_flag(plan, SG_HAS_RESIDUAL) || !epilogue_of(op, &ignored)) return false;
    const sg_desc *a = sg_in(plan, 0), *bias = sg_in(plan, 2), *c = sg_out(plan, 0);
    bool dense = bias->size[0] == 1 || bias->stride[0] == 1;
    return dense && p->swapped && p->batches[0] == 1 && p->batches[1] == 1 && a->dtype == c->dtype &&
           bias->dtype == c->dtype && a->dtype != SG_F64;
}

static sg_code describe(sg_cuda_linear *l, const sg_op *op, const sg_cuda_product *p, sg_status *status) {
    const sg_cuda_blas *blas = l->blas;
    const int32_t op_left = (int32_t)p->matrix[SG_LEFT].op, op_right = (int32_t)p->matrix[SG_RIGHT].op;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    (void)epilogue_of(op, &epilogue);
    cublasStatus_t result = blas->cublasLtMatmulDescCreate(&l->desc, p->compute, CUDA_R_32F);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = blas->cublasLtMatmulDescSetAttribute(l->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_left, sizeof op_left);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = blas->cublasLtMatmulDescSetAttribute(l->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_right, sizeof op_right);
    if (result == CUBLAS_STATUS_SUCCESS)
        result =
            blas->cublasLtMatmulDescSetAttribute(l->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    const int sizes[SG_FACTORS][2] = {{p->m, p->k}, {p->k, p->n}, {p->m, p->n}};
    for (int i = 0; i < SG_FACTORS && result == CUBLAS_STATUS_SUCCESS; i++) {
        bool transposed = p->matrix[i].op == CUBLAS_OP_T;
        result = blas->cublasLtMatrixLayoutCreate(&l->layout[i], p->matrix[i].type, (uint64_t)sizes[i][transposed],
                                                  (uint64_t)sizes[i][!transposed], p->matrix[i].ld);
    }
    return sg_cuda_blas_check(blas, result, "describing a product to cuBLASLt", status);
}

static cublasStatus_t set_alignment(const sg_cuda_linear *l, cublasLtMatmulPreference_t preference, uint32_t bytes) {
    static const cublasLtMatmulPreferenceAttributes_t operands[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    /* the heuristic takes the bias' alignment from its address, and does not follow it */
    const uintptr_t bias = bytes;
    cublasStatus_t result =
        l->blas->cublasLtMatmulDescSetAttribute(l->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    for (size_t i = 0; i < sizeof operands / sizeof *operands && result == CUBLAS_STATUS_SUCCESS; i++)
        result = l->blas->cublasLtMatmulPreferenceSetAttribute(preference, operands[i], &bytes, sizeof bytes);
    return result;
}

/* No algorithm is no error: the product then goes another way. */
static sg_code choose(sg_cuda_linear *l, int alignment, uint32_t bytes, sg_status *status) {
    const sg_cuda_blas *blas = l->blas;
    const uint64_t workspace_bytes = blas->workspace_bytes;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found = {0};
    int count = 0;
    cublasStatus_t result = blas->cublasLtMatmulPreferenceCreate(&preference);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = blas->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                            &workspace_bytes, sizeof workspace_bytes);
    if (result == CUBLAS_STATUS_SUCCESS) result = set_alignment(l, preference, bytes);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = blas->cublasLtMatmulAlgoGetHeuristic(blas->lt, l->desc, l->layout[SG_LEFT], l->layout[SG_RIGHT],
                                                      l->layout[SG_RESULT], l->layout[SG_RESULT], preference, 1, &found,
                                                      &count);
    if (preference) (void)blas->cublasLtMatmulPreferenceDestroy(preference);
    if (result == CUBLAS_STATUS_NOT_SUPPORTED) return SG_OK;
    l->has_algorithm[alignment] = result == CUBLAS_STATUS_SUCCESS && count > 0 && found.state == CUBLAS_STATUS_SUCCESS;
    l->algorithm[alignment] = found.algo;
    return sg_cuda_blas_check(blas, result, "asking cuBLASLt for an algorithm", status);
}

sg_code sg_cuda_linear_new(sg_device *device, const sg_plan *plan, const sg_cuda_product *product, sg_cuda_linear **out,
                           sg_status *status) {
    *out = NULL;
    sg_cuda_linear *l = calloc(1, sizeof *l);
    if (!l) return sg_fail_memory(status, sizeof *l, "a product with bias");
    l->blas = device->blas;
    l->alpha = (float)plan->op.attrs.alpha;
    uint32_t element = (uint32_t)sg_dtype_bytes((sg_dtype)sg_out(plan, 0)->dtype);
    sg_code code = describe(l, &plan->op, product, status);
    if (code == SG_OK) code = choose(l, ALIGNED, ALIGNED_BYTES, status);
    if (code == SG_OK) code = choose(l, ELEMENT, element, status);
    if (code == SG_OK && l->has_algorithm[ELEMENT] && l->has_algorithm[ALIGNED])
        *out = l;
    else
        sg_cuda_linear_free(l);
    return code;
}

void sg_cuda_linear_free(sg_cuda_linear *l) {
    if (!l) return;
    for (int i = 0; i < SG_FACTORS; i++)
        if (l->layout[i]) (void)l->blas->cublasLtMatrixLayoutDestroy(l->layout[i]);
    if (l->desc) (void)l->blas->cublasLtMatmulDescDestroy(l->desc);
    free(l);
}

sg_code sg_cuda_linear_run(const sg_call *call, sg_cuda_linear *l, const void *left, const void *right,
                           const void *bias, void *result) {
    const sg_cuda_blas *blas = l->blas;
    const sg_cuda_blas_lane *lane;
    sg_code code = sg_cuda_blas_lane_of(call->device, call->stream, &lane, call->status);
    if (code != SG_OK) return code;
    uintptr_t low = (uintptr_t)left | (uintptr_t)right | (uintptr_t)bias | (uintptr_t)result;
    int alignment = low % ALIGNED_BYTES == 0 ? ALIGNED : ELEMENT;
    cublasStatus_t done = CUBLAS_STATUS_SUCCESS;
    if (l->bias != bias)
        done = blas->cublasLtMatmulDescSetAttribute(l->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    l->bias = done == CUBLAS_STATUS_SUCCESS ? bias : NULL;
    if (done == CUBLAS_STATUS_SUCCESS)
        done = blas->cublasLtMatmul(blas->lt, l->desc, &l->alpha, left, l->layout[SG_LEFT], right, l->layout[SG_RIGHT],
                                    &l->beta, result, l->layout[SG_RESULT], result, l->layout[SG_RESULT],
                                    &l->algorithm[alignment], lane->workspace, blas->workspace_bytes, call->stream);
    return sg_cuda_blas_check(blas, done, "multiplying matrices with a bias", call->status);
}
