/* Data-parallel gradients on 2 and 4 GPUs: the same on every rank to the bit, the mean of the shards' own, and what one GPU
 * gets from the N-fold batch. */
#include "tests/support/cuda_ranks.h"
#include "tests/support/op_device.h"
#include "tests/support/small_policies.h"

#include "sim/walk/walk.h"

static const sg_device_api *cuda;

typedef enum walk_kind { ALONE_WITH_ALL, MY_SHARD, EXCHANGED, WALK_KINDS } walk_kind;

typedef struct numbers {
    double *at;
    size_t n;
} numbers;

typedef struct comparison {
    sg_small policy;
    int ranks;
    numbers gradients[SG_CUDA_RANKS_MOST][WALK_KINDS], weights[SG_CUDA_RANKS_MOST];
} comparison;

/* ---- one rank --------------------------------------------------------------------------------------------------------- */

static sg_code read_all(const sg_training *t, sg_walker *walker, bool gradients, numbers *all, sg_status *status) {
    *all = (numbers){0};
    for (size_t i = 0; i < t->n_parameters; i++) {
        const sg_parameter *p = &t->parameters[i];
        if (!p->trainable || p->gradient < 0) continue;
        int32_t tensor = gradients ? p->gradient : p->tensor;
        size_t n = (size_t)sg_desc_count(&t->tensors[tensor].desc);
        double *grown = realloc(all->at, (all->n + n) * sizeof *grown);
        if (!grown) return sg_fail_memory(status, n, "numbers");
        all->at = grown;
        sg_code code = sg_walker_read(walker, tensor, all->at + all->n, n, status);
        if (code != SG_OK) return code;
        all->n += n;
    }
    return SG_OK;
}

static sg_training *build(const comparison *c, walk_kind kind) {
    return sg_small_build(c->policy, &SG_SMALL_SETTING[0],
                          &(sg_small_options){.batch = kind == ALONE_WITH_ALL ? 2 * c->ranks : 2,
                                              .ranks = kind == ALONE_WITH_ALL ? 1 : c->ranks});
}

static sg_code open_walker(const sg_cuda_rank *r, const sg_training *t, walk_kind kind, sg_walker **walker,
                           sg_status *status) {
    bool alone = kind == ALONE_WITH_ALL;
    const sg_walk_options options = {.api = r->api,
                                     .device = r->device,
                                     .seed = 7,
                                     .rank = alone ? 0 : r->rank,
                                     .ranks = alone ? 1 : r->ranks,
                                     .comm = alone ? NULL : r->comm,
                                     .buckets = {.first_bytes = 1024, .bytes = 4096}, /* several */
                                     .random_weights = true};
    sg_code code = sg_walker_open(t, &options, walker, status);
    if (code == SG_OK) sg_walker_set_communication(*walker, kind == EXCHANGED);
    return code;
}

static sg_code gradients_of(comparison *c, sg_cuda_rank *r, walk_kind kind) {
    sg_training *t = build(c, kind);
    sg_walker *walker = NULL;
    sg_code code = open_walker(r, t, kind, &walker, &r->status);
    for (size_t i = 0; code == SG_OK && i < t->n_parameters; i++)
        if (t->parameters[i].trainable && t->parameters[i].gradient >= 0)
            code = sg_walker_keep(walker, t->parameters[i].gradient, &r->status);
    if (code == SG_OK) code = sg_walker_program(walker, sg_main_program(t), &r->status);
    if (code == SG_OK) code = read_all(t, walker, true, &c->gradients[r->rank][kind], &r->status);
    sg_walker_close(walker);
    sg_training_free(t);
    return code;
}

static sg_code train(comparison *c, sg_cuda_rank *r) {
    sg_training *t = build(c, EXCHANGED);
    sg_walker *walker = NULL;
    sg_code code = open_walker(r, t, EXCHANGED, &walker, &r->status);
    for (int i = 0; i < 3 && code == SG_OK; i++) code = sg_walker_iteration(walker, NULL, &r->status);
    if (code == SG_OK) code = read_all(t, walker, false, &c->weights[r->rank], &r->status);
    sg_walker_close(walker);
    sg_training_free(t);
    return code;
}

static sg_code be_rank(void *user, sg_cuda_rank *r) {
    comparison *c = user;
    sg_code code = sg_cuda_rank_open(r, 60);
    for (int kind = 0; kind < WALK_KINDS && code == SG_OK; kind++)
        if (kind != ALONE_WITH_ALL || r->rank == 0) code = gradients_of(c, r, (walk_kind)kind);
    return code == SG_OK ? train(c, r) : code;
}

/* ---- all ranks ---------------------------------------------------------------------------------------------------------- */

/* |a - b| / |b| in the Euclidean norm. */
static double distance(const double *a, const double *b, size_t n) {
    double difference = 0, length = 0;
    for (size_t i = 0; i < n; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        length += b[i] * b[i];
    }
    assert_true(length > 0 && isfinite(length));
    return sqrt(difference / length);
}

static void expect_agreement(const comparison *c) {
    const numbers *first = &c->gradients[0][EXCHANGED], *whole = &c->gradients[0][ALONE_WITH_ALL];
    double *mean = op_zeros(first->n);
    for (int r = 0; r < c->ranks; r++) {
        const numbers *shard = &c->gradients[r][MY_SHARD], *exchanged = &c->gradients[r][EXCHANGED];
        assert_int_equal(exchanged->n, first->n);
        assert_memory_equal(exchanged->at, first->at, first->n * sizeof(double));
        assert_memory_equal(c->weights[r].at, c->weights[0].at, c->weights[0].n * sizeof(double));
        if (r > 0) assert_true(distance(shard->at, c->gradients[0][MY_SHARD].at, first->n) > 1e-2);
        for (size_t i = 0; i < first->n; i++) mean[i] += shard->at[i] / c->ranks;
    }
    double to_mean = distance(first->at, mean, first->n);
    assert_int_equal(whole->n, first->n);
    double to_whole = distance(first->at, whole->at, first->n);
    print_message("%s, %d ranks: %.1e from the mean of shards, %.1e from the %d-fold batch\n", sg_small_name(c->policy),
                  c->ranks, to_mean, to_whole, c->ranks);
    assert_true(to_mean <= 1e-6);
    assert_true(to_whole <= 1e-5);
    free(mean);
}

static void compare(sg_small policy, int ranks) {
    comparison c = {.policy = policy, .ranks = ranks};
    sg_status status = {0};
    if (sg_cuda_ranks_run(ranks, cuda, be_rank, &c, &status) != SG_OK) {
        if (strstr(status.text, "can be seen here")) {
            print_message("skipped: %s\n", status.text);
            skip();
        }
        fail_msg("%s", status.text);
    }
    expect_agreement(&c);
    for (int r = 0; r < ranks; r++) {
        for (int kind = 0; kind < WALK_KINDS; kind++) free(c.gradients[r][kind].at);
        free(c.weights[r].at);
    }
}

static void test_two_ranks(void **state) {
    (void)state;
    compare(SG_SMALL_MLP, 2);
    compare(SG_SMALL_ACT, 2);
}

static void test_four_ranks(void **state) {
    (void)state;
    compare(SG_SMALL_MLP, 4);
    compare(SG_SMALL_ACT, 4);
}

int main(void) {
    cuda = sg_test_device_api();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_ranks), cmocka_unit_test(test_four_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
