/* state.h: what the files of the emulated runtime share: one process's devices, behind one lock. */
#ifndef SG_TESTS_EMULATION_STATE_H
#define SG_TESTS_EMULATION_STATE_H

#include "tests/emulation/emulation.h"

#include <pthread.h>

/* One piece of queued work. Graphs keep items after they ran, so they are counted. */
typedef struct sg_emu_item {
    struct sg_emu_item *next;
    struct sg_emu_body *body;
    struct sg_emu_event *records, *awaits; /* else: an event recorded here, or waited for */
    uint64_t awaited_ticket;
} sg_emu_item;

typedef struct sg_emu_body {
    int references;
    const char *what;
    bool (*run)(void *work);
    sg_emu_progress (*poll)(void *work); /* instead of run */
    void (*release)(void *work);
    void *work;
} sg_emu_body;

/* Pieces of work by lane of a recording. */
enum { SG_EMU_LANES = 8 };
typedef struct sg_emu_progress_of {
    size_t at[SG_EMU_LANES];
} sg_emu_progress_of;

struct sg_emu_stream {
    struct sg_emu_stream *next_of_all;
    int device;
    sg_emu_item *head, *tail;
    uint64_t queued, done; /* items ever */
    bool running;          /* some thread is at its head */
    struct sg_emu_graph *capture;
    bool capture_origin;
    int lane;                /* of this stream in the recording */
    sg_emu_progress_of seen; /* what of each lane its next piece of work comes behind */
};

struct sg_emu_event {
    int device;
    bool timing, recorded;
    struct sg_emu_stream *stream; /* where it was recorded last */
    uint64_t ticket;              /* items of that stream before it, itself included */
    double seconds;
    bool done;
    uint64_t capture;        /* id of the recording that it was recorded in last; 0: in none */
    sg_emu_progress_of seen; /* there */
};

struct sg_emu_graph {
    sg_emu_body **body;
    size_t n, room;
    uint64_t id; /* of the recording */
    bool invalid;
    enum cudaStreamCaptureMode mode;
    pthread_t thread; /* that began it */
    int lanes;        /* streams that take part */
};

typedef struct sg_emu_segment {
    struct sg_emu_segment *next;
    char *base, *at; /* base: with red zones */
    size_t bytes;
    int device;
    bool pinned; /* host memory */
} sg_emu_segment;

typedef struct sg_emu_state {
    pthread_mutex_t lock;
    pthread_cond_t moved; /* a stream got on */
    int devices, capability, driver;
    unsigned order;
    size_t memory_bytes, used_bytes[SG_EMU_DEVICES_MOST];
    int card[SG_EMU_DEVICES_MOST]; /* by device: which of the machine's, as CUDA_VISIBLE_DEVICES chose */
    int other_model, lose;         /* card with another name; device that "lose_after" means */
    int small;                     /* card with small_bytes of memory */
    size_t small_bytes;
    bool lost[SG_EMU_DEVICES_MOST];    /* read and written atomically: not everyone has the lock */
    bool faulted[SG_EMU_DEVICES_MOST]; /* a kernel failed: sticky */
    sg_emu_segment *segments;
    struct sg_emu_stream *streams;
    sg_emu_alive alive;
    char fault[512];
    bool has_fault;
} sg_emu_state;

sg_emu_state *sg_emu(void); /* made with the library */
void sg_emu_lock(void);
void sg_emu_unlock(void);
int sg_emu_current(void);                        /* device of this thread */
cudaError_t sg_emu_set_error(cudaError_t error); /* remembers it for cudaGetLastError; gives it back */
cudaError_t sg_emu_device_error(int device);     /* sticky, of a lost or faulted device */
/* Runs the stream's items up to `ticket`, and whatever they wait for. Called with the lock held. */
cudaError_t sg_emu_run_until(struct sg_emu_stream *stream, uint64_t ticket);
/* True when the items are done. With the lock held. */
void sg_emu_body_drop(sg_emu_body *body);
/* Appends to the recording of a capturing stream. With the lock held. */
cudaError_t sg_emu_record(struct sg_emu_graph *graph, sg_emu_body *body);
/* What allocates, frees or waits is what CUDA calls potentially unsafe while work is recorded: an error, which also spoils
 * the recording, unless that is relaxed, or (thread-local ones) another thread's. With the lock held. */
cudaError_t sg_emu_forbid_while_thread_records(void);
double sg_emu_now_s(void);
size_t sg_emu_memory_of(int device);
/* The allocation that holds all bytes, or NULL. With the lock held. */
sg_emu_segment *sg_emu_segment_of(const void *at, size_t bytes);

#define SG_EMU_ENTER()                                                                                                 \
    do {                                                                                                               \
        if (SG_EMU_CALL_FAILS()) return sg_emu_set_error(cudaErrorUnknown);                                            \
    } while (0)

#endif
