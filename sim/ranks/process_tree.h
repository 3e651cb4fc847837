/* process_tree.h: finds what a process has started, through /proc. */
#ifndef SG_SIM_RANKS_PROCESS_TREE_H
#define SG_SIM_RANKS_PROCESS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Direct children of `parent`, at most `room`; returns how many were written. */
size_t sg_process_children(pid_t parent, pid_t *children, size_t room);
/* Sends `signal` to every descendant of `root`, not to root itself. Returns how many it reached. */
int sg_process_tree_signal(pid_t root, int signal);

#endif
