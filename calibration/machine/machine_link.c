#include "calibration/machine/machine_link.h"

#include <math.h>
#include <string.h>

#include "calibration/config/config_dir.h"
#include "calibration/machine/machine_file.h"

/* ---- data sheets --------------------------------------------------------------------------------------------------- */

static sg_code read_topology(const sg_tree *tree, const sg_node *map, sg_link *link, sg_status *status) {
    char text[16];
    sg_code code = sg_node_text(tree, map, "topology", text, sizeof text, status);
    if (code) return code;
    for (int t = 0; t < SG_TOPOLOGY_COUNT; t++)
        if (strcmp(text, sg_topology_name((sg_topology)t)) == 0) return link->topology = (uint8_t)t, SG_OK;
    return sg_node_fail(tree, sg_node_get(map, "topology"), status,
                        "\"%s\" is no topology: bus, switch, mesh, pairs, peer or host", text);
}

static sg_code read_optional_int(const sg_tree *tree, const sg_node *map, const char *key, int *out,
                                 sg_status *status) {
    if (!sg_node_get(map, key)) return SG_OK;
    int64_t v = 0;
    sg_code code = sg_node_int(tree, map, key, 1, 1 << 20, &v, status);
    if (!code) *out = (int)v;
    return code;
}

static sg_code read_by_ranks(const sg_tree *tree, const sg_node *map, sg_link *link, sg_status *status) {
    static const char *const keys[] = {"ranks", "start", "time", "power"};
    const sg_node *list;
    if (!sg_node_get(map, "by_ranks")) return SG_OK;
    sg_code code = sg_node_child(tree, map, "by_ranks", SG_NODE_LIST, &list, status);
    for (const sg_node *c = code ? NULL : list->child; c && !code; c = c->next) {
        int64_t ranks = 0;
        double start = 1, time = 1, power = 0;
        code = sg_node_known(tree, c, keys, sizeof keys / sizeof *keys, status);
        if (!code) code = sg_node_int(tree, c, "ranks", 2, SG_LINK_RANKS, &ranks, status);
        if (!code && sg_node_get(c, "start")) code = sg_node_real(tree, c, "start", 0.01, 100, &start, status);
        if (!code && sg_node_get(c, "time")) code = sg_node_real(tree, c, "time", 0.01, 100, &time, status);
        if (!code && sg_node_get(c, "power")) code = sg_node_real(tree, c, "power", -0.5, 0.5, &power, status);
        if (code) return code;
        link->by_ranks[ranks].start = start;
        link->by_ranks[ranks].time = time;
        link->by_ranks[ranks].power = power;
    }
    return code;
}

static sg_code read_spread(const sg_tree *tree, const sg_node *map, sg_link *link, sg_status *status) {
    static const char *const sizes[SG_LINK_SIZES] = {"below_4_mib", "below_16_mib", "below_64_mib", "below_256_mib",
                                                     "above"};
    const sg_node *spread;
    if (!sg_node_get(map, "spread")) return SG_OK;
    sg_code code = sg_node_child(tree, map, "spread", SG_NODE_MAP, &spread, status);
    if (!code) code = sg_node_known(tree, spread, sizes, SG_LINK_SIZES, status);
    for (int i = 0; i < SG_LINK_SIZES && !code; i++)
        code = sg_node_real(tree, spread, sizes[i], 1e-6, 5, &link->spread[i], status);
    return code;
}

static sg_code read_map(const sg_tree *tree, const sg_node *map, sg_machine *machine, sg_status *status) {
    static const char *const keys[] = {"topology", "gpus_per_node", "switch_ranks", "by_ranks", "spread", "parameters"};
    const sg_node *parameters;
    sg_link link = machine->link;
    sg_code code = sg_node_known(tree, map, keys, sizeof keys / sizeof *keys, status);
    if (!code) code = read_topology(tree, map, &link, status);
    if (!code) code = read_optional_int(tree, map, "gpus_per_node", &link.gpus_per_node, status);
    if (!code) code = read_optional_int(tree, map, "switch_ranks", &link.switch_ranks, status);
    if (!code) code = read_by_ranks(tree, map, &link, status);
    if (!code) code = read_spread(tree, map, &link, status);
    if (!code) code = sg_node_child(tree, map, "parameters", SG_NODE_MAP, &parameters, status);
    if (!code) code = sg_machine_parameters_read(tree, parameters, machine, status);
    if (!code) machine->link = link;
    return code;
}

sg_code sg_machine_link_read(const sg_tree *sheet, const sg_node *at, const char *config_dir, sg_machine *machine,
                             sg_status *status) {
    if (at->kind == SG_NODE_MAP) return read_map(sheet, at, machine, status);
    if (at->kind != SG_NODE_SCALAR)
        return sg_node_fail(sheet, at, status, "the name of a file in links, or what it would hold, is expected");
    char path[SG_PATH_BYTES];
    sg_tree *tree = NULL;
    sg_code code = sg_config_find(config_dir, "links", at->text, ".yaml", path, sizeof path, status);
    if (code) {
        char place[600];
        sg_node_place(sheet, at, place, sizeof place);
        return sg_fail_in(status, "%s", place);
    }
    code = sg_tree_read(path, &tree, status);
    if (!code) code = read_map(tree, sg_tree_root(tree), machine, status);
    sg_tree_free(tree);
    return code;
}

/* ---- machine files ------------------------------------------------------------------------------------------------- */

enum { PER_RANKS = 3, BY_RANKS = PER_RANKS * (SG_LINK_RANKS + 1) };

sg_code sg_machine_link_to_group(const sg_link *link, sg_h5tree *g, sg_status *status) {
    double by_ranks[BY_RANKS];
    for (int n = 0; n <= SG_LINK_RANKS; n++) {
        by_ranks[PER_RANKS * n] = link->by_ranks[n].start;
        by_ranks[PER_RANKS * n + 1] = link->by_ranks[n].time;
        by_ranks[PER_RANKS * n + 2] = link->by_ranks[n].power;
    }
    sg_code code = sg_h5tree_set_i64(g, "topology", link->topology, status);
    if (!code) code = sg_h5tree_set_i64(g, "gpus_per_node", link->gpus_per_node, status);
    if (!code) code = sg_h5tree_set_i64(g, "switch_ranks", link->switch_ranks, status);
    if (!code) code = sg_h5tree_set_doubles(g, "link_by_ranks", by_ranks, BY_RANKS, status);
    if (!code) code = sg_h5tree_set_doubles(g, "link_spread", link->spread, SG_LINK_SIZES, status);
    return code;
}

static sg_code get_numbers(const sg_h5tree *g, sg_link *link, sg_status *status) {
    const double *by_ranks, *spread;
    size_t n_ranks = 0, n_sizes = 0;
    sg_code code = sg_h5tree_get_doubles(g, "link_by_ranks", &by_ranks, &n_ranks, status);
    if (!code) code = sg_h5tree_get_doubles(g, "link_spread", &spread, &n_sizes, status);
    if (code) return code;
    if (n_ranks != BY_RANKS || n_sizes != SG_LINK_SIZES)
        return sg_fail(status, SG_BAD_INPUT, "link_by_ranks or link_spread holds another number of values");
    for (size_t i = 0; i < n_ranks; i++) {
        double v = by_ranks[i];
        if (i % PER_RANKS == 2 ? !(v >= -0.5 && v <= 0.5) : !(v >= 0.01 && v <= 100))
            return sg_fail(status, SG_BAD_INPUT, "link_by_ranks: %g is out of range", v);
    }
    for (size_t i = 0; i < n_sizes; i++)
        if (!(spread[i] >= 0 && spread[i] <= 5))
            return sg_fail(status, SG_BAD_INPUT, "link_spread: %g is out of range", spread[i]);
    for (int n = 0; n <= SG_LINK_RANKS; n++) {
        link->by_ranks[n].start = by_ranks[PER_RANKS * n];
        link->by_ranks[n].time = by_ranks[PER_RANKS * n + 1];
        link->by_ranks[n].power = by_ranks[PER_RANKS * n + 2];
    }
    memcpy(link->spread, spread, sizeof link->spread);
    return SG_OK;
}

sg_code sg_machine_link_from_group(const sg_h5tree *g, sg_link *link, sg_status *status) {
    if (!sg_h5tree_value_of(g, "topology", SG_H5TREE_I64)) return SG_OK;
    int64_t topology = 0, per_node = 0, switch_ranks = 0;
    sg_code code = sg_h5tree_get_i64(g, "topology", &topology, status);
    if (!code) code = sg_h5tree_get_i64(g, "gpus_per_node", &per_node, status);
    if (!code) code = sg_h5tree_get_i64(g, "switch_ranks", &switch_ranks, status);
    if (code) return code;
    if (topology < 0 || topology >= SG_TOPOLOGY_COUNT || per_node < 0 || per_node > 1 << 20 || switch_ranks < 0 ||
        switch_ranks > 1 << 20)
        return sg_fail(status, SG_BAD_INPUT, "topology, gpus_per_node or switch_ranks is out of range");
    link->topology = (uint8_t)topology;
    link->gpus_per_node = (int)per_node;
    link->switch_ranks = (int)switch_ranks;
    return get_numbers(g, link, status);
}
