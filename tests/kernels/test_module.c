#include "kernels/module.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* A fresh folder that STEPGAUGE_MODULES points to. */
static int enter_folder(void **state) {
    static char folder[64];
    (void)snprintf(folder, sizeof folder, "/tmp/sg_module_XXXXXX");
    if (!mkdtemp(folder)) return -1;
    *state = folder;
    return setenv("STEPGAUGE_MODULES", folder, 1);
}

static void path_in(char *path, size_t bytes, const char *folder, const char *name) {
    (void)snprintf(path, bytes, "%s/stepgauge_%s.so", folder, name);
}

static int leave_folder(void **state) {
    static const char *const names[] = {"broken", "cuda", "other"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        path_in(path, sizeof path, *state, names[i]);
        (void)unlink(path);
    }
    return rmdir(*state);
}

static void test_missing_module_names_the_places(void **state) {
    const sg_device_api *api = (const sg_device_api *)1;
    sg_status status = {0};
    assert_int_equal(sg_module_device("absent", &api, &status), SG_MACHINE);
    assert_null(api);
    assert_non_null(strstr(status.text, *state));
    assert_non_null(strstr(status.text, "/modules/stepgauge_absent.so"));
    assert_non_null(strstr(status.text, "/lib/stepgauge/stepgauge_absent.so"));
    const sg_transport_api *transport = NULL;
    assert_int_equal(sg_module_transport("absent", &transport, &status), SG_MACHINE);
    assert_int_equal(sg_module_device("../escape", &api, &status), SG_BAD_INPUT);
    assert_int_equal(sg_module_device("", &api, &status), SG_BAD_INPUT);
}

/* The driver may well be there: what is missing is the module. */
static void test_missing_cuda_module_blames_the_build(void **state) {
    const sg_device_api *api = NULL;
    sg_status status = {0};
    char path[128];
    path_in(path, sizeof path, *state, "cuda");
    FILE *file = fopen(path, "w"); /* not what the build may have beside the program */
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(sg_module_device("cuda", &api, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "take a build that has it"));
    assert_null(strstr(status.text, "driver"));
}

static void test_broken_module_is_reported(void **state) {
    char path[128];
    path_in(path, sizeof path, *state, "broken");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("no shared object", file) >= 0);
    assert_int_equal(fclose(file), 0);
    const sg_device_api *api = NULL;
    sg_status status = {0};
    assert_int_equal(sg_module_device("broken", &api, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "cannot load module broken"));
}

/* A shared object that loads but is no module: the C library's own maths. */
static void test_foreign_library_is_refused(void **state) {
    char path[128];
    path_in(path, sizeof path, *state, "other");
    static const char *const maths[] = {"/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6", "/usr/lib/libm.so.6"};
    const char *found = NULL;
    for (int i = 0; i < 3 && !found; i++)
        if (access(maths[i], R_OK) == 0) found = maths[i];
    if (!found) {
        skip();
        return;
    }
    assert_int_equal(symlink(found, path), 0);
    const sg_device_api *api = NULL;
    sg_status status = {0};
    assert_int_equal(sg_module_device("other", &api, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "does not export sg_device_module"));
    const sg_transport_api *transport = NULL;
    assert_int_equal(sg_module_transport("other", &transport, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "does not export sg_transport_module"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_missing_module_names_the_places, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(test_broken_module_is_reported, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(test_missing_cuda_module_blames_the_build, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(test_foreign_library_is_refused, enter_folder, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
