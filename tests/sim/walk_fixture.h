/* walk_fixture.h: what the tests of the walker walk, and on what. */
#ifndef SG_TESTS_SIM_WALK_FIXTURE_H
#define SG_TESTS_SIM_WALK_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/virtual/machine.h"
#include "sim/walk/walk.h"
#include "tests/reference/reference.h"
#include "tests/support/tiny_training.h"
#include "tests/support/watch_device.h"

enum { BATCH = 8, FEATURES = 5, OUTPUTS = 3, WEIGHTS = FEATURES * OUTPUTS };

static inline sg_tiny *tiny(bool sync, bool dropout) {
    const sg_tiny_options o = {
        .batch = BATCH, .features = FEATURES, .outputs = OUTPUTS, .sync = sync, .dropout = dropout, .lr = 0.01};
    return sg_tiny_new(&o);
}

static inline sg_device *reference_device(int kind) {
    sg_device *d;
    assert_int_equal(sg_reference_device()->open(&(sg_device_options){.index = kind}, &d, NULL), SG_OK);
    return d;
}

/* Prices that do not matter here, a host that costs 1 s per forward op. */
static inline sg_machine machine(void) {
    sg_machine m;
    sg_machine_init(&m);
    (void)snprintf(m.name, sizeof m.name, "tests");
    (void)snprintf(m.device_class, sizeof m.device_class, "cuda");
    for (int i = 0; i < SG_M_COUNT; i++) m.p[i].value = 1;
    /* links by bandwidth and latency alone */
    for (int i = SG_M_COLLECTIVE_RANK_S; i <= SG_M_NETWORK_LATENCY_S; i++) m.p[i].value = NAN;
    for (int i = SG_M_PEAK_F32; i <= SG_M_BANDWIDTH; i++) m.p[i].value = 1e12;
    m.p[SG_M_KERNEL_START_S].value = m.p[SG_M_KERNEL_FLOOR_S].value = 1e-3;
    m.p[SG_M_COPY_BANDWIDTH].value = 1e12;
    m.p[SG_M_COLLECTIVE_BUSBW].value = 1e12;
    m.p[SG_M_COLLECTIVE_LATENCY_S].value = 7;
    m.p[SG_M_CONTEXT_BYTES].value = 0;
    m.p[SG_M_HOST_SEGMENT_S].value = NAN; /* memory is free */
    m.memory_bytes = (uint64_t)1 << 30;
    return m;
}

#endif
