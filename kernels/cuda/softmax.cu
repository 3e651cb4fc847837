/* softmax.cu: SOFTMAX and SOFTMAX_BWD over the last dim (rows.cuh). */
#include "kernels/cuda/rows.cuh"

template <typename Way, int THREADS>
static __global__ void __launch_bounds__(SG_ROW_BLOCK)
    softmax(sg_row_tensor x, sg_row_tensor y, sg_layout<2> begin, int n) {
    typedef sg_row_part<Way, THREADS> part_t;
    for (int64_t r = sg_row_first<THREADS>(); r < begin.count; r += sg_row_step<THREADS>()) {
        sg_offsets<2> o = begin.offsets(r);
        part_t part;
        part.load(x, o.at[0], n);
        float most = -INFINITY, sum = 0;
        sg_row_each<Way, THREADS>(part, x, o.at[0], n, [&](int, const float(&v)[part_t::VEC]) {
            SG_UNROLL
            for (int j = 0; j < part_t::VEC; j++) most = sg_max_of::join(most, v[j]);
        });
        most = sg_group_reduce<sg_max_of, THREADS>(most);
        sg_row_each<Way, THREADS>(part, x, o.at[0], n, [&](int, float(&v)[part_t::VEC]) {
            SG_UNROLL
            for (int j = 0; j < part_t::VEC; j++) sum += v[j] = expf(v[j] - most);
        });
        float scale = 1.0f / sg_group_reduce<sg_sum_of<float>, THREADS>(sum);
        const int kept_to = part_t::KEEP * part_t::STEP; /* behind it the exponential is not kept */
        sg_row_each<Way, THREADS>(part, x, o.at[0], n, [&](int i, float(&v)[part_t::VEC]) {
            SG_UNROLL
            for (int j = 0; j < part_t::VEC; j++) v[j] = (i < kept_to ? v[j] : expf(v[j] - most)) * scale;
            Way::store(y, o.at[1], i, v);
        });
    }
}

/* dx = y (dy - sum of dy y). */
template <typename Way, int THREADS>
static __global__ void __launch_bounds__(SG_ROW_BLOCK)
    softmax_bwd(sg_row_tensor dy, sg_row_tensor y, sg_row_tensor dx, sg_layout<3> begin, int n) {
    typedef sg_row_part<Way, THREADS> part_t;
    for (int64_t r = sg_row_first<THREADS>(); r < begin.count; r += sg_row_step<THREADS>()) {
        sg_offsets<3> o = begin.offsets(r);
        part_t up, out;
        up.load(dy, o.at[0], n);
        out.load(y, o.at[1], n);
        float sum = 0;
        sg_row_each2<Way, THREADS>(up, dy, o.at[0], out, y, o.at[1], n,
                                   [&](int, const float(&a)[part_t::VEC], const float(&b)[part_t::VEC]) {
                                       SG_UNROLL
                                       for (int j = 0; j < part_t::VEC; j++) sum += a[j] * b[j];
                                   });
        sum = sg_group_reduce<sg_sum_of<float>, THREADS>(sum);
        sg_row_each2<Way, THREADS>(up, dy, o.at[0], out, y, o.at[1], n,
                                   [&](int i, const float(&a)[part_t::VEC], const float(&b)[part_t::VEC]) {
                                       float v[part_t::VEC];
                                       SG_UNROLL
                                       for (int j = 0; j < part_t::VEC; j++) v[j] = b[j] * (a[j] - sum);
                                       Way::store(dx, o.at[2], i, v);
                                   });
    }
}

/* ---- plans ------------------------------------------------------------------------------------------------------------ */

static sg_code run_softmax(const sg_call *call) {
    const sg_row_walk<2> *w = static_cast<const sg_row_walk<2> *>(call->plan->state);
    const sg_desc *descs[2] = {sg_in(call->plan, 0), sg_out(call->plan, 0)};
    sg_row_tensor x = sg_row_tensor_of(sg_in_at(call, 0), descs[0]);
    sg_row_tensor y = sg_row_tensor_of(sg_out_at(call, 0), descs[1]);
    sg_row_way way = sg_row_way_of(2, descs, call->pointers);
    return sg_cuda_launched(call, sg_row_dispatch(way, x.dtype, w->n, [&](auto how, auto threads) {
                                const int THREADS = decltype(threads)::value;
                                return SG_LAUNCH_TOGETHER((softmax<decltype(how), THREADS>),
                                                          sg_row_grid<THREADS>(w->rows), dim3(SG_ROW_BLOCK),
                                                          call->stream, x, y, w->begin, w->n);
                            }));
}

static sg_code run_softmax_bwd(const sg_call *call) {
    const sg_row_walk<3> *w = static_cast<const sg_row_walk<3> *>(call->plan->state);
    const sg_desc *descs[3] = {sg_in(call->plan, 0), sg_in(call->plan, 1), sg_out(call->plan, 0)};
    sg_row_tensor t[3];
    for (int i = 0; i < 3; i++) t[i] = sg_row_tensor_of(call->pointers[i], descs[i]);
    sg_row_way way = sg_row_way_of(3, descs, call->pointers);
    return sg_cuda_launched(call, sg_row_dispatch(way, t[0].dtype, w->n, [&](auto how, auto threads) {
                                const int THREADS = decltype(threads)::value;
                                return SG_LAUNCH_TOGETHER((softmax_bwd<decltype(how), THREADS>),
                                                          sg_row_grid<THREADS>(w->rows), dim3(SG_ROW_BLOCK),
                                                          call->stream, t[0], t[1], t[2], w->begin, w->n);
                            }));
}

extern "C" sg_code sg_cuda_softmax(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    bool backward = plan->op.kind == SG_OP_SOFTMAX_BWD;
    sg_code code = sg_cuda_plan_state(plan, sizeof(sg_row_walk<3>), status);
    if (code != SG_OK) return code;
    plan->run = backward ? run_softmax_bwd : run_softmax;
    if (backward) {
        const sg_desc *descs[3] = {sg_in(plan, 0), sg_in(plan, 1), sg_out(plan, 0)};
        return sg_row_walk_of<3>(&plan->op, descs, static_cast<sg_row_walk<3> *>(plan->state), status);
    }
    const sg_desc *descs[2] = {sg_in(plan, 0), sg_out(plan, 0)};
    return sg_row_walk_of<2>(&plan->op, descs, static_cast<sg_row_walk<2> *>(plan->state), status);
}
