#include "tests/support/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { ARGUMENTS = 64, LIMIT_S = 120 };

static double now_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static char *slurp(FILE *file) {
    (void)fseek(file, 0, SEEK_END);
    long size = ftell(file);
    assert_true(size >= 0);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    assert_non_null(text);
    text[fread(text, 1, (size_t)size, file)] = '\0';
    (void)fclose(file);
    return text;
}

static int wait_for(pid_t pid, double start_s) {
    int status;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now_s() - start_s > LIMIT_S) (void)kill(pid, SIGKILL);
        const struct timespec pause = {0, 500000};
        (void)nanosleep(&pause, NULL);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Output goes to files, so that nothing can block on a full pipe. */
static sg_running start(const char *argument, va_list rest) {
    const char *program = getenv("STEPGAUGE_PROGRAM");
    char *argv[ARGUMENTS] = {(char *)(uintptr_t)(program ? program : SG_BINARY_DIR "/stepgauge")};
    int n = 1;
    for (const char *a = argument; a && n < ARGUMENTS - 1; a = va_arg(rest, const char *))
        argv[n++] = (char *)(uintptr_t)a;
    sg_running running = {.out = tmpfile(), .err = tmpfile()};
    assert_true(running.out && running.err);
    posix_spawn_file_actions_t actions;
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, fileno(running.out), 1);
    (void)posix_spawn_file_actions_adddup2(&actions, fileno(running.err), 2);
    running.start_s = now_s();
    assert_int_equal(posix_spawn(&running.pid, argv[0], &actions, NULL, argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    return running;
}

sg_running sg_stepgauge_start(const char *argument, ...) {
    va_list rest;
    va_start(rest, argument);
    sg_running running = start(argument, rest);
    va_end(rest);
    return running;
}

sg_said sg_running_wait(sg_running *running) {
    sg_said said = {.status = wait_for(running->pid, running->start_s)};
    said.seconds = now_s() - running->start_s;
    said.out = slurp(running->out);
    said.err = slurp(running->err);
    return said;
}

sg_said sg_stepgauge(const char *argument, ...) {
    va_list rest;
    va_start(rest, argument);
    sg_running running = start(argument, rest);
    va_end(rest);
    return sg_running_wait(&running);
}

void sg_said_clear(sg_said *said) {
    free(said->out);
    free(said->err);
}

json_t *sg_said_json(const sg_said *said) {
    json_error_t error;
    json_t *root = json_loads(said->out, 0, &error);
    if (!root) fail_msg("no JSON on stdout (%s), exit status %d, stderr: %s", error.text, said->status, said->err);
    return root;
}

json_t *sg_said_answer(sg_said said, int status) {
    if (said.status != status) fail_msg("exit status %d instead of %d: %s", said.status, status, said.err);
    json_t *root = sg_said_json(&said);
    sg_said_clear(&said);
    return root;
}

double sg_json_number(const json_t *root, const char *path) {
    char copy[256];
    (void)snprintf(copy, sizeof copy, "%s", path);
    const json_t *at = root;
    char *rest = copy;
    for (char *key; (key = strsep(&rest, ".")) && at;) at = json_object_get(at, key);
    if (!json_is_number(at)) fail_msg("%s is no number", path);
    return json_number_value(at);
}
