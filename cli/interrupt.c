#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

/* A signal handler can reach nothing but a global. */
static volatile sig_atomic_t interrupted;

static void on_signal(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

/* Products in oneDNN use the stack pointer for data of their own on the heap; a handler's frame there would overwrite what
 * lies below. So handlers have a stack of their own, for the life of the process. */
static int use_own_stack(void) {
    static char stack[1 << 16]; /* AVX-512 and AMX registers take 11 KiB of a frame */
    const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    return sigaltstack(&own, NULL) == 0 ? SA_ONSTACK : 0;
}

const volatile int *sg_interrupt_flag(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = (int)SA_RESETHAND | use_own_stack();
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGUSR1, &action, NULL); /* what SIGINT becomes for ranks (sim/ranks/launch_ranks.h) */
    return &interrupted;
}
