/* gpu_machine.h: a machine with four emulated GPUs and their driver, on which tests run whole command lines. */
#ifndef SG_TESTS_SUPPORT_GPU_MACHINE_H
#define SG_TESTS_SUPPORT_GPU_MACHINE_H

#include "tests/support/program.h"
#include "tests/support/scratch.h"

/* A measurement of the policy mlp that takes no time. */
#define SMALL "--set", "hidden_dims=16", "--min-iterations", "3", "--time-budget", "0.2"

#define LIBRARIES         SG_BINARY_DIR "/emulation/lib"
#define GPU(number, more) "gpu;name=Emulated GPU" more ";bus=00000000:0" number ":00.0;"
#define FOUR_GPUS         GPU("1", "") GPU("2", "") GPU("3", "") GPU("4", "")

/* Of the running test. */
extern sg_scratch sg_gpu_scratch;
extern char sg_gpu_run_path[96];

/* What the driver and NVML of the program under test are: folder of libcuda and NVML, their settings. */
void sg_gpu_driver(const char *libraries, const char *cuda, const char *nvml);
/* $STEPGAUGE_EMULATION. */
void sg_gpu_emulation(const char *settings);
/* Set-up of every test: four GPUs, a scratch folder. */
int sg_gpu_machine(void **state);
/* Tear-down: nothing may be left behind: no lock, no unfinished file, no process of ours. */
int sg_gpu_nothing_left(void **state);
/* Exit status and words on stderr (NULL: any); clears `said`. */
void sg_gpu_expect(sg_said said, int status, const char *in_err);
/* SIZE_MAX: not a run file. */
size_t sg_gpu_points_in(const char *path);
/* The n points of a command that must succeed; json_decref the root. */
json_t *sg_gpu_points_of(sg_said said, const json_t **points, size_t n);
const char *sg_gpu_text_of(const json_t *object, const char *key);
/* The point tells of an emulated GPU and of this host: "emulated" or "native". */
void sg_gpu_is_told(const json_t *point, const char *host);
/* The file of an ACT whose step takes the emulation no more than a second. */
const char *sg_gpu_small_act(void);

#endif
