/* layer_norm_bwd.cu: LAYER_NORM_BWD and RMS_NORM_BWD. dx row by row (rows.cuh); dw and db down the columns: a block takes 32
 * columns and a part of the rows. Several parts meet in the workspace and are added in their order, so that the sums are the
 * same every time. */
#include "kernels/cuda/rows.cuh"

/* With g = dy w and h = (x - mean) rstd: dx = rstd (g - mean(g) - h mean(g h)); RMS_NORM (mean NULL) has no mean(g). */
template <typename Way, int THREADS>
static __global__ void __launch_bounds__(SG_ROW_BLOCK)
    norm_dx(sg_row_tensor dy, sg_row_tensor x, sg_row_tensor w, sg_row_tensor dx, const float *mean, const float *rstd,
            sg_layout<3> begin, int n) {
    typedef sg_row_part<Way, THREADS> part_t;
    for (int64_t r = sg_row_first<THREADS>(); r < begin.count; r += sg_row_step<THREADS>()) {
        sg_offsets<3> o = begin.offsets(r);
        part_t up, in;
        up.load(dy, o.at[0], n);
        in.load(x, o.at[1], n);
        float middle = mean ? mean[r] : 0.0f, scale = rstd[r], sum = 0, along = 0;
        sg_row_each2<Way, THREADS>(up, dy, o.at[0], in, x, o.at[1], n,
                                   [&](int i, const float(&a)[part_t::VEC], const float(&b)[part_t::VEC]) {
                                       float weight[part_t::VEC];
                                       Way::load(w, 0, i, weight);
                                       SG_UNROLL
                                       for (int j = 0; j < part_t::VEC; j++) {
                                           float g = a[j] * weight[j];
                                           sum += g;
                                           along += g * (b[j] - middle);
                                       }
                                   });
        sum = mean ? sg_group_reduce<sg_sum_of<float>, THREADS>(sum) / (float)n : 0.0f;
        along = sg_group_reduce<sg_sum_of<float>, THREADS>(along) * scale * scale / (float)n;
        sg_row_each2<Way, THREADS>(up, dy, o.at[0], in, x, o.at[1], n,
                                   [&](int i, const float(&a)[part_t::VEC], const float(&b)[part_t::VEC]) {
                                       float weight[part_t::VEC], v[part_t::VEC];
                                       Way::load(w, 0, i, weight);
                                       SG_UNROLL
                                       for (int j = 0; j < part_t::VEC; j++)
                                           v[j] = scale * (a[j] * weight[j] - sum - (b[j] - middle) * along);
                                       Way::store(dx, o.at[2], i, v);
                                   });
    }
}

/* ---- weights ---------------------------------------------------------------------------------------------------------- */

enum { COLUMNS = 32, ROWS = 8 };

/* Where the sums of a block go: dw and db themselves, or this part's row of the workspace (fp32, dw first). */
struct sums {
    sg_row_tensor dw, db; /* db.at NULL: none */
    float *parts;         /* NULL: straight to dw and db */
};

/* Block x: columns; block y: rows y, y + parts ... in strips of ROWS. */
template <typename Way>
static __global__ void __launch_bounds__(COLUMNS *ROWS) norm_dw(sg_row_tensor dy, sg_row_tensor x, const float *mean,
                                                                const float *rstd, sg_layout<2> begin, int n, sums to) {
    const int VEC = Way::VEC;
    SG_SHARED(float, tile, 2 * ROWS * COLUMNS * VEC);
    int column = ((int)blockIdx.x * COLUMNS + (int)threadIdx.x) * VEC;
    float dw[VEC] = {}, db[VEC] = {};
    if (column < n)
        for (int64_t r = (int64_t)blockIdx.y * ROWS + threadIdx.y; r < begin.count; r += (int64_t)gridDim.y * ROWS) {
            sg_offsets<2> o = begin.offsets(r);
            float a[VEC], b[VEC], middle = mean ? mean[r] : 0.0f, scale = rstd[r];
            Way::load(dy, o.at[0], column, a);
            Way::load(x, o.at[1], column, b);
            SG_UNROLL
            for (int j = 0; j < VEC; j++) {
                dw[j] += a[j] * (b[j] - middle) * scale;
                db[j] += a[j];
            }
        }
    SG_UNROLL
    for (int j = 0; j < VEC; j++) { /* lanes side by side: no two of them in one bank */
        tile[((int)threadIdx.y * VEC + j) * COLUMNS + (int)threadIdx.x] = dw[j];
        tile[((ROWS + (int)threadIdx.y) * VEC + j) * COLUMNS + (int)threadIdx.x] = db[j];
    }
    __syncthreads();
    if (threadIdx.y > 1 || column >= n) return; /* one warp adds dw, one db */
    sg_row_tensor t = threadIdx.y == 0 ? to.dw : to.db;
    SG_UNROLL
    for (int j = 0; j < VEC; j++) {
        float sum = 0;
        for (int row = 0; row < ROWS; row++)
            sum += tile[(((int)threadIdx.y * ROWS + row) * VEC + j) * COLUMNS + (int)threadIdx.x];
        if (to.parts)
            to.parts[((int64_t)blockIdx.y * 2 + threadIdx.y) * n + column + j] = sum;
        else if (t.at)
            sg_any_store(t.at, t.dtype, (column + j) * t.stride, sum);
    }
}

/* Adds the parts: the warps of a block each some of them, then the warps' sums. Block y: 0 dw, 1 db. */
static __global__ void __launch_bounds__(COLUMNS *ROWS) norm_dw_add(sums to, int parts, int n) {
    SG_SHARED(float, tile, ROWS *COLUMNS);
    int column = (int)(blockIdx.x * COLUMNS + threadIdx.x);
    float sum = 0;
    if (column < n)
        for (int part = (int)threadIdx.y; part < parts; part += ROWS)
            sum += to.parts[((int64_t)part * 2 + blockIdx.y) * n + column];
    tile[threadIdx.y * COLUMNS + threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || column >= n) return;
    sum = 0;
    for (int row = 0; row < ROWS; row++) sum += tile[row * COLUMNS + (int)threadIdx.x];
    sg_row_tensor t = blockIdx.y == 0 ? to.dw : to.db;
    sg_any_store(t.at, t.dtype, column * t.stride, sum);
}

/* ---- plans ------------------------------------------------------------------------------------------------------------ */

struct norm_bwd {
    sg_row_walk<3> rows; /* dy, x, dx (x again where dx is not wanted) */
    sg_row_walk<2> columns;
    int parts; /* of the rows, for dw */
};

static sg_code run_dx(const sg_call *call, const norm_bwd *s, const float *mean, const float *rstd) {
    const sg_plan *plan = call->plan;
    int w = plan->op.n_in - 1;
    const sg_desc *descs[4] = {sg_in(plan, 0), sg_in(plan, 1), sg_in(plan, w), sg_out(plan, 0)};
    void *at[4] = {sg_in_at(call, 0), sg_in_at(call, 1), sg_in_at(call, w), sg_out_at(call, 0)};
    sg_row_tensor t[4];
    for (int i = 0; i < 4; i++) t[i] = sg_row_tensor_of(at[i], descs[i]);
    sg_row_way way = sg_row_way_of(4, descs, at);
    return sg_cuda_launched(call, sg_row_dispatch(way, t[0].dtype, s->rows.n, [&](auto how, auto threads) {
                                const int THREADS = decltype(threads)::value;
                                return SG_LAUNCH_TOGETHER((norm_dx<decltype(how), THREADS>),
                                                          sg_row_grid<THREADS>(s->rows.rows), dim3(SG_ROW_BLOCK),
                                                          call->stream, t[0], t[1], t[2], t[3], mean, rstd,
                                                          s->rows.begin, s->rows.n);
                            }));
}

static sg_code run_dw(const sg_call *call, const norm_bwd *s, const float *mean, const float *rstd) {
    const sg_plan *plan = call->plan;
    int first = sg_flag(plan, SG_NO_DX) ? 0 : 1, n = s->columns.n;
    const sg_desc *descs[2] = {sg_in(plan, 0), sg_in(plan, 1)};
    sg_row_tensor dy = sg_row_tensor_of(sg_in_at(call, 0), descs[0]);
    sg_row_tensor x = sg_row_tensor_of(sg_in_at(call, 1), descs[1]);
    sums to = {};
    to.dw = sg_row_tensor_of(sg_out_at(call, first), sg_out(plan, first));
    if (mean) to.db = sg_row_tensor_of(sg_out_at(call, first + 1), sg_out(plan, first + 1));
    to.parts = s->parts > 1 ? reinterpret_cast<float *>(call->workspace) : NULL;
    sg_row_way way = sg_row_way_of(2, descs, call->pointers);
    sg_code code =
        sg_cuda_launched(call, sg_row_dispatch(way, dy.dtype, 1, [&](auto how, auto) {
                             int wide = COLUMNS * decltype(how)::VEC;
                             dim3 grid((unsigned)((n + wide - 1) / wide), (unsigned)s->parts);
                             return SG_LAUNCH_TOGETHER((norm_dw<decltype(how)>), grid, dim3(COLUMNS, ROWS),
                                                       call->stream, dy, x, mean, rstd, s->columns.begin, n, to);
                         }));
    if (code != SG_OK || s->parts == 1) return code;
    dim3 grid((unsigned)((n + COLUMNS - 1) / COLUMNS), mean ? 2 : 1);
    return sg_cuda_launched(call,
                            SG_LAUNCH_TOGETHER(norm_dw_add, grid, dim3(COLUMNS, ROWS), call->stream, to, s->parts, n));
}

static sg_code run(const sg_call *call) {
    const norm_bwd *s = static_cast<const norm_bwd *>(call->plan->state);
    bool layer = call->plan->op.kind == SG_OP_LAYER_NORM_BWD;
    const float *mean = layer ? static_cast<const float *>(sg_in_at(call, 2)) : NULL;
    const float *rstd = static_cast<const float *>(sg_in_at(call, layer ? 3 : 2));
    sg_code code = SG_OK;
    if (!sg_flag(call->plan, SG_NO_DX)) code = run_dx(call, s, mean, rstd);
    if (code == SG_OK && !sg_flag(call->plan, SG_NO_DW)) code = run_dw(call, s, mean, rstd);
    return code;
}

/* Parts of the rows: as many as keep the GPU busy, each of at least 4 rows per warp. One part needs no second pass. */
static int parts_of(const sg_device *device, int64_t rows, int n) {
    const int64_t BLOCKS_PER_UNIT = 8, ROWS_LEAST = 4 * ROWS, MOST = 1024;
    int64_t column_blocks = (n + 4 * COLUMNS - 1) / (4 * COLUMNS);
    int64_t parts = (int64_t)device->units * BLOCKS_PER_UNIT / column_blocks, most = rows / ROWS_LEAST;
    if (parts > most) parts = most;
    return (int)(parts < 1 ? 1 : parts > MOST ? MOST : parts);
}

extern "C" sg_code sg_cuda_layer_norm_bwd(sg_device *device, sg_plan *plan, sg_status *status) {
    sg_code code = sg_cuda_plan_state(plan, sizeof(norm_bwd), status);
    if (code != SG_OK) return code;
    norm_bwd *s = static_cast<norm_bwd *>(plan->state);
    plan->run = run;
    bool dx = !sg_flag(plan, SG_NO_DX);
    const sg_desc *descs[3] = {sg_in(plan, 0), sg_in(plan, 1), dx ? sg_out(plan, 0) : sg_in(plan, 1)};
    code = sg_row_walk_of<3>(&plan->op, descs, &s->rows, status);
    if (code == SG_OK) code = sg_row_walk_of<2>(&plan->op, descs, &s->columns, status);
    if (code != SG_OK || sg_flag(plan, SG_NO_DW)) return code;
    s->parts = parts_of(device, s->rows.rows, s->rows.n);
    if (s->parts > 1)
        plan->workspace_bytes = sg_cuda_align((uint64_t)s->parts * 2 * (uint64_t)s->rows.n * sizeof(float));
    return SG_OK;
}
