/* Small policies on the cuda device: the same visits and the same memory to the byte as elsewhere, the same numbers up to
 * rounding, and together every op that the full policies have. */
#include "kernels/virtual/machine.h"
#include "tests/reference/reference.h"
#include "tests/support/lab.h"
#include "tests/support/op_device.h"
#include "tests/support/small_policies.h"

static const sg_device_api *cuda;

static const sg_small SMALL[] = {
    SG_SMALL_ACT,   SG_SMALL_SMOLVLA, SG_SMALL_SMOLVLA_UNFROZEN, SG_SMALL_PI0,  SG_SMALL_PI05_AGAIN, SG_SMALL_PPO,
    SG_SMALL_MLP,   SG_SMALL_TOKENS,  SG_SMALL_DIFFUSION,        SG_SMALL_BERT, SG_SMALL_GPT2,       SG_SMALL_OPT,
    SG_SMALL_SWITCH};
enum { N_SMALL = sizeof SMALL / sizeof *SMALL };
static const int SETTING[] = {0, 2}; /* pytorch-eager and native, as on CUDA */

static sg_training *build(sg_small which, int setting, const char *precision) {
    return sg_small_build(which, &SG_SMALL_SETTING[setting], &(sg_small_options){.clip = true, .precision = precision});
}

/* ---- what the small ones stand for ------------------------------------------------------------------------------------ */

typedef struct op_set {
    bool has[SG_OP_KIND_COUNT][SG_FN_COUNT];
} op_set;

static void add_ops(op_set *set, const sg_training *t) {
    for (size_t i = 0; i < t->n_ops; i++) set->has[t->ops[i].kind][t->ops[i].attrs.fn] = true;
}

static void test_ops_of_full_policies(void **state) {
    (void)state;
    static const struct {
        const char *full;
        sg_small small[2];
    } pairs[] = {{"act", {SG_SMALL_ACT, SG_SMALL_ACT}},
                 {"smolvla", {SG_SMALL_SMOLVLA, SG_SMALL_SMOLVLA_UNFROZEN}},
                 {"diffusion", {SG_SMALL_DIFFUSION, SG_SMALL_DIFFUSION_GROUP}},
                 {"pi0", {SG_SMALL_PI0, SG_SMALL_PI05_AGAIN}},
                 {"pi05", {SG_SMALL_PI0, SG_SMALL_PI05_AGAIN}},
                 {"ppo", {SG_SMALL_PPO, SG_SMALL_PPO}}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        op_set full = {0}, small = {0};
        sg_status status = {0};
        sg_training *t = NULL;
        const sg_policy_request request = {.policy = pairs[i].full, .device_class = SG_DEVICE_CLASS_CUDA};
        if (sg_policy_build(&request, &t, &status) != SG_OK) fail_msg("%s", status.text);
        add_ops(&full, t);
        sg_training_free(t);
        for (int k = 0; k < 2; k++) {
            t = build(pairs[i].small[k], 0, NULL);
            add_ops(&small, t);
            sg_training_free(t);
        }
        for (int kind = 0; kind < SG_OP_KIND_COUNT; kind++)
            for (int fn = 0; fn < SG_FN_COUNT; fn++)
                if (full.has[kind][fn] && !small.has[kind][fn])
                    fail_msg("%s has %s %s, its small form has not", pairs[i].full, sg_op_kind_name((sg_op_kind)kind),
                             sg_fn_name((sg_fn)fn));
    }
}

static void test_they_are_small(void **state) {
    (void)state;
    for (int i = 0; i < N_SMALL; i++) {
        sg_training *t = build(SMALL[i], 0, NULL);
        double flops = 0;
        sg_counts counts = sg_count_program(t, sg_main_program(t));
        for (int p = 0; p < SG_PASS_COUNT; p++) flops += counts.pass[p].flops;
        assert_true(flops > 0 && flops <= 50e6);
        sg_training_free(t);
    }
}

/* ---- visits and memory -------------------------------------------------------------------------------------------------- */

typedef struct trace {
    uint64_t hash;
    sg_memory_peak peak;
} trace;

static trace walk(const sg_training *training, const sg_device_api *api, const sg_device_options *options) {
    sg_status status = {0};
    sg_device *device = NULL;
    sg_walker *walker = NULL;
    trace t;
    if (api->open(options, &device, &status) != SG_OK) fail_msg("%s", status.text);
    const sg_walk_options walk = {.api = api, .device = device, .seed = 9, .ranks = 1};
    if (sg_walker_open(training, &walk, &walker, &status) != SG_OK) fail_msg("%s", status.text);
    for (int i = 0; i < 3; i++)
        if (sg_walker_iteration(walker, NULL, &status) != SG_OK) fail_msg("%s: %s", api->kind, status.text);
    t.hash = sg_walker_visit_hash(walker);
    sg_walker_peak(walker, &t.peak);
    sg_walker_close(walker);
    api->close(device);
    return t;
}

static void expect_same(const trace *a, const trace *b, const char *policy, const char *what) {
    if (a->hash != b->hash) fail_msg("%s: cuda and %s visit other entries", policy, what);
    if (a->peak.allocated_bytes != b->peak.allocated_bytes || a->peak.reserved_bytes != b->peak.reserved_bytes ||
        a->peak.entry != b->peak.entry || memcmp(a->peak.by_role, b->peak.by_role, sizeof a->peak.by_role) != 0)
        fail_msg("%s: memory peaks of cuda (%llu, %llu) and %s (%llu, %llu) differ", policy,
                 (unsigned long long)a->peak.allocated_bytes, (unsigned long long)a->peak.reserved_bytes, what,
                 (unsigned long long)b->peak.allocated_bytes, (unsigned long long)b->peak.reserved_bytes);
}

static void test_visits_and_memory(void **state) {
    (void)state;
    sg_machine machine;
    sg_machine_init(&machine);
    machine.caching_allocator = machine.bf16 = machine.fp16 = machine.tf32 = true;
    machine.memory_bytes = UINT64_C(1) << 34;
    for (int i = 0; i < SG_M_COUNT; i++) machine.p[i].value = 1;
    for (int i = 0; i < N_SMALL; i++)
        for (int s = 0; s < 2; s++) {
            sg_training *t = build(SMALL[i], SETTING[s], NULL);
            trace real = walk(t, cuda, &(sg_device_options){0});
            trace reference = walk(t, sg_reference_device(), &(sg_device_options){.index = SG_REFERENCE_CACHING});
            trace priced = walk(t, sg_virtual_device(), &(sg_device_options){.machine = &machine});
            expect_same(&real, &reference, sg_small_name(SMALL[i]), "reference");
            expect_same(&real, &priced, sg_small_name(SMALL[i]), "virtual");
            sg_training_free(t);
        }
}

/* ---- numbers -------------------------------------------------------------------------------------------------------------- */

/* What storing in the training's own dtypes costs is seen with the reference, which rounds each result once. A device rounds
 * inside its sums too, so it may be some times as far from the exact result, not more. */
static const double TIMES_AS_FAR = 8;

static double coarsest(const sg_training *t) {
    double u = 0x1p-24;
    for (size_t i = 0; i < t->n_tensors; i++) {
        if (t->tensors[i].desc.dtype == SG_F16 && u < 0x1p-11) u = 0x1p-11;
        if (t->tensors[i].desc.dtype == SG_BF16) u = 0x1p-8;
    }
    /* products in tf32 round their operands to 11 bits, which the reference does not */
    for (size_t i = 0; i < t->n_ops; i++)
        if (t->ops[i].attrs.compute == SG_COMPUTE_TF32 && u < 0x1p-11) u = 0x1p-11;
    return u;
}

static void open_lab(sg_lab *lab, const sg_training *training, const sg_device_api *api, bool wide, bool ppo) {
    sg_lab_open(lab, training, &(sg_lab_options){.api = api, .wide = wide, .seed = 13, .main_program_only = ppo});
}

static void compare_numbers(sg_small which, int setting, const char *precision) {
    bool ppo = which == SG_SMALL_PPO;
    sg_training *t = sg_small_build(which, &SG_SMALL_SETTING[setting], &(sg_small_options){.precision = precision});
    sg_lab exact, rounded, real;
    open_lab(&exact, t, NULL, true, ppo);
    open_lab(&rounded, t, NULL, false, ppo);
    open_lab(&real, t, cuda, false, ppo);
    double storing = sg_lab_distance(&rounded, &exact), distance = sg_lab_distance(&real, &exact);
    double allowed = TIMES_AS_FAR * fmax(storing, coarsest(t));
    /* a loss scaled by 65536 makes some gradient infinite in fp16, on the reference too: then only the loss compares */
    if (isnan(storing) && precision && strcmp(precision, "fp16") == 0) allowed = distance = 0;
    double loss_allowed = TIMES_AS_FAR * fmax(fabs(rounded.value - exact.value), coarsest(t) * fabs(exact.value));
    if (!(distance <= allowed))
        fail_msg("%s, %s, %s: gradients are %.3g apart, %.3g allowed", sg_small_name(which),
                 SG_SMALL_SETTING[setting].name, precision ? precision : "own precision", distance, allowed);
    if (!(fabs(real.value - exact.value) <= loss_allowed))
        fail_msg("%s, %s: the loss is %.9g instead of %.9g", sg_small_name(which), SG_SMALL_SETTING[setting].name,
                 real.value, exact.value);
    sg_lab_close(&exact);
    sg_lab_close(&rounded);
    sg_lab_close(&real);
    sg_training_free(t);
}

static void test_numbers(void **state) {
    (void)state;
    for (int i = 0; i < N_SMALL; i++)
        for (int s = 0; s < 2; s++) {
            /* norms over a dozen values make more of what tf32 rounds: the CPU's lowering has none */
            int setting = SMALL[i] == SG_SMALL_DIFFUSION ? SETTING[s] + 1 : SETTING[s];
            compare_numbers(SMALL[i], setting, SMALL[i] == SG_SMALL_ACT ? "fp32" : NULL);
        }
}

static void test_precisions(void **state) {
    (void)state;
    static const char *const precisions[] = {"tf32", "bf16", "fp16", "bf16-pure"};
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) compare_numbers(SG_SMALL_ACT, 0, precisions[i]);
}

int main(void) {
    cuda = sg_test_device_api();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_of_full_policies), cmocka_unit_test(test_they_are_small),
        cmocka_unit_test(test_visits_and_memory),    cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_precisions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
