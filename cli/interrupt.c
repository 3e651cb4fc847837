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

const volatile int *sg_interrupt_flag(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = (int)SA_RESETHAND;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGUSR1, &action, NULL); /* what SIGINT becomes for ranks (sim/launch_ranks.h) */
    return &interrupted;
}
