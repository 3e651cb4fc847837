/* The walker: what it runs and with which memory; on the reference device and the virtual device. */
#include "tests/sim/walk_fixture.h"

typedef struct fixture {
    sg_tiny *tiny;
    const sg_device_api *api;
    sg_device *device;
    sg_walker *walker;
} fixture;

static fixture open_on_reference(sg_tiny *t, sg_walk_options o, int kind) {
    fixture f = {.tiny = t, .api = sg_reference_device(), .device = reference_device(kind)};
    o.api = f.api;
    o.device = f.device;
    sg_status status = {0};
    if (sg_walker_open(&t->training, &o, &f.walker, &status)) fail_msg("%s", status.text);
    return f;
}

static void close_fixture(fixture *f) {
    sg_walker_close(f->walker);
    f->api->close(f->device);
    sg_tiny_free(f->tiny);
}

static void iterate(fixture *f, sg_step_times *times) {
    sg_status status = {0};
    if (sg_walker_iteration(f->walker, times, &status)) fail_msg("%s", status.text);
}

static void read_tensor(const fixture *f, int32_t tensor, double *out, size_t n) {
    sg_status status = {0};
    if (sg_walker_read(f->walker, tensor, out, n, &status)) fail_msg("%s", status.text);
}

static double loss_of(const fixture *f) {
    double loss;
    read_tensor(f, f->tiny->loss, &loss, 1);
    return loss;
}

/* With fixed randomness a linear regression can only get better; with a new batch each step the loss moves. */
static void training_trains(void **unused) {
    (void)unused;
    for (int kind = 0; kind < 2; kind++) {
        fixture f = open_on_reference(tiny(false, true), (sg_walk_options){.seed = 3, .fixed_random = true}, kind);
        assert_int_equal(sg_walker_keep(f.walker, f.tiny->loss, NULL), SG_OK);
        iterate(&f, NULL);
        double first = loss_of(&f);
        for (int i = 0; i < 300; i++) iterate(&f, NULL);
        assert_true(loss_of(&f) < 0.5 * first);
        close_fixture(&f);
    }
    fixture f = open_on_reference(tiny(false, true), (sg_walk_options){.seed = 3, .learning_rate = 1e-12}, 0);
    (void)sg_walker_keep(f.walker, f.tiny->loss, NULL);
    iterate(&f, NULL);
    double first = loss_of(&f);
    iterate(&f, NULL);
    assert_true(fabs(loss_of(&f) - first) > 1e-6); /* another batch, another mask */
    close_fixture(&f);
}

/* The values that a step of AdamW on this loss must give, computed here from what the walker reports of its tensors. */
static void one_step_is_right(void **unused) {
    (void)unused;
    fixture f = open_on_reference(tiny(false, false), (sg_walk_options){.seed = 5}, 0);
    double w[WEIGHTS], x[BATCH * FEATURES], y[BATCH * OUTPUTS], g[WEIGHTS], after[WEIGHTS], loss = 0;
    read_tensor(&f, f.tiny->w, w, WEIGHTS);
    (void)sg_walker_keep(f.walker, f.tiny->gradient, NULL);
    (void)sg_walker_keep(f.walker, f.tiny->loss, NULL);
    iterate(&f, NULL);
    read_tensor(&f, f.tiny->x, x, BATCH * FEATURES);
    read_tensor(&f, f.tiny->y, y, BATCH * OUTPUTS);
    read_tensor(&f, f.tiny->gradient, g, WEIGHTS);
    read_tensor(&f, f.tiny->w, after, WEIGHTS);
    double expected[WEIGHTS] = {0};
    for (int b = 0; b < BATCH; b++)
        for (int o = 0; o < OUTPUTS; o++) {
            double p = -y[b * OUTPUTS + o];
            for (int i = 0; i < FEATURES; i++) p += x[b * FEATURES + i] * w[i * OUTPUTS + o];
            loss += p * p / (BATCH * OUTPUTS);
            for (int i = 0; i < FEATURES; i++)
                expected[i * OUTPUTS + o] += 2 * p * x[b * FEATURES + i] / (BATCH * OUTPUTS);
        }
    assert_true(fabs(loss_of(&f) - loss) < 1e-6);
    for (int i = 0; i < WEIGHTS; i++) {
        assert_true(fabs(g[i] - expected[i]) < 1e-6);
        /* first step of Adam: lr x sign */
        assert_true(fabs(after[i] - (w[i] - 0.01 * copysign(1, expected[i]))) < 1e-5);
    }
    for (int i = 0; i < BATCH * FEATURES; i++) assert_true(x[i] >= -1 && x[i] < 1);
    for (int i = 0; i < BATCH * OUTPUTS; i++) assert_true(y[i] >= 0 && y[i] < 2);
    close_fixture(&f);
}

static void learning_rate_is_overridden(void **unused) {
    (void)unused;
    fixture f = open_on_reference(tiny(false, false), (sg_walk_options){.seed = 5, .learning_rate = 0.5}, 0);
    double before[WEIGHTS], after[WEIGHTS];
    read_tensor(&f, f.tiny->w, before, WEIGHTS);
    iterate(&f, NULL);
    read_tensor(&f, f.tiny->w, after, WEIGHTS);
    for (int i = 0; i < WEIGHTS; i++) assert_true(fabs(fabs(after[i] - before[i]) - 0.5) < 1e-3);
    close_fixture(&f);
}

/* Rank r of N sees the r-th slice of what one process with the N-fold batch sees, and starts with equal weights. */
static void ranks_share_one_stream_of_samples(void **unused) {
    (void)unused;
    sg_tiny_options o = {.batch = 2 * BATCH, .features = FEATURES, .outputs = OUTPUTS, .dropout = true, .lr = 0.01};
    fixture whole = open_on_reference(sg_tiny_new(&o), (sg_walk_options){.seed = 9}, 0);
    double x[2 * BATCH * FEATURES], w[WEIGHTS], mask[2 * BATCH * FEATURES];
    (void)sg_walker_keep(whole.walker, whole.tiny->mask, NULL);
    read_tensor(&whole, whole.tiny->w, w, WEIGHTS);
    iterate(&whole, NULL);
    iterate(&whole, NULL);
    read_tensor(&whole, whole.tiny->x, x, 2 * BATCH * FEATURES);
    read_tensor(&whole, whole.tiny->mask, mask, 2 * BATCH * FEATURES);
    for (int r = 0; r < 2; r++) {
        sg_comm *nobody = (sg_comm *)&o; /* never used: no gradient leaves without GRAD_READY entries */
        sg_device_api api = *sg_reference_device();
        if (!api.all_reduce_mean) api.all_reduce_mean = sg_watch_api()->all_reduce_mean;
        sg_tiny *t = tiny(false, true);
        fixture f = {.tiny = t, .api = &api, .device = reference_device(0)};
        sg_walk_options options = {.api = &api, .device = f.device, .seed = 9, .rank = r, .ranks = 2, .comm = nobody};
        assert_int_equal(sg_walker_open(&t->training, &options, &f.walker, NULL), SG_OK);
        double part[BATCH * FEATURES], own[WEIGHTS];
        (void)sg_walker_keep(f.walker, t->mask, NULL);
        read_tensor(&f, t->w, own, WEIGHTS);
        assert_memory_equal(own, w, sizeof w);
        iterate(&f, NULL);
        iterate(&f, NULL);
        read_tensor(&f, t->x, part, BATCH * FEATURES);
        assert_memory_equal(part, x + (ptrdiff_t)r * BATCH * FEATURES, sizeof part);
        read_tensor(&f, t->mask, part, BATCH * FEATURES);
        assert_memory_equal(part, mask + (ptrdiff_t)r * BATCH * FEATURES, sizeof part);
        close_fixture(&f);
    }
    close_fixture(&whole);
}

static void reading_and_writing(void **unused) {
    (void)unused;
    fixture f = open_on_reference(tiny(false, false), (sg_walk_options){.seed = 1}, 0);
    double w[WEIGHTS], back[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) w[i] = i + 0.5;
    assert_int_equal(sg_walker_write(f.walker, f.tiny->w, w, WEIGHTS, NULL), SG_OK);
    read_tensor(&f, f.tiny->w, back, WEIGHTS);
    assert_memory_equal(w, back, sizeof w);
    sg_status status = {0};
    assert_int_equal(sg_walker_read(f.walker, f.tiny->w, back, 3, &status), SG_BAD_INPUT);
    assert_int_equal(sg_walker_read(f.walker, 1000, back, 1, &status), SG_BAD_INPUT);
    assert_int_equal(sg_walker_read(f.walker, -1, back, 1, &status), SG_BAD_INPUT);
    assert_int_equal(sg_walker_read(f.walker, f.tiny->loss, back, 1, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "not live"));
    assert_int_equal(sg_walker_read(f.walker, f.tiny->exp_avg, back, WEIGHTS, &status), SG_BAD_INPUT); /* not born */
    iterate(&f, NULL);
    read_tensor(&f, f.tiny->exp_avg, back, WEIGHTS);
    assert_int_equal(sg_walker_keep(f.walker, 1000, NULL), SG_BAD_INPUT);
    assert_int_equal(sg_walker_program(f.walker, 7, NULL), SG_BAD_INPUT);
    assert_int_equal(sg_walker_program(f.walker, 0, NULL), SG_OK);
    assert_int_equal(sg_walker_program(f.walker, 1, NULL), SG_OK);
    close_fixture(&f);
}

/* Peak of the hand-made program: everything that lives when the backward's gradient of w appears. */
static void peaks_are_found(void **unused) {
    (void)unused;
    fixture f = open_on_reference(tiny(false, false), (sg_walk_options){.seed = 1}, SG_REFERENCE_CPU);
    iterate(&f, NULL);
    sg_memory_peak peak;
    sg_walker_peak(f.walker, &peak);
    const uint64_t x = 4 * BATCH * FEATURES, y = 4 * BATCH * OUTPUTS, w = 4 * WEIGHTS;
    /* first iteration: optimizer state is born at its first step, when loss, gradient and weights are live */
    uint64_t forward = x + y + w + 2 * y + 4;
    uint64_t optimizer = x + y + w + 4 + w + 2 * w;
    assert_int_equal(peak.allocated_bytes, forward > optimizer ? forward : optimizer);
    assert_int_equal(peak.reserved_bytes, peak.allocated_bytes);
    sg_walker_reset_peak(f.walker);
    iterate(&f, NULL);
    sg_walker_peak(f.walker, &peak);
    assert_int_equal(peak.allocated_bytes, forward + 2 * w);
    assert_int_equal(peak.program, f.tiny->update);
    assert_int_equal(peak.pass, SG_PASS_FORWARD);
    assert_int_equal(peak.module, 1);
    assert_int_equal(peak.by_role[SG_ROLE_WEIGHT], w);
    assert_int_equal(peak.by_role[SG_ROLE_OPTIMIZER], 2 * w);
    assert_int_equal(peak.by_role[SG_ROLE_BATCH], x + y);
    uint64_t sum = 0;
    for (int i = 0; i < SG_ROLE_COUNT; i++) sum += peak.by_role[i];
    assert_int_equal(sum, peak.allocated_bytes);
    close_fixture(&f);
}

/* Reference and virtual walks visit the same entries with the same peaks, to the byte. */
static void devices_agree(void **unused) {
    (void)unused;
    fixture f = open_on_reference(tiny(false, true), (sg_walk_options){.seed = 1}, SG_REFERENCE_CACHING);
    sg_machine m = machine();
    m.caching_allocator = true;
    sg_device *d;
    assert_int_equal(sg_virtual_device()->open(&(sg_device_options){.machine = &m}, &d, NULL), SG_OK);
    sg_walker *v;
    sg_status status = {0};
    sg_walk_options o = {.api = sg_virtual_device(), .device = d, .seed = 1};
    if (sg_walker_open(&f.tiny->training, &o, &v, &status)) fail_msg("%s", status.text);
    for (int i = 0; i < 2; i++) {
        iterate(&f, NULL);
        assert_int_equal(sg_walker_iteration(v, NULL, &status), SG_OK);
    }
    assert_true(sg_walker_visit_hash(f.walker) == sg_walker_visit_hash(v));
    sg_memory_peak a, b;
    sg_walker_peak(f.walker, &a);
    sg_walker_peak(v, &b);
    assert_int_equal(a.allocated_bytes, b.allocated_bytes);
    assert_int_equal(a.reserved_bytes, b.reserved_bytes);
    assert_int_equal(a.entry, b.entry);
    assert_memory_equal(a.by_role, b.by_role, sizeof a.by_role);
    double x;
    assert_int_equal(sg_walker_read(v, f.tiny->w, &x, 1, &status), SG_BAD_INPUT); /* nothing behind its addresses */
    sg_walker_close(v);
    sg_virtual_device()->close(d);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_trains),
        cmocka_unit_test(one_step_is_right),
        cmocka_unit_test(learning_rate_is_overridden),
        cmocka_unit_test(ranks_share_one_stream_of_samples),
        cmocka_unit_test(reading_and_writing),
        cmocka_unit_test(peaks_are_found),
        cmocka_unit_test(devices_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
