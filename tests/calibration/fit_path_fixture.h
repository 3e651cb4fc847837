/* fit_path_fixture.h: one file in /tmp that a test writes, gone after it. */
#ifndef SG_TESTS_CALIBRATION_FIT_PATH_FIXTURE_H
#define SG_TESTS_CALIBRATION_FIT_PATH_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>

static char file_path[64];

static inline int make_path(void **state) {
    (void)state;
    (void)snprintf(file_path, sizeof file_path, "/tmp/stepgauge-fit-%d", (int)getpid());
    return 0;
}

static inline int remove_path(void **state) {
    (void)state;
    (void)unlink(file_path);
    return 0;
}

static inline void write_bytes(const void *bytes, size_t n) {
    FILE *file = fopen(file_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

#define WITH_PATH(test) cmocka_unit_test_setup_teardown(test, make_path, remove_path)

#endif
