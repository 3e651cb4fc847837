/* device_choice.h: on which device a command runs, and whose host time it shows there. */
#ifndef SG_CLI_DEVICE_CHOICE_H
#define SG_CLI_DEVICE_CHOICE_H

#include "cli/args.h"
#include "kernels/device.h"
#include "models/policy.h"

typedef struct sg_device_choice {
    const char *device; /* "cpu" or "cuda" */
    sg_device_class device_class;
    bool emulates_host;
    double host_s[SG_HOST_CLASS_COUNT + 1]; /* see sg_device_options */
    char host_from[160];                    /* whose host it is: "machine h100-sxm" */
    char passed_over[1024]; /* why a GPU that is here was not chosen, and the remedy; "" where there is none */
} sg_device_choice;

/* --device, else cuda with --gpus, else cuda where a GPU is ready, else cpu. Opens nothing but the driver. SG_BAD_INPUT: an
 * unknown device, or options that contradict each other. */
sg_code sg_device_choose(const sg_args *args, sg_device_choice *choice, sg_status *status);

/* Whether `gpus` GPUs can be used by this machine's processes: SG_MACHINE tells what is wrong with the driver, SG_BAD_INPUT that
 * fewer can be seen. SG_OK for a CPU. Opens nothing but the driver. */
sg_code sg_device_ready(const sg_device_choice *choice, int64_t gpus, sg_status *status);

/* On a GPU, for a framework whose host is slower than this program's: its host seconds from --machine, else from the data
 * sheet of GPU `index`, else the framework's own prior. --host native: none. SG_MACHINE: the GPU cannot be opened. */
sg_code sg_device_choose_host(const sg_args *args, sg_framework framework, int index, sg_device_choice *choice,
                              sg_status *status);

/* SG_BAD_INPUT: nothing was named with --machine, and GPU `index` has no data sheet that a fit could start from. */
sg_code sg_device_has_sheet(const sg_args *args, const sg_device_choice *choice, int index, sg_status *status);

/* What GPU `index` says of itself. */
sg_code sg_device_look(const sg_args *args, int index, sg_device_info *info, sg_status *status);

#endif
