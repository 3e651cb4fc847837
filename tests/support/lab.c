#include "tests/support/lab.h"
#include "tests/reference/reference.h"
#include "tests/support/widen.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const double SG_LAB_TOLERANCE = 1e-5;

/* Half the distance between the two points of a difference: rounding of the loss stays near 1e-9 of it, curvature below. */
static const double STEP = 1e-6;
static const double ROUNDING = 1e-15;

static void *must(void *pointer) {
    assert_non_null(pointer);
    return pointer;
}

static void check(sg_code code, const sg_status *status) {
    if (code != SG_OK) fail_msg("%s", status->text);
}

static size_t count_of(const sg_lab *lab, int32_t tensor) {
    return (size_t)sg_desc_count(&lab->training->tensors[tensor].desc);
}

/* ---- what to run ------------------------------------------------------------------------------------------------- */

static void list_programs(sg_lab *lab) {
    const sg_training *t = lab->training;
    if (lab->options.main_program_only) {
        lab->order = must(malloc(sizeof *lab->order));
        lab->order[lab->n_order++] = (int32_t)sg_main_program(t);
        return;
    }
    for (int pass = 0; pass < 2; pass++) {
        lab->n_order = 0;
        for (size_t b = 0; b < t->n_blocks; b++)
            for (int64_t r = 0; r < t->blocks[b].repeat; r++)
                for (size_t s = 0; s < t->blocks[b].n_steps; s++) {
                    const sg_schedule_step *step = &t->blocks[b].steps[s];
                    if (step->kind != SG_STEP_PROGRAM) continue;
                    if (pass) lab->order[lab->n_order] = step->index;
                    lab->n_order++;
                }
        if (!pass) lab->order = must(calloc(lab->n_order + 1, sizeof *lab->order));
    }
}

/* The scalar whose gradient is taken: the result of the last op before the backward. */
static int32_t loss_of(const sg_training *t, const sg_program *p) {
    int32_t loss = -1;
    for (size_t i = 0; i < p->n_entries; i++) {
        const sg_entry *e = &p->entries[i];
        if (e->pass == SG_PASS_BACKWARD && e->kind == SG_ENTRY_OP) return loss;
        if (e->pass != SG_PASS_FORWARD || e->kind != SG_ENTRY_OP) continue;
        const sg_op *op = &t->ops[e->index];
        int32_t result = t->args[e->args + (uint32_t)op->n_in];
        if (sg_desc_count(&t->tensors[result].desc) == 1) loss = result;
    }
    return -1;
}

static void find_weights(sg_lab *lab) {
    const sg_training *t = lab->training;
    sg_status status = {0};
    lab->weight = must(calloc(t->n_parameters + 1, sizeof *lab->weight));
    for (size_t i = 0; i < t->n_parameters; i++) {
        const sg_parameter *p = &t->parameters[i];
        if (!p->trainable) {
            assert_int_equal(p->gradient, -1);
            continue;
        }
        sg_lab_weight *w = &lab->weight[lab->n_weights++];
        w->parameter = i;
        w->count = count_of(lab, p->tensor);
        w->value = must(calloc(w->count, sizeof *w->value));
        check(sg_walker_read(lab->walker, p->tensor, w->value, w->count, &status), &status);
        if (p->gradient < 0) continue;
        w->gradient = must(calloc(w->count, sizeof *w->gradient));
        check(sg_walker_keep(lab->walker, p->gradient, &status), &status);
    }
}

void sg_lab_open(sg_lab *lab, const sg_training *training, const sg_lab_options *options) {
    sg_status status = {0};
    *lab = (sg_lab){.original = training, .training = training, .options = *options};
    if (!lab->options.directions) lab->options.directions = SG_LAB_DIRECTIONS;
    if (options->wide) lab->training = lab->wide = sg_widen(training);
    check(sg_training_verify(lab->training, &status), &status);
    lab->api = options->api ? options->api : sg_reference_device();
    check(lab->api->open(&(sg_device_options){.threads = 2}, &lab->device, &status), &status);
    sg_walk_options walk = {.api = lab->api,
                            .device = lab->device,
                            .seed = options->seed,
                            .ranks = 1,
                            .random_weights = true,
                            .fixed_random = true,
                            .learning_rate = options->learning_rate};
    check(sg_walker_open(lab->training, &walk, &lab->walker, &status), &status);
    if (options->warm_up) check(sg_walker_iteration(lab->walker, NULL, &status), &status);
    list_programs(lab);
    lab->loss = must(calloc(lab->training->n_programs + 1, sizeof *lab->loss));
    for (size_t p = 0; p < lab->training->n_programs; p++) {
        lab->loss[p] = loss_of(lab->training, &lab->training->programs[p]);
        if (lab->loss[p] >= 0) check(sg_walker_keep(lab->walker, lab->loss[p], &status), &status);
    }
    find_weights(lab);
    lab->value = sg_lab_run(lab, SIZE_MAX, 0, 0);
    sg_lab_read_gradients(lab);
}

void sg_lab_close(sg_lab *lab) {
    sg_walker_close(lab->walker);
    lab->api->close(lab->device);
    for (size_t i = 0; i < lab->n_weights; i++) {
        free(lab->weight[i].value);
        free(lab->weight[i].gradient);
    }
    free(lab->weight);
    free(lab->order);
    free(lab->loss);
    sg_widen_free(lab->wide);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Component e of a direction: between 0.5 and 1.5 in size, of any sign, from a hash (SplitMix64's finaliser). */
static double component(size_t parameter, int direction, size_t e) {
    uint64_t x =
        (uint64_t)e * 0x9E3779B97F4A7C15u + (uint64_t)parameter * 0xD1B54A32D192ED03u + (uint64_t)direction + 1;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    double size = 0.5 + (double)(x >> 12) * 0x1p-52;
    return x & 1 ? size : -size;
}

static void write_weights(sg_lab *lab, size_t moved, int direction, double step) {
    sg_status status = {0};
    for (size_t i = 0; i < lab->n_weights; i++) {
        sg_lab_weight *w = &lab->weight[i];
        double *value = must(malloc(w->count * sizeof *value));
        memcpy(value, w->value, w->count * sizeof *value);
        for (size_t e = 0; e < w->count && i == moved; e++) value[e] += step * component(w->parameter, direction, e);
        int32_t tensor = lab->training->parameters[w->parameter].tensor;
        check(sg_walker_write(lab->walker, tensor, value, w->count, &status), &status);
        free(value);
    }
}

double sg_lab_run(sg_lab *lab, size_t moved, int direction, double step) {
    sg_status status = {0};
    double sum = 0, loss = 0;
    write_weights(lab, moved, direction, step);
    for (size_t i = 0; i < lab->n_order; i++) {
        check(sg_walker_program(lab->walker, (size_t)lab->order[i], &status), &status);
        if (lab->loss[lab->order[i]] < 0) continue;
        check(sg_walker_read(lab->walker, lab->loss[lab->order[i]], &loss, 1, &status), &status);
        sum += loss;
    }
    return sum;
}

void sg_lab_iterate(sg_lab *lab) {
    sg_status status = {0};
    write_weights(lab, SIZE_MAX, 0, 0);
    check(sg_walker_iteration(lab->walker, NULL, &status), &status);
    sg_lab_read_gradients(lab);
}

void sg_lab_read_gradients(sg_lab *lab) {
    sg_status status = {0};
    for (size_t i = 0; i < lab->n_weights; i++) {
        sg_lab_weight *w = &lab->weight[i];
        int32_t tensor = lab->training->parameters[w->parameter].gradient;
        if (w->gradient) check(sg_walker_read(lab->walker, tensor, w->gradient, w->count, &status), &status);
    }
}

static double difference(sg_lab *lab, size_t weight, int direction, double step) {
    double above = sg_lab_run(lab, weight, direction, step), below = sg_lab_run(lab, weight, direction, -step);
    return (above - below) / (2 * step);
}

/* Slope along a direction by the gradient, and the norm of its terms. */
static double expected_slope(const sg_lab_weight *w, int direction, double *norm) {
    double slope = 0, square = 0;
    for (size_t e = 0; e < w->count && w->gradient; e++) {
        double term = w->gradient[e] * component(w->parameter, direction, e);
        slope += term;
        square += term * term;
    }
    *norm = sqrt(square);
    return slope;
}

/* A kink (of a relu, a maximum) between the two points spoils a difference: where one disagrees with the gradient, a shorter
 * one is heard too. A wrong gradient disagrees with both. */
void sg_lab_measure_slopes(sg_lab *lab) {
    for (size_t i = 0; i < lab->n_weights; i++)
        for (int d = 0; d < lab->options.directions; d++) {
            double norm, expected = expected_slope(&lab->weight[i], d, &norm), *slope = &lab->weight[i].slope[d];
            *slope = difference(lab, i, d, STEP);
            if (fabs(*slope - expected) <= SG_LAB_TOLERANCE * norm) continue;
            double shorter = difference(lab, i, d, STEP / 20);
            if (fabs(shorter - expected) < fabs(*slope - expected)) *slope = shorter;
        }
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

double sg_lab_deviation(const sg_lab *lab, const char **worst) {
    double largest = 0, noise = ROUNDING * fmax(1, fabs(lab->value)) / STEP;
    for (size_t i = 0; i < lab->n_weights; i++) {
        const sg_lab_weight *w = &lab->weight[i];
        for (int d = 0; d < lab->options.directions; d++) {
            double norm, slope = expected_slope(w, d, &norm);
            /* far below the bound the differences' own rounding would be all there is to compare */
            double deviation = fabs(slope - w->slope[d]) / fmax(norm, noise / SG_LAB_TOLERANCE);
            if (deviation > largest || isnan(deviation)) {
                largest = deviation;
                if (worst) *worst = lab->training->parameters[w->parameter].name;
            }
            if (isnan(largest)) return INFINITY;
        }
    }
    return largest;
}

double sg_lab_distance(const sg_lab *a, const sg_lab *b) {
    double difference = 0, size = 0;
    assert_int_equal(a->n_weights, b->n_weights);
    for (size_t i = 0; i < a->n_weights; i++) {
        const sg_lab_weight *x = &a->weight[i], *y = &b->weight[i];
        assert_true(x->count == y->count && !x->gradient == !y->gradient);
        for (size_t e = 0; e < x->count && x->gradient; e++) {
            difference += (x->gradient[e] - y->gradient[e]) * (x->gradient[e] - y->gradient[e]);
            size += y->gradient[e] * y->gradient[e];
        }
    }
    return sqrt(difference / size);
}

/* ---- mutants ----------------------------------------------------------------------------------------------------- */

/* A sum over the bits of all gradients. */
static uint64_t fingerprint(const sg_lab *lab) {
    uint64_t sum = 0;
    for (size_t i = 0; i < lab->n_weights; i++)
        for (size_t e = 0; e < lab->weight[i].count && lab->weight[i].gradient; e++) {
            uint64_t bits;
            memcpy(&bits, &lab->weight[i].gradient[e], sizeof bits);
            sum = (sum ^ bits) * 0x9E3779B97F4A7C15u + (sum >> 29);
        }
    return sum;
}

typedef enum verdict { NOTICED, UNNOTICED, IRRELEVANT } verdict;

static verdict disturbed(sg_lab *lab, int64_t launch, int output, double factor, uint64_t right) {
    sg_reference_disturb(lab->device, launch, output, factor, 1e-3);
    (void)sg_lab_run(lab, SIZE_MAX, 0, 0);
    sg_lab_read_gradients(lab);
    if (sg_lab_deviation(lab, NULL) > SG_LAB_TOLERANCE) return NOTICED;
    return fingerprint(lab) == right ? IRRELEVANT : UNNOTICED;
}

/* By 1 %; a result whose size does not matter (a sign is taken of it) with the other sign. */
static void mutate(sg_lab *lab, int64_t launch, const sg_entry *entry, int output, uint64_t right,
                   sg_lab_mutants *mutants) {
    const sg_op *op = &lab->training->ops[entry->index];
    if (!sg_dtype_is_float((sg_dtype)op->desc[op->n_in + output].dtype)) return;
    verdict v = disturbed(lab, launch, output, 1.01, right);
    if (v == IRRELEVANT) v = disturbed(lab, launch, output, -1, right);
    mutants->noticed += v == NOTICED;
    mutants->unnoticed += v == UNNOTICED;
    mutants->irrelevant += v == IRRELEVANT;
    mutants->seen_of[op->kind][op->attrs.fn]++;
    mutants->noticed_of[op->kind][op->attrs.fn] += v == NOTICED;
    if (v == UNNOTICED)
        print_error("launch %lld, output %d of %s %s may be wrong unnoticed\n", (long long)launch, output,
                    sg_op_kind_name((sg_op_kind)op->kind), sg_fn_name((sg_fn)op->attrs.fn));
}

void sg_lab_mutate(sg_lab *lab, sg_lab_mutants *mutants) {
    const sg_training *t = lab->training;
    int64_t launch = 0;
    uint64_t right = fingerprint(lab);
    assert_ptr_equal(lab->api, sg_reference_device());
    for (size_t n = 0; n < lab->n_order; n++) {
        const sg_program *p = &t->programs[lab->order[n]];
        for (size_t i = 0; i < p->n_entries; i++) {
            const sg_entry *e = &p->entries[i];
            if (e->kind != SG_ENTRY_OP) continue;
            for (int o = 0; o < t->ops[e->index].n_out && e->pass == SG_PASS_BACKWARD; o++)
                mutate(lab, launch, e, o, right, mutants);
            launch++;
        }
    }
    sg_reference_disturb(lab->device, -1, 0, 1, 0);
    (void)sg_lab_run(lab, SIZE_MAX, 0, 0);
    sg_lab_read_gradients(lab);
}

void sg_lab_expect_noticed(const sg_lab_mutants *mutants) {
    print_message("%d wrong results noticed, %d of no consequence\n", mutants->noticed, mutants->irrelevant);
    assert_int_equal(mutants->unnoticed, 0);
    for (int kind = 0; kind < SG_OP_KIND_COUNT; kind++)
        for (int fn = 0; fn < SG_FN_COUNT; fn++)
            if (mutants->seen_of[kind][fn] && !mutants->noticed_of[kind][fn])
                fail_msg("a wrong %s %s would never be noticed", sg_op_kind_name((sg_op_kind)kind),
                         sg_fn_name((sg_fn)fn));
}
