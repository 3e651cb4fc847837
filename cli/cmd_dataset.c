/* dataset: make a small data set, and tell what one holds. */
#include "cli/commands.h"
#include "cli/dataset_show.h"
#include "cli/interrupt.h"
#include "datasets/make/make.h"
#include "kernels/nearest.h"

#include <stdlib.h>
#include <string.h>

static int64_t given(int64_t value) {
    return value < 0 ? 0 : value; /* 0: the default */
}

static void show_fraction(void *user, double fraction) {
    sg_progress_show(user, fraction, "frames");
}

static sg_code show(const sg_args *args, const char *path, sg_status *status) {
    sg_catalogue *catalogue = NULL;
    sg_code code = sg_catalogue_open(path, &catalogue, status);
    if (code != SG_OK) return code;
    size_t bytes = (catalogue->n_cameras + 1) * sizeof(sg_seen_camera);
    sg_seen_camera *seen = malloc(bytes);
    if (seen)
        sg_dataset_look(catalogue, seen);
    else
        code = sg_fail_memory(status, bytes, "what is seen of the cameras");
    if (seen && args->json)
        (void)sg_json_print(sg_json_dataset(catalogue, seen), SG_OK);
    else if (seen)
        sg_print_dataset(catalogue, seen);
    free(seen);
    sg_catalogue_close(catalogue);
    return code;
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
    if (code == SG_OK) code = show(args, path, &status);
    return code == SG_OK ? SG_OK : sg_show_error(args, &status);
}

/* What only `make` reads. */
static sg_code check_show(const sg_args *args, sg_status *status) {
    const struct {
        const char *name;
        bool is_given;
    } options[] = {{"--kind", args->kind != NULL},
                   {"--codec", args->codec != NULL},
                   {"--episodes", args->episodes >= 0},
                   {"--frames-per-episode", args->frames_per_episode >= 0},
                   {"--cameras", args->cameras >= 0},
                   {"--image-size", args->image_height >= 0},
                   {"--state-dim", args->state_dim >= 0},
                   {"--action-dim", args->action_dim >= 0},
                   {"--gop", args->gop >= 0},
                   {"--fps", args->fps >= 0},
                   {"--seed", args->seed >= 0}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].is_given)
            return sg_fail(status, SG_BAD_INPUT, "'dataset show' reads what is there: leave %s out", options[i].name);
    return SG_OK;
}

static sg_code no_verb(const char *verb, sg_status *status) {
    static const char *const verbs[] = {"make", "show"};
    static const char forms[] = "'dataset make DIR --kind K' or 'dataset show DIR'";
    const char *near = sg_nearest(verb, verbs, sizeof verbs / sizeof verbs[0]);
    if (!*verb) return sg_fail(status, SG_BAD_INPUT, "dataset needs to know what to do: %s", forms);
    if (near) return sg_fail(status, SG_BAD_INPUT, "dataset '%.64s': did you mean '%s'? %s", verb, near, forms);
    return sg_fail(status, SG_BAD_INPUT, "dataset '%.64s': %s", verb, forms);
}

int sg_cmd_dataset(const sg_args *args) {
    sg_status status;
    const char *verb = args->positional.n ? args->positional.value[0] : "";
    bool makes = strcmp(verb, "make") == 0, shows = strcmp(verb, "show") == 0;
    sg_code code = SG_OK;
    if (!makes && !shows)
        code = no_verb(verb, &status);
    else if (args->positional.n != 2)
        code = sg_fail(&status, SG_BAD_INPUT, "'dataset %s' takes one folder, such as 'stepgauge dataset %s demo%s'",
                       verb, verb, makes ? " --kind lerobot-v3.0" : "");
    else if (shows)
        code = check_show(args, &status);
    if (code == SG_OK && makes) return make(args, args->positional.value[1]);
    if (code == SG_OK) code = show(args, args->positional.value[1], &status);
    return code == SG_OK ? SG_OK : sg_show_error(args, &status);
}
