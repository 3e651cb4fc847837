#include "cli/args.h"
#include "cli/commands.h"
#include "cli/show.h"
#include "kernels/nearest.h"
#include "models/policy.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const sg_command *find_command(const char *name) {
    size_t n;
    const sg_command *commands = sg_commands(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static int unknown_command(const char *name) {
    size_t n;
    const sg_command *commands = sg_commands(&n);
    const char *known[32];
    for (size_t i = 0; i < n && i < 32; i++) known[i] = commands[i].name;
    const char *near = sg_nearest(name, known, n);
    fprintf(stderr, "stepgauge: unknown command '%.64s'%s%s%s; 'stepgauge --help' lists them\n", name,
            near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
    return SG_BAD_INPUT;
}

static int run(int argc, char **argv) {
    sg_args args;
    sg_status status;
    if (sg_args_parse(argc, argv, &args, &status) != SG_OK) return sg_show_error(NULL, &status);
    if (args.version) {
        printf("stepgauge %s\n", SG_VERSION);
        return SG_OK;
    }
    if (!args.command) {
        sg_help();
        return args.help ? SG_OK : SG_BAD_INPUT;
    }
    const sg_command *command = find_command(args.command);
    if (!command) return unknown_command(args.command);
    if (args.help) {
        sg_help_command(command, args.positional.n ? args.positional.value[0] : NULL);
        return SG_OK;
    }
    return command->run(&args);
}

int main(int argc, char **argv) {
    (void)signal(SIGXFSZ,
                 SIG_IGN); /* a file too large (ulimit -f) is an error of its writer, who tidies up, not a death */
    int result = run(argc, argv);
    /* A full disk or a closed pipe must not look like success. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "stepgauge: cannot write the answer to standard output\n");
        return SG_MACHINE;
    }
    return result;
}
