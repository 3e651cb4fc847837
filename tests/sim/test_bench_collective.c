/* Collectives between ranks that are threads of this process, each with a cpu device of its own: what is recorded, that wrong
 * results are noticed by all, and sizes that cannot be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/module.h"
#include "kernels/tcp/tcp.h"
#include "sim/bench/bench.h"

enum { MOST_RANKS = 3, MOST_RECORDS = 64 };

typedef struct one_rank {
    sg_tcp_options join;
    sg_bench_options options;
    const sg_device_api *api;
    const sg_transport_api *bent; /* NULL: the transport as it is */
    sg_micro micro[MOST_RECORDS];
    sg_bench_omission omission[MOST_RECORDS];
    size_t n_micros, n_omissions;
    sg_code code;
    sg_status status;
} one_rank;

static void keep_results(one_rank *r, const sg_bench *b) {
    for (; r->n_micros < b->n_micros && r->n_micros < MOST_RECORDS; r->n_micros++)
        r->micro[r->n_micros] = b->micros[r->n_micros];
    for (; r->n_omissions < b->n_omissions && r->n_omissions < MOST_RECORDS; r->n_omissions++)
        r->omission[r->n_omissions] = b->omissions[r->n_omissions];
}

static void *run_rank(void *user) {
    one_rank *r = user;
    sg_transport *transport;
    sg_bench bench;
    r->code = sg_tcp_join(&r->join, &transport, &r->status);
    if (r->code) return NULL;
    const sg_transport_api *real = transport->api;
    if (r->bent) transport->api = r->bent;
    r->options.bootstrap = transport;
    r->code = sg_bench_open(r->api, &r->options, &bench, &r->status);
    if (!r->code) r->code = sg_bench_run(&bench, SG_BENCH_COLLECTIVE, &r->status);
    keep_results(r, &bench);
    sg_bench_close(&bench);
    transport->api = real;
    transport->api->leave(transport);
    return NULL;
}

/* bent: what the last rank sees in the transport's place. */
static one_rank *run(int ranks, const int64_t *sizes, size_t n_sizes, const char *precision,
                     const sg_transport_api *bent) {
    sg_tcp_options join = {.ranks = ranks, .address = "127.0.0.1", .secret = "of this test", .timeout_s = 20};
    sg_bench_options options = {.threads = 1,
                                .sizes = sizes,
                                .n_sizes = n_sizes,
                                .time_budget_s = 10,
                                .tight = 0.5,
                                .min_iterations = 3,
                                .max_iterations = 4,
                                .ranks = ranks,
                                .n_precisions = 1};
    one_rank *rank = calloc((size_t)ranks, sizeof *rank);
    sg_status status = {0};
    const sg_device_api *api;
    pthread_t thread[MOST_RANKS];
    assert_non_null(rank);
    assert_int_equal(sg_bench_precision_of(precision, &options.precision[0], &status), SG_OK);
    if (sg_module_device("cpu", &api, &status) || sg_tcp_listen(join.address, 0, &join.listener, &join.port, &status))
        fail_msg("%s", status.text);
    for (int i = 0; i < ranks; i++) {
        rank[i] = (one_rank){.join = join, .options = options, .api = api, .bent = i == ranks - 1 ? bent : NULL};
        rank[i].join.rank = rank[i].options.rank = i;
        if (i > 0) rank[i].join.listener = 0;
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &rank[i]), 0);
    }
    for (int i = 0; i < ranks; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    return rank;
}

static void need_ok(const one_rank *rank, int ranks) {
    for (int i = 0; i < ranks; i++)
        if (rank[i].code) fail_msg("rank %d: %s", i, rank[i].status.text);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static void check_record(const sg_micro *m, int ranks) {
    bool product = strcmp(m->config.what, "gemm") == 0;
    assert_true(m->config.ranks == ranks && m->s.median > 0 && m->p99_s >= m->s.median && m->iterations >= 3);
    if (*m->config.beside) assert_true(m->alone_s > 0 && m->config.n >= 256 && m->config.n == m->config.k);
    if (product) {
        assert_true(isnan(m->algbw) && m->flops == 2.0 * (double)(m->config.n * m->config.n * m->config.n));
        return;
    }
    double share = (ranks - 1.0) / ranks * (strcmp(m->config.what, "all_reduce") == 0 ? 2 : 1);
    assert_true(m->checked && m->error <= 1);
    assert_float_equal(m->algbw * m->s.median, (double)m->config.bytes, 1e-6 * (double)m->config.bytes);
    assert_float_equal(m->busbw, share * m->algbw, 1e-6 * m->algbw);
}

static void records_of(int ranks, int64_t size, const char *precision, int64_t whole_bytes) {
    one_rank *rank = run(ranks, &size, 1, precision, NULL);
    need_ok(rank, ranks);
    for (int i = 0; i < ranks; i++) {
        assert_int_equal(rank[i].n_micros, 9);
        assert_int_equal(rank[i].n_omissions, 0);
        for (size_t k = 0; k < 9; k++) {
            check_record(&rank[i].micro[k], ranks);
            assert_true(rank[i].micro[k].config.bytes == whole_bytes);
            /* all ranks know the time of the slowest */
            assert_true(rank[i].micro[k].iterations == rank[0].micro[k].iterations);
            assert_float_equal(rank[i].micro[k].s.median, rank[0].micro[k].s.median, 1e-6 * rank[0].micro[k].s.median);
        }
    }
    free(rank);
}

static void two_ranks(void **state) {
    (void)state;
    records_of(2, 1 << 16, "fp32", 1 << 16);
}

static void three_ranks_and_odd_sizes(void **state) {
    (void)state;
    records_of(3, 100003, "fp32", 99996); /* a whole number of elements for each */
    records_of(3, 6, "bf16", 6);
}

static void more_than_one_part_at_a_time(void **state) {
    (void)state;
    records_of(2, 3 << 20, "bf16", 3 << 20); /* filled and compared in parts of 2^18 elements */
}

/* ---- what is wrong ----------------------------------------------------------------------------------------------- */

static sg_code off_in_one_place(sg_transport *self, void *buffer, int64_t count, sg_dtype dtype, sg_status *status) {
    sg_code code = sg_tcp_transport()->all_reduce_mean(self, buffer, count, dtype, status);
    if (!code && count > 1000) ((float *)buffer)[count - 7] += 1;
    return code;
}

static sg_code swapped(sg_transport *self, const void *part, void *whole, int64_t part_count, sg_dtype dtype,
                       sg_status *status) {
    sg_code code = sg_tcp_transport()->all_gather(self, part, whole, part_count, dtype, status);
    if (!code && part_count > 1000) {
        float *x = whole, first = x[0];
        x[0] = x[1];
        x[1] = first;
    }
    return code;
}

static sg_code untouched(sg_transport *self, const void *whole, void *part, int64_t part_count, sg_dtype dtype,
                         sg_status *status) {
    float *kept = malloc((size_t)part_count * sizeof *kept);
    if (!kept) return SG_MACHINE;
    memcpy(kept, part, (size_t)part_count * sizeof *kept);
    sg_code code = sg_tcp_transport()->reduce_scatter_mean(self, whole, part, part_count, dtype, status);
    memcpy(part, kept, (size_t)part_count * sizeof *kept);
    free(kept);
    return code;
}

static void is_noticed(const sg_transport_api *bent, const char *name) {
    const int64_t size = 1 << 16;
    one_rank *rank = run(2, &size, 1, "fp32", bent);
    for (int i = 0; i < 2; i++)
        if (rank[i].code != SG_MACHINE) fail_msg("%s, rank %d: %d", name, i, (int)rank[i].code);
    if (!strstr(rank[1].status.text, "wrong") || !strstr(rank[1].status.text, name))
        fail_msg("%s: %s", name, rank[1].status.text);
    assert_non_null(strstr(rank[0].status.text, "another rank"));
    free(rank);
}

static void wrong_results_are_noticed_by_all(void **state) {
    (void)state;
    sg_transport_api bent = *sg_tcp_transport();
    bent.all_reduce_mean = off_in_one_place;
    is_noticed(&bent, "all_reduce");
    bent = *sg_tcp_transport();
    bent.all_gather = swapped;
    is_noticed(&bent, "all_gather");
    bent = *sg_tcp_transport();
    bent.reduce_scatter_mean = untouched;
    is_noticed(&bent, "reduce_scatter");
}

static void sizes_that_cannot_be(void **state) {
    (void)state;
    const int64_t small = 4, large = INT64_C(1) << 45;
    one_rank *rank = run(2, &small, 1, "fp32", NULL);
    for (int i = 0; i < 2; i++) assert_int_equal(rank[i].code, SG_BAD_INPUT);
    assert_non_null(strstr(rank[0].status.text, "at least 8"));
    free(rank);
    rank = run(2, &large, 1, "fp32", NULL);
    need_ok(rank, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rank[i].n_micros, 0);
        assert_int_equal(rank[i].n_omissions, 3);
        assert_true(rank[i].omission[0].answer && strstr(rank[i].omission[0].why, "GiB"));
    }
    free(rank);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks),
        cmocka_unit_test(three_ranks_and_odd_sizes),
        cmocka_unit_test(more_than_one_part_at_a_time),
        cmocka_unit_test(wrong_results_are_noticed_by_all),
        cmocka_unit_test(sizes_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
