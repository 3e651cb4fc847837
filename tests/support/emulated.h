/* emulated.h: the controls of the CUDA emulation, when that is what the cuda module runs on. */
#ifndef SG_TESTS_SUPPORT_EMULATED_H
#define SG_TESTS_SUPPORT_EMULATED_H

#include "tests/emulation/emulation.h"

#define SG_EMULATED_FUNCTIONS(X)                                                                                       \
    X(sg_emu_set_devices)                                                                                              \
    X(sg_emu_set_capability)                                                                                           \
    X(sg_emu_set_memory)                                                                                               \
    X(sg_emu_set_driver)                                                                                               \
    X(sg_emu_lose_device)                                                                                              \
    X(sg_emu_calls)                                                                                                    \
    X(sg_emu_fail_call)                                                                                                \
    X(sg_emu_fail_site)                                                                                                \
    X(sg_emu_has_failed)                                                                                               \
    X(sg_emu_sites)                                                                                                    \
    X(sg_emu_forget_sites)                                                                                             \
    X(sg_emu_count_alive)                                                                                              \
    X(sg_emu_fault)

typedef struct sg_emulated {
#define X(name) __typeof__(&name) name;
    SG_EMULATED_FUNCTIONS(X)
#undef X
} sg_emulated;

/* False on a real GPU. The cuda module must be open. */
bool sg_emulated_controls(sg_emulated *controls);

#endif
