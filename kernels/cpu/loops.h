/* loops.h: the inner loops of the cpu device, serial, on contiguous fp32 runs (unless a loop says otherwise).
 *
 * kernels/cpu/loops/ is compiled once per instruction set (baseline x86-64, AVX2, AVX-512); each build fills one table and
 * the device takes the best that the processor runs. Everything around the loops (strides, dtypes, threads) is compiled
 * once and knows nothing of instruction sets. Pointers may be equal (in place) but must not overlap otherwise. */
#ifndef SG_KERNELS_CPU_LOOPS_H
#define SG_KERNELS_CPU_LOOPS_H

#include "kernels/op.h"
#include "kernels/philox.h"

typedef void (*sg_loop1)(float *w, const float *x, int64_t n, float a, float b);
typedef void (*sg_loop2)(float *w, const float *x, const float *y, int64_t n, float a, float b);
typedef void (*sg_loop3)(float *w, const float *x, const float *y, const float *z, int64_t n, float a, float b);

typedef void (*sg_load_loop)(float *to, const void *from, int64_t n, int64_t stride);
typedef void (*sg_store_loop)(void *to, const float *from, int64_t n, int64_t stride);

/* One AdamW step; the fields are what the update needs of lr, betas and step (kernels/cpu/adamw.c). */
typedef struct sg_adamw_step {
    float keep;               /* 1 - lr weight_decay; 1 where decay is coupled */
    float couple;             /* what is added of p to the gradient: weight_decay where it is coupled, else 0 */
    float beta1, one_minus_1; /* beta1, 1 - beta1 */
    float beta2, one_minus_2;
    float step_size;           /* lr / (1 - beta1^step) */
    float inverse_correction2; /* 1 / sqrt(1 - beta2^step) */
    float eps;
} sg_adamw_step;

typedef struct sg_loops {
    const char *isa; /* "avx512", "avx2", "baseline" */

    /* Conversion of n elements, `stride` elements apart in memory, from and to fp32. Stores round to nearest even; integers
     * truncate and saturate, NaN to 0; bool is x != 0. By sg_dtype; NULL for SG_F64, SG_I64 and SG_I32, which fp32 cannot carry. */
    const sg_load_loop *load;
    const sg_store_loop *store;

    /* By sg_fn; NULL where fn has another arity. */
    const sg_loop1 *unary;
    const sg_loop2 *unary_bwd; /* x = dy, y = saved input or output */
    const sg_loop2 *binary;
    const sg_loop3 *ternary;
    void (*fill)(float *w, int64_t n, float value);

    /* Reductions of a run; sums have many accumulators and go on in double. */
    double (*sum)(const float *x, int64_t n);
    double (*sum_squares)(const float *x, int64_t n);
    float (*max)(const float *x, int64_t n); /* NaN if any is */
    float (*min)(const float *x, int64_t n);
    double (*dot)(const float *x, const float *y, int64_t n);
    /* sum[i] += the sum of column i of a rows x n matrix with this row stride (at most a few hundred rows at once). */
    void (*add_rows)(float *sum, const float *x, int64_t rows, int64_t n, int64_t row_stride);

    /* Rows of n. */
    void (*softmax)(float *y, const float *x, int64_t n);
    void (*softmax_bwd)(float *dx, const float *dy, const float *y, int64_t n);
    void (*layer_norm)(float *y, const float *x, const float *w, const float *b, int64_t n, float eps, float *mean,
                       float *rstd);
    void (*layer_norm_bwd)(float *dx, const float *dy, const float *x, const float *w, int64_t n, float mean,
                           float rstd);
    void (*rms_norm)(float *y, const float *x, const float *w, int64_t n, float eps, float *rstd);
    void (*rms_norm_bwd)(float *dx, const float *dy, const float *x, const float *w, int64_t n, float rstd);
    /* dw += dy (x - mean) rstd, and db += dy unless db is NULL. */
    void (*norm_bwd_weights)(float *dw, float *db, const float *dy, const float *x, int64_t n, float mean, float rstd);
    /* x[i] = exp(x[i] - shift), 0 where x is -inf; returns their sum. */
    float (*exp_shifted)(float *x, int64_t n, float shift);

    /* Random words and what is made of them. out[4 blocks]. */
    void (*philox)(uint32_t *out, sg_philox_key key, uint64_t sample, uint64_t first_block, int64_t blocks);
    void (*uniform)(float *w, const uint32_t *words, int64_t n, float low, float width);
    void (*normal)(float *w, const uint32_t *words, int64_t n, float mean, float sd); /* n even, words in pairs */
    void (*bernoulli)(float *w, const uint32_t *words, int64_t n, uint64_t threshold);
    void (*dropout)(float *y, uint8_t *mask, const float *x, const uint32_t *words, int64_t n, uint64_t threshold,
                    float scale);
    void (*dropout_bwd)(float *dx, const float *dy, const uint8_t *mask, int64_t n, float scale);

    void (*adamw)(float *p, const float *g, float *m, float *v, int64_t n, const sg_adamw_step *step);

    /* Pooling: where x > y or x is NaN, y = x and index = at. x is `stride` elements apart. */
    void (*pool_max)(float *y, int32_t *index, const float *x, int64_t n, int64_t stride, int32_t at);
    /* dx[i] += dy[i] where index[i] == at. */
    void (*pool_gather_u8)(float *dx, const float *dy, const uint8_t *index, int64_t n, uint8_t at);
    void (*pool_gather_i64)(float *dx, const float *dy, const int64_t *index, int64_t n, int64_t at);

    /* to[i, j] = from[j, i]: rows x columns elements of 1, 2, 4 or 8 bytes; row strides in elements. */
    void (*transpose)(void *to, const void *from, int64_t rows, int64_t columns, int64_t to_stride, int64_t from_stride,
                      size_t bytes);
} sg_loops;

extern const sg_loops sg_loops_baseline, sg_loops_avx2, sg_loops_avx512;

/* The best table that this processor can run. */
const sg_loops *sg_loops_best(void);

#endif
