/* dataset: make a small data set. */
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/show.h"
#include "datasets/make.h"

#include <stdio.h>
#include <string.h>

static int64_t given(int64_t value) {
    return value < 0 ? 0 : value; /* 0: the default */
}

static void show_fraction(void *user, double fraction) {
    sg_progress_show(user, fraction, "frames");
}

static int make(const sg_args *args, const char *path) {
    sg_progress progress = sg_progress_start(args);
    const volatile int *stop = sg_interrupt_flag();
    const sg_make_options options = {.kind = args->kind,
                                     .codec = args->codec,
                                     .episodes = given(args->episodes),
                                     .frames_per_episode = given(args->frames_per_episode),
                                     .cameras = given(args->cameras),
                                     .height = given(args->image_height),
                                     .width = given(args->image_width),
                                     .state_dim = given(args->state_dim),
                                     .action_dim = given(args->action_dim),
                                     .gop = given(args->gop),
                                     .fps = args->fps < 0 ? 0 : args->fps,
                                     .seed = args->seed < 0 ? 1 : (uint64_t)args->seed,
                                     .stop = stop,
                                     .progress = show_fraction,
                                     .user = &progress};
    sg_status status;
    sg_code code = sg_dataset_make(path, &options, &status);
    sg_progress_end(&progress);
    if (code == SG_NO && *stop) {
        (void)sg_show_error(args, &status);
        return SG_EXIT_INTERRUPTED;
    }
    if (code != SG_OK) return sg_show_error(args, &status);
    if (args->json) return sg_json_print(json_pack("{s:s, s:s}", "path", path, "kind", options.kind), SG_OK);
    printf("Made %s\n", path);
    return SG_OK;
}

int sg_cmd_dataset(const sg_args *args) {
    sg_status status;
    bool makes = args->positional.n == 2 && strcmp(args->positional.value[0], "make") == 0;
    if (makes) return make(args, args->positional.value[1]);
    (void)sg_fail(&status, SG_BAD_INPUT,
                  "'dataset make' takes one folder, such as 'stepgauge dataset make demo --kind lerobot-v3.0'");
    return sg_show_error(args, &status);
}
