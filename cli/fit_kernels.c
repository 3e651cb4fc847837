/* fit --kernels: a machine from tables of kernels that were measured alone on it. */
#include "calibration/kernels/kernel_fit.h"
#include "calibration/machine/shapes_file.h"
#include "cli/fitting.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_fit(const sg_kernel_fit *fit) {
    const sg_machine *m = &fit->machine;
    printf("%s (%s): %s\n\n", m->title, m->name, m->fitted_from);
    const char *const header[] = {"parameter", "value", "unit", "+- %"};
    sg_table *table = sg_table_new(4, header);
    for (int i = 0; i < SG_M_COUNT; i++) {
        if (!fit->fitted[i]) continue;
        char value[32], error[32];
        (void)snprintf(value, sizeof value, "%.4g", m->p[i].value);
        (void)snprintf(error, sizeof error, "%.1f", 100 * m->p[i].log_sd);
        const char *const row[] = {sg_machine_key((sg_machine_id)i), value, sg_machine_unit((sg_machine_id)i), error};
        sg_table_row(table, row);
    }
    sg_table_print(table);
    if (fit->products) {
        for (int k = 0; k < SG_TILE_KIND_COUNT; k++) {
            printf("%sTiles of %s products:", k ? "" : "\n", sg_tile_kind_name((sg_tile_kind)k));
            for (int i = 0; i < m->tiles[k].n; i++)
                printf(" %dx%d", m->tiles[k].tile[i].rows, m->tiles[k].tile[i].columns);
            printf("\n");
        }
        printf("Products, each predicted without its own time: mean %.1f %%, median %.1f %%, 90 %% within %.1f %%\n",
               100 * fit->mean, 100 * fit->median, 100 * fit->p90);
    }
    if (fit->unreadable) printf("Left out: %zu rows that hold no such kernel or no time\n", fit->unreadable);
}

static json_t *json_tiles(const sg_tiles *tiles) {
    json_t *list = json_array();
    for (int i = 0; i < tiles->n; i++)
        (void)json_array_append_new(list, json_pack("[i, i]", tiles->tile[i].rows, tiles->tile[i].columns));
    return list;
}

static json_t *json_fit(const sg_kernel_fit *fit) {
    const sg_machine *m = &fit->machine;
    json_t *parameters = json_object();
    for (int i = 0; i < SG_M_COUNT; i++)
        if (fit->fitted[i])
            (void)json_object_set_new(parameters, sg_machine_key((sg_machine_id)i),
                                      json_pack("{s:f, s:f, s:s, s:s}", "value", m->p[i].value, "log_sd",
                                                m->p[i].log_sd, "unit", sg_machine_unit((sg_machine_id)i), "source",
                                                m->p[i].source));
    json_t *object = json_pack("{s:s, s:s, s:I, s:I, s:I, s:o}", "machine", m->name, "title", m->title, "products",
                               (json_int_t)fit->products, "rows", (json_int_t)fit->rows, "unreadable",
                               (json_int_t)fit->unreadable, "parameters", parameters);
    if (!fit->products) return object;
    (void)json_object_set_new(object, "tiles",
                              json_pack("{s:o, s:o}", "linear", json_tiles(&m->tiles[SG_TILES_LINEAR]), "batched",
                                        json_tiles(&m->tiles[SG_TILES_BATCHED])));
    (void)json_object_set_new(object, "left_out",
                              json_pack("{s:f, s:f, s:f}", "mean", fit->mean, "median", fit->median, "p90", fit->p90));
    return object;
}

static bool is_yaml(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

/* A data sheet and the measured shapes beside it, or a machine file with both. */
static sg_code write_fit(const char *path, const sg_kernel_fit *fit, sg_status *status) {
    if (!is_yaml(path)) return sg_machine_save(path, &fit->machine, status);
    sg_code code = sg_kernel_fit_write(path, fit, status);
    if (code || !fit->products) return code;
    size_t stem = (size_t)(strrchr(path, '.') - path);
    static const char ending[] = ".shapes";
    char *shapes = malloc(stem + sizeof ending), source[160];
    if (!shapes) return sg_fail_memory(status, stem + sizeof ending, "a path");
    memcpy(shapes, path, stem);
    memcpy(shapes + stem, ending, sizeof ending);
    (void)snprintf(source, sizeof source, "%zu fp32 products measured on %.90s", fit->products, fit->machine.title);
    code = sg_shapes_save(shapes, &fit->machine, source, status);
    free(shapes);
    return code;
}

int sg_fitting_kernels(const sg_args *args) {
    sg_status status;
    sg_kernel_fit fit;
    if (!args->device) {
        (void)sg_fail(&status, SG_BAD_INPUT,
                      "which device of the tables? Give --device NAME, a text of their column or a machine's name");
        return sg_show_error(args, &status);
    }
    int result = SG_OK;
    sg_code code =
        sg_kernel_fit_files(args->kernels.value, args->kernels.n, args->device, args->config_dir, &fit, &status);
    if (!code && args->output) code = write_fit(args->output, &fit, &status);
    if (code)
        result = sg_show_error(args, &status);
    else if (args->json)
        result = sg_json_print(json_fit(&fit), SG_OK);
    else {
        print_fit(&fit);
        if (args->output) printf("\nWritten to %s\n", args->output);
    }
    sg_kernel_fit_clear(&fit);
    return result;
}
