/* Products, convolutions and attention on the cuda device, beyond what all devices are tested for: libraries that are
 * missing, the several ways to the same result, and what a launch costs the host. */
#include "tests/reference/reference.h"
#include "tests/support/op_device.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/emulation/emulation.h"

/* The emulation's own functions, where the device runs under it; all NULL on a GPU. */
static struct {
    int64_t (*calls)(void);
    void (*fail_call)(int64_t nth);
    bool (*has_failed)(void);
    sg_emu_alive (*alive)(void);
    const char *(*fault)(void);
    void (*set_memory)(size_t bytes);
    void (*set_capability)(int capability);
} emulation;

static void find_function(void *library, const char *name, void *function) {
    void *found = library ? dlsym(library, name) : NULL;
    memcpy(function, &found, sizeof found);
}

static void find_emulation(void) {
    const char *folder = getenv("STEPGAUGE_CUDA_LIBS");
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/libcublas.so.13", folder ? folder : "");
    void *library = folder ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    find_function(library, "sg_emu_calls", &emulation.calls);
    find_function(library, "sg_emu_fail_call", &emulation.fail_call);
    find_function(library, "sg_emu_has_failed", &emulation.has_failed);
    find_function(library, "sg_emu_count_alive", &emulation.alive);
    find_function(library, "sg_emu_fault", &emulation.fault);
    find_function(library, "sg_emu_set_memory", &emulation.set_memory);
    find_function(library, "sg_emu_set_capability", &emulation.set_capability);
}

static const sg_device_api *api;

static sg_device *open_device(const sg_device_options *options) {
    sg_device *device = NULL;
    sg_status status = {0};
    if (api->open(options, &device, &status) != SG_OK) fail_msg("%s", status.text);
    return device;
}

/* ---- ops --------------------------------------------------------------------------------------------------------------------- */

typedef struct op_set {
    sg_op op; /* without descriptors: see whole */
    sg_desc desc[8];
} op_set;

static sg_op whole(const op_set *set) {
    sg_op op = set->op;
    op.desc = set->desc;
    return op;
}

static op_set *op_of(op_set *set, sg_op_kind kind, sg_attrs attrs, int n_in, int n_out) {
    set->op = (sg_op){.kind = kind, .n_in = n_in, .n_out = n_out, .attrs = attrs};
    sg_op op = whole(set);
    const char *wrong = sg_op_check(&op);
    if (wrong) fail_msg("%s", wrong);
    return set;
}

static op_set linear_op(int64_t m, int64_t k, int64_t n, sg_dtype dtype, int64_t bias_stride, sg_fn act) {
    op_set set = {.desc = {sg_desc_make(dtype, 2, (int64_t[]){m, k}),
                           {.dtype = dtype, .ndim = 2, .size = {k, n}, .stride = {1, k}},
                           {.dtype = dtype, .ndim = 1, .size = {n}, .stride = {bias_stride}},
                           sg_desc_make(dtype, 2, (int64_t[]){m, n})}};
    return *op_of(&set, SG_OP_MATMUL,
                  (sg_attrs){.alpha = 0.5,
                             .compute = dtype == SG_BF16 ? SG_COMPUTE_BF16 : SG_COMPUTE_F32,
                             .flags = SG_HAS_BIAS,
                             .act = act},
                  3, 1);
}

static op_set conv_op(int64_t images, int64_t channels, int64_t side, int64_t out, bool last, sg_compute compute) {
    op_layout layout = last ? OP_CHANNELS_LAST : OP_PLAIN;
    op_set set = {.desc = {op_desc(SG_F32, layout, 4, (int64_t[]){images, channels, side, side}),
                           op_desc(SG_F32, layout, 4, (int64_t[]){out, channels, 3, 3}),
                           op_desc(SG_F32, layout, 4, (int64_t[]){images, out, side, side})}};
    return *op_of(&set, SG_OP_CONV, (sg_attrs){.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1}, .compute = compute},
                  2, 1);
}

/* The gradients' ops of a convolution. */
static op_set conv_backward_op(const op_set *forward, bool weights) {
    sg_attrs attrs = forward->op.attrs;
    op_set set = {.desc = {forward->desc[2], forward->desc[weights ? 0 : 1], forward->desc[weights ? 1 : 0]}};
    return *op_of(&set, weights ? SG_OP_CONV_BWD_WEIGHTS : SG_OP_CONV_BWD_DATA, attrs, 2, 1);
}

static op_set attention_op(int64_t b, int64_t h, int64_t t, int64_t s, int64_t d) {
    op_set set = {.desc = {op_desc(SG_F32, OP_HEADS, 4, (int64_t[]){b, h, t, d}),
                           op_desc(SG_F32, OP_HEADS, 4, (int64_t[]){b, h, s, d}),
                           op_desc(SG_F32, OP_HEADS, 4, (int64_t[]){b, h, s, d}),
                           op_desc(SG_F32, OP_HEADS, 4, (int64_t[]){b, h, t, d}),
                           sg_desc_make(SG_F32, 3, (int64_t[]){b, h, t})}};
    return *op_of(&set, SG_OP_ATTENTION, (sg_attrs){.alpha = 0.125}, 3, 2);
}

static sg_code prepare(sg_device *device, const op_set *set, sg_plan **plan, sg_status *status) {
    sg_op op = whole(set);
    return api->prepare(device, &op, 1, plan, status);
}

/* Compares an op with the reference. */
static void check(sg_device *device, const op_set *set, const char *what) {
    op_bench bench = {.api = api, .device = device};
    sg_status status = {0};
    op_case one;
    assert_int_equal(sg_reference_device()->open(NULL, &bench.reference, &status), SG_OK);
    op_case_begin(&one, (sg_op_kind)set->op.kind, set->op.attrs);
    for (int i = 0; i < set->op.n_in; i++) op_case_input(&one, set->desc[i], -1, 1);
    for (int i = 0; i < set->op.n_out; i++) op_case_output(&one, set->desc[set->op.n_in + i]);
    op_case_check(&bench, &one, "%s", what);
    sg_reference_device()->close(bench.reference);
    op_bench_expect_all(&bench);
}

/* Prepares and runs an op on memory that begins `odd` elements behind an aligned address, inputs a simple pattern; gives the
 * first output's memory image as floats (to be freed) where out is not NULL. */
static sg_code run_op(sg_device *device, const op_set *set, int odd, float **out, sg_status *status) {
    int tensors = set->op.n_in + set->op.n_out;
    char *segment[8] = {0};
    void *pointers[8], *workspace = NULL;
    sg_plan *plan = NULL;
    sg_code code = prepare(device, set, &plan, status);
    uint64_t workspace_bytes = code == SG_OK ? api->plan_workspace_bytes(plan) : 0;
    if (workspace_bytes) code = api->segment_alloc(device, workspace_bytes, &workspace, status);
    for (int i = 0; i < tensors && code == SG_OK; i++) {
        size_t bytes = (size_t)sg_desc_span_bytes(&set->desc[i]),
               shift = (size_t)odd * sg_dtype_bytes((sg_dtype)set->desc[i].dtype);
        double *values = op_values(&set->desc[i], -1, 1, (uint64_t)i + 1);
        char *image = calloc(1, bytes);
        assert_non_null(image);
        sg_reference_write(&set->desc[i], image, values);
        code = api->segment_alloc(device, bytes + shift, (void **)&segment[i], status);
        pointers[i] = segment[i] + shift;
        if (code == SG_OK)
            code = api->copy(device, pointers[i], image, bytes, SG_COPY_TO_DEVICE, SG_STREAM_COMPUTE, status);
        free(values);
        free(image);
    }
    if (code == SG_OK) code = api->launch(device, plan, SG_STREAM_COMPUTE, pointers, workspace, NULL, status);
    if (code == SG_OK) code = api->stream_wait(device, SG_STREAM_COMPUTE, status);
    const sg_desc *result = &set->desc[set->op.n_in];
    if (code == SG_OK && out) {
        size_t bytes = (size_t)sg_desc_span_bytes(result);
        *out = malloc(bytes);
        assert_non_null(*out);
        code = api->copy(device, *out, pointers[set->op.n_in], bytes, SG_COPY_TO_HOST, SG_STREAM_COMPUTE, status);
        if (code == SG_OK) code = api->stream_wait(device, SG_STREAM_COMPUTE, status);
    }
    for (int i = 0; i < tensors; i++)
        if (segment[i]) api->segment_free(device, segment[i], 0);
    if (workspace) api->segment_free(device, workspace, workspace_bytes);
    if (plan) api->plans_free(device, &plan, 1);
    return code;
}

/* ---- libraries --------------------------------------------------------------------------------------------------------------- */

/* A folder with one file by which a library is found, that is no library. */
static void broken_library(char folder[64], const char *file) {
    char path[128];
    (void)snprintf(folder, 64, "/tmp/sg_products_XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs("no library\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void remove_library(const char *folder, const char *file) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void expect_words(const char *text, const char *words) {
    if (!strstr(text, words)) fail_msg("'%s' does not tell of '%s'", text, words);
}

static void test_without_cudnn(void **state) {
    (void)state;
    char folder[64];
    sg_device_info info;
    sg_status status = {0};
    broken_library(folder, "libcudnn.so.9");
    sg_device *device = open_device(&(sg_device_options){.library_dir = folder});
    assert_int_equal(api->info(device, &info, &status), SG_OK);
    expect_words(info.library, "cuBLAS ");
    expect_words(info.library, "no cuDNN: convolutions by im2col");
    for (int last = 0; last < 2; last++)
        for (int compute = SG_COMPUTE_F32; compute <= SG_COMPUTE_TF32; compute++) {
            op_set forward = conv_op(3, 5, 9, 7, last, (sg_compute)compute);
            op_set data = conv_backward_op(&forward, false), weights = conv_backward_op(&forward, true);
            check(device, &forward, "without cuDNN");
            check(device, &data, "without cuDNN");
            check(device, &weights, "without cuDNN");
        }
    api->close(device);
    remove_library(folder, "libcudnn.so.9");
}

static void test_library_text(void **state) {
    (void)state;
    sg_device_info info;
    sg_status status = {0};
    sg_device *device = open_device(&(sg_device_options){0});
    assert_int_equal(api->info(device, &info, &status), SG_OK);
    expect_words(info.library, "CUDA ");
    expect_words(info.library, ", cuBLAS 13.");
    expect_words(info.library, "cuDNN");
    api->close(device);
}

static void test_without_cublas(void **state) {
    (void)state;
    char folder[64];
    sg_status status = {0};
    op_set linear = linear_op(3, 4, 5, SG_F32, 1, SG_FN_NONE);
    sg_plan *plan = NULL;
    broken_library(folder, "libcublas.so.13");
    sg_device *device = open_device(&(sg_device_options){.library_dir = folder});
    assert_int_equal(prepare(device, &linear, &plan, &status), SG_MACHINE);
    assert_null(plan);
    expect_words(status.text, "cannot load cuBLAS");
    expect_words(status.text, folder);
    expect_words(status.text, "pip install nvidia-cublas");
    api->close(device);
    remove_library(folder, "libcublas.so.13");
}

/* A file of the right name that is another library. */
static void test_library_without_functions(void **state) {
    (void)state;
    char folder[64], path[128];
    struct link_map *map = NULL;
    sg_status status = {0};
    op_set linear = linear_op(3, 4, 5, SG_F32, 1, SG_FN_NONE);
    sg_plan *plan = NULL;
    void *other = dlopen("libm.so.6", RTLD_LAZY | RTLD_LOCAL);
    assert_non_null(other);
    assert_int_equal(dlinfo(other, RTLD_DI_LINKMAP, &map), 0);
    broken_library(folder, "libcublas.so.13");
    (void)snprintf(path, sizeof path, "%s/libcublas.so.13", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(map->l_name, path), 0);
    sg_device *device = open_device(&(sg_device_options){.library_dir = folder});
    assert_int_equal(prepare(device, &linear, &plan, &status), SG_MACHINE);
    expect_words(status.text, "cuBLAS (libcublas.so.13) lacks the function cublasCreate_v2");
    api->close(device);
    remove_library(folder, "libcublas.so.13");
    (void)dlclose(other);
}

/* ---- ways to the same result ----------------------------------------------------------------------------------------------------- */

/* cuBLASLt on memory of both alignments, and cuBLAS with a pass of ours, which a bias with gaps asks for. */
static void test_linear_ways_agree(void **state) {
    (void)state;
    enum { M = 17, K = 40, N = 24 };
    static const sg_fn acts[] = {SG_FN_NONE, SG_FN_RELU, SG_FN_GELU_TANH};
    sg_device *device = open_device(&(sg_device_options){0});
    for (size_t a = 0; a < 3; a++) {
        float *out[3];
        sg_status status = {0};
        op_set fused = linear_op(M, K, N, SG_F32, 1, acts[a]), plain = linear_op(M, K, N, SG_F32, 2, acts[a]);
        assert_int_equal(run_op(device, &fused, 0, &out[0], &status), SG_OK);
        assert_int_equal(run_op(device, &fused, 1, &out[1], &status), SG_OK);
        assert_int_equal(run_op(device, &plain, 3, &out[2], &status), SG_OK);
        for (int i = 0; i < M * N; i++) {
            /* sums of K products below 1, halved, and a bias: rounded in another order at most */
            const double bound = 0x1p-24 * (K + 4);
            if (fabs((double)(out[1][i] - out[0][i])) > bound || fabs((double)(out[2][i] - out[0][i])) > bound)
                fail_msg("act %s, element %d: %.9g, %.9g, %.9g", sg_fn_name(acts[a]), i, (double)out[0][i],
                         (double)out[1][i], (double)out[2][i]);
        }
        for (int i = 0; i < 3; i++) free(out[i]);
    }
    api->close(device);
}

/* Addresses that are aligned to elements alone, and again with the first plan afterwards. */
static void test_odd_addresses(void **state) {
    (void)state;
    sg_device *device = open_device(&(sg_device_options){0});
    op_set conv = conv_op(2, 4, 10, 6, true, SG_COMPUTE_F32);
    sg_status status = {0};
    float *out[3];
    assert_int_equal(run_op(device, &conv, 0, &out[0], &status), SG_OK);
    assert_int_equal(run_op(device, &conv, 1, &out[1], &status), SG_OK);
    assert_int_equal(run_op(device, &conv, 2, &out[2], &status), SG_OK);
    for (int64_t i = 0; i < sg_desc_count(&conv.desc[2]); i++) {
        const double bound = 0x1p-24 * (4 * 9 + 4);
        assert_true(fabs((double)(out[1][i] - out[0][i])) <= bound);
        assert_true(fabs((double)(out[2][i] - out[0][i])) <= bound);
    }
    for (int i = 0; i < 3; i++) free(out[i]);
    api->close(device);
}

/* Results that cuBLAS cannot write, strides of dims of size 1 that mean nothing, batches that two strides describe. */
static void test_odd_products(void **state) {
    (void)state;
    sg_device *device = open_device(&(sg_device_options){0});
    static const struct {
        int ndim;
        int64_t a_size[4], a[4], b_size[4], b[4], c_size[4], c[4];
    } cases[] = {
        /* c with gaps in both dims; a row by row with gaps */
        {2, {5, 6}, {20, 1}, {6, 7}, {7, 1}, {5, 7}, {40, 3}},
        /* one row, one column: strides of 1-sized dims are arbitrary */
        {2, {1, 6}, {0, 1}, {6, 1}, {1, 99}, {1, 1}, {5, 7}},
        /* batches [2, 3] of a repeated along the inner one, of c swapped in memory */
        {4, {2, 3, 4, 5}, {20, 0, 5, 1}, {2, 3, 5, 6}, {90, 30, 6, 1}, {2, 3, 4, 6}, {24, 48, 6, 1}},
        /* one b for all: rows of one product */
        {3, {4, 3, 5}, {15, 5, 1}, {4, 5, 6}, {0, 6, 1}, {4, 3, 6}, {18, 6, 1}},
        /* the same with a transposed result */
        {3, {4, 3, 5}, {15, 5, 1}, {4, 5, 6}, {0, 1, 5}, {4, 3, 6}, {3, 1, 12}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        op_set set = {0};
        for (int t = 0; t < 3; t++) {
            set.desc[t] = (sg_desc){.dtype = SG_F32, .ndim = cases[i].ndim};
            const int64_t *size = t == 0 ? cases[i].a_size : t == 1 ? cases[i].b_size : cases[i].c_size;
            const int64_t *stride = t == 0 ? cases[i].a : t == 1 ? cases[i].b : cases[i].c;
            memcpy(set.desc[t].size, size, sizeof(int64_t) * (size_t)cases[i].ndim);
            memcpy(set.desc[t].stride, stride, sizeof(int64_t) * (size_t)cases[i].ndim);
        }
        char what[32];
        (void)snprintf(what, sizeof what, "case %zu", i);
        check(device, op_of(&set, SG_OP_MATMUL, (sg_attrs){.alpha = 2}, 2, 1), what);
    }
    api->close(device);
}

/* Small GPUs take images and heads in parts. */
static void test_parts(void **state) {
    (void)state;
    char folder[64];
    if (emulation.set_memory) {
        emulation.set_memory((size_t)64 << 20);
        emulation.set_capability(75);
    }
    broken_library(folder, "libcudnn.so.9");
    sg_device *device = open_device(&(sg_device_options){.library_dir = folder});
    /* 36 taps x 1,600 positions x 4 bytes: four images to the MiB */
    op_set forward = conv_op(5, 4, 40, 3, false, SG_COMPUTE_F32);
    op_set data = conv_backward_op(&forward, false), weights = conv_backward_op(&forward, true);
    check(device, &forward, "in parts");
    check(device, &data, "in parts");
    check(device, &weights, "in parts");
    /* 64 KiB a head: heads of one batch, and batches, in parts */
    op_set many_heads = attention_op(1, 18, 128, 128, 4), many_batches = attention_op(9, 2, 128, 128, 4);
    check(device, &many_heads, "in parts");
    check(device, &many_batches, "in parts");
    api->close(device);
    remove_library(folder, "libcudnn.so.9");
    if (emulation.set_memory) {
        emulation.set_memory((size_t)4 << 30);
        emulation.set_capability(90);
    }
}

/* ---- choosing, launching ------------------------------------------------------------------------------------------------------- */

static uint64_t workspace_of(sg_device *device, const op_set *set) {
    sg_plan *plan = NULL;
    sg_status status = {0};
    if (prepare(device, set, &plan, &status) != SG_OK) fail_msg("%s", status.text);
    uint64_t bytes = api->plan_workspace_bytes(plan);
    api->plans_free(device, &plan, 1);
    return bytes;
}

/* The emulated heuristic puts an engine first that is slower than the next and needs more workspace. */
static void test_benchmark(void **state) {
    (void)state;
    op_set conv = conv_op(2, 16, 24, 16, true, SG_COMPUTE_TF32);
    sg_device *first = open_device(&(sg_device_options){0}),
              *fastest = open_device(&(sg_device_options){.benchmark = true});
    check(first, &conv, "heuristic");
    check(fastest, &conv, "benchmark");
    if (emulation.calls) assert_true(workspace_of(fastest, &conv) < workspace_of(first, &conv));
    api->close(first);
    api->close(fastest);
}

/* A plain product costs the host one call of cuBLAS beside the choice of the device. */
static void test_one_call(void **state) {
    (void)state;
    if (!emulation.calls) skip();
    op_set set = {.desc = {sg_desc_make(SG_F32, 2, (int64_t[]){4, 4}), sg_desc_make(SG_F32, 2, (int64_t[]){4, 4}),
                           sg_desc_make(SG_F32, 2, (int64_t[]){4, 4})}};
    (void)op_of(&set, SG_OP_MATMUL, (sg_attrs){.alpha = 1}, 2, 1);
    sg_device *device = open_device(&(sg_device_options){0});
    sg_status status = {0};
    sg_plan *plan = NULL;
    void *memory = NULL;
    assert_int_equal(prepare(device, &set, &plan, &status), SG_OK);
    assert_int_equal(api->segment_alloc(device, 4096, &memory, &status), SG_OK);
    assert_int_equal(api->copy(device, memory, (char[4096]){0}, 4096, SG_COPY_TO_DEVICE, SG_STREAM_COMPUTE, &status),
                     SG_OK);
    void *pointers[3] = {memory, (char *)memory + 1024, (char *)memory + 2048};
    int64_t before = emulation.calls();
    assert_int_equal(api->launch(device, plan, SG_STREAM_COMPUTE, pointers, NULL, NULL, &status), SG_OK);
    assert_int_equal(emulation.calls() - before, 2); /* cudaGetDevice, cublasGemmEx */
    assert_int_equal(api->stream_wait(device, SG_STREAM_COMPUTE, &status), SG_OK);
    api->segment_free(device, memory, 4096);
    api->plans_free(device, &plan, 1);
    api->close(device);
}

/* Every call in turn fails: an error that says something, nothing left behind. */
static void test_failures(void **state) {
    (void)state;
    if (!emulation.calls) skip();
    op_set conv = conv_op(1, 2, 5, 3, true, SG_COMPUTE_TF32), weights = conv_backward_op(&conv, true);
    op_set sets[] = {linear_op(3, 4, 5, SG_F32, 1, SG_FN_NONE), conv, weights, attention_op(1, 2, 3, 4, 5)};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (int benchmark = 0; benchmark < 2; benchmark++) {
            bool failed = true;
            for (int64_t nth = 1; failed && nth < 2000; nth++) {
                sg_device *device = NULL;
                sg_status status = {0};
                sg_emu_alive before = emulation.alive();
                emulation.fail_call(nth);
                sg_code code = api->open(&(sg_device_options){.benchmark = benchmark}, &device, &status);
                if (code == SG_OK) code = run_op(device, &sets[i], 0, NULL, &status);
                failed = emulation.has_failed();
                emulation.fail_call(0);
                if (device) api->close(device);
                sg_emu_alive after = emulation.alive();
                if (memcmp(&before, &after, sizeof before) != 0)
                    fail_msg("op %zu, call %lld leaves something behind: '%s'", i, (long long)nth, status.text);
                if (code != SG_OK && !status.text[0]) fail_msg("op %zu, call %lld: no words", i, (long long)nth);
                if (code != SG_OK && !failed) fail_msg("op %zu: %s", i, status.text);
                const char *fault = emulation.fault();
                if (fault) fail_msg("op %zu, call %lld: %s", i, (long long)nth, fault);
            }
            assert_false(failed);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_library_text),      cmocka_unit_test(test_without_cudnn),
        cmocka_unit_test(test_without_cublas),    cmocka_unit_test(test_library_without_functions),
        cmocka_unit_test(test_linear_ways_agree), cmocka_unit_test(test_odd_addresses),
        cmocka_unit_test(test_odd_products),      cmocka_unit_test(test_parts),
        cmocka_unit_test(test_benchmark),         cmocka_unit_test(test_one_call),
        cmocka_unit_test(test_failures),
    };
    api = sg_test_device_api();
    find_emulation();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
