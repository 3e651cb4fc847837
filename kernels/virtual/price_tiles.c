/* price_tiles.c: the time of a product on the fastest of a machine's tiles (the formulas: product.h). */
#include <math.h>

#include "kernels/virtual/product.h"

static const double WHOLE_TILE = 128 * 128, DRIFT_L2_BYTES = 4 * 0x1p20;

/* Parts into which a contraction may be divided, and the least that remains for each. */
static const int divisions[] = {1, 2, 4, 8};
enum { DIVISIONS = sizeof divisions / sizeof *divisions, LEAST_PART = 64 };

/* Tiles of tensor-core products: libraries choose among these or finer ones. */
static const sg_tiles tensor_tiles = {6, {{128, 128}, {128, 64}, {64, 128}, {64, 64}, {128, 256}, {256, 128}}};

/* What all tiles of one product share. */
typedef struct setting {
    const sg_machine *machine;
    const sg_product *product;
    double sm_rate; /* FLOP/s of one SM, sustained */
    double eff, tile_power, fill, wave_share, join;
    double traffic_rate, drift_rate, drift_length, drift_waves;
} setting;

/* One way to form the product. */
typedef struct way {
    int rows, columns, parts;
    double seconds;
} way;

/* Terms of one way, for its time and its derivatives. */
typedef struct terms {
    double x, waves, loss;              /* loss: 1/e - 1 */
    double k;                           /* contraction of a part */
    double compute, once, again, drift; /* seconds; again: before f, drift = f */
    double merge;                       /* adding up the parts */
} terms;

static double value_of(const sg_machine *m, sg_machine_id id) {
    return m->p[id].value;
}

static setting make_setting(const sg_machine *m, const sg_product *p) {
    double bandwidth = value_of(m, SG_M_BANDWIDTH), l2 = m->l2_bytes > 0 ? m->l2_bytes : DRIFT_L2_BYTES;
    return (setting){
        .machine = m,
        .product = p,
        .sm_rate = sg_sustained_peak(m, p->compute, NULL) / m->units,
        .eff = value_of(m, sg_product_eff(m, p)),
        .tile_power = value_of(m, SG_M_TILE_POWER),
        .fill = value_of(m, SG_M_TILE_FILL),
        .wave_share = value_of(m, SG_M_WAVE_SHARE),
        .join = value_of(m, SG_M_PRODUCT_JOIN),
        .traffic_rate = bandwidth * value_of(m, SG_M_PRODUCT_TRAFFIC_SHARE),
        .drift_rate = bandwidth * value_of(m, SG_M_DRIFT_SHARE),
        .drift_length = value_of(m, SG_M_DRIFT_LENGTH) * sqrt(l2 / DRIFT_L2_BYTES),
        .drift_waves = value_of(m, SG_M_DRIFT_WAVES),
    };
}

/* A tile's start and end take as long on tensor cores, which in columns of contraction is more. */
static double fill_columns(const setting *s) {
    if (s->product->compute == SG_COMPUTE_F32) return s->fill;
    const sg_machine *m = s->machine;
    double ratio = value_of(m, sg_machine_peak_of(s->product->compute)) / value_of(m, SG_M_PEAK_F32);
    return isfinite(ratio) && ratio > 1 ? s->fill * ratio : s->fill;
}

static void compute_terms(const setting *s, const way *w, terms *t) {
    const sg_product *p = s->product;
    double batch = p->batch * w->parts, area = (double)w->rows * w->columns;
    t->k = ceil(p->k / w->parts);
    t->x = batch * ceil(p->m / w->rows) * ceil(p->n / w->columns) / s->machine->units;
    t->waves = s->wave_share * ceil(t->x) + (1 - s->wave_share) * fmax(t->x, 1);
    t->loss = s->eff < 1 ? (1 / s->eff - 1) * pow(WHOLE_TILE / area, s->tile_power) : 1 / s->eff - 1;
    t->compute = t->waves * 2 * area * (t->k + fill_columns(s)) / s->sm_rate * (1 + t->loss);
    t->once = p->bytes / s->traffic_rate;
    t->merge = w->parts > 1 ? value_of(s->machine, SG_M_SPLIT_K_S) +
                                  4 * (w->parts + 1) * p->batch * p->m * p->n / s->traffic_rate
                            : 0;
}

/* Reads again that miss the cache are known of fp32 kernels. Kernels of tensor cores order their tiles for the cache, and
 * training steps in bf16 and tf32 are explained without (reports of pi05 on A100, SmolVLA on three GPUs). */
static void drift_terms(const setting *s, const way *w, terms *t) {
    const sg_product *p = s->product;
    t->drift = t->again = 0;
    if (p->compute != SG_COMPUTE_F32) return;
    double part_k = p->batch * w->parts * t->k;
    double all = part_k * p->m * p->n * (p->b_bytes / fmin(w->rows, p->m) + p->a_bytes / fmin(w->columns, p->n));
    double operands = part_k * (p->m * p->a_bytes + p->n * p->b_bytes);
    double far = s->drift_length / (t->k * pow(fmax(t->x, 1), s->drift_waves));
    t->drift = 1 / (1 + far * far);
    t->again = fmax(0, all - operands) / s->drift_rate;
}

static double joined(double a, double b, double power) {
    double high = fmax(a, b), low = fmin(a, b);
    return high * pow(1 + pow(low / high, power), 1 / power);
}

/* Sets w->seconds if the way is faster than `best`. */
static bool is_faster(const setting *s, way *w, double best) {
    terms t;
    compute_terms(s, w, &t);
    if (fmax(t.compute, t.once) + t.merge >= best) return false;
    drift_terms(s, w, &t);
    w->seconds = joined(t.compute, t.once + t.drift * t.again, s->join) + t.merge;
    return w->seconds < best;
}

static way fastest(const setting *s, const sg_tiles *tiles, bool divides) {
    way best = {.seconds = INFINITY};
    for (int i = 0; i < tiles->n; i++)
        for (int z = 0; z < (divides ? DIVISIONS : 1); z++) {
            if (z && s->product->k < divisions[z] * LEAST_PART) break;
            way w = {tiles->tile[i].rows, tiles->tile[i].columns, divisions[z], 0};
            if (is_faster(s, &w, best.seconds)) best = w;
        }
    return best;
}

/* Derivatives of the way's seconds by log parameter. */
static void differentiate(const setting *s, const way *w, sg_priced *price) {
    terms t;
    compute_terms(s, w, &t);
    drift_terms(s, w, &t);
    const sg_machine *m = s->machine;
    double *d = price->by_log, traffic = t.once + t.drift * t.again, q = s->join;
    double high = fmax(t.compute, traffic), ratio = fmin(t.compute, traffic) / high, u = pow(ratio, q);
    double main = high * pow(1 + u, 1 / q), of_high = main / (1 + u), of_low = main - of_high;
    double by_compute = t.compute >= traffic ? of_high : of_low, by_traffic = main - by_compute;
    price->seconds = main + t.merge;
    if (ratio > 0) d[SG_M_PRODUCT_JOIN] += main * (u * log(ratio) / (1 + u) - log1p(u) / q);

    sg_priced rate = {0};
    (void)sg_sustained_peak(m, s->product->compute, &rate);
    sg_priced_add(price, &rate, -by_compute);
    d[SG_M_WAVE_SHARE] += by_compute * s->wave_share * (ceil(t.x) - fmax(t.x, 1)) / t.waves;
    double fill = fill_columns(s);
    d[SG_M_TILE_FILL] += by_compute * fill / (t.k + fill);
    if (fill > s->fill) {
        d[sg_machine_peak_of(s->product->compute)] += by_compute * fill / (t.k + fill);
        d[SG_M_PEAK_F32] -= by_compute * fill / (t.k + fill);
    }
    double scale = s->eff < 1 ? t.loss / (1 / s->eff - 1) : 1;
    d[sg_product_eff(m, s->product)] -= by_compute * scale / s->eff / (1 + t.loss);
    d[SG_M_TILE_POWER] += by_compute * t.loss / (1 + t.loss) * log(scale);

    double per_s = traffic > 0 ? by_traffic / traffic : 0, by_once = t.once * per_s, by_drift = by_traffic - by_once;
    if (w->parts > 1) {
        double start = value_of(m, SG_M_SPLIT_K_S);
        d[SG_M_SPLIT_K_S] += start;
        by_once += t.merge - start;
    }
    d[SG_M_PRODUCT_TRAFFIC_SHARE] -= by_once;
    d[SG_M_DRIFT_SHARE] -= by_drift;
    d[SG_M_BANDWIDTH] -= by_once + by_drift;
    d[SG_M_DRIFT_LENGTH] -= 2 * (1 - t.drift) * by_drift;
    d[SG_M_DRIFT_WAVES] += 2 * (1 - t.drift) * by_drift * s->drift_waves * log(fmax(t.x, 1));
}

static void scale(sg_priced *price, double factor) {
    price->seconds *= factor;
    for (int i = 0; i < SG_M_COUNT; i++) price->by_log[i] *= factor;
}

/* A board under its power limit slows down within some 20 ms; a step lasts longer than that. */
static void fade(const sg_machine *m, const sg_product *p, sg_product_place place, sg_priced *price) {
    sg_machine_id id = p->kind == SG_TILES_BATCHED ? SG_M_CLOCK_FADE_BMM : SG_M_CLOCK_FADE;
    double whole = value_of(m, id), t = price->seconds;
    if (p->compute != SG_COMPUTE_F32) return;
    double share = 1, after = value_of(m, SG_M_CLOCK_FADE_S);
    if (place == SG_PRODUCT_BETWEEN_EVENTS) share = 1 / (1 + (after / t) * (after / t));
    double turn = place == SG_PRODUCT_BETWEEN_EVENTS ? 2 * whole * share * (1 - share) : 0;
    scale(price, 1 + whole * share + turn);
    price->seconds = t * (1 + whole * share);
    price->by_log[id] += t * whole * share;
    price->by_log[SG_M_CLOCK_FADE_S] -= t * turn;
}

static sg_code check_machine(const sg_machine *m, const sg_product *p, sg_product_place place, sg_status *status) {
    static const sg_machine_id needed[] = {
        SG_M_PEAK_F32,     SG_M_BANDWIDTH,      SG_M_TILE_POWER,  SG_M_TILE_FILL,    SG_M_WAVE_SHARE,
        SG_M_DRIFT_LENGTH, SG_M_DRIFT_SHARE,    SG_M_DRIFT_WAVES, SG_M_PRODUCT_JOIN, SG_M_PRODUCT_TRAFFIC_SHARE,
        SG_M_CLOCK_FADE,   SG_M_CLOCK_FADE_BMM, SG_M_UNALIGNED,   SG_M_CLOCK_FADE_S};
    sg_machine_id more[] = {sg_machine_peak_of(p->compute), sg_product_eff(m, p),
                            place == SG_PRODUCT_IN_STEP ? SG_M_KERNEL_START_S : SG_M_EVENT_PRODUCT_S};
    const char *lacks = m->units > 0 ? NULL : "units";
    for (size_t i = 0; i < sizeof needed / sizeof *needed && !lacks; i++)
        if (!(value_of(m, needed[i]) > 0)) lacks = sg_machine_key(needed[i]);
    for (size_t i = 0; i < sizeof more / sizeof *more && !lacks; i++)
        if (more[i] >= SG_M_COUNT || !(value_of(m, more[i]) > 0))
            lacks = more[i] < SG_M_COUNT ? sg_machine_key(more[i]) : "a rate of products in this precision";
    if (!lacks) return SG_OK;
    return sg_fail(status, SG_NO,
                   "pricing a product on machine %s: it does not state %s; add it to the data sheet or "
                   "fit it",
                   m->name, lacks);
}

sg_code sg_price_tiles(const sg_machine *m, const sg_product *p, sg_product_place place, sg_priced *price,
                       sg_status *status) {
    sg_code code = check_machine(m, p, place, status);
    if (code) return code;
    bool f32 = p->compute == SG_COMPUTE_F32;
    setting s = make_setting(m, p);
    way best = fastest(&s, f32 ? &m->tiles[p->kind] : &tensor_tiles,
                       p->kind == SG_TILES_LINEAR && value_of(m, SG_M_SPLIT_K_S) > 0);
    if (!isfinite(best.seconds))
        return sg_fail(status, SG_NO, "pricing a product on machine %s: a rate is zero, or it knows no tile", m->name);
    *price = (sg_priced){0};
    differentiate(&s, &best, price);
    if (f32 && fmod(p->k, 4) != 0) {
        scale(price, value_of(m, SG_M_UNALIGNED));
        price->by_log[SG_M_UNALIGNED] += price->seconds;
    }
    fade(m, p, place, price);
    sg_machine_id start = place == SG_PRODUCT_IN_STEP ? SG_M_KERNEL_START_S : SG_M_EVENT_PRODUCT_S;
    price->seconds += value_of(m, start);
    price->by_log[start] += value_of(m, start);
    return SG_OK;
}
