/* op_cpu.h: the group of tests that holds one bench with the cpu module; includes cmocka and what it needs. */
#ifndef SG_TESTS_SUPPORT_OP_CPU_H
#define SG_TESTS_SUPPORT_OP_CPU_H

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

/* Opens the cpu module with two threads around the tests. */
void op_cpu_open(op_bench *bench);

#define op_cpu_tests(tests, bench)                                                                                     \
    (op_cpu_open(bench), op_cpu_close((bench), cmocka_run_group_tests((tests), NULL, NULL)))
/* Closes and gives back `failed`. */
int op_cpu_close(op_bench *bench, int failed);

#endif
