/* emulation.h: what tests ask of the CUDA emulation, and what its libraries (cuBLAS, cuDNN, NCCL) build on.
 *
 * Work is queued and runs when the host waits for it, only as far as the wait needs: a result read without waiting is not
 * there, an order that no event asks for does not hold. Device memory is host memory with red zones, filled with 0xff when
 * it is new (NaN, -1). One process may have several devices; each call acts on the calling thread's. */
#ifndef SG_TESTS_EMULATION_H
#define SG_TESTS_EMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/emulation/include/cuda_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- settings -----------------------------------------------------------------------------------------------------
 * From $STEPGAUGE_EMULATION when the library is loaded: "gpus=2,memory_mib=4096,capability=90,driver=13000,order=3,fail=17",
 * "lost=1" (a device that is lost already), "lose=1,lose_after=900" (it is lost with that copy of a process that uses it),
 * "other_model=1" (that card has another name), "small=1,small_mib=40" (and that one less memory). CUDA_VISIBLE_DEVICES chooses cards by index, as in CUDA. */
enum { SG_EMU_DEVICES_MOST = 16 };
SG_EMU_API void sg_emu_set_devices(int count);              /* visible devices; before a device is used */
SG_EMU_API void sg_emu_set_capability(int ten_major_minor); /* 75 .. 120 */
SG_EMU_API void sg_emu_set_memory(size_t bytes);            /* of each device, from now on */
SG_EMU_API void sg_emu_set_driver(int version);             /* 13000 */
/* In which order blocks, and threads between two barriers, run: 0 in their own, 1 backwards, else at random from this seed,
 * with some warps running ahead of others; not 0: copies read pageable memory late. No result may depend on it. */
SG_EMU_API void sg_emu_set_order(unsigned order);
/* The device answers cudaErrorLaunchFailure to everything from now on, as a lost GPU does; false: it works again,
 * also after a kernel that failed. */
SG_EMU_API void sg_emu_lose_device(int device, bool lost);
/* It is lost with the nth cudaMemcpyAsync from now of a thread that uses it; 0: it is not. */
SG_EMU_API void sg_emu_lose_after(int device, int64_t nth);

/* ---- calls and injected failures ------------------------------------------------------------------------------------ */
SG_EMU_API int64_t sg_emu_calls(void); /* of all emulated libraries so far */
/* Call number `nth` from now (1: the next) fails; 0: none does. */
SG_EMU_API void sg_emu_fail_call(int64_t nth);
/* The nth call from this place in the code fails. */
SG_EMU_API void sg_emu_fail_site(const void *site, int64_t nth);
SG_EMU_API bool sg_emu_has_failed(void); /* an injected failure has happened since the last of the two above */
typedef struct sg_emu_site {
    const char *call; /* "cudaMalloc" */
    const void *site;
    int64_t calls;
} sg_emu_site;
/* Distinct places calls came from since sg_emu_forget_sites; returns their number, writes at most `most`. */
SG_EMU_API size_t sg_emu_sites(sg_emu_site *sites, size_t most);
SG_EMU_API void sg_emu_forget_sites(void);

/* ---- what is alive (leaks) -------------------------------------------------------------------------------------------- */
typedef struct sg_emu_alive {
    int64_t allocations, pinned, streams, events, graphs, handles; /* handles: of cuBLAS, cuDNN, NCCL */
    size_t bytes;
} sg_emu_alive;
SG_EMU_API sg_emu_alive sg_emu_count_alive(void);
/* Words for what went wrong without a caller to tell (red zones overwritten, barriers that not all threads reach); NULL:
 * nothing. Cleared by reading; what is left at the end of the process makes it fail. */
SG_EMU_API const char *sg_emu_fault(void);

/* ---- for the emulated libraries ----------------------------------------------------------------------------------------- */
/* Counts the call and tells whether it must fail, by an injected failure or a lost device. */
SG_EMU_API bool sg_emu_call_fails(const char *call, const void *site);
#define SG_EMU_CALL_FAILS() sg_emu_call_fails(__func__, __builtin_return_address(0))
/* Queues work on a stream: run(work) happens when someone waits for it, once, or, recorded in a graph, once per replay;
 * release(work) (may be NULL) when nobody will run it any more, also after a failure here. A run that returns false
 * makes the device fail from then on, as a faulting kernel does. */
SG_EMU_API cudaError_t sg_emu_enqueue(cudaStream_t stream, const char *what, bool (*run)(void *work),
                                      void (*release)(void *work), void *work);
/* The same for work that waits for other devices: poll(work) never blocks and is asked again until it is done. */
typedef enum sg_emu_progress { SG_EMU_DONE, SG_EMU_AGAIN, SG_EMU_FAILED } sg_emu_progress;
SG_EMU_API cudaError_t sg_emu_enqueue_poll(cudaStream_t stream, const char *what, sg_emu_progress (*poll)(void *work),
                                           void (*release)(void *work), void *work);
SG_EMU_API void sg_emu_count_handle(int change);
SG_EMU_API void sg_emu_report_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* True when all bytes lie in one living device allocation (NULL only when bytes is 0). */
SG_EMU_API bool sg_emu_is_device_memory(const void *at, size_t bytes);
SG_EMU_API int sg_emu_stream_device(cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
