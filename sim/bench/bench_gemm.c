/* bench_gemm.c: square products, alone and with their operands and result moved between host and device. */
#include "sim/bench/bench_internal.h"

#include <math.h>
#include <stdio.h>

#include "kernels/clock.h"

static const int64_t default_sizes[] = {256, 512, 1024, 2048, 4096, 5000, 8192, 16384};
enum { MOST_CALLS = 256, PLACES = 32, LARGEST = 1 << 20 };

typedef struct gemm {
    sg_bench_op op;
    int64_t n;
    const sg_bench_precision *precision;
    void *host[3]; /* a, b, c */
    bool pinned;
} gemm;

/* ---- is the result right ----------------------------------------------------------------------------------------- */

/* Relative rounding of an operand when it enters the product. tf32 keeps 10 bits of the fraction; that it cuts off what is
 * behind them is allowed for. Narrow operands are already what they are. */
static double operand_rounding(sg_compute compute) {
    return compute == SG_COMPUTE_TF32 ? 0x1p-10 : 0;
}

/* Of a stored result: half of the last bit of 24, 8 or 11 bits. */
static double result_rounding(sg_dtype dtype) {
    return dtype == SG_BF16 ? 0x1p-8 : dtype == SG_F16 ? 0x1p-11 : 0x1p-24;
}

/* Roundings behave as independent random errors: after k of them the sum is off by at most LAMBDA sqrt(k) u times the sum of
 * magnitudes (Higham and Mary, SIAM J. Sci. Comput. 41, 2019, A2815), with u of fp32 that cuts off. */
static double allowed_error(const gemm *g, double sum, double magnitudes, double squares) {
    const double LAMBDA = 4, U = 0x1p-23;
    double operands = operand_rounding(g->precision->compute);
    return LAMBDA * sqrt((double)g->n) * U * magnitudes + 2 * operands * (LAMBDA * sqrt(squares) + fabs(sum)) +
           2 * result_rounding(g->precision->dtype) * fabs(sum) + 1e-30;
}

static sg_code check_place(gemm *g, int64_t row, int64_t column, double *error, sg_status *status) {
    sg_dtype dtype = g->precision->dtype;
    double sum = 0, magnitudes = 0, squares = 0, got;
    for (int64_t i = 0; i < g->n; i++) {
        double product =
            sg_bench_element(0, row * g->n + i, dtype, -1, 1) * sg_bench_element(1, i * g->n + column, dtype, -1, 1);
        sum += product;
        magnitudes += fabs(product);
        squares += product * product;
    }
    sg_code code = sg_bench_op_read(&g->op, 2, row * g->n + column, 1, &got, status);
    if (!code) sg_bench_compare(got, sum, allowed_error(g, sum, magnitudes, squares), error);
    return code;
}

/* Corners and places spread over the result. */
static sg_code check(gemm *g, double *error, sg_status *status) {
    *error = 0;
    sg_code code = sg_bench_op_launch(&g->op, status);
    for (int64_t i = 0; !code && i < PLACES; i++) {
        int64_t row = i < 4 ? (i & 1) * (g->n - 1) : i * 7919 % g->n;
        int64_t column = i < 4 ? (i >> 1) * (g->n - 1) : i * 104729 % g->n;
        code = check_place(g, row, column, error, status);
    }
    return code ? code : sg_bench_judge("a matrix product", *error, status);
}

/* ---- timing ------------------------------------------------------------------------------------------------------ */

/* Operands to the device, product, result back, waited for: host time. */
static sg_code with_transfer(void *user, int64_t calls, double *seconds, sg_status *status) {
    gemm *g = user;
    const sg_bench *b = g->op.bench;
    double start = b->api->now(b->device);
    sg_code code = SG_OK;
    for (int64_t call = 0; !code && call < calls; call++) {
        for (int i = 0; !code && i < 2; i++)
            code = b->api->copy(b->device, g->op.pointer[i], g->host[i], g->op.bytes[i], SG_COPY_TO_DEVICE,
                                SG_STREAM_COMPUTE, status);
        if (!code) code = sg_bench_op_launch(&g->op, status);
        if (!code)
            code = b->api->copy(b->device, g->host[2], g->op.pointer[2], g->op.bytes[2], SG_COPY_TO_HOST,
                                SG_STREAM_COMPUTE, status);
        if (!code) code = b->api->stream_wait(b->device, SG_STREAM_COMPUTE, status);
    }
    *seconds = (b->api->now(b->device) - start) / (double)calls;
    return code;
}

static sg_micro record_of(const gemm *g, const char *what) {
    sg_micro micro = sg_bench_micro(g->op.bench, "gemm", what, g->precision);
    micro.config.m = micro.config.n = micro.config.k = g->n;
    micro.config.batch = 1;
    micro.flops = g->op.cost.flops;
    micro.bytes_moved = g->op.cost.bytes_read + g->op.cost.bytes_written;
    return micro;
}

static sg_code time_product(gemm *g, double error, double *flop_per_s, sg_status *status) {
    sg_micro micro = record_of(g, "product");
    micro.checked = true;
    micro.error = error;
    sg_bench_samples samples;
    sg_code code = sg_bench_repeat(g->op.bench, sg_bench_op_timed, &g->op, MOST_CALLS, &samples, status);
    if (!code) code = sg_bench_keep(g->op.bench, &micro, &samples, status);
    if (!code && micro.flop_per_s > 0) *flop_per_s = micro.flop_per_s;
    return code;
}

static sg_code time_transfer(gemm *g, sg_status *status) {
    sg_bench *b = g->op.bench;
    g->pinned = b->api->host_alloc != NULL;
    sg_code code = SG_OK;
    for (int i = 0; !code && i < 3; i++) {
        code = sg_bench_host_alloc(b, g->op.bytes[i], g->pinned, &g->host[i], status);
        if (!code) sg_bench_host_fill(g->host[i], g->op.bytes[i], i, g->precision->dtype, -1, 1);
    }
    sg_bench_samples samples;
    sg_micro micro = record_of(g, "with_transfer");
    micro.bytes_moved = (double)g->op.bytes[0] + (double)g->op.bytes[1] + (double)g->op.bytes[2];
    (void)snprintf(micro.config.host_memory, sizeof micro.config.host_memory, "%s", g->pinned ? "pinned" : "any");
    if (!code) code = sg_bench_repeat(b, with_transfer, g, 1, &samples, status);
    if (!code) code = sg_bench_keep(b, &micro, &samples, status);
    for (int i = 0; i < 3; i++) {
        sg_bench_host_free(b, g->host[i], g->pinned);
        g->host[i] = NULL;
    }
    return code;
}

/* ---- all sizes and precisions ------------------------------------------------------------------------------------ */

typedef struct outlook {
    double flop_per_s; /* at the last size, 0: unknown */
    bool refused;
} outlook;

static void name_of(const gemm *g, const char *what, char *name, size_t bytes) {
    (void)snprintf(name, bytes, "gemm %lld %s%s%s", (long long)g->n, g->precision->name, *what ? " " : "", what);
}

static sg_code omit(gemm *g, const char *what, const char *why, bool answer, sg_status *status) {
    char name[64];
    name_of(g, what, name, sizeof name);
    return sg_bench_omit(g->op.bench, name, why, answer, status);
}

/* Both records of one size and precision are left out. */
static sg_code omit_both(gemm *g, const char *why, bool answer, sg_status *status) {
    if (g->op.bench->planned > 0) g->op.bench->planned--;
    return omit(g, "", why, answer, status);
}

/* Too long: the least number of runs would take more than this record's part of the time that is left. */
static bool too_long(const gemm *g, const outlook *seen, size_t precisions_left, char *why, size_t bytes) {
    const sg_bench *b = g->op.bench;
    const sg_bench_options *o = &b->options;
    double left = o->time_budget_s - (sg_clock_s() - b->start_s);
    double once = seen->flop_per_s > 0 ? 2 * pow((double)g->n, 3) / seen->flop_per_s : 0;
    double runs = (double)o->min_iterations + 2, all = 2 * runs * once; /* with and without transfer */
    if (all <= fmax(left, 0) / (double)precisions_left) return false;
    (void)snprintf(why, bytes, "would take %.3g s each, %.3g s in all: give --time-budget %.0f or more", once, all,
                   ceil(o->time_budget_s + all * (double)precisions_left));
    return true;
}

static sg_code open_op(gemm *g, sg_status *status) {
    const sg_attrs attrs = {.alpha = 1, .compute = (int32_t)g->precision->compute};
    sg_desc matrix = sg_desc_make(g->precision->dtype, 2, (int64_t[]){g->n, g->n});
    const sg_desc desc[3] = {matrix, matrix, matrix};
    sg_bench *b = g->op.bench;
    sg_code code = sg_bench_op_open(b, SG_OP_MATMUL, &attrs, 2, 1, desc, NULL, &g->op, status);
    for (int i = 0; !code && i < 2; i++) code = sg_bench_op_fill(&g->op, i, -1, 1, status);
    return code;
}

static sg_code one(sg_bench *b, int64_t n, const sg_bench_precision *precision, outlook *seen, size_t precisions_left,
                   sg_status *status) {
    gemm g = {.op = {.bench = b}, .n = n, .precision = precision};
    char name[64], why[512];
    name_of(&g, "", name, sizeof name);
    sg_bench_tell(b, name);
    if (seen->refused) {
        b->planned = b->planned > 2 ? b->planned - 2 : 0;
        return SG_OK;
    }
    double error, size = (double)sg_dtype_bytes(precision->dtype);
    sg_status reason = {0};
    sg_code code = sg_bench_fits_device(b, 3 * (double)n * (double)n * size, &reason);
    if (code == SG_NO) return omit_both(&g, reason.text, true, status);
    if (!code && too_long(&g, seen, precisions_left, why, sizeof why)) return omit_both(&g, why, false, status);
    if (!code) code = open_op(&g, &reason);
    if (code == SG_NO) {
        seen->refused = g.op.plan == NULL;
        code = omit_both(&g, reason.text, true, status);
        sg_bench_op_close(&g.op);
        return code;
    }
    if (!code) code = check(&g, &error, &reason);
    if (!code) code = time_product(&g, error, &seen->flop_per_s, &reason);
    if (!code && !sg_bench_stopped(b)) {
        code = time_transfer(&g, &reason);
        if (code == SG_NO) code = omit(&g, "with transfer", reason.text, true, &reason);
    }
    sg_bench_op_close(&g.op);
    return code ? sg_fail(status, code, "%s: %s", name, reason.text) : SG_OK;
}

static sg_code check_sizes(const int64_t *sizes, size_t n, sg_status *status) {
    for (size_t i = 0; i < n; i++)
        if (sizes[i] < 1 || sizes[i] > LARGEST)
            return sg_fail(status, SG_BAD_INPUT, "a product of size %lld: give 1 to %d", (long long)sizes[i], LARGEST);
    return SG_OK;
}

sg_code sg_bench_gemm(sg_bench *b, sg_status *status) {
    const sg_bench_options *o = &b->options;
    const int64_t *sizes = o->n_sizes ? o->sizes : default_sizes;
    size_t n_sizes = o->n_sizes ? o->n_sizes : sizeof default_sizes / sizeof *default_sizes;
    sg_bench_precision all[SG_BENCH_PRECISIONS];
    static const char *const names[] = {"fp32", "tf32", "bf16", "fp16"};
    size_t n_all = o->n_precisions;
    for (size_t p = 0; p < n_all; p++) all[p] = o->precision[p];
    sg_code code = check_sizes(sizes, n_sizes, status);
    for (; !code && !o->n_precisions && n_all < sizeof names / sizeof *names; n_all++)
        code = sg_bench_precision_of(names[n_all], &all[n_all], status);
    outlook seen[SG_BENCH_PRECISIONS] = {{0}};
    b->planned = 2 * n_sizes * n_all;
    for (size_t s = 0; !code && s < n_sizes; s++)
        for (size_t p = 0; !code && p < n_all && !sg_bench_stopped(b); p++)
            code = one(b, sizes[s], &all[p], &seen[p], n_all - p, status);
    return code;
}
