/* log_checks.h: a log from its text, and what it holds, for tests of log formats. */
#ifndef SG_TESTS_SUPPORT_LOG_CHECKS_H
#define SG_TESTS_SUPPORT_LOG_CHECKS_H

#include "calibration/log/log.h"

/* Fails the test when the text is no log. sg_logs_clear the result. */
sg_logs sg_logs_of_text(const char *text);
bool sg_log_warned(const sg_log *log, const char *part);
/* Fails the test when there is no such window. */
double sg_log_at(const sg_log *log, size_t window, sg_log_field field);

#endif
