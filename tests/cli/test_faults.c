/* Faults around the program: what it is given is empty, absurd, of another kind or incomplete; nothing may be lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calibration/log/log.h"
#include "sim/files/run_file.h"
#include "tests/support/program.h"

static void expect(sg_said said, int status, const char *in_err) {
    if (said.status != status) fail_msg("exit status %d instead of %d: %s", said.status, status, said.err);
    if (in_err && !strstr(said.err, in_err)) fail_msg("stderr does not say '%s': %s", in_err, said.err);
    sg_said_clear(&said);
}

static FILE *open_new(const char *folder, const char *name, char path[128]) {
    (void)snprintf(path, 128, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    return file;
}

static int make_folder(void **state) {
    static char folder[32];
    (void)snprintf(folder, sizeof folder, "/tmp/stepgauge-test-XXXXXX");
    *state = mkdtemp(folder);
    return *state ? 0 : -1;
}

static void remove_from(const char *folder, const char *name) {
    char path[160];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/%s.lock", folder, name);
    (void)unlink(path);
}

static int remove_folder(void **state) {
    static const char *const names[] = {"run.h5", "m.h5", "note.txt", "keys.yaml", "offers.csv"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) remove_from(*state, names[i]);
    return rmdir(*state);
}

static void numbers_that_no_type_holds(void **state) {
    (void)state;
    /* 2^32 + 1 must not become 1 on its way */
    expect(sg_stepgauge("predict", "mlp", "--machine", "l4", "--ranks", "4294967297", NULL), 2, "--ranks");
    expect(sg_stepgauge("predict", "mlp", "--machine", "l4", "--workers", "4294967297", NULL), 2, "--workers");
    expect(sg_stepgauge("measure", "mlp", "--threads", "9223372036854775807", NULL), 2, "--threads");
    expect(sg_stepgauge("inspect", "act", "--state-dim", "9007199254740991", NULL), 2, "9007199254740991");
}

static void nothing_where_something_is_needed(void **state) {
    (void)state;
    expect(sg_stepgauge("plan", "act", "--frames", "100", "--epochs", "0", NULL), 2, "--epochs '0'");
    expect(sg_stepgauge("plan", "act", "--frames", "100", "--epochs", "1", "--budget", "0", NULL), 2, "--budget '0'");
    expect(sg_stepgauge("plan", "act", "--frames", "100", "--epochs", "1", "--deadline", "0", NULL), 2, "more than 0");
    expect(sg_stepgauge("predict", "act", "--machine", "l4", "--interval", "0", NULL), 2, "--interval '0'");
    expect(sg_stepgauge("predict", "act", "--machine", "", NULL), 2, "--machine needs a value");
    expect(sg_stepgauge("inspect", "act", "--config=", NULL), 2, "--config needs a value");
    expect(sg_stepgauge("inspect", "act", "--set", "", NULL), 2, "--set needs a value");
    expect(sg_stepgauge("inspect", "", NULL), 2, "argument 2 is empty");
}

/* Reading must not take time that grows with the square of a file's size. */
static void large_texts_end_soon(void **state) {
    char path[128];
    FILE *file = open_new(*state, "keys.yaml", path);
    (void)fputs("policy: act\n", file);
    for (int i = 0; i < 200000; i++) (void)fprintf(file, "k%d: 1\n", i);
    assert_int_equal(fclose(file), 0);
    expect(sg_stepgauge("inspect", "--config", path, NULL), 2, "more than 10000 keys");
    expect(sg_stepgauge("inspect", "act", "--train-config", path, NULL), 2, "more than 10000 keys");
    file = open_new(*state, "offers.csv", path);
    for (int i = 0; i < 4 << 20; i++) (void)fputc('9', file);
    assert_int_equal(fclose(file), 0);
    sg_said said = sg_stepgauge("plan", "act", "--frames", "100", "--epochs", "1", "--offers", path, NULL);
    assert_true(said.seconds < 30);
    expect(said, 2, "unknown column");
}

/* A pipe nobody writes to must not hold the program up, an endless device must not fill the memory. */
static void pipes_and_devices_are_no_files(void **state) {
    char pipe[128];
    (void)snprintf(pipe, sizeof pipe, "%s/pipe", (const char *)*state);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    const char *const paths[] = {pipe, "/dev/zero"};
    for (size_t i = 0; i < 2; i++) {
        const char *path = paths[i];
        expect(sg_stepgauge("inspect", "--config", path, NULL), 2, "no regular file");
        expect(sg_stepgauge("inspect", "act", "--train-config", path, NULL), 2, "no regular file");
        expect(sg_stepgauge("plan", "act", "--frames", "9", "--epochs", "1", "--offers", path, NULL), 2,
               "no regular file");
        expect(sg_stepgauge("fit", path, NULL), 2, "no regular file");
        sg_logs logs;
        sg_status status;
        assert_int_equal(sg_logs_read(path, &logs, &status), SG_BAD_INPUT);
        assert_non_null(strstr(status.text, "no regular file"));
    }
    (void)unlink(pipe);
}

/* Exit status of the program with its standard output going to a full device. */
static int status_on_full_disk(char *const *argv) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int full = open("/dev/full", O_WRONLY), null = open("/dev/null", O_WRONLY);
        if (full < 0 || null < 0 || dup2(full, 1) < 0 || dup2(null, 2) < 0) _exit(99);
        (void)execv(argv[0], argv);
        _exit(98);
    }
    int how;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128;
}

static void every_answer_is_written_or_missed(void **state) {
    (void)state;
    const char *set = getenv("STEPGAUGE_PROGRAM");
    char program[4096], help[] = "--help", version[] = "--version", inspect[] = "inspect", mlp[] = "mlp";
    (void)snprintf(program, sizeof program, "%s", set ? set : SG_BINARY_DIR "/stepgauge");
    char *const lines[][4] = {
        {program, help, NULL}, {program, version, NULL}, {program, inspect, help, NULL}, {program, inspect, mlp, NULL}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) assert_int_equal(status_on_full_disk(lines[i]), 3);
}

/* A rank that does not know its place must not measure as if it were alone. */
static void half_set_rank_variables(void **state) {
    (void)state;
    assert_int_equal(setenv("OMPI_COMM_WORLD_SIZE", "2", 1), 0);
    sg_said said = sg_stepgauge("measure", "mlp", NULL);
    (void)unsetenv("OMPI_COMM_WORLD_SIZE");
    expect(said, 2, "OMPI_COMM_WORLD_RANK is not");
}

static void write_point(const char *path, bool interrupted) {
    sg_status status;
    sg_run_writer *writer;
    static const sg_machine_record machine = {.cpu = "a processor"};
    assert_int_equal(sg_run_writer_open(path, &machine, &writer, &status), SG_OK);
    sg_point point;
    memset(&point, 0, sizeof point);
    (void)snprintf(point.config.policy, sizeof point.config.policy, "mlp");
    for (int c = 0; c < SG_CLASS_COUNT; c++) point.class_s[c] = interrupted ? NAN : 0.01;
    point.config.batch = 4;
    if (sg_run_writer_append(writer, &point, &status) != SG_OK) fail_msg("%s", status.text);
    assert_true(sg_run_writer_has(writer, sg_point_key(&point.config)) == !interrupted);
    sg_run_writer_close(writer);
}

static void interrupted_points_are_measured_again(void **state) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/run.h5", (const char *)*state);
    write_point(path, true);
    write_point(path, false);
}

static long bytes_of(const char *path) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long n = ftell(file);
    (void)fclose(file);
    return n;
}

/* Measures once and fits: the run file and a stranger's file stay whatever the output is called. */
static void outputs_replace_only_their_kind(void **state) {
    const char *folder = *state;
    char run[128], machine[128], note[128];
    remove_from(folder, "run.h5");
    (void)snprintf(run, sizeof run, "%s/run.h5", folder);
    (void)snprintf(machine, sizeof machine, "%s/m.h5", folder);
    FILE *file = open_new(folder, "note.txt", note);
    (void)fputs("hello", file);
    assert_int_equal(fclose(file), 0);
    expect(sg_stepgauge("measure", "mlp", "--batch", "2,4", "--min-iterations", "2", "--time-budget", "0.5", "-o", run,
                        NULL),
           0, NULL);
    long before = bytes_of(run);
    expect(sg_stepgauge("fit", run, "-o", run, NULL), 2, "left as it is");
    assert_int_equal(bytes_of(run), before);
    expect(sg_stepgauge("fit", run, "-o", note, NULL), 2, "left as it is");
    assert_int_equal(bytes_of(note), 5);
    expect(sg_stepgauge("fit", run, "-o", machine, NULL), 0, NULL);
    expect(sg_stepgauge("fit", run, "-o", machine, NULL), 0, NULL);
    expect(sg_stepgauge("measure", "mlp", "-o", machine, NULL), 2, "run file is needed");
    expect(sg_stepgauge("predict", "mlp", "--machine", machine, NULL), 0, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_no_type_holds),
        cmocka_unit_test(nothing_where_something_is_needed),
        cmocka_unit_test(large_texts_end_soon),
        cmocka_unit_test(pipes_and_devices_are_no_files),
        cmocka_unit_test(every_answer_is_written_or_missed),
        cmocka_unit_test(half_set_rank_variables),
        cmocka_unit_test(interrupted_points_are_measured_again),
        cmocka_unit_test(outputs_replace_only_their_kind),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
