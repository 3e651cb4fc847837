/* fitting.h: a fit from the command line, and how it is shown; for `fit` and `gauge`. */
#ifndef SG_CLI_FITTING_H
#define SG_CLI_FITTING_H

#include "calibration/fit/fit.h"
#include "calibration/predict/predict.h"
#include "cli/show.h"

/* Prior from --machine (default "cpu"), --probe and --log as given. */
sg_code sg_fitting(const sg_args *args, const sg_run *run, sg_fit *fit, sg_status *status);
json_t *sg_json_fit(const sg_fit *fit, const sg_run *run);
void sg_print_fit(const sg_fit *fit, const sg_run *run);
/* fit --collectives: the link of a server from all-reduce times, as a file of configs/links/ on stdout; -o: the machine of
 * --machine with it. Returns the exit status. */
int sg_fitting_collectives(const sg_args *args);
/* fit --reports: what shares of their peaks GPUs reach inside steps, and what hosts spend, from published trainings, as the
 * lines of configs/priors/ and configs/frameworks/; -o: into a file. Returns the exit status. */
int sg_fitting_reports(const sg_args *args);
/* fit --steps: step_stretch of the GPUs of a table of whole steps (of --machine alone), as lines of configs/machines/; -o: into
 * a file. Returns the exit status. */
int sg_fitting_steps(const sg_args *args);
/* fit --kernels --device: a machine's parameters, tiles and measured shapes from tables of kernels; -o: a machine file, or
 * a data sheet (.yaml) with the shapes beside it. Returns the exit status. */
int sg_fitting_kernels(const sg_args *args);

#endif
