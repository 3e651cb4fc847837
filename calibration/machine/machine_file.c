#include "calibration/machine/machine_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/config/config_dir.h"
#include "calibration/machine/machine_group.h"
#include "calibration/machine/machine_link.h"
#include "calibration/machine/machine_match.h"
#include "calibration/machine/machine_tiles.h"
#include "calibration/machine/shapes_file.h"

static const char *const groups[] = {"", "compute", "memory", "host", "link", "loader", "start"};

static sg_code read_evidence(const sg_tree *tree, const sg_node *node, uint8_t *out, sg_status *status) {
    if (!sg_node_get(node, "evidence")) return SG_OK;
    char text[24];
    sg_code code = sg_node_text(tree, node, "evidence", text, sizeof text, status);
    if (code) return code;
    for (int e = 0; e < SG_EVIDENCE_COUNT; e++)
        if (strcmp(text, sg_evidence_name((sg_evidence)e)) == 0) return *out = (uint8_t)e, SG_OK;
    return sg_node_fail(tree, sg_node_get(node, "evidence"), status,
                        "\"%s\" is no evidence: observed, measured, calibrated or data sheet", text);
}

static sg_code read_group(const sg_tree *tree, const sg_node *node, uint8_t *out, sg_status *status) {
    if (!sg_node_get(node, "group")) return SG_OK;
    char text[24];
    sg_code code = sg_node_text(tree, node, "group", text, sizeof text, status);
    if (code) return code;
    for (size_t g = 1; g < sizeof groups / sizeof *groups; g++)
        if (strcmp(text, groups[g]) == 0) return *out = (uint8_t)g, SG_OK;
    return sg_node_fail(tree, sg_node_get(node, "group"), status,
                        "\"%s\" is no group: compute, memory, host, link, loader or start", text);
}

static sg_code read_parameter(const sg_tree *tree, const sg_node *node, sg_machine_parameter *out, sg_status *status) {
    static const char *const keys[] = {"value", "log_sd", "source", "group", "evidence"};
    sg_machine_parameter p = {.evidence = SG_EVIDENCE_DATA_SHEET};
    sg_code code = sg_node_known(tree, node, keys, sizeof keys / sizeof *keys, status);
    /* no parameter of a machine lies outside of these, whatever its unit */
    if (!code) code = sg_node_real(tree, node, "value", 1e-15, 1e18, &p.value, status);
    if (!code) code = sg_node_real(tree, node, "log_sd", 0, 5, &p.log_sd, status);
    if (!code) code = sg_node_text(tree, node, "source", p.source, sizeof p.source, status);
    if (!code && !p.source[0])
        code = sg_node_fail(tree, node, status, "the source is empty: say where the value is from");
    if (!code) code = read_group(tree, node, &p.group, status);
    if (!code) code = read_evidence(tree, node, &p.evidence, status);
    if (!code) *out = p;
    return code;
}

sg_code sg_machine_parameters_read(const sg_tree *tree, const sg_node *parameters, sg_machine *machine,
                                   sg_status *status) {
    const char *keys[SG_M_COUNT];
    for (int i = 0; i < SG_M_COUNT; i++) keys[i] = sg_machine_key((sg_machine_id)i);
    sg_code code = sg_node_known(tree, parameters, keys, SG_M_COUNT, status);
    for (const sg_node *c = code ? NULL : parameters->child; c && !code; c = c->next)
        for (int i = 0; i < SG_M_COUNT; i++)
            if (strcmp(keys[i], c->key) == 0) code = read_parameter(tree, c, &machine->p[i], status);
    return code;
}

/* Priors may build on others, this deep. */
enum { PRIOR_DEPTH = 4 };

static sg_code read_priors(const sg_tree *tree, const sg_node *map, const char *config_dir, int depth,
                           sg_machine *machine, sg_status *status);

static sg_code read_prior_file(const char *path, const char *config_dir, int depth, sg_machine *machine,
                               sg_status *status) {
    sg_tree *tree = NULL;
    const sg_node *parameters = NULL;
    static const char *const keys[] = {"parameters", "priors", "tiles"};
    sg_code code = sg_tree_read(path, &tree, status);
    if (!code) code = sg_node_known(tree, sg_tree_root(tree), keys, sizeof keys / sizeof *keys, status);
    if (!code) code = read_priors(tree, sg_tree_root(tree), config_dir, depth + 1, machine, status);
    if (!code) code = sg_machine_tiles_read(tree, sg_tree_root(tree), machine, status);
    if (!code) code = sg_node_child(tree, sg_tree_root(tree), "parameters", SG_NODE_MAP, &parameters, status);
    if (!code) code = sg_machine_parameters_read(tree, parameters, machine, status);
    sg_tree_free(tree);
    return code;
}

sg_code sg_machine_prior_read(const char *name, const char *config_dir, sg_machine *machine, sg_status *status) {
    char path[SG_PATH_BYTES];
    sg_code code = sg_config_find(config_dir, "priors", name, ".yaml", path, sizeof path, status);
    return code ? code : read_prior_file(path, config_dir, 0, machine, status);
}

static sg_code read_prior(const sg_tree *sheet, const sg_node *at, const char *config_dir, int depth,
                          sg_machine *machine, sg_status *status) {
    char path[SG_PATH_BYTES];
    if (depth == PRIOR_DEPTH)
        return sg_node_fail(sheet, at, status, "priors name one another too deep, or in a circle");
    if (at->kind != SG_NODE_SCALAR) return sg_node_fail(sheet, at, status, "the name of a file in priors is expected");
    sg_code code = sg_config_find(config_dir, "priors", at->text, ".yaml", path, sizeof path, status);
    if (code) {
        char place[600];
        sg_node_place(sheet, at, place, sizeof place);
        return sg_fail_in(status, "%s", place);
    }
    return read_prior_file(path, config_dir, depth, machine, status);
}

static sg_code read_priors(const sg_tree *tree, const sg_node *map, const char *config_dir, int depth,
                           sg_machine *machine, sg_status *status) {
    if (!sg_node_get(map, "priors")) return SG_OK;
    const sg_node *priors = NULL;
    sg_code code = sg_node_child(tree, map, "priors", SG_NODE_LIST, &priors, status);
    for (const sg_node *c = code ? NULL : priors->child; c && !code; c = c->next)
        code = read_prior(tree, c, config_dir, depth, machine, status);
    return code;
}

sg_code sg_machine_prior_load(const char *name, const char *config_dir, sg_machine *machine, sg_status *status) {
    char dir[SG_PATH_BYTES], path[SG_PATH_BYTES];
    sg_code code = sg_config_dir(config_dir, dir, sizeof dir, status);
    if (!code) code = sg_config_find(dir, "priors", name, ".yaml", path, sizeof path, status);
    return code ? code : read_prior_file(path, dir, 0, machine, status);
}

static sg_code read_class(const sg_tree *tree, const sg_node *root, sg_machine *m, sg_status *status) {
    sg_code code = sg_node_text(tree, root, "device_class", m->device_class, sizeof m->device_class, status);
    if (code) return code;
    if (strcmp(m->device_class, "cuda") != 0 && strcmp(m->device_class, "cpu") != 0 &&
        strcmp(m->device_class, "mps") != 0)
        return sg_node_fail(tree, sg_node_get(root, "device_class"), status, "\"%s\" is none of cuda, cpu, mps",
                            m->device_class);
    m->caching_allocator = strcmp(m->device_class, "cpu") != 0;
    return SG_OK;
}

static sg_code optional_bool(const sg_tree *tree, const sg_node *root, const char *key, bool *out, sg_status *status) {
    return sg_node_get(root, key) ? sg_node_bool(tree, root, key, out, status) : SG_OK;
}

/* Facts that physics needs beside rates; each may be missing. */
static sg_code read_silicon(const sg_tree *tree, const sg_node *root, sg_machine *m, sg_status *status) {
    int64_t capability = 0, lanes = 0;
    sg_code code = SG_OK;
    if (sg_node_get(root, "compute_capability"))
        code = sg_node_int(tree, root, "compute_capability", 10, 999, &capability, status);
    if (!code && sg_node_get(root, "fp32_lanes")) code = sg_node_int(tree, root, "fp32_lanes", 1, 1024, &lanes, status);
    if (!code && sg_node_get(root, "memory_type"))
        code = sg_node_text(tree, root, "memory_type", m->memory_type, sizeof m->memory_type, status);
    if (!code && sg_node_get(root, "l2_bytes"))
        code = sg_node_real(tree, root, "l2_bytes", 1, 1e12, &m->l2_bytes, status);
    if (!code && sg_node_get(root, "board_w")) code = sg_node_real(tree, root, "board_w", 1, 1e5, &m->board_w, status);
    m->capability = (int)capability;
    m->fp32_lanes = (int)lanes;
    return code;
}

sg_code sg_machine_from_tree(const sg_tree *tree, const char *name, const char *config_dir, sg_machine *machine,
                             sg_status *status) {
    static const char *const keys[] = {
        "title",      "device_class", "bf16",         "fp16",    "tf32",       "caching_allocator",
        "units",      "vcpus",        "memory_bytes", "priors",  "parameters", "compute_capability",
        "fp32_lanes", "memory_type",  "l2_bytes",     "board_w", "tiles",      "link"};
    const sg_node *root = sg_tree_root(tree), *parameters = NULL;
    sg_machine m;
    sg_machine_init(&m);
    (void)snprintf(m.name, sizeof m.name, "%s", name);
    int64_t units = 0, memory = 0;
    sg_code code = sg_node_known(tree, root, keys, sizeof keys / sizeof *keys, status);
    if (!code) code = sg_node_text(tree, root, "title", m.title, sizeof m.title, status);
    if (!code) code = read_class(tree, root, &m, status);
    if (!code) code = optional_bool(tree, root, "bf16", &m.bf16, status);
    if (!code) code = optional_bool(tree, root, "fp16", &m.fp16, status);
    if (!code) code = optional_bool(tree, root, "tf32", &m.tf32, status);
    if (!code) code = optional_bool(tree, root, "caching_allocator", &m.caching_allocator, status);
    if (!code && sg_node_get(root, "units")) code = sg_node_int(tree, root, "units", 1, 1 << 20, &units, status);
    if (!code && sg_node_get(root, "vcpus")) code = sg_node_real(tree, root, "vcpus", 1, 1e5, &m.vcpus, status);
    if (!code && sg_node_get(root, "memory_bytes"))
        code = sg_node_int(tree, root, "memory_bytes", 1, (int64_t)1 << 50, &memory, status);
    m.units = (int)units;
    m.memory_bytes = (uint64_t)memory;
    if (!code) code = read_silicon(tree, root, &m, status);
    if (!code) code = read_priors(tree, root, config_dir, 0, &m, status);
    if (!code) code = sg_machine_tiles_read(tree, root, &m, status);
    if (!code && sg_node_get(root, "link"))
        code = sg_machine_link_read(tree, sg_node_get(root, "link"), config_dir, &m, status);
    if (!code) code = sg_node_child(tree, root, "parameters", SG_NODE_MAP, &parameters, status);
    if (!code) code = sg_machine_parameters_read(tree, parameters, &m, status);
    if (!code) *machine = m;
    return code;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* "machines/rtx-4090.yaml" -> "rtx-4090" */
static void stem_of(const char *path, char *out, size_t bytes) {
    const char *slash = strrchr(path, '/');
    (void)snprintf(out, bytes, "%s", slash ? slash + 1 : path);
    char *dot = strrchr(out, '.');
    if (dot && dot != out) *dot = 0;
}

static sg_code load_sheet(const char *path, const char *config_dir, sg_machine *machine, sg_status *status) {
    char dir[SG_PATH_BYTES], name[sizeof machine->name];
    sg_tree *tree = NULL;
    sg_code code = sg_tree_read(path, &tree, status);
    if (code) return code;
    stem_of(path, name, sizeof name);
    /* the folder is needed for priors alone: a sheet that stands on its own works without */
    dir[0] = 0;
    if (sg_node_get(sg_tree_root(tree), "priors") || sg_node_get(sg_tree_root(tree), "link"))
        code = sg_config_dir(config_dir, dir, sizeof dir, status);
    if (!code) code = sg_machine_from_tree(tree, name, dir, machine, status);
    sg_tree_free(tree);
    if (!code) code = sg_shapes_load_beside(path, machine, status);
    return code;
}

static sg_code load_fitted(const char *path, sg_machine *machine, sg_status *status) {
    sg_h5tree *tree = NULL;
    sg_code code = sg_h5tree_load(path, &sg_machine_format, &tree, status);
    if (code) return code;
    code = sg_machine_from_group(tree, machine, status);
    sg_h5tree_free(tree);
    return code ? sg_fail_in(status, "%s", path) : SG_OK;
}

sg_code sg_machine_load(const char *name_or_path, const char *config_dir, sg_machine *machine, sg_status *status) {
    sg_machine_init(machine);
    const char *n = name_or_path;
    if (!n || !*n) return sg_fail(status, SG_BAD_INPUT, "loading a machine: no name was given");
    if (ends_with(n, ".h5")) return load_fitted(n, machine, status);
    if (strchr(n, '/') || ends_with(n, ".yaml") || ends_with(n, ".yml"))
        return load_sheet(n, config_dir, machine, status);
    char dir[SG_PATH_BYTES], path[SG_PATH_BYTES], sheet[sizeof machine->name];
    sg_code code = sg_config_dir(config_dir, dir, sizeof dir, status);
    if (!code) code = sg_machine_name_find(dir, n, sheet, sizeof sheet, status);
    if (!code) code = sg_config_find(dir, "machines", sheet, ".yaml", path, sizeof path, status);
    if (!code) code = load_sheet(path, dir, machine, status);
    return code;
}

sg_code sg_machine_save(const char *path, const sg_machine *machine, sg_status *status) {
    sg_h5tree *tree = sg_h5tree_new(status);
    if (!tree) return SG_MACHINE;
    sg_code code = sg_machine_to_group(machine, tree, status);
    if (!code) code = sg_h5tree_save(path, &sg_machine_format, tree, status);
    sg_h5tree_free(tree);
    return code;
}
