/* Sharded trainings (FSDP): the same gradients and weights as data parallel ones and as one process, in less memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/virtual/machine.h"
#include "sim/walk/walk.h"
#include "tests/reference/reference.h"
#include "tests/support/small_policies.h"
#include "tests/support/thread_ranks.h"

enum { ITERATIONS = 3 };

/* Weights and gradients of all trainable parameters in order of registration. */
typedef struct numbers {
    double *weight, *gradient;
    size_t n;
} numbers;

static numbers numbers_of(const sg_training *t) {
    numbers x = {0};
    for (size_t i = 0; i < t->n_parameters; i++)
        if (t->parameters[i].gradient >= 0) x.n += (size_t)sg_desc_count(&t->tensors[t->parameters[i].tensor].desc);
    x.weight = calloc(x.n, sizeof *x.weight);
    x.gradient = calloc(x.n, sizeof *x.gradient);
    assert_non_null(x.weight);
    assert_non_null(x.gradient);
    return x;
}

static void numbers_clear(numbers *x) {
    free(x->weight);
    free(x->gradient);
}

typedef struct world {
    const sg_training *training;
    int ranks, kind;
    double *whole[2][512]; /* weights, gradients of each shard: ranks write their parts */
    numbers of_rank0;      /* without shards */
    sg_memory_peak peak;
    bool communicates;
} world;

static void must(sg_code code, const sg_status *status) {
    if (code == SG_OK) return;
    (void)fprintf(stderr, "%s\n", status->text);
    abort();
}

static void read_parts(world *w, sg_walker *walker, int rank) {
    const sg_training *t = w->training;
    sg_status status = {0};
    for (size_t i = 0; i < t->n_shards; i++) {
        const sg_shard *s = &t->shards[i];
        size_t part = (size_t)sg_desc_count(&t->tensors[s->part].desc), at = part * (size_t)rank;
        must(sg_walker_read(walker, s->part, w->whole[0][i] + at, part, &status), &status);
        if (s->gradient >= 0) must(sg_walker_read(walker, s->gradient, w->whole[1][i] + at, part, &status), &status);
    }
}

static void read_all(const sg_training *t, sg_walker *walker, numbers *x) {
    sg_status status = {0};
    size_t at = 0;
    for (size_t i = 0; i < t->n_parameters; i++) {
        const sg_parameter *p = &t->parameters[i];
        if (p->gradient < 0) continue;
        size_t n = (size_t)sg_desc_count(&t->tensors[p->tensor].desc);
        must(sg_walker_read(walker, p->tensor, x->weight + at, n, &status), &status);
        must(sg_walker_read(walker, p->gradient, x->gradient + at, n, &status), &status);
        at += n;
    }
}

static void keep_gradients(const sg_training *t, sg_walker *walker) {
    sg_status status = {0};
    for (size_t i = 0; i < t->n_shards; i++)
        if (t->shards[i].gradient >= 0) must(sg_walker_keep(walker, t->shards[i].gradient, &status), &status);
    for (size_t i = 0; i < t->n_parameters && !t->n_shards; i++)
        if (t->parameters[i].gradient >= 0) must(sg_walker_keep(walker, t->parameters[i].gradient, &status), &status);
}

static void walk_rank(void *user, int rank) {
    world *w = user;
    const sg_device_api *api = sg_thread_ranks_api();
    sg_status status = {0};
    sg_device *d;
    sg_walk_options o = {.api = api, .seed = 5, .rank = rank, .ranks = w->ranks, .random_weights = true};
    must(api->open(&(sg_device_options){.index = w->kind}, &d, &status), &status);
    if (w->ranks > 1)
        must(api->comm_create(d, &(sg_comm_options){.rank = rank, .ranks = w->ranks}, &o.comm, &status), &status);
    o.device = d;
    sg_walker *walker;
    must(sg_walker_open(w->training, &o, &walker, &status), &status);
    sg_walker_set_communication(walker, w->communicates);
    for (int i = 0; i < ITERATIONS; i++) {
        if (i == ITERATIONS - 1) { /* peaks without what tests keep */
            if (rank == 0) sg_walker_peak(walker, &w->peak);
            keep_gradients(w->training, walker);
        }
        must(sg_walker_iteration(walker, NULL, &status), &status);
        if (i == 0) sg_walker_reset_peak(walker);
    }
    if (w->training->n_shards)
        read_parts(w, walker, rank);
    else if (rank == 0)
        read_all(w->training, walker, &w->of_rank0);
    sg_walker_close(walker);
    if (o.comm) api->comm_destroy(d, o.comm);
    api->close(d);
}

/* Parameters out of the shards. */
static void unpack(world *w, numbers *x) {
    const sg_training *t = w->training;
    size_t at = 0;
    for (size_t i = 0; i < t->n_parameters; i++) {
        const sg_parameter *p = &t->parameters[i];
        if (p->gradient < 0) continue;
        const sg_desc *d = &t->tensors[p->tensor].desc;
        int64_t n = sg_desc_count(d);
        for (int64_t e = 0; e < n; e++) { /* row-major order from the order in memory */
            int64_t rest = e, place = p->shard_offset;
            for (int k = d->ndim - 1; k >= 0; k--) {
                place += rest % d->size[k] * d->stride[k];
                rest /= d->size[k];
            }
            x->weight[at] = w->whole[0][p->shard][place];
            x->gradient[at++] = w->whole[1][p->shard][place];
        }
    }
}

static numbers train(const sg_training *t, int ranks, int kind, sg_memory_peak *peak) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    *w = (world){.training = t, .ranks = ranks, .kind = kind, .communicates = true};
    assert_true(t->n_shards <= 512);
    for (size_t i = 0; i < t->n_shards; i++)
        for (int k = 0; k < 2; k++) {
            w->whole[k][i] = calloc((size_t)sg_desc_count(&t->tensors[t->shards[i].whole].desc), sizeof(double));
            assert_non_null(w->whole[k][i]);
        }
    numbers x = numbers_of(t);
    w->of_rank0 = x;
    sg_thread_ranks_run(ranks, walk_rank, w);
    if (t->n_shards) unpack(w, &x);
    for (size_t i = 0; i < t->n_shards; i++)
        for (int k = 0; k < 2; k++) free(w->whole[k][i]);
    if (peak) *peak = w->peak;
    free(w);
    return x;
}

static double distance(const double *a, const double *b, size_t n) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(difference / size);
}

static sg_training *build(sg_small which, int setting, int64_t batch, int64_t ranks, bool clip, const char *sharding) {
    return sg_small_build(which, &SG_SMALL_SETTING[setting],
                          &(sg_small_options){.batch = batch, .ranks = ranks, .clip = clip, .sharding = sharding});
}

static void compare(sg_small which, int setting, int ranks, bool clip) {
    sg_training *sharded = build(which, setting, 0, ranks, clip, "full"),
                *parallel = build(which, setting, 0, ranks, clip, "none");
    assert_true(sharded->n_shards > 1);
    assert_int_equal(parallel->n_shards, 0);
    sg_memory_peak peak[2];
    numbers a = train(sharded, ranks, SG_REFERENCE_CACHING, &peak[0]),
            b = train(parallel, ranks, SG_REFERENCE_CACHING, &peak[1]);
    assert_int_equal(a.n, b.n);
    double weights = distance(a.weight, b.weight, a.n), gradients = distance(a.gradient, b.gradient, a.n);
    /* The same sums of the same numbers; only the order in which squares are added for the norm differs. */
    double allowed = clip ? 1e-5 : 0;
    if (!(weights <= allowed) || !(gradients <= allowed))
        fail_msg("%s, %s, %d ranks%s: weights differ by %.3g, gradients by %.3g", sg_small_name(which),
                 SG_SMALL_SETTING[setting].name, ranks, clip ? ", clipped" : "", weights, gradients);
    assert_true(peak[0].by_role[SG_ROLE_OPTIMIZER] < peak[1].by_role[SG_ROLE_OPTIMIZER]);
    numbers_clear(&a);
    numbers_clear(&b);
    sg_training_free(sharded);
    sg_training_free(parallel);
}

static void test_like_data_parallel(void **state) {
    (void)state;
    for (int setting = 0; setting < SG_SMALL_SETTINGS; setting++) {
        compare(SG_SMALL_MLP, setting, 2, false);
        compare(SG_SMALL_TOKENS, setting, 4, setting == 0);
    }
    compare(SG_SMALL_ACT, 0, 2, false);
    compare(SG_SMALL_ACT_PRE_NORM, 2, 2, true);
    compare(SG_SMALL_PPO, 0, 2, true);
    compare(SG_SMALL_SMOLVLA_UNFROZEN, 0, 2, false);
    compare(SG_SMALL_SMOLVLA, 2, 4, false);
    compare(SG_SMALL_PI05_AGAIN, 0, 2, false);
}

/* N ranks with a batch of b make the gradients of one process with N b, to the rounding of sums over samples. */
static void test_like_one_process(void **state) {
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        sg_training *sharded = build(SG_SMALL_MLP, 0, 2, ranks, false, "full"),
                    *whole = build(SG_SMALL_MLP, 0, 2 * ranks, 1, false, "full");
        assert_int_equal(whole->n_shards, 0); /* one rank has nothing to share */
        numbers a = train(sharded, ranks, SG_REFERENCE_CPU, NULL), b = train(whole, 1, SG_REFERENCE_CPU, NULL);
        assert_int_equal(a.n, b.n);
        assert_true(distance(a.gradient, b.gradient, a.n) < 1e-4);
        assert_true(distance(a.weight, b.weight, a.n) < 1e-4);
        numbers_clear(&a);
        numbers_clear(&b);
        sg_training_free(sharded);
        sg_training_free(whole);
    }
}

/* ---- memory ---- */

static uint64_t bytes_of(const sg_training *t, int32_t tensor) {
    return tensor < 0 ? 0 : t->storages[t->tensors[tensor].storage].bytes;
}

/* A rank keeps its part of weights and moments; beside it there are the root unit, the unit at work and the next one, twice
 * the largest at most, and as much of gradients. */
static void test_memory_is_shared(void **state) {
    (void)state;
    enum { RANKS = 4, ROUNDING = 512 };
    sg_training *sharded = build(SG_SMALL_TRANSFORMER, 0, 0, RANKS, false, "full"),
                *parallel = build(SG_SMALL_TRANSFORMER, 0, 0, RANKS, false, "none");
    sg_counts s = sg_count_program(sharded, sg_main_program(sharded)),
              p = sg_count_program(parallel, sg_main_program(parallel));
    uint64_t root = 0, largest = 0, padding = sharded->n_shards * RANKS * sizeof(float);
    for (size_t i = 0; i < sharded->n_shards; i++) {
        uint64_t whole = bytes_of(sharded, sharded->shards[i].whole);
        if (sharded->shards[i].unit[0] == '\0') root += whole;
        if (whole > largest) largest = whole;
    }
    assert_int_equal(s.parameters, p.parameters);
    assert_int_equal(s.trainable, p.trainable);
    assert_true(s.optimizer_bytes * RANKS >= p.optimizer_bytes);
    assert_true(s.optimizer_bytes * RANKS <= p.optimizer_bytes + 2 * padding);
    assert_true(s.gradients_bytes * RANKS <= p.gradients_bytes + padding);
    sg_memory_peak peak[2];
    numbers a = train(sharded, RANKS, SG_REFERENCE_CACHING, &peak[0]),
            b = train(parallel, RANKS, SG_REFERENCE_CACHING, &peak[1]);
    uint64_t slack = ROUNDING * (sharded->n_parameters + 2 * sharded->n_shards);
    assert_true(peak[0].by_role[SG_ROLE_WEIGHT] <= s.weights_bytes + root + 2 * largest + slack);
    assert_true(peak[0].by_role[SG_ROLE_GRADIENT] <= s.gradients_bytes + 3 * largest + slack);
    assert_true(peak[0].by_role[SG_ROLE_OPTIMIZER] <= s.optimizer_bytes + slack);
    assert_true(peak[0].allocated_bytes < peak[1].allocated_bytes);
    numbers_clear(&a);
    numbers_clear(&b);
    sg_training_free(sharded);
    sg_training_free(parallel);
}

/* ---- structure ---- */

static void test_units_and_entries(void **state) {
    (void)state;
    sg_training *t = build(SG_SMALL_TRANSFORMER, 0, 0, 2, true, "full");
    const sg_program *p = &t->programs[sg_main_program(t)];
    int layers = 0, gathers = 0, scatters = 0, reduces = 0, joins = 0, readies = 0;
    for (size_t i = 0; i < t->n_shards; i++) layers += strncmp(t->shards[i].unit, "model.layers.", 13) == 0;
    for (size_t i = 0; i < p->n_entries; i++) {
        gathers += p->entries[i].kind == SG_ENTRY_GATHER;
        scatters += p->entries[i].kind == SG_ENTRY_SCATTER;
        reduces += p->entries[i].kind == SG_ENTRY_REDUCE;
        joins += p->entries[i].kind == SG_ENTRY_JOIN;
        readies += p->entries[i].kind == SG_ENTRY_GRAD_READY;
        assert_int_not_equal(p->entries[i].kind, SG_ENTRY_SYNC_GRADS);
    }
    assert_true(layers >= 2);
    assert_int_equal(gathers, 2 * layers + ((int)t->n_shards - layers)); /* the root unit once */
    assert_int_equal(scatters, (int)t->n_shards);
    assert_int_equal(reduces, 1);
    assert_int_equal(joins, gathers + scatters + reduces);
    assert_true(readies > scatters);
    sg_training_free(t);
}

/* Without any one of its collectives or joins, with another slot, or freed before it is joined, a program is unsound. */
static void test_what_is_missing_is_noticed(void **state) {
    (void)state;
    sg_training *t = build(SG_SMALL_MLP, 0, 0, 2, true, "full");
    const sg_program *p = &t->programs[sg_main_program(t)];
    sg_status status = {0};
    assert_int_equal(sg_training_verify(t, &status), SG_OK);
    for (size_t i = 0; i < p->n_entries; i++) {
        sg_entry *e = (sg_entry *)&p->entries[i]; /* the training is this test's own */
        const sg_entry was = *e;
        if (was.kind < SG_ENTRY_GATHER || was.kind > SG_ENTRY_JOIN) continue;
        e->kind = SG_ENTRY_SYNC_GRADS; /* nothing happens here then */
        assert_int_equal(sg_training_verify(t, &status), SG_BAD_INPUT);
        *e = was;
        e->index = t->n_collectives;
        assert_int_equal(sg_training_verify(t, &status), SG_BAD_INPUT);
        e->index = was.index;
        e->args = (uint32_t)t->n_args - 1;
        assert_int_equal(sg_training_verify(t, &status), SG_BAD_INPUT);
        *e = was;
        if (was.kind != SG_ENTRY_GATHER) continue;
        e[1] = e[0]; /* the entry behind it is lost, the same slot begins twice */
        assert_int_equal(sg_training_verify(t, &status), SG_BAD_INPUT);
        sg_training_free(t);
        t = build(SG_SMALL_MLP, 0, 0, 2, true, "full");
        p = &t->programs[sg_main_program(t)];
    }
    t->shard_ranks = 3;
    assert_int_equal(sg_training_verify(t, &status), SG_BAD_INPUT);
    sg_training_free(t);
}

static void refuse(const sg_policy_request *asked, const char *part) {
    sg_training *t = NULL;
    sg_status status = {0};
    assert_int_equal(sg_policy_build(asked, &t, &status), SG_BAD_INPUT);
    if (!strstr(status.text, part)) fail_msg("'%s' does not say '%s'", status.text, part);
}

static void test_refusals(void **state) {
    (void)state;
    refuse(&(sg_policy_request){.policy = "mlp", .ranks = 2, .sharding = "half"}, "not one of none, full");
    refuse(&(sg_policy_request){.policy = "mlp", .ranks = 2, .sharding = "full", .accumulation = 2}, "accumulate");
    refuse(&(sg_policy_request){.policy = "mlp", .ranks = 2, .sharding = "full", .precision = "fp16"}, "loss scaler");
    sg_training *t = build(SG_SMALL_MLP, 0, 0, 2, false, "full");
    sg_device *d;
    assert_int_equal(sg_reference_device()->open(NULL, &d, NULL), SG_OK);
    sg_walk_options o = {.api = sg_reference_device(), .device = d};
    sg_walker *w;
    sg_status status = {0};
    assert_int_equal(sg_walker_open(t, &o, &w, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "was sharded for 2"));
    sg_reference_device()->close(d);
    sg_training_free(t);
}

/* ---- time ---- */

/* What the network costs beyond what hides it is the difference that leaving it out makes. */
static void test_exposed_exchange_is_measured(void **state) {
    (void)state;
    sg_machine m;
    sg_machine_init(&m);
    (void)snprintf(m.device_class, sizeof m.device_class, "cuda");
    for (int i = 0; i < SG_M_COUNT; i++) m.p[i].value = strcmp(sg_machine_unit((sg_machine_id)i), "s") == 0 ? 1e-9 : 1;
    /* links by bandwidth and latency alone */
    for (int i = SG_M_COLLECTIVE_RANK_S; i <= SG_M_NETWORK_LATENCY_S; i++) m.p[i].value = NAN;
    for (int i = SG_M_PEAK_F32; i <= SG_M_BANDWIDTH; i++) m.p[i].value = 1e12;
    m.p[SG_M_KERNEL_START_S].value = m.p[SG_M_KERNEL_FLOOR_S].value = 1e-3;
    m.p[SG_M_COPY_BANDWIDTH].value = m.p[SG_M_COLLECTIVE_BUSBW].value = 1e12;
    m.p[SG_M_COLLECTIVE_LATENCY_S].value = 10;
    m.p[SG_M_HOST_OP_S].value = m.p[SG_M_HOST_OPTIMIZER_S].value = m.p[SG_M_HOST_SYNC_S].value = 0;
    m.p[SG_M_CONTEXT_BYTES].value = 0;
    m.memory_bytes = (uint64_t)1 << 30;
    const sg_device_api *api = sg_virtual_device();
    sg_device *d;
    sg_comm *comm;
    sg_status status = {0};
    must(api->open(&(sg_device_options){.machine = &m}, &d, &status), &status);
    must(api->comm_create(d, &(sg_comm_options){.ranks = 2}, &comm, &status), &status);
    sg_training *t = build(SG_SMALL_TRANSFORMER, 0, 0, 2, false, "full");
    sg_walk_options o = {.api = api, .device = d, .ranks = 2, .comm = comm};
    sg_walker *w;
    must(sg_walker_open(t, &o, &w, &status), &status);
    sg_step_times with, without;
    must(sg_walker_iteration(w, &with, &status), &status);
    must(sg_walker_iteration(w, &with, &status), &status);
    sg_walker_set_communication(w, false);
    must(sg_walker_iteration(w, &without, &status), &status);
    double collectives = 10.0 * (double)(3 * t->n_shards - 1); /* the root unit is gathered once */
    assert_true(with.exposed_sync_s > 0.9 * collectives && with.exposed_sync_s < 1.1 * collectives);
    assert_true(without.exposed_sync_s < 0.1);
    assert_true(fabs(with.update_s - without.update_s - with.exposed_sync_s) < 0.1);
    sg_walker_close(w);
    api->comm_destroy(d, comm);
    api->close(d);
    sg_training_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_like_data_parallel),
        cmocka_unit_test(test_like_one_process),
        cmocka_unit_test(test_memory_is_shared),
        cmocka_unit_test(test_units_and_entries),
        cmocka_unit_test(test_what_is_missing_is_noticed),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_exposed_exchange_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
