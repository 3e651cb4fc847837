#include "cli/world.h"

#include "cli/device_choice.h"
#include "cli/interrupt.h"
#include "cli/measuring.h"
#include "formats/durable_file.h"
#include "kernels/tcp/tcp.h"
#include "sim/ranks/rank_variables.h"
#include "sim/ranks/spawn_ranks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 256 };
static const double JOIN_S = 30;

static bool on_gpus(const sg_args *args) {
    sg_device_choice choice;
    return sg_device_choose(args, &choice, NULL) == SG_OK && choice.device_class == SG_DEVICE_CLASS_CUDA;
}

/* ---- being a rank ------------------------------------------------------------------------------------------------ */

static sg_code join_mpi(sg_world *world, int expected, sg_status *status) {
    char library[96];
    const sg_transport_api *api;
    sg_code code = sg_module_transport("mpi", &api, status);
    return code == SG_OK ? api->join(expected, JOIN_S, &world->transport, library, sizeof library, status) : code;
}

static sg_code join_tcp(sg_world *world, const sg_rank_variables *v, sg_status *status) {
    const sg_tcp_options options = {.rank = v->rank,
                                    .ranks = v->ranks,
                                    .address = v->address,
                                    .port = v->port,
                                    .ports = v->ports,
                                    .listener = v->listener,
                                    .secret = v->secret,
                                    .timeout_s = JOIN_S};
    return sg_tcp_join(&options, &world->transport, status);
}

/* GPUs exchange their data by themselves: TCP will do for the rest. On CPUs MPI is faster. */
static bool meets_over_tcp(const sg_args *args, const sg_rank_variables *v) {
    const sg_transport_api *api;
    if (v->meeting != SG_MEET_EITHER) return v->meeting == SG_MEET_TCP;
    return on_gpus(args) || sg_module_transport("mpi", &api, NULL) != SG_OK;
}

static sg_code join(const sg_args *args, sg_world *world, const sg_rank_variables *v, sg_status *status) {
    sg_code code = meets_over_tcp(args, v) ? join_tcp(world, v, status) : join_mpi(world, v->ranks, status);
    if (code != SG_OK) return sg_fail_in(status, "joining the ranks that %s started", v->launcher);
    world->rank = world->transport->rank;
    world->ranks = world->transport->ranks;
    return SG_OK;
}

sg_code sg_world_join(const sg_args *args, sg_world *world, sg_status *status) {
    *world = (sg_world){.rank = 0, .ranks = 1};
    sg_rank_variables variables;
    sg_code code = sg_rank_variables_read(&variables, status);
    if (code != SG_OK) return code;
    world->local_rank = variables.local_rank;
    if (variables.found && variables.ranks != 1) return join(args, world, &variables, status);
    for (size_t i = 0; i < args->ranks.n && !variables.found; i++)
        if (args->ranks.value[i] > 1) world->must_launch = true;
    return SG_OK;
}

void sg_world_leave(sg_world *world) {
    if (world->transport) world->transport->api->leave(world->transport);
    world->transport = NULL;
}

/* Under MPI leaving waits for the others, who may be in the middle of an exchange: this process ends with its status, and
 * mpirun ends them. */
void sg_world_fail(sg_world *world, const char *why) {
    if (!world->transport || world->transport->api != sg_tcp_transport()) return;
    world->transport->api->abort(world->transport, why);
    sg_world_leave(world);
}

bool sg_world_speaks(const sg_world *world) {
    char why[2];
    const sg_transport *t = world->transport;
    return !t || world->rank < 2 || !t->api->lost || !t->api->lost(world->transport, why, sizeof why);
}

/* ---- starting ranks -------------------------------------------------------------------------------------------------- */

/* This command line again, with the rank counts replaced by one and the output by the shared run file. */
static int arguments_for(const sg_args *args, const char *program, const char *ranks, const char *output, char **argv) {
    int n = 0;
    argv[n++] = (char *)(uintptr_t)program;
    for (int i = 1; i < args->argc && n < ARGUMENTS_MAX - 10; i++) {
        const char *a = args->argv[i];
        bool with_value =
            strcmp(a, "--ranks") == 0 || strcmp(a, "--gpus") == 0 || strcmp(a, "--output") == 0 || strcmp(a, "-o") == 0;
        bool joined =
            strncmp(a, "--ranks=", 8) == 0 || strncmp(a, "--gpus=", 7) == 0 || strncmp(a, "--output=", 9) == 0;
        if (with_value) i++;
        if (with_value || joined || strcmp(a, "--json") == 0) continue;
        argv[n++] = (char *)(uintptr_t)a;
    }
    /* where none was named, what is chosen depends on --gpus, which is not passed on */
    if (!args->device) argv[n++] = (char *)(uintptr_t) "--device";
    if (!args->device) argv[n++] = (char *)(uintptr_t)(on_gpus(args) ? "cuda" : "cpu");
    argv[n++] = (char *)(uintptr_t) "--ranks";
    argv[n++] = (char *)(uintptr_t)ranks;
    argv[n++] = (char *)(uintptr_t) "--output";
    argv[n++] = (char *)(uintptr_t)output;
    argv[n++] = (char *)(uintptr_t) "--quiet";
    argv[n] = NULL;
    return n;
}

/* Ranks print their own table on stdout: it goes to stderr, so that the answer of this command stays one. */
static sg_code run_ranks(const sg_args *args, int64_t ranks, const char *output, int *exit_status, sg_status *status) {
    char program[4096], count[24], *argv[ARGUMENTS_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0) return sg_fail(status, SG_MACHINE, "cannot find this program's own file to start ranks");
    program[length] = '\0';
    (void)snprintf(count, sizeof count, "%lld", (long long)ranks);
    (void)arguments_for(args, program, count, output, argv);
    (void)fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    if (saved < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return sg_fail(status, SG_MACHINE, "cannot redirect the ranks' output");
    const sg_transport_api *mpi;
    bool with_mpirun = !on_gpus(args) && sg_launch_ranks_possible() && sg_module_transport("mpi", &mpi, NULL) == SG_OK;
    sg_code code = with_mpirun ? sg_launch_ranks((int)ranks, argv, NULL, exit_status, status)
                               : sg_spawn_ranks((int)ranks, argv, NULL, exit_status, status);
    (void)dup2(saved, STDOUT_FILENO);
    (void)close(saved);
    return code;
}

/* What the command line would measure; false when it cannot be told. */
static bool asked_for(const sg_args *args, sg_point_config *config) {
    sg_device_choice choice;
    sg_request request;
    sg_training *training = NULL;
    if (sg_device_choose(args, &choice, NULL) != SG_OK) return false;
    if (sg_request_make(args, choice.device_class, &request, NULL) != SG_OK) return false;
    sg_measure_options options = sg_measuring_options(args, &choice, NULL, NULL);
    bool known = sg_policy_build(&request.policy, &training, NULL) == SG_OK &&
                 sg_measure_config(&request.policy, training, &options, config, NULL) == SG_OK;
    sg_training_free(training);
    sg_request_clear(&request);
    return known;
}

/* A run file may hold other policies' points too. */
static bool same_policy(const sg_point_config *a, const sg_point_config *b) {
    return strcmp(a->policy, b->policy) == 0 && strcmp(a->framework, b->framework) == 0 &&
           strcmp(a->device, b->device) == 0 && strcmp(a->precision, b->precision) == 0 &&
           strcmp(a->settings, b->settings) == 0;
}

static bool wanted(const sg_args *args, const sg_point *point) {
    bool by_rank = args->ranks.n == 0, by_batch = args->batch.n == 0;
    for (size_t i = 0; i < args->ranks.n; i++) by_rank = by_rank || args->ranks.value[i] == point->config.ranks;
    for (size_t i = 0; i < args->batch.n; i++) by_batch = by_batch || args->batch.value[i] == point->config.batch;
    return by_rank && by_batch;
}

int sg_world_show_points(const sg_args *args, const sg_run *run, int result) {
    size_t n = 0;
    sg_point *points = calloc(run->n_points + 1, sizeof *points); /* borrowed */
    if (!points) return SG_MACHINE;
    sg_point_config asked;
    bool known = asked_for(args, &asked);
    for (size_t i = 0; i < run->n_points; i++)
        if (wanted(args, &run->points[i]) && (!known || same_policy(&run->points[i].config, &asked)))
            points[n++] = run->points[i];
    if (args->json) {
        json_t *list = json_array();
        for (size_t i = 0; i < n; i++) (void)json_array_append_new(list, sg_json_point(&points[i]));
        result =
            sg_json_print(json_pack("{s:o, s:o}", "machine", sg_json_machine(&run->machine), "points", list), result);
    } else {
        sg_print_points(points, n);
        if (args->output && n) printf("\nWritten to %s\n", args->output);
    }
    free(points);
    return result;
}

static int show_file(const sg_args *args, const char *path, sg_world_show show, int result) {
    sg_run run;
    sg_status status;
    if (sg_run_file_read(path, &run, &status) != SG_OK) return result ? result : sg_show_error(args, &status);
    result = show(args, &run, result);
    sg_run_clear(&run);
    return result;
}

/* Before any process is started: as many GPUs as the largest number of ranks. */
static sg_code check_gpus(const sg_args *args, sg_status *status) {
    sg_device_choice choice;
    int64_t most = 1;
    sg_code code = sg_device_choose(args, &choice, status);
    for (size_t i = 0; i < args->ranks.n; i++)
        if (args->ranks.value[i] > most) most = args->ranks.value[i];
    return code == SG_OK ? sg_device_ready(&choice, most, status) : code;
}

/* Ranks that were killed leave their lock and an unfinished file behind. */
static void remove_leftovers(const char *output) {
    sg_file_lock lock;
    if (sg_file_lock_take(output, &lock, NULL) != SG_OK) return;
    char path[4096];
    int n = snprintf(path, sizeof path, "%s.tmp", output);
    if (n > 0 && (size_t)n < sizeof path) (void)unlink(path);
    sg_file_lock_release(&lock);
}

int sg_world_launch(const sg_args *args, const volatile int *stop, sg_world_show show) {
    sg_status status;
    if (check_gpus(args, &status) != SG_OK) return sg_show_error(args, &status);
    char scratch[1024], path[1040];
    const char *output = args->output, *folder = getenv("TMPDIR");
    if (!output) {
        (void)snprintf(scratch, sizeof scratch, "%.900s/stepgauge-ranks-XXXXXX", folder && *folder ? folder : "/tmp");
        if (!mkdtemp(scratch)) {
            (void)sg_fail(&status, SG_MACHINE,
                          "cannot make %s for the ranks' points: set TMPDIR to a folder that is there", scratch);
            return sg_show_error(args, &status);
        }
        (void)snprintf(path, sizeof path, "%s/run.h5", scratch);
        output = path;
        (void)signal(SIGPIPE, SIG_IGN); /* a reader that leaves must not keep this from being removed */
    }
    int result = SG_OK;
    for (size_t i = 0; i < args->ranks.n && result == SG_OK && !*stop; i++) {
        int exit_status = 0;
        if (run_ranks(args, args->ranks.value[i], output, &exit_status, &status) != SG_OK)
            (void)sg_show_error(args, &status);
        result = exit_status;
    }
    if (*stop) result = SG_EXIT_INTERRUPTED;
    remove_leftovers(output);
    result = show_file(args, output, show, result);
    if (output == path) {
        (void)unlink(path);
        (void)rmdir(scratch);
    }
    return result;
}
