#include "kernels/cpu/primitive.h"

#include <string.h>

static const char *status_text(dnnl_status_t code) {
    switch (code) {
    case dnnl_out_of_memory: return "out of memory";
    case dnnl_invalid_arguments: return "invalid arguments";
    case dnnl_unimplemented: return "not offered by this version on this processor";
    case dnnl_iterator_ends: return "no implementation left";
    case dnnl_runtime_error: return "run-time error";
    case dnnl_not_required: return "not required";
    default: return "unknown error";
    }
}

sg_code sg_dnnl_fail(const sg_op *op, dnnl_status_t code, const char *doing, sg_status *status) {
    char text[384];
    sg_op_text(op, text, sizeof text);
    sg_code kind = code == dnnl_unimplemented ? SG_NO : SG_MACHINE;
    return sg_fail(status, kind, "oneDNN failed while %s for %s: %s", doing, text, status_text(code));
}

dnnl_data_type_t sg_dnnl_dtype(int32_t dtype) {
    switch ((sg_dtype)dtype) {
    case SG_F32: return dnnl_f32;
    case SG_BF16: return dnnl_bf16;
    default: return dnnl_data_type_undef;
    }
}

sg_code sg_dnnl_layout(const sg_op *op, const sg_desc *desc, dnnl_memory_desc_t *layout, sg_status *status) {
    dnnl_dims_t size = {0}, stride = {0};
    int n = desc->ndim;
    /* The stride of a dim of size 1 says nothing, but the library looks at it: one image in NHWC is only known as such
     * when its batch stride is a whole image. */
    dnnl_dim_t span = 1;
    for (int d = n - 1; d >= 0; d--) {
        size[d] = desc->size[d];
        stride[d] = size[d] == 1 ? span : desc->stride[d];
        if (stride[d] * size[d] > span) span = stride[d] * size[d];
    }
    dnnl_status_t code = dnnl_memory_desc_init_by_strides(layout, n, size, sg_dnnl_dtype(desc->dtype), stride);
    return code == dnnl_success ? SG_OK : sg_dnnl_fail(op, code, "describing a tensor", status);
}

dnnl_memory_desc_t sg_dnnl_any_layout(const sg_desc *desc) {
    dnnl_memory_desc_t layout = {0};
    dnnl_dims_t size = {0};
    for (int d = 0; d < desc->ndim; d++) size[d] = desc->size[d];
    (void)dnnl_memory_desc_init_by_tag(&layout, desc->ndim, size, sg_dnnl_dtype(desc->dtype), dnnl_format_tag_any);
    return layout;
}

sg_code sg_dnnl_append_activation(const sg_op *op, dnnl_post_ops_t post_ops, sg_status *status) {
    dnnl_alg_kind_t algorithm = dnnl_alg_kind_undef;
    float alpha = 0;
    switch ((sg_fn)op->attrs.act) {
    case SG_FN_NONE: return SG_OK;
    case SG_FN_RELU: algorithm = dnnl_eltwise_relu; break;
    case SG_FN_GELU_TANH: algorithm = dnnl_eltwise_gelu_tanh; break;
    case SG_FN_GELU_ERF: algorithm = dnnl_eltwise_gelu_erf; break;
    case SG_FN_TANH: algorithm = dnnl_eltwise_tanh; break;
    case SG_FN_SIGMOID: algorithm = dnnl_eltwise_logistic; break;
    case SG_FN_SILU:
        algorithm = dnnl_eltwise_swish;
        alpha = 1;
        break;
    case SG_FN_ELU:
        algorithm = dnnl_eltwise_elu;
        alpha = 1;
        break;
    default: return sg_refuse(op, "this activation cannot be fused", status);
    }
    dnnl_status_t code = dnnl_post_ops_append_eltwise(post_ops, 1.0f, algorithm, alpha, 0.0f);
    return code == dnnl_success ? SG_OK : sg_dnnl_fail(op, code, "fusing the activation", status);
}

sg_code sg_dnnl_attributes(const sg_op *op, dnnl_post_ops_t post_ops, double scale, dnnl_primitive_attr_t *attributes,
                           sg_status *status) {
    dnnl_status_t code = dnnl_primitive_attr_create(attributes);
    if (code != dnnl_success) return sg_dnnl_fail(op, code, "creating attributes", status);
    code = dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
    if (code == dnnl_success && post_ops) code = dnnl_primitive_attr_set_post_ops(*attributes, post_ops);
    float factor = (float)scale;
    if (code == dnnl_success && scale != 1) code = dnnl_primitive_attr_set_output_scales(*attributes, 1, 0, &factor);
    if (code == dnnl_success) return SG_OK;
    (void)dnnl_primitive_attr_destroy(*attributes);
    *attributes = NULL;
    return sg_dnnl_fail(op, code, "setting attributes", status);
}

static sg_code add_scratch(sg_device *device, const sg_op *op, sg_primitive *p, sg_status *status) {
    p->scratch = -1;
    const dnnl_memory_desc_t *layout = sg_primitive_layout(p, DNNL_ARG_SCRATCHPAD);
    p->scratch_bytes = layout ? dnnl_memory_desc_get_size(layout) : 0;
    if (p->scratch_bytes == 0) return SG_OK;
    return sg_primitive_add(device, op, p, DNNL_ARG_SCRATCHPAD, layout, &p->scratch, status);
}

static sg_code finish(sg_device *device, const sg_op *op, dnnl_primitive_desc_t desc, sg_primitive *p,
                      sg_status *status) {
    dnnl_status_t code = dnnl_primitive_create(&p->primitive, desc);
    (void)dnnl_primitive_desc_destroy(desc);
    if (code != dnnl_success) return sg_dnnl_fail(op, code, "creating a primitive", status);
    return add_scratch(device, op, p, status);
}

static const char *name_of(const_dnnl_primitive_desc_t desc) {
    const char *name = "";
    (void)dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name);
    return name;
}

/* Steps the iterator to the preferred implementation, or back to none: then *chosen stays NULL. */
static void find_preferred(dnnl_primitive_desc_iterator_t iterator, const char *preferred,
                           dnnl_primitive_desc_t *chosen) {
    do {
        dnnl_primitive_desc_t desc = dnnl_primitive_desc_iterator_fetch(iterator);
        if (desc && strcmp(name_of(desc), preferred) == 0) {
            *chosen = desc;
            return;
        }
        if (desc) (void)dnnl_primitive_desc_destroy(desc);
    } while (dnnl_primitive_desc_iterator_next(iterator) == dnnl_success);
}

sg_code sg_primitive_make(sg_device *device, const sg_op *op, const_dnnl_op_desc_t desc,
                          dnnl_primitive_attr_t attributes, const_dnnl_primitive_desc_t hint, const char *preferred,
                          sg_primitive *p, sg_status *status) {
    dnnl_primitive_desc_t chosen = NULL;
    dnnl_primitive_desc_iterator_t iterator = NULL;
    dnnl_status_t code = dnnl_success;
    *p = (sg_primitive){.scratch = -1};
    if (preferred &&
        dnnl_primitive_desc_iterator_create(&iterator, desc, attributes, device->engine, hint) == dnnl_success) {
        find_preferred(iterator, preferred, &chosen);
        (void)dnnl_primitive_desc_iterator_destroy(iterator);
    }
    if (!chosen) code = dnnl_primitive_desc_create(&chosen, desc, attributes, device->engine, hint);
    (void)dnnl_primitive_attr_destroy(attributes);
    if (code != dnnl_success) return sg_dnnl_fail(op, code, "choosing an implementation", status);
    return finish(device, op, chosen, p, status);
}

sg_code sg_primitive_make_reorder(sg_device *device, const sg_op *op, const dnnl_memory_desc_t *from,
                                  const dnnl_memory_desc_t *to, sg_primitive *p, sg_status *status) {
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t chosen = NULL;
    *p = (sg_primitive){.scratch = -1};
    sg_code result = sg_dnnl_attributes(op, NULL, 1, &attributes, status);
    if (result != SG_OK) return result;
    dnnl_status_t code =
        dnnl_reorder_primitive_desc_create(&chosen, from, device->engine, to, device->engine, attributes);
    (void)dnnl_primitive_attr_destroy(attributes);
    if (code != dnnl_success) return sg_dnnl_fail(op, code, "choosing a reorder", status);
    return finish(device, op, chosen, p, status);
}

const dnnl_memory_desc_t *sg_primitive_layout(const sg_primitive *p, int argument) {
    const_dnnl_primitive_desc_t desc = NULL;
    if (dnnl_primitive_get_primitive_desc(p->primitive, &desc) != dnnl_success) return NULL;
    return dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, argument);
}

const char *sg_primitive_name(const sg_primitive *p) {
    const_dnnl_primitive_desc_t desc = NULL;
    return dnnl_primitive_get_primitive_desc(p->primitive, &desc) == dnnl_success ? name_of(desc) : "";
}

sg_code sg_primitive_add(sg_device *device, const sg_op *op, sg_primitive *p, int argument,
                         const dnnl_memory_desc_t *layout, int *at, sg_status *status) {
    if (p->n_args == SG_PRIMITIVE_ARGS) return sg_dnnl_fail(op, dnnl_invalid_arguments, "adding an argument", status);
    dnnl_memory_t memory = NULL;
    dnnl_status_t code = dnnl_memory_create(&memory, layout, device->engine, DNNL_MEMORY_NONE);
    if (code != dnnl_success) return sg_dnnl_fail(op, code, "creating a memory object", status);
    *at = p->n_args;
    p->args[p->n_args++] = (dnnl_exec_arg_t){.arg = argument, .memory = memory};
    return SG_OK;
}

sg_code sg_primitive_run(const sg_call *call, const sg_primitive *p, void *scratch) {
    if (p->scratch >= 0) sg_primitive_point(p, p->scratch, scratch);
    dnnl_status_t code = dnnl_primitive_execute(p->primitive, call->device->stream, p->n_args, p->args);
    return code == dnnl_success ? SG_OK : sg_dnnl_fail(&call->plan->op, code, "running", call->status);
}

void sg_primitive_free(sg_primitive *p) {
    for (int i = 0; i < p->n_args; i++) (void)dnnl_memory_destroy(p->args[i].memory);
    if (p->primitive) (void)dnnl_primitive_destroy(p->primitive);
    *p = (sg_primitive){.scratch = -1};
}
