/* bench_gemm.c: how `bench gemm` shows its products: times, what a second device gains, what precisions gain, the ceiling. */
#include "cli/bench_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calibration/machine/machine_match.h"
#include "calibration/predict/predict.h"

static const char *const computes[] = {"f32", "tf32", "bf16", "f16"};
static const sg_compute modes[] = {SG_COMPUTE_F32, SG_COMPUTE_TF32, SG_COMPUTE_BF16, SG_COMPUTE_F16};
enum { COMPUTES = sizeof computes / sizeof *computes };

/* A product alone of this precision ("": any) on that device. */
static bool is_product_of(const sg_micro *m, const char *device, const char *compute) {
    return strcmp(m->config.what, "product") == 0 && strcmp(m->config.device, device) == 0 &&
           (!*compute || strcmp(m->config.compute, compute) == 0);
}

static const sg_micro *with_transfer(const sg_bench_report *r, const sg_micro *product) {
    return sg_bench_find(r, product->config.device, "with_transfer", product->config.compute, product->config.n, 0);
}

static sg_text rate_text(double flop_per_s) {
    sg_text t;
    if (flop_per_s > 0)
        (void)snprintf(t.s, sizeof t.s, "%.4g", 1e-12 * flop_per_s);
    else
        (void)snprintf(t.s, sizeof t.s, "-");
    return t;
}

/* Share of a transferred product's time that is not the product. */
static double transfer_share(const sg_micro *product, const sg_micro *moved) {
    return moved ? fmax(0, 1 - product->s.median / moved->s.median) : NAN;
}

static void print_times(const sg_bench_report *r, const char *device) {
    if (!sg_bench_find(r, device, "product", "", 0, 0)) return;
    const char *const header[] = {"precision", "n",   "product",       "+- 95 %",  "p99",
                                  "TFLOP/s",   "n x", "with transfer", "transfer", "note"};
    sg_table *table = sg_table_new(10, header);
    for (int c = 0; c < COMPUTES; c++)
        for (size_t i = 0; i < r->n_micros; i++) {
            const sg_micro *m = &r->micros[i];
            if (!is_product_of(m, device, computes[c])) continue;
            const sg_micro *moved = with_transfer(r, m);
            sg_text n = sg_show_count(m->config.n), s = sg_show_seconds(m->s.median), spread = sg_bench_spread(m);
            sg_text p99 = sg_show_seconds(m->p99_s), rate = rate_text(m->flop_per_s);
            sg_text count = sg_show_count(m->iterations * m->calls);
            sg_text t = sg_show_seconds(moved ? moved->s.median : NAN);
            sg_text share = sg_bench_percent(transfer_share(m, moved));
            const char *const row[] = {sg_bench_precision_name(computes[c]),
                                       n.s,
                                       s.s,
                                       spread.s,
                                       p99.s,
                                       rate.s,
                                       count.s,
                                       t.s,
                                       share.s,
                                       sg_bench_remark(m)};
            sg_table_row(table, row);
        }
    printf("\n%s: C = A B, n x n x n; 'with transfer': A and B to the device, C back, each time\n", device);
    sg_table_print(table);
}

/* ---- two devices ------------------------------------------------------------------------------------------------- */

/* What the second device is compared with: the first one's product of the same precision where that really is computed there,
 * else its fp32. */
static const sg_micro *baseline(const sg_bench_report *r, const sg_micro *product) {
    const sg_micro *same =
        sg_bench_find(r, r->device[0].kind, "product", product->config.compute, product->config.n, 0);
    if (same && same->fits_rates) return same;
    return sg_bench_find(r, r->device[0].kind, "product", "f32", product->config.n, 0);
}

/* The largest n up to which copying there and back costs more than the second device gains; 0: at no size measured. *from: the
 * smallest n behind it; 0: none. */
static void where_transfer_eats_the_gain(const sg_bench_report *r, const char *compute, int64_t *up_to, int64_t *from) {
    *up_to = *from = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < r->n_micros; i++) {
            const sg_micro *m = &r->micros[i], *moved = with_transfer(r, m), *base = baseline(r, m);
            if (!is_product_of(m, r->device[1].kind, compute) || !moved || !base) continue;
            bool eaten = moved->s.median >= base->s.median;
            if (pass == 0 && eaten && m->config.n > *up_to) *up_to = m->config.n;
            if (pass == 1 && !eaten && m->config.n > *up_to && (!*from || m->config.n < *from)) *from = m->config.n;
        }
}

static void print_speed_up(const sg_bench_report *r) {
    const char *const header[] = {"precision", "n", r->device[0].kind, r->device[1].kind, "speed-up", "with transfer"};
    sg_table *table = sg_table_new(6, header);
    for (int c = 0; c < COMPUTES; c++)
        for (size_t i = 0; i < r->n_micros; i++) {
            const sg_micro *m = &r->micros[i], *base = baseline(r, m), *moved = with_transfer(r, m);
            if (!is_product_of(m, r->device[1].kind, computes[c])) continue;
            if (!base) continue;
            char gain[32], moved_gain[32] = "-";
            (void)snprintf(gain, sizeof gain, "%.3g x", base->s.median / m->s.median);
            if (moved) (void)snprintf(moved_gain, sizeof moved_gain, "%.3g x", base->s.median / moved->s.median);
            sg_text n = sg_show_count(m->config.n), a = sg_show_seconds(base->s.median);
            sg_text b = sg_show_seconds(m->s.median);
            const char *const row[] = {sg_bench_precision_name(computes[c]), n.s, a.s, b.s, gain, moved_gain};
            sg_table_row(table, row);
        }
    printf("\nSpeed-up of %s over %s\n", r->device[1].kind, r->device[0].kind);
    sg_table_print(table);
    for (int c = 0; c < COMPUTES; c++) {
        int64_t up_to, from;
        if (!sg_bench_find(r, r->device[1].kind, "with_transfer", computes[c], 0, 0)) continue;
        where_transfer_eats_the_gain(r, computes[c], &up_to, &from);
        const char *name = sg_bench_precision_name(computes[c]);
        if (!up_to)
            printf("  %s: faster at every size measured, transfer included\n", name);
        else if (from)
            printf("  %s: transfer eats the gain up to n = %lld; from n = %lld on it pays\n", name, (long long)up_to,
                   (long long)from);
        else
            printf("  %s: with transfer it gains at no size measured (n <= %lld)\n", name, (long long)up_to);
    }
}

/* ---- precisions and ceiling -------------------------------------------------------------------------------------- */

static void print_factors(const sg_bench_report *r, const char *device) {
    bool any = false;
    for (int c = 1; c < COMPUTES; c++) any = any || sg_bench_find(r, device, "product", computes[c], 0, 0);
    if (!any || !sg_bench_find(r, device, "product", "f32", 0, 0)) return;
    const char *const header[] = {"n", "fp32", "tf32", "bf16", "fp16"};
    sg_table *table = sg_table_new(5, header);
    bool emulated = false;
    for (size_t i = 0; i < r->n_micros; i++) {
        const sg_micro *m = &r->micros[i];
        if (!is_product_of(m, device, "f32")) continue;
        char cell[COMPUTES][32];
        const char *row[COMPUTES + 1];
        sg_text n = sg_show_count(m->config.n);
        row[0] = n.s;
        for (int c = 0; c < COMPUTES; c++) {
            const sg_micro *other = sg_bench_find(r, device, "product", computes[c], m->config.n, 0);
            (void)snprintf(cell[c], sizeof cell[c], "-");
            if (other) {
                emulated = emulated || !other->fits_rates;
                (void)snprintf(cell[c], sizeof cell[c], "%.3g x%s", m->s.median / other->s.median,
                               other->fits_rates ? "" : " *");
            }
            row[c + 1] = cell[c];
        }
        sg_table_row(table, row);
    }
    printf("\n%s: gain of a precision over fp32 (tensor cores, or wider vectors)\n", device);
    sg_table_print(table);
    if (emulated) printf("  * computed as fp32 here: no gain of a unit, only of fewer or more bytes\n");
}

static const sg_micro *fastest(const sg_bench_report *r, const char *device, const char *compute) {
    const sg_micro *best = NULL;
    for (size_t i = 0; i < r->n_micros; i++) {
        const sg_micro *m = &r->micros[i];
        if (is_product_of(m, device, compute) && (!best || m->flop_per_s > best->flop_per_s)) best = m;
    }
    return best;
}

/* The data sheet: --machine, or the one whose name and memory are this device's. */
static bool sheet_of(const sg_bench_report *r, const sg_device_info *device, sg_machine *sheet, sg_status *status) {
    bool named = r->args->machine && (r->n_devices == 1 || device == &r->device[1]);
    sg_code code = named ? sg_machine_load(r->args->machine, NULL, sheet, status)
                         : sg_machine_match(NULL, device->kind, device->name, device->memory_bytes, sheet, status);
    return code == SG_OK;
}

static void print_ceiling(const sg_bench_report *r, const sg_device_info *device) {
    if (!sg_bench_find(r, device->kind, "product", "", 0, 0)) return;
    sg_machine sheet;
    sg_status status = {0};
    bool known = sheet_of(r, device, &sheet, &status);
    printf("\n%s: measured ceiling%s%s\n", device->kind, known ? " against the data sheet of " : "",
           known ? sheet.title : "");
    const char *const header[] = {"precision", "n", "TFLOP/s", "data sheet", "reached"};
    sg_table *table = sg_table_new(5, header);
    for (int c = 0; c < COMPUTES; c++) {
        const sg_micro *m = fastest(r, device->kind, computes[c]);
        if (!m) continue;
        double peak = known ? sheet.p[sg_machine_peak_of(modes[c])].value : NAN;
        sg_text n = sg_show_count(m->config.n), rate = rate_text(m->flop_per_s), promised = rate_text(peak);
        sg_text share = sg_bench_percent(m->fits_rates ? m->flop_per_s / peak : NAN);
        const char *const row[] = {sg_bench_precision_name(computes[c]), n.s, rate.s, promised.s, share.s};
        sg_table_row(table, row);
    }
    sg_table_print(table);
    if (known)
        sg_machine_clear(&sheet);
    else
        printf("  %s; --machine NAME or FILE names one\n", status.text);
}

void sg_print_bench_gemm(const sg_bench_report *r) {
    for (size_t d = 0; d < r->n_devices; d++) print_times(r, r->device[d].kind);
    if (r->n_devices > 1) print_speed_up(r);
    for (size_t d = 0; d < r->n_devices; d++) {
        print_factors(r, r->device[d].kind);
        print_ceiling(r, &r->device[d]);
    }
}

/* ---- the same as JSON -------------------------------------------------------------------------------------------- */

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *json_speed_up(const sg_bench_report *r) {
    json_t *list = json_array();
    for (size_t i = 0; r->n_devices > 1 && i < r->n_micros; i++) {
        const sg_micro *m = &r->micros[i], *base = baseline(r, m), *moved = with_transfer(r, m);
        if (!is_product_of(m, r->device[1].kind, "") || !base) continue;
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:I, s:o, s:o}", "precision", sg_bench_precision_name(m->config.compute),
                            "baseline_precision", sg_bench_precision_name(base->config.compute), "n",
                            (json_int_t)m->config.n, "factor", number(base->s.median / m->s.median),
                            "factor_with_transfer", number(moved ? base->s.median / moved->s.median : NAN)));
    }
    return list;
}

static json_t *json_transfer(const sg_bench_report *r) {
    json_t *list = json_array();
    for (int c = 0; r->n_devices > 1 && c < COMPUTES; c++) {
        int64_t up_to, from;
        if (!sg_bench_find(r, r->device[1].kind, "with_transfer", computes[c], 0, 0)) continue;
        where_transfer_eats_the_gain(r, computes[c], &up_to, &from);
        (void)json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "precision",
                                                    sg_bench_precision_name(computes[c]), "eats_the_gain_up_to_n",
                                                    (json_int_t)up_to, "pays_from_n", (json_int_t)from));
    }
    return list;
}

static json_t *json_factors(const sg_bench_report *r) {
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_micros; i++) {
        const sg_micro *m = &r->micros[i];
        const sg_micro *single = sg_bench_find(r, m->config.device, "product", "f32", m->config.n, 0);
        if (!is_product_of(m, m->config.device, "") || !single || m == single) continue;
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:I, s:o, s:b}", "device", m->config.device, "precision",
                            sg_bench_precision_name(m->config.compute), "n", (json_int_t)m->config.n,
                            "factor_over_fp32", number(single->s.median / m->s.median), "native", (int)m->fits_rates));
    }
    return list;
}

static json_t *json_ceiling(const sg_bench_report *r) {
    json_t *list = json_array();
    for (size_t d = 0; d < r->n_devices; d++) {
        sg_machine sheet;
        sg_status status = {0};
        bool known = sheet_of(r, &r->device[d], &sheet, &status);
        for (int c = 0; c < COMPUTES; c++) {
            const sg_micro *m = fastest(r, r->device[d].kind, computes[c]);
            if (!m) continue;
            double peak = known ? sheet.p[sg_machine_peak_of(modes[c])].value : NAN;
            json_t *one = json_pack("{s:s, s:s, s:I, s:o, s:o, s:o}", "device", r->device[d].kind, "precision",
                                    sg_bench_precision_name(computes[c]), "n", (json_int_t)m->config.n, "flop_per_s",
                                    number(m->flop_per_s), "data_sheet_flop_per_s", number(peak), "reached",
                                    number(m->fits_rates ? m->flop_per_s / peak : NAN));
            if (known) (void)json_object_set_new(one, "data_sheet", json_string(sheet.name));
            (void)json_array_append_new(list, one);
        }
        if (known) sg_machine_clear(&sheet);
    }
    return list;
}

json_t *sg_json_bench_gemm(const sg_bench_report *r) {
    return json_pack("{s:o, s:o, s:o, s:o}", "speed_up", json_speed_up(r), "transfer", json_transfer(r),
                     "precision_factor", json_factors(r), "ceiling", json_ceiling(r));
}
