/* fiber.h: functions that can give way in the middle and go on later, all on one thread. AddressSanitizer is told of every
 * switch. */
#ifndef SG_TESTS_EMULATION_FIBER_H
#define SG_TESTS_EMULATION_FIBER_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sg_emu_fiber sg_emu_fiber;

/* NULL without memory. Nothing runs yet. */
sg_emu_fiber *sg_emu_fiber_new(void (*run)(void *argument), void *argument);
/* Runs it until it gives way or ends. Not from within a fiber. */
void sg_emu_fiber_resume(sg_emu_fiber *fiber);
/* Back to whoever resumed it; from within a fiber. */
void sg_emu_fiber_yield(void);
/* One that has not ended is dropped as it is. Stacks are kept for the next one of this thread. */
void sg_emu_fiber_free(sg_emu_fiber *fiber);

#ifdef __cplusplus
}
#endif
#endif
