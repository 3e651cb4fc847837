/* Children with limits: their answers, every way in which they die of a file, and what they hold open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "formats/child.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static const sg_child_limits tight = {.memory_bytes = 64u << 20, .cpu_s = 1, .wall_s = 5, .answer_bytes = 1u << 20};

static sg_code run(sg_child_work work, void *user, const sg_child_limits *limits, sg_bytes *answer, sg_status *status) {
    *answer = (sg_bytes){0};
    return sg_child_run("clip.mp4", work, user, limits, &answer->data, &answer->n, status);
}

static void fails(sg_child_work work, const sg_child_limits *limits, sg_code code, const char *says) {
    sg_bytes answer;
    sg_status status;
    sg_code got = run(work, NULL, limits, &answer, &status);
    if (got != code) fail_msg("code %d instead of %d: %s", (int)got, (int)code, got == SG_OK ? "" : status.text);
    if (!strstr(status.text, says)) fail_msg("'%s' does not say '%s'", status.text, says);
    assert_null(answer.data);
    assert_int_equal(answer.n, 0);
}

static sg_code count_up(void *user, sg_bytes *answer, sg_status *status) {
    (void)status;
    int n = *(int *)user;
    for (int i = 0; i < n; i++)
        if (!sg_bytes_add(answer, &i, sizeof i)) return SG_MACHINE;
    *(int *)user = -1; /* in the child's memory alone */
    return SG_OK;
}

static void answers(void **state) {
    (void)state;
    static const int sizes[] = {0, 1, 200000};
    for (size_t k = 0; k < 3; k++) {
        int n = sizes[k];
        sg_bytes answer;
        sg_status status;
        assert_int_equal(run(count_up, &n, &tight, &answer, &status), SG_OK);
        assert_int_equal(n, sizes[k]);
        assert_int_equal(answer.n, (size_t)n * sizeof(int));
        for (int i = 0; i < n; i++) {
            int value;
            memcpy(&value, answer.data + (size_t)i * sizeof value, sizeof value);
            assert_int_equal(value, i);
        }
        free(answer.data);
    }
}

static sg_code refuse(void *user, sg_bytes *answer, sg_status *status) {
    (void)user;
    (void)sg_bytes_add(answer, "half", 4);
    return sg_fail(status, SG_BAD_INPUT, "clip.mp4 holds no picture");
}

static sg_code miss(void *user, sg_bytes *answer, sg_status *status) {
    (void)user;
    (void)answer;
    return sg_fail(status, SG_MACHINE, "no library");
}

static sg_code crash(void *user, sg_bytes *answer, sg_status *status) {
    (void)user;
    (void)status;
    (void)sg_bytes_add(answer, "half", 4);
    (void)raise(SIGSEGV);
    return SG_OK;
}

static sg_code starve(void *user, sg_bytes *answer, sg_status *status) {
    (void)user;
    (void)status;
    (void)sg_bytes_add(answer, "half", 4);
    (void)raise(SIGKILL); /* what the kernel sends where memory runs out */
    return SG_OK;
}

static sg_code leave(void *user, sg_bytes *answer, sg_status *status) {
    (void)user;
    (void)answer;
    (void)status;
    _exit(7);
}

static sg_code spin(void *user, sg_bytes *answer, sg_status *status) {
    (void)answer;
    (void)status;
    for (volatile unsigned i = 0;; i++)
        if (user) break;
    return SG_OK;
}

static sg_code sleep_on(void *user, sg_bytes *answer, sg_status *status) {
    (void)user;
    (void)answer;
    (void)status;
    (void)sleep(60);
    return SG_OK;
}

static sg_code flood(void *user, sg_bytes *answer, sg_status *status) {
    (void)user;
    static const char piece[4096];
    while (sg_bytes_add(answer, piece, sizeof piece)) {
    }
    answer->limit *= 4; /* as a child would that an attacker has taken over */
    for (int i = 0; i < 300; i++)
        if (!sg_bytes_add(answer, piece, sizeof piece)) return sg_fail(status, SG_MACHINE, "no memory");
    return SG_OK;
}

static sg_code hoard(void *user, sg_bytes *answer, sg_status *status) {
    (void)user;
    (void)answer;
    for (int i = 0; i < 64; i++)
        if (!malloc((size_t)8 << 20)) return sg_fail(status, SG_BAD_INPUT, "stopped at %d", i);
    return SG_OK;
}

static sg_code write_file(void *user, sg_bytes *answer, sg_status *status) {
    (void)answer;
    char path[] = "/tmp/sg_child_XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0) return sg_fail(status, SG_MACHINE, "no file");
    (void)unlink(path);
    if (write(fd, "0123456789", 10) != 10) return sg_fail(status, SG_BAD_INPUT, "not written");
    (void)user;
    return SG_OK;
}

/* A message that claims to be complete, sent past child_main by a child that was taken over. */
static sg_code forge(void *user, sg_bytes *answer, sg_status *status) {
    (void)user;
    (void)answer;
    (void)status;
    uint64_t message[4] = {SG_OK, 8, 12345, 42};
    if (write(3, message, sizeof message) != (ssize_t)sizeof message) _exit(1);
    _exit(0);
}

static void failures(void **state) {
    (void)state;
    fails(refuse, &tight, SG_BAD_INPUT, "clip.mp4 holds no picture");
    fails(miss, &tight, SG_MACHINE, "no library");
    fails(crash, &tight, SG_BAD_INPUT, "was killed: Segmentation fault");
    fails(starve, &tight, SG_MACHINE, "memory runs out");
    fails(leave, &tight, SG_BAD_INPUT, "ended with status 7");
    fails(forge, &tight, SG_BAD_INPUT, "damaged or hostile");
    fails(flood, &tight, SG_BAD_INPUT, "more than the");
    if (!SANITIZED) fails(hoard, &tight, SG_BAD_INPUT, "stopped at");
}

static void time_limits(void **state) {
    (void)state;
    sg_child_limits quick = tight;
    quick.wall_s = 60; /* a busy machine gives its second of processor time late */
    fails(spin, &quick, SG_BAD_INPUT, "more than 1 s of processor time");
    quick.wall_s = 0.05;
    fails(sleep_on, &quick, SG_BAD_INPUT, "does not end within 0.05 s");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
    assert_int_equal(errno, ECHILD);
}

static void file_limits(void **state) {
    (void)state;
    sg_child_limits some = tight;
    fails(write_file, &some, SG_BAD_INPUT, "wrote more than a file may have");
    some.file_bytes = 10;
    sg_bytes answer;
    sg_status status;
    assert_int_equal(run(write_file, NULL, &some, &answer, &status), SG_OK);
    free(answer.data);
}

static void caught(int signal) {
    (void)signal;
    static const char text[] = "the parent's handler ran in the child\n";
    if (write(2, text, sizeof text - 1) < 0) _exit(99);
    _exit(98);
}

/* The parent's handlers and mask are not the child's. */
static void handlers(void **state) {
    (void)state;
    void (*before)(int) = signal(SIGTERM, caught);
    sigset_t mask, old;
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &mask, &old);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        sg_child_confine(parent, &tight, NULL, 0);
        (void)raise(SIGTERM);
        _exit(97);
    }
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended));
    assert_int_equal(WTERMSIG(ended), SIGTERM);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    (void)signal(SIGTERM, before);
}

/* Kept descriptors become 3, 4, ... in their order, whatever numbers they had; nothing else stays open. */
static void descriptors(void **state) {
    (void)state;
    int first[2], second[2];
    assert_int_equal(pipe(first), 0);
    assert_int_equal(pipe(second), 0);
    const int keep[] = {second[1], first[1]};
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        sg_child_confine(parent, &tight, keep, 2);
        bool others = false;
        for (int fd = 5; fd < 400; fd++) others |= fcntl(fd, F_GETFD) >= 0;
        bool said = write(3, "2", 1) == 1 && write(4, "1", 1) == 1 && write(2, "nowhere", 7) == 7;
        _exit(others ? 1 : said ? 0 : 2);
    }
    char byte = 0;
    assert_int_equal(read(second[0], &byte, 1), 1);
    assert_int_equal(byte, '2');
    assert_int_equal(read(first[0], &byte, 1), 1);
    assert_int_equal(byte, '1');
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 0);
    for (int i = 0; i < 2; i++) {
        (void)close(first[i]);
        (void)close(second[i]);
    }
}

/* Where descriptors are few, a child does its work with those that there are; where none is left, the file is not blamed. */
static void few_descriptors(void **state) {
    (void)state;
    int n = 3;
    sg_bytes answer;
    sg_status status;
    struct rlimit usual, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    int ends[2];
    assert_int_equal(pipe(ends), 0); /* the numbers that sg_child_run will get as well */
    few = (struct rlimit){(rlim_t)ends[1] + 4, usual.rlim_max};
    (void)close(ends[0]);
    (void)close(ends[1]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    sg_code with_few = run(count_up, &n, &tight, &answer, &status);
    few.rlim_cur = (rlim_t)ends[1] + 1;
    (void)setrlimit(RLIMIT_NOFILE, &few);
    sg_bytes none;
    sg_status why;
    sg_code without = run(count_up, &n, &tight, &none, &why);
    (void)setrlimit(RLIMIT_NOFILE, &usual);
    if (with_few != SG_OK) fail_msg("%s", status.text);
    assert_int_equal(answer.n, 3 * sizeof(int));
    free(answer.data);
    assert_int_equal(without, SG_MACHINE);
    assert_non_null(strstr(why.text, "ulimit -n"));
    assert_null(strstr(why.text, "hostile"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers),         cmocka_unit_test(failures), cmocka_unit_test(time_limits),
        cmocka_unit_test(file_limits),     cmocka_unit_test(handlers), cmocka_unit_test(descriptors),
        cmocka_unit_test(few_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
