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
} sg_device_choice;

/* --device, else cuda with --gpus, else cuda where a GPU is ready, else cpu. Opens nothing but the driver. SG_BAD_INPUT: an
 * unknown device, or options that contradict each other. */
sg_code sg_device_choose(const sg_args *args, sg_device_choice *choice, sg_status *status);

/* On a GPU, for a framework whose host is slower than this program's: its host seconds from --machine, else from the data
 * sheet of GPU `index`, else the framework's own prior. --host native: none. SG_MACHINE: the GPU cannot be opened. */
sg_code sg_device_choose_host(const sg_args *args, sg_framework framework, int index, sg_device_choice *choice,
                              sg_status *status);

/* What GPU `index` says of itself. */
sg_code sg_device_look(const sg_args *args, int index, sg_device_info *info, sg_status *status);

#endif
