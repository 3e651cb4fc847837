/* noise.h: numbers that repeat from run to run, for made measurements. */
#ifndef SG_TESTS_SUPPORT_NOISE_H
#define SG_TESTS_SUPPORT_NOISE_H

#include <stdint.h>

/* Evenly below 2^31. *state: the seed, then where the sequence is. */
uint64_t sg_noise_draw(uint64_t *state);
/* About normal, mean 0, sd 1: a sum of twelve draws. */
double sg_noise_normal(uint64_t *state);

#endif
