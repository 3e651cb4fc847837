#include "calibration/loader/codec_table.h"

#include "calibration/config/config_dir.h"
#include "formats/tree.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double REFERENCE_PIXELS = 480.0 * 640;
enum { REFERENCE_GOP = 2 }; /* LeRobot's recordings */

/* Codecs nobody listed: as different from AV1 as the listed ones are from each other. */
static const double UNKNOWN_LOG_SD = 0.5;

static sg_code read_codec(const sg_tree *tree, const sg_node *node, sg_codec_cost *cost, sg_status *status) {
    static const char *const keys[] = {"relative", "fixed", "decoding", "log_sd", "source"};
    char source[256];
    sg_code code = sg_node_known(tree, node, keys, sizeof keys / sizeof *keys, status);
    if (!code) code = sg_node_real(tree, node, "relative", 1e-6, 1e3, &cost->relative, status);
    if (!code) code = sg_node_real(tree, node, "fixed", 0, 1, &cost->fixed, status);
    if (!code) code = sg_node_real(tree, node, "decoding", 0, 1, &cost->decoding, status);
    if (!code) code = sg_node_real(tree, node, "log_sd", 0, 5, &cost->log_sd, status);
    if (!code) code = sg_node_text(tree, node, "source", source, sizeof source, status);
    if (!code) (void)snprintf(cost->name, sizeof cost->name, "%.23s", node->key);
    return code;
}

sg_code sg_codec_table_load(const char *config_dir, sg_codec_table *table, sg_status *status) {
    static const char *const keys[] = {"codecs"};
    char dir[SG_PATH_BYTES], path[SG_PATH_BYTES + 16];
    memset(table, 0, sizeof *table);
    sg_tree *tree = NULL;
    const sg_node *codecs = NULL;
    sg_code code = sg_config_dir(config_dir, dir, sizeof dir, status);
    if (code) return code;
    (void)snprintf(path, sizeof path, "%s/loaders.yaml", dir);
    code = sg_tree_read(path, &tree, status);
    if (!code) code = sg_node_known(tree, sg_tree_root(tree), keys, 1, status);
    if (!code) code = sg_node_child(tree, sg_tree_root(tree), "codecs", SG_NODE_MAP, &codecs, status);
    for (const sg_node *c = code ? NULL : codecs->child; c && !code; c = c->next) {
        if (table->n == SG_CODECS_MAX)
            code = sg_node_fail(tree, c, status, "more than %d codecs", SG_CODECS_MAX);
        else if (c->kind != SG_NODE_MAP)
            code = sg_node_fail(tree, c, status, "%s: relative, fixed, log_sd and source are expected", c->key);
        else
            code = read_codec(tree, c, &table->codec[table->n++], status);
    }
    sg_tree_free(tree);
    return code;
}

static const sg_codec_cost *find(const sg_codec_table *table, const char *codec) {
    for (size_t i = 0; i < table->n; i++)
        if (strcmp(table->codec[i].name, codec) == 0) return &table->codec[i];
    return NULL;
}

sg_codec_cost sg_codec_cost_of(const sg_codec_table *table, const char *codec) {
    const sg_codec_cost *found = find(table, codec[0] ? codec : "av1");
    if (found) return *found;
    const sg_codec_cost *av1 = find(table, "av1");
    sg_codec_cost other = av1 ? *av1 : (sg_codec_cost){.relative = 1, .fixed = 0.3, .decoding = 0.6};
    (void)snprintf(other.name, sizeof other.name, "%.23s", codec);
    other.log_sd = UNKNOWN_LOG_SD;
    return other;
}

double sg_codec_decoded(int64_t gop, int64_t frames_at_once) {
    double n = (double)(frames_at_once > 1 ? frames_at_once : 1), g = (double)(gop > 0 ? gop : REFERENCE_GOP);
    return ((g - 1) / 2 + n) / n;
}

double sg_codec_frame_cost(const sg_codec_cost *codec, int64_t height, int64_t width, int64_t gop,
                           int64_t frames_at_once) {
    double pixels = (double)height * (double)width;
    double cost = codec->relative * (codec->fixed + (1 - codec->fixed) * pixels / REFERENCE_PIXELS);
    double decoded = sg_codec_decoded(gop, frames_at_once) / sg_codec_decoded(REFERENCE_GOP, 1);
    return cost * (1 - codec->decoding + codec->decoding * decoded);
}
