#include "kernels/cpu/parallel.h"

#ifdef _OPENMP
#include <omp.h>
#endif

int sg_parallel_parts(int threads, int64_t n, int64_t grain) {
#ifdef _OPENMP
    if (grain < 1) grain = 1;
    int64_t parts = n / grain;
    if (parts > threads) parts = threads;
    return parts < 1 ? 1 : (int)parts;
#else
    (void)threads, (void)n, (void)grain;
    return 1;
#endif
}

#ifdef _OPENMP
/* Boundaries of large splits fall on cache lines of fp32. */
static int64_t boundary(int64_t n, int parts, int i) {
    int64_t at = n / parts * i + n % parts * i / parts;
    return n >= 4096 && i < parts ? at / 16 * 16 : at;
}
#endif

void sg_parallel(int threads, int64_t n, int64_t grain, sg_body body, void *context) {
    int parts = sg_parallel_parts(threads, n, grain);
    if (parts == 1) {
        body(context, 0, n, 0);
        return;
    }
#ifdef _OPENMP
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int i = 0; i < parts; i++) body(context, boundary(n, parts, i), boundary(n, parts, i + 1), i);
#endif
}

void sg_parallel_set_threads(int threads) {
#ifdef _OPENMP
    omp_set_num_threads(threads);
#else
    (void)threads;
#endif
}
