/* Host memory may end at any allocation: the graph then fails with a sentence, leaks nothing and crashes nowhere. */
#include "tests/models/failing_memory.h"
#include "tests/models/graph_fixture.h"

#include <stdio.h>

static sg_code build(sg_training **t, sg_status *status) {
    sg_profile profile = sg_profile_make(SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA);
    sg_graph *g = sg_graph_new(&profile, 2, 1, 1, status);
    if (!g) return status->code;
    sg_tid x = input(g, 2, N(4, 8)), rows[4];
    int32_t update = sg_program_begin(g, "update");
    for (int i = 0; i < 40; i++) {
        sg_module_begin(g, "layer%d", i);
        sg_tid w = weight(g, "w", 2, N(8, 8)), b = weight(g, "b", 1, N(8));
        sg_unbind(g, sg_relu(g, sg_linear(g, x, w, b), true), 0, rows);
        x = sg_stack(g, 4, rows, 0);
        sg_hold_forward(g, x);
        sg_hold_program(g, w);
        sg_module_end(g);
    }
    sg_backward(g, sg_mean_all(g, x), true, true);
    sg_optimizer_step(g, &ADAMW);
    sg_program_end(g);
    sg_block_begin(g, "step", 1);
    sg_block_program(g, update);
    sg_block_end(g);
    return sg_graph_finish(g, t, status);
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    if (!failing_is_possible()) skip();
    for (long n = 0;; n++) {
        sg_training *t = NULL;
        sg_status status = {0};
        long before = blocks_in_use();
        fail_after(n);
        sg_code code = build(&t, &status);
        fail_after(-1);
        if (code == SG_OK) {
            assert_true(n > 100);
            sg_training_free(t);
            assert_int_equal(blocks_in_use(), before);
            return;
        }
        assert_int_equal(code, SG_MACHINE);
        assert_null(t);
        assert_int_equal(blocks_in_use(), before);
        if (!strstr(status.text, "cannot allocate")) fail_msg("after %ld allocations: %s", n, status.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_allocation_may_fail)};
    return cmocka_run_group_tests_name("graph memory", tests, NULL, NULL);
}
