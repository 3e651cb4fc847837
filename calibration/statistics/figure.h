/* figure.h: a predicted figure: value, interval, evidence. The only place where intervals are made. */
#ifndef SG_CALIBRATION_STATISTICS_FIGURE_H
#define SG_CALIBRATION_STATISTICS_FIGURE_H

#include "kernels/virtual/machine.h"

/* Log standard deviations added in quadrature (docs/design.md, "Evidence and intervals"). */
typedef struct sg_log_sd {
    double parameters, model, inputs;
} sg_log_sd;

typedef struct sg_figure {
    double value, low, high; /* low..high holds the truth with probability `interval` (0.9 unless asked otherwise) */
    sg_log_sd parts;
    sg_evidence evidence;
} sg_figure;

/* Student t, 4 degrees of freedom, in log units. interval in (0, 1). value >= 0. */
sg_figure sg_figure_make(double value, sg_log_sd parts, sg_evidence evidence, double interval);
/* One-sided (memory): low = value, high = the promised upper bound. */
sg_figure sg_figure_upper(double value, sg_log_sd parts, sg_evidence evidence, double interval);
/* Products and quotients with exact numbers keep the log sd: scale * value^power (power 1 or -1). */
sg_figure sg_figure_scaled(const sg_figure *figure, double scale, int power);
/* An exact amount more or less, never below zero. The parts stay those of the figure. */
sg_figure sg_figure_shifted(const sg_figure *figure, double offset);
/* The larger of two independent times. Both bounds are the larger of both: where the smaller figure is the more uncertain
 * one, the truth may well lie above the larger, and the parts and the evidence are then the smaller figure's. */
sg_figure sg_figure_max(const sg_figure *a, const sg_figure *b);
/* Sum of independent figures: distances to the bounds and parts by share add in quadrature; evidence is the weakest of
 * those that make 10 % or more. */
sg_figure sg_figure_sum(const sg_figure *terms, size_t n);
/* A function of n independent figures that was evaluated with all at their values, and with each alone at its low and its
 * high bound: distances add in quadrature, parts by the share of the response; evidence is the weakest of those that it
 * follows by 10 % or more. */
sg_figure sg_figure_of(double value, const sg_figure *inputs, const double *at_low, const double *at_high, size_t n);

#endif
