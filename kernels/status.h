/* status.h: how every function of stepgauge reports failure.
 *
 * A function that can fail returns an sg_code and takes an sg_status pointer last. On failure the status holds one
 * sentence: what was being done, on what, and what to do about it. Nothing below cli/ prints or exits. */
#ifndef SG_KERNELS_STATUS_H
#define SG_KERNELS_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* The values are the exit statuses of the command line. */
typedef enum sg_code {
    SG_OK = 0,        /* done */
    SG_NO = 1,        /* the answer is "no": it does not fit, the claim is refuted */
    SG_BAD_INPUT = 2, /* bad usage, bad file */
    SG_MACHINE = 3    /* the machine failed: memory, disk, library, device */
} sg_code;

typedef struct sg_status {
    sg_code code;
    char text[1024]; /* NUL-terminated; truncated, never overflowed */
} sg_status;

#if defined(__GNUC__)
#define SG_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define SG_PRINTF(f, a)
#endif

/* Records `code` and the formatted text in *status (which may be NULL) and returns `code`, so that a failing function
 * ends with `return sg_fail(status, SG_BAD_INPUT, "...")`. */
sg_code sg_fail(sg_status *status, sg_code code, const char *format, ...) SG_PRINTF(3, 4);

/* Puts "context: " before the text already in *status and returns its code. */
sg_code sg_fail_in(sg_status *status, const char *format, ...) SG_PRINTF(2, 3);

/* sg_fail for a failed allocation of `bytes` bytes for `what`. */
sg_code sg_fail_memory(sg_status *status, unsigned long long bytes, const char *what);

#ifdef __cplusplus
}
#endif
#endif
