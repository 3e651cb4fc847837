#include "kernels/mpi/collective.h"
#include "kernels/rank_mean.h"

#include <stdlib.h>
#include <string.h>

enum {
    TAG_ARRIVE = 1,
    TAG_PARTS = 2,
    TAG_RESULT = 3,
    TAG_FIGURES = 4,
    TAG_SPREAD = 5,
    /* Bounds the scratch memory and stays far below MPI's limit of 2^31 elements per message. */
    CHUNK_BYTES = 32 << 20
};

/* ---- requests -------------------------------------------------------------------------------------------------- */

/* Sends and receives of one phase: to and from every other rank. */
typedef struct sg_mpi_phase {
    sg_mpi_world *world;
    MPI_Request *requests;
    int n;
    sg_code code;
    const char *what;
    sg_status *status;
} phase;

static sg_code phase_begin(phase *p, sg_mpi_world *world, const char *what, sg_status *status) {
    *p = (phase){.world = world, .what = what, .status = status};
    p->requests = calloc((size_t)world->base.ranks * 2, sizeof(MPI_Request));
    return p->requests ? SG_OK : sg_fail_memory(status, (size_t)world->base.ranks * 2 * sizeof(MPI_Request), what);
}

static void phase_send(phase *p, MPI_Comm comm, const void *data, size_t bytes, int to, int tag) {
    if (p->code == SG_OK)
        p->code = sg_mpi_check(p->world, MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, comm, &p->requests[p->n++]),
                               p->what, p->status);
}

static void phase_receive(phase *p, MPI_Comm comm, void *data, size_t bytes, int from, int tag) {
    if (p->code == SG_OK)
        p->code = sg_mpi_check(p->world, MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, comm, &p->requests[p->n++]),
                               p->what, p->status);
}

static sg_code phase_end(phase *p, bool eager) {
    if (p->code == SG_OK) p->code = sg_mpi_wait(p->world, p->requests, p->n, eager, p->what, p->status);
    free((void *)p->requests);
    return p->code;
}

/* ---- slices ---------------------------------------------------------------------------------------------------- */

/* Elements of a chunk that rank r reduces: [start, start + count). */
typedef struct sg_mpi_slice {
    int64_t start, count;
} slice;

static slice slice_of(int64_t count, int ranks, int r) {
    int64_t base = count / ranks, more = count % ranks;
    return (slice){r * base + (r < more ? r : more), base + (r < more)};
}

static sg_code check_arguments(const void *a, const void *b, int64_t count, sg_dtype dtype, sg_status *status) {
    if (dtype != SG_F32 && dtype != SG_BF16)
        return sg_fail(status, SG_BAD_INPUT, "collectives take fp32 and bf16, not %s", sg_dtype_name(dtype));
    if (count < 0 || (count > 0 && (!a || !b)) || count > INT64_MAX / 16)
        return sg_fail(status, SG_BAD_INPUT, "a collective over %lld elements is impossible", (long long)count);
    return SG_OK;
}

static sg_code ensure_scratch(sg_mpi_world *world, size_t bytes, sg_status *status) {
    if (bytes <= world->scratch_bytes) return SG_OK;
    free(world->scratch);
    world->scratch = malloc(bytes);
    world->scratch_bytes = world->scratch ? bytes : 0;
    return world->scratch ? SG_OK : sg_fail_memory(status, bytes, "the parts of other ranks");
}

/* An empty message to and from everyone. Whoever is early waits here, asleep, for the slowest rank's backward; when it is
 * over everyone has arrived and the data phases may poll at full speed. */
static sg_code arrive(sg_mpi_world *world, MPI_Comm comm, sg_status *status) {
    phase p;
    sg_code code = phase_begin(&p, world, "waiting for the other ranks", status);
    if (code != SG_OK) return code;
    for (int step = 1; step < world->base.ranks; step++) {
        phase_receive(&p, comm, NULL, 0, (world->base.rank + world->base.ranks - step) % world->base.ranks, TAG_ARRIVE);
        phase_send(&p, comm, NULL, 0, (world->base.rank + step) % world->base.ranks, TAG_ARRIVE);
    }
    return phase_end(&p, false);
}

/* Every rank gets everyone's part of its own slice, laid one after another (its own left out) into scratch. */
static sg_code exchange_parts(sg_mpi_world *world, const unsigned char *chunk, int64_t count, size_t element,
                              sg_status *status) {
    slice mine = slice_of(count, world->base.ranks, world->base.rank);
    size_t bytes = (size_t)mine.count * element;
    sg_code code = ensure_scratch(world, bytes * (size_t)(world->base.ranks - 1), status);
    phase p;
    if (code == SG_OK) code = phase_begin(&p, world, "exchanging parts of gradients", status);
    if (code != SG_OK) return code;
    for (int step = 1; step < world->base.ranks; step++) {
        int from = (world->base.rank + world->base.ranks - step) % world->base.ranks,
            to = (world->base.rank + step) % world->base.ranks;
        slice theirs = slice_of(count, world->base.ranks, to);
        size_t place = (size_t)(from < world->base.rank ? from : from - 1);
        phase_receive(&p, world->data, world->scratch + place * bytes, bytes, from, TAG_PARTS);
        phase_send(&p, world->data, chunk + (size_t)theirs.start * element, (size_t)theirs.count * element, to,
                   TAG_PARTS);
    }
    return phase_end(&p, true);
}

/* The mean of this rank's slice from its own part and scratch. */
static sg_code reduce_slice(sg_mpi_world *world, const unsigned char *own, int64_t count, sg_dtype dtype, void *out,
                            sg_status *status) {
    const void **part = calloc((size_t)world->base.ranks, sizeof *part);
    if (!part) return sg_fail_memory(status, (size_t)world->base.ranks * sizeof *part, "the parts of other ranks");
    size_t bytes = (size_t)count * sg_dtype_bytes(dtype), place = 0;
    for (int r = 0; r < world->base.ranks; r++)
        part[r] = r == world->base.rank ? own : world->scratch + bytes * place++;
    sg_rank_mean(dtype, part, world->base.ranks, count, out);
    free((void *)part);
    return SG_OK;
}

static sg_code exchange_results(sg_mpi_world *world, unsigned char *chunk, int64_t count, size_t element,
                                sg_status *status) {
    phase p;
    sg_code code = phase_begin(&p, world, "exchanging reduced gradients", status);
    if (code != SG_OK) return code;
    slice mine = slice_of(count, world->base.ranks, world->base.rank);
    for (int step = 1; step < world->base.ranks; step++) {
        int from = (world->base.rank + world->base.ranks - step) % world->base.ranks,
            to = (world->base.rank + step) % world->base.ranks;
        slice theirs = slice_of(count, world->base.ranks, from);
        phase_receive(&p, world->data, chunk + (size_t)theirs.start * element, (size_t)theirs.count * element, from,
                      TAG_RESULT);
        phase_send(&p, world->data, chunk + (size_t)mine.start * element, (size_t)mine.count * element, to, TAG_RESULT);
    }
    return phase_end(&p, true);
}

/* ---- the transport's functions --------------------------------------------------------------------------------- */

sg_code sg_mpi_all_reduce_mean(sg_transport *self, void *buffer, int64_t count, sg_dtype dtype, sg_status *status) {
    sg_mpi_world *world = sg_mpi_world_of(self, status);
    if (!world) return SG_MACHINE;
    sg_code code = check_arguments(buffer, buffer, count, dtype, status);
    if (code != SG_OK || count == 0 || world->base.ranks == 1) return code;
    size_t element = sg_dtype_bytes(dtype);
    const int64_t chunk = CHUNK_BYTES / (int64_t)element;
    code = arrive(world, world->data, status);
    for (int64_t start = 0; code == SG_OK && start < count; start += chunk) {
        int64_t n = count - start < chunk ? count - start : chunk;
        unsigned char *at = (unsigned char *)buffer + (size_t)start * element;
        slice mine = slice_of(n, world->base.ranks, world->base.rank);
        unsigned char *own = at + (size_t)mine.start * element;
        code = exchange_parts(world, at, n, element, status);
        if (code == SG_OK) code = reduce_slice(world, own, mine.count, dtype, own, status);
        if (code == SG_OK) code = exchange_results(world, at, n, element, status);
    }
    return code;
}

sg_code sg_mpi_reduce_scatter_mean(sg_transport *self, const void *whole, void *part, int64_t part_count,
                                   sg_dtype dtype, sg_status *status) {
    sg_mpi_world *world = sg_mpi_world_of(self, status);
    if (!world) return SG_MACHINE;
    sg_code code = check_arguments(whole, part, part_count, dtype, status);
    if (code != SG_OK || part_count == 0) return code;
    size_t element = sg_dtype_bytes(dtype);
    const int64_t chunk = CHUNK_BYTES / (int64_t)element / world->base.ranks + 1;
    if (world->base.ranks == 1) {
        memmove(part, whole, (size_t)part_count * element);
        return SG_OK;
    }
    code = arrive(world, world->data, status);
    for (int64_t start = 0; code == SG_OK && start < part_count; start += chunk) {
        int64_t n = part_count - start < chunk ? part_count - start : chunk;
        size_t bytes = (size_t)n * element;
        phase p;
        code = ensure_scratch(world, bytes * (size_t)(world->base.ranks - 1), status);
        if (code == SG_OK) code = phase_begin(&p, world, "exchanging parts of gradients", status);
        if (code != SG_OK) return code;
        const unsigned char *at = (const unsigned char *)whole + (size_t)start * element;
        for (int step = 1; step < world->base.ranks; step++) {
            int from = (world->base.rank + world->base.ranks - step) % world->base.ranks,
                to = (world->base.rank + step) % world->base.ranks;
            size_t place = (size_t)(from < world->base.rank ? from : from - 1);
            phase_receive(&p, world->data, world->scratch + place * bytes, bytes, from, TAG_PARTS);
            phase_send(&p, world->data, at + (size_t)to * (size_t)part_count * element, bytes, to, TAG_PARTS);
        }
        code = phase_end(&p, true);
        if (code == SG_OK)
            code = reduce_slice(world, at + (size_t)world->base.rank * (size_t)part_count * element, n, dtype,
                                (unsigned char *)part + (size_t)start * element, status);
    }
    return code;
}

sg_code sg_mpi_all_gather(sg_transport *self, const void *part, void *whole, int64_t part_count, sg_dtype dtype,
                          sg_status *status) {
    sg_mpi_world *world = sg_mpi_world_of(self, status);
    if (!world) return SG_MACHINE;
    sg_code code = check_arguments(part, whole, part_count, dtype, status);
    if (code != SG_OK || part_count == 0) return code;
    size_t element = sg_dtype_bytes(dtype), part_bytes = (size_t)part_count * element;
    memmove((unsigned char *)whole + (size_t)world->base.rank * part_bytes, part, part_bytes);
    if (world->base.ranks == 1) return SG_OK;
    code = arrive(world, world->data, status);
    for (size_t start = 0; code == SG_OK && start < part_bytes; start += CHUNK_BYTES) {
        size_t bytes = part_bytes - start < CHUNK_BYTES ? part_bytes - start : CHUNK_BYTES;
        unsigned char *at = (unsigned char *)whole + start;
        phase p;
        code = phase_begin(&p, world, "gathering parts", status);
        if (code != SG_OK) return code;
        for (int step = 1; step < world->base.ranks; step++) {
            int from = (world->base.rank + world->base.ranks - step) % world->base.ranks,
                to = (world->base.rank + step) % world->base.ranks;
            phase_receive(&p, world->data, at + (size_t)from * part_bytes, bytes, from, TAG_RESULT);
            phase_send(&p, world->data, at + (size_t)world->base.rank * part_bytes, bytes, to, TAG_RESULT);
        }
        code = phase_end(&p, true);
    }
    return code;
}

sg_code sg_mpi_barrier(sg_transport *self, sg_status *status) {
    sg_mpi_world *world = sg_mpi_world_of(self, status);
    if (!world) return SG_MACHINE;
    return world->base.ranks == 1 ? SG_OK : arrive(world, world->control, status);
}

sg_code sg_mpi_gather_doubles(sg_transport *self, const double *values, int count, double *out, sg_status *status) {
    sg_mpi_world *world = sg_mpi_world_of(self, status);
    if (!world) return SG_MACHINE;
    if (count < 0 || count > (1 << 24) || (count > 0 && (!values || (world->base.rank == 0 && !out))))
        return sg_fail(status, SG_BAD_INPUT, "gathering %d figures is impossible", count);
    size_t bytes = (size_t)count * sizeof *values;
    if (world->base.rank == 0 && count) memmove(out, values, bytes);
    phase p;
    sg_code code = phase_begin(&p, world, "gathering figures of all ranks", status);
    if (code != SG_OK) return code;
    for (int r = 1; world->base.rank == 0 && r < world->base.ranks; r++)
        phase_receive(&p, world->control, out + (size_t)r * (size_t)count, bytes, r, TAG_FIGURES);
    if (world->base.rank != 0) phase_send(&p, world->control, values, bytes, 0, TAG_FIGURES);
    return phase_end(&p, false);
}

sg_code sg_mpi_broadcast(sg_transport *self, void *data, uint64_t bytes, int root, sg_status *status) {
    sg_mpi_world *world = sg_mpi_world_of(self, status);
    if (!world) return SG_MACHINE;
    if (root < 0 || root >= world->base.ranks || (bytes && !data))
        return sg_fail(status, SG_BAD_INPUT, "broadcasting %llu bytes from rank %d is impossible",
                       (unsigned long long)bytes, root);
    sg_code code = SG_OK;
    for (uint64_t start = 0; code == SG_OK && start < bytes; start += CHUNK_BYTES) {
        size_t n = bytes - start < CHUNK_BYTES ? (size_t)(bytes - start) : CHUNK_BYTES;
        unsigned char *at = (unsigned char *)data + start;
        phase p;
        code = phase_begin(&p, world, "spreading data to all ranks", status);
        if (code != SG_OK) return code;
        if (world->base.rank != root) phase_receive(&p, world->control, at, n, root, TAG_SPREAD);
        for (int r = 0; world->base.rank == root && r < world->base.ranks; r++)
            if (r != root) phase_send(&p, world->control, at, n, r, TAG_SPREAD);
        code = phase_end(&p, false);
    }
    return code;
}
