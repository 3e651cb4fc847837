/* log_checks.c: a log from its text, and what it holds. */
#include "tests/support/log_checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

sg_logs sg_logs_of_text(const char *text) {
    sg_logs logs;
    sg_status status;
    if (sg_logs_parse(text, strlen(text), "train.log", &logs, &status) != SG_OK) fail_msg("%s", status.text);
    return logs;
}

bool sg_log_warned(const sg_log *log, const char *part) {
    for (size_t i = 0; i < log->n_warnings; i++)
        if (strstr(log->warnings[i], part)) return true;
    return false;
}

double sg_log_at(const sg_log *log, size_t window, sg_log_field field) {
    assert_true(window < log->n_windows);
    return log->windows[window].value[field];
}
