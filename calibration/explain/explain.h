/* explain.h: what limits a training, from its log: diagnoses by a table of small rules.
 *
 * A rule looks at one question that people ask of their trainings and speaks only where the log (or the prediction for the
 * machine it ran on) holds the numbers that answer it. Every diagnosis carries its numbers. */
#ifndef SG_CALIBRATION_EXPLAIN_EXPLAIN_H
#define SG_CALIBRATION_EXPLAIN_EXPLAIN_H

#include "calibration/log/log.h"
#include "calibration/predict/predict.h"

/* The same step with one thing changed, predicted on the same machine. */
typedef struct sg_explain_variant {
    char change[64]; /* "bf16 autocast (--precision bf16)" */
    bool precision;  /* another precision; else another way to dispatch */
    bool fp32;       /* everything in full precision, as if a flag for lower precision had no effect */
    sg_prediction predicted;
} sg_explain_variant;

/* What the rules may look at. Only `log` must be there; the rest makes more of them speak. */
typedef struct sg_explain_facts {
    const sg_log *log;
    const sg_log *const *others; /* further runs of the same training (batch sweeps, other numbers of GPUs) */
    size_t n_others;
    const sg_machine *machine;      /* it ran on; NULL: not told */
    const sg_prediction *predicted; /* of this configuration there; NULL: not told */
    const sg_explain_variant *variants;
    size_t n_variants;
    char precision[16];          /* what the training was asked for; "": not told */
    int64_t envs, steps_per_env; /* PPO, per process; 0: not told */
    const char *task;            /* PPO: simulator and task ("mjlab-g1"); NULL: not told */
} sg_explain_facts;

typedef struct sg_diagnosis {
    const char *rule;  /* "loader-wait" */
    const char *cause; /* "loader", "launch", "compute", "memory bandwidth", "communication", "environment", "memory",
                          "pauses", "length", "warm-up", "log", "crash", "update": which of them, only a machine tells */
    double share;      /* of the training's time that it takes; NAN: not a share of time */
    double gain;       /* expected speed / present speed when it is remedied (memory: none); NAN: no number for it */
    char text[240], evidence[320], remedy[320];
} sg_diagnosis;

enum { SG_DIAGNOSES_MOST = 48 };
typedef struct sg_explanation {
    sg_diagnosis diagnosis[SG_DIAGNOSES_MOST]; /* largest share first, then those without a share */
    size_t n;
    char (*asks)[240]; /* what would let further rules speak */
    size_t n_asks;
} sg_explanation;

/* SG_MACHINE: no memory. A run without windows has an explanation too: why it has none, where its events say it. */
sg_code sg_explain(const sg_explain_facts *facts, sg_explanation *explanation, sg_status *status);
void sg_explanation_clear(sg_explanation *explanation);

/* Name of the i-th rule; NULL behind the last. */
const char *sg_explain_rule_name(size_t i);

#endif
