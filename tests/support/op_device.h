/* op_device.h: the group of tests that holds one bench with the device under test; includes cmocka and what it needs.
 *
 * $SG_TEST_DEVICE names the module, "cpu" when it is not set. A cuda device that is not there ends the program with status
 * 77, which CTest counts as skipped. */
#ifndef SG_TESTS_SUPPORT_OP_DEVICE_H
#define SG_TESTS_SUPPORT_OP_DEVICE_H

#include "kernels/module.h"
#include "tests/support/op_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* "cpu" or "cuda". */
const char *sg_test_device(void);
/* The functions of the device under test; ends the program when they cannot be had. */
const sg_device_api *sg_test_device_api(void);

/* Opens the device under test, with two threads where it has threads, around the tests. */
void op_device_open(op_bench *bench);

#define op_device_tests(tests, bench)                                                                                  \
    (op_device_open(bench), op_device_close((bench), cmocka_run_group_tests((tests), NULL, NULL)))
/* Closes and gives back `failed`. */
int op_device_close(op_bench *bench, int failed);

#endif
