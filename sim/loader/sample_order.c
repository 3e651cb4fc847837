#include "sim/loader/sample_order.h"

#include "sim/walk/synthetic.h"

/* A balanced Feistel network over the smallest even number of bits that holds n, walked until it lands inside (Black and Rogaway,
 * "Ciphers with Arbitrary Finite Domains", 2002): a permutation whatever the round function. At most 4 walks on average. */
int64_t sg_shuffled(uint64_t seed, int64_t epoch, int64_t n, int64_t position) {
    enum { ROUNDS = 6 };
    int half = 1;
    while (half < 31 && (INT64_C(1) << (2 * half)) < n) half++;
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t x = (uint64_t)position;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t r = 0; r < ROUNDS; r++) {
            uint64_t next = left ^ (sg_synthetic_key(seed, (uint64_t)epoch * ROUNDS + r, right) & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

int64_t sg_order_batches(const sg_sample_order *o) {
    int64_t all = o->samples / o->batch + (o->samples % o->batch > 0);
    return all / o->ranks + (all % o->ranks > 0);
}

int64_t sg_order_sample(const sg_sample_order *o, int64_t epoch, int64_t index, int64_t row) {
    int64_t batch = index * o->ranks + o->rank;
    return sg_shuffled(o->seed, epoch, o->samples, (batch * o->batch + row) % o->samples);
}
