/* noise.c: numbers that repeat from run to run. */
#include "tests/support/noise.h"

uint64_t sg_noise_draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

double sg_noise_normal(uint64_t *state) {
    double sum = 0;
    for (int i = 0; i < 12; i++) sum += (double)sg_noise_draw(state) / 0x1p31;
    return sum - 6;
}
