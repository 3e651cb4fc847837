/* Files that are replaced at once: never a device or a folder in their place, never a lost one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/durable_file.h"
#include "tests/support/scratch.h"

static void expect_content(const char *path, const char *text) {
    sg_status status;
    unsigned char *bytes = NULL;
    size_t n = 0;
    assert_int_equal(sg_file_read(path, 1 << 20, &bytes, &n, &status), SG_OK);
    assert_int_equal(n, strlen(text));
    assert_memory_equal(bytes, text, n);
    free(bytes);
}

static void test_no_device_is_replaced(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new();
    char fifo[128], link_name[128];
    (void)snprintf(fifo, sizeof fifo, "%s/fifo", s.path);
    (void)snprintf(link_name, sizeof link_name, "%s/link", s.path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink("fifo", link_name), 0);
    const char *const places[] = {fifo, link_name, s.path};
    for (size_t i = 0; i < 3; i++) {
        sg_status status = {0};
        assert_int_equal(sg_file_replace(places[i], "a", 1, "b", 1, &status), SG_BAD_INPUT);
        assert_non_null(strstr(status.text, i < 2 ? "no regular file" : "a folder"));
    }
    struct stat info;
    assert_int_equal(lstat(fifo, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    sg_scratch_free(&s);
}

static void test_text(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new();
    char path[128], nowhere[128];
    (void)snprintf(path, sizeof path, "%s/rows.csv", s.path);
    (void)snprintf(nowhere, sizeof nowhere, "%s/none/rows.csv", s.path);
    sg_scratch_file(&s, "rows.csv", "old");
    sg_text_writer w;
    sg_status status = {0};
    assert_int_equal(sg_text_open(path, &w, &status), SG_OK);
    assert_true(fputs("new\n", w.file) >= 0);
    expect_content(path, "old");
    sg_text_discard(&w);
    expect_content(path, "old");
    assert_int_equal(sg_text_open(path, &w, &status), SG_OK);
    assert_true(fputs("new\n", w.file) >= 0);
    assert_int_equal(sg_text_close(path, &w, &status), SG_OK);
    expect_content(path, "new\n");
    assert_int_equal(sg_text_open(nowhere, &w, &status), SG_OK);
    assert_int_equal(sg_text_close(nowhere, &w, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "its folder does not exist"));
    sg_scratch_free(&s);
}

/* A full disk: Linux has a device that always is. */
static void test_text_into_a_device(void **state) {
    (void)state;
    sg_text_writer w;
    sg_status status = {0};
    struct stat info;
    if (stat("/dev/full", &info) != 0 || !S_ISCHR(info.st_mode)) skip();
    assert_int_equal(sg_text_open("/dev/full", &w, &status), SG_OK);
    assert_true(fputs("text\n", w.file) >= 0);
    assert_int_equal(sg_text_close("/dev/full", &w, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "No space left"));
    assert_int_equal(stat("/dev/full", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

/* No room even for the lock: told, and no lock file stays. */
static void test_no_room_for_a_lock(void **state) {
    (void)state;
    sg_scratch s = sg_scratch_new();
    char path[128], lock_path[136];
    (void)snprintf(path, sizeof path, "%s/run.h5", s.path);
    (void)snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    struct rlimit usual;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    const struct rlimit nothing = {0, usual.rlim_max};
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &nothing), 0);
    sg_file_lock lock;
    sg_status status = {0};
    sg_code code = sg_file_lock_take(path, &lock, &status);
    (void)setrlimit(RLIMIT_FSIZE, &usual);
    (void)signal(SIGXFSZ, before);
    assert_int_equal(code, SG_MACHINE);
    assert_int_equal(access(lock_path, F_OK), -1);
    assert_int_equal(sg_file_lock_take(path, &lock, &status), SG_OK);
    sg_file_lock_release(&lock);
    assert_int_equal(access(lock_path, F_OK), -1);
    sg_scratch_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_device_is_replaced), cmocka_unit_test(test_text),
                                       cmocka_unit_test(test_text_into_a_device),
                                       cmocka_unit_test(test_no_room_for_a_lock)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
