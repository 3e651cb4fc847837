#include "calibration/machine/shapes_file.h"

#include "calibration/kernels/product_model.h"
#include "formats/durable_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPES_MAX = 20000, TEXT_MAX = 4 << 20, RATIO_MAX = 5000 };
static const double RATIO_UNIT = 1e-3;
/* Parameters that are written with four digits and read again are still the same. */
static const double SAME_PARAMETERS = 2e-3;

/* A number that no two sets of parameters share but by chance. */
static double parameters_of(const sg_machine *m) {
    double sum = 0;
    for (size_t i = 0; i < SG_PRODUCT_TERMS; i++) {
        double value = m->p[sg_product_term(i)].value;
        if (value > 0) sum += log(value) * (1 + 0.37 * (double)i);
    }
    return sum;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

typedef struct reader {
    const char *name, *at;
    size_t line;
    sg_status *status;
    uint32_t family[SG_TILE_KIND_COUNT];
    sg_measured_shape *shape;
    size_t n, room;
    double parameters;
} reader;

static sg_code bad(reader *r, const char *what) {
    return sg_fail(r->status, SG_BAD_INPUT, "%s:%zu: %s", r->name, r->line, what);
}

static bool take_int(reader *r, long low, long high, long *out) {
    char *end = NULL;
    errno = 0;
    while (*r->at == ' ') r->at++;
    *out = strtol(r->at, &end, 10);
    if (end == r->at || errno || *out < low || *out > high) return false;
    r->at = end;
    return true;
}

static sg_code add_shape(reader *r, sg_tile_kind kind) {
    long size[4] = {1, 0, 0, 0}, ratio = 0;
    for (int i = kind == SG_TILES_BATCHED ? 0 : 1; i < 4; i++)
        if (!take_int(r, 1, 1L << 31, &size[i])) return bad(r, "sizes of a product are expected");
    if (!take_int(r, -RATIO_MAX, RATIO_MAX, &ratio) || *r->at != '\n')
        return bad(r, "a ratio in thousandths is expected, and no more");
    if (r->n == SHAPES_MAX) return bad(r, "more shapes than a machine takes");
    if (r->n == r->room) {
        size_t room = r->room ? 2 * r->room : 1024;
        sg_measured_shape *grown = realloc(r->shape, room * sizeof *grown);
        if (!grown) return sg_fail_memory(r->status, room * sizeof *grown, "measured shapes");
        r->shape = grown;
        r->room = room;
    }
    sg_measured_shape *s = &r->shape[r->n++];
    memset(s, 0, sizeof *s);
    s->shape.family = r->family[kind];
    /* batch, m, n, k as sg_shape_of_op has them */
    s->shape.at[0] = log((double)size[0]);
    s->shape.at[1] = log((double)size[1]);
    s->shape.at[2] = log((double)size[3]);
    s->shape.at[3] = log((double)size[2]);
    s->log_ratio = RATIO_UNIT * (double)ratio;
    return SG_OK;
}

static sg_code read_line(reader *r) {
    static const char word[] = "parameters ";
    if (*r->at == '#') return r->at = strchr(r->at, '\n'), SG_OK;
    if (strncmp(r->at, word, sizeof word - 1) == 0) {
        char *end = NULL;
        r->parameters = strtod(r->at + sizeof word - 1, &end);
        r->at = end;
        return isfinite(r->parameters) && *end == '\n' ? SG_OK : bad(r, "parameters is no number");
    }
    char kind = *r->at++;
    if (kind == 'l') return add_shape(r, SG_TILES_LINEAR);
    if (kind == 'b') return add_shape(r, SG_TILES_BATCHED);
    return bad(r, "a line begins with l, b, # or parameters");
}

sg_code sg_shapes_parse(const char *name, const char *text, sg_machine *machine, sg_status *status) {
    reader r = {.name = name, .at = text, .status = status, .parameters = NAN};
    for (int k = 0; k < SG_TILE_KIND_COUNT; k++) r.family[k] = sg_product_family((sg_tile_kind)k);
    sg_code code = SG_OK;
    while (*r.at && !code) {
        r.line++;
        if (!strchr(r.at, '\n'))
            code = bad(&r, "the last line does not end");
        else
            code = read_line(&r);
        if (!code) r.at++;
    }
    sg_measured *measured = NULL;
    bool stands = fabs(r.parameters - parameters_of(machine)) < SAME_PARAMETERS;
    if (!code && stands) code = sg_measured_make(r.shape, r.n, &measured, status);
    if (!code && stands) {
        sg_measured_release(machine->measured);
        machine->measured = measured;
    }
    free(r.shape);
    return code;
}

static sg_code read_text(const char *path, FILE *file, char **text, sg_status *status) {
    if (fseek(file, 0, SEEK_END) != 0) return sg_fail(status, SG_BAD_INPUT, "%s: %s", path, strerror(errno));
    long bytes = ftell(file);
    rewind(file);
    if (bytes < 0 || bytes > TEXT_MAX) return sg_fail(status, SG_BAD_INPUT, "%s: longer than %d bytes", path, TEXT_MAX);
    *text = malloc((size_t)bytes + 1);
    if (!*text) return sg_fail_memory(status, (size_t)bytes + 1, "measured shapes");
    size_t n = fread(*text, 1, (size_t)bytes, file);
    (*text)[n] = 0;
    return n == (size_t)bytes && !memchr(*text, 0, n)
               ? SG_OK
               : sg_fail(status, SG_BAD_INPUT, "%s: cannot be read as text", path);
}

sg_code sg_shapes_load_beside(const char *sheet_path, sg_machine *machine, sg_status *status) {
    size_t n = strlen(sheet_path);
    const char *dot = strrchr(sheet_path, '.');
    size_t stem = dot ? (size_t)(dot - sheet_path) : n;
    static const char ending[] = ".shapes";
    char *path = malloc(stem + sizeof ending), *text = NULL;
    if (!path) return sg_fail_memory(status, stem + sizeof ending, "a path");
    memcpy(path, sheet_path, stem);
    memcpy(path + stem, ending, sizeof ending);
    FILE *file = fopen(path, "rb");
    sg_code code = SG_OK;
    if (file) {
        code = read_text(path, file, &text, status);
        (void)fclose(file);
        if (!code) code = sg_shapes_parse(path, text, machine, status);
    }
    free(text);
    free(path);
    return code;
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

static void write_shape(FILE *file, const sg_measured_shape *s, sg_tile_kind kind) {
    double size[4];
    for (int i = 0; i < 4; i++) size[i] = round(exp(s->shape.at[i]));
    (void)fprintf(file, kind == SG_TILES_BATCHED ? "b %.0f " : "l ", size[0]);
    (void)fprintf(file, "%.0f %.0f %.0f %.0f\n", size[1], size[3], size[2], round(s->log_ratio / RATIO_UNIT));
}

sg_code sg_shapes_save(const char *path, const sg_machine *machine, const char *source, sg_status *status) {
    sg_text_writer text;
    sg_code code = sg_text_open(path, &text, status);
    if (code) return code;
    size_t n = 0;
    const sg_measured_shape *shapes = sg_measured_shapes(machine->measured, &n);
    (void)fprintf(text.file, "# %s\nparameters %.6f\n", source, parameters_of(machine));
    for (int k = 0; k < SG_TILE_KIND_COUNT; k++)
        for (size_t i = 0; i < n; i++)
            if (shapes[i].shape.family == sg_product_family((sg_tile_kind)k))
                write_shape(text.file, &shapes[i], (sg_tile_kind)k);
    return sg_text_close(path, &text, status);
}
