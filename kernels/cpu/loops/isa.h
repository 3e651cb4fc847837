/* isa.h: names of one instruction set's build. SG_ISA is baseline, avx2 or avx512 (CMakeLists.txt). */
#ifndef SG_KERNELS_CPU_LOOPS_ISA_H
#define SG_KERNELS_CPU_LOOPS_ISA_H

#include "kernels/cpu/loops.h"

#ifndef SG_ISA
#define SG_ISA baseline
#endif

#define SG_PASTE_(a, b) a##_##b
#define SG_PASTE(a, b)  SG_PASTE_(a, b)
#define SG_NAME(name)   SG_PASTE(name, SG_ISA)
#define SG_TEXT_(a)     #a
#define SG_TEXT(a)      SG_TEXT_(a)

/* Iterations are independent, even where an output is an input's array. */
#define SG_SIMD _Pragma("omp simd")

extern const sg_load_loop SG_NAME(sg_load)[SG_DTYPE_COUNT];
extern const sg_store_loop SG_NAME(sg_store)[SG_DTYPE_COUNT];
extern const sg_loop1 SG_NAME(sg_unary)[SG_FN_COUNT];
extern const sg_loop2 SG_NAME(sg_unary_bwd)[SG_FN_COUNT];
extern const sg_loop2 SG_NAME(sg_binary)[SG_FN_COUNT];
extern const sg_loop3 SG_NAME(sg_ternary)[SG_FN_COUNT];

void SG_NAME(sg_fill)(float *w, int64_t n, float value);
double SG_NAME(sg_sum)(const float *x, int64_t n);
double SG_NAME(sg_sum_squares)(const float *x, int64_t n);
float SG_NAME(sg_max)(const float *x, int64_t n);
float SG_NAME(sg_min)(const float *x, int64_t n);
double SG_NAME(sg_dot)(const float *x, const float *y, int64_t n);
void SG_NAME(sg_add_rows)(float *sum, const float *x, int64_t rows, int64_t n, int64_t row_stride);
void SG_NAME(sg_softmax)(float *y, const float *x, int64_t n);
void SG_NAME(sg_softmax_bwd)(float *dx, const float *dy, const float *y, int64_t n);
void SG_NAME(sg_layer_norm)(float *y, const float *x, const float *w, const float *b, int64_t n, float eps, float *mean,
                            float *rstd);
void SG_NAME(sg_layer_norm_bwd)(float *dx, const float *dy, const float *x, const float *w, int64_t n, float mean,
                                float rstd);
void SG_NAME(sg_rms_norm)(float *y, const float *x, const float *w, int64_t n, float eps, float *rstd);
void SG_NAME(sg_rms_norm_bwd)(float *dx, const float *dy, const float *x, const float *w, int64_t n, float rstd);
void SG_NAME(sg_norm_bwd_weights)(float *dw, float *db, const float *dy, const float *x, int64_t n, float mean,
                                  float rstd);
float SG_NAME(sg_exp_shifted)(float *x, int64_t n, float shift);
void SG_NAME(sg_philox)(uint32_t *out, sg_philox_key key, uint64_t sample, uint64_t first_block, int64_t blocks);
void SG_NAME(sg_uniform)(float *w, const uint32_t *words, int64_t n, float low, float width);
void SG_NAME(sg_normal)(float *w, const uint32_t *words, int64_t n, float mean, float sd);
void SG_NAME(sg_bernoulli)(float *w, const uint32_t *words, int64_t n, uint64_t threshold);
void SG_NAME(sg_dropout)(float *y, uint8_t *mask, const float *x, const uint32_t *words, int64_t n, uint64_t threshold,
                         float scale);
void SG_NAME(sg_dropout_bwd)(float *dx, const float *dy, const uint8_t *mask, int64_t n, float scale);
void SG_NAME(sg_adamw)(float *p, const float *g, float *m, float *v, int64_t n, const sg_adamw_step *step);
void SG_NAME(sg_pool_max)(float *y, int32_t *index, const float *x, int64_t n, int64_t stride, int32_t at);
void SG_NAME(sg_pool_gather_u8)(float *dx, const float *dy, const uint8_t *index, int64_t n, uint8_t at);
void SG_NAME(sg_pool_gather_i64)(float *dx, const float *dy, const int64_t *index, int64_t n, int64_t at);
void SG_NAME(sg_transpose)(void *to, const void *from, int64_t rows, int64_t columns, int64_t to_stride,
                           int64_t from_stride, size_t bytes);

#endif
