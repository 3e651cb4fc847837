/* priced.h: machines that ship and what they say, for tests of the virtual device. */
#ifndef SG_TESTS_SUPPORT_PRICED_H
#define SG_TESTS_SUPPORT_PRICED_H

#include "kernels/virtual/machine.h"

/* Failures of all of these end the running test. */

/* A machine of configs/machines, without the shapes measured on it: nothing in it needs to be freed. */
sg_machine sg_sheet(const char *name);
/* Seconds of an op in a step. */
double sg_op_price_s(const sg_machine *m, const sg_op *op);
/* Seconds of an all-reduce. */
double sg_all_reduce_s(const sg_machine *m, int ranks, double bytes);

/* sg_machine_price or sg_machine_price_alone */
typedef sg_code (*sg_pricer)(const sg_machine *m, const sg_op *op, double *seconds, double *gradient,
                             sg_status *status);
/* The derivatives are those of central differences, for every parameter that the machine has. */
void sg_expect_price_gradient(const sg_machine *m, const sg_op *op, sg_pricer price);

#endif
