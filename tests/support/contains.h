/* contains.h: what a message says. */
#ifndef SG_TESTS_SUPPORT_CONTAINS_H
#define SG_TESTS_SUPPORT_CONTAINS_H

/* Fails the running test, showing both, unless the part stands in the text. */
void sg_assert_contains(const char *text, const char *part);

#endif
