#include "calibration/fit/collective_fit.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/statistics/least_squares.h"
#include "calibration/validate/validate.h"
#include "kernels/virtual/price.h"

enum { LAW = 5, PER_RANKS = 3 };
static const sg_machine_id law_id[LAW] = {SG_M_COLLECTIVE_LATENCY_S, SG_M_COLLECTIVE_RANK_S, SG_M_COLLECTIVE_BUSBW,
                                          SG_M_COLLECTIVE_LOCAL, SG_M_COLLECTIVE_POWER};

/* Where a law starts whose machine says nothing: eight A100 on NVSwitch (1 MiB to 1 GiB, all numbers of ranks). */
static const double start_value[LAW] = {30e-6, 4.4e-6, 240e9, 450e9, 0.97};
/* How far it may go from there: starts by a factor of 3, rates from PCIe to NVLink 5, the power as it has been seen. */
static const double law_log_sd[LAW] = {1, 1, 2, 2, 0.05};
/* What one number of ranks differs by: the start by half; rings of a mesh by factors of 4; the power by 0.02. */
static const double ranks_sd[PER_RANKS] = {0.5, 0.7, 0.02};
/* ... on a switch, where the law itself holds: within 1.3 %. */
static const double SWITCH_TIME_SD = 0.02;
/* Repeatability of measured times, A100 and V100 servers: sawtooth of chunks below 64 MiB, quiet above. */
static const double SMALL_SD = 0.03, LARGE_SD = 0.01, LARGE_BYTES = 64 * 0x1p20;

typedef struct fitting {
    const sg_collective_row *rows;
    size_t n;
    int of_ranks[SG_LINK_RANKS + 1]; /* position of a number of ranks, -1: no rows */
    int n_ranks;
    sg_machine *machine;
    double prior[LAW];
} fitting;

static size_t terms_of(const fitting *f) {
    return LAW + PER_RANKS * (size_t)f->n_ranks;
}

const char *sg_collective_row_read(const sg_csv_table *table, size_t line, sg_collective_row *row) {
    double ranks, us;
    if (!sg_csv_table_number(table, line, "ranks", &ranks) || ranks < 2 || ranks > 1e6 || ranks != floor(ranks))
        return "ranks is no whole number of at least 2";
    if (!sg_csv_table_number(table, line, "bytes", &row->bytes) || row->bytes < 1 || row->bytes > 1e15)
        return "bytes is no positive number";
    if (!sg_csv_table_number(table, line, "time_us", &us) || !(us > 0) || us > 1e12)
        return "time_us is no positive number";
    row->ranks = (int)ranks;
    row->seconds = us * 1e-6;
    return NULL;
}

static void set_machine(const fitting *f, const double *x) {
    for (int k = 0; k < LAW; k++) f->machine->p[law_id[k]].value = exp(x[k]);
    for (int n = 2; n <= SG_LINK_RANKS; n++) {
        if (f->of_ranks[n] < 0) continue;
        const double *own = x + LAW + PER_RANKS * f->of_ranks[n];
        f->machine->link.by_ranks[n].start = exp(own[0]);
        f->machine->link.by_ranks[n].time = exp(own[1]);
        f->machine->link.by_ranks[n].power = own[2];
    }
}

static sg_code evaluate(const double *x, double *residual, double *jacobian, void *user, sg_status *status) {
    fitting *f = user;
    size_t terms = terms_of(f);
    bool on_switch = f->machine->link.topology == SG_TOPOLOGY_SWITCH;
    set_machine(f, x);
    memset(jacobian, 0, sizeof *jacobian * terms * (f->n + terms));
    for (size_t i = 0; i < f->n; i++) {
        const sg_collective_row *r = &f->rows[i];
        sg_priced price;
        sg_code code = sg_price_collective(f->machine, SG_ALL_REDUCE, r->bytes, r->ranks, &price, status);
        if (code) return code;
        const double *by_log = price.by_log;
        double s = price.seconds, sd = r->bytes < LARGE_BYTES ? SMALL_SD : LARGE_SD, *d = jacobian + i * terms;
        residual[i] = log(s / r->seconds) / sd;
        for (int k = 0; k < LAW; k++) d[k] = by_log[law_id[k]] / s / sd;
        double start = by_log[SG_M_COLLECTIVE_LATENCY_S] + by_log[SG_M_COLLECTIVE_RANK_S], body = s - start;
        double *own = d + LAW + PER_RANKS * f->of_ranks[r->ranks];
        own[0] = start / s / sd;
        own[1] = body / s / sd;
        own[2] = body / s / sd * fmin(0, log(r->bytes / 0x1p30));
    }
    for (size_t k = 0; k < terms; k++) {
        double sd = k < LAW ? law_log_sd[k] : ranks_sd[(k - LAW) % PER_RANKS], around = k < LAW ? f->prior[k] : 0;
        if (k >= LAW && (k - LAW) % PER_RANKS == 1 && on_switch) sd = SWITCH_TIME_SD;
        residual[f->n + k] = (x[k] - around) / sd;
        jacobian[(f->n + k) * terms + k] = 1 / sd;
    }
    return SG_OK;
}

static void take_result(const fitting *f, const double *covariance, size_t terms, const char *source) {
    for (int k = 0; k < LAW; k++) {
        sg_machine_parameter *p = &f->machine->p[law_id[k]];
        p->log_sd = sqrt(fmax(covariance[(size_t)k * terms + (size_t)k], 0));
        p->evidence = SG_EVIDENCE_MEASURED;
        p->group = 0;
        (void)snprintf(p->source, sizeof p->source, "%s", source);
    }
}

static sg_code solve(fitting *f, const char *source, sg_status *status) {
    size_t terms = terms_of(f);
    double x[LAW + PER_RANKS * SG_LINK_RANKS] = {0};
    double *covariance = calloc(terms * terms, sizeof *covariance);
    if (!covariance) return sg_fail_memory(status, terms * terms * sizeof *covariance, "the fit of collectives");
    memcpy(x, f->prior, sizeof f->prior);
    sg_least_squares problem = {
        .rows = f->n + terms, .robust_rows = f->n, .terms = terms, .evaluate = evaluate, .user = f};
    sg_code code = sg_least_squares_solve(&problem, x, covariance, NULL, status);
    if (!code) {
        set_machine(f, x);
        take_result(f, covariance, terms, source);
    }
    free(covariance);
    return code;
}

sg_code sg_collective_fit(const sg_collective_row *rows, size_t n, const char *source, sg_machine *machine,
                          sg_status *status) {
    fitting f = {.machine = machine};
    int per_node = machine->link.gpus_per_node;
    sg_collective_row *kept = calloc(n ? n : 1, sizeof *kept);
    if (!kept) return sg_fail_memory(status, n * sizeof *kept, "the rows of a fit");
    for (int i = 0; i <= SG_LINK_RANKS; i++) f.of_ranks[i] = -1;
    for (size_t i = 0; i < n; i++) {
        int ranks = rows[i].ranks;
        if (ranks < 2 || ranks > SG_LINK_RANKS || (per_node > 0 && ranks > per_node)) continue;
        if (f.of_ranks[ranks] < 0) f.of_ranks[ranks] = f.n_ranks++;
        kept[f.n++] = rows[i];
    }
    f.rows = kept;
    machine->p[SG_M_COLLECTIVE_SMALL].value = machine->p[SG_M_COLLECTIVE_SWITCH].value = NAN;
    machine->link.switch_ranks = 0;
    for (int k = 0; k < LAW; k++) {
        double v = machine->p[law_id[k]].value;
        f.prior[k] = log(isfinite(v) && v > 0 ? v : start_value[k]);
    }
    sg_code code = f.n ? solve(&f, source, status)
                       : sg_fail(status, SG_BAD_INPUT, "no all-reduce times of 2 to %d ranks in one node to fit",
                                 per_node > 0 && per_node < SG_LINK_RANKS ? per_node : SG_LINK_RANKS);
    free(kept);
    return code;
}

/* ---- left out ------------------------------------------------------------------------------------------------------ */

void sg_collective_forget(sg_machine *machine) {
    for (int k = 0; k < LAW; k++) machine->p[law_id[k]].value = NAN;
    for (int n = 0; n <= SG_LINK_RANKS; n++) {
        machine->link.by_ranks[n].start = machine->link.by_ranks[n].time = 1;
        machine->link.by_ranks[n].power = 0;
    }
    memset(machine->link.spread, 0, sizeof machine->link.spread);
}

int sg_collective_fold(const sg_collective_row *row, int folds) {
    char key[64];
    (void)snprintf(key, sizeof key, "%d %.0f", row->ranks, row->bytes);
    return sg_validate_fold(key, folds);
}

/* |log(predicted / measured)| of the fold's rows into residual; NAN where there is none. */
static sg_code leave_out(const sg_collective_row *rows, size_t n, const sg_machine *prior, int fold, int folds,
                         sg_collective_row *seen, double *residual, sg_status *status) {
    size_t n_seen = 0;
    for (size_t i = 0; i < n; i++)
        if (sg_collective_fold(&rows[i], folds) != fold) seen[n_seen++] = rows[i];
    if (n_seen == n || !n_seen) return SG_OK;
    sg_machine fitted = *prior;
    sg_code code = sg_collective_fit(seen, n_seen, "left out", &fitted, status);
    for (size_t i = 0; i < n && !code; i++) {
        if (sg_collective_fold(&rows[i], folds) != fold) continue;
        sg_priced price;
        code = sg_price_collective(&fitted, SG_ALL_REDUCE, rows[i].bytes, rows[i].ranks, &price, status);
        if (!code) residual[i] = fabs(log(price.seconds / rows[i].seconds));
    }
    return code;
}

/* of_size: room for n. */
static double spread_of_size(const sg_collective_row *rows, const double *residual, size_t n, int size,
                             double *of_size) {
    enum { LEAST_ROWS = 10 };
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (sg_link_size(rows[i].bytes) == size && isfinite(residual[i])) of_size[count++] = residual[i];
    gsl_sort(of_size, 1, count);
    return count >= LEAST_ROWS ? gsl_stats_quantile_from_sorted_data(of_size, 1, count, 0.9) : 0;
}

sg_code sg_collective_left_out(const sg_collective_row *rows, size_t n, const sg_machine *machine,
                               double spread[SG_LINK_SIZES], sg_status *status) {
    enum { FOLDS = 5 };
    sg_collective_row *seen = calloc(n ? n : 1, sizeof *seen);
    double *residual = calloc(n ? n : 1, sizeof *residual), *of_size = calloc(n ? n : 1, sizeof *of_size);
    sg_code code = seen && residual && of_size ? SG_OK : SG_MACHINE;
    if (seen && residual && of_size) {
        for (size_t i = 0; i < n; i++) residual[i] = NAN;
        for (int fold = 0; fold < FOLDS && !code; fold++)
            code = leave_out(rows, n, machine, fold, FOLDS, seen, residual, status);
        for (int size = 0; size < SG_LINK_SIZES && !code; size++)
            spread[size] = spread_of_size(rows, residual, n, size, of_size);
    } else
        (void)sg_fail_memory(status, n * sizeof *seen, "the rows of a fit");
    free(seen);
    free(residual);
    free(of_size);
    return code;
}

/* ---- spread -------------------------------------------------------------------------------------------------------- */

/* One rank more is as far as a factor of 1.4 in bytes: spreads grow from 2 to 8 ranks as from 512 to 64 MiB. */
static double distance(const sg_collective_row *row, int ranks, double bytes) {
    return fabs(log2(row->bytes / bytes)) + 0.5 * abs(row->ranks - ranks);
}

/* Residuals shrink with the size of the vector: by 0.7 in log units per log unit on A100, less on V100. */
static const double SHRINKING = 0.5;

double sg_collective_spread(const sg_collective_row *rows, const double *log_residual, size_t n, int ranks,
                            double bytes, double interval) {
    enum { NEAREST = 40 };
    struct {
        double far, size;
    } near[NEAREST];
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        double far = distance(&rows[i], ranks, bytes);
        if (kept == NEAREST && far >= near[kept - 1].far) continue;
        size_t at = kept < NEAREST ? kept++ : kept - 1;
        for (; at > 0 && near[at - 1].far > far; at--) near[at] = near[at - 1];
        near[at].far = far;
        near[at].size = fabs(log_residual[i]) * pow(rows[i].bytes / bytes, SHRINKING);
    }
    if (!kept) return NAN;
    double size[NEAREST];
    for (size_t i = 0; i < kept; i++) {
        size_t at = i;
        for (; at > 0 && size[at - 1] > near[i].size; at--) size[at] = size[at - 1];
        size[at] = near[i].size;
    }
    /* the rank that a further residual stays below with this probability, of one row more than there are */
    double wanted = ceil(interval * ((double)kept + 1));
    return size[wanted >= 1 && wanted <= (double)kept ? (size_t)wanted - 1 : kept - 1];
}
