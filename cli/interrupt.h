/* interrupt.h: SIGINT and SIGTERM ask the measurement to end after the running iteration; what was measured is kept. */
#ifndef SG_CLI_INTERRUPT_H
#define SG_CLI_INTERRUPT_H

/* Installs the handlers; the flag becomes 1 on the first signal, a second one ends the program at once. */
const volatile int *sg_interrupt_flag(void);
enum { SG_EXIT_INTERRUPTED = 130 };

#endif
