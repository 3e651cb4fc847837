#include "calibration/plan/offers.h"

#include <csv.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/config/config_dir.h"
#include "formats/durable_file.h"
#include "kernels/nearest.h"
#include "models/policy.h"

static const char *const columns[] = {"provider", "name",         "gpu",     "machine",    "gpus",  "vcpus",
                                      "ram_gb",   "usd_per_hour", "billing", "price_date", "source"};
enum { N_COLUMNS = sizeof columns / sizeof *columns, MAX_FIELDS = 64, MAX_ROWS = 100000, MAX_BYTES = 16 << 20 };

typedef struct reader {
    const char *name;
    sg_offers *offers;
    sg_status *status;
    sg_code code;
    size_t row;                /* from 1; the first names the columns */
    int column_of[MAX_FIELDS]; /* index into columns, -1: passed over */
    size_t n_fields, field;    /* fields of the header; of the current row so far */
    bool has[N_COLUMNS];       /* columns of the file */
    sg_offer offer;
} reader;

static void fail(reader *r, const char *column, const char *text, const char *what) {
    if (!r->code)
        r->code =
            sg_fail(r->status, SG_BAD_INPUT, "%s: row %zu, %s \"%.60s\": %s", r->name, r->row, column, text, what);
}

static void take_number(reader *r, const char *column, const char *text, double low, double high, double *out) {
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= low && v <= high)) {
        char what[80];
        (void)snprintf(what, sizeof what, "a number from %g to %g is expected", low, high);
        fail(r, column, text, what);
        return;
    }
    *out = v;
}

static void take_text(reader *r, const char *column, const char *text, char *out, size_t bytes) {
    size_t n = strlen(text);
    if (!n || n >= bytes) {
        fail(r, column, text, n ? "too long" : "must not be empty");
        return;
    }
    memcpy(out, text, n + 1);
}

static void take_date(reader *r, const char *text, sg_offer *o) {
    bool good = strlen(text) == 10;
    for (int i = 0; i < 10 && good; i++) good = i == 4 || i == 7 ? text[i] == '-' : text[i] >= '0' && text[i] <= '9';
    if (good)
        memcpy(o->price_date, text, 11);
    else
        fail(r, "price_date", text, "YYYY-MM-DD is expected");
}

static void take_billing(reader *r, const char *text, sg_offer *o) {
    if (strcmp(text, "second") == 0)
        o->billing_quantum_s = 1;
    else if (strcmp(text, "minute") == 0)
        o->billing_quantum_s = 60;
    else if (strcmp(text, "hour") == 0)
        o->billing_quantum_s = 3600;
    else
        fail(r, "billing", text, "second, minute or hour is expected");
}

static void take_field(reader *r, int column, const char *text) {
    sg_offer *o = &r->offer;
    const char *name = columns[column];
    double number = 0;
    switch (column) {
    case 0: take_text(r, name, text, o->provider, sizeof o->provider); break;
    case 1: take_text(r, name, text, o->name, sizeof o->name); break;
    case 2: take_text(r, name, text, o->gpu, sizeof o->gpu); break;
    case 3: take_text(r, name, text, o->machine, sizeof o->machine); break;
    case 4:
        take_number(r, name, text, 1, 1e5, &number);
        if (number != floor(number)) fail(r, name, text, "a whole number is expected");
        o->gpus = (int)number;
        break;
    case 5: take_number(r, name, text, 1, 1e6, &o->vcpus); break;
    case 6:
        take_number(r, name, text, 0.1, 1e7, &number);
        o->ram_bytes = number * 1e9;
        break;
    case 7: take_number(r, name, text, 0, 1e6, &o->usd_per_hour); break;
    case 8: take_billing(r, text, o); break;
    case 9: take_date(r, text, o); break;
    default: take_text(r, name, text, o->source, sizeof o->source); break;
    }
}

static void header_field(reader *r, const char *text) {
    if (r->n_fields == MAX_FIELDS) {
        fail(r, "column", text, "too many columns");
        return;
    }
    int column = -1;
    for (int i = 0; i < N_COLUMNS; i++)
        if (strcmp(columns[i], text) == 0) column = i;
    if (column < 0) {
        const char *near = sg_nearest(text, columns, N_COLUMNS);
        char what[96];
        (void)snprintf(what, sizeof what, "unknown column%s%s%s", near ? "; did you mean \"" : "", near ? near : "",
                       near ? "\"?" : "");
        fail(r, "column", text, what);
    } else if (r->has[column]) {
        fail(r, "column", text, "stands twice");
    } else {
        r->has[column] = true;
    }
    r->column_of[r->n_fields++] = column;
}

static void on_field(void *data, size_t bytes, void *user) {
    reader *r = user;
    char text[256];
    if (r->code) return;
    if (r->field == 0) r->row++;
    size_t n = bytes < sizeof text ? bytes : sizeof text - 1;
    if (n) memcpy(text, data, n);
    text[n] = 0;
    size_t at = r->field++;
    if (r->row == 1)
        header_field(r, text);
    else if (at >= r->n_fields)
        fail(r, "field", text, "more fields than columns");
    else if (bytes >= sizeof text || strlen(text) != n)
        fail(r, columns[r->column_of[at]], text, "no short text");
    else
        take_field(r, r->column_of[at], text);
}

static void end_header(reader *r) {
    for (int i = 0; i < N_COLUMNS; i++)
        if (!r->has[i]) fail(r, "column", columns[i], "is missing");
}

static void on_row(int ending, void *user) {
    (void)ending;
    reader *r = user;
    if (r->code) return;
    if (r->row <= 1) {
        end_header(r);
    } else if (r->field < r->n_fields) {
        fail(r, "row", "", "fewer fields than columns");
    } else if (r->offers->count >= MAX_ROWS) {
        fail(r, "row", "", "too many rows");
    } else {
        size_t n = r->offers->count;
        if ((n & (n - 1)) == 0) { /* room for a power of two */
            sg_offer *grown = realloc(r->offers->offer, (n ? 2 * n : 1) * sizeof *grown);
            if (!grown) {
                r->code = sg_fail_memory(r->status, 2 * n * sizeof *grown, "offers");
                return;
            }
            r->offers->offer = grown;
        }
        r->offers->offer[r->offers->count++] = r->offer;
    }
    r->field = 0;
    r->offer = (sg_offer){0};
}

sg_code sg_offers_parse(const char *name, const char *text, size_t bytes, sg_offers *offers, sg_status *status) {
    reader r = {.name = name, .offers = offers, .status = status};
    struct csv_parser parser;
    if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI | CSV_APPEND_NULL)) return sg_fail_memory(status, 0, name);
    csv_set_blk_size(&parser, 65536); /* a long field grows by this much at a time */
    size_t parsed = csv_parse(&parser, text, bytes, on_field, on_row, &r);
    int bad = parsed != bytes || csv_fini(&parser, on_field, on_row, &r);
    if (bad && !r.code) {
        if (csv_error(&parser) == CSV_ENOMEM)
            r.code = sg_fail_memory(status, 0, name);
        else
            r.code = sg_fail(status, SG_BAD_INPUT, "%s: row %zu: %s", name, r.field ? r.row : r.row + 1,
                             csv_strerror(csv_error(&parser)));
    }
    csv_free(&parser);
    if (!r.code && r.row == 0) r.code = sg_fail(status, SG_BAD_INPUT, "%s: the file is empty", name);
    return r.code;
}

static sg_code read_file(const char *path, sg_offers *offers, sg_status *status) {
    unsigned char *bytes;
    size_t n;
    sg_code code = sg_file_read(path, MAX_BYTES, &bytes, &n, status);
    if (code != SG_OK) return code;
    code = sg_offers_parse(path, (const char *)bytes, n, offers, status);
    free(bytes);
    return code;
}

static sg_code read_folder(const char *config_dir, sg_offers *offers, sg_status *status) {
    char dir[SG_PATH_BYTES], path[SG_PATH_BYTES];
    sg_names files = {0};
    sg_code code = sg_config_dir(config_dir, dir, sizeof dir, status);
    if (!code) code = sg_config_list(dir, "offers", ".csv", &files, status);
    for (size_t i = 0; i < files.count && !code; i++) {
        code = sg_config_find(dir, "offers", files.name[i], ".csv", path, sizeof path, status);
        if (!code) code = read_file(path, offers, status);
    }
    sg_names_clear(&files);
    return code;
}

sg_code sg_offers_read(const char *path, const char *config_dir, sg_offers *offers, sg_status *status) {
    *offers = (sg_offers){0};
    sg_code code = path ? read_file(path, offers, status) : read_folder(config_dir, offers, status);
    if (code) sg_offers_clear(offers);
    return code;
}

void sg_offers_clear(sg_offers *offers) {
    free(offers->offer);
    *offers = (sg_offers){0};
}
