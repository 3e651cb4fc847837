/* embedding.c: EMBEDDING gathers rows of a table; EMBEDDING_BWD adds rows into a zeroed table. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/scalar.h"

#include <stdlib.h>
#include <string.h>

enum { GRAIN_BYTES = 65536, CHUNK = 1024, GRAIN_COLUMNS = 64 };

typedef struct job {
    const sg_call *call;
    const sg_desc *table, *index, *rows; /* rows: y or dy */
    char *table_at, *rows_at;
    const char *index_at;
    int64_t bytes, row_bytes; /* of an element of the table and of y */
} job;

/* Offset of position `at` (row-major over the index's dims) with the given strides. */
static int64_t offset_of(const sg_desc *index, int64_t at, const int64_t *stride) {
    int64_t offset = 0;
    for (int d = index->ndim - 1; d >= 0; d--) {
        offset += at % index->size[d] * stride[d];
        at /= index->size[d];
    }
    return offset;
}

static int64_t row_of(const job *job, int64_t at) {
    int64_t offset = offset_of(job->index, at, job->index->stride);
    return job->index->dtype == SG_I64 ? ((const int64_t *)(const void *)job->index_at)[offset]
                                       : ((const int32_t *)(const void *)job->index_at)[offset];
}

/* Before anything is touched: an index that comes from data must not reach outside the table. */
static sg_code check_indices(const job *job) {
    int64_t n = sg_desc_count(job->index);
    for (int64_t i = 0; i < n; i++) {
        int64_t row = row_of(job, i);
        if (row < 0 || row >= job->table->size[0])
            return sg_fail(job->call->status, SG_BAD_INPUT,
                           "%s: index %lld at position %lld is outside a table of %lld rows",
                           sg_op_kind_name((sg_op_kind)job->call->plan->op.kind), (long long)row, (long long)i,
                           (long long)job->table->size[0]);
    }
    return SG_OK;
}

/* ---- gather ----------------------------------------------------------------------------------------------------------------- */

static void gather(void *context, int64_t begin, int64_t end, int thread) {
    const job *job = context;
    (void)thread;
    int64_t d = job->table->size[1], from_step = job->table->stride[1] * job->bytes;
    int64_t to_step = job->rows->stride[job->rows->ndim - 1] * job->bytes;
    for (int64_t i = begin; i < end; i++) {
        const char *from = job->table_at + row_of(job, i) * job->table->stride[0] * job->bytes;
        char *to = job->rows_at + offset_of(job->index, i, job->rows->stride) * job->bytes;
        if (from_step == job->bytes && to_step == job->bytes)
            memcpy(to, from, (size_t)(d * job->bytes));
        else
            for (int64_t j = 0; j < d; j++) memcpy(to + j * to_step, from + j * from_step, (size_t)job->bytes);
    }
}

static sg_code run_embedding(const sg_call *call) {
    const sg_plan *plan = call->plan;
    int64_t bytes = (int64_t)sg_dtype_bytes((sg_dtype)sg_in(plan, 0)->dtype);
    job job = {call,
               sg_in(plan, 0),
               sg_in(plan, 1),
               sg_out(plan, 0),
               sg_in_at(call, 0),
               sg_out_at(call, 0),
               sg_in_at(call, 1),
               bytes,
               bytes};
    sg_code code = check_indices(&job);
    if (code != SG_OK) return code;
    int64_t per_row = job.table->size[1] * bytes;
    sg_parallel(call->device->threads, sg_desc_count(job.index), per_row < GRAIN_BYTES ? GRAIN_BYTES / per_row : 1,
                gather, &job);
    return SG_OK;
}

sg_code sg_prepare_embedding(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device, (void)status;
    plan->run = run_embedding;
    return SG_OK;
}

/* ---- scatter ---------------------------------------------------------------------------------------------------------------- */

/* Items: columns of the table. Each thread owns some and walks all rows, so that equal indices need no lock and sums do not
 * depend on the number of threads. fp32 only; other dtypes are widened. */
static void scatter(void *context, int64_t begin, int64_t end, int thread) {
    const job *job = context;
    const sg_loops *loops = job->call->device->loops;
    (void)thread;
    float *table = (float *)(void *)job->table_at;
    const float *rows = (const float *)(const void *)job->rows_at;
    int64_t table_step = job->table->stride[1], row_step = job->rows->stride[job->rows->ndim - 1], n = end - begin;
    for (int64_t r = 0; r < job->table->size[0]; r++) {
        float *to = table + r * job->table->stride[0] + begin * table_step;
        if (table_step == 1)
            loops->fill(to, n, 0);
        else
            for (int64_t j = 0; j < n; j++) to[j * table_step] = 0;
    }
    int64_t count = sg_desc_count(job->index);
    for (int64_t i = 0; i < count; i++) {
        float *to = table + row_of(job, i) * job->table->stride[0] + begin * table_step;
        const float *from = rows + offset_of(job->index, i, job->rows->stride) + begin * row_step;
        if (table_step == 1 && row_step == 1)
            loops->add_rows(to, from, 1, n, 0);
        else
            for (int64_t j = 0; j < n; j++) to[j * table_step] += from[j * row_step];
    }
}

static sg_code run_embedding_bwd(const sg_call *call) {
    const sg_plan *plan = call->plan;
    job job = {call,
               sg_out(plan, 0),
               sg_in(plan, 1),
               sg_in(plan, 0),
               sg_out_at(call, 0),
               sg_in_at(call, 0),
               sg_in_at(call, 1),
               sizeof(float),
               sizeof(float)};
    sg_code code = check_indices(&job);
    if (code != SG_OK) return code;
    sg_parallel(call->device->threads, job.table->size[1], GRAIN_COLUMNS, scatter, &job);
    return SG_OK;
}

sg_code sg_prepare_embedding_bwd(sg_device *device, sg_plan *plan, sg_status *status) {
    if (sg_has_narrow_floats(&plan->op)) return sg_prepare_widened(device, plan, status);
    if (sg_in(plan, 0)->dtype != SG_F32 || sg_out(plan, 0)->dtype != SG_F32)
        return sg_refuse(&plan->op, "an embedding's backward runs in fp32, not fp64", status);
    plan->run = run_embedding_bwd;
    return SG_OK;
}
