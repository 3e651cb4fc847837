/* fit_shapes.h: what the fitted model misses at the shapes of measured programs. */
#ifndef SG_CALIBRATION_FIT_FIT_SHAPES_H
#define SG_CALIBRATION_FIT_FIT_SHAPES_H

#include "kernels/virtual/machine.h"
#include "sim/measure/point.h"

/* Sets machine->measured from the op times of these points, against the machine's own prices without framework factors.
 * Points without op times, of another program than today's, or not fit for rates are passed over; where none is left the
 * machine stays as it is. A shape that several points hold counts once, with its median. */
sg_code sg_fit_shapes(const sg_point *const *points, size_t n, sg_machine *machine, sg_status *status);

#endif
