/* validate_show.c: errors by class, device and part as a table, and what was not predicted. */
#include "cli/show.h"
#include "cli/validating.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows without a prediction ------------------------------------------------------------------------------------- */

static int by_reason(const void *x, const void *y) {
    const sg_validated *a = *(const sg_validated *const *)x, *b = *(const sg_validated *const *)y;
    if (a->cls != b->cls) return (int)a->cls - (int)b->cls;
    int order = strcmp(a->skipped, b->skipped);
    return order ? order : (a > b) - (a < b);
}

static int by_number(const void *x, const void *y) {
    const sg_skipped *a = x, *b = y;
    if (a->first->cls != b->first->cls) return (int)a->first->cls - (int)b->first->cls;
    if (a->n != b->n) return a->n < b->n ? 1 : -1;
    return strcmp(a->first->skipped, b->first->skipped);
}

sg_code sg_validating_skipped(const sg_validating *v, sg_skipped **skipped, size_t *n, sg_status *status) {
    *skipped = NULL;
    *n = 0;
    size_t count = 0;
    for (size_t i = 0; i < v->validation.n; i++) count += !sg_validated_scored(&v->validation.rows[i]);
    if (!count) return SG_OK;
    const sg_validated **row = calloc(count, sizeof(const sg_validated *));
    sg_skipped *out = calloc(count, sizeof *out);
    if (!row || !out) {
        free(row);
        free(out);
        return sg_fail_memory(status, count * sizeof *out, "the rows that were not predicted");
    }
    count = 0;
    for (size_t i = 0; i < v->validation.n; i++)
        if (!sg_validated_scored(&v->validation.rows[i])) row[count++] = &v->validation.rows[i];
    qsort(row, count, sizeof(const sg_validated *), by_reason);
    for (size_t i = 0; i < count; i++) {
        if (*n && out[*n - 1].first->cls == row[i]->cls && strcmp(out[*n - 1].first->skipped, row[i]->skipped) == 0)
            out[*n - 1].n++;
        else
            out[(*n)++] = (sg_skipped){row[i], 1};
    }
    free(row);
    qsort(out, *n, sizeof *out, by_number);
    *skipped = out;
    return SG_OK;
}

/* ---- the table ----------------------------------------------------------------------------------------------------- */

enum { COLUMNS = 9 };
static const char *const header[COLUMNS] = {"",        "rows",      "mean %",  "median %",  "p90 %",
                                            "worst %", "covered %", "under %", "roofline %"};

typedef struct lines {
    sg_table *table; /* NULL: Markdown goes out line by line */
} lines;

static void line(const lines *to, const char *const *cell) {
    if (to->table) {
        sg_table_row(to->table, cell);
        return;
    }
    printf("|");
    for (size_t c = 0; c < COLUMNS; c++) {
        printf(" ");
        for (const char *t = cell[c]; *t; t++) printf(*t == '|' ? "\\|" : "%c", *t);
        printf(" |");
    }
    printf("\n");
}

static sg_text percent(double share) {
    sg_text t = {"-"};
    if (isfinite(share)) (void)snprintf(t.s, sizeof t.s, fabs(share) < 0.1 ? "%.2f" : "%.1f", 100 * share);
    return t;
}

/* Of a summary; in a terminal's table the place in the tree is shown by indents. */
static void name_of(const lines *to, const sg_validate_summary *s, bool over_devices, char *name, size_t bytes) {
    bool all = strcmp(s->device, "all") == 0;
    const char *cls = sg_validate_class_name(s->cls), *comma = s->part[0] ? ", " : "";
    if (!to->table && all)
        (void)snprintf(name, bytes, over_devices ? "%s%s%s, mean of devices" : "**%s%s%s**", cls, comma, s->part);
    else if (!to->table)
        (void)snprintf(name, bytes, "%s%s%s", s->device, comma, s->part);
    else if (over_devices)
        (void)snprintf(name, bytes, "%s  mean of devices", s->part[0] ? "  " : "");
    else if (all)
        (void)snprintf(name, bytes, "%s%s", s->part[0] ? "  all: " : cls, s->part);
    else
        (void)snprintf(name, bytes, "%s%s%s%s", s->part[0] ? "    " : "  ", s->device, comma, s->part);
}

static void summary_line(const lines *to, const sg_validate_summary *s) {
    char name[160], count[32];
    name_of(to, s, false, name, sizeof name);
    if (s->skipped)
        (void)snprintf(count, sizeof count, "%zu (+%zu)", s->n, s->skipped);
    else
        (void)snprintf(count, sizeof count, "%zu", s->n);
    double under = s->n ? (double)s->under_estimates / (double)s->n : NAN;
    sg_text mean = percent(s->mean), median = percent(s->median), p90 = percent(s->p90), worst = percent(s->max);
    sg_text covered = percent(s->coverage), below = percent(under), roofline = percent(s->roofline_mean);
    const char *const cell[COLUMNS] = {name, count, mean.s, median.s, p90.s, worst.s, covered.s, below.s, roofline.s};
    line(to, cell);
    if (!isfinite(s->mean_of_devices)) return;
    mean = percent(s->mean_of_devices);
    p90 = percent(s->p90_of_devices);
    name_of(to, s, true, name, sizeof name);
    const char *const over[COLUMNS] = {name, "", mean.s, "", p90.s, "", "", "", ""};
    line(to, over);
}

/* Rows that were not predicted have a list of their own: summaries of nothing else are shown by class, and by device where
 * there is room. */
static bool is_shown(const lines *to, const sg_validate_summary *s) {
    bool all = strcmp(s->device, "all") == 0;
    return s->n || (!s->part[0] && (to->table || all));
}

static void head(const sg_validating *v, bool markdown) {
    static const char *const said[] = {
        [SG_LEFT_OUT_NOTHING] =
            "Predicted as the machines ship: products of shapes that they were measured at are answered as measured",
        [SG_LEFT_OUT_ROWS] = "Predicted by fits without the row's own part of the rows",
        [SG_LEFT_OUT_BATCHES] = "Predicted by fits to other batch sizes of the same training",
        [SG_LEFT_OUT_DEVICES] = "Predicted by fits without the row's own device",
    };
    bool logs = v->validation.n > 0;
    for (size_t i = 0; i < v->validation.n; i++) logs = logs && v->validation.rows[i].cls == SG_VALIDATE_LOGS;
    printf("%s", logs ? "Predicted from the first lines of the same run, and priors for what they do not show"
                      : said[v->options.left_out]);
    if (v->options.left_out == SG_LEFT_OUT_ROWS) printf(" (one of %d)", v->options.folds);
    if (v->options.calibration_rows) printf("; the fit saw %d rows of the device", v->options.calibration_rows);
    printf(".\nErrors are |predicted / measured - 1|; covered: measured inside the %.10g %% interval; under: predicted "
           "less than measured;\nroofline: mean error of FLOP / peak or bytes / bandwidth, whichever is longer, on the "
           "same rows%s\n\n",
           100 * v->options.interval, markdown ? "." : ". (+n): rows that were not predicted.");
}

static sg_code print_skipped(const sg_validating *v, bool markdown, sg_status *status) {
    enum { SHOWN = 40 };
    sg_skipped *skipped;
    size_t n, total = 0;
    sg_code code = sg_validating_skipped(v, &skipped, &n, status);
    if (code || !n) return code;
    for (size_t i = 0; i < n; i++) total += skipped[i].n;
    printf("\nNot predicted: %zu %s\n%s", total, total == 1 ? "row" : "rows", markdown ? "\n" : "");
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        const sg_validated *first = skipped[i].first;
        printf("%s%s, %zu: %s (%s%s)\n", markdown ? "- " : "  ", sg_validate_class_name(first->cls), skipped[i].n,
               first->skipped[0] ? first->skipped : "nothing was measured", skipped[i].n > 1 ? "such as " : "",
               first->row);
    }
    if (n > SHOWN)
        printf("%s%zu further reasons: --rows FILE and --json have them all\n", markdown ? "- " : "  ", n - SHOWN);
    free(skipped);
    return SG_OK;
}

/* What a reader must know of rows that are not independent of the program's constants. */
static void print_caveats(const sg_validating *v, bool markdown) {
    static const struct {
        sg_validate_class cls;
        const char *text;
    } caveats[] = {
        {SG_VALIDATE_LOGS, "logs: the width of a pace over a long rest (2 %) and that of checkpoints of one run (10 %) "
                           "were chosen with published "
                           "logs in view, these may be among them: coverage is no independent test of those two"},
        {SG_VALIDATE_BATCHES, "batches: priors of machines and frameworks were fitted to published trainings, these "
                              "may be among them. 'batches_as_shipped' is the "
                              "prediction of each row without the other batches"},
    };
    for (size_t k = 0; k < sizeof caveats / sizeof *caveats; k++)
        for (size_t i = 0; i < v->validation.n; i++) {
            if (v->validation.rows[i].cls != caveats[k].cls) continue;
            printf("\n%s%s.\n", markdown ? "- " : "", caveats[k].text);
            break;
        }
}

/* Reports are few and each is somebody's: those outside of their interval are named, with what they state themselves. */
static void print_outside(const sg_validating *v, bool markdown) {
    bool first = true;
    for (size_t i = 0; i < v->validation.n; i++) {
        const sg_validated *r = &v->validation.rows[i];
        if (r->cls != SG_VALIDATE_REPORTS_STEP || !sg_validated_scored(r)) continue;
        if (r->measured >= r->low && r->measured <= r->high) continue;
        if (first) printf("\nOutside of their interval\n%s", markdown ? "\n" : "");
        first = false;
        printf("%s%s on %s: %.3g s reported, %.3g to %.3g predicted: %s\n", markdown ? "- " : "  ", r->row, r->device,
               r->measured, r->low, r->high, r->cause[0] ? r->cause : "no cause stated");
    }
}

sg_code sg_validating_print(const sg_validating *v, bool markdown, sg_status *status) {
    head(v, markdown);
    lines to = {markdown ? NULL : sg_table_new(COLUMNS, header)};
    if (!markdown && !to.table) return sg_fail_memory(status, 1, "a table");
    if (markdown) {
        line(&to, header);
        printf("|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    }
    for (size_t i = 0; i < v->n_summaries; i++)
        if (is_shown(&to, &v->summary[i])) summary_line(&to, &v->summary[i]);
    if (to.table) sg_table_print(to.table);
    print_outside(v, markdown);
    print_caveats(v, markdown);
    return print_skipped(v, markdown, status);
}
