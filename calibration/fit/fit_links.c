#include "calibration/fit/fit_links.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/fit/collective_fit.h"

/* Fewer sizes say nothing of a law. */
enum { LEAST_ROWS = 4 };

static void set_parameter(sg_machine *m, sg_machine_id id, double value, double log_sd, const char *origin) {
    sg_machine_parameter *p = &m->p[id];
    p->value = value;
    p->log_sd = log_sd;
    p->evidence = SG_EVIDENCE_CALIBRATED;
    p->group = 0;
    (void)snprintf(p->source, sizeof p->source, "%.119s", origin);
    if (!m->covariance) return;
    for (size_t j = 0; j < SG_M_COUNT; j++)
        m->covariance[(size_t)id * SG_M_COUNT + j] = m->covariance[j * SG_M_COUNT + (size_t)id] = 0;
    m->covariance[(size_t)id * (SG_M_COUNT + 1)] = log_sd * log_sd;
}

static bool is_exchange(const sg_micro *micro, const sg_machine *machine, const char *what, const char *beside) {
    const sg_micro_config *c = &micro->config;
    return strcmp(c->bench, "collective") == 0 && strcmp(c->what, what) == 0 && strcmp(c->beside, beside) == 0 &&
           strcmp(c->device, machine->device_class) == 0 && c->ranks >= 2 && c->ranks <= SG_LINK_RANKS &&
           !micro->disturbed && micro->s.median > 0 && isfinite(micro->s.median);
}

/* Geometric mean of how much slower they were than alone; no slowing is no gain. */
static void fit_slowing(const sg_run *run, const char *what, const char *beside, sg_machine_id id, const char *origin,
                        sg_machine *m) {
    double sum = 0, squares = 0, n = 0;
    for (size_t i = 0; i < run->n_micros; i++) {
        const sg_micro *micro = &run->micros[i];
        if (!is_exchange(micro, m, what, beside) || !(micro->alone_s > 0) || !isfinite(micro->alone_s)) continue;
        double slower = fmax(0, log(micro->s.median / micro->alone_s));
        sum += slower;
        squares += slower * slower;
        n++;
    }
    if (n < 1) return;
    /* sizes differ in it more than a mean of them is sure */
    double mean = sum / n, sd = n > 1 ? sqrt(fmax(squares / n - mean * mean, 0)) : 0;
    set_parameter(m, id, exp(mean), fmax(sd, 0.03), origin);
}

static sg_code fit_law(const sg_collective_row *rows, size_t n, const char *origin, sg_machine *m, sg_status *status) {
    static const sg_machine_id law[] = {SG_M_COLLECTIVE_BUSBW, SG_M_COLLECTIVE_LATENCY_S, SG_M_COLLECTIVE_RANK_S,
                                        SG_M_COLLECTIVE_LOCAL, SG_M_COLLECTIVE_POWER};
    double spread[SG_LINK_SIZES];
    sg_machine fitted = *m;
    sg_collective_forget(&fitted);
    sg_code code = sg_collective_left_out(rows, n, &fitted, spread, status);
    if (!code) code = sg_collective_fit(rows, n, origin, &fitted, status);
    if (code) return code;
    m->link = fitted.link;
    memcpy(m->link.spread, spread, sizeof spread);
    m->p[SG_M_COLLECTIVE_SMALL].value = m->p[SG_M_COLLECTIVE_SWITCH].value = NAN; /* by_ranks has their share */
    for (size_t k = 0; k < sizeof law / sizeof *law; k++)
        set_parameter(m, law[k], fitted.p[law[k]].value, fitted.p[law[k]].log_sd, origin);
    return SG_OK;
}

sg_code sg_fit_links(const sg_run *run, const char *origin, sg_machine *machine, sg_status *status) {
    sg_collective_row *rows = calloc(run->n_micros ? run->n_micros : 1, sizeof *rows);
    if (!rows) return sg_fail_memory(status, run->n_micros * sizeof *rows, "the fit of links");
    size_t n = 0;
    for (size_t i = 0; i < run->n_micros; i++) {
        const sg_micro *micro = &run->micros[i];
        if (!is_exchange(micro, machine, "all_reduce", "") || micro->config.bytes < 1) continue;
        rows[n++] = (sg_collective_row){(int)micro->config.ranks, (double)micro->config.bytes, micro->s.median};
    }
    sg_code code = n >= LEAST_ROWS ? fit_law(rows, n, origin, machine, status) : SG_OK;
    free(rows);
    if (code) return sg_fail_in(status, "the benchmarks of collectives");
    fit_slowing(run, "gemm", "all_reduce", SG_M_OVERLAP_STRETCH, origin, machine);
    fit_slowing(run, "all_reduce", "gemm", SG_M_COLLECTIVE_STRETCH, origin, machine);
    return SG_OK;
}
