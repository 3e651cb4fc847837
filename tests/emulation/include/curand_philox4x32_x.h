/* curand_philox4x32_x.h of the emulation: Philox-4x32-10 as a function of counter and key. */
#ifndef SG_EMULATION_CURAND_PHILOX_H
#define SG_EMULATION_CURAND_PHILOX_H

#include "cuda_runtime.h"

static inline uint4 curand_Philox4x32_10(uint4 c, uint2 k) {
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c.x, p1 = (uint64_t)0xCD9E8D57u * c.z;
        c = make_uint4((unsigned)(p1 >> 32) ^ c.y ^ k.x, (unsigned)p1, (unsigned)(p0 >> 32) ^ c.w ^ k.y, (unsigned)p0);
        k = make_uint2(k.x + 0x9E3779B9u, k.y + 0xBB67AE85u);
    }
    return c;
}

#endif
