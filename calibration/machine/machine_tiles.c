#include "calibration/machine/machine_tiles.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_SIDE = 8, MOST_SIDE = 512 };

static bool is_side(double side) {
    return side >= LEAST_SIDE && side <= MOST_SIDE && side == floor(side);
}

static bool add_tile(sg_tiles *tiles, double rows, double columns) {
    if (tiles->n >= SG_MACHINE_TILES || !is_side(rows) || !is_side(columns)) return false;
    tiles->tile[tiles->n].rows = (int16_t)rows;
    tiles->tile[tiles->n++].columns = (int16_t)columns;
    return true;
}

static sg_code read_list(const sg_tree *tree, const sg_node *map, sg_tile_kind kind, sg_machine *m, sg_status *status) {
    const sg_node *list = NULL;
    sg_tiles tiles = {0};
    sg_code code = sg_node_child(tree, map, sg_tile_kind_name(kind), SG_NODE_LIST, &list, status);
    if (code) return code;
    for (const sg_node *c = list->child; c; c = c->next) {
        char *end = NULL;
        long rows = 0, columns = 0;
        if (c->kind == SG_NODE_SCALAR) rows = strtol(c->text, &end, 10);
        bool has_both = end && *end == 'x';
        if (has_both) columns = strtol(end + 1, &end, 10);
        if (!has_both || *end || !add_tile(&tiles, (double)rows, (double)columns))
            return sg_node_fail(tree, c, status,
                                "a tile is rows x columns, such as 128x64, of %d to %d each; at most %d of them",
                                LEAST_SIDE, MOST_SIDE, SG_MACHINE_TILES);
    }
    m->tiles[kind] = tiles;
    return SG_OK;
}

sg_code sg_machine_tiles_read(const sg_tree *tree, const sg_node *map, sg_machine *machine, sg_status *status) {
    if (!sg_node_get(map, "tiles")) return SG_OK;
    static const char *const keys[] = {"linear",       "batched",      "capability_6",  "capability_7",
                                       "capability_8", "capability_9", "capability_10", "capability_12"};
    char own[32];
    const sg_node *tiles = NULL;
    sg_code code = sg_node_child(tree, map, "tiles", SG_NODE_MAP, &tiles, status);
    if (!code) code = sg_node_known(tree, tiles, keys, sizeof keys / sizeof *keys, status);
    (void)snprintf(own, sizeof own, "capability_%d", machine->capability / 10);
    if (!code && sg_node_get(tiles, own)) code = sg_node_child(tree, tiles, own, SG_NODE_MAP, &tiles, status);
    if (!code) code = sg_node_known(tree, tiles, keys, sizeof keys / sizeof *keys, status);
    for (int k = 0; k < SG_TILE_KIND_COUNT && !code; k++)
        code = read_list(tree, tiles, (sg_tile_kind)k, machine, status);
    return code;
}

static void name_dataset(sg_tile_kind kind, char *name, size_t bytes) {
    (void)snprintf(name, bytes, "tiles_%s", sg_tile_kind_name(kind));
}

sg_code sg_machine_tiles_to_group(const sg_machine *m, sg_h5tree *group, sg_status *status) {
    for (int k = 0; k < SG_TILE_KIND_COUNT; k++) {
        double sides[2 * SG_MACHINE_TILES];
        char name[32];
        const sg_tiles *tiles = &m->tiles[k];
        name_dataset((sg_tile_kind)k, name, sizeof name);
        for (int i = 0; i < tiles->n; i++) {
            sides[2 * i] = tiles->tile[i].rows;
            sides[2 * i + 1] = tiles->tile[i].columns;
        }
        sg_code code = tiles->n ? sg_h5tree_set_doubles(group, name, sides, 2 * (size_t)tiles->n, status) : SG_OK;
        if (code) return code;
    }
    return SG_OK;
}

sg_code sg_machine_tiles_from_group(const sg_h5tree *group, sg_machine *m, sg_status *status) {
    for (int k = 0; k < SG_TILE_KIND_COUNT; k++) {
        char name[32];
        name_dataset((sg_tile_kind)k, name, sizeof name);
        const sg_h5tree_value *sides = sg_h5tree_value_of(group, name, SG_H5TREE_DOUBLES);
        sg_tiles tiles = {0};
        bool good = !sides || sides->n % 2 == 0;
        for (size_t i = 0; sides && good && i < sides->n; i += 2)
            good = add_tile(&tiles, sides->doubles[i], sides->doubles[i + 1]);
        if (!good) return sg_fail(status, SG_BAD_INPUT, "%s holds no pairs of a tile's rows and columns", name);
        m->tiles[k] = tiles;
    }
    return SG_OK;
}
