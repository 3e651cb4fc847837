/* layer_norm.cu: LAYER_NORM and RMS_NORM over the last dim (rows.cuh): the mean first, then squares around it, both from
 * registers as far as the row fits. */
#include "kernels/cuda/rows.cuh"

/* mean is NULL for RMS_NORM, whose squares are around 0 and which has no b. */
template <typename Way, int THREADS>
static __global__ void __launch_bounds__(SG_ROW_BLOCK)
    norm(sg_row_tensor x, sg_row_tensor w, sg_row_tensor b, sg_row_tensor y, float *mean, float *rstd,
         sg_layout<2> begin, int n, float eps) {
    typedef sg_row_part<Way, THREADS> part_t;
    for (int64_t r = sg_row_first<THREADS>(); r < begin.count; r += sg_row_step<THREADS>()) {
        sg_offsets<2> o = begin.offsets(r);
        part_t part;
        part.load(x, o.at[0], n);
        float middle = 0, sum = 0, squares = 0;
        if (mean) {
            sg_row_each<Way, THREADS>(part, x, o.at[0], n, [&](int, const float(&v)[part_t::VEC]) {
                SG_UNROLL
                for (int j = 0; j < part_t::VEC; j++) sum += v[j];
            });
            middle = sg_group_reduce<sg_sum_of<float>, THREADS>(sum) / (float)n;
        }
        sg_row_each<Way, THREADS>(part, x, o.at[0], n, [&](int, const float(&v)[part_t::VEC]) {
            SG_UNROLL
            for (int j = 0; j < part_t::VEC; j++) squares += (v[j] - middle) * (v[j] - middle);
        });
        float scale = rsqrtf(sg_group_reduce<sg_sum_of<float>, THREADS>(squares) / (float)n + eps);
        sg_row_each<Way, THREADS>(part, x, o.at[0], n, [&](int i, float(&v)[part_t::VEC]) {
            float weight[part_t::VEC], shift[part_t::VEC];
            Way::load(w, 0, i, weight);
            if (mean) Way::load(b, 0, i, shift);
            SG_UNROLL
            for (int j = 0; j < part_t::VEC; j++) v[j] = (v[j] - middle) * scale * weight[j] + (mean ? shift[j] : 0.0f);
            Way::store(y, o.at[1], i, v);
        });
        if (part_t::first() > 0) continue;
        if (mean) mean[r] = middle;
        rstd[r] = scale;
    }
}

static sg_code run(const sg_call *call) {
    const sg_plan *plan = call->plan;
    const sg_row_walk<2> *walk = static_cast<const sg_row_walk<2> *>(plan->state);
    bool layer = plan->op.kind == SG_OP_LAYER_NORM;
    int n_in = plan->op.n_in, tensors = 0;
    const sg_desc *descs[4];
    void *at[4];
    for (int i = 0; i <= n_in; i++) { /* x, w, b, y */
        descs[tensors] = &plan->op.desc[i];
        at[tensors++] = call->pointers[i];
    }
    sg_row_tensor x = sg_row_tensor_of(at[0], descs[0]), w = sg_row_tensor_of(at[1], descs[1]);
    sg_row_tensor b = sg_row_tensor_of(at[n_in - 1], descs[n_in - 1]), y = sg_row_tensor_of(at[n_in], descs[n_in]);
    float *mean = layer ? static_cast<float *>(sg_out_at(call, 1)) : NULL;
    float *rstd = static_cast<float *>(sg_out_at(call, layer ? 2 : 1));
    float eps = (float)plan->op.attrs.eps;
    sg_row_way way = sg_row_way_of(tensors, descs, at);
    return sg_cuda_launched(call, sg_row_dispatch(way, x.dtype, walk->n, [&](auto how, auto threads) {
                                const int THREADS = decltype(threads)::value;
                                return SG_LAUNCH_TOGETHER((norm<decltype(how), THREADS>),
                                                          sg_row_grid<THREADS>(walk->rows), dim3(SG_ROW_BLOCK),
                                                          call->stream, x, w, b, y, mean, rstd, walk->begin, walk->n,
                                                          eps);
                            }));
}

extern "C" sg_code sg_cuda_layer_norm(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    sg_code code = sg_cuda_plan_state(plan, sizeof(sg_row_walk<2>), status);
    if (code != SG_OK) return code;
    plan->run = run;
    const sg_desc *descs[2] = {sg_in(plan, 0), sg_out(plan, 0)};
    return sg_row_walk_of<2>(&plan->op, descs, static_cast<sg_row_walk<2> *>(plan->state), status);
}
