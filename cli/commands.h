/* commands.h: one function per command; each returns the exit status. */
#ifndef SG_CLI_COMMANDS_H
#define SG_CLI_COMMANDS_H

#include "cli/args.h"

int sg_cmd_gauge(const sg_args *args);
int sg_cmd_devices(const sg_args *args);
int sg_cmd_inspect(const sg_args *args);
int sg_cmd_measure(const sg_args *args);
int sg_cmd_bench(const sg_args *args);
int sg_cmd_dataset(const sg_args *args);
int sg_cmd_import(const sg_args *args);
int sg_cmd_compare(const sg_args *args);
int sg_cmd_fit(const sg_args *args);
int sg_cmd_predict(const sg_args *args);
int sg_cmd_plan(const sg_args *args);
int sg_cmd_validate(const sg_args *args);

#endif
