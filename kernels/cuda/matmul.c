/* matmul.c: MATMUL through cuBLAS. Everything is decided when the plan is made: what is left for a launch is one call, and
 * one kernel more where bias, residual or activation are not cuBLASLt's, or where a layout is not cuBLAS'. */
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/epilogue.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/pointers.h"

#include <stdlib.h>

enum { A, B };

/* A factor that cuBLAS cannot read where it lies (no stride of 1, repeated rows) is copied to the workspace. */
typedef struct factor {
    sg_desc seen;  /* what cuBLAS reads */
    sg_plan *copy; /* NULL: reads the tensor itself */
    uint64_t offset;
} factor;

typedef struct matmul {
    factor factor[2];
    sg_desc result; /* what cuBLAS writes */
    bool staged;    /* to the workspace */
    uint64_t result_offset, pointers_offset;
    sg_cuda_product product;
    sg_pointers pointers;
    sg_cuda_linear *linear; /* NULL: plain cuBLAS */
    bool finishes;          /* with the epilogue */
    sg_epilogue epilogue;
    union {
        float f32;
        double f64;
    } alpha, beta;
} matmul;

/* ---- launch -------------------------------------------------------------------------------------------------------------- */

static sg_code copy_factor(const sg_call *call, const factor *f, int which, void **at) {
    *at = sg_in_at(call, which);
    if (!f->copy) return SG_OK;
    void *pointers[2] = {*at, call->workspace + f->offset};
    *at = pointers[1];
    return sg_cuda_run_part(call, f->copy, pointers, NULL);
}

static sg_code multiply_pointers(const sg_call *call, const matmul *m, cublasHandle_t handle, void *const at[]) {
    const sg_cuda_product *p = &m->product;
    const sg_cuda_matrix *x = p->matrix;
    const char *base[SG_POINTERS_OPERANDS] = {at[SG_LEFT], at[SG_RIGHT], at[SG_RESULT]};
    const char **to = (const char **)(void *)(call->workspace + m->pointers_offset);
    int matrices = p->batches[0] * p->batches[1];
    sg_code code = sg_cuda_pointers(call, &m->pointers, base, to);
    if (code != SG_OK) return code;
    const void *const *inputs = (const void *const *)to;
    void *const *outputs = (void *const *)(void *)(to + 2 * (size_t)matrices);
    const sg_cuda_blas *blas = call->device->blas;
    cublasStatus_t done = blas->cublasGemmBatchedEx(
        handle, x[SG_LEFT].op, x[SG_RIGHT].op, p->m, p->n, p->k, &m->alpha, inputs, x[SG_LEFT].type, x[SG_LEFT].ld,
        inputs + matrices, x[SG_RIGHT].type, x[SG_RIGHT].ld, &m->beta, outputs, x[SG_RESULT].type, x[SG_RESULT].ld,
        matrices, p->compute, CUBLAS_GEMM_DEFAULT);
    return sg_cuda_blas_check(blas, done, "multiplying a batch of matrices", call->status);
}

static sg_code multiply_strided(const sg_call *call, const matmul *m, cublasHandle_t handle, void *const at[]) {
    const sg_cuda_product *p = &m->product;
    const sg_cuda_matrix *x = p->matrix;
    const sg_cuda_blas *blas = call->device->blas;
    cublasStatus_t done;
    if (p->batches[1] > 1)
        done = blas->cublasGemmStridedBatchedEx(
            handle, x[SG_LEFT].op, x[SG_RIGHT].op, p->m, p->n, p->k, &m->alpha, at[SG_LEFT], x[SG_LEFT].type,
            x[SG_LEFT].ld, p->stride[1][SG_LEFT], at[SG_RIGHT], x[SG_RIGHT].type, x[SG_RIGHT].ld,
            p->stride[1][SG_RIGHT], &m->beta, at[SG_RESULT], x[SG_RESULT].type, x[SG_RESULT].ld,
            p->stride[1][SG_RESULT], p->batches[1], p->compute, CUBLAS_GEMM_DEFAULT);
    else
        done =
            blas->cublasGemmEx(handle, x[SG_LEFT].op, x[SG_RIGHT].op, p->m, p->n, p->k, &m->alpha, at[SG_LEFT],
                               x[SG_LEFT].type, x[SG_LEFT].ld, at[SG_RIGHT], x[SG_RIGHT].type, x[SG_RIGHT].ld, &m->beta,
                               at[SG_RESULT], x[SG_RESULT].type, x[SG_RESULT].ld, p->compute, CUBLAS_GEMM_DEFAULT);
    return sg_cuda_blas_check(blas, done, "multiplying matrices", call->status);
}

/* The outer batch dim one by one: cuBLAS looks at these addresses and takes kernels that can read them. */
static sg_code multiply_one_by_one(const sg_call *call, const matmul *m, cublasHandle_t handle, void *const at[]) {
    sg_code code = SG_OK;
    for (int i = 0; i < m->product.batches[0] && code == SG_OK; i++) {
        void *moved[SG_FACTORS];
        for (int k = 0; k < SG_FACTORS; k++) moved[k] = (char *)at[k] + i * m->pointers.outer_bytes[k];
        code = multiply_strided(call, m, handle, moved);
    }
    return code;
}

/* cublasGemmBatchedEx reads its addresses on the GPU, too late to choose a kernel by them: where tensor cores are used they
 * must be multiples of 16. */
static bool pointers_fit(const matmul *m, void *const at[]) {
    const sg_cuda_product *p = &m->product;
    if (p->compute == CUBLAS_COMPUTE_64F || (p->compute == CUBLAS_COMPUTE_32F && p->matrix[SG_LEFT].type == CUDA_R_32F))
        return true;
    uint64_t low = 0;
    for (int k = 0; k < SG_FACTORS; k++)
        low |= (uint64_t)(uintptr_t)at[k] | (uint64_t)m->pointers.outer_bytes[k] | (uint64_t)m->pointers.inner_bytes[k];
    return low % 16 == 0;
}

static sg_code multiply(const sg_call *call, const matmul *m, void *const at[]) {
    const sg_cuda_blas_lane *lane;
    sg_code code = sg_cuda_blas_lane_of(call->device, call->stream, &lane, call->status);
    if (code != SG_OK) return code;
    if (m->product.batches[0] == 1) return multiply_strided(call, m, lane->handle, at);
    return pointers_fit(m, at) ? multiply_pointers(call, m, lane->handle, at)
                               : multiply_one_by_one(call, m, lane->handle, at);
}

static sg_code run_matmul(const sg_call *call) {
    const sg_plan *plan = call->plan;
    const matmul *m = plan->state;
    bool has_bias = sg_flag(plan, SG_HAS_BIAS);
    void *a, *b, *c = sg_out_at(call, 0), *result = m->staged ? call->workspace + m->result_offset : c;
    sg_code code = copy_factor(call, &m->factor[A], A, &a);
    if (code == SG_OK) code = copy_factor(call, &m->factor[B], B, &b);
    if (code != SG_OK) return code;
    void *const at[SG_FACTORS] = {m->product.swapped ? b : a, m->product.swapped ? a : b, result};
    const void *bias = has_bias ? sg_in_at(call, 2) : NULL;
    if (m->linear) return sg_cuda_linear_run(call, m->linear, at[SG_LEFT], at[SG_RIGHT], bias, result);
    code = multiply(call, m, at);
    if (code != SG_OK || !m->finishes) return code;
    const void *residual = sg_flag(plan, SG_HAS_RESIDUAL) ? sg_in_at(call, 2 + has_bias) : NULL;
    return sg_cuda_epilogue(call, &m->epilogue, result, c, bias, residual);
}

/* ---- preparation --------------------------------------------------------------------------------------------------------- */

static void free_matmul(void *state) {
    matmul *m = state;
    if (!m) return;
    for (int i = 0; i < 2; i++) sg_cuda_plan_free(m->factor[i].copy);
    sg_cuda_linear_free(m->linear);
    free(m);
}

static uint64_t take(sg_plan *plan, uint64_t bytes) {
    uint64_t at = plan->workspace_bytes;
    plan->workspace_bytes += sg_cuda_align(bytes);
    return at;
}

static sg_code prepare_factor(sg_device *device, sg_plan *plan, int which, sg_status *status) {
    factor *f = &((matmul *)plan->state)->factor[which];
    sg_desc from = *sg_in(plan, which);
    f->seen = from;
    if (sg_cuda_matrix_fits(&from)) return SG_OK;
    /* a matrix that is the same for a whole batch is copied once */
    for (int d = 0; d < from.ndim - 2; d++)
        if (from.stride[d] == 0) from.size[d] = 1;
    sg_desc to = sg_desc_make((sg_dtype)from.dtype, from.ndim, from.size), pair[2] = {from, to};
    sg_op copy = {.kind = SG_OP_COPY, .n_in = 1, .n_out = 1, .desc = pair};
    f->offset = take(plan, sg_desc_span_bytes(&to));
    for (int d = 0; d < to.ndim; d++) {
        if (to.size[d] != f->seen.size[d]) to.stride[d] = 0;
        to.size[d] = f->seen.size[d];
    }
    f->seen = to;
    return sg_cuda_plan_new(device, &copy, &f->copy, status);
}

/* Dtypes that cuBLAS writes for factors of a's dtype. */
static bool writes(int32_t a, int32_t c) {
    return a == c || (c == SG_F32 && (a == SG_BF16 || a == SG_F16));
}

/* Addends and activations are applied before rounding: then the product stays in fp32 until they are. */
static void place_result(sg_plan *plan) {
    matmul *m = plan->state;
    const sg_desc *a = sg_in(plan, 0), *c = sg_out(plan, 0);
    bool adds = sg_flag(plan, SG_HAS_BIAS | SG_HAS_RESIDUAL) || plan->op.attrs.act != SG_FN_NONE;
    sg_dtype wide = a->dtype == SG_F64 ? SG_F64 : SG_F32;
    bool direct = sg_cuda_matrix_fits(c) &&
                  (adds ? c->dtype == (int32_t)wide && writes(a->dtype, c->dtype) : writes(a->dtype, c->dtype));
    m->finishes = adds || !direct;
    m->staged = !direct;
    m->result = direct ? *c : sg_desc_make(wide, c->ndim, c->size);
}

/* What follows the product, where it is not cuBLASLt's. */
static void prepare_epilogue(sg_plan *plan) {
    matmul *m = plan->state;
    const sg_desc *c = sg_out(plan, 0);
    sg_epilogue *e = &m->epilogue;
    *e = (sg_epilogue){.product = m->result, .out = *c, .act = plan->op.attrs.act};
    e->has_bias = sg_flag(plan, SG_HAS_BIAS);
    e->has_residual = sg_flag(plan, SG_HAS_RESIDUAL);
    if (e->has_bias) e->bias = sg_cuda_along(sg_in(plan, 2), c, c->ndim - 1);
    if (e->has_residual) e->residual = *sg_in(plan, 2 + e->has_bias);
    if (m->staged) m->result_offset = take(plan, sg_desc_span_bytes(&m->result));
}

static void prepare_pointers(sg_plan *plan) {
    matmul *m = plan->state;
    const sg_cuda_product *p = &m->product;
    const int32_t dtypes[SG_FACTORS] = {sg_in(plan, 0)->dtype, sg_in(plan, 0)->dtype, m->result.dtype};
    m->pointers = (sg_pointers){.outer = p->batches[0], .inner = p->batches[1]};
    for (int i = 0; i < SG_FACTORS; i++) {
        int64_t bytes = (int64_t)sg_dtype_bytes((sg_dtype)dtypes[i]);
        m->pointers.outer_bytes[i] = p->stride[0][i] * bytes;
        m->pointers.inner_bytes[i] = p->stride[1][i] * bytes;
    }
    m->pointers_offset =
        take(plan, (uint64_t)SG_FACTORS * (uint64_t)p->batches[0] * (uint64_t)p->batches[1] * sizeof(void *));
}

/* cuBLASLt writes c itself, in c's dtype; tried before the result is given a place of its own. */
static sg_code prepare_linear(sg_device *device, sg_plan *plan, sg_status *status) {
    matmul *m = plan->state;
    const sg_desc *c = sg_out(plan, 0);
    if (!sg_flag(plan, SG_HAS_BIAS) || !sg_cuda_matrix_fits(c)) return SG_OK;
    sg_cuda_product product;
    sg_code code = sg_cuda_product_of(&plan->op, &m->factor[A].seen, &m->factor[B].seen, c, &product, status);
    if (code != SG_OK || !sg_cuda_linear_fits(plan, &product)) return code;
    code = sg_cuda_linear_new(device, plan, &product, &m->linear, status);
    if (m->linear) m->product = product;
    return code;
}

static sg_code prepare_plain(sg_plan *plan, sg_status *status) {
    matmul *m = plan->state;
    place_result(plan);
    sg_code code =
        sg_cuda_product_of(&plan->op, &m->factor[A].seen, &m->factor[B].seen, &m->result, &m->product, status);
    if (code != SG_OK) return code;
    if (m->finishes) prepare_epilogue(plan);
    if (m->product.batches[0] > 1) prepare_pointers(plan);
    return SG_OK;
}

sg_code sg_cuda_matmul(sg_device *device, sg_plan *plan, sg_status *status) {
    sg_code code = sg_cuda_blas_open(device, status);
    if (code == SG_OK) code = sg_cuda_plan_state(plan, sizeof(matmul), status);
    if (code != SG_OK) return code;
    matmul *m = plan->state;
    plan->free_state = free_matmul;
    plan->run = run_matmul;
    if (sg_in(plan, 0)->dtype == SG_F64)
        m->alpha.f64 = plan->op.attrs.alpha;
    else
        m->alpha.f32 = (float)plan->op.attrs.alpha;
    code = prepare_factor(device, plan, A, status);
    if (code == SG_OK) code = prepare_factor(device, plan, B, status);
    if (code == SG_OK) code = prepare_linear(device, plan, status);
    return code == SG_OK && !m->linear ? prepare_plain(plan, status) : code;
}
