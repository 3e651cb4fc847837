/* primitive.h: a oneDNN primitive with its memory objects, created once and run with new pointers. */
#ifndef SG_KERNELS_CPU_PRIMITIVE_H
#define SG_KERNELS_CPU_PRIMITIVE_H

#include "kernels/cpu/cpu.h"

enum { SG_PRIMITIVE_ARGS = 8 };

typedef struct sg_primitive {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[SG_PRIMITIVE_ARGS];
    int n_args;
    int scratch; /* index of the scratchpad among args, or -1 */
    uint64_t scratch_bytes;
} sg_primitive;

/* oneDNN's name for a dtype; dnnl_data_type_undef where it has none. */
dnnl_data_type_t sg_dnnl_dtype(int32_t dtype);
/* A memory descriptor with the tensor's strides. Strides of dims of size 1 are made up to look dense. */
sg_code sg_dnnl_layout(const sg_op *op, const sg_desc *desc, dnnl_memory_desc_t *layout, sg_status *status);
/* The same with the layout left to oneDNN. */
dnnl_memory_desc_t sg_dnnl_any_layout(const sg_desc *desc);

/* Attributes of our primitives: the scratchpad belongs to the workspace, and these post-operations follow. NULL: none. */
sg_code sg_dnnl_attributes(const sg_op *op, dnnl_post_ops_t post_ops, double scale, dnnl_primitive_attr_t *attributes,
                           sg_status *status);
/* Appends attrs.act. */
sg_code sg_dnnl_append_activation(const sg_op *op, dnnl_post_ops_t post_ops, sg_status *status);

/* Creates the primitive from an operation descriptor and takes over `attributes`. `preferred` (may be NULL) names the
 * implementation to take where oneDNN offers it, instead of its first choice. SG_NO where oneDNN has none. */
sg_code sg_primitive_make(sg_device *device, const sg_op *op, const_dnnl_op_desc_t desc,
                          dnnl_primitive_attr_t attributes, const_dnnl_primitive_desc_t hint, const char *preferred,
                          sg_primitive *p, sg_status *status);
/* A reorder between two layouts; its two arguments (FROM, TO) are still to be added. */
sg_code sg_primitive_make_reorder(sg_device *device, const sg_op *op, const dnnl_memory_desc_t *from,
                                  const dnnl_memory_desc_t *to, sg_primitive *p, sg_status *status);
/* Layout that the primitive chose for an argument (DNNL_ARG_WEIGHTS ...). */
const dnnl_memory_desc_t *sg_primitive_layout(const sg_primitive *p, int argument);
/* "brgconv:avx512_core" */
const char *sg_primitive_name(const sg_primitive *p);
/* Adds a memory object for an argument; returns its place among args in *at. */
sg_code sg_primitive_add(sg_device *device, const sg_op *op, sg_primitive *p, int argument,
                         const dnnl_memory_desc_t *layout, int *at, sg_status *status);
static inline void sg_primitive_point(const sg_primitive *p, int at, void *memory) {
    (void)dnnl_memory_set_data_handle_v2(p->args[at].memory, memory, NULL);
}
/* Runs with the pointers set and the scratchpad at `scratch`. */
sg_code sg_primitive_run(const sg_call *call, const sg_primitive *p, void *scratch);
void sg_primitive_free(sg_primitive *p);

/* A failed oneDNN call as a status: which op, what was being done. */
sg_code sg_dnnl_fail(const sg_op *op, dnnl_status_t code, const char *doing, sg_status *status);

#endif
