#include "kernels/tcp/world.h"

#include "kernels/rank_mean.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tensors pass rank 0 in chunks, so that it needs no copy of everyone's whole tensor. */
enum { CHUNK_BYTES_MOST = 1 << 20, CHUNK_BYTES_LEAST = 1 << 14, CHUNKS_BYTES = 64 << 20 };

typedef enum sg_tcp_kind {
    KIND_BARRIER,
    KIND_BROADCAST,
    KIND_GATHER,
    KIND_ALL_REDUCE,
    KIND_ALL_GATHER,
    KIND_SCATTER
} kind;

static const char *name_of(uint32_t k) {
    static const char *const names[] = {"a barrier",     "a broadcast",   "gathering figures",
                                        "an all-reduce", "an all-gather", "a reduce-scatter"};
    return k < sizeof names / sizeof *names ? names[k] : "no call that is known";
}

/* What every rank tells rank 0 first. Ranks in different calls would take each other's data for something else. */
typedef struct sg_tcp_call {
    uint64_t number, bytes;
    uint32_t kind, detail; /* root, or data type */
} call;

static unsigned char *plain(const void *data) {
    return (unsigned char *)(uintptr_t)data;
}

/* ---- parts that collectives are made of ---------------------------------------------------------------------------------- */

/* To and from every rank but the calling one, in one go: what rank 0 does. */
typedef struct sg_tcp_many {
    sg_tcp_world *world;
    sg_tcp_channel channel;
    const char *what;
    sg_tcp_transfer *transfer;
} many;

static sg_code many_begin(many *m, sg_tcp_world *world, sg_tcp_channel channel, const char *what, sg_status *status) {
    *m = (many){world, channel, what, NULL};
    m->transfer = calloc((size_t)world->n_peers + 1, sizeof *m->transfer);
    return m->transfer ? SG_OK : sg_fail_memory(status, (size_t)world->n_peers * sizeof *m->transfer, what);
}

static void many_end(many *m) {
    free(m->transfer);
}

/* Rank r's bytes are at data + (r - 1) * stride. */
static sg_code from_all(many *m, void *data, size_t stride, size_t bytes, sg_status *status) {
    for (int i = 0; i < m->world->n_peers; i++)
        m->transfer[i] = (sg_tcp_transfer){
            .peer = &m->world->peer[i], .data = bytes ? plain(data) + (size_t)i * stride : NULL, .bytes = bytes};
    return sg_tcp_move(m->world, m->channel, m->transfer, m->world->n_peers, m->what, status);
}

/* The same bytes to all but rank `except` (-1: to all). */
static sg_code to_all(many *m, const void *data, size_t bytes, int except, sg_status *status) {
    int n = 0;
    for (int i = 0; i < m->world->n_peers; i++)
        if (m->world->peer[i].rank != except)
            m->transfer[n++] =
                (sg_tcp_transfer){.peer = &m->world->peer[i], .data = plain(data), .bytes = bytes, .sends = true};
    return sg_tcp_move(m->world, m->channel, m->transfer, n, m->what, status);
}

static sg_code to_one(many *m, int rank, const void *data, size_t bytes, sg_status *status) {
    m->transfer[0] =
        (sg_tcp_transfer){.peer = &m->world->peer[rank - 1], .data = plain(data), .bytes = bytes, .sends = true};
    return sg_tcp_move(m->world, m->channel, m->transfer, 1, m->what, status);
}

/* What the others do: one peer, rank 0. */
static sg_code send_first(sg_tcp_world *w, sg_tcp_channel channel, const void *data, size_t bytes, const char *what,
                          sg_status *status) {
    sg_tcp_transfer t = {.peer = &w->peer[0], .data = plain(data), .bytes = bytes, .sends = true};
    return sg_tcp_move(w, channel, &t, 1, what, status);
}

static sg_code receive_first(sg_tcp_world *w, sg_tcp_channel channel, void *data, size_t bytes, const char *what,
                             sg_status *status) {
    sg_tcp_transfer t = {.peer = &w->peer[0], .data = data, .bytes = bytes};
    return sg_tcp_move(w, channel, &t, 1, what, status);
}

static sg_code out_of_step(sg_tcp_world *w, const sg_tcp_peer *p, const call *theirs, const call *mine,
                           sg_status *status) {
    char why[SG_TCP_WHY_BYTES];
    (void)snprintf(
        why, sizeof why,
        "the ranks are out of step: %s is in call %llu, %s of %llu bytes, rank 0 in call %llu, %s of %llu bytes",
        sg_tcp_name_of(p->rank, p->host, p->pid).text, (unsigned long long)theirs->number, name_of(theirs->kind),
        (unsigned long long)theirs->bytes, (unsigned long long)mine->number, name_of(mine->kind),
        (unsigned long long)mine->bytes);
    sg_tcp_abort(&w->base, why);
    return sg_tcp_check(w, status);
}

/* Rank 0 knows afterwards that everyone is in this call; the others may be early. */
static sg_code arrive(sg_tcp_world *w, sg_tcp_channel channel, call mine, sg_status *status) {
    mine.number = ++w->calls[channel];
    const char *what = name_of(mine.kind);
    if (w->base.rank != 0) return send_first(w, channel, &mine, sizeof mine, what, status);
    call *theirs = calloc((size_t)w->n_peers + 1, sizeof *theirs);
    if (!theirs) return sg_fail_memory(status, (size_t)w->n_peers * sizeof *theirs, what);
    many m;
    sg_code code = many_begin(&m, w, channel, what, status);
    if (code == SG_OK) code = from_all(&m, theirs, sizeof *theirs, sizeof *theirs, status);
    many_end(&m);
    for (int i = 0; code == SG_OK && i < w->n_peers; i++)
        if (memcmp(&theirs[i], &mine, sizeof mine) != 0) code = out_of_step(w, &w->peer[i], &theirs[i], &mine, status);
    free(theirs);
    return code;
}

static sg_code check_tensor(const void *a, const void *b, int64_t count, sg_dtype dtype, sg_status *status) {
    if (dtype != SG_F32 && dtype != SG_BF16)
        return sg_fail(status, SG_BAD_INPUT, "collectives take fp32 and bf16, not %s", sg_dtype_name(dtype));
    if (count < 0 || (count > 0 && (!a || !b)) || count > (INT64_MAX >> 4) / SG_TCP_RANKS_MOST)
        return sg_fail(status, SG_BAD_INPUT, "a collective over %lld elements is impossible", (long long)count);
    return SG_OK;
}

static int64_t chunk_of(const sg_tcp_world *w, size_t element) {
    int64_t bytes = CHUNKS_BYTES / w->base.ranks;
    bytes = bytes > CHUNK_BYTES_MOST ? CHUNK_BYTES_MOST : bytes < CHUNK_BYTES_LEAST ? CHUNK_BYTES_LEAST : bytes;
    return bytes / (int64_t)element;
}

static sg_code ensure_scratch(sg_tcp_world *w, size_t bytes, sg_status *status) {
    if (bytes <= w->scratch_bytes) return SG_OK;
    free(w->scratch);
    w->scratch = malloc(bytes);
    w->scratch_bytes = w->scratch ? bytes : 0;
    return w->scratch ? SG_OK : sg_fail_memory(status, bytes, "the parts of other ranks");
}

/* Rank 0: the mean of its own n elements and everyone's next n, into out (which may be `own`). */
static sg_code mean_of_all(many *m, const void *own, int64_t n, sg_dtype dtype, void *out, sg_status *status) {
    sg_tcp_world *w = m->world;
    size_t bytes = (size_t)n * sg_dtype_bytes(dtype);
    const void **part = calloc((size_t)w->base.ranks, sizeof *part);
    if (!part) return sg_fail_memory(status, (size_t)w->base.ranks * sizeof *part, "the parts of other ranks");
    sg_code code = ensure_scratch(w, bytes * (size_t)w->n_peers, status);
    if (code == SG_OK) code = from_all(m, w->scratch, bytes, bytes, status);
    if (code == SG_OK) {
        part[0] = own;
        for (int r = 1; r < w->base.ranks; r++) part[r] = w->scratch + bytes * (size_t)(r - 1);
        sg_rank_mean(dtype, part, w->base.ranks, n, out);
    }
    free((void *)part);
    return code;
}

/* ---- tensors --------------------------------------------------------------------------------------------------------------- */

/* A failure on this rank alone, with others in the middle of the same call: they must not wait. */
static sg_code fail_all(sg_tcp_world *w, sg_code code, sg_status *status) {
    if (code != SG_OK && !w->is_lost) sg_tcp_abort(&w->base, status ? status->text : "a collective failed");
    return code;
}

static sg_code reduce_chunks(sg_tcp_world *w, unsigned char *at, int64_t count, sg_dtype dtype, sg_status *status) {
    size_t element = sg_dtype_bytes(dtype);
    const char *what = name_of(KIND_ALL_REDUCE);
    many m;
    sg_code code = many_begin(&m, w, SG_TCP_DATA, what, status);
    for (int64_t chunk = chunk_of(w, element); code == SG_OK && count > 0; count -= chunk) {
        int64_t n = count < chunk ? count : chunk;
        size_t bytes = (size_t)n * element;
        if (w->base.rank == 0) {
            code = mean_of_all(&m, at, n, dtype, at, status);
            if (code == SG_OK) code = to_all(&m, at, bytes, -1, status);
        } else {
            code = send_first(w, SG_TCP_DATA, at, bytes, what, status);
            if (code == SG_OK) code = receive_first(w, SG_TCP_DATA, at, bytes, what, status);
        }
        at += bytes;
    }
    many_end(&m);
    return code;
}

sg_code sg_tcp_all_reduce_mean(sg_transport *self, void *buffer, int64_t count, sg_dtype dtype, sg_status *status) {
    sg_tcp_world *w = (sg_tcp_world *)self;
    sg_code code = check_tensor(buffer, buffer, count, dtype, status);
    if (code != SG_OK || w->base.ranks == 1) return code;
    call mine = {.kind = KIND_ALL_REDUCE, .detail = (uint32_t)dtype, .bytes = (uint64_t)count * sg_dtype_bytes(dtype)};
    code = arrive(w, SG_TCP_DATA, mine, status);
    if (code == SG_OK) code = reduce_chunks(w, buffer, count, dtype, status);
    return fail_all(w, code, status);
}

sg_code sg_tcp_all_gather(sg_transport *self, const void *part, void *whole, int64_t part_count, sg_dtype dtype,
                          sg_status *status) {
    sg_tcp_world *w = (sg_tcp_world *)self;
    sg_code code = check_tensor(part, whole, part_count, dtype, status);
    if (code != SG_OK) return code;
    size_t bytes = (size_t)part_count * sg_dtype_bytes(dtype);
    const char *what = name_of(KIND_ALL_GATHER);
    if (bytes && w->base.rank == 0) memmove(whole, part, bytes);
    if (w->base.ranks == 1) return SG_OK;
    call mine = {.kind = KIND_ALL_GATHER, .detail = (uint32_t)dtype, .bytes = bytes};
    code = arrive(w, SG_TCP_DATA, mine, status);
    if (code == SG_OK && w->base.rank != 0) {
        code = send_first(w, SG_TCP_DATA, part, bytes, what, status);
        if (code == SG_OK) code = receive_first(w, SG_TCP_DATA, whole, bytes * (size_t)w->base.ranks, what, status);
    } else if (code == SG_OK) {
        many m;
        code = many_begin(&m, w, SG_TCP_DATA, what, status);
        if (code == SG_OK) code = from_all(&m, bytes ? plain(whole) + bytes : NULL, bytes, bytes, status);
        if (code == SG_OK) code = to_all(&m, whole, bytes * (size_t)w->base.ranks, -1, status);
        many_end(&m);
    }
    return fail_all(w, code, status);
}

/* Chunk by chunk of slice after slice: the rank whose slice it is takes the mean before it sends any more. */
static sg_code scatter_chunks(sg_tcp_world *w, const void *whole, void *part, int64_t part_count, sg_dtype dtype,
                              sg_status *status) {
    size_t element = sg_dtype_bytes(dtype);
    const char *what = name_of(KIND_SCATTER);
    int64_t chunk = chunk_of(w, element);
    unsigned char *mean = NULL;
    many m;
    sg_code code = many_begin(&m, w, SG_TCP_DATA, what, status);
    if (code == SG_OK && w->base.rank == 0 && !(mean = malloc((size_t)chunk * element)))
        code = sg_fail_memory(status, (size_t)chunk * element, "the mean of a slice");
    for (int owner = 0; owner < w->base.ranks; owner++)
        for (int64_t start = 0; code == SG_OK && start < part_count; start += chunk) {
            int64_t n = part_count - start < chunk ? part_count - start : chunk;
            size_t bytes = (size_t)n * element;
            const unsigned char *from = plain(whole) + (size_t)(owner * part_count + start) * element;
            unsigned char *to = plain(part) + (size_t)start * element;
            if (w->base.rank == 0) {
                code = mean_of_all(&m, from, n, dtype, owner == 0 ? to : mean, status);
                if (code == SG_OK && owner != 0) code = to_one(&m, owner, mean, bytes, status);
            } else {
                code = send_first(w, SG_TCP_DATA, from, bytes, what, status);
                if (code == SG_OK && owner == w->base.rank)
                    code = receive_first(w, SG_TCP_DATA, to, bytes, what, status);
            }
        }
    many_end(&m);
    free(mean);
    return code;
}

sg_code sg_tcp_reduce_scatter_mean(sg_transport *self, const void *whole, void *part, int64_t part_count,
                                   sg_dtype dtype, sg_status *status) {
    sg_tcp_world *w = (sg_tcp_world *)self;
    sg_code code = check_tensor(whole, part, part_count, dtype, status);
    if (code != SG_OK) return code;
    size_t bytes = (size_t)part_count * sg_dtype_bytes(dtype);
    if (w->base.ranks == 1) {
        if (bytes) memmove(part, whole, bytes);
        return SG_OK;
    }
    call mine = {.kind = KIND_SCATTER, .detail = (uint32_t)dtype, .bytes = bytes};
    code = arrive(w, SG_TCP_DATA, mine, status);
    if (code == SG_OK) code = scatter_chunks(w, whole, part, part_count, dtype, status);
    return fail_all(w, code, status);
}

/* ---- control ----------------------------------------------------------------------------------------------------------------- */

sg_code sg_tcp_barrier(sg_transport *self, sg_status *status) {
    sg_tcp_world *w = (sg_tcp_world *)self;
    if (w->base.ranks == 1) return SG_OK;
    unsigned char go = 1;
    const char *what = name_of(KIND_BARRIER);
    sg_code code = arrive(w, SG_TCP_CONTROL, (call){.kind = KIND_BARRIER}, status);
    if (code == SG_OK && w->base.rank != 0) {
        code = receive_first(w, SG_TCP_CONTROL, &go, sizeof go, what, status);
    } else if (code == SG_OK) {
        many m;
        code = many_begin(&m, w, SG_TCP_CONTROL, what, status);
        if (code == SG_OK) code = to_all(&m, &go, sizeof go, -1, status);
        many_end(&m);
    }
    return fail_all(w, code, status);
}

static sg_code spread(sg_tcp_world *w, void *data, size_t bytes, int root, sg_status *status) {
    const char *what = name_of(KIND_BROADCAST);
    many m;
    sg_code code = many_begin(&m, w, SG_TCP_CONTROL, what, status);
    if (code == SG_OK && root != 0) {
        m.transfer[0] = (sg_tcp_transfer){.peer = &w->peer[root - 1], .data = data, .bytes = bytes};
        code = sg_tcp_move(w, SG_TCP_CONTROL, m.transfer, 1, what, status);
    }
    if (code == SG_OK) code = to_all(&m, data, bytes, root, status);
    many_end(&m);
    return code;
}

sg_code sg_tcp_broadcast(sg_transport *self, void *data, uint64_t bytes, int root, sg_status *status) {
    sg_tcp_world *w = (sg_tcp_world *)self;
    if (root < 0 || root >= w->base.ranks || (bytes && !data) || bytes > (uint64_t)INT64_MAX)
        return sg_fail(status, SG_BAD_INPUT, "broadcasting %llu bytes from rank %d is impossible",
                       (unsigned long long)bytes, root);
    if (w->base.ranks == 1) return SG_OK;
    const char *what = name_of(KIND_BROADCAST);
    call mine = {.kind = KIND_BROADCAST, .detail = (uint32_t)root, .bytes = bytes};
    sg_code code = arrive(w, SG_TCP_CONTROL, mine, status);
    if (code == SG_OK && w->base.rank == 0)
        code = spread(w, data, bytes, root, status);
    else if (code == SG_OK && w->base.rank == root)
        code = send_first(w, SG_TCP_CONTROL, data, bytes, what, status);
    else if (code == SG_OK)
        code = receive_first(w, SG_TCP_CONTROL, data, bytes, what, status);
    return fail_all(w, code, status);
}

sg_code sg_tcp_gather_doubles(sg_transport *self, const double *values, int count, double *out, sg_status *status) {
    sg_tcp_world *w = (sg_tcp_world *)self;
    if (count < 0 || count > (1 << 24) || (count > 0 && (!values || (w->base.rank == 0 && !out))))
        return sg_fail(status, SG_BAD_INPUT, "gathering %d figures is impossible", count);
    size_t bytes = (size_t)count * sizeof *values;
    if (w->base.rank == 0 && bytes) memmove(out, values, bytes);
    if (w->base.ranks == 1) return SG_OK;
    const char *what = name_of(KIND_GATHER);
    sg_code code = arrive(w, SG_TCP_CONTROL, (call){.kind = KIND_GATHER, .bytes = bytes}, status);
    if (code == SG_OK && w->base.rank != 0) {
        code = send_first(w, SG_TCP_CONTROL, values, bytes, what, status);
    } else if (code == SG_OK) {
        many m;
        code = many_begin(&m, w, SG_TCP_CONTROL, what, status);
        if (code == SG_OK) code = from_all(&m, bytes ? out + count : NULL, bytes, bytes, status);
        many_end(&m);
    }
    return fail_all(w, code, status);
}
