#include "tests/emulation/fiber.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

enum { STACK_BYTES = 64 << 10 };

struct sg_emu_fiber {
    struct sg_emu_fiber *next_free;
    void *stack_pointer;
    void (*run)(void *argument);
    void *argument;
    void *fake_stack;
    char *stack;
};

static _Thread_local struct {
    sg_emu_fiber *current, *free;
    void *main_pointer, *main_fake_stack;
    const void *main_bottom;
    size_t main_bytes;
} here;

/* ---- the switch ---------------------------------------------------------------------------------------------------------- */

/* Saves what a called function must keep and the stack pointer in *from; goes on at `to`. swapcontext would do, but asks
 * the kernel for the signal mask each time. */
#if defined(__x86_64__)
void sg_emu_switch(void **from, void *to);
__asm__(".text\n"
        ".hidden sg_emu_switch\n"
        ".globl sg_emu_switch\n"
        ".type sg_emu_switch,@function\n"
        "sg_emu_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size sg_emu_switch, .-sg_emu_switch\n"
        ".section .note.GNU-stack,\"\",@progbits\n"
        ".text\n");
#else
#error "the CUDA emulation switches stacks on x86-64 alone"
#endif

static void start_switch(void **fake, const void *bottom, size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(fake, bottom, bytes);
#else
    (void)fake, (void)bottom, (void)bytes;
#endif
}

static void finish_switch(void *fake, const void **bottom, size_t *bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, bottom, bytes);
#else
    (void)fake, (void)bottom, (void)bytes;
#endif
}

static _Noreturn void begin(void) {
    finish_switch(NULL, &here.main_bottom, &here.main_bytes);
    here.current->run(here.current->argument);
    start_switch(NULL, here.main_bottom, here.main_bytes); /* it never comes back: its fake stack goes */
    void *nowhere;
    sg_emu_switch(&nowhere, here.main_pointer);
    abort();
}

void sg_emu_fiber_resume(sg_emu_fiber *f) {
    here.current = f;
    start_switch(&here.main_fake_stack, f->stack, STACK_BYTES);
    sg_emu_switch(&here.main_pointer, f->stack_pointer);
    finish_switch(here.main_fake_stack, NULL, NULL);
    here.current = NULL;
}

void sg_emu_fiber_yield(void) {
    sg_emu_fiber *f = here.current;
    start_switch(&f->fake_stack, here.main_bottom, here.main_bytes);
    sg_emu_switch(&f->stack_pointer, here.main_pointer);
    finish_switch(f->fake_stack, &here.main_bottom, &here.main_bytes);
}

/* ---- life ------------------------------------------------------------------------------------------------------------------ */

static pthread_key_t end_of_thread;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* What frames that never returned left marked as out of bounds; whoever gets these addresses next must not inherit it. */
static void clean(const sg_emu_fiber *f) {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(f->stack, STACK_BYTES);
#else
    (void)f;
#endif
}

static void drop_all(void *first) {
    for (sg_emu_fiber *f = first; f;) {
        sg_emu_fiber *next = f->next_free;
        clean(f);
        (void)munmap(f->stack, STACK_BYTES);
        free(f);
        f = next;
    }
}
static void make_key(void) {
    (void)pthread_key_create(&end_of_thread, drop_all);
}

static void keep(sg_emu_fiber *f) {
    f->next_free = here.free;
    here.free = f;
    (void)pthread_setspecific(end_of_thread, f);
}

static sg_emu_fiber *take(void) {
    (void)pthread_once(&once, make_key);
    sg_emu_fiber *f = here.free;
    if (f) {
        here.free = f->next_free;
        (void)pthread_setspecific(end_of_thread, here.free);
        return f;
    }
    f = calloc(1, sizeof *f);
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!f || stack == MAP_FAILED) {
        free(f);
        return NULL;
    }
    f->stack = stack;
    return f;
}

sg_emu_fiber *sg_emu_fiber_new(void (*run)(void *argument), void *argument) {
    sg_emu_fiber *f = take();
    if (!f) return NULL;
    clean(f);
    f->run = run;
    f->argument = argument;
    f->fake_stack = NULL;
    /* As sg_emu_switch leaves a stack: six registers, the address to go on at; aligned as after a call. */
    void **top = (void **)(void *)(f->stack + STACK_BYTES) - 2;
    *top = (void *)(uintptr_t)begin;
    for (int i = 0; i < 6; i++) *--top = NULL;
    f->stack_pointer = top;
    return f;
}

void sg_emu_fiber_free(sg_emu_fiber *f) {
    if (f) keep(f);
}
