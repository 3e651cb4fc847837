#include "calibration/statistics/figure.h"

#include <gsl/gsl_cdf.h>
#include <math.h>

/* Few configurations stand behind every width, and partly shared machines: tails are heavier than normal. */
static const double DEGREES_OF_FREEDOM = 4;

static double total(sg_log_sd p) {
    return sqrt(p.parameters * p.parameters + p.model * p.model + p.inputs * p.inputs);
}

/* Half-width in log units of the two-sided or one-sided interval. */
static double reach(double interval, bool two_sided) {
    double p = interval > 0 && interval < 1 ? interval : 0.9;
    return gsl_cdf_tdist_Pinv(two_sided ? 0.5 + p / 2 : p, DEGREES_OF_FREEDOM);
}

sg_figure sg_figure_make(double value, sg_log_sd parts, sg_evidence evidence, double interval) {
    double span = exp(reach(interval, true) * total(parts));
    return (sg_figure){value, value / span, value * span, parts, evidence};
}

sg_figure sg_figure_upper(double value, sg_log_sd parts, sg_evidence evidence, double interval) {
    double side = reach(interval, false);
    double span = exp((side > 0 ? side : 0) * total(parts));
    return (sg_figure){value, value, value * span, parts, evidence};
}

sg_figure sg_figure_scaled(const sg_figure *figure, double scale, int power) {
    sg_figure f = *figure;
    if (power < 0) {
        f.value = scale / figure->value;
        f.low = scale / figure->high;
        f.high = scale / figure->low;
    } else {
        f.value = scale * figure->value;
        f.low = scale * figure->low;
        f.high = scale * figure->high;
    }
    return f;
}

sg_figure sg_figure_shifted(const sg_figure *figure, double offset) {
    sg_figure f = *figure;
    f.value = fmax(0, f.value + offset);
    f.low = fmax(0, f.low + offset);
    f.high = fmax(0, f.high + offset);
    return f;
}

sg_figure sg_figure_max(const sg_figure *a, const sg_figure *b) {
    const sg_figure *large = a->value >= b->value ? a : b, *small = large == a ? b : a;
    sg_figure f = *large;
    if (small->low > f.low) f.low = small->low;
    if (small->high <= f.high) {
        if (small->high > large->value && small->evidence > f.evidence) f.evidence = small->evidence;
        return f;
    }
    /* the smaller may yet be the larger: its side of the doubt decides how far up the truth may lie */
    f.parts = small->parts;
    f.high = small->high;
    if (small->evidence > f.evidence) f.evidence = small->evidence;
    return f;
}

sg_figure sg_figure_sum(const sg_figure *terms, size_t n) {
    sg_figure f = {.evidence = SG_EVIDENCE_OBSERVED};
    double below = 0, above = 0;
    for (size_t i = 0; i < n; i++) {
        f.value += terms[i].value;
        below += pow(terms[i].value - terms[i].low, 2);
        above += pow(terms[i].high - terms[i].value, 2);
    }
    f.low = fmax(0, f.value - sqrt(below));
    f.high = f.value + sqrt(above);
    for (size_t i = 0; i < n && f.value > 0; i++) {
        double share = terms[i].value / f.value;
        f.parts.parameters += pow(share * terms[i].parts.parameters, 2);
        f.parts.model += pow(share * terms[i].parts.model, 2);
        f.parts.inputs += pow(share * terms[i].parts.inputs, 2);
        if (share >= 0.10 && terms[i].evidence > f.evidence) f.evidence = terms[i].evidence;
    }
    f.parts = (sg_log_sd){sqrt(f.parts.parameters), sqrt(f.parts.model), sqrt(f.parts.inputs)};
    return f;
}

/* How far the value follows an input: change of its log over the input's, between the input's bounds. */
static double response(const sg_figure *input, double at_low, double at_high) {
    if (!(input->low > 0) || !(input->high > input->low) || !(at_low > 0) || !(at_high > 0)) return 0;
    return fmin(1, fabs(log(at_high / at_low) / log(input->high / input->low)));
}

sg_figure sg_figure_of(double value, const sg_figure *inputs, const double *at_low, const double *at_high, size_t n) {
    sg_figure f = {.value = value, .evidence = SG_EVIDENCE_OBSERVED};
    double below = 0, above = 0;
    for (size_t i = 0; i < n; i++) {
        double least = fmin(at_low[i], at_high[i]), most = fmax(at_low[i], at_high[i]);
        below += pow(fmax(0, value - least), 2);
        above += pow(fmax(0, most - value), 2);
    }
    f.low = fmax(0, value - sqrt(below));
    f.high = value + sqrt(above);
    for (size_t i = 0; i < n; i++) {
        double share = response(&inputs[i], at_low[i], at_high[i]);
        f.parts.parameters += pow(share * inputs[i].parts.parameters, 2);
        f.parts.model += pow(share * inputs[i].parts.model, 2);
        f.parts.inputs += pow(share * inputs[i].parts.inputs, 2);
        if (share >= 0.10 && inputs[i].evidence > f.evidence) f.evidence = inputs[i].evidence;
    }
    f.parts = (sg_log_sd){sqrt(f.parts.parameters), sqrt(f.parts.model), sqrt(f.parts.inputs)};
    return f;
}
