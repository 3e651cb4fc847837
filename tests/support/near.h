/* near.h: assertions about real numbers; NaN is near nothing. */
#ifndef SG_TESTS_SUPPORT_NEAR_H
#define SG_TESTS_SUPPORT_NEAR_H

/* |a - b| <= tolerance */
#define assert_near(a, b, tolerance) sg_assert_near(a, b, tolerance, __FILE__, __LINE__)
/* The same number but for rounding: 1e-9 of the expected one. */
#define assert_close(value, expected) sg_assert_close(value, expected, __FILE__, __LINE__)

void sg_assert_near(double a, double b, double tolerance, const char *file, int line);
void sg_assert_close(double value, double expected, const char *file, int line);

#endif
