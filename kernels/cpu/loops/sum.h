/* sum.h: sums of long runs whose rounding error does not grow with their length, whatever the compiler makes of them: 32
 * accumulators in fp32, emptied into a double every 1,024 terms. */
#ifndef SG_KERNELS_CPU_LOOPS_SUM_H
#define SG_KERNELS_CPU_LOOPS_SUM_H

#include "kernels/cpu/loops/isa.h"

enum { SG_SUM_LANES = 32, SG_SUM_BLOCK = 1024 };

static inline double sg_sum_of_lanes(float *lane) {
    for (int width = SG_SUM_LANES / 2; width >= 1; width /= 2)
        for (int j = 0; j < width; j++) lane[j] += lane[j + width];
    return (double)lane[0];
}

/* total (a double) = the sum over i = 0 .. n-1 of `term`, an expression in i. */
#define SG_SUM(total, i, n, term)                                                                                      \
    do {                                                                                                               \
        (total) = 0;                                                                                                   \
        for (int64_t begin_ = 0; begin_ < (n); begin_ += SG_SUM_BLOCK) {                                               \
            int64_t end_ = begin_ + SG_SUM_BLOCK < (n) ? begin_ + SG_SUM_BLOCK : (n), at_ = begin_;                    \
            float lane_[SG_SUM_LANES] = {0};                                                                           \
            for (; at_ + SG_SUM_LANES <= end_; at_ += SG_SUM_LANES) {                                                  \
                SG_SIMD for (int j_ = 0; j_ < SG_SUM_LANES; j_++) {                                                    \
                    int64_t i = at_ + j_;                                                                              \
                    lane_[j_] += (term);                                                                               \
                }                                                                                                      \
            }                                                                                                          \
            int rest_ = (int)(end_ - at_);                                                                             \
            SG_SIMD for (int j_ = 0; j_ < rest_; j_++) {                                                               \
                int64_t i = at_ + j_;                                                                                  \
                lane_[j_] += (term);                                                                                   \
            }                                                                                                          \
            (total) += sg_sum_of_lanes(lane_);                                                                         \
        }                                                                                                              \
    } while (0)

#endif
