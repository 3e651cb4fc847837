/* fit --collectives: how a server's GPUs are joined, from all-reduce times. */
#include "calibration/fit/collective_fit.h"
#include "cli/fitting.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct gathered {
    sg_collective_row *row;
    size_t n, room, unreadable;
    char device[64]; /* of the rows that are taken */
} gathered;

static const char *only_device(const sg_args *args, const sg_csv_table *t, const gathered *g, sg_status *status) {
    if (args->device) return args->device;
    const char *first = g->device[0] ? g->device : t->n_rows ? sg_csv_table_text(t, 0, "device") : "";
    for (size_t i = 0; i < t->n_rows; i++) {
        const char *other = sg_csv_table_text(t, i, "device");
        if (strcmp(other, first) == 0) continue;
        (void)sg_fail(status, SG_BAD_INPUT, "%s: several devices, '%.60s' and '%.60s' of them: say which with --device",
                      t->path, first, other);
        return NULL;
    }
    return first;
}

static sg_code gather(const sg_args *args, const sg_csv_table *t, gathered *g, sg_status *status) {
    static const char *const columns[] = {"device", "ranks", "bytes", "time_us"};
    sg_code code = sg_csv_table_need(t, columns, sizeof columns / sizeof *columns, status);
    const char *device = code ? NULL : only_device(args, t, g, status);
    if (!device) return code ? code : SG_BAD_INPUT;
    (void)snprintf(g->device, sizeof g->device, "%s", device);
    sg_collective_row *grown = realloc(g->row, (g->n + t->n_rows + 1) * sizeof *grown);
    if (!grown) return sg_fail_memory(status, (g->n + t->n_rows) * sizeof *grown, "the rows of a fit");
    g->row = grown;
    for (size_t i = 0; i < t->n_rows; i++) {
        if (strcmp(sg_csv_table_text(t, i, "device"), device) != 0) continue;
        if (sg_collective_row_read(t, i, &g->row[g->n]))
            g->unreadable++;
        else
            g->n++;
    }
    return SG_OK;
}

static sg_code read_files(const sg_args *args, gathered *g, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t i = 0; i < args->collectives.n && !code; i++) {
        sg_csv_table t;
        code = sg_csv_table_read(args->collectives.value[i], &t, status);
        if (code) return code;
        code = gather(args, &t, g, status);
        sg_csv_table_clear(&t);
    }
    const char *first = args->collectives.value[0];
    if (!code && !g->n && !g->device[0]) return sg_fail(status, SG_BAD_INPUT, "no all-reduce times in %s", first);
    if (!code && !g->n) return sg_fail(status, SG_BAD_INPUT, "no all-reduce times of '%.60s' in %s", g->device, first);
    return code;
}

static const sg_machine_id fitted_id[] = {SG_M_COLLECTIVE_BUSBW, SG_M_COLLECTIVE_LATENCY_S, SG_M_COLLECTIVE_RANK_S,
                                          SG_M_COLLECTIVE_LOCAL, SG_M_COLLECTIVE_POWER};
enum { FITTED = sizeof fitted_id / sizeof *fitted_id };

static bool measured_ranks(const gathered *g, int ranks) {
    for (size_t i = 0; i < g->n; i++)
        if (g->row[i].ranks == ranks) return true;
    return false;
}

static void print_link(const gathered *g, const sg_machine *m) {
    static const char *const sizes[SG_LINK_SIZES] = {"below_4_mib", "below_16_mib", "below_64_mib", "below_256_mib",
                                                     "above"};
    printf("# %zu all-reduce times of %s\ntopology: %s\n", g->n, g->device,
           sg_topology_name((sg_topology)m->link.topology));
    if (m->link.gpus_per_node) printf("gpus_per_node: %d\n", m->link.gpus_per_node);
    printf("parameters:\n");
    for (size_t k = 0; k < FITTED; k++) {
        const sg_machine_parameter *p = &m->p[fitted_id[k]];
        printf("  %s: {value: %.6g, log_sd: %.2g, evidence: measured, source: \"%s\"}\n", sg_machine_key(fitted_id[k]),
               p->value, p->log_sd, p->source);
    }
    printf("by_ranks:\n");
    for (int n = 2; n <= SG_LINK_RANKS; n++)
        if (measured_ranks(g, n))
            printf("  - {ranks: %d, start: %.4f, time: %.5f, power: %.5f}\n", n, m->link.by_ranks[n].start,
                   m->link.by_ranks[n].time, m->link.by_ranks[n].power);
    if (!(m->link.spread[SG_LINK_SIZES - 1] > 0)) return;
    printf("spread: {");
    for (int i = 0; i < SG_LINK_SIZES; i++) printf("%s%s: %.4f", i ? ", " : "", sizes[i], m->link.spread[i]);
    printf("}\n");
}

static json_t *json_link(const gathered *g, const sg_machine *m) {
    json_t *parameters = json_object(), *by_ranks = json_array(), *spread = json_array();
    for (size_t k = 0; k < FITTED; k++) {
        const sg_machine_parameter *p = &m->p[fitted_id[k]];
        (void)json_object_set_new(parameters, sg_machine_key(fitted_id[k]),
                                  json_pack("{s:f, s:f}", "value", p->value, "log_sd", p->log_sd));
    }
    for (int n = 2; n <= SG_LINK_RANKS; n++)
        if (measured_ranks(g, n))
            (void)json_array_append_new(by_ranks, json_pack("{s:i, s:f, s:f, s:f}", "ranks", n, "start",
                                                            m->link.by_ranks[n].start, "time", m->link.by_ranks[n].time,
                                                            "power", m->link.by_ranks[n].power));
    for (int i = 0; i < SG_LINK_SIZES; i++) (void)json_array_append_new(spread, json_real(m->link.spread[i]));
    return json_pack("{s:s, s:I, s:I, s:s, s:o, s:o, s:o}", "device", g->device, "rows", (json_int_t)g->n, "unreadable",
                     (json_int_t)g->unreadable, "topology", sg_topology_name((sg_topology)m->link.topology),
                     "parameters", parameters, "by_ranks", by_ranks, "spread", spread);
}

/* What is fitted replaces what the machine's sheet says, so the sheet's own figures are no prior. */
static sg_code fit(const sg_args *args, const gathered *g, sg_machine *m, sg_status *status) {
    char source[120];
    const char *slash = strrchr(args->collectives.value[0], '/');
    (void)snprintf(source, sizeof source, "fit of %zu all-reduce times, %.60s", g->n,
                   slash ? slash + 1 : args->collectives.value[0]);
    double spread[SG_LINK_SIZES];
    sg_collective_forget(m);
    sg_code code = sg_collective_left_out(g->row, g->n, m, spread, status);
    if (!code) code = sg_collective_fit(g->row, g->n, source, m, status);
    if (!code) memcpy(m->link.spread, spread, sizeof m->link.spread);
    return code;
}

static sg_code check(const sg_args *args, sg_status *status) {
    if (args->positional.n)
        return sg_fail(status, SG_BAD_INPUT, "--collectives fits the links alone: leave '%.64s' out",
                       args->positional.value[0]);
    if (args->output && !args->machine)
        return sg_fail(status, SG_BAD_INPUT, "-o %.200s: whose links are these? Name the machine with --machine",
                       args->output);
    return SG_OK;
}

int sg_fitting_collectives(const sg_args *args) {
    sg_status status;
    gathered g = {0};
    sg_machine machine;
    sg_machine_init(&machine);
    sg_code code = check(args, &status);
    if (!code && args->machine) code = sg_machine_load(args->machine, NULL, &machine, &status);
    if (!code) code = read_files(args, &g, &status);
    if (!code) code = fit(args, &g, &machine, &status);
    if (!code && args->output) code = sg_machine_save(args->output, &machine, &status);
    if (!code && g.unreadable) sg_show_warning("%zu rows could not be read", g.unreadable);
    int result = code         ? sg_show_error(args, &status)
                 : args->json ? sg_json_print(json_link(&g, &machine), SG_OK)
                              : SG_OK;
    if (!code && !args->json) print_link(&g, &machine);
    sg_machine_clear(&machine);
    free(g.row);
    return result;
}
