/* The walker on a device that fails or runs out of memory, and with trainings that it must not believe. */
#include "tests/sim/walk_fixture.h"
#include "tests/support/small_policies.h"

/* Each call of the device fails once; the walker reports it, gives everything back, and goes on when asked again. */
static void fail_each_call(const sg_training *t, int kind, bool placed) {
    sg_device *d = reference_device(kind);
    for (int call = 0; call < SG_WATCH_ALL_REDUCE; call++) {
        bool reached = true;
        for (int64_t k = 1; reached; k++) {
            sg_watch watch = {.fail_call = (sg_watch_call)call, .fail_at = k, .fail_code = SG_MACHINE};
            sg_device *watched = sg_watch_open(&watch, sg_reference_device(), d);
            sg_walk_options o = {.api = sg_watch_api(), .device = watched, .placed_storages = placed};
            sg_walker *w = NULL;
            sg_status status = {0};
            sg_code code = sg_walker_open(t, &o, &w, &status);
            if (!code) {
                for (int i = 0; i < 2 && !code; i++) code = sg_walker_iteration(w, NULL, &status);
                if (code) {
                    sg_code again = sg_walker_iteration(w, NULL, NULL);
                    assert_int_equal(again, SG_OK);
                }
                sg_walker_close(w);
            } else {
                assert_null(w);
            }
            reached = watch.calls[call] >= k;
            if (reached && code) {
                assert_int_equal(code, SG_MACHINE);
                assert_non_null(strstr(status.text, "told to fail"));
            }
            if (reached && call != SG_WATCH_STREAM_WAIT) assert_int_equal(code, SG_MACHINE);
            assert_int_equal(watch.segments, 0);
            assert_int_equal(watch.segment_bytes, 0);
            assert_int_equal(watch.events, 0);
            assert_int_equal(watch.plans, 0);
            sg_watch_close(watched);
        }
    }
    sg_reference_device()->close(d);
}

static void every_failure_is_survived(void **unused) {
    (void)unused;
    sg_tiny *t = tiny(false, true);
    for (int kind = 0; kind < 2; kind++)
        for (int placed = 0; placed < 2; placed++) fail_each_call(&t->training, kind, placed);
    sg_tiny_free(t);
    sg_training *mlp = sg_small_build(SG_SMALL_MLP, &SG_SMALL_SETTING[0], &(sg_small_options){.accumulation = 2});
    fail_each_call(mlp, SG_REFERENCE_CPU, false);
    sg_training_free(mlp);
}

static void out_of_memory_is_an_answer(void **unused) {
    (void)unused;
    sg_tiny *t = tiny(false, false);
    sg_device *d = reference_device(SG_REFERENCE_CPU);
    int answers = 0;
    for (uint64_t limit = 256; limit < 8192; limit += 64) {
        sg_watch watch = {.limit_bytes = limit};
        sg_device *watched = sg_watch_open(&watch, sg_reference_device(), d);
        sg_walk_options o = {.api = sg_watch_api(), .device = watched};
        sg_walker *w;
        sg_status status = {0};
        sg_code code = sg_walker_open(&t->training, &o, &w, &status);
        if (!code) {
            code = sg_walker_iteration(w, NULL, &status);
            sg_walker_close(w);
        }
        assert_true(code == SG_OK || code == SG_NO);
        answers += code == SG_NO;
        assert_int_equal(watch.segments, 0);
        sg_watch_close(watched);
    }
    assert_true(answers > 10);
    sg_reference_device()->close(d);
    sg_tiny_free(t);
}

/* Tables that a walker must not believe. */
static void unsound_trainings_are_refused(void **unused) {
    (void)unused;
    sg_device *d = reference_device(SG_REFERENCE_CPU);
    for (int what = 0; what < 7; what++) {
        sg_tiny *t = tiny(false, false);
        sg_entry *entries = (sg_entry *)t->training.programs[1].entries;
        int32_t *args = (int32_t *)t->training.args;
        sg_tensor *tensors = (sg_tensor *)t->training.tensors;
        switch (what) {
        case 0: entries[1].index = 1000; break;
        case 1: entries[2].args = 100000; break;
        case 2: args[0] = -1; break;
        case 3: tensors[0].offset_bytes = 1; break;
        case 4: tensors[1].storage = 1000; break;
        case 5: entries[1].kind = SG_ENTRY_FREE; break;           /* the prediction is never allocated */
        default: entries[1].index = tensors[t->w].storage; break; /* weights have no lifetime */
        }
        sg_walk_options o = {.api = sg_reference_device(), .device = d};
        sg_walker *w = NULL;
        sg_status status = {0};
        sg_code code = sg_walker_open(&t->training, &o, &w, &status);
        if (!code) code = sg_walker_iteration(w, NULL, &status);
        assert_int_equal(code, SG_BAD_INPUT);
        assert_true(strlen(status.text) > 10);
        sg_walker_close(w);
        sg_tiny_free(t);
    }
    sg_tiny *t = tiny(false, false);
    sg_walker *w;
    assert_int_equal(sg_walker_open(&t->training,
                                    &(sg_walk_options){.api = sg_reference_device(), .device = d, .ranks = 2}, &w,
                                    NULL),
                     SG_BAD_INPUT); /* no communicator */
    assert_int_equal(sg_walker_open(&t->training,
                                    &(sg_walk_options){.api = sg_reference_device(), .device = d, .rank = 1}, &w, NULL),
                     SG_BAD_INPUT);
    sg_tiny_free(t);
    sg_reference_device()->close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failure_is_survived),
        cmocka_unit_test(out_of_memory_is_an_answer),
        cmocka_unit_test(unsound_trainings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
