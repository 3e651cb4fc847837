/* Nothing that happens to a writer of a run file loses a finished point. */
#include "tests/sim/run_file_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

static void test_two_writers(void **state) {
    scene *s = *state;
    sg_run_writer *first = open_writer(s->path), *second;
    sg_status status = {0};
    assert_int_equal(sg_run_writer_open(s->path, &machine, &second, &status), SG_BAD_INPUT);
    assert_null(second);
    char part[48];
    (void)snprintf(part, sizeof part, "process %ld", (long)getpid());
    assert_non_null(strstr(status.text, part));
    sg_run run = read_run(s->path); /* readers are not in the way */
    sg_run_clear(&run);
    sg_run_writer_close(first);
    sg_run_writer_close(open_writer(s->path));
}

static void test_no_folder(void **state) {
    scene *s = *state;
    sg_run_writer *writer;
    sg_status status = {0};
    char path[128];
    (void)snprintf(path, sizeof path, "%s/missing/run.h5", s->folder);
    assert_int_equal(sg_run_writer_open(path, &machine, &writer, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "folder does not exist"));
    assert_int_equal(sg_run_writer_open(s->folder, &machine, &writer, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "is a folder"));
}

/* The disk fills up during a run: the append fails, what was there stays, and it goes on once there is room. */
static void test_disk_full_then_room(void **state) {
    scene *s = *state;
    sg_run_writer *writer = open_writer(s->path);
    sg_point point = make_point(1);
    sg_status status = {0};
    assert_int_equal(sg_run_writer_append(writer, &point, &status), SG_OK);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 2048;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    point = make_point(2);
    assert_int_equal(sg_run_writer_append(writer, &point, &status), SG_MACHINE);
    assert_false(sg_run_writer_has(writer, sg_point_key(&point.config)));
    point = make_point(1);
    assert_int_equal(sg_run_writer_append(writer, &point, &status), SG_MACHINE);
    assert_true(sg_run_writer_has(writer, sg_point_key(&point.config)));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    sg_run run = read_run(s->path);
    assert_int_equal(run.n_points, 1);
    sg_run_clear(&run);
    point = make_point(2);
    assert_int_equal(sg_run_writer_append(writer, &point, &status), SG_OK);
    sg_run_writer_close(writer);
    run = read_run(s->path);
    assert_int_equal(run.n_points, 2);
    sg_run_clear(&run);
}

/* A really full file system where one may be mounted. */
static void test_full_tmpfs(void **state) {
    scene *s = *state;
    if (mount("none", s->folder, "tmpfs", 0, "size=64k") != 0) {
        print_message("no file system may be mounted here (%s)\n", strerror(errno));
        skip();
    }
    sg_run_writer *writer = NULL;
    sg_status status = {0};
    sg_code code = sg_run_writer_open(s->path, &machine, &writer, &status);
    int64_t written = 0;
    while (code == SG_OK && written < 1000) {
        sg_point point = make_point(written + 1);
        code = sg_run_writer_append(writer, &point, &status);
        written += code == SG_OK;
    }
    sg_run run;
    sg_code read = sg_run_file_read(s->path, &run, NULL);
    size_t n = run.n_points;
    sg_run_clear(&run);
    sg_run_writer_close(writer);
    assert_int_equal(umount(s->folder), 0);
    assert_int_equal(code, SG_MACHINE);
    assert_non_null(strstr(status.text, "disk is full"));
    assert_true(written > 0);
    assert_int_equal(read, SG_OK);
    assert_int_equal(n, written);
}

/* Appends point after point and tells each finished one through the pipe; never returns. */
static void write_until_killed(const char *path, int64_t batch, int out) {
    sg_run_writer *writer;
    if (sg_run_writer_open(path, &machine, &writer, NULL) != SG_OK) _exit(1);
    for (;; batch = batch % 24 + 1) {
        sg_point point = make_point(batch);
        if (sg_run_writer_append(writer, &point, NULL) != SG_OK) _exit(2);
        if (write(out, &batch, sizeof batch) != sizeof batch) _exit(3);
    }
}

/* The last finished batch that the killed writer told, and the file must hold it and all before it. */
static void check_after_kill(const char *path, int64_t most) {
    sg_run run = read_run(path);
    for (int64_t batch = 1; batch <= most; batch++) {
        bool found = false;
        for (size_t i = 0; i < run.n_points; i++) found = found || run.points[i].config.batch == batch;
        if (!found) fail_msg("point of batch %lld is lost", (long long)batch);
    }
    sg_run_clear(&run);
}

static void test_killed_writers(void **state) {
    scene *s = *state;
    int64_t most = 0, last = 0;
    sg_run_writer_close(open_writer(s->path));
    unsigned seed = 12345;
    for (int round = 0; round < 100; round++) {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) write_until_killed(s->path, last % 24 + 1, ends[1]);
        (void)close(ends[1]);
        int64_t batch;
        /* every other writer gets one point done, the rest are killed wherever they are */
        if (round % 2 && read(ends[0], &batch, sizeof batch) == sizeof batch) {
            last = batch;
            if (batch > most) most = batch;
        }
        seed = seed * 1103515245u + 12345u;
        struct timespec wait = {0, (long)(seed >> 8) % 30000000};
        (void)nanosleep(&wait, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        int how;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSIGNALED(how)); /* it had not given up by itself */
        while (read(ends[0], &batch, sizeof batch) == sizeof batch) {
            last = batch;
            if (batch > most) most = batch;
        }
        (void)close(ends[0]);
        check_after_kill(s->path, most);
    }
    assert_int_equal(most, 24); /* kills did not stop the work from going on */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCENE(test_two_writers), SCENE(test_no_folder),      SCENE(test_disk_full_then_room),
        SCENE(test_full_tmpfs),  SCENE(test_killed_writers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
