/* Element-wise kernels, moves, lists and random numbers of the cuda device, beyond what all devices are tested for: as many
 * kernels as sg_op_cost says, lists that fill several launches, and steps that come from a replay. */
#include "tests/support/op_device.h"

#include <dlfcn.h>

#include "tests/emulation/emulation.h"

enum { TENSORS_MOST = 800 };

static const sg_device_api *api;
static sg_device *device;
static int64_t (*emulated_calls)(void); /* NULL on a GPU */

/* An op whose tensors may share memory. */
typedef struct task {
    sg_op op;
    sg_desc desc[TENSORS_MOST];
    void *at[TENSORS_MOST];
    sg_plan *plan;
    void *workspace;
    uint64_t workspace_bytes;
} task;

static void must(sg_code code, const sg_status *status) {
    if (code != SG_OK) fail_msg("%s", status->text);
}

static void *device_memory(uint64_t bytes, const void *content) {
    sg_status status = {0};
    void *at = NULL;
    must(api->segment_alloc(device, bytes, &at, &status), &status);
    if (content) must(api->copy(device, at, content, bytes, SG_COPY_TO_DEVICE, SG_STREAM_COMPUTE, &status), &status);
    must(api->stream_wait(device, SG_STREAM_COMPUTE, &status), &status);
    return at;
}

static void read_back(void *to, const void *at, uint64_t bytes) {
    sg_status status = {0};
    must(api->copy(device, to, at, bytes, SG_COPY_TO_HOST, SG_STREAM_COMPUTE, &status), &status);
    must(api->stream_wait(device, SG_STREAM_COMPUTE, &status), &status);
}

static void task_begin(task *t, sg_op_kind kind, sg_attrs attrs) {
    memset(t, 0, sizeof *t);
    t->op = (sg_op){.kind = kind, .attrs = attrs};
}

static void task_tensor(task *t, bool output, sg_desc desc, void *at) {
    int i = t->op.n_in + t->op.n_out;
    assert_true(i < TENSORS_MOST && (output || t->op.n_out == 0));
    t->desc[i] = desc;
    t->at[i] = at;
    if (output)
        t->op.n_out++;
    else
        t->op.n_in++;
}

static void task_prepare(task *t) {
    sg_status status = {0};
    t->op.desc = t->desc;
    must(api->prepare(device, &t->op, 1, &t->plan, &status), &status);
    t->workspace_bytes = api->plan_workspace_bytes(t->plan);
    if (t->workspace_bytes) t->workspace = device_memory(t->workspace_bytes, NULL);
}

static void task_launch(task *t, uint64_t step) {
    sg_status status = {0};
    const sg_launch launch = {.seed = 5, .step = step, .salt = 9};
    must(api->launch(device, t->plan, SG_STREAM_COMPUTE, t->at, t->workspace, &launch, &status), &status);
}

static void task_end(task *t) {
    sg_status status = {0};
    must(api->stream_wait(device, SG_STREAM_COMPUTE, &status), &status);
    api->plans_free(device, &t->plan, 1);
    if (t->workspace) api->segment_free(device, t->workspace, t->workspace_bytes);
}

/* ---- launches ------------------------------------------------------------------------------------------------------------- */

/* A kernel is one call of the runtime; a launch begins with another, which asks for the current device. */
static void expect_cost(task *t, const char *what) {
    task_prepare(t);
    task_launch(t, 1);
    int64_t before = emulated_calls ? emulated_calls() : 0;
    task_launch(t, 1);
    int64_t calls = emulated_calls ? emulated_calls() - before : 0;
    int64_t want = sg_op_cost(&t->op).launches;
    if (emulated_calls && calls != want + 1)
        fail_msg("%s: %lld calls for %lld kernels", what, (long long)calls, (long long)want);
    task_end(t);
}

static sg_desc vector(sg_dtype dtype, int64_t n) {
    return sg_desc_make(dtype, 1, &n);
}

static void lists(sg_op_kind kind, sg_attrs attrs, int n_lists, int count, int64_t elements, void *memory) {
    static task t;
    attrs.count = count;
    task_begin(&t, kind, attrs);
    for (int i = 0; i < n_lists * count; i++) task_tensor(&t, false, vector(SG_F32, elements), memory);
    int outputs = kind == SG_OP_ADAMW ? 3 * count : count;
    for (int i = 0; i < outputs; i++) task_tensor(&t, true, vector(SG_F32, elements), memory);
    char what[64];
    (void)snprintf(what, sizeof what, "%s of %d tensors", sg_op_kind_name(kind), count);
    expect_cost(&t, what);
}

static void test_as_many_kernels_as_counted(void **state) {
    (void)state;
    static task t;
    enum { LONG = 3 * 65536 };
    float *zeros = calloc(LONG, sizeof *zeros);
    assert_non_null(zeros);
    void *memory = device_memory(LONG * sizeof(float), zeros), *other = device_memory(LONG * sizeof(float), zeros);
    free(zeros);
    const sg_attrs factor = {.fn = SG_FN_AFFINE, .alpha = 1, .flags = SG_IN_PLACE};
    lists(SG_OP_FOREACH, factor, 1, 1, 7, memory);
    lists(SG_OP_FOREACH, factor, 1, 110, 7, memory);
    lists(SG_OP_FOREACH, factor, 1, 250, 7, memory);
    lists(SG_OP_FOREACH, (sg_attrs){.fn = SG_FN_LERP, .flags = SG_IN_PLACE}, 2, 129, 33, memory);
    lists(SG_OP_FOREACH, (sg_attrs){.fn = SG_FN_ADDCMUL, .flags = SG_IN_PLACE}, 3, 100, 33, memory);
    lists(SG_OP_ADAMW, (sg_attrs){.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}, 4, 100, 33, memory);
    lists(SG_OP_FOREACH, factor, 1, 108, LONG, memory); /* 324 chunks: blocks run out before places for tensors */
    task_begin(&t, SG_OP_CAT, (sg_attrs){0});
    for (int i = 0; i < 300; i++) task_tensor(&t, false, vector(SG_F32, 3 + i % 5), memory);
    task_tensor(&t, true, vector(SG_F32, 1500), other);
    expect_cost(&t, "300 joined");
    task_begin(&t, SG_OP_COPY, (sg_attrs){0});
    task_tensor(&t, false, op_desc(SG_F32, OP_PLAIN, 2, (int64_t[]){100, 90}), memory);
    task_tensor(&t, true, op_desc(SG_F32, OP_TRANSPOSED, 2, (int64_t[]){100, 90}), other);
    expect_cost(&t, "transposed");
    api->segment_free(device, memory, LONG * sizeof(float));
    api->segment_free(device, other, LONG * sizeof(float));
}

/* More chunks than a launch has blocks: the last tensor of a launch goes on in the next. */
static void test_norms_across_launches(void **state) {
    (void)state;
    static task t;
    enum { COUNT = 108, N = 3 * 65536 - 5 };
    static float want[COUNT], got[COUNT];
    float *ones = malloc(N * sizeof *ones);
    assert_non_null(ones);
    for (int i = 0; i < N; i++) ones[i] = 1;
    void *memory = device_memory(N * sizeof(float), ones), *norms = device_memory(sizeof got, NULL);
    free(ones);
    task_begin(&t, SG_OP_NORM_ALL, (sg_attrs){.count = COUNT});
    for (int i = 0; i < COUNT; i++) {
        int64_t n = i % 7 == 0 ? 3 + i : N - i;
        task_tensor(&t, false, vector(SG_F32, n), memory);
        want[i] = sqrtf((float)n);
    }
    task_tensor(&t, true, vector(SG_F32, COUNT), norms);
    expect_cost(&t, "norms");
    read_back(got, norms, sizeof got);
    for (int i = 0; i < COUNT; i++) assert_true(fabsf(got[i] - want[i]) <= 1e-6f * want[i]);
    api->segment_free(device, memory, N * sizeof(float));
    api->segment_free(device, norms, sizeof got);
}

/* ---- replays -------------------------------------------------------------------------------------------------------------- */

/* The op, recorded once and replayed for a step, leaves what a launch for that step leaves. */
static void replay_equals_launch(task *t, uint64_t bytes, const void *content, uint64_t step) {
    sg_status status = {0};
    sg_graph_exec *graph = NULL;
    int last = t->op.n_in + t->op.n_out - 1;
    unsigned char *launched = malloc(bytes), *replayed = malloc(bytes);
    assert_non_null(launched);
    assert_non_null(replayed);
    task_prepare(t);
    must(api->copy(device, t->at[last], content, bytes, SG_COPY_TO_DEVICE, SG_STREAM_COMPUTE, &status), &status);
    task_launch(t, step);
    read_back(launched, t->at[last], bytes);
    must(api->graph_begin(device, &status), &status);
    task_launch(t, step + 1000); /* what a recording is made with counts for nothing */
    must(api->graph_end(device, &graph, &status), &status);
    must(api->copy(device, t->at[last], content, bytes, SG_COPY_TO_DEVICE, SG_STREAM_COMPUTE, &status), &status);
    must(api->graph_launch(device, graph, &(sg_launch){.step = step}, &status), &status);
    read_back(replayed, t->at[last], bytes);
    api->graph_destroy(device, graph);
    assert_memory_equal(launched, replayed, bytes);
    assert_memory_not_equal(launched, content, bytes);
    free(launched);
    free(replayed);
    task_end(t);
}

static void test_replays_take_the_step(void **state) {
    (void)state;
    static task t;
    enum { N = 1000 };
    static float content[N];
    for (int i = 0; i < N; i++) content[i] = 0.5f + (float)i / N;
    void *memory = device_memory(sizeof content, content), *other = device_memory(sizeof content, content);
    const sg_attrs adam = {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .count = 1};
    for (uint64_t step = 1; step < 100; step += 49) {
        for (int place = 0; place < 2; place++) { /* from the start: four at once; behind it: one by one */
            char *to = (char *)memory + place * sizeof(float);
            int64_t n = N - 4 * place;
            task_begin(&t, SG_OP_RANDOM, (sg_attrs){.fn = SG_FN_NORMAL, .beta = 1});
            task_tensor(&t, true, vector(SG_F32, n), to);
            replay_equals_launch(&t, (uint64_t)n * sizeof(float), content, step);
        }
        task_begin(&t, SG_OP_RANDOM, (sg_attrs){.fn = SG_FN_PERMUTATION});
        task_tensor(&t, true, vector(SG_I64, N / 2), memory);
        replay_equals_launch(&t, N / 2 * sizeof(int64_t), content, step);
        task_begin(&t, SG_OP_DROPOUT, (sg_attrs){.alpha = 0.5});
        task_tensor(&t, false, vector(SG_F32, N), other);
        task_tensor(&t, true, vector(SG_F32, N), (char *)other);
        task_tensor(&t, true, vector(SG_BOOL, N), memory);
        replay_equals_launch(&t, N, content, step);
        task_begin(&t, SG_OP_UNARY,
                   (sg_attrs){.fn = SG_FN_DIV_SCALAR, .beta2 = 0.999, .flags = SG_IN_PLACE | SG_STEP_SQRT});
        for (int i = 0; i < 2; i++) task_tensor(&t, i == 1, vector(SG_F32, N), memory);
        replay_equals_launch(&t, sizeof content, content, step);
        sg_attrs attrs = adam;
        attrs.fn = SG_FN_ADD;
        attrs.flags = SG_IN_PLACE | SG_STEP_SIZE;
        task_begin(&t, SG_OP_FOREACH, attrs);
        for (int i = 0; i < 3; i++) task_tensor(&t, i == 2, vector(SG_F32, N), i == 1 ? other : memory);
        replay_equals_launch(&t, sizeof content, content, step);
    }
    api->segment_free(device, memory, sizeof content);
    api->segment_free(device, other, sizeof content);
}

int main(void) {
    const char *folder = getenv("STEPGAUGE_CUDA_LIBS");
    char path[1024];
    sg_status status = {0};
    (void)snprintf(path, sizeof path, "%s/libcublas.so.13", folder ? folder : "");
    void *library = folder ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    void *found = library ? dlsym(library, "sg_emu_calls") : NULL;
    memcpy(&emulated_calls, &found, sizeof found);
    api = sg_test_device_api();
    if (api->open(&(sg_device_options){0}, &device, &status) != SG_OK) {
        (void)fprintf(stderr, "%s\n", status.text);
        return EXIT_FAILURE;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_many_kernels_as_counted),
        cmocka_unit_test(test_norms_across_launches),
        cmocka_unit_test(test_replays_take_the_step),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    api->close(device);
    return failed;
}
