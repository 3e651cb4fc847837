/* thread_ranks.c: see thread_ranks.h. */
#include "tests/support/thread_ranks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/reference/reference.h"

/* The one world of this process; threads meet at its barrier. */
static struct {
    int ranks;
    pthread_barrier_t barrier;
    const void *buffer[SG_THREAD_RANKS_MOST];
} world;

static _Thread_local int this_rank;

struct sg_comm {
    int ranks;
};

static void meet(void) {
    (void)pthread_barrier_wait(&world.barrier);
}

static sg_code comm_create(sg_device *d, const sg_comm_options *o, sg_comm **comm, sg_status *status) {
    (void)d;
    *comm = NULL;
    if (o->ranks != world.ranks || o->rank != this_rank)
        return sg_fail(status, SG_BAD_INPUT, "rank %d of %d in a world of %d", o->rank, o->ranks, world.ranks);
    *comm = calloc(1, sizeof **comm);
    if (!*comm) return sg_fail_memory(status, sizeof **comm, "a communicator");
    (*comm)->ranks = o->ranks;
    return SG_OK;
}

static void comm_destroy(sg_device *d, sg_comm *comm) {
    (void)d;
    free(comm);
}

/* out = the mean over ranks of elements first .. first + count - 1 of what each rank shows; summed in double in rank order on
 * every rank, so that the results are equal to the bit. */
static void mean_of_ranks(int ranks, int64_t first, int64_t count, sg_dtype dtype, void *out) {
    sg_desc desc = sg_desc_make(dtype, 1, &count);
    double *sum = calloc((size_t)count + 1, sizeof *sum), *one = calloc((size_t)count + 1, sizeof *one);
    if (!sum || !one) abort();
    for (int r = 0; r < ranks; r++) {
        sg_reference_read(&desc, (const char *)world.buffer[r] + (size_t)first * sg_dtype_bytes(dtype), one);
        for (int64_t i = 0; i < count; i++) sum[i] += one[i];
    }
    for (int64_t i = 0; i < count; i++) sum[i] /= ranks;
    meet(); /* out may be what others read */
    sg_reference_write(&desc, out, sum);
    free(sum);
    free(one);
}

static sg_code all_reduce_mean(sg_device *d, sg_comm *comm, void *buffer, int64_t count, sg_dtype dtype,
                               sg_status *status) {
    (void)d, (void)status;
    world.buffer[this_rank] = buffer;
    meet();
    mean_of_ranks(comm->ranks, 0, count, dtype, buffer);
    meet();
    return SG_OK;
}

static sg_code all_gather(sg_device *d, sg_comm *comm, const void *part, void *whole, int64_t part_count,
                          sg_dtype dtype, sg_status *status) {
    (void)d, (void)status;
    size_t bytes = (size_t)part_count * sg_dtype_bytes(dtype);
    world.buffer[this_rank] = part;
    meet();
    for (int r = 0; r < comm->ranks; r++) memcpy((char *)whole + (size_t)r * bytes, world.buffer[r], bytes);
    meet();
    return SG_OK;
}

static sg_code reduce_scatter_mean(sg_device *d, sg_comm *comm, const void *whole, void *part, int64_t part_count,
                                   sg_dtype dtype, sg_status *status) {
    (void)d, (void)status;
    world.buffer[this_rank] = whole;
    meet();
    mean_of_ranks(comm->ranks, part_count * this_rank, part_count, dtype, part);
    meet();
    return SG_OK;
}

static sg_code gather_doubles(sg_transport *self, const double *values, int count, double *out, sg_status *status) {
    (void)self, (void)status;
    world.buffer[this_rank] = values;
    meet();
    for (int r = 0; r < world.ranks && this_rank == 0; r++)
        memcpy(out + (ptrdiff_t)r * count, world.buffer[r], (size_t)count * sizeof *out);
    meet();
    return SG_OK;
}

static sg_code broadcast(sg_transport *self, void *data, uint64_t bytes, int root, sg_status *status) {
    (void)self, (void)status;
    if (this_rank == root) world.buffer[root] = data;
    meet();
    if (this_rank != root) memcpy(data, world.buffer[root], (size_t)bytes);
    meet();
    return SG_OK;
}

const sg_device_api *sg_thread_ranks_api(void) {
    static sg_device_api api;
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    (void)pthread_mutex_lock(&once);
    if (!api.abi) {
        api = *sg_reference_device();
        api.comm_create = comm_create;
        api.comm_destroy = comm_destroy;
        api.all_reduce_mean = all_reduce_mean;
        api.all_gather = all_gather;
        api.reduce_scatter_mean = reduce_scatter_mean;
    }
    (void)pthread_mutex_unlock(&once);
    return &api;
}

sg_transport *sg_thread_ranks_transport(void) {
    static const sg_transport_api api = {.abi = SG_TRANSPORT_ABI,
                                         .struct_bytes = sizeof(sg_transport_api),
                                         .broadcast = broadcast,
                                         .gather_doubles = gather_doubles};
    static _Thread_local sg_transport transport;
    transport = (sg_transport){.api = &api, .rank = this_rank, .ranks = world.ranks};
    return &transport;
}

typedef struct rank_thread {
    pthread_t thread;
    int rank;
    void (*body)(void *user, int rank);
    void *user;
} rank_thread;

static void *run(void *user) {
    const rank_thread *t = user;
    this_rank = t->rank;
    t->body(t->user, t->rank);
    return NULL;
}

void sg_thread_ranks_run(int ranks, void (*body)(void *user, int rank), void *user) {
    rank_thread t[SG_THREAD_RANKS_MOST];
    if (ranks < 1 || ranks > SG_THREAD_RANKS_MOST) abort();
    world.ranks = ranks;
    if (pthread_barrier_init(&world.barrier, NULL, (unsigned)ranks)) abort();
    for (int r = 0; r < ranks; r++) {
        t[r] = (rank_thread){.rank = r, .body = body, .user = user};
        if (pthread_create(&t[r].thread, NULL, run, &t[r])) abort();
    }
    for (int r = 0; r < ranks; r++) (void)pthread_join(t[r].thread, NULL);
    (void)pthread_barrier_destroy(&world.barrier);
}
