#include "calibration/machine/machine_group.h"
#include "calibration/machine/machine_tiles.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/machine/machine_link.h"

const sg_file_format sg_machine_format = {.name = "stepgauge-machine", .what = "machine file", .version = 1};

/* ---- writing ------------------------------------------------------------------------------------------------------- */

/* Line by line, one per parameter. */
static sg_code set_lines(sg_h5tree *group, const char *name, const sg_machine *m, bool sources, sg_status *status) {
    size_t room = (size_t)SG_M_COUNT * 128, used = 0;
    char *text = malloc(room);
    if (!text) return sg_fail_memory(status, room, "the parameters of a machine");
    for (int i = 0; i < SG_M_COUNT; i++) {
        const char *line = sources ? m->p[i].source : sg_machine_key((sg_machine_id)i);
        int n = snprintf(text + used, room - used, "%s%s", i ? "\n" : "", line);
        if (n > 0) used += (size_t)n;
    }
    sg_code code = sg_h5tree_set_text(group, name, text, status);
    free(text);
    return code;
}

static sg_code set_parameters(sg_h5tree *group, const sg_machine *m, sg_status *status) {
    double value[SG_M_COUNT], log_sd[SG_M_COUNT], evidence[SG_M_COUNT], errs_with[SG_M_COUNT];
    for (int i = 0; i < SG_M_COUNT; i++) {
        value[i] = m->p[i].value;
        log_sd[i] = m->p[i].log_sd;
        evidence[i] = m->p[i].evidence;
        errs_with[i] = m->p[i].group;
    }
    sg_code code = set_lines(group, "parameters", m, false, status);
    if (!code) code = set_lines(group, "sources", m, true, status);
    if (!code) code = sg_h5tree_set_doubles(group, "value", value, SG_M_COUNT, status);
    if (!code) code = sg_h5tree_set_doubles(group, "log_sd", log_sd, SG_M_COUNT, status);
    if (!code) code = sg_h5tree_set_doubles(group, "evidence", evidence, SG_M_COUNT, status);
    if (!code) code = sg_h5tree_set_doubles(group, "group", errs_with, SG_M_COUNT, status);
    if (!code && m->covariance)
        code = sg_h5tree_set_doubles(group, "covariance", m->covariance, (size_t)SG_M_COUNT * SG_M_COUNT, status);
    return code;
}

/* Families as reals, which hold them exactly. */
static sg_code set_measured(sg_h5tree *group, const sg_machine *m, sg_status *status) {
    size_t n;
    const sg_measured_shape *shapes = sg_measured_shapes(m->measured, &n);
    if (!n) return SG_OK;
    enum { FIELDS = SG_SHAPE_PLACES + 2 };
    double *values = reallocarray(NULL, n, FIELDS * sizeof *values);
    if (!values) return sg_fail_memory(status, n * FIELDS * sizeof *values, "measured shapes");
    for (size_t i = 0; i < n; i++) {
        double *row = values + i * FIELDS;
        row[0] = shapes[i].shape.family;
        memcpy(row + 1, shapes[i].shape.at, sizeof shapes[i].shape.at);
        row[FIELDS - 1] = shapes[i].log_ratio;
    }
    sg_code code = sg_h5tree_set_doubles(group, "measured_shapes", values, n * FIELDS, status);
    free(values);
    return code;
}

sg_code sg_machine_to_group(const sg_machine *m, sg_h5tree *root, sg_status *status) {
    sg_h5tree *g = NULL;
    sg_code code = sg_h5tree_group(root, "machine", &g, status);
    if (!code) code = sg_h5tree_set_text(g, "name", m->name, status);
    if (!code) code = sg_h5tree_set_text(g, "title", m->title, status);
    if (!code) code = sg_h5tree_set_text(g, "device_class", m->device_class, status);
    if (!code) code = sg_h5tree_set_text(g, "fitted_from", m->fitted_from, status);
    if (!code) code = sg_h5tree_set_i64(g, "bf16", m->bf16, status);
    if (!code) code = sg_h5tree_set_i64(g, "fp16", m->fp16, status);
    if (!code) code = sg_h5tree_set_i64(g, "tf32", m->tf32, status);
    if (!code) code = sg_h5tree_set_i64(g, "caching_allocator", m->caching_allocator, status);
    if (!code) code = sg_h5tree_set_i64(g, "units", m->units, status);
    if (!code) code = sg_h5tree_set_u64(g, "memory_bytes", m->memory_bytes, status);
    if (!code) code = sg_h5tree_set_f64(g, "vcpus", m->vcpus, status);
    if (!code) code = sg_h5tree_set_i64(g, "compute_capability", m->capability, status);
    if (!code) code = sg_h5tree_set_i64(g, "fp32_lanes", m->fp32_lanes, status);
    if (!code) code = sg_h5tree_set_text(g, "memory_type", m->memory_type, status);
    if (!code) code = sg_h5tree_set_f64(g, "l2_bytes", m->l2_bytes, status);
    if (!code) code = sg_h5tree_set_f64(g, "board_w", m->board_w, status);
    if (!code) code = sg_machine_tiles_to_group(m, g, status);
    if (!code) code = set_measured(g, m, status);
    if (!code) code = sg_machine_link_to_group(&m->link, g, status);
    return code ? code : set_parameters(g, m, status);
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static sg_code get_flag(const sg_h5tree *g, const char *name, bool *out, sg_status *status) {
    int64_t v = 0;
    sg_code code = sg_h5tree_get_i64(g, name, &v, status);
    if (!code && v != 0 && v != 1) return sg_fail(status, SG_BAD_INPUT, "%s is neither 0 nor 1", name);
    *out = v == 1;
    return code;
}

/* Files of earlier versions lack them. */
static sg_code get_silicon(const sg_h5tree *g, sg_machine *m, sg_status *status) {
    if (!sg_h5tree_value_of(g, "compute_capability", SG_H5TREE_I64)) return SG_OK;
    int64_t capability = 0, lanes = 0;
    sg_code code = sg_h5tree_get_i64(g, "compute_capability", &capability, status);
    if (!code) code = sg_h5tree_get_i64(g, "fp32_lanes", &lanes, status);
    if (!code) code = sg_h5tree_get_text(g, "memory_type", m->memory_type, sizeof m->memory_type, status);
    if (!code) code = sg_h5tree_get_f64(g, "l2_bytes", &m->l2_bytes, status);
    if (!code) code = sg_h5tree_get_f64(g, "board_w", &m->board_w, status);
    if (code) return code;
    if (capability < 0 || capability > 999 || lanes < 0 || lanes > 1024 || !(m->l2_bytes >= 0 && m->l2_bytes <= 1e12) ||
        !(m->board_w >= 0 && m->board_w <= 1e5))
        return sg_fail(status, SG_BAD_INPUT, "compute_capability, fp32_lanes, l2_bytes or board_w is out of range");
    m->capability = (int)capability;
    m->fp32_lanes = (int)lanes;
    return SG_OK;
}

static sg_code get_facts(const sg_h5tree *g, sg_machine *m, sg_status *status) {
    int64_t units = 0;
    sg_code code = sg_h5tree_get_text(g, "name", m->name, sizeof m->name, status);
    if (!code) code = sg_h5tree_get_text(g, "title", m->title, sizeof m->title, status);
    if (!code) code = sg_h5tree_get_text(g, "device_class", m->device_class, sizeof m->device_class, status);
    if (!code) code = sg_h5tree_get_text(g, "fitted_from", m->fitted_from, sizeof m->fitted_from, status);
    if (!code) code = get_flag(g, "bf16", &m->bf16, status);
    if (!code) code = get_flag(g, "fp16", &m->fp16, status);
    if (!code) code = get_flag(g, "tf32", &m->tf32, status);
    if (!code) code = get_flag(g, "caching_allocator", &m->caching_allocator, status);
    if (!code) code = sg_h5tree_get_i64(g, "units", &units, status);
    if (!code) code = sg_h5tree_get_u64(g, "memory_bytes", &m->memory_bytes, status);
    if (!code) code = sg_h5tree_get_f64(g, "vcpus", &m->vcpus, status);
    if (!code) code = get_silicon(g, m, status);
    if (!code) code = sg_machine_tiles_from_group(g, m, status);
    if (!code) code = sg_machine_link_from_group(g, &m->link, status);
    if (code) return code;
    if (units < 0 || units > 1 << 20) return sg_fail(status, SG_BAD_INPUT, "units is out of range");
    if (!(m->vcpus >= 0 && m->vcpus <= 1e5)) return sg_fail(status, SG_BAD_INPUT, "vcpus is out of range");
    m->units = (int)units;
    if (strcmp(m->device_class, "cuda") != 0 && strcmp(m->device_class, "cpu") != 0 &&
        strcmp(m->device_class, "mps") != 0)
        return sg_fail(status, SG_BAD_INPUT, "device_class is none of cuda, cpu, mps");
    return SG_OK;
}

/* Datasets of one value per parameter of the file. */
typedef struct columns {
    const double *value, *log_sd, *evidence, *group, *covariance;
    size_t n;
    int id[SG_M_COUNT * 4]; /* this program's id of the file's i-th parameter, -1: unknown */
} columns;

static int id_of(const char *key, size_t length) {
    for (int i = 0; i < SG_M_COUNT; i++) {
        const char *known = sg_machine_key((sg_machine_id)i);
        if (strlen(known) == length && memcmp(known, key, length) == 0) return i;
    }
    return -1;
}

/* Length of the line that begins at *at (NULL: no more); moves on to the next. */
static const char *next_line(const char **at, size_t *length) {
    const char *line = *at;
    if (!line) return NULL;
    const char *end = strchr(line, '\n');
    *length = end ? (size_t)(end - line) : strlen(line);
    *at = end ? end + 1 : NULL;
    return line;
}

static sg_code get_column(const sg_h5tree *g, const char *name, size_t n, const double **out, sg_status *status) {
    size_t got = 0;
    sg_code code = sg_h5tree_get_doubles(g, name, out, &got, status);
    if (!code && got != n) return sg_fail(status, SG_BAD_INPUT, "%s holds %zu values for %zu parameters", name, got, n);
    return code;
}

static sg_code get_columns(const sg_h5tree *g, columns *c, sg_machine *m, sg_status *status) {
    const sg_h5tree_value *names = sg_h5tree_value_of(g, "parameters", SG_H5TREE_TEXT);
    const sg_h5tree_value *sources = sg_h5tree_value_of(g, "sources", SG_H5TREE_TEXT);
    if (!names || !sources) return sg_fail(status, SG_BAD_INPUT, "parameters or their sources are missing");
    const char *name_at = names->text, *source_at = sources->text;
    bool seen[SG_M_COUNT] = {false};
    size_t length, source_length;
    for (const char *line; (line = next_line(&name_at, &length));) {
        const char *source = next_line(&source_at, &source_length);
        if (!source || c->n == sizeof c->id / sizeof *c->id)
            return sg_fail(status, SG_BAD_INPUT, "parameters and sources differ in number, or are too many");
        int id = id_of(line, length);
        c->id[c->n++] = id;
        if (id < 0) continue;
        if (seen[id])
            return sg_fail(status, SG_BAD_INPUT, "parameter %s stands twice", sg_machine_key((sg_machine_id)id));
        seen[id] = true;
        size_t kept = source_length < sizeof m->p[id].source ? source_length : sizeof m->p[id].source - 1;
        memcpy(m->p[id].source, source, kept);
        m->p[id].source[kept] = 0;
    }
    sg_code code = get_column(g, "value", c->n, &c->value, status);
    if (!code) code = get_column(g, "log_sd", c->n, &c->log_sd, status);
    if (!code) code = get_column(g, "evidence", c->n, &c->evidence, status);
    if (!code) code = get_column(g, "group", c->n, &c->group, status);
    if (!code && sg_h5tree_value_of(g, "covariance", SG_H5TREE_DOUBLES))
        code = get_column(g, "covariance", c->n * c->n, &c->covariance, status);
    return code;
}

static sg_code set_parameter(sg_machine *m, const columns *c, size_t i, sg_status *status) {
    sg_machine_parameter *p = &m->p[c->id[i]];
    const char *key = sg_machine_key((sg_machine_id)c->id[i]);
    bool unknown = isnan(c->value[i]);
    if (!unknown && !(c->value[i] > 0 && c->value[i] <= 1e18))
        return sg_fail(status, SG_BAD_INPUT, "%s is no positive number", key);
    if (!(c->log_sd[i] >= 0 && c->log_sd[i] <= 100))
        return sg_fail(status, SG_BAD_INPUT, "log_sd of %s is out of range", key);
    if (!(c->evidence[i] >= 0 && c->evidence[i] < SG_EVIDENCE_COUNT) || !(c->group[i] >= 0 && c->group[i] <= 255))
        return sg_fail(status, SG_BAD_INPUT, "evidence or group of %s is out of range", key);
    p->value = c->value[i];
    p->log_sd = c->log_sd[i];
    p->evidence = (uint8_t)c->evidence[i];
    p->group = (uint8_t)c->group[i];
    return SG_OK;
}

static sg_code set_covariance(sg_machine *m, const columns *c, sg_status *status) {
    m->covariance = calloc((size_t)SG_M_COUNT * SG_M_COUNT, sizeof *m->covariance);
    if (!m->covariance) return sg_fail_memory(status, sizeof(double) * SG_M_COUNT * SG_M_COUNT, "a covariance");
    for (size_t i = 0; i < c->n; i++)
        for (size_t j = 0; j < c->n; j++) {
            double v = c->covariance[i * c->n + j], mirrored = c->covariance[j * c->n + i];
            if (!isfinite(v) || v != mirrored || (i == j && v < 0))
                return sg_fail(status, SG_BAD_INPUT, "the covariance is no symmetric matrix of finite numbers");
            if (c->id[i] >= 0 && c->id[j] >= 0) m->covariance[c->id[i] * SG_M_COUNT + c->id[j]] = v;
        }
    return SG_OK;
}

static sg_code get_measured(const sg_h5tree *g, sg_machine *m, sg_status *status) {
    enum { FIELDS = SG_SHAPE_PLACES + 2 };
    const sg_h5tree_value *found = sg_h5tree_value_of(g, "measured_shapes", SG_H5TREE_DOUBLES);
    if (!found) return SG_OK;
    if (found->n % FIELDS) return sg_fail(status, SG_BAD_INPUT, "measured_shapes are no rows of %d numbers", FIELDS);
    size_t n = found->n / FIELDS;
    sg_measured_shape *shapes = reallocarray(NULL, n ? n : 1, sizeof *shapes);
    if (!shapes) return sg_fail_memory(status, n * sizeof *shapes, "measured shapes");
    sg_code code = SG_OK;
    for (size_t i = 0; i < n && !code; i++) {
        const double *row = found->doubles + i * FIELDS;
        if (!(row[0] >= 0 && row[0] <= UINT32_MAX) || !(fabs(row[FIELDS - 1]) < 20))
            code = sg_fail(status, SG_BAD_INPUT, "measured shape %zu is out of range", i + 1);
        else
            shapes[i] = (sg_measured_shape){.shape.family = (uint32_t)row[0], .log_ratio = row[FIELDS - 1]};
        memcpy(shapes[i].shape.at, row + 1, sizeof shapes[i].shape.at);
    }
    if (!code) code = sg_measured_make(shapes, n, &m->measured, status);
    free(shapes);
    return code;
}

sg_code sg_machine_from_group(const sg_h5tree *root, sg_machine *machine, sg_status *status) {
    sg_machine_init(machine);
    const sg_h5tree *g = sg_h5tree_find(root, "machine");
    if (!g) return sg_fail(status, SG_BAD_INPUT, "reading a machine: the group \"machine\" is missing");
    columns c = {0};
    sg_code code = get_facts(g, machine, status);
    if (!code) code = get_columns(g, &c, machine, status);
    for (size_t i = 0; i < c.n && !code; i++)
        if (c.id[i] >= 0) code = set_parameter(machine, &c, i, status);
    if (!code && c.covariance) code = set_covariance(machine, &c, status);
    if (!code) code = get_measured(g, machine, status);
    if (!code) return SG_OK;
    sg_machine_clear(machine);
    return sg_fail_in(status, "reading a machine");
}
