/* contains.c: the message is shown where it lacks the part. */
#include "tests/support/contains.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

void sg_assert_contains(const char *text, const char *part) {
    if (strstr(text, part)) return;
    print_error("\"%s\" does not contain \"%s\"\n", text, part);
    fail();
}
