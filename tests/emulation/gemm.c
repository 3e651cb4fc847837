/* gemm.c: matrix products on the host, accumulated in double. */
#include "tests/emulation/gemm.h"
#include "tests/emulation/emulation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool sg_emu_gemm_types(cublasComputeType_t compute, cudaDataType a, cudaDataType b, cudaDataType d,
                       sg_emu_rounding *rounding) {
    bool narrow = a == CUDA_R_16F || a == CUDA_R_16BF;
    *rounding = SG_EMU_AS_IS;
    if (a != b) return false;
    switch (compute) {
    case CUBLAS_COMPUTE_64F: return a == CUDA_R_64F && d == CUDA_R_64F;
    case CUBLAS_COMPUTE_32F: return (a == CUDA_R_32F && d == CUDA_R_32F) || (narrow && (d == a || d == CUDA_R_32F));
    case CUBLAS_COMPUTE_32F_FAST_TF32: *rounding = SG_EMU_TO_TF32; break;
    case CUBLAS_COMPUTE_32F_FAST_16BF: *rounding = SG_EMU_TO_BF16; break;
    case CUBLAS_COMPUTE_32F_FAST_16F: *rounding = SG_EMU_TO_F16; break;
    default: return false;
    }
    return a == CUDA_R_32F && d == CUDA_R_32F;
}

/* ---- checks -------------------------------------------------------------------------------------------------------------- */

static bool lies_right(const sg_emu_matrix *x, const void *at, int64_t rows, int64_t columns, int64_t batches) {
    int64_t stored_rows = x->transposed ? columns : rows, stored_columns = x->transposed ? rows : columns;
    size_t bytes = sg_emu_type_bytes(x->type);
    int64_t last = (stored_columns - 1) * x->ld + stored_rows + (batches - 1) * x->stride;
    return (uintptr_t)at % bytes == 0 && sg_emu_is_device_memory(at, (size_t)last * bytes);
}

static bool ld_is_sound(const sg_emu_matrix *x, int64_t rows, int64_t columns) {
    int64_t least = x->transposed ? columns : rows;
    return x->ld >= (least > 1 ? least : 1) && x->stride >= 0;
}

static bool is_sound(const sg_emu_gemm *g, const sg_emu_matrix *x, int64_t rows, int64_t columns) {
    if (!ld_is_sound(x, rows, columns)) return false;
    if (x->pointers) return sg_emu_is_device_memory(x->pointers, (size_t)g->batches * sizeof(void *));
    return lies_right(x, x->at, rows, columns, g->batches);
}

bool sg_emu_gemm_is_sound(const sg_emu_gemm *g) {
    if (g->m < 1 || g->n < 1 || g->k < 1 || g->batches < 1) return false;
    if (g->bias && !sg_emu_is_device_memory(g->bias, (size_t)g->m * sg_emu_type_bytes(g->d.type))) return false;
    bool overlap = g->batches > 1 && !g->d.pointers && g->d.stride == 0;
    return !overlap && is_sound(g, &g->a, g->m, g->k) && is_sound(g, &g->b, g->k, g->n) &&
           is_sound(g, &g->d, g->m, g->n);
}

/* ---- work ---------------------------------------------------------------------------------------------------------------- */

static const void *matrix_at(const sg_emu_matrix *x, int64_t batch) {
    if (x->pointers) return x->pointers[batch];
    return (const char *)x->at + batch * x->stride * (int64_t)sg_emu_type_bytes(x->type);
}

/* The factor as rows of `inner` doubles: of a its rows, of b its columns. */
static void take(const sg_emu_gemm *g, const sg_emu_matrix *x, const void *at, bool is_a, double *to) {
    int64_t outer = is_a ? g->m : g->n;
    for (int64_t i = 0; i < outer; i++)
        for (int64_t l = 0; l < g->k; l++) {
            int64_t row = is_a ? i : l, column = is_a ? l : i;
            int64_t place = x->transposed ? row * x->ld + column : column * x->ld + row;
            to[i * g->k + l] = sg_emu_round(sg_emu_read(at, x->type, place), g->rounding);
        }
}

static double finish(const sg_emu_gemm *g, double v, int64_t row) {
    if (g->bias) v += sg_emu_read(g->bias, g->d.type, row);
    switch (g->epilogue) {
    case CUBLASLT_EPILOGUE_RELU_BIAS: return v < 0 ? 0 : v;
    case CUBLASLT_EPILOGUE_GELU_BIAS: return 0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
    default: return v;
    }
}

static void multiply(const sg_emu_gemm *g, const double *a, const double *b, void *d) {
    for (int64_t j = 0; j < g->n; j++)
        for (int64_t i = 0; i < g->m; i++) {
            const double *x = a + i * g->k, *y = b + j * g->k;
            double sum = 0;
            for (int64_t l = 0; l < g->k; l++) sum += x[l] * y[l];
            int64_t at = j * g->d.ld + i;
            sum *= g->alpha;
            if (g->beta != 0) sum += g->beta * sg_emu_read(d, g->d.type, at);
            sg_emu_write(d, g->d.type, at, finish(g, sum, i));
        }
}

/* cuBLAS sees such addresses only on the GPU, so that it cannot choose a kernel by them: those of tensor cores read 16 bytes
 * (cublasGemmBatchedEx: "pointers ... must be properly aligned to avoid misaligned memory access errors"). */
static bool is_aligned(const sg_emu_gemm *g, const sg_emu_matrix *x, const void *at) {
    bool tensor_cores = g->rounding != SG_EMU_AS_IS || x->type == CUDA_R_16F || x->type == CUDA_R_16BF;
    return !x->pointers || !tensor_cores || (uintptr_t)at % 16 == 0;
}

static bool run(void *work) {
    const sg_emu_gemm *g = work;
    double *a = calloc((size_t)(g->m * g->k), sizeof *a), *b = calloc((size_t)(g->n * g->k), sizeof *b);
    bool fine = a && b && sg_emu_gemm_is_sound(g);
    if (!fine) sg_emu_report_fault("a matrix product reads or writes memory that was freed");
    for (int64_t i = 0; i < g->batches && fine; i++) {
        const void *x = matrix_at(&g->a, i), *y = matrix_at(&g->b, i), *d = matrix_at(&g->d, i);
        fine = lies_right(&g->a, x, g->m, g->k, 1) && lies_right(&g->b, y, g->k, g->n, 1) &&
               lies_right(&g->d, d, g->m, g->n, 1);
        if (!fine) {
            sg_emu_report_fault("a batched product's addresses lead out of device memory");
            break;
        }
        fine = is_aligned(g, &g->a, x) && is_aligned(g, &g->b, y) && is_aligned(g, &g->d, d);
        if (!fine) {
            sg_emu_report_fault("a batched product's addresses are not multiples of 16");
            break;
        }
        if (i == 0 || x != matrix_at(&g->a, i - 1)) take(g, &g->a, x, true, a);
        if (i == 0 || y != matrix_at(&g->b, i - 1)) take(g, &g->b, y, false, b);
        void *to;
        memcpy(&to, &d, sizeof to);
        multiply(g, a, b, to);
    }
    free(a);
    free(b);
    return fine;
}

cudaError_t sg_emu_gemm_enqueue(const sg_emu_gemm *gemm, cudaStream_t stream) {
    sg_emu_gemm *copy = malloc(sizeof *copy);
    if (!copy) return cudaErrorMemoryAllocation;
    *copy = *gemm;
    return sg_emu_enqueue(stream, "matrix product", run, free, copy);
}
