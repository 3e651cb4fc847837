/* op_case.h: one op on given data, run on a device and on the reference, and compared.
 *
 * The bound is not a chosen tolerance but what rounding makes: let S be how far an output moves, relative to h, when every
 * floating-point input is moved by h times signs, equal or random (found with the reference in double; plus what cancels
 * inside gelu and silu), n the number of terms an output sums, eps the unit roundoff of the products, u that of the output.
 * Then |got - want| <= 4 eps sqrt(n) S + 2 u |want|. Kinds that only move or choose values must agree exactly. Outputs are
 * surrounded by guard bytes, and bytes that belong to no element must keep what they held. */
#ifndef SG_TESTS_SUPPORT_OP_CASE_H
#define SG_TESTS_SUPPORT_OP_CASE_H

#include "kernels/device.h"

typedef struct op_bench {
    const sg_device_api *api;
    sg_device *device, *reference;
    int cases, failures;
    int refused; /* a device need not compute f16 and f64 */
} op_bench;

/* Opens the device under test and the reference. */
void op_bench_open(op_bench *bench, const sg_device_api *api, int threads);
void op_bench_close(op_bench *bench);
/* Fails the running test when a case failed since the last call. */
void op_bench_expect_all(op_bench *bench);

typedef enum op_layout {
    OP_PLAIN,
    OP_TRANSPOSED,    /* the last two dims change places in memory */
    OP_SLICED,        /* rows of a wider tensor, from its second column on */
    OP_HEADS,         /* 4-D [b, h, t, d] stored as [b, t, h, d] */
    OP_CHANNELS_LAST, /* 4-D */
    OP_REPEATED_ROWS, /* first dim of stride 0 (inputs only) */
    OP_REPEATED_LAST, /* last dim of stride 0 (inputs only) */
    OP_LAYOUT_COUNT
} op_layout;
const char *op_layout_name(op_layout layout);
/* Falls back to plain where a layout asks for more dims. */
sg_desc op_desc(sg_dtype dtype, op_layout layout, int ndim, const int64_t *size);

enum { OP_CASE_TENSORS = 160 };

typedef struct op_case {
    char label[160];
    sg_op op;
    sg_desc desc[OP_CASE_TENSORS];
    double *value[OP_CASE_TENSORS]; /* inputs: dense, exactly as their dtypes hold them */
    sg_launch launch;
    uint64_t random; /* state of the generator of input values */
} op_case;

void op_case_begin(op_case *c, sg_op_kind kind, sg_attrs attrs);
/* Inputs first, then outputs, in the op's order. Returns the tensor's number. */
int op_case_input(op_case *c, sg_desc desc, double low, double high); /* uniform; integers in [low, high) */
int op_case_values(op_case *c, sg_desc desc, const double *values);
int op_case_output(op_case *c, sg_desc desc);
/* Runs, compares, counts, prints what differs, frees. */
void op_case_check(op_bench *bench, op_case *c, const char *format, ...) SG_PRINTF(3, 4);
/* Runs the case on the reference alone and gives output i as dense doubles (to be freed); the case is freed. For inputs of
 * a backward op that must fit its forward. */
void op_case_solve(op_bench *bench, op_case *c, int n_out, double **out);

/* Whether results lie within the bounds above; prints the first that does not. got, want: dense, per output. */
bool op_case_compare(op_case *c, double *const *got, double *const *want);

/* Zeros (to be freed); no memory ends the running test. */
double *op_zeros(size_t count);
/* In [0, 1), from a generator whose state this is. */
double op_next_unit(uint64_t *state);
/* Uniform values as dtype holds them (to be freed). */
double *op_values(const sg_desc *desc, double low, double high, uint64_t seed);

#endif
