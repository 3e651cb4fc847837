/* near.c: assertions about real numbers. */
#include "tests/support/near.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

void sg_assert_near(double a, double b, double tolerance, const char *file, int line) {
    if (fabs(a - b) <= tolerance) return;
    print_error("%s:%d: %.17g is not within %g of %.17g\n", file, line, a, tolerance, b);
    fail();
}

void sg_assert_close(double value, double expected, const char *file, int line) {
    sg_assert_near(value, expected, 1e-9 * fabs(expected), file, line);
}
