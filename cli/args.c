#include "cli/args.h"

#include "kernels/nearest.h"
#include "models/policy.h"
#include "sim/loader/loader.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum sg_arg_type {
    ARG_FLAG,
    ARG_TEXT,
    ARG_INT,       /* >= low */
    ARG_REAL,      /* >= low */
    ARG_POSITIVE,  /* > 0 */
    ARG_INT_LIST,  /* a,b,c each >= low */
    ARG_SIZE_LIST, /* the same with K, M, G behind a number for 2^10, 2^20, 2^30 */
    ARG_BATCH,     /* a list of integers, or "auto" */
    ARG_REPEAT,
    ARG_FILES,     /* all arguments up to the next option; may be repeated */
    ARG_LEFT_OUT,  /* "rows", also where nothing stands behind it, "devices" or "batches" */
    ARG_IMAGE_SIZE /* HxW */
} sg_arg_type;

/* Groups: a import, z its explanation, E simulators, p policy, n precision, r ranks, b benchmark, d device, c CUDA libraries, h threads, m how a measurement runs, k captured updates, e traces, t how long it lasts, f measuring again, w machine, q its host, u how sure, l plan, L loaders, s a training under way, o output file, g the framework's own times, i listing, x tables of measurements, v validation, y nodes, D data sets made, j everywhere. */
typedef struct sg_arg {
    const char *name, *value;
    char group;
    sg_arg_type type;
    size_t offset;
    double low;
    const char *help;
} sg_arg;

#define AT(field) offsetof(sg_args, field)
static const sg_arg table[] = {
    {"--batch", "B[,B..]", 'p', ARG_BATCH, AT(batch), 1, "samples per process and micro-step; measure: auto"},
    {"--cameras", "N", 'p', ARG_INT, AT(cameras), 0, "cameras"},
    {"--image-size", "HxW", 'p', ARG_IMAGE_SIZE, AT(image_height), 1, "pixels of each camera, height x width"},
    {"--state-dim", "N", 'p', ARG_INT, AT(state_dim), 1, "width of the robot state"},
    {"--action-dim", "N", 'p', ARG_INT, AT(action_dim), 1, "width of an action"},
    {"--chunk-size", "N", 'p', ARG_INT, AT(chunk_size), 1, "actions predicted at once"},
    {"--precision", "P", 'n', ARG_TEXT, AT(precision), 0, "fp32, tf32, bf16 or fp16 (autocast), bf16-pure"},
    {"--framework", "F", 'p', ARG_TEXT, AT(framework), 0,
     "pytorch-eager (default), pytorch-compiled, pytorch-cuda-graphs, jax or native"},
    {"--accumulation", "N", 'p', ARG_INT, AT(accumulation), 1, "micro-steps per optimizer step"},
    {"--set", "KEY=VALUE", 'p', ARG_REPEAT, AT(set), 0, "any other key of the policy; may be repeated"},
    {"--config", "FILE", 'p', ARG_TEXT, AT(config), 0, "YAML or JSON with keys of the policy"},
    {"--dataset", "DIR|FILE", 'p', ARG_TEXT, AT(dataset), 0, "data set: a folder or HDF5 file; or a meta/info.json"},
    {"--policy", "P", 'a', ARG_TEXT, AT(policy), 0, "what was trained, where the log does not say it"},
    {"--explain", NULL, 'z', ARG_FLAG, AT(explain), 0, "what limits the training, the evidence, and what to change"},
    {"--train-config", "FILE", 'a', ARG_TEXT, AT(train_config), 0,
     "what the log does not say (default: train_config.json in its folder)"},
    {"--train-config", "FILE", 'p', ARG_TEXT, AT(train_config), 0, "LeRobot train_config.json"},
    {"--envs", "N", 'p', ARG_INT, AT(envs), 1, "PPO: parallel environments"},
    {"--steps-per-env", "N", 'p', ARG_INT, AT(steps_per_env), 1, "PPO: rollout length"},
    {"--mini-batches", "N", 'p', ARG_INT, AT(mini_batches), 1, "PPO: mini-batches per epoch"},
    {"--ppo-epochs", "N", 'p', ARG_INT, AT(ppo_epochs), 1, "PPO: learning epochs per iteration"},
    {"--env-step-us", "T", 'p', ARG_REAL, AT(env_step_us), 0, "PPO: microseconds per environment step"},
    {"--iterations", "N", 'p', ARG_INT, AT(iterations), 1, "PPO: iterations of the training"},
    {"--task", "NAME", 'E', ARG_TEXT, AT(task), 0,
     "PPO: simulator and task, such as isaac-lab/g1-rough: whose logs tell the time of a step"},
    {"--host-speed", "X", 'q', ARG_POSITIVE, AT(host_speed), 0,
     "single-thread speed of the host's CPU; 1: the servers of published trainings"},
    {"--vcpus", "N", 'q', ARG_POSITIVE, AT(vcpus), 0,
     "processors of the host, for its loader (default: the machine's)"},
    {"--video-backend", "B", 'q', ARG_TEXT, AT(video_backend), 0,
     "of the framework's loader: torchcodec (default) or pyav"},
    {"--machine", "M", 'w', ARG_TEXT, AT(machine), 0, "machine name, data sheet (.yaml) or fitted file (.h5)"},
    {"--workers", "N[,N..]", 'p', ARG_INT_LIST, AT(workers), 0, "data loader workers per process"},
    {"--prefetch", "N", 'L', ARG_INT, AT(prefetch), 1, "batches that each loader worker makes ahead (4)"},
    {"--layers", "L[,L..]", 'L', ARG_TEXT, AT(layers), 0,
     "of loading --dataset: synthetic, cached, cold (all; several worker counts: cached)"},
    {"--update-s", "S", 'L', ARG_REAL, AT(update_s), 0,
     "a pause instead of preprocessing and update: the loader alone"},
    {"--loader-only", NULL, 'L', ARG_FLAG, AT(loader_only), 0, "--update-s 0: the loader's own rate"},
    {"--ranks", "N[,N..]", 'r', ARG_INT_LIST, AT(ranks), 1, "data-parallel processes"},
    {"--gpus", "N[,N..]", 'r', ARG_INT_LIST, AT(gpus), 1, "the same, one GPU each"},
    {"--gpus-per-node", "N", 'y', ARG_INT, AT(gpus_per_node), 1,
     "GPUs of a node (default: as the machine's sheet says)"},
    {"--sharding", "S", 'p', ARG_TEXT, AT(sharding), 0, "none (default), or full: FSDP over the ranks"},
    {"--interval", "P", 'u', ARG_POSITIVE, AT(interval), 0, "probability of the intervals (0.9)"},
    {"--device", "D", 'd', ARG_TEXT, AT(device), 0,
     "cpu or cuda (default: cuda where a GPU is ready); of a table: its name"},
    {"--host", "H", 'm', ARG_TEXT, AT(host), 0, "cuda: emulated (the framework's host time) or native"},
    {"--cuda-graph", NULL, 'k', ARG_FLAG, AT(cuda_graph), 0, "cuda: record the update once and replay it"},
    {"--conv", "M", 'm', ARG_TEXT, AT(conv), 0, "cuda: benchmark (default) or heuristic choice of convolutions"},
    {"--cuda-libs", "DIR", 'c', ARG_TEXT, AT(cuda_libs), 0, "where the CUDA libraries are looked for first"},
    {"--threads", "N", 'h', ARG_INT, AT(threads), 1, "compute threads (default: all that may be used)"},
    {"--seed", "N", 'p', ARG_INT, AT(seed), 0, "seed of weights, data, noise and masks (1)"},
    {"--time-budget", "S", 't', ARG_POSITIVE, AT(time_budget_s), 0, "seconds to spend measuring"},
    {"--min-iterations", "N", 't', ARG_INT, AT(min_iterations), 1, "least measured iterations per point (5)"},
    {"--sizes", "N[,N..]", 'b', ARG_SIZE_LIST, AT(sizes), 1,
     "gemm: n of n x n x n; decode: heights; else bytes, also 64K, 16M, 1G"},
    {"--fresh", NULL, 'f', ARG_FLAG, AT(fresh), 0, "measure again what the run file already holds"},
    {"--frames", "N", 'l', ARG_INT, AT(frames), 1, "frames of the data set"},
    {"--epochs", "E", 'l', ARG_POSITIVE, AT(epochs), 0, "passes over the data set"},
    {"--steps", "N", 'l', ARG_INT, AT(steps), 1, "training steps (instead of epochs)"},
    {"--log", "FILE", 's', ARG_REPEAT, AT(log), 0, "a training under way: what is left of it, instead of a policy"},
    {"--save-every", "N", 'l', ARG_INT, AT(save_every), 0, "steps between checkpoints (20000)"},
    {"--budget", "USD", 'l', ARG_POSITIVE, AT(budget_usd), 0, "most that it may cost, US dollars"},
    {"--deadline", "H", 'l', ARG_POSITIVE, AT(deadline_h), 0, "most hours that it may take"},
    {"--offers", "FILE", 'l', ARG_TEXT, AT(offers), 0, "CSV of rental offers (default: the one that ships)"},
    {"--collectives", "FILE..", 'x', ARG_FILES, AT(collectives), 0, "CSV of all-reduce times (gzip'd or plain)"},
    {"--reports", "FILE..", 'x', ARG_FILES, AT(reports), 0, "CSV of trainings as people reported them"},
    {"--kernels", "FILE..", 'x', ARG_FILES, AT(kernels), 0, "CSV of kernel times"},
    {"--steps", "FILE..", 'x', ARG_FILES, AT(step_files), 0, "CSV of whole training and inference steps"},
    {"--parallel", "FILE..", 'v', ARG_FILES, AT(parallel), 0, "CSV of training steps over several GPUs"},
    {"--logs", "FILE..", 'v', ARG_FILES, AT(logs), 0, "training logs: their first windows against the rest"},
    {"--configs", "FILE", 'x', ARG_TEXT, AT(step_configs), 0,
     "CSV of the models of --steps (default: those that ship)"},
    {"--cross-validate", "[rows|devices|batches]", 'v', ARG_LEFT_OUT, AT(cross_validate), 0,
     "fit again without each part of the rows, or without each device, that is predicted"},
    {"--folds", "N", 'v', ARG_INT, AT(folds), 2, "parts that the rows are split into (5)"},
    {"--calibrate", "N", 'v', ARG_INT, AT(calibrate), 1, "rows of a device that its calibration may see"},
    {"--rows", "FILE", 'v', ARG_TEXT, AT(rows_file), 0, "CSV to write: every row, measured and predicted"},
    {"--markdown", NULL, 'v', ARG_FLAG, AT(markdown), 0, "the tables in Markdown"},
    {"--config-dir", "DIR", 'v', ARG_TEXT, AT(config_dir), 0, "machines, frameworks, priors (default: searched)"},
    {"--kind", "K", 'D', ARG_TEXT, AT(kind), 0,
     "make: lerobot-v2.0, lerobot-v2.1, lerobot-v3.0, images, robomimic, aloha or libero"},
    {"--codec", "C", 'D', ARG_TEXT, AT(codec), 0,
     "make: lerobot: av1, h264, png; images: png, jpeg; aloha: raw, jpeg (the first is the default)"},
    {"--episodes", "N", 'D', ARG_INT, AT(episodes), 1, "make: episodes (4)"},
    {"--frames-per-episode", "N", 'D', ARG_INT, AT(frames_per_episode), 1, "make: frames of each (50)"},
    {"--cameras", "N", 'D', ARG_INT, AT(cameras), 1, "make: cameras (2)"},
    {"--image-size", "HxW", 'D', ARG_IMAGE_SIZE, AT(image_height), 1, "make: pixels of each camera (480x640)"},
    {"--state-dim", "N", 'D', ARG_INT, AT(state_dim), 1, "make: width of the robot state (6)"},
    {"--action-dim", "N", 'D', ARG_INT, AT(action_dim), 1, "make: width of an action (6)"},
    {"--gop", "N", 'D', ARG_INT, AT(gop), 1, "make: frames from one key frame of a video to the next (2)"},
    {"--fps", "X", 'D', ARG_POSITIVE, AT(fps), 0, "make: frames per second (30)"},
    {"--seed", "N", 'D', ARG_INT, AT(seed), 0, "make: seed of scenes and movements (1)"},
    {"--output", "FILE", 'o', ARG_TEXT, AT(output), 0, "file to write (-o)"},
    {"--trace", "FILE", 'e', ARG_TEXT, AT(trace), 0, "one iteration as trace events, for Perfetto or Chrome"},
    {"--probe", "FILE", 'g', ARG_TEXT, AT(probe), 0, "what bench/torch_probe.py wrote"},
    {"--log", "FILE", 'g', ARG_REPEAT, AT(log), 0, "a LeRobot training log of this machine; may be repeated"},
    {"--ops", NULL, 'i', ARG_FLAG, AT(ops), 0, "list the step program"},
    {"--json", NULL, 'j', ARG_FLAG, AT(json), 0, "one JSON object on stdout instead of tables"},
    {"--quiet", NULL, 'j', ARG_FLAG, AT(quiet), 0, "no progress on stderr"},
    {"--help", NULL, 'j', ARG_FLAG, AT(help), 0, "this text"},
    {"--version", NULL, 'j', ARG_FLAG, AT(version), 0, "the program's version"},
};
enum { TABLE_SIZE = sizeof table / sizeof table[0] };

static const sg_command *command_named(const char *name) {
    size_t n;
    const sg_command *commands = sg_commands(&n);
    for (size_t i = 0; name && i < n; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

/* An option of this name, the command's own where there are several. */
static const sg_arg *find(const char *name, size_t length, const sg_command *command) {
    if (length == 2 && strncmp(name, "-o", 2) == 0) return find("--output", 8, command);
    if (length == 2 && strncmp(name, "-h", 2) == 0) return find("--help", 6, command);
    const sg_arg *found = NULL;
    for (size_t i = 0; i < TABLE_SIZE; i++) {
        if (strlen(table[i].name) != length || strncmp(table[i].name, name, length) != 0) continue;
        if (command && strchr(command->groups, table[i].group)) return &table[i];
        if (!found) found = &table[i];
    }
    return found;
}

static sg_code unknown_option(const char *name, sg_status *status) {
    const char *known[TABLE_SIZE];
    for (size_t i = 0; i < TABLE_SIZE; i++) known[i] = table[i].name;
    const char *near = sg_nearest(name, known, TABLE_SIZE);
    if (near) return sg_fail(status, SG_BAD_INPUT, "unknown option '%.64s': did you mean '%s'?", name, near);
    return sg_fail(status, SG_BAD_INPUT,
                   "unknown option '%.64s': 'stepgauge COMMAND --help' lists the options of a command", name);
}

/* What the program can count with: list values are ints further on, other numbers pass through doubles. */
static int64_t highest(const sg_arg *arg) {
    return arg->type == ARG_INT_LIST || arg->type == ARG_BATCH ? INT32_MAX : INT64_C(1) << 53;
}

static sg_code parse_int(const sg_arg *arg, const char *text, char **end, int64_t *out, sg_status *status) {
    errno = 0;
    long long value = strtoll(text, end, 10);
    if (*end == text) return sg_fail(status, SG_BAD_INPUT, "%s '%.64s': a whole number is expected", arg->name, text);
    if (errno == ERANGE || (double)value < arg->low || value > highest(arg))
        return sg_fail(status, SG_BAD_INPUT, "%s '%.64s': a whole number of at least %.0f and at most %lld is expected",
                       arg->name, text, arg->low, (long long)highest(arg));
    *out = value;
    return SG_OK;
}

static sg_code parse_whole_int(const sg_arg *arg, const char *text, int64_t *out, sg_status *status) {
    char *end;
    sg_code code = parse_int(arg, text, &end, out, status);
    if (code == SG_OK && *end)
        return sg_fail(status, SG_BAD_INPUT, "%s '%.64s': a whole number is expected", arg->name, text);
    return code;
}

/* The number at *text and a letter behind it. */
static sg_code parse_size(const sg_arg *arg, const char *text, char **end, int64_t *out, sg_status *status) {
    static const char letters[] = "kmgKMG";
    sg_code code = parse_int(arg, text, end, out, status);
    const char *letter = code == SG_OK && **end ? strchr(letters, **end) : NULL;
    if (!letter) return code;
    int shift = 10 * (int)((letter - letters) % 3 + 1);
    if (*out > highest(arg) >> shift)
        return sg_fail(status, SG_BAD_INPUT, "%s '%.64s': more than any memory holds", arg->name, text);
    *out <<= shift;
    (*end)++;
    return SG_OK;
}

static sg_code parse_int_list(const sg_arg *arg, const char *text, sg_int_list *list, sg_status *status) {
    list->n = 0;
    for (const char *at = text;;) {
        if (list->n == SG_LIST_MAX)
            return sg_fail(status, SG_BAD_INPUT, "%s: more than %d values", arg->name, SG_LIST_MAX);
        char *end;
        sg_code code = arg->type == ARG_SIZE_LIST ? parse_size(arg, at, &end, &list->value[list->n], status)
                                                  : parse_int(arg, at, &end, &list->value[list->n], status);
        if (code != SG_OK) return code;
        list->n++;
        if (*end == '\0') return SG_OK;
        if (*end != ',')
            return sg_fail(status, SG_BAD_INPUT, "%s '%.64s': whole numbers separated by commas are expected",
                           arg->name, text);
        at = end + 1;
    }
}

static sg_code parse_real(const sg_arg *arg, const char *text, double *out, sg_status *status) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value))
        return sg_fail(status, SG_BAD_INPUT, "%s '%.64s': a number is expected", arg->name, text);
    if (arg->type == ARG_POSITIVE && value <= 0)
        return sg_fail(status, SG_BAD_INPUT, "%s '%.64s': must be more than 0", arg->name, text);
    if (value < arg->low)
        return sg_fail(status, SG_BAD_INPUT, "%s '%.64s': must be at least %g", arg->name, text, arg->low);
    *out = value;
    return SG_OK;
}

static sg_code parse_image_size(const sg_arg *arg, const char *text, sg_args *args, sg_status *status) {
    char *end;
    int64_t height = 0, width = 0;
    sg_code code = parse_int(arg, text, &end, &height, status);
    if (code != SG_OK) return code;
    if ((*end != 'x' && *end != 'X') || !end[1])
        return sg_fail(status, SG_BAD_INPUT, "%s '%.64s': HEIGHTxWIDTH is expected, such as 480x640", arg->name, text);
    code = parse_whole_int(arg, end + 1, &width, status);
    if (code != SG_OK) return code;
    args->image_height = height;
    args->image_width = width;
    return SG_OK;
}

static sg_code store(const sg_arg *arg, const char *text, sg_args *args, sg_status *status) {
    void *field = (char *)args + arg->offset;
    if (text && !*text)
        return sg_fail(status, SG_BAD_INPUT, "%s needs a value, '' is none: %s %s", arg->name, arg->name, arg->value);
    switch (arg->type) {
    case ARG_FLAG: *(bool *)field = true; return SG_OK;
    case ARG_TEXT: *(const char **)field = text; return SG_OK;
    case ARG_INT: return parse_whole_int(arg, text, field, status);
    case ARG_REAL:
    case ARG_POSITIVE: return parse_real(arg, text, field, status);
    case ARG_INT_LIST:
    case ARG_SIZE_LIST: return parse_int_list(arg, text, field, status);
    case ARG_BATCH:
        args->batch_auto = strcmp(text, "auto") == 0;
        return args->batch_auto ? SG_OK : parse_int_list(arg, text, field, status);
    case ARG_IMAGE_SIZE: return parse_image_size(arg, text, args, status);
    case ARG_LEFT_OUT:
        if (text && strcmp(text, "rows") != 0 && strcmp(text, "devices") != 0 && strcmp(text, "batches") != 0)
            return sg_fail(status, SG_BAD_INPUT, "%s '%.64s': rows or devices is expected (or batches, of reports)",
                           arg->name, text);
        *(const char **)field = text ? text : "rows";
        return SG_OK;
    case ARG_FILES:
    case ARG_REPEAT: {
        sg_repeat *repeat = field;
        if (repeat->n == SG_REPEAT_MAX)
            return sg_fail(status, SG_BAD_INPUT, "%s: given more than %d times", arg->name, SG_REPEAT_MAX);
        repeat->value[repeat->n++] = text;
        return SG_OK;
    }
    }
    return SG_OK;
}

static void set_defaults(sg_args *args) {
    memset(args, 0, sizeof *args);
    args->cameras = args->image_height = args->image_width = args->state_dim = args->action_dim = -1;
    args->chunk_size = args->accumulation = args->envs = args->steps_per_env = args->mini_batches = -1;
    args->ppo_epochs = args->iterations = args->prefetch = args->threads = args->seed = args->min_iterations = -1;
    args->frames = args->steps = args->save_every = args->folds = args->calibrate = args->gpus_per_node = -1;
    args->episodes = args->frames_per_episode = args->gop = -1;
    args->fps = args->env_step_us = args->time_budget_s = args->interval = args->host_speed = args->epochs =
        args->budget_usd = args->deadline_h = args->update_s = args->vcpus = -1;
}

/* One argument at argv[*i]; advances *i past a value that stands apart. given[]: by option. */
static sg_code parse_one(int argc, char **argv, int *i, sg_args *args, bool *given, sg_status *status) {
    const char *text = argv[*i];
    if (text[0] == '\0')
        return sg_fail(status, SG_BAD_INPUT, "argument %d is empty: 'stepgauge --help' says what may stand there", *i);
    if (text[0] != '-' || text[1] == '\0') {
        if (!args->command) {
            args->command = text;
            return SG_OK;
        }
        if (args->positional.n == SG_REPEAT_MAX)
            return sg_fail(status, SG_BAD_INPUT, "more than %d arguments", SG_REPEAT_MAX);
        args->positional.value[args->positional.n++] = text;
        return SG_OK;
    }
    const char *equals = strncmp(text, "--", 2) == 0 ? strchr(text, '=') : NULL;
    const sg_arg *arg = find(text, equals ? (size_t)(equals - text) : strlen(text), command_named(args->command));
    if (!arg) return unknown_option(text, status);
    given[arg - table] = true;
    if (arg->type == ARG_FLAG) {
        if (equals) return sg_fail(status, SG_BAD_INPUT, "%s takes no value", arg->name);
        return store(arg, NULL, args, status);
    }
    if (equals) return store(arg, equals + 1, args, status);
    bool follows = *i + 1 < argc && (argv[*i + 1][0] != '-' || !argv[*i + 1][1]);
    if (arg->type == ARG_LEFT_OUT && !follows) return store(arg, NULL, args, status);
    if (*i + 1 >= argc)
        return sg_fail(status, SG_BAD_INPUT, "%s needs a value: %s %s", arg->name, arg->name, arg->value);
    *i += 1;
    sg_code code = store(arg, argv[*i], args, status);
    while (arg->type == ARG_FILES && !code && *i + 1 < argc && argv[*i + 1][0] != '-') {
        *i += 1;
        code = store(arg, argv[*i], args, status);
    }
    return code;
}

/* An option that the command does not take would change nothing: silence would let its author believe that it did. */
static sg_code not_taken(const sg_arg *arg, const char *command, sg_status *status) {
    char takers[128] = "";
    size_t n, used = 0;
    const sg_command *commands = sg_commands(&n);
    for (size_t i = 0; i < n && used < sizeof takers; i++)
        if (strchr(commands[i].groups, arg->group))
            used += (size_t)snprintf(takers + used, sizeof takers - used, "%s%s", used ? ", " : "", commands[i].name);
    return sg_fail(status, SG_BAD_INPUT, "'%s' takes no %s: leave it out (%s is for: %s)", command, arg->name,
                   arg->name, takers);
}

static sg_code check_taken(const char *name, const bool *given, sg_status *status) {
    size_t n;
    const sg_command *commands = sg_commands(&n);
    for (size_t c = 0; name && c < n; c++) {
        if (strcmp(commands[c].name, name) != 0) continue;
        for (size_t i = 0; i < TABLE_SIZE; i++)
            if (given[i] && !strchr(commands[c].groups, table[i].group)) return not_taken(&table[i], name, status);
    }
    return SG_OK;
}

/* A value that a command would leave unread is refused. */
static sg_code check_read(const sg_args *args, sg_status *status) {
    const char *command = args->command ? args->command : "";
    bool at_once = strcmp(command, "predict") == 0 || strcmp(command, "inspect") == 0 || strcmp(command, "plan") == 0;
    bool table = strcmp(command, "fit") == 0 && (args->collectives.n || args->kernels.n); /* a device of the table */
    bool any_device = strcmp(command, "bench") == 0 || table; /* bench: knows further modules */
    if (args->device && !any_device && strcmp(args->device, "cpu") != 0 && strcmp(args->device, "cuda") != 0)
        return sg_fail(status, SG_BAD_INPUT, "--device '%.64s': cpu or cuda is expected", args->device);
    if (strcmp(command, "devices") == 0 && args->positional.n)
        return sg_fail(status, SG_BAD_INPUT, "'devices' shows everything that is here: leave '%.64s' out",
                       args->positional.value[0]);
    if (args->batch_auto && *command && strcmp(command, "measure") != 0)
        return sg_fail(status, SG_BAD_INPUT, "--batch auto is for 'measure', which tries what fits: give %s a number",
                       command);
    if (strcmp(command, "validate") == 0 && args->positional.n)
        return sg_fail(status, SG_BAD_INPUT,
                       "'validate' takes its files by kind: put an option such as --collectives before '%.64s'",
                       args->positional.value[0]);
    if (args->markdown && args->json)
        return sg_fail(status, SG_BAD_INPUT,
                       "--markdown and --json are two forms of one answer: leave out one of them");
    if (args->batch_auto && args->workers.n > 1)
        return sg_fail(status, SG_BAD_INPUT, "--batch auto takes one number of workers at a time: --workers %lld",
                       (long long)args->workers.value[0]);
    if (at_once && args->workers.n > 1)
        return sg_fail(status, SG_BAD_INPUT, "%s takes one number of workers at a time: --workers %lld", command,
                       (long long)args->workers.value[0]);
    if (at_once && args->ranks.n > 1)
        return sg_fail(status, SG_BAD_INPUT, "%s takes one number of ranks at a time: %s %lld", command,
                       args->gpus.n ? "--gpus" : "--ranks", (long long)args->ranks.value[0]);
    return SG_OK;
}

sg_code sg_args_parse(int argc, char **argv, sg_args *args, sg_status *status) {
    bool given[TABLE_SIZE] = {false};
    set_defaults(args);
    args->argc = argc;
    args->argv = argv;
    for (int i = 1; i < argc; i++) {
        sg_code code = parse_one(argc, argv, &i, args, given, status);
        if (code != SG_OK) return code;
    }
    if (args->interval >= 1)
        return sg_fail(status, SG_BAD_INPUT, "--interval %g: a probability between 0 and 1 is expected, such as 0.9",
                       args->interval);
    if (args->loader_only && args->update_s > 0)
        return sg_fail(status, SG_BAD_INPUT, "--loader-only is --update-s 0: leave out one of them");
    if (args->loader_only) args->update_s = 0;
    if (args->prefetch > SG_PREFETCH_MAX)
        return sg_fail(status, SG_BAD_INPUT, "--prefetch %lld: 1 to %d are expected", (long long)args->prefetch,
                       SG_PREFETCH_MAX);
    if (args->gpus_per_node > 1 << 20)
        return sg_fail(status, SG_BAD_INPUT, "--gpus-per-node %lld: at most 1048576 are expected",
                       (long long)args->gpus_per_node);
    if (args->gpus.n && args->ranks.n)
        return sg_fail(status, SG_BAD_INPUT, "--gpus and --ranks say the same: leave out one of them");
    if (args->gpus.n) args->ranks = args->gpus;
    sg_code code = check_taken(args->command, given, status);
    return code == SG_OK ? check_read(args, status) : code;
}

/* Options that one of a command's verbs alone reads say so first. */
static bool of_verb(const sg_arg *arg, const char *verb, const char **help) {
    static const char mark[] = "make: ";
    *help = arg->help;
    if (!*verb || strncmp(arg->help, mark, sizeof mark - 1) != 0) return true;
    *help += sizeof mark - 1;
    return strcmp(verb, "make") == 0;
}

/* "make" or "show" of the command that has them; else "". */
static const char *verb_of(const sg_command *command, const char *word) {
    if (!word || strcmp(command->name, "dataset") != 0) return "";
    return strcmp(word, "make") == 0 || strcmp(word, "show") == 0 ? word : "";
}

static void print_usage(const sg_command *command, const char *verb) {
    if (strcmp(verb, "make") == 0)
        printf(
            "Make a small data set to measure loading with\n\nUsage: stepgauge dataset make DIR --kind K [options]\n");
    else if (strcmp(verb, "show") == 0)
        printf("What a data set holds\n\nUsage: stepgauge dataset show DIR\n");
    else
        printf("%s\n\nUsage: stepgauge %s\n", command->summary, command->usage);
}

void sg_help_command(const sg_command *command, const char *word) {
    const char *verb = verb_of(command, word), *help;
    print_usage(command, verb);
    printf("\nOptions:\n");
    for (size_t i = 0; i < TABLE_SIZE; i++) {
        if (!strchr(command->groups, table[i].group) || strcmp(table[i].name, "--version") == 0) continue;
        if (find(table[i].name, strlen(table[i].name), command) != &table[i])
            continue; /* the command's own text stands */
        if (!of_verb(&table[i], verb, &help)) continue;
        char left[64];
        (void)snprintf(left, sizeof left, "%s %s", table[i].name, table[i].value ? table[i].value : "");
        printf("  %-26s %s\n", left, help);
    }
    printf("\nExample:\n  %s\n", strcmp(verb, "show") == 0 ? "stepgauge dataset show demo" : command->example);
    printf("\nExit status: 0 done; 1 the answer is \"no\"; 2 bad usage or input; 3 the machine failed; 130 "
           "interrupted.\n");
}

void sg_help(void) {
    printf("stepgauge runs a robot-learning policy's training step here, and says what a training needs here and "
           "elsewhere.\n\n"
           "Usage: stepgauge COMMAND [ARGUMENTS]\n\nCommands:\n");
    size_t n;
    const sg_command *commands = sg_commands(&n);
    for (size_t i = 0; i < n; i++) printf("  %-9s %s\n", commands[i].name, commands[i].summary);
    printf("\n'stepgauge COMMAND --help' gives the options and an example. Policies:\n");
    const sg_family *families = sg_families(&n);
    for (size_t i = 0; i < n; i++) printf("  %-12s %s\n", families[i].name, families[i].summary);
}
