/* lab.h: a training walked again and again at chosen weights, with the same batch, noise, time and masks every time.
 *
 * Its gradients are compared with central differences of its loss. On the reference in double both are good to about
 * 1e-9, so that the bound below leaves no room for a wrong factor anywhere. */
#ifndef SG_TESTS_SUPPORT_LAB_H
#define SG_TESTS_SUPPORT_LAB_H

#include "sim/walk/walk.h"

typedef struct sg_lab_options {
    const sg_device_api *api; /* NULL: the reference */
    bool wide;                /* every float in double */
    bool main_program_only;   /* else every program of the schedule, as often as it says */
    bool warm_up;             /* one whole iteration first, so that what other programs make is there */
    double learning_rate;     /* 0: the training's own */
    uint64_t seed;
    int directions; /* along which slopes are measured, per weight; 0: all */
} sg_lab_options;

/* One weight in all places: its values where the lab opened, the gradient there, and a few directions with the slope of
 * the loss along them. */
enum { SG_LAB_DIRECTIONS = 2 };
typedef struct sg_lab_weight {
    size_t parameter, count;
    double *value, *gradient; /* gradient NULL: backward does not reach it */
    double slope[SG_LAB_DIRECTIONS];
} sg_lab_weight;

typedef struct sg_lab {
    const sg_training *original, *training; /* training: what is walked, maybe the wide copy */
    sg_training *wide;
    sg_lab_options options;
    const sg_device_api *api;
    sg_device *device;
    sg_walker *walker;
    sg_lab_weight *weight; /* trainable parameters */
    size_t n_weights;
    int32_t *order; /* programs to run for one loss */
    size_t n_order;
    int32_t *loss; /* loss tensor of each program, or -1 */
    double value;  /* the loss at the weights where the lab opened */
} sg_lab;

/* Failures end the running test. `training` must outlive the lab. */
void sg_lab_open(sg_lab *lab, const sg_training *training, const sg_lab_options *options);
void sg_lab_close(sg_lab *lab);

/* Runs the programs once at the weights where the lab opened, moved by `step` along direction `direction` of weight `moved`
 * (none when moved is SIZE_MAX). Returns the loss: the sum over the programs that have a backward. */
double sg_lab_run(sg_lab *lab, size_t moved, int direction, double step);
/* One iteration of the schedule, with its batches, from the weights where the lab opened; then reads the gradients. */
void sg_lab_iterate(sg_lab *lab);
/* Reads all gradients as they are after a run. */
void sg_lab_read_gradients(sg_lab *lab);
/* Measures slopes by central differences: two runs per weight and direction. */
void sg_lab_measure_slopes(sg_lab *lab);

/* Largest deviation of a slope from the gradient's, in units of the norm of (gradient x direction): 0.01 when a gradient is
 * 1 % too large. *worst names the weight. Weights that backward does not reach must have no slope. */
double sg_lab_deviation(const sg_lab *lab, const char **worst);
/* Deviations above this are errors; central differences in double stay well below it. */
extern const double SG_LAB_TOLERANCE;

/* Distorts the results of the backward's ops one by one, by 1 % and a small offset (or their sign), and counts the ones that
 * the comparison notices. A result is irrelevant when not one bit of one gradient depends on it here (the value of a tie
 * where there is none). Prints what went unnoticed. */
typedef struct sg_lab_mutants {
    int noticed, unnoticed, irrelevant;
    int noticed_of[SG_OP_KIND_COUNT][SG_FN_COUNT], seen_of[SG_OP_KIND_COUNT][SG_FN_COUNT];
} sg_lab_mutants;
/* Adds to *mutants. */
void sg_lab_mutate(sg_lab *lab, sg_lab_mutants *mutants);
/* Fails the running test when something went unnoticed, or some op's wrongness was never noticed at all. */
void sg_lab_expect_noticed(const sg_lab_mutants *mutants);

/* Relative distance |a - b| / |b| of the gradients of two labs with the same parameters, all together. */
double sg_lab_distance(const sg_lab *a, const sg_lab *b);

#endif
