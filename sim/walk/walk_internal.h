/* walk_internal.h: what the files of the walker share.
 *
 * Programs are compiled once into instructions: entries with everything resolved that does not change from step to step.
 * Storages move with the allocator, so an argument is (storage, offset) and its address is one look-up in a table. */
#ifndef SG_SIM_WALK_WALK_INTERNAL_H
#define SG_SIM_WALK_WALK_INTERNAL_H

#include "sim/walk/allocator.h"
#include "sim/walk/buckets.h"
#include "sim/walk/phases.h"
#include "sim/walk/placement.h"

typedef enum sg_instruction_kind {
    SG_RUN_OP,
    SG_RUN_HOST, /* views: host time alone */
    SG_RUN_ALLOC,
    SG_RUN_FREE,
    SG_RUN_WAIT,
    SG_RUN_COPY,
    SG_RUN_READY,
    SG_RUN_SYNC,
    SG_RUN_MARK,
    SG_RUN_GATHER,
    SG_RUN_SCATTER,
    SG_RUN_REDUCE,
    SG_RUN_JOIN,
    SG_RUN_BIRTH /* optimizer state is needed from here on */
} sg_instruction_kind;

typedef struct sg_instruction {
    uint8_t kind;
    uint8_t host_class;     /* sg_host_class of host_count dispatches before it */
    uint8_t optimizer_step; /* launch with the true step even when randomness is fixed */
    int32_t host_count;
    int32_t index;          /* op, storage, input, parameter, mark */
    uint32_t first, n_args; /* op: its arguments */
    int32_t entry;          /* in the program */
    int64_t samples;        /* per-sample op: samples of this rank in it */
    uint64_t salt;          /* of the program's first run in a step */
    uint64_t visit;         /* hash of the entry, or entries */
} sg_instruction;

typedef struct sg_compiled {
    sg_instruction *code;
    size_t n;
    uint32_t runs; /* in this optimizer step */
} sg_compiled;

typedef struct sg_argument {
    int64_t offset_bytes;
    int32_t storage;
} sg_argument;

typedef struct sg_live {
    char *address; /* NULL: not live */
    sg_block *block;
    sg_allocator *from;  /* of the block */
    bool keep, released; /* kept for tests; its FREE has passed */
    bool outside;        /* while a program is recorded: it was live before */
} sg_live;

/* The main program as recorded by the device. Its memory is its own, so that nothing else can use what replays write. */
typedef struct sg_recording {
    sg_graph_exec *exec; /* NULL: none */
    sg_allocator *pool;
    struct {
        int32_t storage;
        char *address;
    } * outside; /* storages that the recording uses and does not allocate: it holds only while they stay where they are */
    size_t n_outside;
    int32_t *frees; /* of them, those that the program frees */
    size_t n_frees;
    int64_t waits;
    sg_memory_peak peak; /* of the walk that was recorded */
    uint64_t visit;
} sg_recording;

struct sg_walker {
    const sg_training *training;
    sg_walk_options options;
    const sg_device_api *api;
    sg_device *device;
    sg_device_info info;

    sg_op *ops; /* the training's, then the buckets' copies */
    size_t n_ops;
    sg_plan **plans;
    bool prepared;
    sg_compiled *programs;
    sg_argument *arguments; /* parallel to training->args */
    void **pointers;        /* of one launch */
    void *workspace;
    uint64_t workspace_bytes;

    sg_allocator *allocator;
    sg_placement placement; /* of storages that do not persist, where the walk has places for them */
    sg_block *placed;       /* its segment */
    sg_live *live;          /* per storage */
    uint64_t allocated_bytes, by_role[SG_ROLE_COUNT];
    sg_memory_peak peak;
    bool state_born;
    int64_t updated; /* tensors that the optimizer updates */

    bool *travels;      /* per input: some program copies it */
    void **staging;     /* per input: the walker's own host memory, without a loader */
    void *const *batch; /* per input: where copies come from */
    sg_event *copy_begin, *copy_end;
    bool copies_in_flight, work_in_flight;

    sg_event **slot_events; /* per slot of collectives: operands ready, done */
    sg_buckets buckets;
    sg_block **bucket_block;
    bool communicate;

    sg_phases phases;
    uint64_t step; /* 1-based */
    int64_t draws; /* batches drawn in this step */
    uint64_t visit_hash;

    double own_s, gap_start, gap_device_s, clock_cost_s;
    const sg_op_profile *profile; /* every op is timed into it; else NULL */
    struct sg_trace *trace;       /* sim/walk/trace_internal.h: every call is kept there; else NULL */
    bool gap_open;
    uint32_t launches;

    sg_recording recordings[2]; /* by whether gradients are exchanged */
    sg_recording *recording;    /* under way, or NULL */
    sg_walk_graph graph;
};

/* walk_compile.c */
sg_code sg_walk_compile(sg_walker *w, sg_status *status);
sg_code sg_walk_prepare(sg_walker *w, sg_status *status);

/* walk_memory.c */
sg_code sg_walk_alloc(sg_walker *w, int32_t storage, sg_status *status);
void sg_walk_free(sg_walker *w, int32_t storage);
/* Everything that does not persist is given back. */
void sg_walk_abandon(sg_walker *w);
/* Kept storages whose FREE has passed are given back. */
void sg_walk_release_kept(sg_walker *w);
/* The segment of storages with fixed places. */
sg_code sg_walk_place(sg_walker *w, sg_status *status);
sg_code sg_walk_take_bucket(sg_walker *w, int32_t bucket, sg_status *status);

/* walk_data.c */
sg_code sg_walk_persist(sg_walker *w, sg_status *status);    /* all persistent storages but optimizer state */
sg_code sg_walk_give_birth(sg_walker *w, sg_status *status); /* optimizer state, zeros */
/* Host memory from which copies are asynchronous, where the device has such. */
void sg_walk_free_host(const sg_walker *w, void *memory);
/* A new batch in staging (no loader), and into inputs that no program copies. */
sg_code sg_walk_draw(sg_walker *w, sg_status *status);

/* walk_execute.c. sg_walk_host: host work of `count` of a class. sg_walk_code: the instructions alone, without what ends a program. */
sg_code sg_walk_host(sg_walker *w, int host_class, int64_t count, sg_status *status);
sg_code sg_walk_code(sg_walker *w, size_t program, sg_status *status);
sg_code sg_walk_wait(sg_walker *w, sg_status *status);

/* walk_collective.c: gathering and scattering of shards. */
sg_code sg_walk_open_slots(sg_walker *w, sg_status *status);
void sg_walk_close_slots(sg_walker *w);
sg_code sg_walk_collective(sg_walker *w, const sg_instruction *in, sg_status *status);
sg_code sg_walk_join(sg_walker *w, const sg_instruction *in, sg_status *status);
/* A mark outside of what is recorded. */
sg_code sg_walk_mark(sg_walker *w, int mark, sg_status *status);

/* walk_trace.c. Around each call while there is a trace; what: sg_trace_what, stream -1: the host's alone. */
sg_code sg_walk_trace_begin(sg_walker *w, int what, int stream, int32_t index, sg_status *status);
sg_code sg_walk_trace_end(sg_walker *w, sg_status *status);
/* The walk comes to an entry. */
void sg_walk_trace_entry(sg_walker *w, size_t program, int32_t entry);

/* walk_graph.c */
sg_code sg_walk_graph_check(const sg_walker *w, sg_status *status);
bool sg_walk_replays(const sg_walker *w, size_t program);
/* Records the program where that is due, and replays it. */
sg_code sg_walk_replay(sg_walker *w, size_t program, sg_status *status);
void sg_walk_graph_clear(sg_walker *w);

sg_code sg_walk_run(sg_walker *w, size_t program, sg_status *status);

#endif
