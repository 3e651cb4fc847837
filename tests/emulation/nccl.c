/* nccl.c: collectives between the emulated GPUs of one or several processes, through a shared file.
 *
 * The file holds a counter per rank of how far it is, and two buffers per rank. A collective goes chunk by chunk: every rank
 * writes its part of the chunk, says so, and reads everyone else's when all have said so. Two buffers, because a rank may
 * already write the next chunk while another still reads this one; more than one ahead it cannot be. Sums run in rank order
 * in double, so that all ranks get the same bits. */
#include "tests/emulation/include/nccl.h"
#include "tests/emulation/emulation.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MOST = 16, CHUNK_BYTES = 256 << 10 };

typedef struct shared_rank {
    _Atomic uint64_t written; /* chunks */
    _Atomic int joined, left;
    char buffer[2][CHUNK_BYTES];
} shared_rank;

typedef struct shared_file {
    _Atomic int ranks;
    shared_rank rank[RANKS_MOST];
} shared_file;

struct sg_emu_nccl {
    shared_file *file;
    char path[160];
    int rank, ranks;
    uint64_t chunks; /* done by this rank */
    _Atomic bool aborted;
    bool busy;           /* took a collective and was not asked since: it takes no other one */
    ncclResult_t failed; /* by an injected failure: told by ncclCommGetAsyncError */
};

ncclResult_t ncclGetVersion(int *version) {
    if (SG_EMU_CALL_FAILS()) return ncclInternalError;
    *version = 22800;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
    static const char *const words[] = {
        "no error",         "unhandled cuda error", "unhandled system error", "internal error",
        "invalid argument", "invalid usage",        "remote process exited",  "in progress"};
    return (unsigned)result < sizeof words / sizeof *words ? words[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm) {
    (void)comm;
    return "";
}

/* ---- joining -------------------------------------------------------------------------------------------------------------- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    if (SG_EMU_CALL_FAILS()) return ncclSystemError;
    static atomic_uint counter;
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    memset(id, 0, sizeof *id);
    (void)snprintf(id->internal, sizeof id->internal, "/sg-emulated-nccl-%d-%u-%lld", (int)getpid(),
                   atomic_fetch_add(&counter, 1), (long long)t.tv_nsec);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
    *out = NULL;
    if (SG_EMU_CALL_FAILS()) return ncclSystemError;
    id.internal[NCCL_UNIQUE_ID_BYTES - 1] = '\0';
    if (ranks < 1 || ranks > RANKS_MOST || rank < 0 || rank >= ranks || id.internal[0] != '/' || config->blocking != 0)
        return ncclInvalidArgument;
    struct sg_emu_nccl *c = calloc(1, sizeof *c);
    if (!c) return ncclSystemError;
    (void)snprintf(c->path, sizeof c->path, "%s", id.internal);
    int fd = shm_open(c->path, O_RDWR | O_CREAT, 0600);
    void *at = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof(shared_file)) == 0)
        at = mmap(NULL, sizeof(shared_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) (void)close(fd);
    if (at == MAP_FAILED) {
        free(c);
        return ncclSystemError;
    }
    c->file = at;
    c->rank = rank;
    c->ranks = ranks;
    atomic_store(&c->file->rank[rank].joined, 1);
    sg_emu_count_handle(1);
    *out = c;
    return ncclInProgress;
}

static bool all(const struct sg_emu_nccl *c, bool left) {
    for (int i = 0; i < c->ranks; i++)
        if (!atomic_load(left ? &c->file->rank[i].left : &c->file->rank[i].joined)) return false;
    return true;
}

static void drop(struct sg_emu_nccl *c) {
    if (c->path[0]) (void)shm_unlink(c->path);
    (void)munmap(c->file, sizeof(shared_file));
    sg_emu_count_handle(-1);
    free(c);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *error) {
    if (SG_EMU_CALL_FAILS()) return ncclInternalError;
    if (!c) return ncclInvalidArgument;
    if (c->busy) {
        c->busy = false;
        *error = ncclInProgress;
        return ncclSuccess;
    }
    bool leaving = atomic_load(&c->file->rank[c->rank].left) != 0, there = all(c, leaving);
    if (there && c->path[0]) { /* whoever is mapped stays mapped; nothing is left behind by those who are killed */
        (void)shm_unlink(c->path);
        c->path[0] = '\0';
    }
    *error = c->failed ? c->failed : there ? ncclSuccess : ncclInProgress;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t c) {
    bool fails = SG_EMU_CALL_FAILS();
    if (c->busy) return ncclInvalidUsage;
    atomic_store(&c->file->rank[c->rank].left, 1);
    return fails ? ncclInternalError : all(c, true) ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t c) {
    drop(c);
    return ncclSuccess;
}

/* Its collectives end without a result; what is queued still names it, so it stays until the device has nothing left. */
ncclResult_t ncclCommAbort(ncclComm_t c) {
    atomic_store(&c->aborted, true);
    atomic_store(&c->file->rank[c->rank].left, 1);
    (void)cudaDeviceSynchronize();
    drop(c);
    return ncclSuccess;
}

/* ---- collectives ------------------------------------------------------------------------------------------------------------ */

typedef enum collective { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER } collective;

typedef struct job {
    struct sg_emu_nccl *comm;
    collective what;
    const char *from;
    char *to;
    size_t count, element; /* of `from`, of one */
    ncclDataType_t type;
    size_t done; /* elements */
    bool written;
} job;

static double value_of(const char *at, ncclDataType_t type, size_t i) {
    if (type == ncclFloat32) return ((const float *)(const void *)at)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)(const void *)at)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void set_value(char *at, ncclDataType_t type, size_t i, double value) {
    float single = (float)value;
    if (type == ncclFloat32) {
        ((float *)(void *)at)[i] = single;
        return;
    }
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    ((uint16_t *)(void *)at)[i] = (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* One chunk of everyone, once all have written it. */
static void take_chunk(job *j, size_t n, int buffer) {
    struct sg_emu_nccl *c = j->comm;
    if (j->what == ALL_GATHER) {
        for (int r = 0; r < c->ranks; r++)
            memcpy(j->to + ((size_t)r * j->count + j->done) * j->element, c->file->rank[r].buffer[buffer],
                   n * j->element);
        return;
    }
    size_t part = j->what == REDUCE_SCATTER ? j->count / (size_t)c->ranks : j->count;
    size_t first = j->what == REDUCE_SCATTER ? (size_t)c->rank * part : 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = j->done + i;
        if (at < first || at >= first + part) continue;
        double sum = 0;
        for (int r = 0; r < c->ranks; r++) sum += value_of(c->file->rank[r].buffer[buffer], j->type, i);
        set_value(j->to, j->type, at - first, sum / c->ranks);
    }
}

static sg_emu_progress poll_job(void *work) {
    job *j = work;
    struct sg_emu_nccl *c = j->comm;
    while (j->done < j->count) {
        if (atomic_load(&c->aborted)) return SG_EMU_DONE;
        shared_rank *mine = &c->file->rank[c->rank];
        size_t n = CHUNK_BYTES / j->element;
        if (n > j->count - j->done) n = j->count - j->done;
        int buffer = (int)(c->chunks & 1);
        if (!j->written) {
            memcpy(mine->buffer[buffer], j->from + j->done * j->element, n * j->element);
            atomic_store(&mine->written, c->chunks + 1);
            j->written = true;
        }
        for (int r = 0; r < c->ranks; r++)
            if (atomic_load(&c->file->rank[r].written) < c->chunks + 1) return SG_EMU_AGAIN;
        take_chunk(j, n, buffer);
        c->chunks++;
        j->done += n;
        j->written = false;
    }
    j->done = 0; /* a graph may run it again */
    return SG_EMU_DONE;
}

static ncclResult_t start(struct sg_emu_nccl *c, collective what, const void *from, void *to, size_t count,
                          size_t to_count, ncclDataType_t type, ncclRedOp_t op, cudaStream_t stream) {
    if (!c || !stream || op != ncclAvg || (type != ncclFloat32 && type != ncclBfloat16)) return ncclInvalidArgument;
    if (c->busy || !all(c, false)) {
        sg_emu_report_fault("a collective on a communicator that is still in progress");
        return ncclInvalidUsage;
    }
    size_t element = type == ncclFloat32 ? 4 : 2;
    if (!sg_emu_is_device_memory(from, count * element) || !sg_emu_is_device_memory(to, to_count * element)) {
        sg_emu_report_fault("a collective over memory that is not the device's");
        return ncclInvalidArgument;
    }
    job *j = malloc(sizeof *j);
    if (!j) return ncclSystemError;
    *j = (job){.comm = c, .what = what, .from = from, .to = to, .count = count, .element = element, .type = type};
    if (sg_emu_enqueue_poll(stream, "collective", poll_job, free, j) != cudaSuccess) return ncclUnhandledCudaError;
    c->busy = true; /* a communicator that does not block may answer before it is done with the call */
    return ncclInProgress;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
    if (SG_EMU_CALL_FAILS()) return ncclInternalError;
    return start(comm, ALL_REDUCE, from, to, count, count, type, op, stream);
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t part_count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
    if (SG_EMU_CALL_FAILS()) return ncclInternalError;
    return start(comm, REDUCE_SCATTER, from, to, part_count * (size_t)comm->ranks, part_count, type, op, stream);
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t part_count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
    if (SG_EMU_CALL_FAILS()) return ncclInternalError;
    return start(comm, ALL_GATHER, from, to, part_count, part_count * (size_t)comm->ranks, type, ncclAvg, stream);
}
