/* measuring.h: measuring points for `measure` and `gauge`: here, or as ranks. */
#ifndef SG_CLI_MEASURING_H
#define SG_CLI_MEASURING_H

#include "cli/device_choice.h"
#include "cli/request.h"
#include "cli/show.h"
#include "sim/files/run_file.h"
#include "sim/measure/measure.h"

/* Options of the protocol from the command line; progress may be NULL. `choice` must outlive them. */
sg_measure_options sg_measuring_options(const sg_args *args, const sg_device_choice *choice, const volatile int *stop,
                                        sg_progress *progress);

/* The point as JSON, keys as documented in README ("JSON"). */
json_t *sg_json_point(const sg_point *point);
json_t *sg_json_machine(const sg_machine_record *machine);
void sg_print_points(const sg_point *points, size_t n);
/* The part of it that tells of the loader. */
json_t *sg_json_loader(const sg_point *point);
void sg_print_loaders(const sg_point *points, size_t n);

#endif
