#include "tests/support/op_case.h"
#include "tests/reference/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GUARD_BYTES = 192, GUARD = 0xa5 };

/* ---- benches ----------------------------------------------------------------------------------------------------- */

void op_bench_open(op_bench *bench, const sg_device_api *api, int threads) {
    sg_status status = {0};
    *bench = (op_bench){.api = api};
    if (api->open(&(sg_device_options){.threads = threads}, &bench->device, &status) != SG_OK)
        fail_msg("%s", status.text);
    assert_int_equal(sg_reference_device()->open(NULL, &bench->reference, &status), SG_OK);
}

void op_bench_close(op_bench *bench) {
    bench->api->close(bench->device);
    sg_reference_device()->close(bench->reference);
}

void op_bench_expect_all(op_bench *bench) {
    int failures = bench->failures;
    bench->failures = 0;
    if (failures) fail_msg("%d cases failed (%d so far)", failures, bench->cases);
    assert_true(bench->cases > bench->refused);
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

const char *op_layout_name(op_layout layout) {
    static const char *const names[OP_LAYOUT_COUNT] = {"plain",         "transposed",    "sliced",       "heads",
                                                       "channels-last", "repeated rows", "repeated last"};
    return names[layout];
}

sg_desc op_desc(sg_dtype dtype, op_layout layout, int ndim, const int64_t *size) {
    sg_desc d = sg_desc_make(dtype, ndim, size);
    if (layout == OP_TRANSPOSED && ndim >= 2) {
        d.stride[ndim - 2] = 1;
        d.stride[ndim - 1] = size[ndim - 2];
    } else if (layout == OP_SLICED && ndim >= 1) {
        int64_t stride = ndim > 1 ? size[ndim - 1] + 3 : 2;
        for (int i = ndim > 1 ? ndim - 2 : 0; i >= 0; i--) {
            d.stride[i] = stride;
            stride *= size[i];
        }
    } else if (layout == OP_HEADS && ndim == 4) {
        d.stride[1] = size[3];
        d.stride[2] = size[1] * size[3];
    } else if (layout == OP_CHANNELS_LAST && ndim == 4) {
        d = sg_desc_channels_last(dtype, size[0], size[1], size[2], size[3]);
    } else if (layout == OP_REPEATED_ROWS && ndim >= 1) {
        d.stride[0] = 0;
    } else if (layout == OP_REPEATED_LAST && ndim >= 1) {
        for (int i = 0; i < ndim - 1; i++) d.stride[i] /= size[ndim - 1];
        d.stride[ndim - 1] = 0;
    }
    return d;
}

double *op_zeros(size_t count) {
    double *values = calloc(count ? count : 1, sizeof *values);
    assert_non_null(values);
    return values;
}

/* 2^-53 granules in [0, 1): the upper bits of a 64-bit linear congruential generator (Knuth, MMIX). */
double op_next_unit(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t x = *state ^ *state >> 33;
    return (double)(x * UINT64_C(0xff51afd7ed558ccd) >> 11) * 0x1p-53;
}

static void fill(const sg_desc *desc, double low, double high, uint64_t *state, double *values) {
    bool real = sg_dtype_is_float((sg_dtype)desc->dtype);
    for (int64_t i = 0; i < sg_desc_count(desc); i++) {
        double v = low + (high - low) * op_next_unit(state);
        values[i] = sg_reference_round((sg_dtype)desc->dtype, real ? v : floor(v));
    }
}

/* Elements that share an address hold one value: what memory holds after the last of them was written. */
static void settle_repeats(const sg_desc *desc, double *values) {
    if (sg_desc_distinct(desc) == sg_desc_count(desc)) return;
    void *memory = calloc(1, sg_desc_span_bytes(desc));
    assert_non_null(memory);
    sg_reference_write(desc, memory, values);
    sg_reference_read(desc, memory, values);
    free(memory);
}

double *op_values(const sg_desc *desc, double low, double high, uint64_t seed) {
    double *values = op_zeros((size_t)sg_desc_count(desc));
    fill(desc, low, high, &seed, values);
    settle_repeats(desc, values);
    return values;
}

void op_case_begin(op_case *c, sg_op_kind kind, sg_attrs attrs) {
    memset(c, 0, sizeof *c);
    c->op.kind = kind;
    c->op.attrs = attrs;
    c->launch = (sg_launch){.seed = 11, .step = 3, .salt = 5, .sample_offset = 0};
    c->random = 77;
}

int op_case_input(op_case *c, sg_desc desc, double low, double high) {
    double *values = op_zeros((size_t)sg_desc_count(&desc));
    fill(&desc, low, high, &c->random, values);
    int t = op_case_values(c, desc, values);
    free(values);
    return t;
}

int op_case_values(op_case *c, sg_desc desc, const double *values) {
    int t = c->op.n_in++;
    size_t count = (size_t)sg_desc_count(&desc);
    assert_true(t < OP_CASE_TENSORS && c->op.n_out == 0);
    c->desc[t] = desc;
    c->value[t] = op_zeros(count);
    for (size_t i = 0; i < count; i++) c->value[t][i] = sg_reference_round((sg_dtype)desc.dtype, values[i]);
    settle_repeats(&desc, c->value[t]);
    return t;
}

int op_case_output(op_case *c, sg_desc desc) {
    int t = c->op.n_in + c->op.n_out++;
    assert_true(t < OP_CASE_TENSORS);
    c->desc[t] = desc;
    return t;
}

static void case_end(op_case *c) {
    for (int i = 0; i < c->op.n_in; i++) free(c->value[i]);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* The input whose memory output i shares, or -1. */
static int shared_input(const op_case *c, int i) {
    const sg_attrs *a = &c->op.attrs;
    if (c->op.kind == SG_OP_ADAMW) return i < a->count ? i : i + a->count;
    if (!(a->flags & SG_IN_PLACE)) return -1;
    bool all = c->op.kind == SG_OP_FOREACH || c->op.kind == SG_OP_AMP_UNSCALE || c->op.kind == SG_OP_AMP_UPDATE;
    return all || i == 0 ? i : -1;
}

/* Bytes around and between a tensor's elements are GUARD. */
static unsigned char *image_of(const sg_desc *desc, const double *values, size_t *bytes) {
    *bytes = (size_t)sg_desc_span_bytes(desc) + 2 * GUARD_BYTES;
    unsigned char *image = malloc(*bytes);
    assert_non_null(image);
    memset(image, GUARD, *bytes);
    if (values) sg_reference_write(desc, image + GUARD_BYTES, values);
    return image;
}

static bool guards_hold(const sg_desc *desc, const unsigned char *image, size_t bytes) {
    unsigned char *clean = malloc(bytes);
    double *values = op_zeros((size_t)sg_desc_count(desc));
    assert_non_null(clean);
    memcpy(clean, image, bytes);
    for (int64_t i = 0; i < sg_desc_count(desc); i++) values[i] = 0;
    sg_reference_write(desc, clean + GUARD_BYTES, values); /* zeros where elements are, in both */
    unsigned char *zeroed = image_of(desc, values, &bytes);
    bool same = memcmp(clean, zeroed, bytes) == 0;
    free(zeroed);
    free(clean);
    free(values);
    return same;
}

/* One run. out[i]: dense results. SG_NO when the device refuses the op; other failures end the test. */
static sg_code run_on(const sg_device_api *api, sg_device *device, op_case *c, double **out, bool *guarded,
                      sg_status *status) {
    sg_plan *plan = NULL;
    c->op.desc = c->desc;
    sg_code code = api->prepare(device, &c->op, 1, &plan, status);
    if (code != SG_OK) return code;
    int tensors = c->op.n_in + c->op.n_out;
    unsigned char *memory[OP_CASE_TENSORS];
    void *pointers[OP_CASE_TENSORS], *workspace = NULL;
    size_t bytes[OP_CASE_TENSORS];
    uint64_t workspace_bytes = api->plan_workspace_bytes(plan);
    if (workspace_bytes) assert_int_equal(api->segment_alloc(device, workspace_bytes, &workspace, status), SG_OK);
    for (int i = 0; i < tensors; i++) {
        int shared = i < c->op.n_in ? -1 : shared_input(c, i - c->op.n_in);
        if (shared >= 0) {
            memory[i] = memory[shared];
            bytes[i] = bytes[shared];
        } else {
            unsigned char *image = image_of(&c->desc[i], i < c->op.n_in ? c->value[i] : NULL, &bytes[i]);
            void *segment = NULL;
            assert_int_equal(api->segment_alloc(device, bytes[i], &segment, status), SG_OK);
            assert_int_equal(api->copy(device, segment, image, bytes[i], SG_COPY_TO_DEVICE, SG_STREAM_COMPUTE, status),
                             SG_OK);
            memory[i] = segment;
            assert_int_equal(api->stream_wait(device, SG_STREAM_COMPUTE, status), SG_OK); /* it may be read late */
            free(image);
        }
        pointers[i] = memory[i] + GUARD_BYTES;
    }
    code = api->launch(device, plan, SG_STREAM_COMPUTE, pointers, workspace, &c->launch, status);
    if (code == SG_OK) code = api->stream_wait(device, SG_STREAM_COMPUTE, status);
    *guarded = true;
    for (int i = 0; i < tensors; i++) {
        unsigned char *image = malloc(bytes[i]);
        assert_non_null(image);
        assert_int_equal(api->copy(device, image, memory[i], bytes[i], SG_COPY_TO_HOST, SG_STREAM_COMPUTE, status),
                         SG_OK);
        assert_int_equal(api->stream_wait(device, SG_STREAM_COMPUTE, status), SG_OK);
        *guarded = *guarded && guards_hold(&c->desc[i], image, bytes[i]);
        if (i >= c->op.n_in) sg_reference_read(&c->desc[i], image + GUARD_BYTES, out[i - c->op.n_in]);
        free(image);
    }
    for (int i = 0; i < tensors; i++)
        if (i < c->op.n_in || shared_input(c, i - c->op.n_in) < 0) api->segment_free(device, memory[i], bytes[i]);
    if (workspace) api->segment_free(device, workspace, workspace_bytes);
    api->plans_free(device, &plan, 1);
    return code;
}

/* ---- checking ---------------------------------------------------------------------------------------------------- */

static bool may_refuse(const op_case *c) {
    for (int i = 0; i < c->op.n_in + c->op.n_out; i++)
        if (c->desc[i].dtype == SG_F16 || c->desc[i].dtype == SG_F64) return true;
    return false;
}

static void check_case(op_bench *bench, op_case *c) {
    double *got[OP_CASE_TENSORS], *want[OP_CASE_TENSORS];
    sg_status status = {0};
    bool guarded = false, ignored = false;
    c->op.desc = c->desc;
    const char *unsound = sg_op_check(&c->op);
    if (unsound) fail_msg("%s: the test itself is unsound: %s", c->label, unsound);
    for (int o = 0; o < c->op.n_out; o++) {
        got[o] = op_zeros((size_t)sg_desc_count(&c->desc[c->op.n_in + o]));
        want[o] = op_zeros((size_t)sg_desc_count(&c->desc[c->op.n_in + o]));
    }
    bench->cases++;
    sg_code code = run_on(bench->api, bench->device, c, got, &guarded, &status);
    if (code == SG_NO && may_refuse(c)) {
        bench->refused++;
    } else if (code != SG_OK) {
        print_error("%s: %s\n", c->label, status.text);
        bench->failures++;
    } else {
        assert_int_equal(run_on(sg_reference_device(), bench->reference, c, want, &ignored, &status), SG_OK);
        bool right = op_case_compare(c, got, want);
        if (!guarded) print_error("%s: wrote outside its outputs\n", c->label);
        bench->failures += !right || !guarded;
    }
    for (int o = 0; o < c->op.n_out; o++) {
        free(got[o]);
        free(want[o]);
    }
}

void op_case_check(op_bench *bench, op_case *c, const char *format, ...) {
    char text[96];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)snprintf(c->label, sizeof c->label, "%s %s %s", sg_op_kind_name((sg_op_kind)c->op.kind),
                   c->op.attrs.fn ? sg_fn_name((sg_fn)c->op.attrs.fn) : "", text);
    check_case(bench, c);
    case_end(c);
}

void op_case_solve(op_bench *bench, op_case *c, int n_out, double **out) {
    sg_status status = {0};
    bool guarded = false;
    double *all[OP_CASE_TENSORS];
    for (int o = 0; o < c->op.n_out; o++) all[o] = op_zeros((size_t)sg_desc_count(&c->desc[c->op.n_in + o]));
    if (run_on(sg_reference_device(), bench->reference, c, all, &guarded, &status) != SG_OK)
        fail_msg("%s", status.text);
    for (int o = 0; o < c->op.n_out; o++) {
        if (o < n_out)
            out[o] = all[o];
        else
            free(all[o]);
    }
    case_end(c);
}
