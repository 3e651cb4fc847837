/* failing_memory.h: replaces this program's malloc, so that host memory ends at a chosen allocation and blocks are counted.
 * One file of a program includes it. */
#ifndef SG_TESTS_MODELS_FAILING_MEMORY_H
#define SG_TESTS_MODELS_FAILING_MEMORY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* The sanitizers replace malloc themselves. */
static bool failing_is_possible(void) {
    return false;
}
static void fail_after(long n) {
    (void)n;
}
static long blocks_in_use(void) {
    return 0;
}
#else
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void __libc_free(void *block);

static long left = -1; /* allocations until one fails; < 0: none does */

static long in_use;

static void *counted(void *block) {
    in_use += block != NULL;
    return block;
}
static bool fails(void) {
    if (left < 0) return false;
    if (left == 0) {
        errno = ENOMEM; /* as malloc does */
        return true;
    }
    left--;
    return false;
}
void *malloc(size_t bytes) {
    return fails() ? NULL : counted(__libc_malloc(bytes));
}
void *calloc(size_t count, size_t bytes) {
    return fails() ? NULL : counted(__libc_calloc(count, bytes));
}
void *realloc(void *block, size_t bytes) {
    if (fails()) return NULL;
    return block ? __libc_realloc(block, bytes) : counted(__libc_realloc(block, bytes));
}
void free(void *block) {
    in_use -= block != NULL;
    __libc_free(block);
}
static long blocks_in_use(void) {
    return in_use;
}
static bool failing_is_possible(void) {
    return true;
}
static void fail_after(long n) {
    left = n;
}
#endif

#endif
