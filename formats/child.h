/* child.h: processes with limits, in which files that others made are looked into. Libraries for video, images, HDF5 and
 * Parquet crash, hang and corrupt their heap on hostile bytes; in a child that is an error message, and no more. */
#ifndef SG_FORMATS_CHILD_H
#define SG_FORMATS_CHILD_H

#include "formats/bytes.h"
#include "kernels/status.h"

#include <sys/types.h>

typedef struct sg_child_limits {
    unsigned long long
        memory_bytes;              /* of address space, beyond what this process has; 0: no limit. Not under sanitizers,
                                        whose shadow memory has no bounds */
    unsigned cpu_s;                /* of its processor time; 0: no limit */
    unsigned long long file_bytes; /* that a file may get when it writes one; 0: it writes none */
    double wall_s;                 /* sg_child_run waits no longer; 0: 10 s, and 10 s per cpu_s */
    size_t answer_bytes;           /* of the answer at most; 0: 64 MiB */
} sg_child_limits;

/* Runs in the child. Fills *answer, or fails with a text of its own. */
typedef sg_code (*sg_child_work)(void *user, sg_bytes *answer, sg_status *status);

/* Does `work` in a child process and hands its answer over: *bytes (free'd by the caller; NULL on failure), *n of them.
 * what: names the file in messages. SG_BAD_INPUT: the child crashed, passed a limit, hung or sent a damaged answer, "WHAT
 * cannot be read: ..." with what happened; a failure of the work itself keeps its code and text. SG_MACHINE: no memory or descriptors, or no process
 * could be started, or the child was killed from outside, as the kernel does where memory runs out. */
sg_code sg_child_run(const char *what, sg_child_work work, void *user, const sg_child_limits *limits,
                     unsigned char **bytes, size_t *n, sg_status *status);

/* Confines the calling process, which has just been forked by `parent`: it dies with its parent, crashes silently whatever
 * handlers that had, leaves no core, is under the limits (those of time and memory from here on), and holds no open file but
 * /dev/null as 0, 1 and 2 and the kept ones: keep[i] becomes descriptor 3 + i. It ends when that fails. A worker
 * that writes to standard error itself is handed a copy of it in `keep`. */
void sg_child_confine(pid_t parent, const sg_child_limits *limits, const int *keep, size_t n_keep);

/* Ends a child: kills it unless it ended by itself, waits, and says how it ended: "ended with status 1", "was killed:
 * Segmentation fault", "took more than 5 s of processor time", "was killed from outside". Returns the signal that ended it, or 0;
 * SG_CHILD_UNCONFINED: it did nothing, for it could not be confined. */
enum { SG_CHILD_UNCONFINED = -1 };
int sg_child_reap(pid_t child, const sg_child_limits *limits, char *how, size_t bytes);

#endif
