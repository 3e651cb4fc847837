/* conv.c: CONV, CONV_BWD_DATA and CONV_BWD_WEIGHTS through oneDNN. Images are taken in the layout that their strides say;
 * weights may be packed into the workspace in the layout that oneDNN likes best. */
#include "kernels/cpu/primitive.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BOUND = 5 };

/* A pointer of the call that an argument of the primitive reads or writes directly. */
typedef struct bound {
    int pointer, at;
} bound;

typedef struct conv {
    sg_primitive primitive;
    sg_primitive reorder; /* of the weights; primitive NULL: none */
    bound bound[MOST_BOUND];
    int n_bound;
    int weights_pointer, weights_at; /* when reordered */
    bool packs_after;                /* the weights are the result */
    uint64_t scratch_offset;         /* packed weights lie before it */
} conv;

/* ---- launch ------------------------------------------------------------------------------------------------------------------ */

static sg_code reorder_weights(const sg_call *call, const conv *c) {
    void *user = call->pointers[c->weights_pointer], *packed = call->workspace;
    int first = c->reorder.scratch < 0 ? 0 : 1; /* the scratchpad was added first */
    sg_primitive_point(&c->reorder, first, c->packs_after ? packed : user);
    sg_primitive_point(&c->reorder, first + 1, c->packs_after ? user : packed);
    return sg_primitive_run(call, &c->reorder, call->workspace + c->scratch_offset);
}

static sg_code run_conv(const sg_call *call) {
    const conv *c = call->plan->state;
    sg_code code = SG_OK;
    for (int i = 0; i < c->n_bound; i++)
        sg_primitive_point(&c->primitive, c->bound[i].at, call->pointers[c->bound[i].pointer]);
    if (c->reorder.primitive) {
        sg_primitive_point(&c->primitive, c->weights_at, call->workspace);
        if (!c->packs_after) code = reorder_weights(call, c);
    }
    if (code == SG_OK) code = sg_primitive_run(call, &c->primitive, call->workspace + c->scratch_offset);
    if (code == SG_OK && c->reorder.primitive && c->packs_after) code = reorder_weights(call, c);
    return code;
}

static void free_conv(void *state) {
    conv *c = state;
    if (!c) return;
    sg_primitive_free(&c->primitive);
    sg_primitive_free(&c->reorder);
    free(c);
}

/* ---- preparation ------------------------------------------------------------------------------------------------------------- */

static sg_code start(sg_device *device, sg_plan *plan, sg_status *status) {
    const sg_op *op = &plan->op;
    (void)device;
    if (op->attrs.compute == SG_COMPUTE_F64 || op->desc[0].dtype == SG_F64)
        return sg_refuse(op, "oneDNN has no fp64", status);
    sg_code code = sg_plan_state(plan, sizeof(conv), status);
    if (code != SG_OK) return code;
    conv *c = plan->state;
    plan->free_state = free_conv;
    plan->run = run_conv;
    c->primitive.scratch = c->reorder.scratch = -1;
    return SG_OK;
}

static sg_code bind(sg_device *device, sg_plan *plan, int argument, int pointer, sg_status *status) {
    conv *c = plan->state;
    const dnnl_memory_desc_t *layout = sg_primitive_layout(&c->primitive, argument);
    bound *b = &c->bound[c->n_bound++];
    b->pointer = pointer;
    return sg_primitive_add(device, &plan->op, &c->primitive, argument, layout, &b->at, status);
}

/* Binds the weights, or places a packed copy and its reorder where the primitive wants another layout. */
static sg_code bind_weights(sg_device *device, sg_plan *plan, int argument, int pointer, sg_status *status) {
    conv *c = plan->state;
    dnnl_memory_desc_t user;
    const dnnl_memory_desc_t *packed = sg_primitive_layout(&c->primitive, argument);
    sg_code code = sg_dnnl_layout(&plan->op, &plan->op.desc[pointer], &user, status);
    if (code != SG_OK) return code;
    if (dnnl_memory_desc_equal(&user, packed)) return bind(device, plan, argument, pointer, status);
    c->weights_pointer = pointer;
    c->packs_after = argument == DNNL_ARG_DIFF_WEIGHTS;
    c->scratch_offset = sg_align(dnnl_memory_desc_get_size(packed));
    code = sg_primitive_add(device, &plan->op, &c->primitive, argument, packed, &c->weights_at, status);
    if (code != SG_OK) return code;
    return sg_primitive_make_reorder(device, &plan->op, c->packs_after ? packed : &user,
                                     c->packs_after ? &user : packed, &c->reorder, status);
}

static void finish(sg_plan *plan) {
    conv *c = plan->state;
    uint64_t scratch = c->primitive.scratch_bytes;
    if (c->reorder.scratch_bytes > scratch) scratch = c->reorder.scratch_bytes;
    plan->workspace_bytes = c->scratch_offset + sg_align(scratch);
}

typedef struct geometry {
    dnnl_dims_t stride, pad;
} geometry;

static geometry geometry_of(const sg_attrs *a) {
    return (geometry){.stride = {a->stride[0], a->stride[1]}, .pad = {a->pad[0], a->pad[1]}};
}

/* The forward's operation descriptor without bias; backwards need its primitive as a hint. */
static sg_code describe_forward(const sg_op *op, const sg_desc *x, const sg_desc *w, const sg_desc *bias,
                                const sg_desc *y, dnnl_convolution_desc_t *desc, sg_status *status) {
    geometry g = geometry_of(&op->attrs);
    dnnl_memory_desc_t x_layout, y_layout, bias_layout, w_layout = sg_dnnl_any_layout(w);
    sg_code code = sg_dnnl_layout(op, x, &x_layout, status);
    if (code == SG_OK) code = sg_dnnl_layout(op, y, &y_layout, status);
    if (code == SG_OK && bias) code = sg_dnnl_layout(op, bias, &bias_layout, status);
    if (code != SG_OK) return code;
    dnnl_status_t result =
        dnnl_convolution_forward_desc_init(desc, dnnl_forward_training, dnnl_convolution_direct, &x_layout, &w_layout,
                                           bias ? &bias_layout : NULL, &y_layout, g.stride, g.pad, g.pad);
    return result == dnnl_success ? SG_OK : sg_dnnl_fail(op, result, "describing the convolution", status);
}

static sg_code make_forward(sg_device *device, sg_plan *plan, dnnl_post_ops_t post_ops, sg_status *status) {
    conv *c = plan->state;
    const sg_op *op = &plan->op;
    bool bias = sg_flag(plan, SG_HAS_BIAS), residual = sg_flag(plan, SG_HAS_RESIDUAL);
    dnnl_convolution_desc_t desc;
    dnnl_memory_desc_t residual_layout;
    sg_code code = describe_forward(op, sg_in(plan, 0), sg_in(plan, 1), bias ? sg_in(plan, 2) : NULL, sg_out(plan, 0),
                                    &desc, status);
    if (code == SG_OK && residual) {
        code = sg_dnnl_layout(op, sg_in(plan, 2 + bias), &residual_layout, status);
        if (code == SG_OK && dnnl_post_ops_append_binary(post_ops, dnnl_binary_add, &residual_layout) != dnnl_success)
            code = sg_dnnl_fail(op, dnnl_invalid_arguments, "fusing the residual", status);
    }
    if (code == SG_OK) code = sg_dnnl_append_activation(op, post_ops, status);
    dnnl_primitive_attr_t attributes = NULL;
    if (code == SG_OK) code = sg_dnnl_attributes(op, post_ops, 1, &attributes, status);
    if (code == SG_OK) code = sg_primitive_make(device, op, &desc, attributes, NULL, &c->primitive, status);
    if (code == SG_OK) code = bind(device, plan, DNNL_ARG_SRC, 0, status);
    if (code == SG_OK) code = bind(device, plan, DNNL_ARG_DST, op->n_in, status);
    if (code == SG_OK && bias) code = bind(device, plan, DNNL_ARG_BIAS, 2, status);
    if (code == SG_OK && residual) {
        bound *b = &c->bound[c->n_bound++];
        b->pointer = 2 + bias;
        code = sg_primitive_add(device, op, &c->primitive, DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1,
                                &residual_layout, &b->at, status);
    }
    if (code == SG_OK) code = bind_weights(device, plan, DNNL_ARG_WEIGHTS, 1, status);
    if (code == SG_OK) finish(plan);
    return code;
}

sg_code sg_prepare_conv(sg_device *device, sg_plan *plan, sg_status *status) {
    if (sg_must_widen(device, &plan->op)) return sg_prepare_widened(device, plan, status);
    sg_code code = start(device, plan, status);
    if (code != SG_OK) return code;
    dnnl_post_ops_t post_ops = NULL;
    if (dnnl_post_ops_create(&post_ops) != dnnl_success)
        return sg_dnnl_fail(&plan->op, dnnl_out_of_memory, "creating post-operations", status);
    code = make_forward(device, plan, post_ops, status);
    (void)dnnl_post_ops_destroy(post_ops);
    return code;
}

/* Creates the forward's primitive descriptor, a backward's hint. */
static sg_code make_hint(sg_device *device, const sg_op *op, const sg_desc *x, const sg_desc *w, const sg_desc *y,
                         dnnl_primitive_desc_t *hint, sg_status *status) {
    dnnl_convolution_desc_t desc;
    sg_code code = describe_forward(op, x, w, NULL, y, &desc, status);
    if (code != SG_OK) return code;
    dnnl_status_t result = dnnl_primitive_desc_create(hint, &desc, NULL, device->engine, NULL);
    return result == dnnl_success ? SG_OK : sg_dnnl_fail(op, result, "choosing the forward", status);
}

static sg_code make_bwd_data(sg_device *device, sg_plan *plan, const_dnnl_primitive_desc_t hint, sg_status *status) {
    conv *c = plan->state;
    const sg_op *op = &plan->op;
    geometry g = geometry_of(&op->attrs);
    dnnl_memory_desc_t dx, dy, w = sg_dnnl_any_layout(sg_in(plan, 1));
    dnnl_convolution_desc_t desc;
    dnnl_primitive_attr_t attributes = NULL;
    sg_code code = sg_dnnl_layout(op, sg_out(plan, 0), &dx, status);
    if (code == SG_OK) code = sg_dnnl_layout(op, sg_in(plan, 0), &dy, status);
    if (code == SG_OK) code = sg_dnnl_attributes(op, NULL, 1, &attributes, status);
    if (code != SG_OK) return code;
    dnnl_status_t result =
        dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, &dx, &w, &dy, g.stride, g.pad, g.pad);
    if (result != dnnl_success) {
        (void)dnnl_primitive_attr_destroy(attributes);
        return sg_dnnl_fail(op, result, "describing the convolution", status);
    }
    code = sg_primitive_make(device, op, &desc, attributes, hint, &c->primitive, status);
    if (code == SG_OK) code = bind(device, plan, DNNL_ARG_DIFF_DST, 0, status);
    if (code == SG_OK) code = bind(device, plan, DNNL_ARG_DIFF_SRC, op->n_in, status);
    if (code == SG_OK) code = bind_weights(device, plan, DNNL_ARG_WEIGHTS, 1, status);
    if (code == SG_OK) finish(plan);
    return code;
}

sg_code sg_prepare_conv_bwd_data(sg_device *device, sg_plan *plan, sg_status *status) {
    if (sg_must_widen(device, &plan->op)) return sg_prepare_widened(device, plan, status);
    sg_code code = start(device, plan, status);
    dnnl_primitive_desc_t hint = NULL;
    if (code == SG_OK)
        code = make_hint(device, &plan->op, sg_out(plan, 0), sg_in(plan, 1), sg_in(plan, 0), &hint, status);
    if (code != SG_OK) return code;
    code = make_bwd_data(device, plan, hint, status);
    (void)dnnl_primitive_desc_destroy(hint);
    return code;
}

static sg_code make_bwd_weights(sg_device *device, sg_plan *plan, const_dnnl_primitive_desc_t hint, sg_status *status) {
    conv *c = plan->state;
    const sg_op *op = &plan->op;
    bool bias = sg_flag(plan, SG_HAS_BIAS);
    geometry g = geometry_of(&op->attrs);
    dnnl_memory_desc_t x, dy, db, dw = sg_dnnl_any_layout(sg_out(plan, 0));
    dnnl_convolution_desc_t desc;
    dnnl_primitive_attr_t attributes = NULL;
    sg_code code = sg_dnnl_layout(op, sg_in(plan, 1), &x, status);
    if (code == SG_OK) code = sg_dnnl_layout(op, sg_in(plan, 0), &dy, status);
    if (code == SG_OK && bias) code = sg_dnnl_layout(op, sg_out(plan, 1), &db, status);
    if (code == SG_OK) code = sg_dnnl_attributes(op, NULL, 1, &attributes, status);
    if (code != SG_OK) return code;
    dnnl_status_t result = dnnl_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, &x, &dw,
                                                                       bias ? &db : NULL, &dy, g.stride, g.pad, g.pad);
    if (result != dnnl_success) {
        (void)dnnl_primitive_attr_destroy(attributes);
        return sg_dnnl_fail(op, result, "describing the convolution", status);
    }
    code = sg_primitive_make(device, op, &desc, attributes, hint, &c->primitive, status);
    if (code == SG_OK) code = bind(device, plan, DNNL_ARG_DIFF_DST, 0, status);
    if (code == SG_OK) code = bind(device, plan, DNNL_ARG_SRC, 1, status);
    if (code == SG_OK && bias) code = bind(device, plan, DNNL_ARG_DIFF_BIAS, op->n_in + 1, status);
    if (code == SG_OK) code = bind_weights(device, plan, DNNL_ARG_DIFF_WEIGHTS, op->n_in, status);
    if (code == SG_OK) finish(plan);
    return code;
}

sg_code sg_prepare_conv_bwd_weights(sg_device *device, sg_plan *plan, sg_status *status) {
    if (sg_must_widen(device, &plan->op)) return sg_prepare_widened(device, plan, status);
    sg_code code = start(device, plan, status);
    dnnl_primitive_desc_t hint = NULL;
    if (code == SG_OK)
        code = make_hint(device, &plan->op, sg_in(plan, 1), sg_out(plan, 0), sg_in(plan, 0), &hint, status);
    if (code != SG_OK) return code;
    code = make_bwd_weights(device, plan, hint, status);
    (void)dnnl_primitive_desc_destroy(hint);
    return code;
}
