/* The caching allocator against PyTorch's rules, on a device that only counts; and every failure of the device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "sim/walk/allocator.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

struct sg_device {
    uint64_t next, used, limit; /* addresses are never used twice */
    int64_t segments, calls, fail_at;
    sg_code fail_code;
};

static sg_code segment_alloc(sg_device *d, uint64_t bytes, void **segment, sg_status *status) {
    if (++d->calls == d->fail_at) return sg_fail(status, d->fail_code, "told to fail");
    if (d->limit && d->used + bytes > d->limit) return sg_fail(status, SG_NO, "full");
    *segment = (void *)(uintptr_t)(d->next += (uint64_t)1 << 40); // NOLINT(performance-no-int-to-ptr)
    d->used += bytes;
    d->segments++;
    return SG_OK;
}

static void segment_free(sg_device *d, void *segment, uint64_t bytes) {
    assert_non_null(segment);
    d->used -= bytes;
    d->segments--;
}

static const sg_device_api COUNTING = {.segment_alloc = segment_alloc, .segment_free = segment_free};

static sg_allocator *opened(sg_device *d, sg_allocator_policy policy) {
    sg_allocator *a;
    assert_int_equal(sg_allocator_open(&COUNTING, d, policy, &a, NULL), SG_OK);
    return a;
}

static sg_block *take(sg_allocator *a, uint64_t bytes) {
    sg_block *b;
    assert_int_equal(sg_allocator_take(a, bytes, &b, NULL), SG_OK);
    return b;
}

static sg_allocator_state state_of(const sg_allocator *a) {
    sg_allocator_state s;
    sg_allocator_read(a, &s);
    return s;
}

/* One request on an empty allocator: block and segment. */
static void sizes_follow_pytorch(void **unused) {
    (void)unused;
    static const struct {
        uint64_t request, block, segment;
    } cases[] = {
        {1, 512, 2 * MIB},
        {512, 512, 2 * MIB},
        {513, 1024, 2 * MIB},
        {MIB, MIB, 2 * MIB},
        {MIB + 1, MIB + 512, 20 * MIB},
        {5 * MIB, 5 * MIB, 20 * MIB},
        {10 * MIB - 512, 10 * MIB - 512, 20 * MIB},
        {10 * MIB, 10 * MIB, 10 * MIB},
        {10 * MIB + 1, 10 * MIB + 512, 12 * MIB},
        {13 * MIB, 14 * MIB, 14 * MIB}, /* what is left is too small to be cut off: it counts as allocated */
        {100 * MIB, 100 * MIB, 100 * MIB},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sg_device d = {0};
        sg_allocator *a = opened(&d, SG_ALLOCATOR_CACHING);
        sg_block *b = take(a, cases[i].request);
        assert_int_equal(sg_block_bytes(b), cases[i].block);
        assert_int_equal(state_of(a).allocated_bytes, cases[i].block);
        assert_int_equal(state_of(a).reserved_bytes, cases[i].segment);
        assert_int_equal(d.used, cases[i].segment);
        sg_allocator_give(a, b);
        assert_int_equal(state_of(a).allocated_bytes, 0);
        assert_int_equal(state_of(a).reserved_bytes, cases[i].segment); /* kept */
        assert_int_equal(state_of(a).largest_free_bytes, cases[i].segment);
        sg_allocator_trim(a);
        assert_int_equal(d.segments, 0);
        sg_allocator_close(a);
    }
}

/* A large block is split only where more than 1 MiB is left over; a small one where 512 B are. */
static void splitting(void **unused) {
    (void)unused;
    sg_device d = {0};
    sg_allocator *a = opened(&d, SG_ALLOCATOR_CACHING);
    sg_block *b = take(a, 19 * MIB - 512 - 5 * MIB); /* own segment of 14 MiB, whole */
    assert_int_equal(sg_block_bytes(b), 14 * MIB);
    sg_allocator_give(a, b);
    b = take(a, 13 * MIB); /* exactly 1 MiB would be left: not split */
    assert_int_equal(sg_block_bytes(b), 14 * MIB);
    sg_allocator_give(a, b);
    b = take(a, 13 * MIB - 512);
    assert_int_equal(sg_block_bytes(b), 13 * MIB - 512);
    assert_int_equal(state_of(a).reserved_bytes, 14 * MIB);
    assert_int_equal(state_of(a).largest_free_bytes, MIB + 512);
    sg_allocator_give(a, b);
    sg_block *small[4];
    for (int i = 0; i < 4; i++) small[i] = take(a, 512 * KIB - 512);
    assert_int_equal(d.segments, 2);
    sg_block *last = take(a, 2048); /* the segment of 2 MiB has exactly these left */
    assert_int_equal(d.segments, 2);
    assert_int_equal(state_of(a).largest_free_bytes, 14 * MIB);
    for (int i = 0; i < 4; i++) sg_allocator_give(a, small[i]);
    sg_allocator_give(a, last);
    sg_allocator_close(a);
    assert_int_equal(d.segments, 0);
}

static void best_fit_and_merging(void **unused) {
    (void)unused;
    sg_device d = {0};
    sg_allocator *a = opened(&d, SG_ALLOCATOR_CACHING);
    /* one segment of 2 MiB: blocks of 100, 200, 300, 400 KiB and the rest */
    sg_block *b[4];
    for (int i = 0; i < 4; i++) b[i] = take(a, (uint64_t)(100 + 100 * i) * KIB);
    char *base = sg_block_address(b[0]);
    sg_allocator_give(a, b[1]);
    sg_allocator_give(a, b[3]); /* merges with the rest behind it: 2048 - 600 KiB */
    assert_int_equal(state_of(a).largest_free_bytes, 2048 * KIB - 600 * KIB);
    sg_block *x = take(a, 150 * KIB); /* best fit: the hole of 200, not the large rest */
    assert_ptr_equal(sg_block_address(x), base + 100 * KIB);
    sg_allocator_give(a, x); /* merges with the 50 KiB behind it */
    x = take(a, 200 * KIB);
    assert_ptr_equal(sg_block_address(x), base + 100 * KIB);
    sg_allocator_give(a, b[0]);
    sg_allocator_give(a, b[2]);
    sg_allocator_give(a, x); /* merges on both sides */
    assert_int_equal(state_of(a).largest_free_bytes, 2 * MIB);
    /* equal sizes: the oldest segment first */
    sg_block *p = take(a, MIB), *q = take(a, MIB), *r = take(a, MIB), *s = take(a, MIB);
    assert_int_equal(d.segments, 2);
    void *first = sg_block_address(p);
    sg_allocator_give(a, r);
    sg_allocator_give(a, p);
    assert_ptr_equal(sg_block_address(take(a, MIB)), first);
    (void)q, (void)s;
    sg_allocator_close(a); /* blocks still taken */
    assert_int_equal(d.segments, 0);
}

static void memory_pressure_gives_the_cache_back(void **unused) {
    (void)unused;
    sg_device d = {.limit = 100 * MIB};
    sg_allocator *a = opened(&d, SG_ALLOCATOR_CACHING);
    sg_block *b[4];
    for (int i = 0; i < 4; i++) b[i] = take(a, 20 * MIB);
    for (int i = 0; i < 3; i++) sg_allocator_give(a, b[i]);
    assert_int_equal(state_of(a).reserved_bytes, 80 * MIB);
    sg_block *big = take(a, 70 * MIB); /* three cached segments of 20 MiB do not hold it */
    assert_int_equal(state_of(a).retries, 1);
    assert_int_equal(state_of(a).reserved_bytes, 90 * MIB);
    assert_int_equal(state_of(a).peak_reserved_bytes, 90 * MIB);
    sg_block *none;
    sg_status status = {0};
    assert_int_equal(sg_allocator_take(a, 20 * MIB, &none, &status), SG_NO);
    assert_null(none);
    assert_non_null(strstr(status.text, "20.00 MiB"));
    assert_int_equal(sg_allocator_take(a, UINT64_MAX, &none, &status), SG_NO);
    assert_int_equal(sg_allocator_take(a, UINT64_MAX - 100, &none, &status), SG_NO);
    assert_int_equal(state_of(a).allocated_bytes, 90 * MIB);
    sg_allocator_give(a, big);
    sg_allocator_give(a, b[3]);
    sg_allocator_close(a);
    assert_int_equal(d.used, 0);
}

static void plain_passes_through(void **unused) {
    (void)unused;
    sg_device d = {0};
    sg_allocator *a = opened(&d, SG_ALLOCATOR_PLAIN);
    sg_block *x = take(a, 1000), *y = take(a, 30 * MIB + 1);
    assert_int_equal(state_of(a).allocated_bytes, 30 * MIB + 1001);
    assert_int_equal(state_of(a).reserved_bytes, 30 * MIB + 1001);
    sg_allocator_give(a, y);
    assert_int_equal(state_of(a).allocated_bytes, 1000);
    assert_int_equal(state_of(a).reserved_bytes, 1000);
    assert_int_equal(state_of(a).peak_reserved_bytes, 30 * MIB + 1001);
    sg_allocator_reset_peak(a);
    assert_int_equal(state_of(a).peak_allocated_bytes, 1000);
    sg_allocator_give(a, x);
    assert_int_equal(d.segments, 0);
    sg_allocator_close(a);
}

/* Random requests against a model that knows only sizes: nothing overlaps, sums agree, all comes back. */
static void random_requests(sg_allocator_policy policy, unsigned seed) {
    enum { LIVE = 400, ROUNDS = 20000 };
    static struct {
        sg_block *block;
        uint64_t request;
    } live[LIVE];
    memset(live, 0, sizeof live);
    sg_device d = {0};
    sg_allocator *a = opened(&d, policy);
    uint64_t sum = 0, z = seed, peak = 0;
    for (int i = 0; i < ROUNDS; i++) {
        z = z * 6364136223846793005u + 1442695040888963407u;
        size_t k = (z >> 33) % LIVE;
        if (live[k].block) {
            sum -= sg_block_bytes(live[k].block);
            sg_allocator_give(a, live[k].block);
            live[k].block = NULL;
        } else {
            uint64_t bytes = 1 + ((z >> 20) % MIB << ((z >> 50) % 6)) / 3;
            live[k].block = take(a, bytes);
            live[k].request = bytes;
            sum += sg_block_bytes(live[k].block);
            assert_true(sg_block_bytes(live[k].block) >= bytes);
        }
        if (sum > peak) peak = sum;
        assert_int_equal(state_of(a).allocated_bytes, sum);
        assert_true(state_of(a).reserved_bytes >= sum);
        assert_int_equal(state_of(a).reserved_bytes, d.used);
        if (i % 500) continue;
        for (size_t p = 0; p < LIVE; p++)
            for (size_t q = 0; q < p; q++) {
                if (!live[p].block || !live[q].block) continue;
                const char *x = sg_block_address(live[p].block), *y = sg_block_address(live[q].block);
                assert_true(x + sg_block_bytes(live[p].block) <= y || y + sg_block_bytes(live[q].block) <= x);
            }
    }
    assert_int_equal(state_of(a).peak_allocated_bytes, peak);
    for (size_t k = 0; k < LIVE; k++) sg_allocator_give(a, live[k].block);
    assert_int_equal(state_of(a).allocated_bytes, 0);
    sg_allocator_trim(a);
    assert_int_equal(d.segments, 0); /* everything had merged again */
    sg_allocator_close(a);
}

static void random_requests_hold_together(void **unused) {
    (void)unused;
    random_requests(SG_ALLOCATOR_CACHING, 1);
    random_requests(SG_ALLOCATOR_CACHING, 2);
    random_requests(SG_ALLOCATOR_PLAIN, 3);
}

/* Peaks do not depend on where the device places its segments. */
static void addresses_decide_nothing(void **unused) {
    (void)unused;
    uint64_t peak[2];
    for (int down = 0; down < 2; down++) {
        sg_device d = {.next = down ? (uint64_t)1 << 62 : 0};
        sg_allocator *a = opened(&d, SG_ALLOCATOR_CACHING);
        sg_block *live[64] = {0};
        uint64_t z = 7;
        for (int i = 0; i < 5000; i++) {
            if (down) d.next -= (uint64_t)2 << 40;
            z = z * 6364136223846793005u + 1442695040888963407u;
            sg_block **b = &live[(z >> 40) % 64];
            if (*b) {
                sg_allocator_give(a, *b);
                *b = NULL;
            } else {
                *b = take(a, (z >> 20) % (6 * MIB));
            }
        }
        peak[down] = state_of(a).peak_reserved_bytes;
        sg_allocator_close(a);
    }
    assert_int_equal(peak[0], peak[1]);
}

static void every_failure_is_survived(void **unused) {
    (void)unused;
    for (int policy = 0; policy < 2; policy++)
        for (int code = SG_NO; code <= SG_MACHINE; code += SG_MACHINE - SG_NO)
            for (int64_t k = 1; k <= 6; k++) {
                sg_device d = {.fail_at = k, .fail_code = (sg_code)code};
                sg_allocator *a = opened(&d, (sg_allocator_policy)policy);
                for (int i = 0; i < 6; i++) {
                    sg_block *b;
                    sg_code got = sg_allocator_take(a, 30 * MIB, &b, NULL);
                    bool failed = i + 1 == k;
                    /* a cache that is given back is tried again, and then the device has memory */
                    if (policy == SG_ALLOCATOR_CACHING && code == SG_NO) failed = false;
                    assert_int_equal(got, failed ? code : SG_OK);
                }
                sg_allocator_close(a);
                assert_int_equal(d.segments, 0);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_follow_pytorch),     cmocka_unit_test(splitting),
        cmocka_unit_test(best_fit_and_merging),     cmocka_unit_test(memory_pressure_gives_the_cache_back),
        cmocka_unit_test(plain_passes_through),     cmocka_unit_test(random_requests_hold_together),
        cmocka_unit_test(addresses_decide_nothing), cmocka_unit_test(every_failure_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
