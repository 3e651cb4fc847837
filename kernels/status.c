#include "kernels/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

sg_code sg_fail(sg_status *status, sg_code code, const char *format, ...) {
    if (status) {
        va_list args;
        va_start(args, format);
        status->code = code;
        (void)vsnprintf(status->text, sizeof status->text, format, args);
        va_end(args);
    }
    return code;
}

sg_code sg_fail_in(sg_status *status, const char *format, ...) {
    if (!status) return SG_MACHINE;
    char inner[sizeof status->text];
    memcpy(inner, status->text, sizeof inner);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(status->text, sizeof status->text, format, args);
    va_end(args);
    int left = (int)sizeof status->text - n; /* with the NUL */
    if (n >= 0 && left > 3) (void)snprintf(status->text + n, (size_t)left, ": %.*s", left - 3, inner);
    return status->code;
}

sg_code sg_fail_memory(sg_status *status, unsigned long long bytes, const char *what) {
    return sg_fail(status, SG_MACHINE,
                   "cannot allocate %llu bytes of host memory for %s: close other programs or ask for a smaller batch",
                   bytes, what);
}
