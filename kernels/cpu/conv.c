/* conv.c: CONV, CONV_BWD_DATA and CONV_BWD_WEIGHTS through oneDNN.
 *
 * Channels-last images are taken as they lie: its kernels for them reach 95 % of the processor's peak (bench/ops). Others,
 * and weights, are packed into the workspace in the layout that oneDNN likes best, as PyTorch does. */
#include "kernels/cpu/nest.h"
#include "kernels/cpu/primitive.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_OPERANDS = 5, CHUNK = 1024, GRAIN = 16384 };

/* A tensor of the primitive: read or written where it lies, or through a packed copy in the workspace. */
typedef struct operand {
    int argument, pointer; /* of the primitive, of the call */
    int at;                /* among the primitive's args */
    bool output;
    sg_primitive reorder; /* primitive NULL: not packed */
    int from_at, to_at;   /* among the reorder's args */
    uint64_t offset;      /* of the packed copy */
} operand;

typedef struct conv {
    sg_primitive primitive;
    operand operands[MOST_OPERANDS];
    int n;
    uint64_t scratch_offset;
    bool adds_after; /* residual and activation are a pass of ours over y */
    sg_nest after;   /* y, residual */
} conv;

/* ---- launch ------------------------------------------------------------------------------------------------------------------ */

static sg_code reorder(const sg_call *call, const conv *c, const operand *o) {
    void *user = call->pointers[o->pointer], *packed = call->workspace + o->offset;
    sg_primitive_point(&o->reorder, o->from_at, o->output ? packed : user);
    sg_primitive_point(&o->reorder, o->to_at, o->output ? user : packed);
    return sg_primitive_run(call, &o->reorder, call->workspace + c->scratch_offset);
}

typedef struct after_job {
    const sg_call *call;
    const conv *c;
} after_job;

/* y = act(y + residual), chunk by chunk: one pass over memory. oneDNN's own fusion of a residual takes three times as long. */
static void after_work(void *context, int64_t begin, int64_t end, int thread) {
    const after_job *job = context;
    const sg_plan *plan = job->call->plan;
    const sg_loops *loops = job->call->device->loops;
    const sg_nest *nest = &job->c->after;
    (void)thread;
    char *y = sg_out_at(job->call, 0), *residual = sg_in_at(job->call, plan->op.n_in - 1);
    sg_loop1 act = loops->unary[plan->op.attrs.act];
    int64_t y_stride = nest->stride[0][nest->ndim - 1], r_stride = nest->stride[1][nest->ndim - 1];
    float y_buffer[CHUNK], r_buffer[CHUNK];
    sg_nest_place place;
    sg_nest_seek(nest, begin, &place);
    while (begin < end) {
        int64_t n = sg_nest_run(nest, &place);
        if (n > end - begin) n = end - begin;
        if (n > CHUNK) n = CHUNK;
        float *to = (float *)(void *)(y + place.offset[0]), *from = (float *)(void *)(residual + place.offset[1]);
        float *sum = y_stride == 1 ? to : y_buffer, *add = r_stride == 1 ? from : r_buffer;
        if (y_stride != 1) loops->load[SG_F32](y_buffer, to, n, y_stride);
        if (r_stride != 1) loops->load[SG_F32](r_buffer, from, n, r_stride);
        loops->binary[SG_FN_ADD](sum, sum, add, n, 1, 0);
        if (act) act(sum, sum, n, 1, 0);
        if (y_stride != 1) loops->store[SG_F32](to, y_buffer, n, y_stride);
        sg_nest_advance(nest, &place, n);
        begin += n;
    }
}

static sg_code run_conv(const sg_call *call) {
    const conv *c = call->plan->state;
    sg_code code = SG_OK;
    for (int i = 0; i < c->n && code == SG_OK; i++) {
        const operand *o = &c->operands[i];
        bool packed = o->reorder.primitive != NULL;
        sg_primitive_point(&c->primitive, o->at, packed ? call->workspace + o->offset : call->pointers[o->pointer]);
        if (packed && !o->output) code = reorder(call, c, o);
    }
    if (code == SG_OK) code = sg_primitive_run(call, &c->primitive, call->workspace + c->scratch_offset);
    for (int i = 0; i < c->n && code == SG_OK; i++)
        if (c->operands[i].reorder.primitive && c->operands[i].output) code = reorder(call, c, &c->operands[i]);
    if (code == SG_OK && c->adds_after) {
        after_job job = {call, c};
        sg_parallel(call->device->threads, c->after.count, GRAIN, after_work, &job);
    }
    return code;
}

static void free_conv(void *state) {
    conv *c = state;
    if (!c) return;
    sg_primitive_free(&c->primitive);
    for (int i = 0; i < c->n; i++) sg_primitive_free(&c->operands[i].reorder);
    free(c);
}

/* ---- preparation ------------------------------------------------------------------------------------------------------------- */

static sg_code start(sg_plan *plan, sg_status *status) {
    const sg_op *op = &plan->op;
    if (op->attrs.compute == SG_COMPUTE_F64 || op->desc[0].dtype == SG_F64)
        return sg_refuse(op, "oneDNN has no fp64", status);
    sg_code code = sg_plan_state(plan, sizeof(conv), status);
    if (code != SG_OK) return code;
    conv *c = plan->state;
    plan->free_state = free_conv;
    plan->run = run_conv;
    c->primitive.scratch = -1;
    return SG_OK;
}

/* Places a packed copy of an operand in the workspace. */
static sg_code pack(sg_device *device, sg_plan *plan, operand *o, const dnnl_memory_desc_t *user,
                    const dnnl_memory_desc_t *packed, sg_status *status) {
    const dnnl_memory_desc_t *from = o->output ? packed : user, *to = o->output ? user : packed;
    o->offset = plan->workspace_bytes;
    plan->workspace_bytes += sg_align(dnnl_memory_desc_get_size(packed));
    sg_code code = sg_primitive_make_reorder(device, &plan->op, from, to, &o->reorder, status);
    if (code == SG_OK)
        code = sg_primitive_add(device, &plan->op, &o->reorder, DNNL_ARG_FROM, from, &o->from_at, status);
    if (code == SG_OK) code = sg_primitive_add(device, &plan->op, &o->reorder, DNNL_ARG_TO, to, &o->to_at, status);
    return code;
}

/* Adds an operand in the layout that the primitive chose; packs it where that is not the tensor's own. */
static sg_code add_operand(sg_device *device, sg_plan *plan, int argument, int pointer, sg_status *status) {
    conv *c = plan->state;
    operand *o = &c->operands[c->n++];
    dnnl_memory_desc_t user;
    const dnnl_memory_desc_t *chosen = sg_primitive_layout(&c->primitive, argument);
    *o = (operand){
        .argument = argument, .pointer = pointer, .output = pointer >= plan->op.n_in, .reorder = {.scratch = -1}};
    sg_code code = sg_dnnl_layout(&plan->op, &plan->op.desc[pointer], &user, status);
    if (code == SG_OK) code = sg_primitive_add(device, &plan->op, &c->primitive, argument, chosen, &o->at, status);
    if (code == SG_OK && !dnnl_memory_desc_equal(&user, chosen)) code = pack(device, plan, o, &user, chosen, status);
    return code;
}

/* After all operands: the scratchpad, shared by the primitive and the reorders, which run one after the other. */
static void add_scratch(sg_plan *plan) {
    conv *c = plan->state;
    uint64_t most = c->primitive.scratch_bytes;
    for (int i = 0; i < c->n; i++)
        if (c->operands[i].reorder.scratch_bytes > most) most = c->operands[i].reorder.scratch_bytes;
    c->scratch_offset = plan->workspace_bytes;
    plan->workspace_bytes += sg_align(most);
}

/* The layout in which an image is offered: as it lies when channels-last, else whatever oneDNN likes. */
static sg_code image_layout(const sg_op *op, const sg_desc *image, bool packed, dnnl_memory_desc_t *layout,
                            sg_status *status) {
    if (!packed && sg_desc_is_channels_last(image)) return sg_dnnl_layout(op, image, layout, status);
    *layout = sg_dnnl_any_layout(image);
    return SG_OK;
}

/* The tensors of a convolution, whichever is the output. */
typedef struct tensors {
    const sg_desc *x, *w, *bias, *y;
    bool packs_images;
} tensors;

typedef struct layouts {
    dnnl_memory_desc_t x, w, bias, y;
    dnnl_dims_t stride, pad;
} layouts;

static sg_code layouts_of(const sg_op *op, const tensors *t, layouts *l, sg_status *status) {
    *l = (layouts){.stride = {op->attrs.stride[0], op->attrs.stride[1]}, .pad = {op->attrs.pad[0], op->attrs.pad[1]}};
    l->w = sg_dnnl_any_layout(t->w);
    sg_code code = image_layout(op, t->x, t->packs_images, &l->x, status);
    if (code == SG_OK) code = image_layout(op, t->y, t->packs_images, &l->y, status);
    if (code == SG_OK && t->bias) code = sg_dnnl_layout(op, t->bias, &l->bias, status);
    return code;
}

static dnnl_status_t describe_forward(const layouts *l, bool bias, dnnl_convolution_desc_t *desc) {
    return dnnl_convolution_forward_desc_init(desc, dnnl_forward_training, dnnl_convolution_direct, &l->x, &l->w,
                                              bias ? &l->bias : NULL, &l->y, l->stride, l->pad, l->pad);
}

/* ---- forward ------------------------------------------------------------------------------------------------------------------- */

static sg_code fuse(sg_plan *plan, dnnl_post_ops_t post_ops, dnnl_memory_desc_t *residual, sg_status *status) {
    conv *c = plan->state;
    const sg_op *op = &plan->op;
    if (c->adds_after) return SG_OK;
    if (sg_flag(plan, SG_HAS_RESIDUAL)) {
        sg_code code = sg_dnnl_layout(op, sg_in(plan, op->n_in - 1), residual, status);
        if (code != SG_OK) return code;
        if (dnnl_post_ops_append_binary(post_ops, dnnl_binary_add, residual) != dnnl_success)
            return sg_dnnl_fail(op, dnnl_invalid_arguments, "fusing the residual", status);
    }
    return sg_dnnl_append_activation(op, post_ops, status);
}

static sg_code make_forward(sg_device *device, sg_plan *plan, dnnl_post_ops_t post_ops, sg_status *status) {
    conv *c = plan->state;
    const sg_op *op = &plan->op;
    bool bias = sg_flag(plan, SG_HAS_BIAS), fused = sg_flag(plan, SG_HAS_RESIDUAL) && !c->adds_after;
    tensors t = {sg_in(plan, 0), sg_in(plan, 1), bias ? sg_in(plan, 2) : NULL, sg_out(plan, 0), false};
    layouts l;
    dnnl_convolution_desc_t desc;
    dnnl_memory_desc_t residual;
    dnnl_primitive_attr_t attributes = NULL;
    sg_code code = layouts_of(op, &t, &l, status);
    if (code == SG_OK && fused) code = sg_dnnl_layout(op, t.y, &l.y, status); /* a fused residual shares y's layout */
    if (code == SG_OK) code = fuse(plan, post_ops, &residual, status);
    if (code != SG_OK) return code;
    dnnl_status_t result = describe_forward(&l, bias, &desc);
    if (result != dnnl_success) return sg_dnnl_fail(op, result, "describing the convolution", status);
    code = sg_dnnl_attributes(op, post_ops, 1, &attributes, status);
    if (code == SG_OK) code = sg_primitive_make(device, op, &desc, attributes, NULL, NULL, &c->primitive, status);
    if (code == SG_OK) code = add_operand(device, plan, DNNL_ARG_SRC, 0, status);
    if (code == SG_OK) code = add_operand(device, plan, DNNL_ARG_WEIGHTS, 1, status);
    if (code == SG_OK) code = add_operand(device, plan, DNNL_ARG_DST, op->n_in, status);
    if (code == SG_OK && bias) code = add_operand(device, plan, DNNL_ARG_BIAS, 2, status);
    if (code == SG_OK && fused) {
        int argument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
        operand *o = &c->operands[c->n++];
        *o = (operand){.argument = argument, .pointer = op->n_in - 1, .reorder = {.scratch = -1}};
        code = sg_primitive_add(device, op, &c->primitive, argument, &residual, &o->at, status);
    }
    if (code == SG_OK) add_scratch(plan);
    return code;
}

sg_code sg_prepare_conv(sg_device *device, sg_plan *plan, sg_status *status) {
    if (sg_must_widen(device, &plan->op)) return sg_prepare_widened(device, plan, status);
    sg_code code = start(plan, status);
    if (code != SG_OK) return code;
    conv *c = plan->state;
    const sg_desc *y = sg_out(plan, 0), *residual = sg_in(plan, plan->op.n_in - 1);
    if (sg_flag(plan, SG_HAS_RESIDUAL) && y->dtype == SG_F32 && residual->dtype == SG_F32) {
        const sg_desc *descs[2] = {y, residual};
        c->adds_after = true;
        c->after = sg_nest_make(2, descs);
    }
    dnnl_post_ops_t post_ops = NULL;
    if (dnnl_post_ops_create(&post_ops) != dnnl_success)
        return sg_dnnl_fail(&plan->op, dnnl_out_of_memory, "creating post-operations", status);
    code = make_forward(device, plan, post_ops, status);
    (void)dnnl_post_ops_destroy(post_ops);
    return code;
}

/* ---- backward ------------------------------------------------------------------------------------------------------------------ */

typedef dnnl_status_t describe_backward(const layouts *l, bool bias, dnnl_convolution_desc_t *desc);

/* True when the library has nothing but its reference loops for this combination of layouts. */
static bool falls_back(sg_device *device, const dnnl_convolution_desc_t *desc, const_dnnl_primitive_desc_t hint) {
    dnnl_primitive_desc_t choice = NULL;
    const char *name = "";
    if (dnnl_primitive_desc_create(&choice, desc, NULL, device->engine, hint) != dnnl_success) return false;
    (void)dnnl_primitive_desc_query(choice, dnnl_query_impl_info_str, 0, &name);
    bool reference = strncmp(name, "ref", 3) == 0;
    (void)dnnl_primitive_desc_destroy(choice);
    return reference;
}

/* A backward is described with the forward's primitive descriptor as a hint. */
static sg_code choose_backward(sg_device *device, const sg_op *op, const tensors *t, describe_backward *describe,
                               dnnl_convolution_desc_t *desc, dnnl_primitive_desc_t *hint, sg_status *status) {
    layouts l;
    dnnl_convolution_desc_t forward;
    sg_code code = layouts_of(op, t, &l, status);
    if (code != SG_OK) return code;
    dnnl_status_t result = describe_forward(&l, false, &forward);
    if (result == dnnl_success) result = describe(&l, t->bias != NULL, desc);
    if (result != dnnl_success) return sg_dnnl_fail(op, result, "describing the convolution", status);
    result = dnnl_primitive_desc_create(hint, &forward, NULL, device->engine, NULL);
    return result == dnnl_success ? SG_OK : sg_dnnl_fail(op, result, "choosing the forward", status);
}

static sg_code make_backward(sg_device *device, sg_plan *plan, const tensors *t, describe_backward *describe,
                             sg_status *status) {
    conv *c = plan->state;
    const sg_op *op = &plan->op;
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t hint = NULL;
    dnnl_primitive_attr_t attributes = NULL;
    sg_code code = choose_backward(device, op, t, describe, &desc, &hint, status);
    if (code == SG_OK && !t->packs_images && falls_back(device, &desc, hint)) {
        /* a gradient in NHWC of an image in NCHW, one image of a 1x1 window: with both images packed there is a kernel */
        tensors packed = *t;
        packed.packs_images = true;
        (void)dnnl_primitive_desc_destroy(hint);
        hint = NULL;
        code = choose_backward(device, op, &packed, describe, &desc, &hint, status);
    }
    if (code != SG_OK) return code;
    code = sg_dnnl_attributes(op, NULL, 1, &attributes, status);
    if (code == SG_OK) code = sg_primitive_make(device, op, &desc, attributes, hint, NULL, &c->primitive, status);
    (void)dnnl_primitive_desc_destroy(hint);
    return code;
}

static dnnl_status_t describe_bwd_data(const layouts *l, bool bias, dnnl_convolution_desc_t *desc) {
    (void)bias;
    return dnnl_convolution_backward_data_desc_init(desc, dnnl_convolution_direct, &l->x, &l->w, &l->y, l->stride,
                                                    l->pad, l->pad);
}

static dnnl_status_t describe_bwd_weights(const layouts *l, bool bias, dnnl_convolution_desc_t *desc) {
    return dnnl_convolution_backward_weights_desc_init(desc, dnnl_convolution_direct, &l->x, &l->w,
                                                       bias ? &l->bias : NULL, &l->y, l->stride, l->pad, l->pad);
}

sg_code sg_prepare_conv_bwd_data(sg_device *device, sg_plan *plan, sg_status *status) {
    if (sg_must_widen(device, &plan->op)) return sg_prepare_widened(device, plan, status);
    tensors t = {sg_out(plan, 0), sg_in(plan, 1), NULL, sg_in(plan, 0), false};
    sg_code code = start(plan, status);
    if (code == SG_OK) code = make_backward(device, plan, &t, describe_bwd_data, status);
    if (code == SG_OK) code = add_operand(device, plan, DNNL_ARG_DIFF_DST, 0, status);
    if (code == SG_OK) code = add_operand(device, plan, DNNL_ARG_WEIGHTS, 1, status);
    if (code == SG_OK) code = add_operand(device, plan, DNNL_ARG_DIFF_SRC, plan->op.n_in, status);
    if (code == SG_OK) add_scratch(plan);
    return code;
}

/* oneDNN 2.6's channels-last kernel for weights runs strided windows at half speed, and 128 channels at 85 % of what packed
 * images get: packing both first pays. With 64 channels it gains 3 % for twice the memory of that layer's images. */
static bool packing_pays(const sg_attrs *a, const sg_desc *x) {
    bool strided = a->stride[0] > 1 || a->stride[1] > 1;
    return a->kernel[0] * a->kernel[1] > 1 && x->size[1] % 16 == 0 &&
           (strided || (x->size[1] > 64 && x->size[1] <= 128));
}

sg_code sg_prepare_conv_bwd_weights(sg_device *device, sg_plan *plan, sg_status *status) {
    if (sg_must_widen(device, &plan->op)) return sg_prepare_widened(device, plan, status);
    bool bias = sg_flag(plan, SG_HAS_BIAS);
    tensors t = {sg_in(plan, 1), sg_out(plan, 0), bias ? sg_out(plan, 1) : NULL, sg_in(plan, 0),
                 packing_pays(&plan->op.attrs, sg_in(plan, 1))};
    sg_code code = start(plan, status);
    if (code == SG_OK) code = make_backward(device, plan, &t, describe_bwd_weights, status);
    if (code == SG_OK) code = add_operand(device, plan, DNNL_ARG_DIFF_DST, 0, status);
    if (code == SG_OK) code = add_operand(device, plan, DNNL_ARG_SRC, 1, status);
    if (code == SG_OK) code = add_operand(device, plan, DNNL_ARG_DIFF_WEIGHTS, plan->op.n_in, status);
    if (code == SG_OK && bias) code = add_operand(device, plan, DNNL_ARG_DIFF_BIAS, plan->op.n_in + 1, status);
    if (code == SG_OK) add_scratch(plan);
    return code;
}
