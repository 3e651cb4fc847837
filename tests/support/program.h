/* program.h: runs stepgauge as a user would and keeps what it said. */
#ifndef SG_TESTS_SUPPORT_PROGRAM_H
#define SG_TESTS_SUPPORT_PROGRAM_H

#include <jansson.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct sg_said {
    int status; /* exit status; 128 + signal when it was killed */
    char *out, *err;
    double seconds;
} sg_said;

/* Arguments after the program's name, NULL at the end; at most 60. The program under test is $STEPGAUGE_PROGRAM, else the
 * one in the build folder. Killed after 120 s. sg_said_clear the result. */
sg_said sg_stepgauge(const char *argument, ...);
void sg_said_clear(sg_said *said);
/* The same in two halves, to do something to the program while it runs. */
typedef struct sg_running {
    pid_t pid;
    FILE *out, *err;
    double start_s;
} sg_running;
sg_running sg_stepgauge_start(const char *argument, ...);
sg_said sg_running_wait(sg_running *running);
/* stdout as JSON; fails the test when it is none. json_decref it. */
json_t *sg_said_json(const sg_said *said);
/* The same of a program that has ended with this status, else the test fails; clears `said`. */
json_t *sg_said_answer(sg_said said, int status);
/* Number at "a.b.c"; fails the test when there is none. */
double sg_json_number(const json_t *root, const char *path);

#endif
