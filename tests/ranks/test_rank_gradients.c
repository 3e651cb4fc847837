/* Whole policies on several ranks: every rank holds the same gradients to the bit, and they are what one process makes.
 * This program starts itself, under mpirun or by itself over TCP; with arguments it is one of the ranks. */
#include "kernels/module.h"
#include "kernels/tcp/tcp.h"
#include "models/policy.h"
#include "sim/ranks/rank_variables.h"
#include "sim/ranks/spawn_ranks.h"
#include "sim/walk/walk.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ==== a rank ====================================================================================================== */

static int rank, ranks;

#define NEED(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition);                               \
            _exit(9);                                                                                                  \
        }                                                                                                              \
    } while (0)
#define NEED_OK(call)                                                                                                  \
    do {                                                                                                               \
        sg_status status_ = {0};                                                                                       \
        if ((call) != SG_OK) {                                                                                         \
            (void)fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, status_.text);                             \
            _exit(9);                                                                                                  \
        }                                                                                                              \
    } while (0)

static sg_transport *transport;
static const sg_device_api *api;
static sg_device *device;
static sg_comm *comm;

static void join_tcp(void) {
    sg_rank_variables v;
    NEED_OK(sg_rank_variables_read(&v, &status_));
    const sg_tcp_options o = {.rank = v.rank,
                              .ranks = v.ranks,
                              .address = v.address,
                              .port = v.port,
                              .listener = v.listener,
                              .secret = v.secret,
                              .timeout_s = 30};
    NEED_OK(sg_tcp_join(&o, &transport, &status_));
}

static void join_mpi(int expected) {
    const sg_transport_api *mpi;
    NEED_OK(sg_module_transport("mpi", &mpi, &status_));
    NEED_OK(mpi->join(expected, 30, &transport, NULL, 0, &status_));
}

static void join(int expected) {
    if (getenv("STEPGAUGE_RANK"))
        join_tcp();
    else
        join_mpi(expected);
    rank = transport->rank;
    ranks = transport->ranks;
    NEED_OK(sg_module_device("cpu", &api, &status_));
    NEED_OK(api->open(&(sg_device_options){.threads = 1}, &device, &status_));
    sg_comm_options options = {.rank = rank, .ranks = ranks, .bootstrap = transport, .timeout_s = 60};
    NEED_OK(api->comm_create(device, &options, &comm, &status_));
}

static void part(void) {
    api->comm_destroy(device, comm);
    api->close(device);
    transport->api->leave(transport);
}

/* Small policies whose gradients are not clipped: a norm over all ranks differs from each rank's own. */
typedef struct sg_small_policy {
    const char *name;
    int64_t batch;  /* per rank; 0: PPO */
    bool mean_loss; /* the loss is a plain mean over samples: N shards make the gradient of the N-fold batch */
    sg_setting setting[14];
    size_t n_settings;
} small_policy;

static const small_policy policies[] = {
    {"act",
     2,
     true,
     {{"image_height", "64", "test"},
      {"image_width", "64", "test"},
      {"cameras", "1", "test"},
      {"backbone_width", "8", "test"},
      {"dim_model", "32", "test"},
      {"n_heads", "4", "test"},
      {"dim_feedforward", "48", "test"},
      {"n_encoder_layers", "1", "test"},
      {"n_vae_encoder_layers", "1", "test"},
      {"chunk_size", "6", "test"},
      {"n_action_steps", "6", "test"},
      {"latent_dim", "8", "test"},
      {"grad_clip_norm", "0", "test"}},
     13},
    {"ppo",
     0,
     false,
     {{"envs", "8", "test"},
      {"steps_per_env", "4", "test"},
      {"mini_batches", "2", "test"},
      {"ppo_epochs", "2", "test"},
      {"actor_hidden_dims", "32,16", "test"},
      {"critic_hidden_dims", "32,16", "test"},
      {"grad_clip_norm", "0", "test"}},
     7},
    {"mlp", 4, true, {{"grad_clip_norm", "0", "test"}}, 1},
};

static const small_policy *policy_of(const char *name) {
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        if (strcmp(policies[i].name, name) == 0) return &policies[i];
    _exit(9);
}

typedef struct sg_numbers {
    double *at;
    size_t n;
} numbers;

static numbers read_all(const sg_training *t, sg_walker *walker, bool gradients) {
    numbers all = {0};
    for (size_t i = 0; i < t->n_parameters; i++) {
        const sg_parameter *p = &t->parameters[i];
        int32_t tensor = gradients ? p->gradient : p->tensor;
        if (!p->trainable || p->gradient < 0) continue;
        size_t n = (size_t)sg_desc_count(&t->tensors[tensor].desc);
        all.at = realloc(all.at, (all.n + n) * sizeof *all.at);
        NEED(all.at);
        NEED_OK(sg_walker_read(walker, tensor, all.at + all.n, n, &status_));
        all.n += n;
    }
    return all;
}

typedef enum sg_kind_of_walk { ALONE_WITH_ALL, MY_SHARD, EXCHANGED } walk_kind;

typedef struct sg_case {
    sg_training *training;
    sg_walker *walker;
} policy_case;

static policy_case open_case(const small_policy *p, walk_kind kind) {
    policy_case c = {0};
    sg_policy_request request = {.policy = p->name,
                                 .framework = SG_FRAMEWORK_PYTORCH_EAGER,
                                 .device_class = SG_DEVICE_CLASS_CPU,
                                 .batch = kind == ALONE_WITH_ALL ? p->batch * ranks : p->batch,
                                 .ranks = kind == ALONE_WITH_ALL ? 1 : ranks,
                                 .settings = p->setting,
                                 .n_settings = p->n_settings};
    NEED_OK(sg_policy_build(&request, &c.training, &status_));
    sg_walk_options options = {.api = api,
                               .device = device,
                               .seed = 7,
                               .rank = kind == ALONE_WITH_ALL ? 0 : rank,
                               .ranks = kind == ALONE_WITH_ALL ? 1 : ranks,
                               .comm = kind == ALONE_WITH_ALL ? NULL : comm,
                               /* several buckets also for a small policy */
                               .buckets = {.first_bytes = 4096, .bytes = 16384},
                               .random_weights = true};
    NEED_OK(sg_walker_open(c.training, &options, &c.walker, &status_));
    sg_walker_set_communication(c.walker, kind == EXCHANGED);
    return c;
}

static void close_case(policy_case *c) {
    sg_walker_close(c->walker);
    sg_training_free(c->training);
}

/* All gradients after one run of the program with the optimizer. */
static numbers gradients_of(const small_policy *p, walk_kind kind) {
    policy_case c = open_case(p, kind);
    for (size_t i = 0; i < c.training->n_parameters; i++)
        if (c.training->parameters[i].trainable && c.training->parameters[i].gradient >= 0)
            NEED_OK(sg_walker_keep(c.walker, c.training->parameters[i].gradient, &status_));
    NEED_OK(sg_walker_program(c.walker, sg_main_program(c.training), &status_));
    numbers all = read_all(c.training, c.walker, true);
    close_case(&c);
    NEED(all.n > 500);
    return all;
}

static double hash_of(const numbers *all) {
    const unsigned char *bytes = (const unsigned char *)all->at;
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < all->n * sizeof *all->at; i++) hash = (hash ^ bytes[i]) * 0x100000001B3u;
    return (double)(hash >> 11);
}

static void need_identical(const numbers *all) {
    double mine = hash_of(all), theirs[64];
    NEED_OK(transport->api->gather_doubles(transport, &mine, 1, theirs, &status_));
    for (int r = 1; rank == 0 && r < ranks; r++) NEED(theirs[r] == theirs[0]);
}

/* |a - b| / |b| in the Euclidean norm. */
static double distance(const double *a, const double *b, size_t n) {
    double difference = 0, length = 0;
    for (size_t i = 0; i < n; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        length += b[i] * b[i];
    }
    NEED(length > 0 && isfinite(length));
    return sqrt(difference / length);
}

/* On rank 0: the mean over ranks of everyone's own gradients. Shards must differ, or the mean would show nothing. */
static numbers mean_of_shards(const numbers *own) {
    numbers mean = {calloc(own->n, sizeof(double)), own->n};
    double *all = rank == 0 ? calloc(own->n * (size_t)ranks, sizeof *all) : NULL;
    NEED(mean.at && (rank != 0 || all));
    NEED_OK(transport->api->gather_doubles(transport, own->at, (int)own->n, all, &status_));
    for (int r = 0; rank == 0 && r < ranks; r++) {
        if (r > 0) NEED(distance(all + (size_t)r * own->n, all, own->n) > 1e-2);
        for (size_t i = 0; i < own->n; i++) mean.at[i] += all[(size_t)r * own->n + i] / ranks;
    }
    free(all);
    return mean;
}

static void check_gradients(const small_policy *p) {
    numbers own = gradients_of(p, MY_SHARD), exchanged = gradients_of(p, EXCHANGED);
    NEED(own.n == exchanged.n);
    need_identical(&exchanged);
    numbers mean = mean_of_shards(&own);
    if (rank == 0) {
        double to_mean = distance(exchanged.at, mean.at, mean.n);
        (void)fprintf(stderr, "%s, %d ranks, %zu gradients: %.1e from the mean of shards", p->name, ranks, own.n,
                      to_mean);
        NEED(to_mean <= 1e-5);
    }
    if (rank == 0 && p->mean_loss) {
        numbers whole = gradients_of(p, ALONE_WITH_ALL);
        NEED(whole.n == own.n);
        double to_whole = distance(exchanged.at, whole.at, whole.n);
        (void)fprintf(stderr, ", %.1e from the %d-fold batch", to_whole, ranks);
        NEED(to_whole <= 1e-5);
        free(whole.at);
    }
    if (rank == 0) (void)fprintf(stderr, "\n");
    free(mean.at);
    free(own.at);
    free(exchanged.at);
}

/* Weights stay the same on all ranks through whole iterations, optimizer and all. */
static void check_training(const small_policy *p) {
    policy_case c = open_case(p, EXCHANGED);
    numbers before = read_all(c.training, c.walker, false);
    need_identical(&before);
    for (int i = 0; i < 3; i++) NEED_OK(sg_walker_iteration(c.walker, NULL, &status_));
    numbers after = read_all(c.training, c.walker, false);
    need_identical(&after);
    NEED(distance(after.at, before.at, before.n) > 0);
    free(before.at);
    free(after.at);
    close_case(&c);
}

static int be_rank(char **argument) {
    const small_policy *p = policy_of(argument[1]);
    join((int)strtol(argument[2], NULL, 10));
    check_gradients(p);
    check_training(p);
    part();
    return 0;
}

/* ==== the tests =================================================================================================== */

static char self[4096];

typedef sg_code (*start)(int ranks, char *const argv[], const sg_launch_ranks_options *options, int *exit_status,
                         sg_status *status);

static void on_ranks_started(start launch, int n, const char *policy) {
    char number[16];
    (void)snprintf(number, sizeof number, "%d", n);
    char *argv[] = {self, (char *)policy, number, NULL};
    int exit_status = -1;
    sg_status status = {0};
    sg_launch_ranks_options options = {.timeout_s = 120};
    if (launch(n, argv, &options, &exit_status, &status) != SG_OK) fail_msg("%s", status.text);
    assert_int_equal(exit_status, 0);
}

static void on_ranks(int n, const char *policy) {
    on_ranks_started(sg_launch_ranks, n, policy);
}

static void test_over_tcp(void **state) {
    (void)state;
    on_ranks_started(sg_spawn_ranks, 2, "mlp");
    on_ranks_started(sg_spawn_ranks, 4, "act");
    on_ranks_started(sg_spawn_ranks, 2, "ppo");
}

static void test_act_2(void **state) {
    (void)state;
    on_ranks(2, "act");
}
static void test_act_4(void **state) {
    (void)state;
    on_ranks(4, "act");
}
static void test_ppo_2(void **state) {
    (void)state;
    on_ranks(2, "ppo");
}
static void test_ppo_4(void **state) {
    (void)state;
    on_ranks(4, "ppo");
}
static void test_mlp_2(void **state) {
    (void)state;
    on_ranks(2, "mlp");
}
static void test_mlp_4(void **state) {
    (void)state;
    on_ranks(4, "mlp");
}

int main(int n, char **argument) {
    if (n == 3) return be_rank(argument);
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return 1;
    /* Open MPI leaves memory behind; in the ranks it is not ours to report. */
    (void)setenv("ASAN_OPTIONS", "detect_leaks=0:intercept_tls_get_addr=0", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_over_tcp), cmocka_unit_test(test_mlp_2), cmocka_unit_test(test_mlp_4),
        cmocka_unit_test(test_act_2),    cmocka_unit_test(test_act_4), cmocka_unit_test(test_ppo_2),
        cmocka_unit_test(test_ppo_4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
