/* The finder of CUDA libraries in fake trees: wheels of both layouts, conda, toolkit; what is missing; mixes of majors.
 * The machine's own libraries must not be seen where one is to be missing, so the system's places are others there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/nvidia/libraries.h"
#include "tests/support/scratch.h"

static const char OF_CUDA13[] = SG_BINARY_DIR "/emulation/libraries/library_of_cuda13.so";
static const char OF_CUDA12[] = SG_BINARY_DIR "/emulation/libraries/library_of_cuda12.so";
static const char *const FILES[] = {"libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libcurand.so.10",
                                    "libnccl.so.2"};
enum { N = SG_CUDA_LIBRARY_COUNT };

static void put(const sg_scratch *s, const char *folder, const char *file, const char *library) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    sg_scratch_link(s, path, library);
}

static void put_all(const sg_scratch *s, const char *folder) {
    for (int i = 0; i < N; i++) put(s, folder, FILES[i], OF_CUDA13);
}

static sg_scratch start(void) {
    static const char *const variables[] = {"STEPGAUGE_CUDA_LIBS", "VIRTUAL_ENV", "CONDA_PREFIX"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) assert_int_equal(unsetenv(variables[i]), 0);
    return sg_scratch_new();
}

static void expect_path(const sg_cuda_libraries *found, sg_cuda_library which, const sg_scratch *s, const char *below) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", s->path, below);
    assert_string_equal(found->path[which], path);
}

static sg_code find_alone(const char *dir, sg_cuda_libraries *found, sg_status *status) {
    static const sg_cuda_places NOWHERE = {"/nowhere", false};
    return sg_cuda_libraries_find_in(&NOWHERE, dir, found, status);
}

/* All five in `folder` of the tree, which is named by `dir` in it. */
static void expect_all_from(const char *folder, const char *dir) {
    sg_scratch s = start();
    sg_cuda_libraries found;
    sg_status status = {0};
    char named[256], below[256];
    put_all(&s, folder);
    (void)snprintf(named, sizeof named, "%s/%s", s.path, dir);
    if (sg_cuda_libraries_find(named, &found, &status)) fail_msg("%s", status.text);
    for (int i = 0; i < N; i++) {
        (void)snprintf(below, sizeof below, "%s/%s", folder, FILES[i]);
        expect_path(&found, (sg_cuda_library)i, &s, below);
    }
    sg_scratch_free(&s);
}

static void folders_that_are_named(void **unused) {
    (void)unused;
    expect_all_from("cuda/lib64", "cuda/lib64");
    expect_all_from("cuda/lib64", "cuda");
    expect_all_from("cuda/lib", "cuda");
    expect_all_from("cuda/targets/x86_64-linux/lib", "cuda");
    expect_all_from("site-packages/nvidia/cu13/lib", "site-packages/nvidia");
    expect_all_from("site-packages/nvidia/cu13/lib", "site-packages");
    expect_all_from("env/lib/python3.12/site-packages/nvidia/cu13/lib", "env");
    expect_all_from("odd [a]*?\\ name/lib", "odd [a]*?\\ name");
}

static void put_wheels(const sg_scratch *s, const char *nvidia) {
    static const char *const folders[N] = {"cublas", "cublas", "cudnn", "curand", "nccl"};
    char folder[256];
    for (int i = 0; i < N; i++) {
        (void)snprintf(folder, sizeof folder, "%s/%s/lib", nvidia, folders[i]);
        put(s, folder, FILES[i], OF_CUDA13);
    }
}

static void environments(void **unused) {
    (void)unused;
    static const char *const variables[] = {"STEPGAUGE_CUDA_LIBS", "VIRTUAL_ENV", "CONDA_PREFIX"};
    for (size_t v = 0; v < 3; v++) {
        sg_scratch s = start();
        sg_cuda_libraries found;
        sg_status status = {0};
        put_wheels(&s, "lib/python3.10/site-packages/nvidia"); /* one folder per library, as before CUDA 13 */
        assert_int_equal(setenv(variables[v], s.path, 1), 0);
        if (find_alone(NULL, &found, &status)) fail_msg("%s", status.text);
        expect_path(&found, SG_CUDA_CUDNN, &s, "lib/python3.10/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
        expect_path(&found, SG_CUDA_CUBLASLT, &s, "lib/python3.10/site-packages/nvidia/cublas/lib/libcublasLt.so.13");
        sg_scratch_free(&s);
        /* conda puts them into its own lib */
        if (v == 0) continue;
        s = start();
        put_all(&s, "lib");
        assert_int_equal(setenv(variables[v], s.path, 1), 0);
        if (find_alone(NULL, &found, &status)) fail_msg("%s", status.text);
        expect_path(&found, SG_CUDA_CURAND, &s, "lib/libcurand.so.10");
        sg_scratch_free(&s);
    }
}

/* The named folder comes before the variable, that before environments; each library by itself. */
static void the_first_place_wins(void **unused) {
    (void)unused;
    sg_scratch s = start();
    sg_cuda_libraries found;
    sg_status status = {0};
    char named[128], variable[128], environment[128];
    put(&s, "named", FILES[SG_CUDA_CURAND], OF_CUDA13);
    put(&s, "variable", FILES[SG_CUDA_CURAND], OF_CUDA13);
    put(&s, "variable", FILES[SG_CUDA_CUBLAS], OF_CUDA13);
    put(&s, "variable", FILES[SG_CUDA_CUBLASLT], OF_CUDA13);
    put(&s, "named", FILES[SG_CUDA_CUBLASLT], OF_CUDA13);
    put_all(&s, "environment/lib");
    (void)snprintf(named, sizeof named, "%s/named/", s.path);
    (void)snprintf(variable, sizeof variable, "%s/variable", s.path);
    (void)snprintf(environment, sizeof environment, "%s/environment", s.path);
    assert_int_equal(setenv("STEPGAUGE_CUDA_LIBS", variable, 1), 0);
    assert_int_equal(setenv("CONDA_PREFIX", environment, 1), 0);
    if (find_alone(named, &found, &status)) fail_msg("%s", status.text);
    expect_path(&found, SG_CUDA_CURAND, &s, "named//libcurand.so.10");
    expect_path(&found, SG_CUDA_CUBLAS, &s, "variable/libcublas.so.13");
    expect_path(&found, SG_CUDA_CUBLASLT, &s, "variable/libcublasLt.so.13"); /* beside its cuBLAS */
    expect_path(&found, SG_CUDA_NCCL, &s, "environment/lib/libnccl.so.2");
    sg_scratch_free(&s);
}

static void folders_that_are_none(void **unused) {
    (void)unused;
    sg_scratch s = start();
    sg_cuda_libraries found;
    sg_status status = {0};
    sg_scratch_file(&s, "file", "");
    char path[128];
    (void)snprintf(path, sizeof path, "%s/file", s.path);
    assert_int_equal(sg_cuda_libraries_find(path, &found, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "--cuda-libs"));
    assert_non_null(strstr(status.text, "is no folder"));
    (void)snprintf(path, sizeof path, "%s/missing", s.path);
    assert_int_equal(setenv("STEPGAUGE_CUDA_LIBS", path, 1), 0);
    assert_int_equal(sg_cuda_libraries_find(NULL, &found, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "STEPGAUGE_CUDA_LIBS"));
    sg_scratch_free(&s);
}

/* ---- versions and opening ---- */

static void versions(void **unused) {
    (void)unused;
    static const char *const expected[N] = {"13.0.2", "13.0.2", "9.13.0", "10.4.0", "2.28.3"};
    static const int cuda[N] = {13, 13, 13, 0, 0};
    sg_scratch s = start();
    sg_cuda_libraries found;
    sg_status status = {0};
    put_all(&s, "lib");
    if (sg_cuda_libraries_find(s.path, &found, &status)) fail_msg("%s", status.text);
    if (sg_cuda_libraries_versions(&found, &status)) fail_msg("%s", status.text);
    for (int i = 0; i < N; i++) {
        assert_string_equal(found.version[i], expected[i]);
        assert_int_equal(found.cuda[i], cuda[i]);
    }
    sg_scratch_free(&s);
}

/* cuDNN keeps its name from CUDA 12 to 13: only asking it tells. */
static void a_mix_inside(void **unused) {
    (void)unused;
    sg_scratch s = start();
    sg_cuda_libraries found;
    sg_status status = {0};
    for (int i = 0; i < N; i++) put(&s, "lib", FILES[i], i == SG_CUDA_CUDNN ? OF_CUDA12 : OF_CUDA13);
    assert_int_equal(sg_cuda_libraries_find(s.path, &found, &status), SG_OK);
    assert_int_equal(sg_cuda_libraries_versions(&found, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, found.path[SG_CUDA_CUDNN]));
    assert_non_null(strstr(status.text, found.path[SG_CUDA_CUBLAS]));
    assert_non_null(strstr(status.text, "built for CUDA 12"));
    assert_non_null(strstr(status.text, "nvidia-cudnn-cu13"));
    sg_scratch_free(&s);
}

static void libraries_that_do_not_load(void **unused) {
    (void)unused;
    sg_scratch s = start();
    sg_cuda_libraries found;
    sg_status status = {0};
    void *handle;
    for (int i = 0; i < N; i++)
        if (i != SG_CUDA_CUDNN) put(&s, "lib", FILES[i], OF_CUDA13);
    sg_scratch_file(&s, "lib/libcudnn.so.9", "no library");
    assert_int_equal(sg_cuda_libraries_find(s.path, &found, &status), SG_OK);
    assert_int_equal(sg_cuda_library_open(&found, SG_CUDA_CUDNN, &handle, &status), SG_MACHINE);
    assert_null(handle);
    assert_non_null(strstr(status.text, "cannot load cuDNN"));
    assert_int_equal(sg_cuda_libraries_versions(&found, &status), SG_MACHINE);
    assert_int_equal(sg_cuda_library_open(&found, SG_CUDA_CUBLAS, &handle, &status), SG_OK);
    assert_non_null(handle);
    found.path[SG_CUDA_NCCL][0] = '\0';
    assert_int_equal(sg_cuda_library_open(&found, SG_CUDA_NCCL, &handle, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "nvidia-nccl-cu13"));
    sg_scratch_free(&s);
}

/* ---- what is missing ---- */

static void missing_ones_are_named(void **unused) {
    (void)unused;
    sg_scratch s = start();
    sg_cuda_libraries found;
    sg_status status = {0};
    put(&s, "lib", FILES[SG_CUDA_CUBLAS], OF_CUDA13);
    assert_int_equal(find_alone(s.path, &found, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "libcublasLt.so.13"));
    assert_null(strstr(status.text, "libcudnn")); /* convolutions go without */
    assert_null(strstr(status.text, "libcurand"));
    assert_non_null(strstr(status.text, s.path));
    assert_non_null(strstr(status.text, "pip install nvidia-cublas"));
    assert_non_null(strstr(status.text, "libcublas-13-0"));
    assert_true(found.path[SG_CUDA_CUBLAS][0] && !found.path[SG_CUDA_CUDNN][0]);
    assert_int_equal(find_alone(NULL, &found, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "libcublas.so.13, libcublasLt.so.13 ("));
    assert_non_null(strstr(status.text, "pip install nvidia-cublas into"));
    /* links that lead nowhere, in circles, to a folder, and files that may not be read are no libraries */
    put(&s, "odd", "libcublas.so.13", "libcublas.so.13");
    put(&s, "odd", "libcublasLt.so.13", "/nowhere/libcublasLt.so.13");
    sg_scratch_folder(&s, "odd/libcudnn.so.9");
    sg_scratch_link(&s, "odd/lib", ".");
    char odd[128];
    (void)snprintf(odd, sizeof odd, "%s/odd", s.path);
    assert_int_equal(find_alone(odd, &found, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "libcublas.so.13, libcublasLt.so.13 ("));
    assert_true(!found.path[SG_CUDA_CUDNN][0]);
    sg_scratch_free(&s);
}

static void another_major(void **unused) {
    (void)unused;
    sg_scratch s = start();
    sg_cuda_libraries found;
    sg_status status = {0};
    char other[128];
    put(&s, "nvidia/cublas/lib", "libcublas.so.12", OF_CUDA12);
    put(&s, "nvidia/cublas/lib", "libcublasLt.so.12", OF_CUDA12);
    assert_int_equal(find_alone(s.path, &found, &status), SG_MACHINE);
    (void)snprintf(other, sizeof other, "of CUDA 12 (%s/nvidia/cublas/lib/libcublas.so.12)", s.path);
    assert_non_null(strstr(status.text, other));
    put(&s, "nvidia/curand/lib", FILES[SG_CUDA_CURAND], OF_CUDA13);
    assert_int_equal(find_alone(s.path, &found, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "libcublas.so.12), beside "));
    assert_non_null(strstr(status.text, "nvidia/curand/lib/libcurand.so.10"));
    assert_non_null(strstr(status.text, "needs CUDA 13"));
    /* beside ours it is in nobody's way */
    put(&s, "nvidia/cu13/lib", FILES[SG_CUDA_CUBLAS], OF_CUDA13);
    put(&s, "nvidia/cu13/lib", FILES[SG_CUDA_CUBLASLT], OF_CUDA13);
    assert_int_equal(find_alone(s.path, &found, &status), SG_OK);
    sg_scratch_free(&s);
}

/* The system's places: several toolkits, one of another major first in the alphabet. */
static void toolkits(void **unused) {
    (void)unused;
    sg_scratch s = start();
    sg_cuda_libraries found;
    sg_status status = {0};
    const sg_cuda_places places = {s.path, false};
    put(&s, "cuda-12.8/lib64", "libcublas.so.12", OF_CUDA12);
    assert_int_equal(sg_cuda_libraries_find_in(&places, NULL, &found, &status), SG_MACHINE);
    assert_int_equal(found.other_major, 12);
    put_all(&s, "cuda-13.0/targets/x86_64-linux/lib");
    assert_int_equal(sg_cuda_libraries_find_in(&places, NULL, &found, &status), SG_OK);
    expect_path(&found, SG_CUDA_CUBLAS, &s, "cuda-13.0/targets/x86_64-linux/lib/libcublas.so.13");
    sg_scratch_link(&s, "cuda-13.0/lib64", "targets/x86_64-linux/lib");
    sg_scratch_link(&s, "cuda", "cuda-13.0");
    assert_int_equal(sg_cuda_libraries_find_in(&places, NULL, &found, &status), SG_OK);
    expect_path(&found, SG_CUDA_CUBLAS, &s, "cuda/lib64/libcublas.so.13");
    sg_scratch_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_that_are_named),
        cmocka_unit_test(environments),
        cmocka_unit_test(the_first_place_wins),
        cmocka_unit_test(folders_that_are_none),
        cmocka_unit_test(versions),
        cmocka_unit_test(a_mix_inside),
        cmocka_unit_test(libraries_that_do_not_load),
        cmocka_unit_test(missing_ones_are_named),
        cmocka_unit_test(another_major),
        cmocka_unit_test(toolkits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
